"""Cost of a log density: the array elements that its jaxpr computes.

Unlike a run time, the cost is the same on every machine.
"""

from __future__ import annotations

import math
import weakref
from typing import NamedTuple

import equinox as eqx
import jax
import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn  # pyright: ignore[reportPrivateImportUsage]
from jax.typing import ArrayLike

from bayeskern.inference.model.target import Target

# A density that computes more array elements takes at least a third of a millisecond.
MAX_CHEAP_NUMBERS = 2**18
# A density that computes more array elements takes about a thirtieth of a second or more.
MAX_MODERATE_NUMBERS = 2**25
# Counts of log densities, by the `id` of their targets.
_counts: dict[int, Counts] = {}


class Counts(NamedTuple):
    """Counts of the operations of a log density.

    Attributes:
        numbers: Number of array elements that it computes.
        largest: Size of the largest array.
        open_loop: True if it has a `while` loop, as ODE solvers do.
    """

    numbers: int
    largest: int
    open_loop: bool


def is_costly(target: Target) -> bool:
    """True if ten thousand evaluations of the log density take more than a few seconds."""
    return cost(target) > MAX_CHEAP_NUMBERS


def is_very_costly(target: Target) -> bool:
    """True if a thousand evaluations of the log density take about half a minute or more."""
    return cost(target) > MAX_MODERATE_NUMBERS


def cost(target: Target) -> int:
    """Number of array elements that the log density computes."""
    return _counts_of(target).numbers


def largest_array(target: Target) -> int:
    """Size of the largest array that the log density computes."""
    return _counts_of(target).largest


def numbers_made(jaxpr: Jaxpr) -> int:
    """Number of array elements that a jaxpr computes; a `while` loop counts one pass."""
    total = 0
    for equation in jaxpr.eqns:
        inner = _inner(equation)
        if inner:
            total += sum(map(numbers_made, inner)) * equation.params.get("length", 1)
        else:
            total += sum(_sizes(equation))
    return total


def has_open_loop(target: Target) -> bool:
    """True if the log density has a `while` loop, as ODE solvers do."""
    return _counts_of(target).open_loop


def _has_open_loop(jaxpr: Jaxpr) -> bool:
    return any(
        e.primitive.name == "while" or any(map(_has_open_loop, _inner(e))) for e in jaxpr.eqns
    )


def _largest(jaxpr: Jaxpr) -> int:
    return max((n for e in jaxpr.eqns for n in (*_sizes(e), *map(_largest, _inner(e)))), default=0)


@eqx.filter_jit
def _log_density(target: Target, z: ArrayLike) -> jax.Array:
    return target.log_density(z)


def log_density_program(target: Target) -> ClosedJaxpr:
    """Jaxpr of the log density, a function of the arrays of a target and of z."""
    # Through a compiled function, because JAX caches its trace.
    return eqx.filter_make_jaxpr(_log_density)(target, np.zeros(target.size))[0]


def _counts_of(target: Target) -> Counts:
    """Counts of the log density of a target, cached while the target exists."""
    key = id(target)
    if key not in _counts:
        program = log_density_program(target).jaxpr
        _counts[key] = Counts(numbers_made(program), _largest(program), _has_open_loop(program))
        weakref.finalize(target, _counts.pop, key, None)
    return _counts[key]


def _sizes(equation: JaxprEqn) -> list[int]:
    """Sizes of the arrays that an operation computes."""
    return [math.prod(v.aval.shape) for v in equation.outvars]  # pyright: ignore[reportAttributeAccessIssue]


def _inner(equation: JaxprEqn) -> list[Jaxpr]:
    return [p.jaxpr if isinstance(p, ClosedJaxpr) else p for p in inner_programs(equation)]


def inner_programs(equation: JaxprEqn) -> list[Jaxpr | ClosedJaxpr]:
    """Jaxprs inside an operation, such as a loop or a function call."""
    return [p for p in jax.tree.leaves(equation.params, is_leaf=_is_program) if _is_program(p)]


def _is_program(param: object) -> bool:
    return isinstance(param, Jaxpr | ClosedJaxpr)
