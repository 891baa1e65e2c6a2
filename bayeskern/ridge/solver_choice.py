"""Which solver kernel ridge takes: the matrix, a factor without the matrix, or iteration."""

from __future__ import annotations

from bayeskern.core import validation
from bayeskern.linalg import SOLVERS, TooLargeError, choose
from bayeskern.linalg.dense import DenseSolver

#: those that hold the matrix; "dense" is the better of the other two
WITH_MATRIX = ("dense", "cholesky", "eigen")
ITERATIVE = "iterative"
NAMES = tuple(dict.fromkeys(("auto", "cholesky", "eigen", "dense", ITERATIVE, *SOLVERS)))


def choose_solver(
    asked: str,
    kernel,
    X,
    noise,
    asks_matrix: str | None,
    asks_factor: str | None,
    may_be_singular: bool,
) -> str:
    """One of NAMES but "auto", for points X (n, d) and noise like this: a number, or (n,).

    asks_matrix, asks_factor: what has been asked for that only the matrix can do, or only the
    matrix and a factor; may_be_singular: whether an alpha is 0, for which only the matrix will do
    in any case.

    Raises ValueError where it does not do what is asked for, or memory does not hold it.
    """
    if asked in WITH_MATRIX:
        return asked
    if asked == "auto":
        return _choose(kernel, X, noise, asks_matrix, asks_factor, may_be_singular)
    if asked == ITERATIVE:
        _refuse(asked, asks_matrix or asks_factor)
        return asked
    _refuse(asked, asks_matrix)
    if SOLVERS[asked].approximate:
        raise ValueError(
            f"solver={asked!r} computes with another matrix, near the one of the kernel, which has "
            "no dual coefficients of this kernel. Take NystromRidge, or GaussianProcess."
        )
    return choose(kernel, X, asked, noise).solver


def matrix_is_held(kernel, X) -> bool:
    """Whether memory holds what the Gram matrix and its factor take."""
    return _bytes_of_matrix(kernel, X) <= validation.machine_memory()


def _choose(kernel, X, noise, asks_matrix, asks_factor, may_be_singular) -> str:
    # What only the matrix does is tried, even where memory seems to be too small for it.
    if asks_matrix is not None or (may_be_singular and matrix_is_held(kernel, X)):
        return "dense"
    try:
        name = choose(kernel, X, noise=noise).solver
    except TooLargeError:
        name = ITERATIVE
    if name != ITERATIVE and not SOLVERS[name].approximate:
        return name
    if asks_factor is not None:
        raise ValueError(
            f"{asks_factor} needs a factor of K + alpha I, which takes about "
            f"{_bytes_of_matrix(kernel, X) / 1e9:,.0f} GB for {len(X):,} points, and this machine "
            f"has {validation.machine_memory() / 1e9:,.0f}. Give alpha as a number, which needs no "
            f"factor, or take NystromRidge({asks_factor})."
        )
    return ITERATIVE


def _bytes_of_matrix(kernel, X) -> float:
    return DenseSolver().applicability(kernel, X).cost.bytes


def _refuse(solver: str, wanted: str | None) -> None:
    if wanted is not None:
        raise ValueError(
            f"solver={solver!r} does not do {wanted}. Leave solver='auto', or leave that out."
        )
