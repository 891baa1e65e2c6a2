"""Checks of input.

Each check takes the name of the argument for its message, which says what was passed, what is
accepted and what to do. Values traced by JAX are checked by shape only.
"""

from __future__ import annotations

import keyword
import math
import os
from collections.abc import Iterable, Sequence
from typing import Any, TypeGuard

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from bayeskern.core import frames
from bayeskern.core.formatting import counted, suggestion


class NotPositiveDefiniteError(np.linalg.LinAlgError):
    """A covariance matrix is not positive definite.

    The message gives its eigenvalues or the kernel, and advice. Code under `jax.jit` cannot raise
    errors; there a log density is -inf instead.
    """


def is_traced(value: object) -> bool:
    """True if JAX traces the value, which then has a shape but no numbers."""
    return isinstance(value, Tracer)


def machine_memory() -> float:
    """Memory of this machine in bytes; infinite if unknown."""
    if os.name != "posix":
        return math.inf
    return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))


def joint_points(m: int) -> None:
    """Raise ValueError if the joint covariance of m points does not fit into memory."""
    # Three m x m matrices of 8 bytes per number.
    size = 3.0 * 8.0 * m**2
    if size > machine_memory():
        raise ValueError(
            f"the joint covariance of {m:,} points takes {size / 1e9:,.0f} GB, and this machine "
            f"has {machine_memory() / 1e9:,.0f}. Use fewer points at a time; `predict` gives means "
            "and standard deviations of any number of points."
        )


def one_of(name: str, value: object, options: Iterable[str]) -> str:
    """Return `value` if it is among `options`; otherwise raise ValueError with a hint."""
    options = list(options)
    if isinstance(value, str) and value in options:
        return value
    hint = suggestion(str(value).lower(), options)
    raise ValueError(f"{name}={value!r} is not known.{hint} Choose from {', '.join(options)}.")


def level(value: object, name: str = "level") -> float:
    """Return the probability of a central interval, strictly between 0 and 1."""
    number = _number(value)
    if not 0.0 < number < 1.0:
        raise ValueError(
            f"{name} must be a probability strictly between 0 and 1 (0.95 for 95 %), got {value!r}."
        )
    return number


def probabilities(value: Any, name: str = "q") -> np.ndarray:
    """Return one or several probabilities, strictly between 0 and 1, as an array."""
    numbers = _numbers(value)
    if not np.all((numbers > 0.0) & (numbers < 1.0)):
        raise ValueError(f"{name} must lie strictly between 0 and 1, got {value}.")
    return numbers


def penalties(value: Any, name: str) -> np.ndarray:
    """One finite penalty of 0 or more, shape (), or several, shape (L,)."""
    numbers = _numbers(value)
    if numbers.ndim > 1 or not np.all(np.isfinite(numbers) & (numbers >= 0.0)):
        raise ValueError(
            f"{name} must be a finite penalty of 0 or more, or several of them, got {value!r}."
        )
    return numbers


def number(value: object, name: str) -> float:
    """Return a finite number."""
    converted = _number(value)
    if not math.isfinite(converted):
        raise ValueError(f"{name} must be a finite number, got {value!r}.")
    return converted


def positive(value: object, name: str, zero: bool = False) -> float:
    """Return a finite positive number; 0 is accepted too if `zero` is true."""
    number = _number(value)
    if not math.isfinite(number) or number < 0.0 or (number == 0.0 and not zero):
        raise ValueError(
            f"{name} must be a {'nonnegative' if zero else 'positive'} number, got {value!r}."
        )
    return number


def positive_integer(value: object, name: str, least: int = 1) -> int:
    """Return an integer of at least `least`."""
    if not _is_integer(value) or value < least:
        raise ValueError(f"{name} must be a whole number of at least {least}, got {value!r}.")
    return int(value)


def seed(value: object) -> int:
    """Return a random seed, an integer from 0 to 2^32 - 1."""
    if not _is_integer(value) or not 0 <= value < 2**32:
        raise ValueError(f"seed must be a whole number from 0 to 2**32 - 1, got {value!r}.")
    return int(value)


