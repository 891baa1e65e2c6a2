"""A model with its arguments, read and checked once."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from bayeskern.inference.model.target import Target
from bayeskern.inference.model.trace.axes import require_axes
from bayeskern.protocols import PreparesData, coords_of


class BoundModel(NamedTuple):
    """A model, its arguments, and names for the axes of its sites.

    original: the arguments as they came, before the model prepared them.
    """

    model: Callable
    args: tuple
    kwargs: dict
    coords: dict
    dims: dict
    original: tuple[tuple, dict]

    @classmethod
    def of(cls, model, args: tuple, kwargs: dict, coords=None, dims=None) -> BoundModel:
        """Let a model that `PreparesData` set its default priors and make arrays of its data.

        Raises TypeError if coords or dims are no dicts.
        """
        for name, value in (("coords", coords), ("dims", dims)):
            if value is not None and not hasattr(value, "items"):
                raise TypeError(
                    f"{name} must be a dict, as ArviZ takes it, got {type(value).__name__}."
                )
        original = (args, kwargs)
        if isinstance(model, PreparesData):
            (model, args), kwargs = model.prepare(*args, **kwargs), {}
        coords = {**coords_of(model), **(coords or {})}
        return cls(model, args, kwargs, coords, dict(dims or {}), original)

    def target(self) -> Target:
        """The log density. Raises ValueError where coords or dims do not go with the sites."""
        target = Target.of(self.model, self.args, self.kwargs)
        if self.coords or self.dims:
            require_axes(target.sites(), self.coords, self.dims)
        return target
