"""Check that a model has the same density each time it runs."""

from __future__ import annotations

import weakref
from collections.abc import Iterator

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import (
    ClosedJaxpr,  # pyright: ignore[reportPrivateImportUsage]
    Jaxpr,
    Literal,
    jaxpr_as_fun,
)
from jax.typing import ArrayLike

from bayeskern.inference.model.cost import inner_programs, log_density_program
from bayeskern.inference.model.target import Target

# Jaxprs of log densities that are known to be reproducible. JAX caches a jaxpr for later calls of
# the same model with arguments of the same shapes.
_reproducible: weakref.WeakSet[ClosedJaxpr] = weakref.WeakSet()


def require_reproducible(target: Target) -> None:
    """Raise ValueError if the log density at a point changes when the model runs again.

    Random numbers of Python or NumPy are constants of the jaxpr, which differ between traces. The
    first call traces the density again, and evaluates it only if the two jaxprs differ.
    """
    if not target.latents:
        return
    program = log_density_program(target)
    (compiled,) = inner_programs(program.eqns[0])
    if compiled in _reproducible:
        return
    second_program = _trace_again(target)
    # A model that caches a result may have two jaxprs of the same density.
    if list(_operations(program)) == list(_operations(second_program)) or np.allclose(
        _values(program, target),
        _values(second_program, target),
        rtol=1e-9,
        atol=1e-9,
        equal_nan=True,
    ):
        _reproducible.add(compiled)
        return
    raise ValueError(
        "the log density differs between two evaluations at the same point: the model draws random "
        "numbers with Python or NumPy, or modifies something that it reads. Draw random numbers "
        "with numpyro.sample, or before the call, and pass them to the model as data."
    )


def _trace_again(target: Target) -> ClosedJaxpr:
    """Jaxpr of the log density, from a new run of the model."""
    # A new function, because JAX caches the trace of an old one.
    log_density = eqx.filter_jit(lambda target, z: target.log_density(z))
    return eqx.filter_make_jaxpr(log_density)(target, np.zeros(target.size))[0]


def _operations(program: Jaxpr | ClosedJaxpr) -> Iterator[tuple]:
    """Operations of a jaxpr in order, with their constants."""
    if isinstance(program, ClosedJaxpr):
        yield tuple(_bytes(x) for x in program.consts)
        program = program.jaxpr
    for equation in program.eqns:
        literals = (_bytes(x.val) for x in equation.invars if isinstance(x, Literal))
        options = (x for x in equation.params.values() if isinstance(x, int | float))
        yield equation.primitive.name, *literals, *options
        for inner in inner_programs(equation):
            yield from _operations(inner)
    yield tuple(_bytes(x.val) for x in program.outvars if isinstance(x, Literal))


def _bytes(x: ArrayLike) -> bytes:
    if isinstance(x, jax.Array) and jnp.issubdtype(x.dtype, jax.dtypes.prng_key):
        x = jax.random.key_data(x)
    return np.asarray(x).tobytes()


def _values(program: ClosedJaxpr, target: Target) -> np.ndarray:
    """Log density by its jaxpr at 32 points, uniform on (-2, 2)^d: (32,)."""
    arrays = jax.tree.leaves(eqx.filter(target, eqx.is_array))
    z = np.random.default_rng(0).uniform(-2.0, 2.0, (32, target.size))
    density = jaxpr_as_fun(program)
    return np.asarray(jax.jit(lambda z: jax.lax.map(lambda z: density(*arrays, z)[0], z))(z))
