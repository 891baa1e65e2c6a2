"""Result of a method, before it becomes a Posterior, and the contract of its assessment."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from bayeskern.inference.approximation.proposals import Approximation
from bayeskern.inference.estimate import Estimate
from bayeskern.inference.findings import Findings
from bayeskern.inference.model.marginalized import Marginalized
from bayeskern.inference.model.target import Target
from bayeskern.inference.optimization.modes import Optimum
from bayeskern.inference.verdict import Trust

if TYPE_CHECKING:
    from bayeskern.inference.posterior.posterior import Posterior

# Sample statistic: the region of each draw, where draws were resampled by region.
REGION = "region"
# Sample statistics: the ancestor and the island of each draw of a particle sampler.
ANCESTOR, ISLAND = "ancestor", "island"
# Unconstrained coordinates beyond this belong to no posterior: such chains run away.
MAX_COORDINATE = 1e100


# Draws that an assessment reads: the posterior of the fit, before its verdict is known.
type Assessable = Posterior


class Assessment(Protocol):
    """Verdict of a method on its own draws.

    It is called once, when the verdict is first asked for, with the posterior of the fit. It does
    not change the posterior, and returns the same verdict for the same draws.
    """

    def __call__(self, posterior: Assessable, /) -> Trust:
        """Verdict on the draws, with its evidence."""
        ...


class Region(NamedTuple):
    """Part of a posterior that chains do not leave.

    Attributes:
        chains: Numbers of the chains that reached it by themselves; none where a visit found it.
        z: Draws in it, (chains, n, d).
        share: Its share of the posterior; NaN where it is not known.
    """

    chains: tuple[int, ...]
    z: np.ndarray
    share: Estimate


@dataclass(frozen=True, eq=False)
class Fit:
    """Draws of z, in unconstrained coordinates, and what the method knows about them.

    Attributes:
        z: Equally weighted draws, (chains, draws, d); a point estimate is (1, 1, d).
        assess: Computes the verdict, when it is first asked for.
        weighted: Draws (S, d) and log weights (S,) that sum to one, where there are some.
        log_q: log q(z) of the draws, (draws,), where they come from `approximation`.
        approximation: Density q that the draws come from, where there is one.
        draws: Sites, each (chains, draws, *site), where they do not follow from z.
        log_evidence: log p(data) with its standard error, where the method estimates it.
        optimum: Mode, where one was searched for.
        findings: Findings of earlier fits, and of this one beside `optimum` and `weighted`.
        trace: Numbers by step, such as the ELBO.
        sample_stats: Statistics of draws by ArviZ's names, each (chains, draws).
        attempts: Attempts of `auto`.
        method: Method that was used, where it differs from the one requested.
        timing: Seconds by part, for parts that the method times itself.
        target: Form of the model that was fitted, where it differs from the one passed.
        marginalized: Marginal of that form, where the method ran on it.
    """

    z: np.ndarray
    assess: Assessment
    weighted: tuple[np.ndarray, np.ndarray] | None = None
    log_q: np.ndarray | None = None
    approximation: Approximation | None = None
    draws: dict[str, np.ndarray] | None = None
    log_evidence: Estimate | None = None
    optimum: Optimum | None = None
    findings: Findings = field(default_factory=Findings)
    trace: dict[str, np.ndarray] = field(default_factory=dict)
    sample_stats: dict[str, np.ndarray] = field(default_factory=dict)
    attempts: tuple = ()
    method: str | None = None
    timing: dict[str, float] = field(default_factory=dict)
    target: Target | None = None
    marginalized: Marginalized | None = None
