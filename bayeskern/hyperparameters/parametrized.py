"""Base of all modules with hyperparameters, and their dotted names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, Self

import equinox as eqx
from numpyro.distributions.constraints import Constraint

from bayeskern.core import validation
from bayeskern.hyperparameters.values import as_hyperparameter, check, is_specified, show
from bayeskern.hyperparameters.values import shape as shape_of

Path = tuple[str | int, ...]


class PointEstimate(dict):
    """One value for each site of a model, by name.

    `Parametrized.at` uses the values of hyperparameters and ignores the other sites.
    """


class Parametrized(eqx.Module):
    """A module that declares hyperparameters with `hyperparameter(default)`.

    Each hyperparameter is a number, a NumPyro distribution or `Free`; `sample` gives it a value
    inside a NumPyro model. The module may have children with hyperparameters.

    Attributes:
        branches: True if even a single child adds a segment to the dotted names.
        is_name: True for a module that only gives its child a name.
    """

    branches: ClassVar[bool] = False
    is_name: ClassVar[bool] = False

    def __check_init__(self) -> None:
        for name, path, constraint in self.own_hyperparameters():
            check(f"{type(self).__name__}.{name}", get(self, path), constraint)
        self._check_scalars()

    def _check_scalars(self) -> None:
        for name, field in self.__dataclass_fields__.items():
            if field.metadata.get("scalar") and (shape := shape_of(getattr(self, name))) != ():
                raise ValueError(
                    f"{type(self).__name__}.{name} must be one number, got shape {shape}."
                )

    def own_hyperparameters(self) -> list[tuple[str, Path, Constraint]]:
        """Hyperparameters of this module without its children: (name, path, constraint)."""
        return [
            (f, (f,), field.metadata["constraint"])
            for f, field in self.__dataclass_fields__.items()
            if "constraint" in field.metadata
        ]

    def hyperparameters(self) -> dict[str, Any]:
        """Every hyperparameter by its dotted name: a number, a distribution or `Free`."""
        return {s.name: get(self, s.path) for s in sites(self)}

    def at(self, values: Mapping[str, Any]) -> Self:
        """A copy with the named hyperparameters set.

        Args:
            values: Values by dotted name; or the result of `posterior.point("mean")`, which sets
                the hyperparameters that are distributions or free.

        Raises:
            ValueError: A name is unknown, or a value violates its constraint.
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
        # The constraint of a lengthscale depends on its shape, which `values` may change.
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

    def children(self) -> Sequence[tuple[Path, Parametrized]]:
        """Direct children with hyperparameters: (path, child)."""
        return []

    def nodes(self) -> Iterator[Parametrized]:
        """This module and all modules below it."""
        yield self
        for _, child in self.children():
            yield from child.nodes()

    def label(self) -> str:
        """Segment of dotted names for an unnamed child of a sum or a product."""
        return type(self).__name__.lower()

    def own_name(self) -> str | None:
        """Name given with `named` to this module, or to the module inside its wrappers.

        Wrappers are scales, powers, warpings and so on. None if there is no name.
        """
        return None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(self._arguments())})"

    def _arguments(self) -> list[str]:
        return [f"{name}={show(get(self, path))}" for name, path, _ in self.own_hyperparameters()]


class Site(NamedTuple):
    """A hyperparameter of a tree: its dotted name, its path and its constraint."""

    name: str
    path: Path
    constraint: Constraint


def get(tree: Any, path: Path) -> Any:
    """Value at a path of field names, indices and keys."""
    for step in path:
        tree = (
            tree[step] if isinstance(step, int) or isinstance(tree, dict) else getattr(tree, step)
        )
    return tree


def replace[T](tree: T, paths: Sequence[Path], values: Iterable[Any]) -> T:
    """Copy of a tree with other values at some paths."""
    if not paths:
        return tree
    return eqx.tree_at(
        lambda t: [get(t, path) for path in paths],
        tree,
        list(values),
        is_leaf=lambda x: x is None or is_specified(x),
    )


def sites(kernel: Parametrized) -> list[Site]:
    """Every hyperparameter of a kernel, in the order in which they are printed.

    Names are dotted paths: the names given with `named`, and for an unnamed child of a sum or a
    product its class in lower case, with `_2` for a repeat. An unnamed kernel outside sums and
    products adds no segment. In 2 * (3 * k) the inner scale is `scale_2`.

    Raises:
        ValueError: Two hyperparameters have the same name.
    """
    all_sites = list(_walk(kernel, (), ()))
    repeated = [name for name, count in Counter(s.name for s in all_sites).items() if count > 1]
    if repeated:
        raise ValueError(
            f"the hyperparameter name {repeated[0]!r} stands for several values in {kernel!r}. "
            "Give the terms different names with .named(...)."
        )
    return all_sites


def _walk(
    kernel: Parametrized,
    names: tuple[str, ...],
    path: Path,
    is_named: bool = False,
    outer_fields: tuple[str, ...] = (),
) -> Iterator[Site]:
    """Yield the sites of a kernel.

    In 2 * (3 * RBF()).named("a"), the own name of the outer scale is "a", so it has the site
    a.scale and passes ("a",) and is_named=True to the name. The name passes is_named=False to the
    inner scale, which has no own name: its site is a.scale_2, and RBF adds a.lengthscale.

    Args:
        kernel: The kernel.
        names: First segments of the dotted names.
        path: Path of the kernel.
        is_named: True if `names` ends with the own name of this kernel.
        outer_fields: Hyperparameters of the wrappers around the kernel that share `names`.
    """
    if not is_named and (name := kernel.own_name()) is not None:
        names, is_named, outer_fields = (*names, name), True, ()
    for field, subpath, constraint in kernel.own_hyperparameters():
        outer_fields = (*outer_fields, field)
        count = outer_fields.count(field)
        repeat = "" if count == 1 else f"_{count}"
        yield Site(".".join((*names, field + repeat)), path + subpath, constraint)
    children = kernel.children()
    if len(children) == 1 and not kernel.branches:
        ((subpath, child),) = children
        is_child_named = is_named and not kernel.is_name
        yield from _walk(child, names, path + subpath, is_child_named, outer_fields)
    else:
        labels = _labels([child for _, child in children])
        for label, (subpath, child) in zip(labels, children, strict=True):
            yield from _walk(child, (*names, label), path + subpath, is_named=True)


def _labels(children: Iterable[Parametrized]) -> list[str]:
    """A segment for each child: its own name, or its class, with `_2` for a repeat."""
    counts, labels = Counter(), []
    for child in children:
        label = child.own_name()
        if label is None:
            label = child.label()
            counts[label] += 1
            label = label if counts[label] == 1 else f"{label}_{counts[label]}"
        labels.append(label)
    return labels
