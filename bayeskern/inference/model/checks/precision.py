"""Data that 32-bit numbers cannot hold."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import jax
import numpy as np

from bayeskern.inference.model.trace.arguments import named_arrays

# Rounding error of a value, in sds of its array, from which results change visibly.
MAX_ROUNDING_SDS = 1e-3


def warn_if_rounded(model: Callable, args: tuple, kwargs: dict) -> None:
    """Warn about arguments whose values differ by little more than the rounding of 32-bit numbers.

    JAX computes with 64-bit numbers unless the environment says otherwise.
    """
    if jax.config.jax_enable_x64:
        return
    for name, array in named_arrays(model, args, kwargs):
        values = array[np.isfinite(array)].astype(float) if array.dtype.kind == "f" else np.zeros(0)
        if not len(values):
            continue
        sd, largest = np.std(values), np.max(np.abs(values))
        if 0.0 < MAX_ROUNDING_SDS * sd < np.spacing(np.float32(largest)):
            warnings.warn(
                f"{name} has values up to {largest:.3g} with an sd of {sd:.3g}, and JAX computes "
                "with 32-bit numbers (JAX_ENABLE_X64=0), which hold seven digits. Subtract a "
                "constant from it, or leave JAX_ENABLE_X64 unset.",
                stacklevel=3,
            )