def _is_integer(value: object) -> TypeGuard[int]:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def _numbers(value: Any) -> np.ndarray:
    """The value as an array of floats; a single NaN if not all of it is numeric."""
    try:
        return np.asarray(value, dtype=float)
    except (TypeError, ValueError):
        return np.asarray(math.nan)


def _number(value: Any) -> float:
    """The value as a float, NaN if it is not a number."""
    try:
        return float(value)
    except (TypeError, ValueError):
        return math.nan


def inputs(
    X: Any, name: str = "X", required: Sequence[str] | None = None, text: bool = False
) -> tuple[jax.Array, tuple[str, ...] | None]:
    """Read points as an (n, d) array; a vector of length n is n points in one dimension.

    Args:
        X: Array, or data frame of pandas, polars or another library.
        name: Name of the argument.
        required: Columns to take from a data frame, in this order; all by default. The values of
            a `TextColumn` must be among its levels.
        text: True to read columns of text or categories as the numbers of their levels, where a
            kernel refuses those that it would take for numbers (`kernel.resolve`).

    Returns:
        The array, and its column names (None unless X is a data frame).

    Raises:
        ValueError: X has NaN, infinities, text or more than two dimensions, or is empty.
    """
    columns = None
    if not is_traced(X) and hasattr(X, "columns"):
        X, columns = frames.numbers_of(X, name, required, text)
    X = _floats(X, name)
    if X.ndim == 0 or X.ndim > 2:
        raise ValueError(
            f"{name} must have shape (n,) or (n, d), got shape {X.shape}. "
            "Reshape it so that each row is one point."
        )
    X = X[:, None] if X.ndim == 1 else X
    if 0 in X.shape:
        raise ValueError(f"{name} is empty (shape {X.shape}): give at least one point.")
    finite(X, name)
    return _concrete(X), columns


def targets(y: Any, n: int | None = None, name: str = "y") -> jax.Array:
    """Read one number per point, of shape (n,) or (n, 1), as an (n,) array.

    Raises:
        ValueError: y has NaN, infinities or text, is empty, or does not have length n.
    """
    y = _floats(y, name)
    if y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if y.ndim != 1:
        raise ValueError(f"{name} must be one number per point, shape (n,), got shape {y.shape}.")
    if y.shape[0] == 0:
        raise ValueError(f"{name} is empty: give at least one value.")
    if n is not None and y.shape[0] != n:
        raise ValueError(f"{name} has {y.shape[0]} values but X has {n} points; they must match.")
    finite(y, name)
    return _concrete(y)


def covariance(value: Any, n: int | None, name: str) -> jax.Array:
    """Read a covariance matrix of n rows, (n, n).

    n: Number of rows; None for any.

    Raises:
        ValueError: The matrix has another shape, NaN or infinities, is not symmetric, or is not
            positive semidefinite.
    """
    matrix = _floats(value, name)
    if matrix.ndim != 2 or len(matrix) != matrix.shape[1] or len(matrix) != (n or len(matrix)):
        size = "n" if n is None else n
        raise ValueError(
            f"{name} must be a covariance matrix of shape ({size}, {size}), got {matrix.shape}."
        )
    if is_traced(matrix):
        return jnp.asarray(matrix)
    matrix = np.asarray(matrix)
    semidefinite(matrix, name)
    return _concrete(matrix)


