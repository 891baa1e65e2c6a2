"""Base class of the inference methods."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

from bayeskern.inference.model.target import Target
from bayeskern.inference.result import Fit


class Method(ABC):
    """A method that draws from the posterior of a target, with a verdict.

    A subclass is a frozen dataclass of options with a `name` and a `run`. It sees targets as log
    densities over unconstrained coordinates; other structure that a model offers
    (`bayeskern.protocols`) has been used before `run` is called.

    Attributes:
        name: Name of the method, in `posterior.method` and in tables.
        is_point: True if the method finds a single point, which has no spread.
        takes_marginal: True if the method runs on the marginal that a model offers, rather than
            on the model as it is written.
        runs_side_by_side: True if `run_many` is cheaper than `run` for each target.
        reads_arguments: True if the method itself reads the arguments of the model, as a
            user-defined guide does, so that other data must come as arguments.
    """

    name: ClassVar[str]
    is_point: ClassVar[bool] = False
    takes_marginal: ClassVar[bool] = True
    runs_side_by_side: ClassVar[bool] = False
    reads_arguments: ClassVar[bool] = False

    def __init_subclass__(cls, **options: Any):
        super().__init_subclass__(**options)
        # A subclass with a `run` of its own must not be run by the `run_many` of its parent.
        if "run" in cls.__dict__ and "run_many" not in cls.__dict__:
            cls.run_many = Method.run_many
            cls.runs_side_by_side = False

    @property
    def form(self) -> str:
        """Name of the method whose form of a model is used, where a model has several."""
        return self.name

    @abstractmethod
    def run(self, target: Target, seed: int, progress: bool) -> Fit:
        """Fit one target.

        Args:
            target: The log density, `target.log_density(z)` for z of shape (target.size,).
            seed: Seed of all random numbers, a whole number.
            progress: True to show a progress bar, on a terminal.

        Returns:
            `Fit(z=..., assess=...)`, the draws and their assessment.

        Raises:
            DoesNotApplyError: If the method cannot fit a model of this kind.
        """

    def run_many(self, targets: Sequence[Target], seeds: Sequence[int]) -> list[Fit]:
        """Fit targets that differ in their data only, as in `calibrate`.

        Args:
            targets: The targets.
            seeds: A seed for each.

        Returns:
            For each target and seed, the fit that `run` would return.
        """
        return [self.run(target, seed, False) for target, seed in zip(targets, seeds, strict=True)]
