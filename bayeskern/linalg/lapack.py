"""Cholesky factors and inverses of NumPy arrays by LAPACK; JAX has no potri.

JAX programs call these functions through a callback if `is_faster`. SciPy's own wrappers hold
Python's interpreter lock, so that only one thread could use LAPACK at a time. These functions call
the routines that SciPy exports for Cython, and release the lock.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any

import jax
import numpy as np
from scipy.linalg import cython_lapack  # pyright: ignore[reportAttributeAccessIssue]

# Matrix size below which the callback costs more than LAPACK saves.
MIN_CALLBACK_SIZE = 150
# Rows of a block that is mirrored at the diagonal: 32 kB.
MIRROR_BLOCK_SIZE = 64
# Properties of an array that LAPACK may overwrite; `numpy.require` copies any other.
IN_PLACE = ("F_CONTIGUOUS", "WRITEABLE")


def is_faster(n: int) -> bool:
    """True if a callback to LAPACK is faster than XLA for an n x n matrix."""
    return n >= MIN_CALLBACK_SIZE and jax.default_backend() == "cpu"


def cholesky(A: np.ndarray) -> np.ndarray:
    """Lower Cholesky factor of a symmetric matrix (n, n), n > 0; NaN if not positive definite.

    A may be overwritten. The entries above the diagonal of the factor are undefined.
    """
    # The transpose of a C-ordered symmetric matrix is the same matrix in Fortran order.
    L, n = np.require(A.T, requirements=IN_PLACE), _integer(len(A))
    if _call("potrf", L.dtype, b"L", n, L.ctypes.data, n):
        L[:] = np.nan
    return L


def logdet(L: np.ndarray) -> float:
    """log |L L'|."""
    return 2.0 * float(np.sum(np.log(np.diagonal(L))))


def solve(L: np.ndarray, B: np.ndarray) -> np.ndarray:
    """(L L')^-1 B for B (n,) or (n, m)."""
    return _solve("potrs", (b"L",), L, B)


def solve_lower(L: np.ndarray, B: np.ndarray) -> np.ndarray:
    """L^-1 B for B (n,) or (n, m)."""
    return _solve("trtrs", (b"L", b"N", b"N"), L, B)


def inverse_triangle(L: np.ndarray, overwrite: bool = False) -> np.ndarray:
    """Lower triangle of (L L')^-1; the entries above the diagonal are undefined."""
    triangle = np.require(L, requirements=IN_PLACE) if overwrite else np.array(L, order="F")
    n = _integer(len(L))
    _call("potri", L.dtype, b"L", n, triangle.ctypes.data, n)
    return triangle


def inverse(L: np.ndarray) -> np.ndarray:
    """(L L')^-1, C-ordered. L is overwritten."""
    inverse = inverse_triangle(L, overwrite=True).T
    # Blocks of the upper triangle, which fit in the processor's cache, are mirrored in place.
    for start in range(0, len(inverse), MIRROR_BLOCK_SIZE):
        end = start + MIRROR_BLOCK_SIZE
        inverse[end:, start:end] = inverse[start:end, end:].T
        block = inverse[start:end, start:end]
        block[:] = np.triu(block) + np.triu(block, 1).T
    return inverse


# -- calls without the interpreter lock ------------------------------------------------------------


def _solve(name: str, choices: tuple[bytes, ...], L: np.ndarray, B: np.ndarray) -> np.ndarray:
    """Solution of a linear system with L (n, n), for the right-hand sides B."""
    # Arrays of LAPACK are in Fortran order.
    L, X = np.asfortranarray(L), np.array(B, L.dtype, order="F")
    n, columns = _integer(len(L)), _integer(X.size // len(L))
    _call(name, L.dtype, *choices, n, columns, L.ctypes.data, n, X.ctypes.data, n)
    return X


def _integer(value: int) -> Any:
    """Reference to an integer of LAPACK."""
    return ctypes.byref(ctypes.c_int(value))


def _call(name: str, dtype: np.dtype, *arguments: Any) -> int:
    """Call a routine for a floating-point type, and return its `info`.

    arguments: References to the arguments of LAPACK, but for the last one, `info`.
    """
    info = ctypes.c_int()
    _routine({"f": "s", "d": "d"}[dtype.char] + name)(*arguments, ctypes.byref(info))
    return info.value


@cache
def _routine(name: str) -> Callable[..., None]:
    """Routine of LAPACK at the address that SciPy exports for Cython, such as "dpotrf"."""
    name_of, address_of = ctypes.pythonapi.PyCapsule_GetName, ctypes.pythonapi.PyCapsule_GetPointer
    name_of.argtypes, name_of.restype = [ctypes.py_object], ctypes.c_char_p
    address_of.argtypes, address_of.restype = [ctypes.py_object, ctypes.c_char_p], ctypes.c_void_p
    capsule = cython_lapack.__pyx_capi__[name]
    # The name is the signature; each argument is a pointer.
    signature = name_of(capsule)
    pointers = [ctypes.c_void_p] * signature.count(b"*")
    return ctypes.CFUNCTYPE(None, *pointers)(address_of(capsule, signature))
