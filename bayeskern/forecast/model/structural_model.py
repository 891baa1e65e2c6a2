"""Options of the structural model behind a forecast."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields

import numpy as np

from bayeskern.core import validation
from bayeskern.forecast.model.kernels import GIVEN
from bayeskern.forecast.model.priors import Priors
from bayeskern.inference import Method
from bayeskern.inference.infer import as_method
from bayeskern.kernels import Kernel
from bayeskern.series.series import MIN_VALUES


@dataclass(frozen=True, kw_only=True, repr=False)
class StructuralModel:
    """Options of the structural model behind a forecast.

    `forecast` and the other functions of series take it as `model=`.

    Attributes:
        log: True to model the logarithm of the values, which keeps the forecast above zero; False
            to model the values. Default None: a weighted average of both if all values are
            positive.
        changes: Times at which the level and the slope change, or "find" to search for up to three
            change points, each with at least five values before and after it. A change is found if
            the values are three times as probable with it as without it. () for no change points.
            Default None: a search only if the series spans fewer than five seasons and has a level
            shift more than 60 times its typical shift.
        robust: True for noise with Student's t distribution, which gives single outliers little
            weight. Default False.
        kernel: A kernel that replaces the trends and the seasons; or several kernels by name, such
            as `KernelSearch.kernels`, whose forecasts are averaged. A kernel applies to
            standardised values and to years since the first observation (steps for numeric times).
            Default None.
        effect_kernels: Name of a regressor -> kernel of a non-linear effect, applied to the
            standardised regressor and standardised values. Default None: all effects are linear.
        holiday_window: Numbers of days before and after each holiday that have effects of their
            own. Default (0, 0).
        lower: Smallest possible value, which replaces smaller predictions; -inf for no bound.
            Default None: 0 if the series is often zero and never negative, such as rainfall,
            else no bound.
        upper: Largest possible value. Default None: no bound.
        priors: Priors of the hyperparameters from `learn_priors`. Default None: built-in priors.
        method: "map" takes the structure with the largest weight, at its mode. Any other name or
            object, as in `infer`, fits this structure by that method. Default None: a weighted
            average of the structures.
        last: Number of last values to fit, at least 3. Default None: the last 600, or as many as
            five of the longest season span, at most 6000. At most 1000 at irregular times, with
            more than 300 gaps, robust noise, change points, effects with kernels, or a method other
            than "map". With a likelihood: the last 500. With a kernel: all values.

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
        _require("log", self.log, self.log in (True, False, None), "True, False or None")
        _require("robust", self.robust, self.robust in (True, False), "True or False")
        for option, kernels in (("kernel", self.kernels), ("effect_kernels", self.effect_kernels)):
            is_mapping = kernels is None or (isinstance(kernels, Mapping) and len(kernels) > 0)
            _require(option, kernels, is_mapping, "at least one kernel by name")
            are_kernels = all(isinstance(k, Kernel) for k in (kernels or {}).values())
            _require(option, kernels, are_kernels, "kernels", TypeError)
        days = np.ravel(np.asarray(self.holiday_window, object)).tolist()
        is_window = len(days) == 2 and all(isinstance(d, int) and d >= 0 for d in days)
        accepted = "the days before and after a holiday, such as (1, 1)"
        _require("holiday_window", self.holiday_window, is_window, accepted)
        lower, upper = _bound(self.lower, -np.inf), _bound(self.upper, np.inf)
        _require("lower", self.lower, lower < np.inf, "a number")
        _require("upper", self.upper, lower < upper, f"a number above lower ({self.lower})")
        is_learned = self.priors is None or isinstance(self.priors, Priors)
        _require("priors", self.priors, is_learned, "a result of learn_priors", TypeError)
        if self.method is not None:
            as_method(self.method)
        if self.last is not None:
            validation.positive_integer(self.last, "StructuralModel(last=...)", least=MIN_VALUES)
        for option in ("robust", "changes", "priors") if self.kernel is not None else ():
            value = getattr(self, option)
            if value is not None and value is not False:
                raise ValueError(
                    f"StructuralModel({option}=...) applies to the built-in structures; remove it "
                    "or kernel=."
                )

    @property
    def kernels(self) -> Mapping[str, Kernel] | None:
        """Kernels of the user by name; None for the built-in trends and seasons."""
        if self.kernel is None or isinstance(self.kernel, Mapping):
            return self.kernel
        return {GIVEN: self.kernel}

    @property
    def is_map(self) -> bool:
        """True if the method is the mode of one structure."""
        return isinstance(self.method, str) and self.method == "map"

    def __repr__(self) -> str:
        pairs = ((field, getattr(self, field.name)) for field in fields(self))
        options = [f"{f.name}={value!r}" for f, value in pairs if value is not f.default]
        return f"StructuralModel({', '.join(options)})"


def require_structural_model(model: object) -> None:
    """Raise TypeError unless `model` holds options of a structural model."""
    if not isinstance(model, StructuralModel):
        raise TypeError(
            "model must be a StructuralModel, such as bk.StructuralModel(log=True); got a "
            f"{type(model).__name__}."
        )


def _bound(value: float | None, default: float) -> float:
    """Bound as a float, or the default for None; NaN if it is not a number."""
    try:
        return default if value is None else float(value)
    except (TypeError, ValueError):
        return np.nan


def _require(
    option: str, value: object, valid: bool, accepted: str, error: type[Exception] = ValueError
) -> None:
    """Raise an error unless the value of an option is valid."""
    if not valid:
        raise error(f"StructuralModel({option}=...) must be {accepted}; got {value!r}.")
