"""What a density costs, judged from what it computes and not from a clock, so that it is the same
on every machine."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
from jax.extend.core import ClosedJaxpr, Jaxpr

from bayeskern.inference.model.target import Target

# A density that makes more numbers than this on its way takes a third of a millisecond or more.
COSTLY = 2**18


def is_costly(target: Target) -> bool:
    """Whether ten thousand evaluations of the log density take longer than a moment."""
    density = jax.make_jaxpr(target.log_density)(jnp.zeros(target.size))
    return numbers_made(density.jaxpr) > COSTLY


def numbers_made(jaxpr: Jaxpr) -> int:
    """How many numbers a program makes on its way, through loops of unknown length once."""
    total = 0
    for equation in jaxpr.eqns:
        inner = [p for p in jax.tree.leaves(equation.params, is_leaf=_is_program) if _is_program(p)]
        if inner:
            once = sum(numbers_made(p.jaxpr if isinstance(p, ClosedJaxpr) else p) for p in inner)
            total += once * equation.params.get("length", 1)
        else:
            total += sum(math.prod(v.aval.shape) for v in equation.outvars)
    return total


def _is_program(param) -> bool:
    return isinstance(param, Jaxpr | ClosedJaxpr)
