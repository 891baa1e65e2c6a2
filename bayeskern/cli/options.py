"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

import bayeskern as bk
from bayeskern.forecast.model.trends import AVERAGED, TRENDS
from bayeskern.inference import METHODS
from bayeskern.likelihoods.analytic import Analytic
from bayeskern.series.read_options import ReadOptions
from bayeskern.series.regressors import read_events


def _parse_whole(kind: Any, tokens: Sequence[Any]) -> int:
    # cyclopts would convert 2.5 to 2.
    try:
        return int(tokens[0].value)
    except ValueError:
        raise ValueError(f"wanted a whole number, got {tokens[0].value!r}") from None


Whole = Annotated[int, Parameter(converter=_parse_whole)]


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Reading(ReadOptions):
    __doc__ = ReadOptions.__doc__

    # Regressors are an option of the commands that take them.
    regressors: Annotated[tuple[str, ...], Parameter(parse=False)] = ()

    def options(self, regressors: Sequence[str] | None = None) -> dict[str, Any]:
        """Arguments of `read_series`, with columns of regressors."""
        return self.given() | ({"regressors": regressors} if regressors else {})


# A new annotation keeps the default and the metadata of the field.
WholeOrNone = Annotated[int | None, Parameter(converter=_parse_whole)]
Reading.__annotations__ |= {
    option.name: WholeOrNone for option in fields(ReadOptions) if option.type == "int | None"
}

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
    likelihood: Annotated[
        str | None,
        Parameter(
            help="For counts or shares: "
            f"{', '.join(f'{name} ({kind.title})' for name, kind in Analytic.by_name().items())}."
        ),
    ] = None
    trend: Annotated[
        str | None,
        Parameter(
            help=f"Use this trend only: {', '.join(TRENDS)}. By default an average "
            f"of {', '.join(AVERAGED)}."
        ),
    ] = None
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
