"""Plain words on the level, pattern, uncertainty and past accuracy of a forecast."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from bayeskern.core.formatting import counted, printable, short
from bayeskern.forecast.evaluate.rolling_origin import compared
from bayeskern.forecast.forecast_plot import trend_with_cycles
from bayeskern.forecast.forecast_text import predictive_format
from bayeskern.forecast.model.kernels import CYCLES, LEVEL
from bayeskern.forecast.predicted_series import PredictedSeries
from bayeskern.forecast.show.printing import rounded
from bayeskern.series.calendar import DAYS_PER_YEAR
from bayeskern.series.dates.date_forms import MONTH_NAMES, WEEKDAY_NAMES

MONTH_TITLES = [name.capitalize() for name in MONTH_NAMES]
WEEKDAYS = [name.capitalize() for name in WEEKDAY_NAMES]
# Width of a central 80 % interval of a normal distribution, in sds.
WIDTH_80 = 2.56


def explain(f: PredictedSeries) -> str:
    """Three sentences on the level, the pattern and the reliability of a forecast."""
    if not f.parts:
        value = f"{f.median[0]:,.6g}"
        return (
            f"All values{_of_name(f)} are {value}, and the forecast repeats it. There is no trend "
            "and no season. Nothing shows how the values may vary."
        )
    return printable(" ".join([_level(f), _pattern(f), _trust(f)]))


def _level(f: PredictedSeries) -> str:
    """Sentence on the last value, the forecast, and the change of the average."""
    show, series = predictive_format(f), f.series
    last = series.values[series.observed][-1]
    at = moments(f, np.append(series.times[series.observed][-1:], f.times))
    steps = f"is {show(f.median[0])} ({at[1]})"
    if f.horizon > 1:
        steps = f"goes from {show(f.median[0])} ({at[1]}) to {show(f.median[-1])} ({at[-1]})"
    return (
        f"The last value{_of_name(f)} is {show(last)} ({at[0]}); the forecast {steps}{_change(f)}."
    )


def _of_name(f: PredictedSeries) -> str:
    """Phrase " of sales" for values named sales; empty for values without a name."""
    name = f.series.value_name
    return "" if name == "value" else f" of {printable(short(name, 40))}"


def _change(f: PredictedSeries) -> str:
    """Clause that compares the average of the forecast with earlier values."""
    grid, (lower, upper) = f.series.on_grid(), f.interval(0.8)
    lag = round(max(f.seasons.values(), default=0.0) / f.series.calendar.step)
    if lag:
        rows = len(grid) + np.arange(f.horizon) - lag * (1 + np.arange(f.horizon) // lag)
        season = f.series.calendar.in_words(max(f.seasons.values()))
        reference = "the last " + season.removeprefix("1 ")
        if f.horizon < lag:
            reference = f"the same {counted(f.horizon, 'step')} of {reference}"
    else:
        count = min(f.horizon, len(grid))
        rows = np.arange(len(grid) - count, len(grid))
        reference = f"the last {counted(count, 'value')}" if count > 1 else "the last value"
    before = grid[rows[rows >= 0]]
    before = before[np.isfinite(before)]
    if not len(before) or len(before) < len(rows) // 2:
        return ""
    # The medians of small counts add up to less than their mean.
    is_discrete = f.choices.ranks or f.choices.likelihood is not None
    mean = float(np.mean(f.mean if is_discrete else f.median))
    average = float(np.mean(before))
    change, spread = mean - average, float(np.mean(upper - lower)) / WIDTH_80
    if abs(change) < 0.1 * spread:
        return f", on average about as high as {reference}"
    above = "above" if change > 0.0 else "below"
    return f", on average {_size(change, average, spread, f)} {above} {reference}"


def _size(change: float, reference: float, spread: float, f: PredictedSeries) -> str:
    """Size of a change: a percentage of a positive reference, else a difference."""
    values = f.series.values[f.series.observed]
    if np.min(values) <= 0.0 or not reference > 0.0:
        return predictive_format(f)(abs(change))
    ratio = (reference + change) / reference
    if ratio >= 3.0:
        return f"{ratio:.1f} times, {predictive_format(f)(abs(change))}"
    return _percent(ratio, spread / reference)


def _percent(ratio: float, spread: float) -> str:
    """Distance of a ratio from 1 as a percentage, to about a tenth of its sd."""
    digits = 1 if spread <= 0.0 else int(np.clip(-np.floor(np.log10(100.0 * spread)), 0, 2))
    return f"{rounded(abs(100.0 * (ratio - 1.0)), digits)} %"


def _pattern(f: PredictedSeries) -> str:
    """Sentence on the trend over the forecast, the seasons and the effects."""
    if f.choices.ranks:
        return (
            "Many values are 0, so the forecast describes how often each size of value occurs, "
            "without a trend of its own."
        )
    calendar = f.series.calendar
    steps = {name: max(2, round(period / calendar.step)) for name, period in f.seasons.items()}
    steps = {name: count for name, count in steps.items() if count <= 10_000}
    ends, ahead = np.append(f.series.times[-1:], f.times[-1:]), max(steps.values(), default=0)
    # All times at once: most of the time is taken by averages over the observed times.
    components = f.decompose(np.append(ends, calendar.future(ahead)) if ahead else ends, 0.8)
    trend = _rows(components[LEVEL], slice(2))
    if CYCLES in f.components:
        trend = trend_with_cycles(f, ends, 0.8)
    swings = {name: _rows(components[name], slice(2, 2 + count)) for name, count in steps.items()}
    parts = [_trend(f, trend), *_seasons(f, swings)]
    if not f.seasons:
        parts.append("there is no season")
    effects = f.choices.effects
    if effects is not None:
        names = [short(name.replace("_", " "), 24) for name in effects.names[:3]]
        if len(effects.names) > 3:
            names.append(f"{len(effects.names) - 3} more")
        listed = " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
        parts.append(f"{listed} {'have effects' if len(names) > 1 else 'has an effect'}")
    return "; ".join(parts) + "."


def _rows(component: dict[str, np.ndarray], rows: slice) -> dict[str, np.ndarray]:
    """Some rows of the median and the intervals of a component."""
    return {name: values[rows] for name, values in component.items()}


def _trend(f: PredictedSeries, trend: dict[str, np.ndarray]) -> str:
    """Direction of the trend from the last value, its first row, to the end of the forecast."""
    subject = "The trend with its cycles" if CYCLES in f.components else "The trend"
    now, end = trend["median"]
    change, spread = end - now, (trend["upper"][1] - trend["lower"][1]) / WIDTH_80
    until = moments(f, f.times[-1:])[0]
    if abs(change) < 0.2 * spread:
        return f"{subject} has no clear direction until {until}"
    verb = "rises" if change > 0.0 else "falls"
    likelihood = f.choices.likelihood
    if likelihood is not None and likelihood.unit:
        return f"The {likelihood.unit} {'rise' if change > 0.0 else 'fall'} until {until}"
    if f.scale.log and now > 0.0:
        return f"{subject} {verb} by about {_percent(end / now, spread / now)} until {until}"
    return f"{subject} {verb} by about {_two_digits(change)} until {until}"


def _seasons(f: PredictedSeries, swings: dict[str, dict[str, np.ndarray]]) -> Iterator[str]:
    """Clause on the swing of each season over its next period."""
    calendar = f.series.calendar
    for name, season in swings.items():
        period = f.seasons[name]
        times = calendar.future(len(season["median"]))
        median, width = season["median"], np.mean(season["upper"] - season["lower"])
        low, high = int(np.argmin(median)), int(np.argmax(median))
        cycle = _cycle(f, period)
        if median[high] - median[low] < 0.25 * width:
            yield f"a season of {calendar.in_words(period)} is hardly visible"
            continue
        named = _phases(f, times[[low, high]], period)
        if f.scale.log:
            spread = float(width) / WIDTH_80
            swing = [_percent(m, spread) for m in (median[low], median[high])]
        else:
            size = float(median[high] - median[low])
            swing = [_two_digits(m, size) for m in (median[low], median[high])]
        below, above = f"{swing[0]} below", f"{swing[1]} above"
        yield f"{cycle} it swings from {below}{named[0]} to {above}{named[1]}"


def _two_digits(value: float, size: float | None = None) -> str:
    """Absolute value, to two significant digits of `size` (by default its own)."""
    size = abs(value if size is None else size)
    return rounded(abs(value), int(1 - np.floor(np.log10(size)))) if size > 0.0 else "0"


def _cycle(f: PredictedSeries, period: float) -> str:
    """A period as the start of a clause: "within a year", "within 12 steps"."""
    words = f.series.calendar.in_words(period)
    number, _, unit = words.partition(" ")
    article = "an" if unit.startswith("h") else "a"
    return f"within {article} {unit}" if number == "1" else f"within {words}"


def _phases(f: PredictedSeries, times: np.ndarray, period: float) -> list[str]:
    """Month, weekday or hour of each time within a period, such as " (May)"."""
    calendar = f.series.calendar
    if calendar.unit != "years":
        return ["" for _ in times]
    wall = calendar.wall(times).astype("M8[s]")
    if np.isclose(period, 1.0):
        months = wall.astype("M8[M]").astype(int) % 12
        return [f" ({MONTH_TITLES[month]})" for month in months]
    if np.isclose(period, 7.0 / DAYS_PER_YEAR):
        days = (wall.astype("M8[D]").astype(int) + 3) % 7
        return [f" ({WEEKDAYS[day]})" for day in days]
    if np.isclose(period, 1.0 / DAYS_PER_YEAR):
        seconds = (wall - wall.astype("M8[D]")).astype(int)
        return [f" ({second // 3600:02d}:{second % 3600 // 60:02d})" for second in seconds]
    return ["" for _ in times]


def _trust(f: PredictedSeries) -> str:
    """Sentence on the interval at the last step and the accuracy of past forecasts."""
    if f.trust.verdict == "bad":
        return f"Do not rely on it: {f.trust.advice}"
    show, (lower, upper) = predictive_format(f), f.interval(0.8)
    at = moments(f, f.times[-1:])[0]
    text = (
        f"In four cases out of five, the value for {at} lies between {show(lower[-1])} and "
        f"{show(upper[-1])}"
    )
    past = f.past_scores
    if past is None:
        return f"{text}, which cannot be checked, because the series is too short."
    repeated = "season" if f.season_in_steps > 1 else "value"
    return (
        f"{text}; such intervals held {100.0 * past.coverage(0.8):.0f} % of "
        f"{counted(past.count, 'past value')} {past.expectation(0.8)}, from "
        f"{counted(len(past.origins), 'earlier date')}, and the error was "
        f"{compared(past.error_ratio)} the forecast that repeats the last {repeated}."
    )


def moments(f: PredictedSeries, times: np.ndarray) -> list[str]:
    """Times in words where they are months or years, otherwise as labels."""
    calendar, labels = f.series.calendar, f.time_labels(times)
    if "month" not in calendar.kind:
        return [label.replace("T", " ").removesuffix(":00") for label in labels]
    months = calendar.wall(times).astype("M8[M]")
    years, numbers = months.astype("M8[Y]").astype(int) + 1970, months.astype(int) % 12
    if calendar.every % 12 == 0:
        return [str(year) for year in years]
    return [f"{MONTH_TITLES[n]} {year}" for n, year in zip(numbers, years, strict=True)]
