"""Posterior: what every inference backend returns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, partial

import numpy as np

from bayeskern.core import validation
from bayeskern.hyperparameters import PointEstimate
from bayeskern.inference.approximation.proposals import Approximation, log_densities
from bayeskern.inference.assessment import latent_laplace
from bayeskern.inference.methods.marginalization import Reduced
from bayeskern.inference.model.constrain import constrain
from bayeskern.inference.model.target import Target
from bayeskern.inference.optimization.modes import Optimum
from bayeskern.inference.posterior import arviz, log_likelihood, predictive
from bayeskern.inference.result import Estimate, Fit
from bayeskern.inference.verdict import Trust
from bayeskern.prediction.empirical import SampledPrediction
from bayeskern.prediction.mixture import Prediction


@dataclass(frozen=True, eq=False)
class Posterior:
    """Draws from a posterior, or its mode as a single draw, and how far to trust them.

    draws: each latent and deterministic site as an array chain x draw x shape, equally weighted.
    weighted: (draws, each (S, shape); log weights (S,) that sum to one), where there are weights.
    log_evidence: log p(data) with its standard error. judge: makes `trust` when it is first asked
    for. optimum: the mode, where one was looked for. z: the draws in unconstrained coordinates,
    (chains, draws, d), and log_q: log q(z) where they come from a known density, which is
    `approximation`. reduced: what the method ran on, where the model offers a marginal; z are its
    coordinates. trace: numbers by step, such as the ELBO. sample_stats: by ArviZ's names.
    attempts: what `auto` tried. progress: whether long work on it shows a bar. timing: seconds, by
    part ("sampling" is that of NUTS, warmup and all, without compilation). coords, dims: as ArviZ
    takes them. seed: of the fit, where known.
    """

    method: str
    draws: dict[str, np.ndarray]
    judge: Callable[[Posterior], Trust]
    target: Target | None
    timing: dict[str, float] = field(default_factory=dict)
    optimum: Optimum | None = None
    z: np.ndarray | None = None
    log_q: np.ndarray | None = None
    approximation: Approximation | None = None
    reduced: Reduced | None = None
    weighted: tuple[dict[str, np.ndarray], np.ndarray] | None = None
    log_evidence: Estimate | None = None
    trace: dict[str, np.ndarray] = field(default_factory=dict)
    sample_stats: dict[str, np.ndarray] = field(default_factory=dict)
    attempts: tuple = ()
    coords: dict = field(default_factory=dict)
    dims: dict = field(default_factory=dict)
    seed: int | None = None
    progress: bool = False

    @classmethod
    def of(
        cls,
        method: str,
        fit: Fit,
        target: Target,
        timing,
        coords=None,
        dims=None,
        seed=None,
        progress: bool = False,
    ) -> Posterior:
        """Constrain what a backend has found."""
        target, weighted = fit.target or target, None
        # The stopwatch of the whole fit still runs, and writes into this when it stops.
        timing.update(fit.timing)
        sites = partial(constrain, target) if fit.reduced is None else fit.reduced.draws
        if fit.weighted is not None:
            z, log_weights = fit.weighted
            weighted = ({k: v[0] for k, v in sites(z[None]).items()}, log_weights)
        return cls(
            method=fit.method or method,
            draws=sites(fit.z) if fit.draws is None else fit.draws,
            judge=fit.judge,
            target=target,
            timing=timing,
            optimum=fit.optimum,
            z=fit.z,
            log_q=fit.log_q,
            approximation=fit.approximation,
            reduced=fit.reduced,
            weighted=weighted,
            # An improper prior leaves the evidence without a scale.
            log_evidence=None if target.without_prior else fit.log_evidence,
            trace=fit.trace,
            sample_stats=fit.sample_stats,
            attempts=fit.attempts,
            coords=dict(coords or {}),
            dims=dict(dims or {}),
            seed=seed,
            progress=progress,
        )

    @cached_property
    def trust(self) -> Trust:
        """The verdict on these draws, and the evidence for it."""
        return latent_laplace.judged(self, self.judge(self))

    @property
    def searched(self) -> Target:
        """What z are the coordinates of: the target itself, or its marginal."""
        return self.target if self.reduced is None else self.reduced.target

    @cached_property
    def searched_draws(self) -> dict[str, np.ndarray]:
        """The draws of what the method moved over, with chains joined: each site (S, shape)."""
        if self.reduced is None:
            return self.flat
        return {k: v.reshape(-1, *v.shape[2:]) for k, v in constrain(self.searched, self.z).items()}

    @cached_property
    def log_p(self) -> np.ndarray | None:
        """log p(z) of draws from a known density: (S,); None where there is none."""
        if self.log_q is None:
            return None
        return log_densities(self.searched, self.z[0], self.progress)

    @property
    def log_ratios(self) -> np.ndarray | None:
        """log p(z) - log q(z) of the draws: (S,); None where they come from no known density."""
        return None if self.log_q is None else self.log_p - self.log_q

    @property
    def elbo(self) -> Estimate | None:
        """E_q[log p - log q], at most the log evidence, and its standard error."""
        if self.log_ratios is None:
            return None
        with np.errstate(invalid="ignore"):
            # Infinite where a draw has no density; then its error is not known.
            error = np.std(self.log_ratios) / np.sqrt(len(self.log_ratios))
        return Estimate(float(np.mean(self.log_ratios)), float(error))

    @property
    def is_point(self) -> bool:
        """Whether this is a single point, such as a mode, which has no spread."""
        chains, count = next(iter(self.draws.values())).shape[:2]
        return chains * count == 1

    @property
    def flat(self) -> dict[str, np.ndarray]:
        """The draws with chains joined: each site (chains x draws, shape)."""
        return {k: v.reshape(-1, *v.shape[2:]) for k, v in self.draws.items()}

    def predict(self, *new_args, seed: int = 0, **kwargs) -> Prediction | SampledPrediction:
        """The posterior predictive at new arguments of the model.

        A Prediction, in closed form for each draw, where the model offers `predictive` or observes
        a `GaussianProcess`. Otherwise observations are drawn, one for each draw of the posterior (a
        thousand for a point estimate): a SampledPrediction, or a dict of them where the model has
        several sites. Data among the arguments do not matter: their sites are drawn anew.

        Raises ValueError, naming the site, if a latent has another shape at the new arguments.
        """
        return predictive.predict(self, new_args, seed, kwargs)

    def log_likelihood(self) -> dict[str, np.ndarray]:
        """log p(y_i | draw), observation by observation: for each site (chains, draws, shape).

        Observations under `.to_event` are taken apart, those that are masked out left out,
        `numpyro.factor` is no observation, and plates that are subsampled count in full, unscaled.
        For a `GaussianProcess` it is log p(y_i | the others, draw), at up to 200 evenly spaced
        draws. Raises ValueError for a point estimate.
        """
        return log_likelihood.log_likelihood(self)

    def point(self, statistic: str = "mean") -> PointEstimate:
        """The posterior "mean" or "median" of each site.

        `kernel.at(posterior.point("mean"))` is the kernel of a model with those values in it, for
        whatever takes a kernel of numbers.
        """
        of = {"mean": np.mean, "median": np.median}
        of = of[validation.one_of("statistic", statistic, of)]
        return PointEstimate({name: of(draws, axis=(0, 1)) for name, draws in self.draws.items()})

    def observed(self) -> dict[str, np.ndarray]:
        """The observations that it was fitted to, by site."""
        return arviz.observed(self)

    def to_arviz(self):
        """An xarray DataTree with the groups that ArviZ knows, its axes named."""
        return arviz.to_arviz(self)

    def summary(self, **options):
        """A table of means, sds and intervals of all sites: `az.summary` with its options.

        R-hat and effective sample sizes are shown for MCMC only.
        """
        return arviz.summary(self, arviz.parameters(self), **options)

    def save(self, path) -> None:
        """Write it to a netCDF file, which `bk.load`, ArviZ and xarray can read."""
        from bayeskern.inference.posterior.netcdf import save

        save(self, path)

    def __repr__(self) -> str:
        sites = ", ".join(f"{k}{list(v.shape[2:]) or ''}" for k, v in self.draws.items())
        chains, count = next(iter(self.draws.values())).shape[:2]
        head = f"Posterior(method={self.method!r}, {chains} x {count} draws of {sites})"
        return f"{head}\n{self.trust!r}"
