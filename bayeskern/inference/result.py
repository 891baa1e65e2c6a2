"""What a backend hands back, before it becomes a Posterior."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from bayeskern.inference.approximation.proposals import Approximation
    from bayeskern.inference.methods.marginalization import Reduced
    from bayeskern.inference.model.target import Target
    from bayeskern.inference.optimization.modes import Optimum
    from bayeskern.inference.posterior.posterior import Posterior
    from bayeskern.inference.verdict import Trust


class Estimate(NamedTuple):
    """A number and its standard error: 0 where it is exact, NaN where it is unknown."""

    value: float
    error: float

    def __repr__(self) -> str:
        error = "(error unknown)" if np.isnan(self.error) else f"± {self.error:.2g}"
        return f"{self.value:.6g} {error}"


@dataclass(frozen=True, eq=False)
class Fit:
    """Draws of z, in unconstrained coordinates, and all that the backend knows about them.

    z: (chains, draws, d), equally weighted. judge: Posterior -> Trust, called when the verdict is
    first asked for. weighted: (z: (S, d), log weights (S,) that sum to one), where there are some.
    log_q: log q(z), (draws,), where z are draws from `approximation`. draws: the sites, where they
    do not follow from z. log_evidence: log p(data). optimum: the mode, where one was looked for.
    trace: numbers by step, such as the ELBO. sample_stats: by ArviZ's names, each (chains, draws).
    attempts: what `auto` tried; method: what it took. target: the form of the model that was
    fitted, where it is not the one that was given; reduced: what the method ran on instead. timing:
    seconds of what the method times itself.
    """

    z: np.ndarray
    judge: Callable[[Posterior], Trust]
    weighted: tuple[np.ndarray, np.ndarray] | None = None
    log_q: np.ndarray | None = None
    draws: dict[str, np.ndarray] | None = None
    log_evidence: Estimate | None = None
    optimum: Optimum | None = None
    approximation: Approximation | None = None
    trace: dict[str, np.ndarray] = field(default_factory=dict)
    sample_stats: dict[str, np.ndarray] = field(default_factory=dict)
    attempts: tuple = ()
    method: str | None = None
    timing: dict[str, float] = field(default_factory=dict)
    target: Target | None = None
    reduced: Reduced | None = None
