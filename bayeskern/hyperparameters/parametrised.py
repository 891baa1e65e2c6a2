"""What has hyperparameters: kernels, likelihoods, and priors on weights."""

from __future__ import annotations

from typing import ClassVar, Self

import equinox as eqx

from bayeskern.core import validation
from bayeskern.hyperparameters.names import get, replace, sites
from bayeskern.hyperparameters.values import (
    as_hyperparameter,
    check,
    is_specified,
    show,
)
from bayeskern.hyperparameters.values import (
    shape as shape_of,
)


class Point(dict):
    """One value for each site of a model. `at` takes those that are hyperparameters."""


class Parametrised(eqx.Module):
    """Declares hyperparameters with `hyperparameter(default)`: numbers, distributions, `Free`.

    `hyperparameters.sample(this)` gives each of them a value inside a NumPyro model.
    """

    # What holds several children, each of which needs a name of its own.
    branches: ClassVar[bool] = False
    is_name: ClassVar[bool] = False

    def __check_init__(self):
        for name, path, constraint in self.own_hyperparameters():
            check(f"{type(self).__name__}.{name}", get(self, path), constraint)
        self._check_scalars()

    def _check_scalars(self):
        for name, field in self.__dataclass_fields__.items():
            if field.metadata.get("scalar") and (shape := shape_of(getattr(self, name))) != ():
                raise ValueError(
                    f"{type(self).__name__}.{name} must be one number, got shape {shape}."
                )

    def own_hyperparameters(self):
        """(name, path, constraint) of the hyperparameters of this node, children left out."""
        return [
            (f, (f,), field.metadata["constraint"])
            for f, field in self.__dataclass_fields__.items()
            if "constraint" in field.metadata
        ]

    def hyperparameters(self) -> dict:
        """Every hyperparameter by its dotted name: numbers, distributions, free values."""
        return {s.name: get(self, s.path) for s in sites(self)}

    def at(self, values: dict) -> Self:
        """A copy with the named hyperparameters set.

        Raises ValueError on an unknown name. Of a `Point`, such as `posterior.point("mean")`, it
        takes the values of the hyperparameters that still are distributions or free.
        """
        by_name = {s.name: s for s in sites(self)}
        if isinstance(values, Point):
            wanted = [n for n, v in self.hyperparameters().items() if is_specified(v)]
            values = {name: values[name] for name in wanted if name in values}
        for name in values:
            validation.one_of("hyperparameter", name, by_name)
        paths = [by_name[name].path for name in values]
        new = replace(self, paths, [as_hyperparameter(v) for v in values.values()])
        for node in new.nodes():
            node._check_scalars()
        # What a lengthscale must satisfy depends on its shape, so the new one is asked.
        for site in sites(new):
            if site.name in values:
                check(site.name, get(new, site.path), site.constraint)
        return new

    def require_concrete(self) -> Self:
        """Return it as it is, or raise TypeError if it is still a specification."""
        waiting = [n for n, value in self.hyperparameters().items() if is_specified(value)]
        if waiting:
            raise TypeError(
                f"{', '.join(waiting)} of {self!r} have no value yet. "
                "Set them with .at({name: value}), or call bayeskern.sample on it inside a "
                "NumPyro model."
            )
        return self

    def children(self) -> list[tuple[tuple, Parametrised]]:
        """(path, child) of what it is made of."""
        return []

    def nodes(self):
        """It and everything below it."""
        yield self
        for _, child in self.children():
            yield from child.nodes()

    def label(self) -> str:
        """What it is called among several children if it has no name."""
        return type(self).__name__.lower()

    def own_name(self) -> str | None:
        """The name given with `named`, seen through scales, powers and warpings."""
        return None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(self._arguments())})"

    def _arguments(self) -> list[str]:
        return [f"{name}={show(get(self, path))}" for name, path, _ in self.own_hyperparameters()]
