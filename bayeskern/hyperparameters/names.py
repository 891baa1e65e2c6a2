"""Names and places of the hyperparameters in a tree: dotted paths, reading, replacing."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

import equinox as eqx
from numpyro.distributions import constraints

from bayeskern.hyperparameters.values import is_specified


class Site(NamedTuple):
    """Where a hyperparameter stands in a kernel tree, and what it is called."""

    name: str
    path: tuple[str | int, ...]
    constraint: constraints.Constraint


def get(tree, path):
    for step in path:
        tree = (
            tree[step] if isinstance(step, int) or isinstance(tree, dict) else getattr(tree, step)
        )
    return tree


def replace(tree, paths, values):
    """A copy of the tree with the values at the paths exchanged."""
    if not paths:
        return tree
    return eqx.tree_at(
        lambda t: [get(t, path) for path in paths],
        tree,
        list(values),
        is_leaf=lambda x: x is None or is_specified(x),
    )


def sites(kernel) -> list[Site]:
    """Every hyperparameter of the kernel, in the order in which it reads.

    Names are dotted paths: those given with `named`, then the lower-case class of an unnamed child
    of a sum or a product, with `_2` for a repeat. A lone leaf adds no segment. In 2 * (3 * k) the
    inner scale is `scale_2`.
    """
    found = list(_walk(kernel, (), ()))
    repeated = [name for name, count in Counter(s.name for s in found).items() if count > 1]
    if repeated:
        raise ValueError(
            f"the hyperparameter name {repeated[0]!r} stands for several values in {kernel!r}. "
            "Give the terms different names with .named(...)."
        )
    return found


def _walk(kernel, names, path, named=False, above=()):
    """Yield sites below `kernel`.

    `named` says that its first name is already among `names`; `above` are the hyperparameters of
    the wrappers round it, which have the same `names`.
    """
    if not named and (name := kernel.own_name()) is not None:
        names, named, above = (*names, name), True, ()
    for field, where, constraint in kernel.own_hyperparameters():
        above = (*above, field)
        repeat = "" if above.count(field) == 1 else f"_{above.count(field)}"
        yield Site(".".join((*names, field + repeat)), path + where, constraint)
    children = kernel.children()
    if len(children) == 1 and not kernel.branches:
        ((where, child),) = children
        yield from _walk(child, names, path + where, named and not kernel.is_name, above)
    else:
        labels = _labels([child for _, child in children])
        for label, (where, child) in zip(labels, children, strict=True):
            yield from _walk(child, (*names, label), path + where, named=True)


def _labels(children) -> list[str]:
    """A segment for each child: its own name, or its class with `_2`, `_3` for repeats."""
    seen, labels = Counter(), []
    for child in children:
        label = child.own_name()
        if label is None:
            label = child.label()
            seen[label] += 1
            label = label if seen[label] == 1 else f"{label}_{seen[label]}"
        labels.append(label)
    return labels
