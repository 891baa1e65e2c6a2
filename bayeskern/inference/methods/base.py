"""What every inference method extends."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from bayeskern.inference.model.target import Target
from bayeskern.inference.result import Fit


class Method(ABC):
    """A way from a target to draws of its posterior, with a verdict on them.

    A subclass is a frozen dataclass of options with a `name` and a `run`. Targets come to it as
    log densities over unconstrained coordinates; what a model offers beyond that
    (`bayeskern.protocols`) has been made use of before `run` is called.

    Attributes:
        name: What the method is called, in `posterior.method` and in tables.
        is_point: Whether it finds a single point, which has no spread.
        takes_marginal: Whether it runs on the marginal that a model offers, rather than on the
            model as it is written.
        runs_side_by_side: Whether `run_many` is cheaper than `run` for each target.
        reads_arguments: Whether the method itself looks at the arguments of the model, as a guide
            by hand does, so that other data must come as arguments.
    """

    name: ClassVar[str]
    is_point: ClassVar[bool] = False
    takes_marginal: ClassVar[bool] = True
    runs_side_by_side: ClassVar[bool] = False
    reads_arguments: ClassVar[bool] = False

    def __init_subclass__(cls, **options):
        super().__init_subclass__(**options)
        # A subclass with a `run` of its own must not be run by the `run_many` of its parent.
        if "run" in cls.__dict__ and "run_many" not in cls.__dict__:
            cls.run_many = Method.run_many
            cls.runs_side_by_side = False

    @property
    def form(self) -> str:
        """The method whose form of a model this one runs on, where a model has several."""
        return self.name

    @abstractmethod
    def run(self, target: Target, seed: int, progress: bool) -> Fit:
        """Fit one target.

        Args:
            target: The log density, `target.log_density(z)` for z of shape (target.size,).
            seed: A whole number from which everything random follows.
            progress: Whether to show a bar, on a terminal.

        Returns:
            `Fit(z=..., assess=...)`, the draws and how to assess them.

        Raises:
            DoesNotApplyError: If the method cannot fit a model of this kind.
        """

    def run_many(self, targets: Sequence[Target], seeds: Sequence[int]) -> list[Fit]:
        """Fit targets that differ in their data only, as `calibrate` has them.

        Each fit is what `run` would return for that target and seed.
        """
        return [self.run(target, seed, False) for target, seed in zip(targets, seeds, strict=True)]
