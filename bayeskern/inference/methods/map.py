"""Point estimates: the posterior mode and the maximum of the likelihood."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bayeskern.core import validation
from bayeskern.inference.assessment.point import assess_point
from bayeskern.inference.methods.base import Method
from bayeskern.inference.model.target import Target
from bayeskern.inference.optimization.modes import Optimum
from bayeskern.inference.optimization.search import find_optimum
from bayeskern.inference.result import Fit
from bayeskern.inference.verdict import Trust
from bayeskern.protocols import DoesNotApplyError, HasMode


@dataclass(frozen=True)
class MAP(Method):
    """The mode of the posterior density, by L-BFGS from several starts.

    Args:
        starts: Number of starts. The first is at the median of the prior (at the given value for
            `Free`); half of the others are the best of many draws from the prior, half are any
            draws. A start without a finite density and gradient is replaced by a draw from the
            prior that has both, or by a uniform draw on (-2, 2)^d. With more than one start, as
            many more searches follow from draws that the modes do not explain.
        jacobian: False for the mode in the model's own parameters, True for the mode in the
            unconstrained ones: Gamma(3, 1) has its mode at 2 in the first sense, 3 in the second.
        steps: Steps of L-BFGS, at most.
        checkpoint: A file that is kept up to date, and from which a killed search continues to the
            same end. A search that was too short continues with more steps.

    Raises:
        ValueError: If starts or steps is not a whole number of at least 1; in `infer`, if the
            checkpoint is of another run.

    Examples:
        >>> import numpyro, numpyro.distributions as dist, bayeskern as bk
        >>> def model():
        ...     numpyro.sample("rate", dist.Gamma(3.0, 1.0))
        >>> mode = bk.infer(model, method=bk.MAP()).point()["rate"]
        >>> print(mode.round(3))
        2.0
    """

    starts: int = 4
    jacobian: bool = False
    steps: int = 1000
    checkpoint: str | Path | None = None

    name = "map"
    is_point = True

    def __post_init__(self) -> None:
        validation.positive_integer(self.starts, "starts")
        validation.positive_integer(self.steps, "steps")

    def run(self, target: Target, seed: int, progress: bool) -> Fit:
        if isinstance(target.model, HasMode):
            mode = target.model.mode(*target.args, jacobian=self.jacobian)
            if mode is not None:
                # By the solver of the model itself.
                z = np.asarray(target.unconstrain(mode)[0])
                advice = "The mode, by the model's own solver; a point carries no uncertainty."
                verdict = Trust("not assessable", advice, {})
                return Fit(z=z[None, None], assess=lambda _: verdict)
        search = (self.starts, seed, self.steps, progress, self.jacobian)
        return _fit_at(find_optimum(target, *search, checkpoint=self.checkpoint))


@dataclass(frozen=True)
class MLE(Method):
    """The maximum of the likelihood: the densities of latent sites are left out.

    Observed sites and factors count. Where latents are integrated out, as in `GPRegression`, it is
    type-II maximum likelihood. It does not depend on the parametrisation.

    Args:
        starts: Number of starts, as in `MAP`.
        steps: Steps of L-BFGS, at most.
        checkpoint: A file for the search, as in `MAP`.

    Raises:
        ValueError: If starts or steps is not a whole number of at least 1; in `infer`, if the
            checkpoint is of another run.
    """

    starts: int = 4
    steps: int = 1000
    checkpoint: str | Path | None = None

    name = "mle"
    is_point = True

    def __post_init__(self) -> None:
        validation.positive_integer(self.starts, "starts")
        validation.positive_integer(self.steps, "steps")

    def run(self, target: Target, seed: int, progress: bool) -> Fit:
        bare = sorted(set(target.without_prior) - set(target.without_scale))
        if bare:
            raise DoesNotApplyError(
                f"{', '.join(map(repr, bare))} has a bare log density, which is no likelihood. "
                "Take method='map'."
            )
        optimum = find_optimum(
            target,
            self.starts,
            seed,
            self.steps,
            progress,
            jacobian=False,
            prior=False,
            title="MLE",
            checkpoint=self.checkpoint,
        )
        return _fit_at(optimum)


def _fit_at(optimum: Optimum) -> Fit:
    """Fit of a single point."""
    return Fit(z=optimum.z[None, None], assess=lambda _: assess_point(optimum), optimum=optimum)
