"""Draws from a posterior with the results of the method, and their densities."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from bayeskern.inference.approximation.proposals import Approximation
from bayeskern.inference.approximation.psis import Weights, pareto_smooth
from bayeskern.inference.estimate import Estimate
from bayeskern.inference.findings import Findings
from bayeskern.inference.known_marginal import KnownMarginal
from bayeskern.inference.model.evaluation import constrain, join_chains, log_densities
from bayeskern.inference.model.marginalized import Marginalized
from bayeskern.inference.model.target import Target
from bayeskern.inference.optimization.modes import Optimum
from bayeskern.inference.posterior.missing import integrated_gaps, missing_draws
from bayeskern.inference.result import REGION, Fit

if TYPE_CHECKING:
    from bayeskern.inference.methods.base import Method


@dataclass(frozen=True, eq=False)
class PosteriorDraws:
    """Draws from a posterior, or its mode as one draw, with results of the method.

    `Posterior` documents the fields.
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
    made_by: Method | None = None
    progress: bool = False

    @classmethod
    def of(
        cls,
        method: str,
        fit: Fit,
        target: Target,
        timing: dict[str, float] | None = None,
        **known: Any,
    ) -> Self:
        """The posterior of a fit, with the sites at its draws.

        Args:
            method: Name of the method.
            fit: The fit.
            target: The target that was passed to the method.
            timing: Seconds by part.
            **known: Other fields.
        """
        target = fit.target or target
        # The stopwatch of the whole fit may still run, and writes into `timing` when it stops.
        timing = {} if timing is None else timing
        timing.update(fit.timing)
        to_sites: Callable = partial(_sites_at, target, known.get("seed") or 0)
        if fit.marginalized is not None:
            to_sites = fit.marginalized.draws
        weighted = None
        if fit.weighted is not None:
            z, log_weights = fit.weighted
            weighted = ({name: v[0] for name, v in to_sites(z[None]).items()}, log_weights)
        return cls(
            method=fit.method or method,
            draws=to_sites(fit.z) if fit.draws is None else fit.draws,
            fit=fit,
            target=target,
            weighted=weighted,
            # With an improper prior, the evidence has no scale.
            log_evidence=None if target.without_scale else fit.log_evidence,
            timing=timing,
            **known,
        )

    # -- results of the method --------------------------------------------------------------------

    @property
    def z(self) -> np.ndarray:
        """Draws in the unconstrained coordinates of `fitted_target`: (chains, draws, d)."""
        return self.fit.z

    @property
    def log_q(self) -> np.ndarray | None:
        """log q(z) of draws from a known density, `approximation`: (S,)."""
        return self.fit.log_q

    @property
    def approximation(self) -> Approximation | None:
        """Density q of the draws, or of the proposal before resampling; None if unknown."""
        return self.fit.approximation

    @property
    def marginals(self) -> dict[str, KnownMarginal]:
        """Known marginal distributions by site, such as those of conjugate models."""
        return self.fit.marginals

    @property
    def optimum(self) -> Optimum | None:
        """The best mode; None without a search for modes."""
        return self.fit.optimum

    @cached_property
    def findings(self) -> Findings:
        """Modes and other points of the posterior, known from this fit and earlier fits.

        Chains of `NUTS(known=posterior.findings)` visit them.
        """
        findings, coordinates = self.fit.findings, self.fitted_target.coordinates
        if self.optimum is not None:
            findings |= Findings((self.optimum,))
        if self.fit.weighted is not None:
            z, log_weights = self.fit.weighted
            heaviest = np.argsort(-log_weights, kind="stable")[:20]
            findings |= Findings.at(coordinates, z[heaviest])
        return findings

    @property
    def trace(self) -> dict[str, np.ndarray]:
        """Values at each step of the method, such as the ELBO."""
        return self.fit.trace

    @property
    def sample_stats(self) -> dict[str, np.ndarray]:
        """Statistics of draws by ArviZ's names, each (chains, draws)."""
        return self.fit.sample_stats

    @property
    def attempts(self) -> tuple:
        """Attempts of `auto`: method, seconds, verdict and reason of each."""
        return self.fit.attempts

    @property
    def marginalized(self) -> Marginalized | None:
        """The marginal that the method ran on; None if it ran on the model itself."""
        return self.fit.marginalized

    @property
    def known_target(self) -> Target:
        """The model and its data; ValueError if loaded without the model."""
        self.require_model()
        assert self.target is not None
        return self.target

    @property
    def fitted_target(self) -> Target:
        """The target with the coordinates z: the model, or its marginal."""
        return self.known_target if self.marginalized is None else self.marginalized.target

    @cached_property
    def fitted_draws(self) -> dict[str, np.ndarray]:
        """Draws of the sites of `fitted_target`, with chains joined: each site (S, *site)."""
        if self.marginalized is None:
            integrated_out = integrated_gaps(self.target)
            return {name: draws for name, draws in self.flat.items() if name not in integrated_out}
        return join_chains(constrain(self.fitted_target, self.z))

    def require_model(self) -> None:
        """Raise ValueError if the model is unknown, as after loading a file without it."""

    # -- densities ---------------------------------------------------------------------------------

    @cached_property
    def log_p(self) -> np.ndarray | None:
        """log p(z) of draws from a known density, (S,); None if the density is unknown."""
        return None if self.log_q is None else self.log_p_of_first(self.z.shape[1])

    def log_p_of_first(self, count: int) -> np.ndarray:
        """log p(z) of the first `count` draws from a known density, (count,).

        The log density of each draw is computed once.
        """
        computed = sum(map(len, self._log_p_parts))
        if computed < count:
            z = self.z[0, computed:count]
            self._log_p_parts.append(log_densities(self.fitted_target, z, self.progress))
        return np.concatenate(self._log_p_parts)[:count]

    @cached_property
    def _log_p_parts(self) -> list[np.ndarray]:
        """log p(z) of consecutive parts of the draws, computed so far."""
        return []

    @property
    def log_ratios(self) -> np.ndarray | None:
        """log p(z) - log q(z) of the draws, (S,); None if q is unknown."""
        log_p, log_q = self.log_p, self.log_q
        return None if log_p is None or log_q is None else log_p - log_q

    @property
    def elbo(self) -> Estimate | None:
        """E_q[log p - log q], at most the log evidence, and its standard error."""
        log_ratios = self.log_ratios
        if log_ratios is None:
            return None
        with np.errstate(invalid="ignore"):
            # If the density is zero at a draw, the ELBO is -inf and its error NaN.
            error = np.std(log_ratios) / np.sqrt(len(log_ratios))
        return Estimate(float(np.mean(log_ratios)), float(error))

    @cached_property
    def importance_weights(self) -> Weights | None:
        """Smoothed weights p / q of draws; None if q is unknown or weights overflow."""
        log_ratios = self.log_ratios
        # Log ratios with a larger range have no significant digits left.
        if log_ratios is None or not np.nanmax(log_ratios) - np.nanmin(log_ratios) < 1e15:
            return None
        return pareto_smooth(log_ratios)

    # -- draws ------------------------------------------------------------------------------------

    @property
    def shape(self) -> tuple[int, int]:
        """Number of chains, and number of draws in each chain."""
        return next(iter(self.draws.values())).shape[:2]

    @property
    def is_point(self) -> bool:
        """True for a single point, such as a mode, which has no spread."""
        return self.shape == (1, 1)

    @property
    def is_mcmc(self) -> bool:
        """True if the draws come from Markov chains."""
        # Draws of other methods, and draws without an order, are a single row.
        return "diverging" in self.sample_stats or self.shape[0] > 1

    @property
    def has_chains(self) -> bool:
        """True if the draws are Markov chains as they ran, not resampled by region."""
        return self.is_mcmc and REGION not in self.sample_stats

    @property
    def flat(self) -> dict[str, np.ndarray]:
        """Draws with chains joined: each site (chains x draws, *site)."""
        return join_chains(self.draws)


def _sites_at(target: Target, seed: int, z: np.ndarray) -> dict[str, np.ndarray]:
    """Latents, deterministics and missing observations at z (chains, draws, d)."""
    sites = constrain(target, z)
    return sites | missing_draws(target, sites, z.shape[:2], seed)
