"""Result of a method, and the contract of its assessment."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np

from bayeskern.inference.approximation.proposals import Approximation
from bayeskern.inference.approximation.psis import Weights, pareto_smooth
from bayeskern.inference.estimate import Estimate
from bayeskern.inference.findings import Findings
from bayeskern.inference.known_marginal import KnownMarginal
from bayeskern.inference.model.evaluation import LogDensities, constrain, join_chains
from bayeskern.inference.model.exchangeable import Exchanges
from bayeskern.inference.model.marginalized import Marginalized
from bayeskern.inference.model.target import Target
from bayeskern.inference.model.trace.imputed import Gap, gaps_of
from bayeskern.inference.search.modes import Optimum
from bayeskern.inference.verdict import Trust

# Sample statistic that numbers the region of each draw, if draws were resampled by region.
REGION = "region"
# Sample statistics that number the ancestor and the island of each draw of SMC.
ANCESTOR, ISLAND = "ancestor", "island"
# Chains with larger unconstrained coordinates diverge to infinity.
MAX_COORDINATE = 1e30


class Assessment(Protocol):
    """Verdict of a method on its own draws.

    It is called once, with the posterior of the fit, when the verdict is first requested. It does
    not change the posterior, and returns the same verdict for the same draws. It is picklable: a
    function at the top level of a module, or a frozen dataclass.
    """

    def __call__(self, posterior: Fit, /) -> Trust:
        """Verdict on the draws, with its evidence."""
        ...


@dataclass(frozen=True)
class KnownVerdict:
    """Assessment of draws whose verdict is known.

    Attributes:
        trust: The verdict.
    """

    trust: Trust

    def __call__(self, posterior: Fit, /) -> Trust:
        return self.trust


class Region(NamedTuple):
    """Part of a posterior that chains do not leave.

    Attributes:
        chains: Indices of the chains that stayed in it; empty if no chain did.
        z: Draws in the region, (chains, n, d).
        share: Its share of the posterior; NaN if unknown.
    """

    chains: tuple[int, ...]
    z: np.ndarray
    share: Estimate


@dataclass(frozen=True, eq=False)
class Explored:
    """Result of a search for regions that draws have missed.

    Attributes:
        regions: Regions of the draws, and further regions found by the search, with exchangeable
            members sorted into one order.
        unvisited: Number of points that the search found and no chain visited.
        exchanges: Exchangeable members of the model.
        in_one_order: True if the draws do not have all orders of exchangeable members.
        evidence: Evidence on the search.
    """

    regions: Sequence[Region] = ()
    unvisited: int = 0
    exchanges: Exchanges = field(default_factory=Exchanges)
    in_one_order: bool = False
    evidence: dict[str, Any] = field(default_factory=dict)


class MovedDraws(NamedTuple):
    """Draws before and after some steps of a Markov chain from each.

    Attributes:
        start: Draws before the first step, (n, d).
        end: The same draws after the last step, (n, d).
        steps: Number of steps.
        diverged: True for a draw of which a step diverged, (n,).
    """

    start: np.ndarray
    end: np.ndarray
    steps: int
    diverged: np.ndarray

    @classmethod
    def pooled(cls, batches: Sequence[MovedDraws]) -> MovedDraws:
        """Draws of several batches; the number of steps is the smallest."""
        starts, ends, steps, diverged = zip(*batches, strict=True)
        return cls(
            np.concatenate(starts), np.concatenate(ends), min(steps), np.concatenate(diverged)
        )


@dataclass(frozen=True, eq=False)
class Fit:
    """Draws in unconstrained coordinates z, with the results that a method has about them.

    A method sets `z`, `assess` and the results that it has. `Posterior.from_fit` completes them by
    the sites at the draws and by the fields of the call.

    Attributes:
        z: Equally weighted draws in the coordinates of `fitted_target`, (chains, draws, d); a point
            estimate is (1, 1, d).
        assess: Computes the verdict, when it is first requested.
        weighted_z: Weighted draws (S, d) and their log weights (S,), normalised; None if
            unweighted.
        log_q: log q(z) of each draw, (draws,), if the draws come from `approximation`.
        approximation: Density q of the draws, or of the proposal before resampling; None if
            unknown.
        draws: Sites, each (chains, draws, *site); empty if they are computed from z.
        log_evidence: log p(data) with its standard error, if the method estimates it.
        marginals: Known marginal distributions by site, such as those of conjugate models.
        optimum: Best mode; None without a search for modes.
        findings: Modes and other points of the posterior, known from this fit and earlier fits.
            Chains of `NUTS(known=posterior.findings)` visit them. A method leaves out `optimum` and
            `weighted_z`, which are added.
        trace: Values at each step of the method, such as the ELBO.
        sample_stats: Statistics of draws by ArviZ's names, each (chains, draws).
        attempts: Attempts of `auto`: method, seconds, verdict and reason of each.
        method: Name of the method that was used; "" for the requested method.
        timing: Seconds by part, for parts that the method times itself.
        target: Form of the model that was fitted; None for the model as passed.
        marginalized: The marginal that the method ran on; None if it ran on the model itself.
        continuation: Function of a number of further draws of each chain, and of True for a
            progress bar, to the fit with them; None if the run cannot go on.
        weighted: Weighted draws as sites, each (S, *site), and their log weights (S,), normalised;
            None if unweighted, or if they are computed from `weighted_z`.
        coords: Labels along named axes, in ArviZ's form.
        dims: Names of the axes of sites that are not plates.
        seed: Seed of the fit; None if unknown.
        made_by: The method with its options; None if unknown.
        progress: True to show a progress bar.
    """

    z: np.ndarray
    assess: Assessment
    weighted_z: tuple[np.ndarray, np.ndarray] | None = None
    log_q: np.ndarray | None = None
    approximation: Approximation | None = None
    draws: dict[str, np.ndarray] = field(default_factory=dict)
    log_evidence: Estimate | None = None
    marginals: dict[str, KnownMarginal] = field(default_factory=dict)
    optimum: Optimum | None = None
    findings: Findings = field(default_factory=Findings)
    trace: dict[str, np.ndarray] = field(default_factory=dict)
    sample_stats: dict[str, np.ndarray] = field(default_factory=dict)
    attempts: tuple = ()
    method: str = ""
    timing: dict[str, float] = field(default_factory=dict)
    target: Target | None = None
    marginalized: Marginalized | None = None
    continuation: Callable[[int, bool], Fit] | None = None
    weighted: tuple[dict[str, np.ndarray], np.ndarray] | None = None
    coords: dict = field(default_factory=dict)
    dims: dict = field(default_factory=dict)
    seed: int | None = None
    made_by: Any = None
    progress: bool = False

    @property
    def trust(self) -> Trust:
        """Verdict of the method on its own draws."""
        return self.assess(self)

    # -- model ------------------------------------------------------------------------------------

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

    def require_model(self) -> None:
        """Raise ValueError if the model is unknown, as after loading a file without it."""

    @property
    def gaps(self) -> tuple[Gap, ...]:
        """Missing values of the model."""
        return () if self.target is None else gaps_of(self.target.model)

    @property
    def missing_values(self) -> dict[str, np.ndarray]:
        """Masks of the missing observations, by site; empty if none was imputed.

        Their draws are `draws["<site>_missing"]`. They count neither in the log likelihood nor in
        leave-one-out cross-validation.
        """
        return {gap.site: gap.missing.value for gap in self.gaps}

    # -- densities ---------------------------------------------------------------------------------

    @cached_property
    def log_p(self) -> np.ndarray | None:
        """log p(z) of draws from a known density, (S,); None if the density is unknown."""
        return None if self.log_q is None else self.log_p_of_first(self.z.shape[1])

    def log_p_of_first(self, count: int) -> np.ndarray:
        """log p(z) of the first `count` draws from a known density, (count,)."""
        return self._log_densities.first(count)

    @cached_property
    def _log_densities(self) -> LogDensities:
        return LogDensities(self.fitted_target, self.z[0], self.progress)

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

    @cached_property
    def fitted_draws(self) -> dict[str, np.ndarray]:
        """Draws of the sites of `fitted_target`, with chains joined: each site (S, *site)."""
        if self.marginalized is not None:
            return join_chains(constrain(self.fitted_target, self.z))
        integrated_out = {gap.name for gap in self.gaps if not gap.latent}
        return {name: draws for name, draws in self.flat.items() if name not in integrated_out}