def outputs(y: Any, n: int) -> jax.Array:
    """Read one number per point, (n,), or one column for each of k outputs, (n, k).

    Raises:
        ValueError: As in `targets`; the message names the columns with NaN or infinities.
    """
    array = _floats(y, "y")
    if array.ndim != 2 or array.shape[1] < 2:
        return targets(array, n)
    if array.shape[0] != n:
        raise ValueError(f"y has {array.shape[0]} rows but X has {n} points; they must match.")
    bad = np.zeros(array.shape, bool) if is_traced(array) else ~np.isfinite(array)
    if bad.any():
        row, column = np.argwhere(bad)[0]
        columns = sorted({int(j) for _, j in np.argwhere(bad)})
        raise ValueError(
            f"y has values that are NaN or infinite in column {', '.join(map(str, columns))}, "
            f"the first in row {row} of column {column}. Outputs that are fitted together "
            "must be finite in every row: drop these rows, or fit each of these columns separately "
            "to its finite rows."
        )
    return _concrete(array)


def covariance_root(value: Any, name: str) -> np.ndarray:
    """Lower Cholesky factor (n, n) of a covariance matrix of numbers.

    Raises:
        ValueError: If the matrix is not square, finite, symmetric and positive semi-definite.
        NotPositiveDefiniteError: If it is singular.
    """
    matrix = np.asarray(_floats(value, name))
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or 0 in matrix.shape:
        raise ValueError(f"{name} must be a square matrix, got shape {matrix.shape}.")
    semidefinite(matrix, name)
    try:
        return np.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:
        raise NotPositiveDefiniteError(
            f"{name} is not positive definite: its smallest eigenvalue is "
            f"{np.linalg.eigvalsh(matrix)[0]:.3g}, and it must be above 0."
        ) from None


def finite(array: np.ndarray | jax.Array, name: str) -> None:
    """Raise ValueError with the first row that has NaN or an infinity."""
    if is_traced(array):
        return
    bad = ~np.isfinite(np.asarray(array))
    if bad.any():
        row = int(np.argwhere(bad)[0][0])
        values = counted(bad.sum(), "value that is", "values that are")
        raise ValueError(
            f"{name} has {values} NaN or infinite, the first in row {row}. "
            "Drop those rows, or fill them in before the call."
        )


def _concrete(array: np.ndarray | jax.Array) -> jax.Array:
    """JAX array, concrete in a traced function too unless `array` itself is traced."""
    if isinstance(array, Tracer):
        return array
    with jax.ensure_compile_time_eval():
        return jnp.asarray(array)


# Advice by the kind of a NumPy type.
ADVICE_BY_KIND = {
    "M": "Take the time since a date, such as (dates - dates[0]) / np.timedelta64(1, 'D').",
    "m": "Divide it by a unit of time, such as np.timedelta64(1, 'D').",
    "c": "Take the real and the imaginary parts as two columns.",
}


def _floats(value: Any, name: str) -> np.ndarray | jax.Array:
    """Read numbers as an array of floats, NaN where they are masked.

    Raises:
        ValueError: They are text, dates or complex, or in a sparse or a ragged array.
    """
    if hasattr(value, "toarray"):
        raise ValueError(
            f"{name} is a sparse {type(value).__name__}, and only dense arrays are accepted: pass "
            f"{name}.toarray(), or a few features of it, such as those of sklearn's TruncatedSVD."
        )
    advice = "Give all its rows the same length."
    try:
        if isinstance(value, np.ma.MaskedArray):
            value = np.ma.filled(value.astype(float), np.nan)
        array = value if is_traced(value) else np.asarray(value)
        advice = ADVICE_BY_KIND.get(array.dtype.kind, "Encode it as numbers.")
        # NumPy would read numbers out of text, dates and None, and drop imaginary parts.
        objects = array.flat if array.dtype.kind == "O" and array.ndim else ()
        is_text = any(isinstance(item, str) for item in objects)
        if value is None or is_text or array.dtype.kind in "USMmcT":
            raise TypeError
        if is_traced(array):
            return array.astype(jnp.promote_types(array.dtype, jnp.result_type(float)))
        return array.astype(float)
    except (TypeError, ValueError):
        kind = getattr(value, "dtype", type(value).__name__)
        raise ValueError(f"{name} must be numeric, got {kind}. {advice}") from None


