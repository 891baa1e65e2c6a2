"""Point estimates: the posterior mode and the maximum of the likelihood."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bayeskern.inference.assessment.point import assess_optimum
from bayeskern.inference.methods.base import Method
from bayeskern.inference.model.target import Target
from bayeskern.inference.model.trace.imputed import gaps_of
from bayeskern.inference.result import Fit, KnownVerdict
from bayeskern.inference.search.modes import Optimum
from bayeskern.inference.search.search import find_optimum
from bayeskern.inference.verdict import Trust
from bayeskern.protocols import DoesNotApplyError, HasMode


@dataclass(frozen=True)
class MAP(Method):
    """The mode of the posterior density, by L-BFGS from several starts.

    Args:
        starts: Number of starts; by default 4, or 1 if the density takes about a second or more.
            The first is at the median of the prior (at the given value for `Free`); half of the
            others are the prior draws of highest density, half are random prior draws. A start
            without a finite density and gradient is replaced by a draw from the prior that has
            both, or by a uniform draw on (-2, 2)^d. With more than one start, rounds of further
            searches begin at unexplained draws, unless d is large or the density takes about a
            tenth of a second or more.
        jacobian: False for the mode in the parameters of the model, True for the mode in
            unconstrained coordinates. For Gamma(3, 1) these are 2 and 3.
        steps: Maximum number of L-BFGS steps.
        checkpoint: File for the state of the search. An interrupted search resumes from it with the
            same result; a search that needs more steps continues from it with larger `steps`.

    Raises:
        ValueError: If starts or steps is not a whole number of at least 1; in `infer`, if the
            checkpoint belongs to another run.

    Examples:
        >>> import numpyro, numpyro.distributions as dist, bayeskern as bk
        >>> def model():
        ...     numpyro.sample("rate", dist.Gamma(3.0, 1.0))
        >>> mode = bk.infer(model, method=bk.MAP()).point()["rate"]
        >>> print(mode.round(3))
        2.0
    """

    starts: int | None = None
    jacobian: bool = False
    steps: int = 1000
    checkpoint: str | Path | None = None

    name = "map"
    use = "a first estimate, large Gaussian processes"
    counts = ("starts", "steps")
    is_point = True

    def run(self, target: Target, seed: int, progress: bool) -> Fit:
        if isinstance(target.model, HasMode):
            mode = target.model.mode(*target.args, jacobian=self.jacobian)
            if mode is not None:
                z = np.asarray(target.unconstrain(mode)[0])
                advice = "Mode from the model's own solver; a point estimate has no uncertainty."
                verdict = Trust("not assessable", advice, {})
                return Fit(z=z[None, None], assess=KnownVerdict(verdict))
        search = (self.starts, seed, self.steps, progress, self.jacobian)
        return _fit_at(find_optimum(target, *search, checkpoint=self.checkpoint))


@dataclass(frozen=True)
class MLE(Method):
    """Maximum likelihood estimate: the priors of latent sites are ignored.

    The likelihood consists of the observed sites and the `numpyro.factor` terms. If latents are
    integrated out, as in `GPRegression`, the estimate is type-II maximum likelihood. It does not
    depend on the parametrisation.

    Args:
        starts: Number of starts, as in `MAP`.
        steps: Maximum number of L-BFGS steps.
        checkpoint: A file for the search, as in `MAP`.

    Raises:
        ValueError: If starts or steps is not a whole number of at least 1; in `infer`, if the
            checkpoint belongs to another run.
    """

    starts: int | None = None
    steps: int = 1000
    checkpoint: str | Path | None = None

    name = "mle"
    use = "a fit without priors"
    counts = ("starts", "steps")
    is_point = True
    uses_priors = False

    def run(self, target: Target, seed: int, progress: bool) -> Fit:
        imputed = [gap.site for gap in gaps_of(target.model) if gap.latent]
        if imputed:
            raise DoesNotApplyError(
                f"method='mle' drops the densities of latents, and the missing values of "
                f"{', '.join(map(repr, imputed))} are latents. Take method='map' or 'laplace', or "
                "leave these rows out."
            )
        improper = sorted(set(target.without_prior) - set(target.without_scale))
        if improper:
            raise DoesNotApplyError(
                f"{', '.join(map(repr, improper))}: an unnormalised log density is not a "
                "likelihood. Take method='map'."
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
    return Fit(z=optimum.z[None, None], assess=assess_optimum, optimum=optimum)
