"""Tail probabilities of past values, and a test of the coverage of past intervals."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln, xlog1py, xlogy

from bayeskern.core.formatting import counted
from bayeskern.forecast.fit.rolling import origins_of
from bayeskern.forecast.fitted_series import FittedSeries

# Largest number of past origins of conformal intervals and of the test of the Bayesian intervals.
MAX_CONFORMAL_ORIGINS = 200


@dataclass(frozen=True, eq=False)
class PastTails:
    """Tail probabilities of the values that followed past origins.

    Attributes:
        tails: Probability of a value at least as far from the median, on the same side, under the
            distribution of past errors, (N,).
        steps: Steps ahead, counted from 0, (N,).
        origins: Number of known values at the origin, (N,); increasing.
        discrete: True if interval ends have positive probability, so that the intervals may hold
            more than their level.
    """

    tails: np.ndarray
    steps: np.ndarray
    origins: np.ndarray
    discrete: bool = False

    @classmethod
    def from_series(cls, f: FittedSeries) -> PastTails | None:
        """Tail probabilities of up to `MAX_CONFORMAL_ORIGINS` past forecasts; None without any."""
        if f.combination is None:
            return None
        steps = f.series.calendar.steps()[f.series.observed]
        origins = origins_of(steps, f.horizon, f.season_in_steps, MAX_CONFORMAL_ORIGINS)
        past = f.combination.from_origins(origins)
        if past.past is None:
            return None
        steps, rows, known = past.ahead
        errors = f.combination.past_errors(steps, known)
        y = past.parts[0].fitted.y[rows]
        tails = past.past.with_errors(errors).tails(y)
        return cls(tails, steps, known, f.is_discrete)

    def at(self, step: int) -> np.ndarray:
        """Tail probabilities at one step ahead, in the order of the origins."""
        return self.tails[self.steps == step]

    def conformal_tail(self, step: int, level: float) -> float:
        """Tail probability of the ends of the conformal interval; 0 with too few origins.

        The k-th largest of n, with k = ceil((n + 1) level): Angelopoulos and Bates (2023), section
        1.1.
        """
        tails = np.sort(self.at(step))[::-1]
        # Without the small difference, rounding of (n + 1) level could add 1.
        k = int(np.ceil((len(tails) + 1) * level - 1e-9))
        return float(tails[k - 1]) if k <= len(tails) else 0.0

    def test(self, level: float) -> CoverageTest:
        """Test of the coverage of the Bayesian intervals at a level.

        At s steps ahead, errors from origins s apart are independent if the model is correct, so
        the number of values inside is binomial. The smallest p-value of the steps 1, 2, 4, 8, ...
        is multiplied by their number (Bonferroni). A step without past values is replaced by the
        next one with values.
        """
        results, next_step = [], 1
        for step in (np.unique(self.steps) + 1).tolist():
            if step < next_step:
                continue
            mask = self.steps == step - 1
            inside = self._apart(self.origins[mask], self.tails[mask], step) >= 0.5 - 0.5 * level
            p = binomial_p_value(int(inside.sum()), len(inside), level, self.discrete)
            results.append((p, step, int(inside.sum()), len(inside)))
            next_step = 2 * step
        p, step, inside, count = min(results)
        return CoverageTest(level, min(1.0, p * len(results)), step, inside, count)

    @staticmethod
    def _apart(origins: np.ndarray, tails: np.ndarray, step: int) -> np.ndarray:
        """Tails whose origins are at least `step` values apart, the last origin first."""
        kept, last = [], np.inf
        for origin, tail in zip(origins[::-1], tails[::-1], strict=True):
            if origin <= last - step:
                kept.append(tail)
                last = origin
        return np.array(kept)


def binomial_p_value(successes: int, count: int, probability: float, lower: bool = False) -> float:
    """Exact p-value of a binomial count, summed over all counts at most as likely.

    Args:
        successes: Observed count.
        count: Number of trials.
        probability: Probability of a success.
        lower: Sum over the counts of at most `successes` instead.
    """
    k = np.arange(count + 1)
    log_mass = gammaln(count + 1) - gammaln(k + 1) - gammaln(count - k + 1)
    log_mass += xlogy(k, probability) + xlog1py(count - k, -probability)
    # Equal probabilities may differ by rounding.
    counted = k <= successes if lower else log_mass <= log_mass[successes] + 1e-7
    return float(np.exp(log_mass[counted]).sum())


# Maximum probability of a remark on a calibrated forecast.
REMARK_SIGNIFICANCE = 0.01


@dataclass(frozen=True)
class CoverageTest:
    """Exact test of the coverage of past Bayesian intervals.

    The intervals are scaled to the expected size of past errors.

    Attributes:
        level: Level of the intervals.
        p_value: Probability of a coverage at least as unlikely under a calibrated forecast.
        step: Number of steps ahead with the clearest deviation.
        inside: Number of values inside the intervals at this step, at independent origins.
        count: Number of these origins.
    """

    level: float
    p_value: float
    step: int
    inside: int
    count: int

    @property
    def is_narrow(self) -> bool:
        """True if the intervals held less than their level."""
        return self.inside < self.level * self.count

    def remark(self) -> str | None:
        """Remark if the deviation is beyond chance; otherwise None."""
        if self.p_value >= REMARK_SIGNIFICANCE:
            return None
        return (
            f"{100 * self.level:g} % intervals, scaled to the expected size of past errors, held "
            f"{self.inside} of {self.count} past values {counted(self.step, 'step')} ahead, which "
            f"is beyond chance (p = {self.p_value:.1g}): they are too "
            f"{'narrow' if self.is_narrow else 'wide'}; conformal({self.level:g}) is "
            f"{'wider' if self.is_narrow else 'narrower'}"
        )