def columns(columns: Any) -> tuple[int | str, ...]:
    """Read one column or several, each an index or a name, without repetition."""
    columns = [columns] if isinstance(columns, str | int) else list(columns)
    if not columns or not all(isinstance(c, str | int | np.integer) for c in columns):
        raise ValueError(f"columns must be indices or names, at least one, got {columns!r}.")
    if len(set(columns)) < len(columns):
        raise ValueError(f"columns {columns!r} name a column twice.")
    return tuple(c if isinstance(c, str) else int(c) for c in columns)


def column_indices(
    selection: Sequence[int | str], d: int, names: Sequence[str] | None = None
) -> np.ndarray:
    """Indices of selected columns, given by index or by name, among d columns.

    Raises:
        ValueError: A column does not exist, or is selected by name although columns have no names.
    """
    selected_names = [column for column in selection if isinstance(column, str)]
    if names is None and selected_names:
        raise ValueError(
            f"columns {selected_names} are names, but X is an array without names. "
            "Pass a data frame, or call kernel.resolve(columns) first."
        )
    known = list(names or ())
    indices = [
        known.index(one_of("column", column, known)) if isinstance(column, str) else column
        for column in selection
    ]
    # JAX clamps an index that is out of range instead of refusing it.
    if max(indices) >= d or min(indices) < -d:
        raise ValueError(f"columns {indices} are selected, but X has {d} columns.")
    return np.array(indices)


def whole_numbers(X: jax.Array, count: int, noun: str, kernel: str) -> tuple[jax.Array, jax.Array]:
    """Whole numbers below `count` in points of one column, (n,), and True for valid points.

    Args:
        X: Points, shape (n, d).
        count: Number of whole numbers 0, 1, ... that are accepted.
        noun: What they number.
        kernel: Kernel that reads them.

    Raises:
        ValueError: There are several columns, or a point, unless it is traced, is not accepted.
    """
    if X.shape[1] != 1:
        raise ValueError(
            f"{kernel} is a kernel of one column, each value the {noun} of a point, but the points "
            f"have {X.shape[1]} columns; select the column with .on(column)."
        )
    i = jnp.clip(X[:, 0], 0, count - 1).astype(int)
    is_valid = i == X[:, 0]
    if not is_traced(is_valid) and not np.all(is_valid):
        row = int(np.argmin(is_valid))
        raise ValueError(
            f"row {row} has the {noun} {float(X[row, 0])!r}, but this {kernel} accepts 0 to "
            f"{count - 1}. Number from 0."
        )
    return i, is_valid


def semidefinite(matrix: np.ndarray, name: str) -> None:
    """Raise ValueError unless a square matrix is symmetric and positive semi-definite.

    Rows and columns are scaled to unit variances first, so that they may have any units.
    """
    finite(matrix, name)
    variances = np.diagonal(matrix)
    sd = np.sqrt(np.where(variances > 0.0, variances, 1.0))
    correlations = matrix / sd / sd[:, None]
    tolerance = 1e-8
    if np.max(np.abs(correlations - correlations.T)) > tolerance:
        asymmetry = np.max(np.abs(matrix - matrix.T))
        raise ValueError(
            f"{name} must be symmetric, but differs from its transpose by {asymmetry:g}."
        )
    try:
        np.linalg.cholesky(correlations + tolerance * np.eye(len(matrix)))
    except np.linalg.LinAlgError:
        raise ValueError(
            f"{name} must be positive semi-definite, but scaled to unit variances its smallest "
            f"eigenvalue is {np.linalg.eigvalsh(correlations)[0]:.3g}. Set negative eigenvalues to "
            "0 before the call."
        ) from None


def kernel_name(name: object) -> str:
    """Return an identifier that can name a kernel and its component."""
    if not isinstance(name, str) or not name.isidentifier():
        raise ValueError(f"a kernel's name must be an identifier such as 'trend', got {name!r}.")
    if name == "rest" or keyword.iskeyword(name):
        raise ValueError(f"{name!r} is reserved; choose another name for the kernel.")
    return name
