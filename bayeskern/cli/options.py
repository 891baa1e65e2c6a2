"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

import bayeskern as bk
from bayeskern.forecast.data.regressors import read_events
from bayeskern.inference import METHODS


def _parse_whole(kind: Any, tokens: Sequence[Any]) -> int:
    # cyclopts would convert 2.5 to 2.
    try:
        return int(tokens[0].value)
    except ValueError:
        raise ValueError(f"wanted a whole number, got {tokens[0].value!r}") from None


Whole = Annotated[int, Parameter(converter=_parse_whole)]


@Parameter(name="*")
@dataclass
class Reading:
    """Options for reading a file.

    Attributes:
        time: Time column; guessed by default.
        value: Value column; required if there are several.
        every: Aggregate to one value per minute, hour, day, week, month, quarter or year.
        by: How values are aggregated: sum, mean or last; count counts the rows of an event log.
        date_format: Format of the dates, such as %d/%m/%Y, if they are ambiguous; number for
            numbers that look like dates.
        decimal: Decimal mark, a point or a comma, if the numbers are ambiguous.
        sheet: Sheet of a workbook.
        encoding: Encoding of a text file; by default UTF-8, or else Windows-1252.
        timezone: Time zone of local times, such as Europe/Berlin, or the column that holds it.
        skip_rows: Number of rows above the header; by default titles and empty rows are detected.
    """

    time: str | None = None
    value: str | None = None
    every: str | None = None
    by: str | None = None
    date_format: str | None = None
    decimal: str | None = None
    sheet: str | None = None
    encoding: str | None = None
    timezone: str | None = None
    skip_rows: Whole | None = None


# The density of a structure has priors and no closed form.
FITTING = ", ".join(name for name in METHODS if name not in ("auto", "exact", "mle"))
METHOD_HELP = f"Fit the structure with the largest weight alone, by one of {FITTING}."


@Parameter(name="*")
@dataclass
class Modelling:
    """Options for modelling a series.

    Attributes:
        season: Length of a season in steps, such as 12; may be repeated; 0 for none. By default
            inferred from the dates.
        positive: Keep the forecast above zero.
        lower: Smallest possible value.
        upper: Largest possible value.
        likelihood: For counts, poisson, negative_binomial or zero_inflated; for shares, beta.
        trend: Use this trend only: slope, drift, reverting or smooth. By default all but drift are
            averaged.
        log: --log models only the logarithm of the values, --no-log only the values. By default
            both are averaged.
        robust: Limit the effect of outliers, by Student t noise.
        holidays: Country code, such as DE; each public holiday of the country has an effect.
        holiday_window: Numbers of days before and after a holiday that have effects, such as 1 2.
        events: File with columns name and date; each event has an effect on the day, week or month
            of its dates.
        last: Number of last values to fit.
        seed: Random seed.
    """

    season: list[float] | None = None
    positive: bool = False
    lower: float | None = None
    upper: float | None = None
    likelihood: str | None = None
    trend: str | None = None
    log: Annotated[bool | None, Parameter(negative="--no-log")] = None
    robust: bool = False
    holidays: str | None = None
    holiday_window: tuple[int, int] = (0, 0)
    events: Path | None = None
    last: Whole | None = None
    method: Annotated[str | None, Parameter(help=METHOD_HELP)] = None
    seed: Whole = 0

    def options(self, changes: str | list[str] | None = None) -> dict[str, Any]:
        """Arguments of `forecast`, with change points for its model."""
        if self.positive and self.log is False:
            raise ValueError(
                "--positive models the logarithm, --no-log the values as they are; give one."
            )
        model = bk.StructuralModel(
            log=True if self.positive else self.log,
            changes=changes,
            robust=self.robust,
            holiday_window=self.holiday_window,
            lower=self.lower,
            upper=self.upper,
            last=self.last,
            method=self.method,
        )
        names = ("season", "trend", "holidays", "likelihood", "seed")
        events = None if self.events is None else read_events(self.events)
        return {"model": model, "events": events, **{name: getattr(self, name) for name in names}}
