"""Problem: a model and its data, as a file of the gallery offers them."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass

from bayeskern.inference.infer import infer
from bayeskern.inference.model.bound import BoundModel
from bayeskern.inference.posterior.posterior import Posterior


@dataclass(frozen=True, eq=False)
class Problem:
    """A NumPyro model with the data it is fitted to, as a file of the gallery offers them.

    Args:
        model: A NumPyro model.
        data: The arguments of the model: a tuple, or a dict by name.
        coords: Labels along named axes, as ArviZ takes them.
        dims: Names for the axes of sites, as ArviZ takes them.
        predict: The arguments of `posterior.predict`; None where there is nothing to predict.

    Raises:
        TypeError: If one of these is something else, or the model does not take the data.
    """

    model: Callable
    data: tuple | dict = ()
    coords: dict | None = None
    dims: dict | None = None
    predict: tuple | None = None

    def __post_init__(self):
        _require("model", self.model, callable(self.model), "a NumPyro model, which can be called")
        fits = isinstance(self.data, tuple | dict)
        _require("data", self.data, fits, "a tuple of the model's arguments, such as (X, y)")
        for name in ("coords", "dims"):
            value = getattr(self, name)
            fits = value is None or isinstance(value, dict)
            _require(name, value, fits, "a dict, as ArviZ takes it")
        fits = self.predict is None or isinstance(self.predict, tuple)
        _require("predict", self.predict, fits, "a tuple of arguments, such as (X_new,), or None")
        try:
            inspect.signature(self.model).bind(*self._args, **self._kwargs)
        except TypeError as reason:
            raise TypeError(f"data are not what the model takes: {reason}.") from None

    def fit(self, method="auto", **options) -> Posterior:
        """Fit the model to its data.

        Args:
            method: As `bk.infer` takes it.
            **options: `seed` and `progress`, as `bk.infer` takes them.

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


def _require(name: str, value, fits: bool, wanted: str) -> None:
    if not fits:
        raise TypeError(f"{name} must be {wanted}; got {type(value).__name__}.")


def bind(problem, args: tuple, kwargs: dict) -> BoundModel:
    """The bound model of a Problem, or of a model with its arguments.

    Raises TypeError if a Problem, which has its own data, comes with arguments.
    """
    if not isinstance(problem, Problem):
        return BoundModel.of(problem, args, kwargs)
    if args or kwargs:
        raise TypeError(
            "a Problem holds its own data, so that there are no other arguments to give; to fit "
            "its model to other data, give problem.model and these."
        )
    return BoundModel.of(
        problem.model, problem._args, problem._kwargs, problem.coords, problem.dims
    )
