"""Functions that warp a kernel: their weights as hyperparameters, and their values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
import jax.tree_util as jtu
import numpy as np
from numpyro.distributions import Distribution, constraints

from bayeskern import hyperparameters as hyper
from bayeskern.hyperparameters import Free


def sites(f: Callable) -> list[tuple]:
    """Weights of a module as hyperparameters: (name, path below f, constraint).

    Weights are floating arrays, and distributions and `Free` that replace them. The name is the
    path of the weight, such as "warp.layers.0.bias".
    """
    return [(".".join(("warp", *map(str, path))), path, constraints.real) for path in _weights(f)]


def with_weights(f: Callable, weights: Distribution | type[Free] | None) -> Callable:
    """Copy of a module whose numeric weights have a prior or are free.

    Args:
        f: The module.
        weights: Prior of every weight, a distribution of one number; or the class `Free`; or None,
            to leave the weights as they are.

    Returns:
        The copy.

    Raises:
        TypeError: weights is neither a distribution, nor the class `Free`, nor None.
        ValueError: weights is a distribution of more than one number, or no weight is a number.
    """
    if weights is None:
        return f
    if isinstance(weights, Distribution):
        if weights.shape() != ():
            raise ValueError(
                "weights must be a distribution of one number, the prior of every weight, but "
                f"{hyper.show(weights)} has shape {weights.shape()}. For different priors, "
                "replace arrays of the network by distributions with eqx.tree_at."
            )
    elif weights is not Free:
        raise TypeError(
            "weights must be the prior of every weight, a NumPyro distribution such as "
            "Normal(0, 1), or the class Free, which trains the weights from their values; "
            f"got {weights!r}."
        )
    numbers = {path: leaf for path, leaf in _weights(f).items() if not hyper.is_specified(leaf)}
    if not numbers:
        raise ValueError(
            f"weights= has nothing to train: {show(f)} has no floating arrays. Use an equinox "
            "module with arrays, such as eqx.nn.MLP; convert Python numbers with jnp.asarray."
        )
    return hyper.replace(f, list(numbers), [_trained(leaf, weights) for leaf in numbers.values()])


def values(f: Callable, X: jax.Array) -> jax.Array:
    """f(x) of each row x of X: (n, e) for e values, (n, 1) if f returns a number.

    Raises:
        ValueError: f returns something else, or its shape depends on the values in x.
    """
    return jax.vmap(partial(_vector, f))(X)


def show(f: Callable) -> str:
    """Name of a function; for a network, its class and the numbers of its weights."""
    counts = Counter()
    for leaf in _weights(f).values():
        counts[_kind(leaf)] += int(np.prod(hyper.shape(leaf)))
    kinds = ", ".join(f"{n} weights {kind}" for kind, n in counts.items())
    return f"{type(f).__name__}({kinds})" if counts else repr(f)


def _weights(f) -> dict[tuple, object]:
    """Weights of a module by their paths."""
    leaves = jtu.tree_leaves_with_path(f, is_leaf=hyper.is_specified)
    return {tuple(map(_step, keys)): leaf for keys, leaf in leaves if _is_weight(leaf)}


def _is_weight(leaf) -> bool:
    is_array = isinstance(leaf, jax.Array | np.ndarray)
    return hyper.is_specified(leaf) or (is_array and jnp.issubdtype(leaf.dtype, jnp.floating))


def _step(key) -> str | int:
    """Name, index or key of a step in the path to a leaf of a tree."""
    match key:
        case jtu.GetAttrKey(name=step) | jtu.SequenceKey(idx=step) | jtu.DictKey(key=step):
            return step
    raise TypeError(
        "a network that warps a kernel must hold its arrays in equinox modules, tuples, lists and "
        f"dicts, so that they have names; got an array at {key}."
    )


def _trained(leaf, weights):
    if weights is Free:
        return Free(leaf)
    return hyper.as_hyperparameter(weights.expand(leaf.shape).to_event(leaf.ndim))


def _kind(leaf) -> str:
    if isinstance(leaf, Distribution):
        return f"~ {hyper.show(hyper.innermost(leaf))}"
    return "free" if isinstance(leaf, Free) else "fixed"


def _vector(f, x):
    try:
        value = f(x)
    except (jax.errors.ConcretizationTypeError, jax.errors.NonConcreteBooleanIndexError) as error:
        raise ValueError(
            f"f must return a number or a vector of the same shape for each point, but {show(f)} "
            "needs the values of a point, as `if x > 0` and `x[x > 0]` do. Use jnp.where."
        ) from error
    try:
        array = jnp.asarray(value)
    except (TypeError, ValueError):
        array = None
    if array is None or array.ndim > 1 or array.size == 0 or array.dtype.kind not in "biuf":
        kind = type(value).__name__ if array is None else f"{array.dtype} of shape {array.shape}"
        raise ValueError(
            f"f must return a number or a vector for each point, but {show(f)} returned {kind} "
            f"for a point of shape {x.shape}."
        )
    return jnp.atleast_1d(array).astype(x.dtype)
