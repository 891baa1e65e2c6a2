"""Check that indices of groups fit the axis that they index.

JAX clips an index beyond the end of an axis and counts negative indices from the end, without a
word: groups numbered 1 to 4 in a plate of 4 would share the last effect.
"""

from __future__ import annotations

import traceback
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import (
    ClosedJaxpr,  # pyright: ignore[reportPrivateImportUsage]
    Jaxpr,
    JaxprEqn,
    Literal,
)

from bayeskern.core.validation import is_traced
from bayeskern.inference.model.cost import inner_programs, log_density_program
from bayeskern.inference.model.target import Target
from bayeskern.inference.model.trace.error_location import place_in_model

# Operations that call a program with their own inputs.
CALLS = ("jit", "pjit", "closed_call", "checkpoint", "custom_jvp_call", "custom_vjp_call")


def require_indices_in_range(target: Target) -> None:
    """Raise ValueError if indices in the data do not fit the axis that they index.

    Indices that depend on latents are not checked, nor those with an explicit mode, such as
    `mode="clip"`.
    """
    if target.latents:
        require_in_range(log_density_program(target), target, np.zeros(target.size))


def require_in_range(program: ClosedJaxpr, known: Any, unknown: Any) -> None:
    """Raise ValueError if known indices in a program do not fit the axis that they index.

    Args:
        program: Program of a function of `known` and `unknown`.
        known: Pytree of the first arguments, whose arrays are data.
        unknown: Pytree of the last arguments.
    """
    arrays = jax.tree.leaves(eqx.filter(known, eqx.is_array))
    if not any(map(is_traced, arrays)):
        _results(program, [*arrays, *(None for _ in jax.tree.leaves(unknown))])


def _results(program: Jaxpr | ClosedJaxpr, inputs: list) -> list[np.ndarray | None]:
    """Known results of a program with some known inputs; None stands for unknown."""
    jaxpr, constants = program, []
    if isinstance(program, ClosedJaxpr):
        jaxpr, constants = program.jaxpr, program.consts
    known: dict[Any, np.ndarray] = {}
    makers: dict[Any, JaxprEqn] = {}
    for variables, values in ((jaxpr.constvars, constants), (jaxpr.invars, inputs)):
        pairs = zip(variables, values, strict=True)
        known |= {v: np.asarray(x) for v, x in pairs if _may_be_index(x)}

    def value(variable: Any) -> np.ndarray | None:
        is_literal = isinstance(variable, Literal)
        return np.asarray(variable.val) if is_literal else known.get(variable)

    for equation in jaxpr.eqns:
        values = [value(v) for v in equation.invars]
        if _counts_from_the_end(equation, makers):
            # The indices as they were written.
            results = [values[1]]
        else:
            results = _results_of(equation, values)
        pairs = zip(equation.outvars, results, strict=False)
        known |= {v: x for v, x in pairs if x is not None}
        makers |= dict.fromkeys(equation.outvars, equation)
    return [value(v) for v in jaxpr.outvars]


def _results_of(equation: JaxprEqn, values: list) -> list[np.ndarray | None]:
    """Known results of an operation; checks it, and the programs inside."""
    name, parameters, programs = equation.primitive.name, equation.params, inner_programs(equation)
    if name == "gather":
        if values[1] is not None and "PROMISE_IN_BOUNDS" in str(parameters["mode"]):
            _require_in_range(equation, values[1])
    elif name in CALLS and len(programs) == 1:
        return _results(programs[0], values)
    elif name == "cond":
        for branch in programs:
            _results(branch, values[1:])
    elif name == "scan":
        # Slices and counters differ from pass to pass.
        inner = [v.aval.shape for v in _invars(programs[0])]
        pairs = zip(values, inner, strict=True)
        _results(
            programs[0], [x if x is not None and x.shape == s != () else None for x, s in pairs]
        )
    elif _is_integer(equation) and all(x is not None for x in values):
        return _reshaped(name, parameters, values)
    return []


def _may_be_index(x: Any) -> bool:
    """True for a known array of whole numbers that is on this machine."""
    if x is None or is_traced(x) or not jnp.issubdtype(x.dtype, jnp.integer):
        return False
    return not isinstance(x, jax.Array) or x.is_fully_addressable


def _is_integer(equation: JaxprEqn) -> bool:
    """True if an operation computes whole numbers."""
    types = [v.aval.dtype for v in equation.outvars]  # pyright: ignore[reportAttributeAccessIssue]
    return bool(types) and all(jnp.issubdtype(dtype, jnp.integer) for dtype in types)


def _invars(program: Jaxpr | ClosedJaxpr) -> list:
    return (program.jaxpr if isinstance(program, ClosedJaxpr) else program).invars


def _reshaped(name: str, parameters: dict, values: list[np.ndarray]) -> list[np.ndarray | None]:
    """Result of an operation that changes only shape or type."""
    first = values[0] if values else np.zeros(0)
    if name == "broadcast_in_dim":
        shape = np.ones(len(parameters["shape"]), int)
        shape[list(parameters["broadcast_dimensions"])] = first.shape
        return [np.broadcast_to(first.reshape(shape), parameters["shape"])]
    if name == "convert_element_type":
        return [first.astype(parameters["new_dtype"])]
    if name == "reshape":
        return [first.reshape(parameters["new_sizes"])]
    if name == "squeeze":
        return [np.squeeze(first, parameters["dimensions"])]
    return [np.concatenate(values, parameters["dimension"])] if name == "concatenate" else []


def _counts_from_the_end(equation: JaxprEqn, makers: dict[Any, JaxprEqn]) -> bool:
    """True for select(i < 0, i, i + n), by which JAX counts negative indices from the end."""
    if equation.primitive.name != "select_n" or len(equation.invars) != 3:
        return False
    _, index, shifted = equation.invars
    maker = None if isinstance(shifted, Literal) else makers.get(shifted)
    return maker is not None and maker.primitive.name == "add" and maker.invars[0] is index


def _require_in_range(equation: JaxprEqn, indices: np.ndarray) -> None:
    """Raise ValueError if the indices (..., k) of a gather do not fit its k axes."""
    shape = equation.invars[0].aval.shape  # pyright: ignore[reportAttributeAccessIssue]
    for i, axis in enumerate(equation.params["dimension_numbers"].start_index_map):
        entries, own = shape[axis], indices[..., i]
        if own.size == 0 or entries == 0:
            continue
        low, high = int(np.min(own)), int(np.max(own))
        is_outside = high > entries - equation.params["slice_sizes"][axis] or low < -entries
        # An idiom such as x[arange(n) - 1] has no index twice, but codes of groups do.
        is_code = low == -1 and own.ndim == 1 and len(np.unique(own)) < own.size
        if not (is_outside or is_code):
            continue
        frames = equation.source_info.traceback
        stack = traceback.extract_tb(frames.as_python_traceback()) if frames is not None else []
        place = place_in_model(stack)
        raise ValueError(
            f"{place + ': ' if place else ''}the indices run from {low} to {high}, but the axis "
            f"that they index has {entries} entries, 0 to {entries - 1}. "
            + (
                "JAX would take the last entry in place of one that does not exist: number the "
                "groups from 0, or make the plate larger."
                if is_outside
                else "A code of -1, as pandas gives missing categories, would take the last "
                f"entry. Leave these rows out; write 0 if the result is masked, or {entries - 1} "
                "for the last entry."
            )
        )
