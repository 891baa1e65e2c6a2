"""Result of a method, before it becomes a Posterior, and the contract of its assessment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from bayeskern.inference.approximation.proposals import Approximation
from bayeskern.inference.estimate import Estimate
from bayeskern.inference.findings import Findings
from bayeskern.inference.known_marginal import KnownMarginal
from bayeskern.inference.model.marginalized import Marginalized
from bayeskern.inference.model.target import Target
from bayeskern.inference.optimization.modes import Optimum
from bayeskern.inference.verdict import Trust

if TYPE_CHECKING:
    from bayeskern.inference.posterior.posterior import Posterior

# Sample statistic that numbers the region of each draw, if draws were resampled by region.
REGION = "region"
# Sample statistics that number the ancestor and the island of each draw of SMC.
ANCESTOR, ISLAND = "ancestor", "island"
# Chains with larger unconstrained coordinates diverge to infinity.
MAX_COORDINATE = 1e30


# Posterior passed to an assessment, before its verdict is known.
type Assessable = Posterior


class Assessment(Protocol):
    """Verdict of a method on its own draws.

    It is called once, with the posterior of the fit, when the verdict is first requested. It does
    not change the posterior, and returns the same verdict for the same draws. It is picklable: a
    function at the top level of a module, a `partial` of one, or an instance.
    """

    def __call__(self, posterior: Assessable, /) -> Trust:
        """Verdict on the draws, with its evidence."""
        ...


@dataclass(frozen=True)
class KnownVerdict:
    """Assessment of draws whose verdict is known.

    Attributes:
        trust: The verdict.
    """

    trust: Trust

    def __call__(self, posterior: Assessable, /) -> Trust:
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


class Moved(NamedTuple):
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
    def pooled(cls, batches: Sequence[Moved]) -> Moved:
        """Draws of several batches; the number of steps is the smallest."""
        starts, ends, steps, diverged = zip(*batches, strict=True)
        return cls(
            np.concatenate(starts), np.concatenate(ends), min(steps), np.concatenate(diverged)
        )


class Continuable(Protocol):
    """A finished run that can go on."""

    def extended(self, draws: int, progress: bool) -> Fit:
        """Fit with further draws of each chain."""
        ...


@dataclass(frozen=True, eq=False)
class Fit:
    """Draws in unconstrained coordinates z, with the results that a method has about them.

    Attributes:
        z: Equally weighted draws, (chains, draws, d); a point estimate is (1, 1, d).
        assess: Computes the verdict, when it is first requested.
        weighted: Weighted draws (S, d) and their log weights (S,), normalised; None if unweighted.
        log_q: log q(z) of each draw, (draws,), if the draws come from `approximation`.
        approximation: Density q of the draws, or of the proposal before resampling.
        draws: Sites, each (chains, draws, *site); None if they are computed from z.
        log_evidence: log p(data) with its standard error, if the method estimates it.
        marginals: Marginal distributions of sites, if they are known by name.
        optimum: Best mode, if the method searched for modes.
        findings: Findings of earlier fits and of this fit, in addition to `optimum` and `weighted`.
        trace: Values at each step of the method, such as the ELBO.
        sample_stats: Statistics of draws by ArviZ's names, each (chains, draws).
        attempts: Attempts of `auto`.
        method: Method that was used, if it differs from the requested method.
        timing: Seconds by part, for parts that the method times itself.
        target: Form of the model that was fitted; None for the model as passed.
        marginalized: Marginal of the fitted form, if the method ran on it.
        continuation: The run, if it can go on.
    """

    z: np.ndarray
    assess: Assessment
    weighted: tuple[np.ndarray, np.ndarray] | None = None
    log_q: np.ndarray | None = None
    approximation: Approximation | None = None
    draws: dict[str, np.ndarray] | None = None
    log_evidence: Estimate | None = None
    marginals: dict[str, KnownMarginal] = field(default_factory=dict)
    optimum: Optimum | None = None
    findings: Findings = field(default_factory=Findings)
    trace: dict[str, np.ndarray] = field(default_factory=dict)
    sample_stats: dict[str, np.ndarray] = field(default_factory=dict)
    attempts: tuple = ()
    method: str | None = None
    timing: dict[str, float] = field(default_factory=dict)
    target: Target | None = None
    marginalized: Marginalized | None = None
    continuation: Continuable | None = None
