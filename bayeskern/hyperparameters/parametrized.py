"""The base of everything that has hyperparameters: kernels, likelihoods, priors on weights."""

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


class PointEstimate(dict):
    """One value for each site of a model, by name.

    `Parametrized.at` takes from it the values of the hyperparameters, and leaves the other sites.
    """


class Parametrized(eqx.Module):
    """A module that declares hyperparameters with `hyperparameter(default)`.

    Each is a number, a NumPyro distribution or `Free`; `sample` gives each of them a value inside a
    NumPyro model. The module may have children, which have hyperparameters too.

    Attributes:
        branches: Whether it holds several children, each of which needs a name of its own.
        is_name: Whether it gives the child inside it a name.
    """

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
        """The hyperparameters of this module without its children: (name, path, constraint)."""
        return [
            (f, (f,), field.metadata["constraint"])
            for f, field in self.__dataclass_fields__.items()
            if "constraint" in field.metadata
        ]

    def hyperparameters(self) -> dict:
        """Every hyperparameter by its dotted name: a number, a distribution or `Free`."""
        return {s.name: get(self, s.path) for s in sites(self)}

    def at(self, values: dict) -> Self:
        """A copy with the named hyperparameters set.

        Args:
            values: Values by dotted name. Of a `posterior.point("mean")`, which has every site of
                the model, only those of hyperparameters that are distributions or free are used.

        Raises:
            ValueError: A name is unknown, or a value is not allowed.
        """
        by_name = {s.name: s for s in sites(self)}
        if isinstance(values, PointEstimate):
            specified = [n for n, v in self.hyperparameters().items() if is_specified(v)]
            values = {name: values[name] for name in specified if name in values}
        for name in values:
            validation.one_of("hyperparameter", name, by_name)
        paths = [by_name[name].path for name in values]
        updated = replace(self, paths, [as_hyperparameter(v) for v in values.values()])
        for node in updated.nodes():
            node._check_scalars()
        # The constraint of a lengthscale depends on its shape, which may have changed.
        for site in sites(updated):
            if site.name in values:
                check(site.name, get(updated, site.path), site.constraint)
        return updated

    def require_concrete(self) -> Self:
        """Return self, or raise TypeError if a hyperparameter is a distribution or free."""
        unset = [n for n, value in self.hyperparameters().items() if is_specified(value)]
        if unset:
            raise TypeError(
                f"{', '.join(unset)} of {self!r} have no value yet. "
                "Set them with .at({name: value}), or call bayeskern.sample on it inside a "
                "NumPyro model."
            )
        return self

    def children(self) -> list[tuple[tuple, Parametrized]]:
        """The modules with hyperparameters that this one is made of: (path, child)."""
        return []

    def nodes(self):
        """This module and everything below it."""
        yield self
        for _, child in self.children():
            yield from child.nodes()

    def label(self) -> str:
        """The segment of dotted names for an unnamed child of a sum or a product."""
        return type(self).__name__.lower()

    def own_name(self) -> str | None:
        """The name given with `named`, seen through scales, powers and warpings."""
        return None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(self._arguments())})"

    def _arguments(self) -> list[str]:
        return [f"{name}={show(get(self, path))}" for name, path, _ in self.own_hyperparameters()]
