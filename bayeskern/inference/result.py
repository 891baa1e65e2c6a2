"""What a method hands back, before it becomes a Posterior."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import numpy as np

from bayeskern.inference.approximation.proposals import Approximation
from bayeskern.inference.estimate import Estimate
from bayeskern.inference.findings import Findings
from bayeskern.inference.model.marginalized import Marginalized
from bayeskern.inference.model.target import Target
from bayeskern.inference.optimization.modes import Optimum
from bayeskern.inference.verdict import Trust

# The sample statistic that numbers the region of each draw, where draws were resampled by region.
REGION = "region"
# The sample statistics that number the ancestor and the island of each draw of a particle sampler.
ANCESTOR, ISLAND = "ancestor", "island"
# Chains with coordinates beyond this, unconstrained, run away: no posterior holds them.
RUN_AWAY = 1e100


class Assessable(Protocol):
    """What an assessment looks at; a Posterior has all of it.

    Attributes:
        fitted_target: The target that the method ran on, and whose coordinates z are.
        fitted_draws: Its latent and deterministic sites, chains joined, each (S, *site).
        flat: The sites of the full model, chains joined, each (S, *site).
        z: Draws in unconstrained coordinates, (chains, draws, d).
        log_p: log p(z) of draws from a known density, (S,), else None.
        log_q: log q(z) of them, (S,), else None.
        log_ratios: log p(z) - log q(z), (S,), else None.
        elbo: The mean of the log ratios, else None.
        approximation: q, where the draws come from one.
        sample_stats: Statistics of draws by ArviZ's names, each (chains, draws).
        findings: What is known of where the posterior lies, from this fit and earlier ones.
        optimum: The mode, where one was looked for.
        progress: Whether work that takes long shows a bar.
    """

    fitted_target: Target
    fitted_draws: dict[str, np.ndarray]
    flat: dict[str, np.ndarray]
    z: np.ndarray
    log_p: np.ndarray | None
    log_q: np.ndarray | None
    log_ratios: np.ndarray | None
    elbo: Estimate | None
    approximation: Approximation | None
    sample_stats: dict[str, np.ndarray]
    findings: Findings
    optimum: Optimum | None
    progress: bool


class Assessment(Protocol):
    """Verdict of a method on its own draws.

    It is called once, when the verdict is first asked for, with the posterior of the fit. It does
    not change the posterior, and returns the same verdict for the same draws.
    """

    def __call__(self, posterior: Assessable, /) -> Trust:
        """Verdict on the draws, with its evidence."""
        ...


class Region(NamedTuple):
    """A part of a posterior that chains do not leave.

    Attributes:
        chains: The numbers of the chains that were there of themselves; none where a visit found
            it.
        z: Draws there, (chains, n, d).
        share: Its share of the posterior; NaN where it is not known.
    """

    chains: tuple[int, ...]
    z: np.ndarray
    share: Estimate


@dataclass(frozen=True, eq=False)
class Fit:
    """Draws of z, in unconstrained coordinates, and all that the method knows about them.

    Attributes:
        z: Equally weighted draws, (chains, draws, d); a point estimate is (1, 1, d).
        assess: Makes the verdict, when it is first asked for.
        weighted: Draws (S, d) and log weights (S,) that sum to one, where there are some.
        log_q: log q(z) of the draws, (draws,), where they come from `approximation`.
        approximation: q, where the draws come from one.
        draws: The sites, each (chains, draws, *site), where they do not follow from z.
        log_evidence: log p(data) with its standard error, where the method estimates it.
        optimum: The mode, where one was looked for.
        findings: Findings of earlier fits, and of this one beside `optimum` and `weighted`.
        trace: Numbers by step, such as the ELBO.
        sample_stats: Statistics of draws by ArviZ's names, each (chains, draws).
        attempts: What `auto` tried.
        method: The method that was taken, where it is not the one that was asked for.
        timing: Seconds by part, for parts that the method times itself.
        target: The form of the model that was fitted, where it is not the one that was given.
        marginalized: The marginal of that form, where the method ran on it.
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
