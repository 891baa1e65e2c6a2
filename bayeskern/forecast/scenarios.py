"""Comparison of scenarios of one forecast, by paired joint draws."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import cycle
from typing import TYPE_CHECKING

import numpy as np

from bayeskern.core import validation
from bayeskern.core.formatting import aligned, counted
from bayeskern.core.plotting import COLORS, concise_dates, tidy
from bayeskern.core.plotting import figure as new_figure
from bayeskern.forecast.combine.alternatives import alternatives_of
from bayeskern.forecast.combine.stacking import Combination
from bayeskern.forecast.forecast_plot import first_shown
from bayeskern.forecast.result import Forecast
from bayeskern.forecast.show.plot import HISTORY_COLOR, NOTE_COLOR, short_name
from bayeskern.forecast.show.printing import number_format
from bayeskern.prediction.mixture import central_probabilities

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

# Number of joint draws of each scenario.
PAIRED_DRAWS = 4_000
COLUMNS = (
    "median",
    "lower",
    "upper",
    "difference",
    "difference_lower",
    "difference_upper",
    "percent",
    "probability",
)


@dataclass(frozen=True, eq=False)
class ScenarioComparison:
    """Scenarios of one forecast side by side, as `compare_scenarios` returns them.

    Attributes:
        forecasts: The scenarios by name.
        reference: Name of the scenario that the others are compared with.
        draws: Joint draws of each scenario, (4000, horizon). Draw i of all scenarios has the same
            hyperparameters, function of time, coefficients and noise.
    """

    forecasts: dict[str, Forecast]
    reference: str
    draws: dict[str, np.ndarray]

    @property
    def first(self) -> Forecast:
        """The forecast in the reference scenario."""
        return self.forecasts[self.reference]

    @cached_property
    def differences(self) -> dict[str, np.ndarray]:
        """Differences from the reference by scenario, draw and time, (4000, horizon) each."""
        base = self.draws[self.reference]
        return {name: d - base for name, d in self.draws.items() if name != self.reference}

    @property
    def values_are_shares(self) -> bool:
        """True if the values are shares.

        For shares, tables show the mean over the horizon instead of the total.
        """
        likelihood = self.first.choices.likelihood
        return likelihood is not None and not likelihood.whole

    @property
    def _totals(self) -> dict[str, np.ndarray]:
        """Totals over the horizon by scenario, (4000, 1) each; for shares, means."""
        combine = np.mean if self.values_are_shares else np.sum
        return {name: combine(d, axis=1, keepdims=True) for name, d in self.draws.items()}

    def to_frame(self, level: float = 0.95) -> pd.DataFrame:
        """Totals over the horizon, with a row for each scenario.

        Args:
            level: Probability of the central intervals.

        Returns:
            Columns median, lower and upper of the total, or of the mean for shares; difference,
            difference_lower and difference_upper from the reference; percent (the difference
            relative to the median of the reference); and probability (of a larger total than in the
            reference). The last five are NaN for the reference.
        """
        import pandas as pd  # slow to import

        rows = _table(self._totals, self.reference, level)
        table = {name: {key: float(v[0]) for key, v in row.items()} for name, row in rows.items()}
        frame = pd.DataFrame.from_dict(table, orient="index", columns=list(COLUMNS))
        return frame.rename_axis("scenario")

    def by_time(self, level: float = 0.95) -> pd.DataFrame:
        """Columns of `to_frame` at each future time, indexed by scenario and time."""
        import pandas as pd  # slow to import

        series = self.first.series
        index = series.calendar.index(self.first.times, series.time_name)
        rows = _table(self.draws, self.reference, level)
        frames = {name: pd.DataFrame(row, index=index) for name, row in rows.items()}
        return pd.concat(frames, names=["scenario"])

    def plot(self, level: float = 0.8, figure: Figure | None = None) -> Figure:
        """Plot the scenarios and, below, their differences from the reference.

        Args:
            level: Probability of the central intervals.
            figure: Figure to draw in; a new one if None.
        """
        level = validation.level(level)
        fig = new_figure((9.0, 6.4)) if figure is None else figure
        above, below = fig.subplots(2, 1, gridspec_kw={"height_ratios": [3, 2]})
        f = self.first
        calendar, start = f.series.calendar, first_shown(f)
        past = calendar.wall(calendar.grid(0))[start:]
        above.plot(past, f.series.on_grid()[start:], color=HISTORY_COLOR, linewidth=1.0)
        x = calendar.wall(f.times)
        probabilities = central_probabilities(level)
        colors = dict(zip(self.forecasts, cycle(COLORS), strict=False))
        for name, scenario in self.forecasts.items():
            median, lower, upper = scenario.quantile(probabilities)
            label, color = short_name(name), colors[name]
            above.fill_between(x, lower, upper, color=color, alpha=0.15, linewidth=0)
            above.plot(x, median, color=color, linewidth=1.6, label=label)
        below.axhline(0.0, color=colors[self.reference], linewidth=1.2)
        marker = "o" if f.horizon == 1 else None
        for name, difference in self.differences.items():
            median, lower, upper = np.quantile(difference, probabilities, axis=0)
            below.fill_between(x, lower, upper, color=colors[name], alpha=0.2, linewidth=0)
            below.plot(x, median, color=colors[name], linewidth=1.6, marker=marker)
        for ax in (above, below):
            concise_dates(ax, x)
            tidy(ax)
        title = f"{short_name(f.series.name)}: scenarios"
        note = f"medians and {100 * level:g} % intervals"
        above.set_title(title, loc="left", fontsize=12, parse_math=False)
        above.set_title(note, loc="right", fontsize=8.5, color=NOTE_COLOR)
        above.set_ylabel(short_name(f.series.value_name), parse_math=False)
        below.set_title(
            f"difference from {short_name(self.reference)}",
            loc="left",
            fontsize=10,
            parse_math=False,
        )
        legend = above.legend(
            loc="upper left", bbox_to_anchor=(0.0, -0.1), ncols=4, frameon=False, fontsize=9
        )
        for text in legend.get_texts():
            text.set_parse_math(False)
        return fig

    def __repr__(self) -> str:
        f, level = self.first, 0.95
        quantity = "mean" if self.values_are_shares else "total"
        head = (
            f"{f.series.name}: {quantity} of {f.series.value_name} over "
            f"{counted(f.horizon, 'step')}, compared with {self.reference}"
        )
        show = number_format(np.hstack([*self._totals.values()]))
        interval = f"{100 * level:g} % interval"
        header = ("", quantity, interval, "difference", interval, "in %", "P(higher)")
        rows: list[Sequence[str]] = [header]
        for name, columns in _table(self._totals, self.reference, level).items():
            median, lower, upper, *others = (float(column[0]) for column in columns.values())
            cells = [name, show(median), f"{show(lower)} to {show(upper)}"]
            if name == self.reference:
                rows.append([*cells, *[""] * 4])
                continue
            difference, lower, upper, percent, probability = others
            cells += [show(difference), f"{show(lower)} to {show(upper)}"]
            rows.append([*cells, f"{percent:+.2g}", _percent(probability)])
        return "\n".join([head, "", *aligned(rows)])


def _percent(probability: float) -> str:
    """Probability in percent, never 0 or 100, which draws cannot establish."""
    if not 0.005 <= probability <= 0.995:
        return "> 99 %" if probability > 0.5 else "< 1 %"
    return f"{100.0 * probability:.0f} %"


def compare_scenarios(
    forecasts: Mapping[str, Forecast], reference: str | None = None, seed: int = 0
) -> ScenarioComparison:
    """Compare scenarios of one forecast by totals and paired differences.

    The differences are computed from paired joint draws: draw i of all scenarios has the same
    hyperparameters, function of time, coefficients of the effects and noise. The interval of a
    difference thus shows how uncertain the effect of the scenario is, and is usually much narrower
    than the intervals of the forecasts.

    The differences extrapolate past associations. They are causal effects only if the regressor is
    a cause.

    Args:
        forecasts: The forecast and its scenarios by name, as in
            `{"base": f, "cheaper": f.scenario(price=4.5)}`.
        reference: Name of the scenario to compare with; the first one if None.
        seed: Random seed.

    Returns:
        The comparison. Printed, it is a table; `plot` shows it by time.

    Raises:
        ValueError: If there are fewer than two scenarios, the reference is not one of them, or the
            forecasts are not scenarios of one forecast.
        TypeError: If a value of `forecasts` is not a `Forecast`.

    Examples:
        ```python
        cheaper = f.scenario(price=0.9 * price)
        comparison = bk.compare_scenarios({"base": f, "cheaper": cheaper})
        comparison.to_frame(), comparison.by_time(), comparison.plot()
        ```
    """
    if not isinstance(forecasts, Mapping) or len(forecasts) < 2:
        raise ValueError(
            "forecasts must be a dict of at least two scenarios by name, as in "
            '{"base": f, "cheaper": f.scenario(price=4.5)}; got '
            f"{dict(forecasts) if isinstance(forecasts, Mapping) else type(forecasts).__name__}."
        )
    for name, f in forecasts.items():
        if not isinstance(f, Forecast):
            raise TypeError(f"{name} must be a forecast of bk.forecast; got {type(f).__name__}.")
    if reference is None:
        reference = next(iter(forecasts))
    validation.one_of("reference", reference, forecasts)
    base = forecasts[reference]
    for name, f in forecasts.items():
        _require_scenario(name, f, reference, base)
    draws = _paired_draws([*forecasts.values()], base, validation.seed(seed))
    by_name = dict(zip(forecasts, draws, strict=True))
    return ScenarioComparison(dict(forecasts), reference, by_name)


def _require_scenario(name: str, f: Forecast, reference: str, base: Forecast) -> None:
    """Raise ValueError unless both forecasts have the same fit, times and effects."""
    for label, forecast in ((reference, base), (name, f)):
        if forecast.combination is None or forecast.choices.effects is None:
            raise ValueError(
                f"{label} has no regressors, events or holidays, so it has no scenarios."
            )
    same = f.horizon == base.horizon and np.array_equal(f.times, base.times)
    if not (same and _have_same_fit(f.combination, base.combination)):
        raise ValueError(
            f"{name} and {reference} must be scenarios of one forecast, with the same values, "
            f"horizon and hyperparameters: make {name} by {reference}.scenario(...)."
        )


def _have_same_fit(first: Combination | None, second: Combination | None) -> bool:
    if first is None or second is None or len(first.parts) != len(second.parts):
        return False
    return all(
        a.structure == b.structure
        and a.weight == b.weight
        and np.array_equal(a.draws.z, b.draws.z)
        and np.array_equal(a.fitted.x, b.fitted.x)
        and np.array_equal(a.fitted.y, b.fitted.y)
        for a, b in zip(first.parts, second.parts, strict=True)
    )


def _paired_draws(forecasts: list[Forecast], base: Forecast, seed: int) -> np.ndarray:
    """Joint draws of all scenarios, (J, draws, horizon)."""
    assert base.combination is not None
    m, columns = base.horizon, []
    for f in forecasts:
        effects = f.choices.effects
        assert effects is not None
        columns.append(effects.Z[None, -m:] if effects.draws is None else effects.draws)
    rng = np.random.default_rng(seed)
    # Scenarios with equal numbers of draws of uncertain regressors use the same draw.
    uniform = rng.permutation((np.arange(PAIRED_DRAWS) + 0.5) / PAIRED_DRAWS)
    starts = np.cumsum([0, *map(len, columns)])
    rows = np.array([
        start + (uniform * len(Z)).astype(int) for start, Z in zip(starts, columns, strict=False)
    ])  # fmt: skip
    x = base.series.calendar.positions(base.times)
    alternatives = alternatives_of(base.combination, x, np.concatenate(columns), base.seed)
    predictives = [f._predictive for f in forecasts]
    return alternatives.sample(rows, np.arange(m), predictives, rng)


def _table(
    draws: Mapping[str, np.ndarray], reference: str, level: float
) -> dict[str, dict[str, np.ndarray]]:
    """Columns of the table, (m,) each, by scenario, from draws (n, m)."""
    base, probabilities = draws[reference], central_probabilities(level)
    rows: dict[str, dict[str, np.ndarray]] = {}
    for name, values in draws.items():
        columns = [*np.quantile(values, probabilities, axis=0)]
        if name == reference:
            columns += [np.full(values.shape[1], np.nan)] * 5
        else:
            difference = values - base
            ends = np.quantile(difference, probabilities, axis=0)
            with np.errstate(divide="ignore", invalid="ignore"):
                percent = 100.0 * ends[0] / np.abs(np.median(base, axis=0))
            # Ties, which are frequent for counts, have weight one half.
            probability = np.mean((difference > 0.0) + 0.5 * (difference == 0.0), axis=0)
            columns += [*ends, percent, probability]
        rows[name] = dict(zip(COLUMNS, columns, strict=True))
    return rows
