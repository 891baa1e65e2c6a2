"""Totals over periods, aligned with finer values of the same quantity."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

import numpy as np

from bayeskern.core.formatting import counted
from bayeskern.forecast.model.learned import frequency_of, learned
from bayeskern.forecast.model.processes.fine_steps import FineSteps
from bayeskern.series.calendar import Calendar
from bayeskern.series.series import Series


@dataclass(frozen=True, eq=False)
class Aligned:
    """Totals over finished periods, and fine values up to the present.

    Attributes:
        totals: Totals of all finished periods.
        fine: Fine values without gaps. They may start within a period, and may end within the
            unfinished one.
    """

    totals: Series
    fine: Series

    @property
    def start(self) -> int:
        """Index of the first fine value."""
        return int(_indices(self.fine.calendar, self.fine.times[:1])[0])

    @property
    def stop(self) -> int:
        """Index after the last fine value."""
        return self.start + len(self.fine.values)

    def edges(self, count: int) -> np.ndarray:
        """First fine step of each of `count` periods from the first total on, and the end."""
        return _edges(self.totals.calendar, self.fine.calendar, count)

    @cached_property
    def counts(self) -> np.ndarray:
        """Number of fine steps of each total, (n,)."""
        steps = self.totals.calendar.steps()
        return np.diff(self.edges(int(steps[-1]) + 1))[steps]

    @cached_property
    def mean_count(self) -> float:
        """Average number of fine steps of a period."""
        return float(np.mean(self.counts))

    @cached_property
    def adjusted(self) -> Series:
        """Totals of periods of average length: mean of the fine steps times `mean_count`."""
        return replace(self.totals, values=self.totals.values * self.mean_count / self.counts)

    def fine_steps(self, horizon: int) -> FineSteps:
        """Periods as intervals of fine steps, beyond the horizon."""
        count = int(self.totals.calendar.steps()[-1]) + 1
        calendar, fine = self.totals.calendar, self.fine.calendar
        in_steps = {name: length / fine.step for name, length in fine.seasons().items()}
        seasons = {
            f"season_{name}": length
            for name, length in in_steps.items()
            if length < 1.01 * self.mean_count
        }
        return FineSteps(
            step=calendar.step,
            # Enough periods beyond the horizon for `likely_times` and for sentences on the seasons.
            edges=self.edges(2 * count + horizon + 36),
            mean_count=self.mean_count,
            seasons=seasons,
            learned=learned(frequency_of(fine.step, None, bool(seasons))),
        )

    @property
    def chosen(self) -> np.ndarray:
        """Mask of the fine values to fit.

        If all fine values of a period with a total are known, the last one is left out, because the
        total implies it.
        """
        observed, calendar = self.totals.observed, self.totals.calendar
        ends = self.edges(int(calendar.steps()[-1]) + 1)
        rows = calendar.steps()[observed]
        is_full = ends[rows] >= self.start
        mask = np.ones(len(self.fine.values), bool)
        mask[ends[rows + 1][is_full] - 1 - self.start] = False
        return mask

    def data(self, steps: FineSteps) -> tuple[np.ndarray, np.ndarray]:
        """Positions and values to fit, totals first, all as totals of an average period."""
        observed, adjusted = self.totals.observed, self.adjusted
        x = adjusted.calendar.positions(adjusted.times[observed])
        indices = self.start + np.flatnonzero(self.chosen)
        values = self.fine.values[self.chosen] * self.mean_count
        return np.append(x, steps.positions(indices)), np.append(adjusted.values[observed], values)


# Maximum number of totals in a fit, whose time is cubic in it.
MAX_TOTALS = 240


def aligned(totals: Series, fine: Series, last: int | None = None) -> Aligned:
    """Totals and fine values on one grid of fine steps.

    Args:
        totals: Totals over months, quarters or years.
        fine: Values of the same quantity over days, business days or months.
        last: Number of last totals to use; all, up to `MAX_TOTALS`, if None.

    Raises:
        ValueError: The values are not of a finer frequency, have gaps, do not reach the end of the
            totals, or do not add up to a total.
    """
    _require_periods(totals.calendar)
    _require_finer(totals.calendar, fine)
    _require_complete(fine)
    first = int(_edges(totals.calendar, fine.calendar, 1)[0])
    start = int(_indices(fine.calendar, fine.times[:1])[0])
    if start < first:
        fine = _from_row(fine, first - start)
        fine = fine.with_remarks("values before the first total are left out")
    pair = _with_finished_periods(Aligned(_without_unfinished(Aligned(totals, fine)), fine))
    limit = MAX_TOTALS if last is None else last
    if int(pair.totals.observed.sum()) > limit:
        pair = Aligned(pair.totals.last(limit), pair.fine)
        lead = int(pair.edges(1)[0]) - pair.start
        pair = replace(pair, fine=_from_row(pair.fine, lead)) if lead > 0 else pair
    return _recent(pair)


# Maximum number of fine values.
MAX_FINE_VALUES = 400


def _recent(pair: Aligned) -> Aligned:
    """Pair with at most `MAX_FINE_VALUES` fine values, from the start of a period."""
    if len(pair.fine.values) <= MAX_FINE_VALUES:
        return pair
    edges = pair.edges(int(pair.totals.calendar.steps()[-1]) + 2)
    starts = edges[edges >= pair.stop - MAX_FINE_VALUES]
    fine = _from_row(pair.fine, int(starts[0]) - pair.start)
    remark = f"only the last {len(fine.values):,} of {len(pair.fine.values):,} values are used"
    return Aligned(pair.totals, fine.with_remarks(remark))


# Relative difference between a total and the sum of its fine values that counts as rounding.
ROUNDING_TOL = 1e-3


def _without_unfinished(pair: Aligned) -> Series:
    """Totals, checked against the fine values, without that of an unfinished period.

    Raises:
        ValueError: Fine values do not add up to a total, or end before the totals or begin after
            them.
    """
    totals, steps = pair.totals, pair.totals.calendar.steps()
    edges = pair.edges(int(steps[-1]) + 1)
    label = totals.calendar.labels(totals.times)
    fine_label = pair.fine.calendar.labels(pair.fine.times[[0, -1]])
    if pair.start > edges[-1]:
        raise ValueError(
            f"recent must begin right after the last total, {label[-1]}, or before; its first time "
            f"is {fine_label[0]}. Give the values since the last total."
        )
    for row in np.flatnonzero(totals.observed):
        start, stop = edges[steps[row]], edges[steps[row] + 1]
        if start < pair.start or start >= pair.stop:
            continue
        total = totals.values[row]
        values = pair.fine.values[start - pair.start : stop - pair.start]
        agrees = abs(values.sum() - total) <= ROUNDING_TOL * max(abs(total), np.abs(values).sum())
        if agrees and stop > pair.stop:
            remark = f"the last total, {label[row]}, is the sum so far: the period is unfinished"
            return totals.until(int(row)).with_remarks(*totals.remarks, remark)
        if not agrees and stop <= pair.stop:
            means = abs(values.mean() - total) <= ROUNDING_TOL * abs(total)
            hint = (
                "It is their mean: give totals, the means times the number of values."
                if means
                else "Correct one of the two, or leave out the recent values before this time."
            )
            raise ValueError(
                f"recent: the {len(values)} values of {label[row]} add up to {values.sum():,.6g}, "
                f"but their total is {total:,.6g}. {hint}"
            )
    if pair.stop < edges[-1]:
        raise ValueError(
            f"recent must reach the end of the last total, {label[-1]}; its last time is "
            f"{fine_label[1]}. Give the values up to now, or use bk.forecast without them."
        )
    return totals


def _with_finished_periods(pair: Aligned) -> Aligned:
    """Pair with totals of later periods whose fine values are all known."""
    count = int(pair.totals.calendar.steps()[-1]) + 1
    later = len(pair.fine.values) // 2 + 1
    edges = pair.edges(count + later)[count:]
    finished = int(np.sum(edges[1:] <= pair.stop))
    if not finished:
        return pair
    # The fine values begin before the end of the last total, so they cover all later periods.
    sums = [
        pair.fine.values[a - pair.start : b - pair.start].sum()
        for a, b in pairwise(edges[: finished + 1])
    ]
    times = pair.totals.calendar.future(finished)
    labels = pair.totals.calendar.labels(times)
    periods = labels[0] if finished == 1 else f"{labels[0]} to {labels[-1]}"
    remark = f"{counted(finished, 'total')} ({periods}) taken from the recent values"
    return replace(pair, totals=pair.totals.extended(sums, times).with_remarks(remark))


def _from_row(series: Series, row: int) -> Series:
    """A series of fine values from one of its rows on."""
    calendar = replace(series.calendar, times=series.times[row:])
    return replace(series, values=series.values[row:], calendar=calendar)


# -- the grid of fine steps ------------------------------------------------------------------------


def _edges(periods: Calendar, fine: Calendar, count: int) -> np.ndarray:
    """First fine step of each of `count` periods from the first time on, and the end."""
    first = _first_months(periods, periods.times[:1])[0]
    months = first + np.arange(count + 1) * int(periods.every)
    if "month" in fine.kind:
        return months.astype(np.int64) // int(fine.every)
    return _day_indices(fine, months.astype("M8[D]"))


def _indices(fine: Calendar, times: np.ndarray) -> np.ndarray:
    """Index of the fine step at each time."""
    if "month" in fine.kind:
        return _first_months(fine, times).astype(np.int64) // int(fine.every)
    return _day_indices(fine, fine.wall(times).astype("M8[D]"))


def _day_indices(fine: Calendar, days: np.ndarray) -> np.ndarray:
    """Index of the fine step, a day or a business day, at each day."""
    if fine.kind == "business":
        return np.busday_count(np.datetime64("1970-01-01"), days)
    return days.astype(np.int64)


def _first_months(calendar: Calendar, times: np.ndarray) -> np.ndarray:
    """First month of the period at each time, which is its first or its last day."""
    months = calendar.wall(times).astype("M8[M]")
    return months if calendar.day == 1 else months - np.timedelta64(int(calendar.every) - 1, "M")


def _require_periods(calendar: Calendar) -> None:
    """Raise ValueError unless a calendar is one of months, quarters or years."""
    is_named = calendar.every == 1 or calendar.day in (1, 31)
    if "month" not in calendar.kind or not calendar.regular or not is_named:
        raise ValueError(
            "totals must be a series over months, quarters or years, each at its first or "
            f"last day; got a series that is {calendar.description}. For other periods, aggregate: "
            "read_series(..., every='month', by='sum')."
        )


def _require_finer(periods: Calendar, fine: Series) -> None:
    """Raise ValueError unless periods consist of at least two steps of a finer series."""
    calendar = fine.calendar
    is_daily = calendar.kind in ("day", "business") and calendar.every == 1
    is_monthly = "month" in calendar.kind and (calendar.every == 1 or calendar.day in (1, 31))
    if is_monthly:
        is_whole = periods.every % calendar.every == 0
        first = _first_months(periods, periods.times[:1]).astype(np.int64)[0]
        is_aligned = (first - _first_months(calendar, fine.times[:1]).astype(int)[0]) % int(
            calendar.every
        ) == 0
        is_monthly = is_whole and is_aligned and periods.every > calendar.every
    if not calendar.regular or not (is_daily or is_monthly):
        raise ValueError(
            "recent must have a finer frequency than totals, days, business days or months; it "
            f"is {calendar.description}, and totals are {periods.description}. Exchange the "
            "two, or aggregate: read_series(..., every='day', by='sum')."
        )


def _require_complete(fine: Series) -> None:
    """Raise ValueError unless a series has a value at each step."""
    missing = np.flatnonzero(~np.isfinite(fine.on_grid()))
    if len(missing):
        time = fine.calendar.labels(fine.calendar.grid(0)[missing[:1]])[0]
        raise ValueError(
            f"recent: {counted(len(missing), 'time')} without a value, the first {time}. Give each "
            "a value, 0 if there was nothing, or only the values since the last gap."
        )
