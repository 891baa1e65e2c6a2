"""What a density costs, judged from what it computes and not from a clock, so that it is the same
on every machine."""

from __future__ import annotations

import math
import weakref

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.extend.core import ClosedJaxpr, Jaxpr

from bayeskern.inference.model.target import Target

# A density that makes more numbers than this on its way takes a third of a millisecond or more.
MAX_CHEAP_NUMBERS = 2**18
# Programs of log densities, by the identity of their targets.
_PROGRAMS: dict[int, Jaxpr] = {}


def is_costly(target: Target) -> bool:
    """Whether ten thousand evaluations of the log density take longer than a moment."""
    return cost(target) > MAX_CHEAP_NUMBERS


def cost(target: Target) -> int:
    """Count of the numbers that the log density makes on its way."""
    return numbers_made(_program(target))


def largest_array(target: Target) -> int:
    """The size of the largest array that the log density makes on its way."""
    return _largest(_program(target))


def numbers_made(jaxpr: Jaxpr) -> int:
    """How many numbers a program makes on its way, through loops of unknown length once."""
    total = 0
    for equation in jaxpr.eqns:
        inner = _inner(equation)
        if inner:
            once = sum(map(numbers_made, inner))
            total += once * equation.params.get("length", 1)
        else:
            total += sum(_sizes(equation))
    return total


def has_open_loop(target: Target) -> bool:
    """True if the log density runs a loop whose length depends on values, as ODE solvers do."""
    return _loops_openly(_program(target))


def _loops_openly(jaxpr: Jaxpr) -> bool:
    return any(
        e.primitive.name == "while" or any(map(_loops_openly, _inner(e))) for e in jaxpr.eqns
    )


def _largest(jaxpr: Jaxpr) -> int:
    return max((n for e in jaxpr.eqns for n in (*_sizes(e), *map(_largest, _inner(e)))), default=0)


@eqx.filter_jit
def _log_density(target, z):
    return target.log_density(z)


def log_density_program(target: Target) -> ClosedJaxpr:
    """The log density as a program of the arrays of a target and z."""
    # Of a compiled function, since JAX keeps what it has traced of one.
    return eqx.filter_make_jaxpr(_log_density)(target, jnp.zeros(target.size))[0]


def _program(target) -> Jaxpr:
    """The program of a target, kept for as long as the target lives."""
    key = id(target)
    if key not in _PROGRAMS:
        _PROGRAMS[key] = log_density_program(target).jaxpr
        weakref.finalize(target, _PROGRAMS.pop, key, None)
    return _PROGRAMS[key]


def _sizes(equation) -> list[int]:
    """The sizes of the arrays that an operation makes."""
    return [math.prod(v.aval.shape) for v in equation.outvars]


def _inner(equation) -> list[Jaxpr]:
    return [p.jaxpr if isinstance(p, ClosedJaxpr) else p for p in inner_programs(equation)]


def inner_programs(equation) -> list[Jaxpr | ClosedJaxpr]:
    """The programs that an operation runs, as those of a loop or of a function."""
    return [p for p in jax.tree.leaves(equation.params, is_leaf=_is_program) if _is_program(p)]


def _is_program(param) -> bool:
    return isinstance(param, Jaxpr | ClosedJaxpr)
