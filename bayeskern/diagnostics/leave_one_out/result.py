"""Result of leave-one-out cross-validation."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from bayeskern.core.formatting import abbreviated, alike, counted
from bayeskern.core.verdict import VERDICTS, WIDTH
from bayeskern.diagnostics.leave_one_out.estimates import MATCHED, PSIS, REFITTED, Estimates
from bayeskern.inference.verdict import Trust, worst_entry

if TYPE_CHECKING:
    import pandas as pd

GOOD = (
    "good",
    "Each observation was left out reliably: k-hat is at most its threshold, or the model was "
    "refitted without the observation.",
)

# Above this k-hat, the estimate of an observation by importance sampling has no finite mean.
MAX_KHAT = 1.0
# Smaller errors of the elpd do not matter.
MAX_MONTE_CARLO_ERROR = 1.0


@dataclass(frozen=True, eq=False)
class CrossValidation:
    """Leave-one-out cross-validation of a posterior, as `loo` returns it.

    Attributes:
        sites: Number of observations of each observed site. Arrays join the observations of all
            sites in this order.
        labels: Name of each observation, such as "y[3]". Masked observations count in the index,
            unless the posterior was loaded without its model.
        estimates: log p(y_i | other observations) of each observation, with its Pareto k-hat before
            and after moment matching, its Monte Carlo standard error, and how it was computed; see
            `to_frame`.
        threshold: Largest Pareto k-hat of a reliable estimate.
        draws: Verdict on the draws of the posterior.
        refits: Verdict on each refit, by the name of the observation that it leaves out.
        remarks: Sites and observations that could not be left out, and why.
    """

    sites: dict[str, int]
    labels: tuple[str, ...]
    estimates: Estimates
    threshold: float
    draws: Trust
    refits: dict[str, Trust]
    remarks: tuple[str, ...] = ()

    @property
    def elpd(self) -> float:
        """Expected log predictive density: the sum of log p(y_i | other observations)."""
        return float(np.sum(self.estimates.elpd))

    @property
    def elpd_error(self) -> float:
        """Standard error of `elpd`, from the spread of the observations within each site."""
        ends = np.cumsum(list(self.sites.values()))[:-1]
        parts = np.split(self.estimates.elpd, ends)
        return float(np.sqrt(sum(len(part) * np.var(part, ddof=1) for part in parts)))

    @property
    def monte_carlo_error(self) -> float:
        """Standard error of `elpd` from the number of draws."""
        return float(np.sqrt(np.sum(np.square(self.estimates.error))))

    @property
    def p_loo(self) -> float:
        """Effective number of parameters: sum of log p(y_i | all) - log p(y_i | others)."""
        return float(np.sum(self.estimates.in_sample - self.estimates.elpd))

    @property
    def matched(self) -> int:
        """Number of observations that were left out by moment matching."""
        return int(np.sum(self.estimates.how == MATCHED))

    @property
    def unreliable(self) -> np.ndarray:
        """Indices of observations whose estimate has a k-hat above the threshold."""
        return np.flatnonzero(~(self.estimates.khat <= self.threshold))

    @cached_property
    def trust(self) -> Trust:
        """Verdict on `elpd`, and the evidence for it."""
        evidence = {"monte_carlo_error": self.monte_carlo_error}
        evidence |= worst_entry("khat", self.estimates.khat, self.labels)
        objections = [*self._draws(), *self._influence(), *self._refits(), *self._noise()]
        # The first objection with the worst verdict.
        verdict, advice = max(objections, key=lambda o: VERDICTS.index(o[0]), default=GOOD)
        return Trust(verdict, advice, evidence)

    def _draws(self) -> Iterator[tuple[str, str]]:
        if self.draws.verdict != "good":
            verdict = self.draws.verdict
            yield verdict, f"The verdict on the draws is {verdict}: {self.draws.advice}"

    def _influence(self) -> Iterator[tuple[str, str]]:
        rows = self.unreliable
        if not len(rows):
            return
        largest = float(np.max(self.estimates.khat[rows]))
        remedy = "Refit the model without such observations: bk.loo(posterior, refit='auto')."
        if np.all(self.estimates.how[rows] == REFITTED):
            remedy = "Take more draws in the refits, as in refit=bk.NUTS(draws=4000)."
        names = abbreviated((self.labels[i] for i in rows), 5)
        advice = (
            f"{counted(len(rows), 'observation')} ({names}) cannot be left "
            f"out by weighting draws: k-hat {largest:.2f}, above {self.threshold:.2f}. {remedy}"
        )
        yield "caution" if largest < MAX_KHAT else "bad", advice

    def _refits(self) -> Iterator[tuple[str, str]]:
        for label, trust in self.refits.items():
            if trust.verdict != "good":
                advice = (
                    f"The verdict on the refit without {label} is {trust.verdict}: {trust.advice} "
                    "Set other options of the refits, as in refit=bk.NUTS(...)."
                )
                yield "bad" if trust.verdict == "bad" else "caution", advice

    def _noise(self) -> Iterator[tuple[str, str]]:
        if not self.monte_carlo_error <= MAX_MONTE_CARLO_ERROR:
            advice = (
                f"The Monte Carlo error of elpd is {self.monte_carlo_error:.2g}: too few draws to "
                "compare models that differ by less. Take more draws."
            )
            yield "caution", advice

    def to_frame(self) -> pd.DataFrame:
        """Table with a row for each observation.

        Returns:
            A pandas data frame with the columns elpd, in_sample, khat, psis_khat, error and how.
        """
        import pandas as pd  # slow to import

        return pd.DataFrame(self.estimates._asdict(), index=pd.Index(self.labels))

    def __repr__(self) -> str:
        (elpd,) = alike((self.elpd,), self.elpd_error)
        how = self.estimates.how
        counts = {name: int(np.sum(how == name)) for name in (PSIS, MATCHED, REFITTED)}
        by = ", ".join(f"{count} by {name}" for name, count in counts.items() if count)
        lines = [
            f"elpd {elpd} ± {self.elpd_error:.2g}, p_loo {self.p_loo:.1f}, "
            f"{counted(len(self.labels), 'observation')}: {by}",
            repr(self.trust),
            *(textwrap.fill(remark, WIDTH) for remark in self.remarks),
        ]
        return "\n".join(lines)
