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

from bayeskern.core import validation
from bayeskern.core.formatting import aligned, number
from bayeskern.core.plotting import ORANGE, legend_under
from bayeskern.forecast import forecast_plot
from bayeskern.forecast.evaluate.past_tails import CoverageTest, PastTails
from bayeskern.forecast.predicted_series import PredictedSeries

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


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

    forecast: PredictedSeries
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
        fig = forecast_plot.forecast(f, ax, self.level)
        panel = fig.axes[0] if ax is None else ax
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


def conformal(f: PredictedSeries, level: float) -> ConformalIntervals:
    """Conformal intervals of a forecast. Arguments as in `Forecast.conformal`."""
    level = validation.level(level)
    past = PastTails.from_series(f)
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
