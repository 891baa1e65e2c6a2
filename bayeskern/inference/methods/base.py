"""Base class of the inference methods."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

from bayeskern.core import validation
from bayeskern.inference.model import forms
from bayeskern.inference.model.target import Target
from bayeskern.inference.result import Fit


class Method(ABC):
    """A method that draws from the posterior of a target, with a verdict.

    A subclass is a frozen dataclass of options with a `name` and a `run`. The first line of its
    docstring says in tables of methods what it does. It sees a target as a log density over
    unconstrained coordinates; other structure of a model (`bayeskern.protocols`) is used before
    `run` is called.

    Attributes:
        name: Name of the method, in `posterior.method` and in tables.
        use: Problems that the method suits, for tables of methods.
        counts: Names of the options that are whole numbers of at least 1, or None.
        is_point: True if the method finds a single point, which has no spread.
        takes_marginal: True to run on the marginalised form of a model, if the model offers one.
        runs_side_by_side: True if `run_many` is cheaper than `run` for each target.
        samples_latents: True if the method copes with many latents, so that a model with several
            forms, such as `LatentGP`, need not integrate them out.
        uses_priors: False if the method drops the prior densities of the latents.
        reads_arguments: True if the method itself reads the arguments of the model, as a
            user-defined guide does; new data must then be passed as arguments.
    """

    name: ClassVar[str]
    use: ClassVar[str] = ""
    counts: ClassVar[tuple[str, ...]] = ()
    is_point: ClassVar[bool] = False
    takes_marginal: ClassVar[bool] = True
    runs_side_by_side: ClassVar[bool] = False
    samples_latents: ClassVar[bool] = False
    uses_priors: ClassVar[bool] = True
    reads_arguments: ClassVar[bool] = False

    def __init_subclass__(cls, **options: Any):
        super().__init_subclass__(**options)
        # A subclass that overrides `run` must not inherit the `run_many` of its parent.
        if "run" in cls.__dict__ and "run_many" not in cls.__dict__:
            cls.run_many = Method.run_many
            cls.runs_side_by_side = False

    def __post_init__(self) -> None:
        for name in self.counts:
            if getattr(self, name) is not None:
                validation.positive_integer(getattr(self, name), name)

    @property
    def centres(self) -> bool:
        """True to run on the form of a model with non-centred location-scale sites."""
        return False

    def form_of(self, target: Target) -> Target:
        """Target of the form of its model for this method, if the model has several forms."""
        return forms.for_method(target, self.name, self.samples_latents, self.uses_priors)

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
        """Fit targets that differ only in their data, as in `calibrate`.

        Args:
            targets: The targets.
            seeds: A seed for each target.

        Returns:
            For each target and seed, the fit that `run` would return.
        """
        return [self.run(target, seed, False) for target, seed in zip(targets, seeds, strict=True)]
