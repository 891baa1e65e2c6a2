"""Problem: a model with its data, as in the files of the gallery."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from bayeskern.inference.infer import infer
from bayeskern.inference.methods.base import Method
from bayeskern.inference.model.bound import BoundModel
from bayeskern.inference.posterior.posterior import Posterior


@dataclass(frozen=True, eq=False)
class Problem:
    """A NumPyro model with its data, as in the files of the gallery.

    Args:
        model: A NumPyro model.
        data: Arguments of the model: a tuple, or a dict by name.
        coords: Labels along named axes, in ArviZ's form.
        dims: Names for the axes of sites, in ArviZ's form.
        predict: Arguments of `posterior.predict`; None if there is nothing to predict.

    Raises:
        TypeError: If an argument has a wrong type, or the model does not accept the data.
    """

    model: Callable
    data: tuple | dict = ()
    coords: dict | None = None
    dims: dict | None = None
    predict: tuple | None = None

    def __post_init__(self) -> None:
        _require("model", self.model, callable(self.model), "a callable NumPyro model")
        is_valid = isinstance(self.data, tuple | dict)
        _require("data", self.data, is_valid, "a tuple or dict of arguments, such as (X, y)")
        for name in ("coords", "dims"):
            value = getattr(self, name)
            is_valid = value is None or isinstance(value, dict)
            _require(name, value, is_valid, "a dict in ArviZ's form")
        is_valid = self.predict is None or isinstance(self.predict, tuple)
        wanted = "a tuple of arguments, such as (X_new,), or None"
        _require("predict", self.predict, is_valid, wanted)
        try:
            inspect.signature(self.model).bind(*self._args, **self._kwargs)
        except TypeError as reason:
            raise TypeError(f"the model does not accept the data: {reason}.") from None

    def fit(self, method: str | Method = "auto", **options: Any) -> Posterior:
        """Fit the model to its data.

        Args:
            method: As in `bk.infer`.
            **options: `seed`, `progress` and `missing`, as in `bk.infer`.

        Returns:
            The posterior.
        """
        axes = {"coords": self.coords, "dims": self.dims}
        return infer(
            self.model, *self._args, method=method, **axes, **options, model_kwargs=self._kwargs
        )

    @property
    def _args(self) -> tuple:
        return self.data if isinstance(self.data, tuple) else ()

    @property
    def _kwargs(self) -> dict:
        return self.data if isinstance(self.data, dict) else {}


def _require(name: str, value: object, is_valid: bool, wanted: str) -> None:
    if not is_valid:
        raise TypeError(f"{name} must be {wanted}; got {type(value).__name__}.")


def bind(problem: Problem | Callable, args: tuple, kwargs: dict) -> BoundModel:
    """Bind a Problem, or a model with its arguments.

    Raises TypeError for a Problem with arguments, since it has its own data.
    """
    if not isinstance(problem, Problem):
        return BoundModel.from_model(problem, args, kwargs)
    if args or kwargs:
        raise TypeError(
            "a Problem holds its own data and takes no other arguments. To use its model with "
            "other data, pass problem.model and the data."
        )
    return BoundModel.from_model(
        problem.model, problem._args, problem._kwargs, problem.coords, problem.dims
    )
