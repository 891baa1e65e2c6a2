"""Options of the structural model behind a forecast."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields

import numpy as np

from bayeskern.core import validation
from bayeskern.forecast.data.series import MIN_VALUES
from bayeskern.forecast.model.kernels import GIVEN
from bayeskern.forecast.model.priors import Priors
from bayeskern.inference import Method
from bayeskern.inference.infer import as_method
from bayeskern.kernels import Kernel


@dataclass(frozen=True, kw_only=True, repr=False)
class StructuralModel:
    """Options of the structural model behind a forecast.

    `forecast`, `forecast_many`, `backtest`, `anomalies` and `learn_priors` take it as `model=`.

    Attributes:
        log: True to model the logarithm of the values, which keeps the forecast above zero.
            Default None: a weighted average of both scales.
        changes: Times at which the level and the slope change, or "find" to search for up to three
            change points. Default None: no change points.
        robust: True for noise with Student's t distribution, which gives single outliers little
            weight. Default False.
        kernel: A kernel that replaces the trends and the seasons, or several kernels by name, such
            as `KernelSearch.kernels`, whose forecasts are averaged. It applies to standardised
            values and to years since the first observation (steps for numeric times). Default None.
        effect_kernels: Name of a regressor -> kernel of a non-linear effect, applied to the
            standardised regressor and standardised values. Default None: all effects are linear.
        holiday_window: Days before and after each holiday that have effects of their own. Default
            (0, 0).
        lower: Smallest possible value; smaller predictions count as this value. -inf means no
            bound. Default None: 0 if the series is often zero and never negative, as rain is,
            else no bound.
        upper: Largest possible value. Default None: no bound.
        priors: Priors of the hyperparameters from `learn_priors`. Default None: built-in priors.
        method: "map" takes the most probable structure at its mode. Any other name or object, as in
            `infer`, fits the most probable structure by that method. Default None: a weighted
            average of the structures.
        last: Number of last values to fit, at least 3. Default None: the last 600 if they hold at
            least five of the longest season. Otherwise all values; by basis functions if there are
            more than 1000, or more than 600 and 1000 hold fewer than five of the longest season.
            With robust noise, change points, effects with kernels, priors, a trend or another
            method: at most the last 1000. With a likelihood: the last 500.

    Raises:
        ValueError: A value is invalid, or a kernel is combined with priors, robust noise or change
            points.
        TypeError: A kernel, priors or a method has the wrong type.

    Examples:
        >>> import bayeskern as bk
        >>> bk.StructuralModel(log=True, robust=True)
        StructuralModel(log=True, robust=True)
    """

    log: bool | None = None
    changes: object = None
    robust: bool = False
    kernel: Kernel | Mapping[str, Kernel] | None = None
    effect_kernels: Mapping[str, Kernel] | None = None
    holiday_window: tuple[int, int] = (0, 0)
    lower: float | None = None
    upper: float | None = None
    priors: Priors | None = None
    method: str | Method | None = None
    last: int | None = None

    def __post_init__(self) -> None:
        for option, choices in (("log", (True, False, None)), ("robust", (True, False))):
            if getattr(self, option) not in choices:
                wanted, value = " or ".join(map(str, choices)), getattr(self, option)
                raise ValueError(f"StructuralModel({option}=...) must be {wanted}; got {value!r}.")
        _require_kernels("kernel", self.kernels)
        _require_kernels("effect_kernels", self.effect_kernels)
        _require_window(self.holiday_window)
        _require_bounds(self.lower, self.upper)
        if self.priors is not None and not isinstance(self.priors, Priors):
            raise TypeError(
                "StructuralModel(priors=...) must be a result of learn_priors; got "
                f"{self.priors!r}."
            )
        if self.method is not None:
            as_method(self.method)
        if self.last is not None:
            validation.positive_integer(self.last, "StructuralModel(last=...)", least=MIN_VALUES)
        if self.kernel is not None and (self.robust or self.changes is not None):
            raise ValueError(
                "StructuralModel(robust=True) and StructuralModel(changes=...) apply to the "
                "built-in trends; got a kernel beside them."
            )
        if self.kernel is not None and self.priors is not None:
            raise ValueError(
                "StructuralModel(priors=...) applies to the built-in structures, and a kernel has "
                "priors of its own: give one of them."
            )

    @property
    def kernels(self) -> Mapping[str, Kernel] | None:
        """Kernels by name that replace the trends and the seasons; None for the built-in ones."""
        if self.kernel is None or isinstance(self.kernel, Mapping):
            return self.kernel
        return {GIVEN: self.kernel}

    @property
    def is_map(self) -> bool:
        """True if the method is the mode of the most probable structure."""
        return isinstance(self.method, str) and self.method == "map"

    def __repr__(self) -> str:
        pairs = ((field, getattr(self, field.name)) for field in fields(self))
        options = [f"{f.name}={value!r}" for f, value in pairs if value is not f.default]
        return f"StructuralModel({', '.join(options)})"


def _require_kernels(option: str, kernels: object) -> None:
    """Raise an error unless kernels is None or a non-empty mapping of kernels."""
    if kernels is None:
        return
    if not isinstance(kernels, Mapping) or not kernels:
        raise ValueError(
            f"StructuralModel({option}=...) must have at least one kernel by name; got {kernels!r}."
        )
    for name, kernel in kernels.items():
        if not isinstance(kernel, Kernel):
            raise TypeError(f"StructuralModel({option}=...) must be kernels; {name} is {kernel!r}.")


def _require_window(window: object) -> None:
    """Raise ValueError unless window is a pair of non-negative integers."""
    days = np.ravel(np.asarray(window, object)).tolist()
    if len(days) != 2 or not all(isinstance(d, int) and d >= 0 for d in days):
        raise ValueError(
            "StructuralModel(holiday_window=...) must be the days before and after a holiday, such "
            f"as (1, 1); got {window!r}."
        )


def _require_bounds(lower: float | None, upper: float | None) -> None:
    """Raise ValueError unless the bounds are numbers in ascending order."""
    try:
        ends = float(-np.inf if lower is None else lower), float(np.inf if upper is None else upper)
    except (TypeError, ValueError):
        raise ValueError(
            f"StructuralModel(lower=..., upper=...) must be numbers; got {lower!r} and {upper!r}."
        ) from None
    if not ends[0] < ends[1]:
        raise ValueError(
            f"StructuralModel(lower=...) must lie below upper; got lower={lower!r} and "
            f"upper={upper!r}."
        )
