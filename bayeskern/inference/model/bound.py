"""A model with its arguments, prepared and checked once."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from bayeskern.inference.model.target import Target
from bayeskern.inference.model.trace.axes import require_axes
from bayeskern.protocols import PreparesData, coords_of, dims_of


class BoundModel(NamedTuple):
    """A model, its arguments, and names for the axes of its sites.

    Attributes:
        model: The model.
        args: Its positional arguments.
        kwargs: Its keyword arguments.
        coords: Labels along named axes.
        dims: Names for the axes of sites.
        original: Positional and keyword arguments as the user passed them.
    """

    model: Callable
    args: tuple
    kwargs: dict
    coords: dict
    dims: dict
    original: tuple[tuple, dict]

    @classmethod
    def from_model(
        cls,
        model: Callable,
        args: tuple,
        kwargs: dict,
        coords: dict | None = None,
        dims: dict | None = None,
    ) -> BoundModel:
        """Bind a model to its arguments.

        If the model has a method `prepare`, bind the model and arguments that it returns.
        Raises TypeError if coords or dims are not dicts, or if the model is a class.
        """
        for name, value in (("coords", coords), ("dims", dims)):
            if value is not None and not hasattr(value, "items"):
                raise TypeError(f"{name} must be a dict, as in ArviZ, got {type(value).__name__}.")
        if isinstance(model, type):
            raise TypeError(f"model must be an object, {model.__name__}(...), and not its class.")
        original = (args, kwargs)
        if isinstance(model, PreparesData):
            (model, args), kwargs = model.prepare(*args, **kwargs), {}
        coords = {**coords_of(model), **(coords or {})}
        return cls(model, args, kwargs, coords, dims_of(model) | dict(dims or {}), original)

    def target(self) -> Target:
        """Log density; raises ValueError if coords or dims do not match the sites."""
        target = Target.from_model(self.model, self.args, self.kwargs)
        if self.coords or self.dims:
            require_axes(target.sites(), self.coords, self.dims)
        return target
