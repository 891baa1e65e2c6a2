"""Conformal prediction intervals from the errors of rolling-origin forecasts.

Split conformal prediction (Vovk, Gammerman and Shafer, 2005, "Algorithmic learning in a random
world"; Angelopoulos and Bates, 2023, "Conformal prediction: a gentle introduction"), separately for
each step ahead (Stankeviciute, Alaa and van der Schaar, 2021, "Conformal time-series forecasting").
The conformity of a value is its tail probability under the forecast, so that intervals adapt to the
spread and the skewness of the forecast (Chernozhukov, Wuthrich and Zhu, 2021, "Distributional
conformal prediction").

The coverage is exact if the past and future errors at a step are exchangeable. Errors of a time
series are dependent, so it is approximate (Xu and Xie, 2021, "Conformal prediction interval for
dynamic time-series"). The hyperparameters were fitted to all values, so past errors are
usually smaller than future ones: tail probabilities of past values are computed with the
distribution of past errors, `Combination.past_errors`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import gammaln, xlog1py, xlogy

from bayeskern.core import validation
from bayeskern.core.formatting import aligned, counted, number
from bayeskern.core.plotting import ORANGE, legend_under
from bayeskern.forecast.fit.rolling import origins_of

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from bayeskern.forecast.result import Forecast


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
    def of(cls, f: Forecast) -> PastTails | None:
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


@dataclass(frozen=True, eq=False, repr=False)
class ConformalIntervals:
    """Conformal and Bayesian intervals, as `Forecast.conformal` returns them.

    Attributes:
        forecast: The forecast.
        level: Probability of the intervals.
        lower: Lower ends, (horizon,); -inf at steps with too few past errors.
        upper: Upper ends, (horizon,).
        counts: Number of past errors at each step, (horizon,).
        past: Tail probabilities of past values.
    """

    forecast: Forecast
    level: float
    lower: np.ndarray
    upper: np.ndarray
    counts: np.ndarray
    past: PastTails

    @property
    def interval(self) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper ends."""
        return self.lower, self.upper

    @property
    def needed(self) -> int:
        """Smallest number of past errors for finite ends."""
        return errors_needed(self.level)

    @cached_property
    def test(self) -> CoverageTest:
        """Test of the coverage of the Bayesian intervals at the past origins."""
        return self.past.test(self.level)

    @property
    def remarks(self) -> tuple[str, ...]:
        """Remarks on infinite ends, and on a disagreement beyond chance."""
        remarks = []
        infinite = np.flatnonzero(np.isinf(self.lower) | np.isinf(self.upper)) + 1
        if len(infinite):
            remarks.append(
                f"the ends are infinite from step {infinite[0]} on: at least {self.needed} past "
                f"errors are needed for {100 * self.level:g} %, and there are "
                f"{self.counts[infinite[0] - 1]}"
            )
        remark = self.test.remark()
        return (*remarks, remark) if remark else tuple(remarks)

    def to_frame(self) -> pd.DataFrame:
        """Data frame with a row for each future time.

        Returns:
            Columns lower, upper, bayesian_lower, bayesian_upper and past_errors (their number).
        """
        import pandas as pd  # slow to import

        lower, upper = self.forecast.interval(self.level)
        columns = {
            "lower": self.lower,
            "upper": self.upper,
            "bayesian_lower": lower,
            "bayesian_upper": upper,
            "past_errors": self.counts,
        }
        series = self.forecast.series
        return pd.DataFrame(
            columns, index=series.calendar.index(self.forecast.times, series.time_name)
        )

    def plot(self, ax: Axes | None = None) -> Figure:
        """Plot the Bayesian interval, and the conformal interval as dashed lines.

        Args:
            ax: Axes to draw in; a new figure if None.
        """
        f = self.forecast
        fig: Figure = f.plot(ax, self.level)
        panel = fig.axes[-1] if ax is None else ax
        for end, label in ((self.lower, f"conformal, {100 * self.level:g} %"), (self.upper, None)):
            y = np.where(np.isfinite(end), end, np.nan)
            panel.plot(f.series.calendar.wall(f.times), y, "--", color=ORANGE, lw=1.2, label=label)
        legend_under(panel)
        return fig

    def __repr__(self) -> str:
        f, table = self.forecast, self.to_frame()
        labels = f.time_labels(f.times)
        header = [f.series.time_name, "conformal", "Bayesian", "past errors"]
        rows = [
            [
                label,
                *(f"{number(a, 4)} to {number(b, 4)}" for a, b in (row[:2], row[2:4])),
                str(int(row[4])),
            ]
            for label, row in zip(labels, table.to_numpy(), strict=True)
        ]
        title = f"{f.series.name}: {100 * self.level:g} % intervals"
        remarks = [f"  remark    {remark}" for remark in self.remarks]
        return "\n".join([title, *remarks, "", *(f"  {x}" for x in aligned([header, *rows]))])


def errors_needed(level: float) -> int:
    """Smallest number of past errors for finite ends: level / (1 - level), rounded up."""
    return int(np.ceil(level / (1.0 - level) - 1e-9))


def conformal(f: Forecast, level: float) -> ConformalIntervals:
    """Conformal intervals of a forecast. Arguments as in `Forecast.conformal`."""
    level = validation.level(level)
    past = PastTails.of(f)
    if past is None:
        reason = "is constant" if f.combination is None else "is too short for past forecasts"
        raise ValueError(f"conformal needs errors of past forecasts; {f.series.name} {reason}.")
    tails = np.array([past.conformal_tail(step, level) for step in range(f.horizon)])
    counts = np.array([len(past.at(step)) for step in range(f.horizon)])
    if not tails.any():
        raise ValueError(
            f"level={level:g} needs at least {errors_needed(level)} past errors; there are "
            f"{counts.max()} of one step ahead. Use a level of at most "
            f"{counts.max() / (counts.max() + 1.0):.2g}, or a longer history."
        )
    ends = np.full((2, f.horizon), [[-np.inf], [np.inf]])
    for tail in np.unique(tails[tails > 0.0]):
        steps = tails == tail
        ends[:, steps] = f.quantile([tail, 1.0 - tail])[:, steps]
    return ConformalIntervals(f, level, ends[0], ends[1], counts, past)
