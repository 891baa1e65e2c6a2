"""Posterior: what every inference method returns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

import numpy as np

from bayeskern.core import validation
from bayeskern.hyperparameters import PointEstimate
from bayeskern.inference.approximation.proposals import Approximation
from bayeskern.inference.approximation.psis import Weights, pareto_smooth
from bayeskern.inference.assessment import latent_laplace
from bayeskern.inference.estimate import Estimate
from bayeskern.inference.findings import Findings
from bayeskern.inference.model.checks.forgotten_data import forgets_data
from bayeskern.inference.model.evaluation import constrain, join_chains, log_densities
from bayeskern.inference.model.marginalized import Marginalized
from bayeskern.inference.model.target import Target
from bayeskern.inference.model.trace.arguments import model_arguments
from bayeskern.inference.optimization.modes import Optimum
from bayeskern.inference.posterior import (
    arviz,
    expectation,
    log_likelihood,
    netcdf,
    predictive,
    summary,
)
from bayeskern.inference.posterior.expectation import Expectation
from bayeskern.inference.result import REGION, Fit
from bayeskern.inference.verdict import Trust
from bayeskern.prediction.empirical import SampledPrediction
from bayeskern.prediction.mixture import Prediction

# Log ratios that span more than this have no digits left.
OVERFLOWS = 1e15
# Weighted draws of most weight, which are places for chains to visit.
MAX_HEAVIEST = 20
# Advice on a model that is called with data and observes none of them.
IS_PRIOR = (
    "No site is observed, so that this is the prior: pass obs= to the site that the data belong to."
)


@dataclass(frozen=True, eq=False)
class Posterior:
    """Draws from a posterior, or its mode as a single draw, and how far to trust them.

    Attributes:
        method: The name of the method.
        draws: Each latent and deterministic site as an array (chains, draws, *site), equally
            weighted.
        fit: What the method handed back, in unconstrained coordinates.
        target: The model and its data; None where it was loaded without the model.
        weighted: Draws, each (S, *site), and log weights (S,) that sum to one, where there are
            weights.
        log_evidence: log p(data) with its standard error, where it is known and the prior is
            proper.
        timing: Seconds by part: "compile", "run" and "total"; "sampling" is that of NUTS, warmup
            and all, without compilation.
        coords: Labels along named axes, as ArviZ takes them.
        dims: Names for the axes of sites, beside those that plates give.
        seed: The seed of the fit, where known.
        progress: Whether long work on it shows a bar.
    """

    method: str
    draws: dict[str, np.ndarray]
    fit: Fit
    target: Target | None
    weighted: tuple[dict[str, np.ndarray], np.ndarray] | None = None
    log_evidence: Estimate | None = None
    timing: dict[str, float] = field(default_factory=dict)
    coords: dict = field(default_factory=dict)
    dims: dict = field(default_factory=dict)
    seed: int | None = None
    progress: bool = False

    @classmethod
    def of(cls, method: str, fit: Fit, target: Target, timing=None, **known) -> Posterior:
        """The sites at the draws of a fit of a target. known: other fields."""
        target = fit.target or target
        # The stopwatch of the whole fit may still run, and writes into this when it stops.
        timing = {} if timing is None else timing
        timing.update(fit.timing)
        sites_at: Callable = partial(constrain, target)
        if fit.marginalized is not None:
            sites_at = fit.marginalized.draws
        weighted = None
        if fit.weighted is not None:
            z, log_weights = fit.weighted
            weighted = ({name: v[0] for name, v in sites_at(z[None]).items()}, log_weights)
        return cls(
            method=fit.method or method,
            draws=sites_at(fit.z) if fit.draws is None else fit.draws,
            fit=fit,
            target=target,
            weighted=weighted,
            # An improper prior leaves the evidence without a scale.
            log_evidence=None if target.without_scale else fit.log_evidence,
            timing=timing,
            **known,
        )

    # -- what the method knows --------------------------------------------------------------------

    @property
    def z(self) -> np.ndarray:
        """The draws in unconstrained coordinates of what the method ran on: (chains, draws, d)."""
        return self.fit.z

    @property
    def log_q(self) -> np.ndarray | None:
        """log q(z) of draws from a known density, `approximation`: (S,)."""
        return self.fit.log_q

    @property
    def approximation(self) -> Approximation | None:
        """The density q that the draws come from, where there is one."""
        return self.fit.approximation

    @property
    def optimum(self) -> Optimum | None:
        """The mode, where one was looked for."""
        return self.fit.optimum

    @cached_property
    def findings(self) -> Findings:
        """Modes and places of the posterior that are known from this fit and earlier ones.

        `NUTS(known=posterior.findings)` has chains visit it.
        """
        findings, coordinates = self.fit.findings, self.fitted_target.coordinates
        if self.optimum is not None:
            findings |= Findings((self.optimum,))
        if self.fit.weighted is not None:
            z, log_weights = self.fit.weighted
            heaviest = np.argsort(-log_weights, kind="stable")[:MAX_HEAVIEST]
            findings |= Findings.at(coordinates, z[heaviest])
        return findings

    @property
    def trace(self) -> dict[str, np.ndarray]:
        """Numbers by step of the method, such as the ELBO."""
        return self.fit.trace

    @property
    def sample_stats(self) -> dict[str, np.ndarray]:
        """Statistics of draws by ArviZ's names, each (chains, draws)."""
        return self.fit.sample_stats

    @property
    def attempts(self) -> tuple:
        """What `auto` tried: method, seconds, verdict and reason of each."""
        return self.fit.attempts

    @property
    def marginalized(self) -> Marginalized | None:
        """The marginal that the method ran on, where the model offers one."""
        return self.fit.marginalized

    @property
    def known_target(self) -> Target:
        """The model and its data; ValueError where it was loaded without the model."""
        self.require_model()
        assert self.target is not None
        return self.target

    @property
    def fitted_target(self) -> Target:
        """The target whose coordinates z are: the model's own, or its marginal."""
        return self.known_target if self.marginalized is None else self.marginalized.target

    @cached_property
    def fitted_draws(self) -> dict[str, np.ndarray]:
        """The draws of what the method moved over, with chains joined: each site (S, *site)."""
        if self.marginalized is None:
            return self.flat
        return join_chains(constrain(self.fitted_target, self.z))

    # -- how far to trust it ----------------------------------------------------------------------

    @cached_property
    def trust(self) -> Trust:
        """The verdict on these draws, and the evidence for it."""
        trust = latent_laplace.assess_latent_laplace(self, self.fit.assess(self))
        usable = trust.verdict in ("good", "caution")
        # A posterior that was loaded without its model has the verdict of then.
        if not usable or self.target is None or not forgets_data(self.target):
            return trust
        advice = IS_PRIOR if trust.verdict == "good" else f"{IS_PRIOR} {trust.advice}"
        return replace(trust, verdict="caution", advice=advice)

    @cached_property
    def log_p(self) -> np.ndarray | None:
        """log p(z) of draws from a known density: (S,); None where there is none."""
        return None if self.log_q is None else self.log_p_of_first(self.z.shape[1])

    def log_p_of_first(self, count: int) -> np.ndarray:
        """log p(z) of the first draws from a known density, each computed once: (count,)."""
        known = sum(map(len, self._log_p_parts))
        if known < count:
            z = self.z[0, known:count]
            self._log_p_parts.append(log_densities(self.fitted_target, z, self.progress))
        return np.concatenate(self._log_p_parts)[:count]

    @cached_property
    def _log_p_parts(self) -> list[np.ndarray]:
        """log p(z) as far as it was asked for, stretch by stretch."""
        return []

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

    @cached_property
    def importance_weights(self) -> Weights | None:
        """The smoothed weights p / q of the draws; None where q is unknown, or they overflow."""
        log_ratios = self.log_ratios
        if log_ratios is None or not np.nanmax(log_ratios) - np.nanmin(log_ratios) < OVERFLOWS:
            return None
        return pareto_smooth(log_ratios)

    # -- its draws --------------------------------------------------------------------------------

    @property
    def shape(self) -> tuple[int, int]:
        """How many chains there are, and how many draws each of them has."""
        return next(iter(self.draws.values())).shape[:2]

    @property
    def is_point(self) -> bool:
        """Whether this is a single point, such as a mode, which has no spread."""
        return self.shape == (1, 1)

    @property
    def is_mcmc(self) -> bool:
        """True if the draws come from Markov chains."""
        return "diverging" in self.sample_stats

    @property
    def has_chains(self) -> bool:
        """True if the draws are Markov chains as they ran, not resampled by region."""
        return self.is_mcmc and REGION not in self.sample_stats

    @property
    def flat(self) -> dict[str, np.ndarray]:
        """The draws with chains joined: each site (chains x draws, *site)."""
        return join_chains(self.draws)

    def point(self, statistic: str = "mean") -> PointEstimate:
        """One value for each site, for whatever takes a kernel of numbers.

        `kernel.at(posterior.point("mean"))` is the kernel of a model with those values in it.

        Args:
            statistic: "mean" or "median", over all draws.

        Returns:
            A dict of arrays by site, each of the shape of the site.

        Raises:
            ValueError: If the statistic is neither.
        """
        statistics = {"mean": np.mean, "median": np.median}
        average = statistics[validation.one_of("statistic", statistic, statistics)]
        return PointEstimate(
            {name: average(draws, axis=(0, 1)) for name, draws in self.draws.items()}
        )

    # -- what follows from them -------------------------------------------------------------------

    def expectation(self, f: Callable) -> Expectation:
        """E[f] under the posterior, with its Monte Carlo standard error.

        Weighted draws give sum w f, self-normalised, and its error by the delta method; Markov
        chains the mean, with the error that their effective sample size leaves; particles the
        mean, with the error that their ancestors and islands leave; independent draws
        sd / sqrt(S). That is the error of drawing alone: `trust` says how far the draws are from
        the posterior.

        Args:
            f: A function of one draw, a dict of values by site, written in JAX: to a number, an
                array or a truth value, whose expectation is a probability.

        Returns:
            Value and error, each of the shape of f; and k-hat where draws are weighted.

        Raises:
            ValueError: If f asks for a site that is not there, or is NaN or infinite at a draw.
            TypeError: If JAX cannot trace f.

        References:
            Owen (2013), "Monte Carlo theory, methods and examples", equations 9.6 and 9.8; Vehtari
            and others (2021), "Rank-normalization, folding, and localization", for chains.

        Examples:
            >>> import bayeskern as bk
            >>> coin = bk.BetaBernoulli(1.0, 1.0)
            >>> posterior = bk.infer(coin, [1, 1, 0, 1], method="exact", seed=0)
            >>> print(posterior.expectation(lambda draw: draw["p"] > 0.5))
            0.80625 ± 0.0063
        """
        return expectation.expectation(self, f)

    def predict(
        self,
        *new_args,
        seed: int = 0,
        extend: bool = False,
        model_kwargs: dict | None = None,
        **kwargs,
    ) -> Prediction | SampledPrediction:
        """The posterior predictive at new arguments of the model.

        It is in closed form for each draw where the model offers `predictive` or observes a
        `GaussianProcess`. Otherwise observations are drawn, one for each draw of the posterior (a
        thousand for a point estimate). Data among the arguments do not matter: their sites are
        drawn anew, but for those that others depend on, such as a covariate with a distribution of
        its own, which stay as they are given. In a `scan` under `condition`, the steps that have
        data stay at them, and those after are drawn.

        Args:
            *new_args: The arguments of the model, for new data.
            seed: A whole number from which everything random follows.
            extend: Where a plate of latents has more members than in the fit, draw those that come
                after the old ones from their prior given the draw: new groups, a longer horizon.
            model_kwargs: Named arguments of the model that have the name of an option here.
            **kwargs: Other named arguments of the model; `latent=True` where it offers that.

        Returns:
            A `Prediction`, or a `SampledPrediction`; a dict of them by site where the model
            observes several.

        Raises:
            ValueError: If a latent has another shape at the new arguments, naming the site; if
                `seed` may be meant for the model.
        """
        model, options = self.known_target.model, {"seed": seed, "extend": extend}
        named = model_arguments(self.predict, model, new_args, kwargs, model_kwargs, options)
        return predictive.predict(self, new_args, seed, extend, named)

    def deterministics(
        self,
        *new_args,
        seed: int = 0,
        extend: bool = False,
        model_kwargs: dict | None = None,
        **kwargs,
    ) -> dict[str, np.ndarray]:
        """The deterministic sites at new arguments of the model, at each draw.

        Args:
            *new_args: The arguments of the model, for new data, as in `predict`.
            seed: What observations that they depend on are drawn from.
            extend: As in `predict`.
            model_kwargs: Named arguments of the model that have the name of an option here.
            **kwargs: Other named arguments of the model.

        Returns:
            Each deterministic site, chains joined: (S, *site). Empty where there are none.

        Raises:
            ValueError: As `predict` does.
        """
        model, options = self.known_target.model, {"seed": seed, "extend": extend}
        named = model_arguments(self.deterministics, model, new_args, kwargs, model_kwargs, options)
        return predictive.deterministics(self, new_args, seed, extend, named)

    def infer_discrete(self, seed: int = 0) -> dict[str, np.ndarray]:
        """The discrete sites that were summed out, drawn given the data, one for each draw.

        Args:
            seed: A whole number from which they follow.

        Returns:
            Each discrete site, chains joined: (S, *site). Empty where there are none.

        Raises:
            ValueError: If they are the states of a `scan`, which NumPyro does not draw.
        """
        self.require_model()
        return predictive.infer_discrete(self, seed)

    def require_model(self) -> None:
        """Raise ValueError where the model is not known, as of a fit that was read from a file."""

    def replicates(self, count: int) -> dict[str, np.ndarray]:
        """New data at the model's own arguments, at `count` evenly spaced draws, chains joined.

        Returns:
            Each site (count, *data); empty where the model cannot draw its own observations.
        """
        return predictive.replicates_at(self, count)

    def log_likelihood(self) -> dict[str, np.ndarray]:
        """log p(y_i | draw), observation by observation.

        Observations under `.to_event` are taken apart, masked ones are left out, and plates that
        are subsampled count in full, unscaled; a `numpyro.factor` is no observation. For a
        `GaussianProcess` it is log p(y_i | the others, draw), at up to 200 evenly spaced draws
        (Buerkner, Gabry and Vehtari 2021). Where discrete latents were summed out it is
        log p(y_i | the others, draw) too, and events are not taken apart.

        Returns:
            For each observed site (chains, draws, *data).

        Raises:
            ValueError: If this is a point estimate, or a discrete latent that was summed out ties
                several observations together.
        """
        return log_likelihood.log_likelihood(self)

    def observed(self) -> dict[str, np.ndarray]:
        """The observations that it was fitted to, by site."""
        return arviz.observed(self)

    def to_arviz(self):
        """An xarray DataTree with the groups that ArviZ knows, its axes named.

        Returns:
            The groups posterior, sample_stats, log_likelihood, posterior_predictive, prior,
            prior_predictive, observed_data and constant_data, as far as the model and the method
            have them.
        """
        return arviz.to_arviz(self)

    def summary(self, **options):
        """A table of means, sds and intervals of all sites.

        R-hat and effective sample sizes are shown for MCMC only. Numbers are shown to the second
        digit of their sd; the table itself keeps all digits.

        Args:
            **options: Options of `arviz.summary`.

        Returns:
            A pandas data frame with a row for each number.
        """
        return summary.summary(self, arviz.parameters(self), **options)

    def save(self, path) -> None:
        """Write it to a netCDF file, which `bk.load`, ArviZ and xarray can read.

        Args:
            path: The name of the file; it is written whole or not at all.

        Raises:
            OSError: If the path is a folder or cannot be written to.
        """
        netcdf.save(self, path)

    def __repr__(self) -> str:
        sites = ", ".join(f"{k}{list(v.shape[2:]) or ''}" for k, v in self.draws.items())
        chains, count = self.shape
        head = f"Posterior(method={self.method!r}, {chains} x {count} draws of {sites})"
        return f"{head}\n{self.trust!r}"
