"""Goal of a run: effective sample sizes and R-hat at which its chains stop."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from bayeskern.inference.assessment.convergence import (
    GOOD_RHAT,
    varies,
    worst_convergence,
)
from bayeskern.inference.result import Assessment, Fit
from bayeskern.inference.verdict import Trust

# Maximum number of batches of draws of a run with a goal.
MAX_BATCHES = 50


@dataclass(frozen=True)
class Goal:
    """Smallest bulk and tail ESS, and largest R-hat, of all unconstrained coordinates.

    Both depend on ranks only, so a scalar parameter has the same values as its coordinate.

    Attributes:
        ess: Effective draws.
        rhat: R-hat.
    """

    ess: float
    rhat: float = GOOD_RHAT

    @classmethod
    def parse(cls, text: str) -> Self:
        """Goal from a text such as "ess=1000" or "ess=1000, rhat=1.005".

        Raises:
            ValueError: If the text has another form, or a number out of range.
        """
        pairs = re.findall(r"\s*(\w+)\s*=\s*([\d.eE+]+)\s*(?:,|$)", text)
        values = {name: float(number) for name, number in pairs}
        known = "".join(text.split()).count("=") == len(values) and "ess" in values
        if not known or set(values) - {"ess", "rhat"} or not values["ess"] > 0:
            raise ValueError(
                f"until must be a text such as 'ess=1000' or 'ess=1000, rhat=1.005'; got {text!r}."
            )
        if not values.get("rhat", 2.0) > 1.0:
            raise ValueError(f"until: rhat must be above 1, such as 1.01; got {values['rhat']:g}.")
        return cls(**values)

    def is_reached(self, z: np.ndarray) -> bool:
        """True if draws (chains, n, d) reach the goal."""
        varying = varies(z)
        if not np.any(varying):
            return False
        names = [str(i) for i in np.flatnonzero(varying)]
        worst = worst_convergence(names, z[..., varying])
        ess = min(worst["ess_bulk"], worst["ess_tail"])
        # With NaN the goal is not reached.
        return bool(ess >= self.ess and worst["rhat"] < self.rhat)


@dataclass(frozen=True)
class GoalNotReached:
    """Verdict on a run that ended before its goal was reached.

    Attributes:
        assess: Verdict on the draws.
        until: The goal, as a text.
    """

    assess: Assessment
    until: str

    def __call__(self, posterior: Fit) -> Trust:
        """The verdict on the draws, with a sentence on the goal."""
        trust, (_, draws) = self.assess(posterior), posterior.shape
        note = f"The goal {self.until} was not reached with {draws:,} draws of each chain."
        return replace(trust, advice=f"{trust.advice} {note}")
