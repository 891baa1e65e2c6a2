"""Names and places of the hyperparameters in a tree: dotted paths, reading, replacing."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

import equinox as eqx
from numpyro.distributions import constraints

from bayeskern.hyperparameters.values import is_specified


class Site(NamedTuple):
    """A hyperparameter of a tree: its dotted name, its path, and the values it may take."""

    name: str
    path: tuple[str | int, ...]
    constraint: constraints.Constraint


def get(tree, path):
    """The value at a path of field names, indices and keys."""
    for step in path:
        tree = (
            tree[step] if isinstance(step, int) or isinstance(tree, dict) else getattr(tree, step)
        )
    return tree


def replace(tree, paths, values):
    """A copy of the tree with these values at these paths."""
    if not paths:
        return tree
    return eqx.tree_at(
        lambda t: [get(t, path) for path in paths],
        tree,
        list(values),
        is_leaf=lambda x: x is None or is_specified(x),
    )


def sites(kernel) -> list[Site]:
    """Every hyperparameter of the kernel, in the order in which they are printed.

    Names are dotted paths: the names given with `named`, and for an unnamed child of a sum or a
    product its class in lower case, with `_2` for a repeat. A lone leaf adds no segment. In
    2 * (3 * k) the scale inside is `scale_2`. Raises ValueError if a name stands for two of them.
    """
    all_sites = list(_walk(kernel, (), ()))
    repeated = [name for name, count in Counter(s.name for s in all_sites).items() if count > 1]
    if repeated:
        raise ValueError(
            f"the hyperparameter name {repeated[0]!r} stands for several values in {kernel!r}. "
            "Give the terms different names with .named(...)."
        )
    return all_sites


def _walk(kernel, names, path, named=False, above=()):
    """Yield the sites of a kernel at `path`, whose dotted names begin with `names`.

    named: whether the name of this kernel is already in `names`. above: the hyperparameters of the
    wrappers around it, which share its `names`.
    """
    if not named and (name := kernel.own_name()) is not None:
        names, named, above = (*names, name), True, ()
    for field, subpath, constraint in kernel.own_hyperparameters():
        above = (*above, field)
        repeat = "" if above.count(field) == 1 else f"_{above.count(field)}"
        yield Site(".".join((*names, field + repeat)), path + subpath, constraint)
    children = kernel.children()
    if len(children) == 1 and not kernel.branches:
        ((subpath, child),) = children
        yield from _walk(child, names, path + subpath, named and not kernel.is_name, above)
    else:
        labels = _labels([child for _, child in children])
        for label, (subpath, child) in zip(labels, children, strict=True):
            yield from _walk(child, (*names, label), path + subpath, named=True)


def _labels(children) -> list[str]:
    """A segment for each child: its own name, or its class with `_2`, `_3` for repeats."""
    counts, labels = Counter(), []
    for child in children:
        label = child.own_name()
        if label is None:
            label = child.label()
            counts[label] += 1
            label = label if counts[label] == 1 else f"{label}_{counts[label]}"
        labels.append(label)
    return labels
