"""Rows that are means, integrals or derivatives of a process, as users write them."""

from __future__ import annotations

import contextlib
import operator
from abc import abstractmethod
from functools import reduce
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from bayeskern.core import validation
from bayeskern.core.frames import has_columns
from bayeskern.hyperparameters import at_medians
from bayeskern.kernels.base import Kernel
from bayeskern.kernels.measured.kernel import Measured, RowArrays, RowKinds, as_rows, measured

Columns = tuple[str, ...] | None


class Functional(eqx.Module):
    """n linear functionals of a process with d inputs."""

    #: columns of the data frame that the inputs came from, or None
    names: eqx.AbstractVar[Columns]

    @abstractmethod
    def rows(self) -> jax.Array:
        """The functionals as measured rows, shape (n, 2, d + 1)."""


class Interval(Functional):
    """Means or integrals of a process over intervals, as rows of X.

    With kind="mean", the row is the mean of f over [start, end], such as a temperature averaged
    over a day or a light curve over an exposure; an interval of length 0 is the value there. With
    kind="sum", it is the integral of f, such as a monthly total of a rate per day, with times in
    days. Intervals may overlap, and be mixed with values and derivatives in one X:
    `[x, bk.Interval(a, b), bk.Derivative(z)]`, with the values of y in the same order.

    Args:
        start: Starts of the intervals, shape (n,) or one number. For d inputs, shape (n, d) or a
            data frame: the mean is over the box between the corners `start` and `end`, and inputs
            with equal start and end are fixed.
        end: Ends of the intervals, in the same form.
        kind: "mean" or "sum".

    Raises:
        ValueError: An interval ends before it starts, an integral is over an interval of length 0,
            the shapes differ, or a number is NaN or infinite.

    References:
        O'Hagan (1991), "Bayes-Hermite quadrature"; Smith, Alvarez and Lawrence (2018), "Gaussian
        process regression for binned data".

    Examples:
        >>> import bayeskern as bk
        >>> from bayeskern.kernels import RBF
        >>> months = bk.Interval([0.0, 30.0], [30.0, 61.0])
        >>> process = bk.GaussianProcess(RBF(lengthscale=20.0), months, noise=0.01)
        >>> posterior = process.condition([1.0, 3.0])
        >>> posterior.predict([15.0, 45.0], latent=True).mean.round(2)
        array([0.89, 3.22])
    """

    lower: jax.Array
    upper: jax.Array
    kind: str = eqx.field(static=True)
    names: Columns = eqx.field(static=True)

    def __init__(self, start: Any, end: Any, kind: str = "mean"):
        self.kind = validation.one_of("kind", kind, ("mean", "sum"))
        self.lower, self.names = validation.inputs(_at_least_1d(start), "start")
        self.upper, _ = validation.inputs(_at_least_1d(end), "end", self.names)
        if self.lower.shape != self.upper.shape:
            raise ValueError(
                f"start has shape {self.lower.shape} and end has shape {self.upper.shape}; give a "
                "start and an end for each interval."
            )
        if not validation.is_traced(self.lower) and not validation.is_traced(self.upper):
            _check_lengths(np.asarray(self.lower), np.asarray(self.upper), kind)

    def __len__(self) -> int:
        return len(self.lower)

    def rows(self) -> jax.Array:
        sides = self.upper - self.lower
        ones = jnp.ones(len(sides))
        size = jnp.prod(jnp.where(sides > 0.0, sides, 1.0), axis=1)
        return RowArrays(self.lower, sides, size if self.kind == "sum" else ones, -ones).join()


class Derivative(Functional):
    """Derivatives of a process at points, as rows of X.

    A row is df/dx along one column. Rows of derivatives may be mixed with values and intervals in
    one X, as for `Interval`.

    Args:
        x: Points, shape (n,) or (n, d), one number, or a data frame.
        axis: Column along which f is differentiated, an index or, for data frames, a name.

    Raises:
        ValueError: The axis is not a column of x, or a number is NaN or infinite.

    References:
        Solak et al. (2003), "Derivative observations in Gaussian process models of dynamic
        systems"; Rasmussen and Williams (2006), section 9.4.

    Examples:
        >>> import bayeskern as bk
        >>> from bayeskern.kernels import RBF
        >>> process = bk.GaussianProcess(RBF(lengthscale=2.0), [0.0, 1.0, 2.0], noise=1e-4)
        >>> slope = process.condition([0.0, 1.0, 2.0]).predict(bk.Derivative([1.0]))
        >>> slope.mean.round(2)
        array([1.12])
    """

    x: jax.Array
    axis: int = eqx.field(static=True)
    names: Columns = eqx.field(static=True)

    def __init__(self, x: Any, axis: int | str = 0):
        self.x, self.names = validation.inputs(_at_least_1d(x), "x")
        d = self.x.shape[1]
        (index,) = validation.column_indices([axis], d, self.names)
        self.axis = int(index) % d

    def __len__(self) -> int:
        return len(self.x)

    def rows(self) -> jax.Array:
        ones = jnp.ones(len(self.x))
        return RowArrays(self.x, jnp.zeros_like(self.x), ones, self.axis * ones).join()


class Rows(NamedTuple):
    """Points or measured rows, as a process takes them.

    Attributes:
        X: Points (n, d), or measured rows (n, 2, d + 1).
        names: Columns of the data frame that X came from, or None.
        kinds: Kinds of measured rows; None for points.
    """

    X: jax.Array
    names: Columns
    kinds: RowKinds | None = None

    @classmethod
    def read(cls, X: Any, name: str = "X", required: Columns = None) -> Rows:
        """Read points, functionals, or a list of both.

        Args:
            X: Points, as for `validation.inputs`; an `Interval` or `Derivative`; a list with at
                least one of them; or measured rows (n, 2, d + 1).
            name: Name of the argument.
            required: Columns to take from data frames, in this order; all by default.

        Raises:
            ValueError: As `validation.inputs`, or parts of the list have different inputs.
        """
        is_traced = any(map(validation.is_traced, jax.tree.leaves(X)))
        # Known arrays stay known inside a model that JAX traces.
        with contextlib.nullcontext() if is_traced else jax.ensure_compile_time_eval():
            return cls._read(X, name, required)

    @classmethod
    def _read(cls, X: Any, name: str, required: Columns) -> Rows:
        if isinstance(X, np.ndarray | jax.Array) and _are_rows(X):
            rows = jnp.asarray(X)
            return cls(rows, required, RowKinds.of(rows))
        parts = X if isinstance(X, list | tuple) else [X]
        if not any(isinstance(part, Functional) for part in parts):
            return cls(*validation.inputs(X, name, required, text=True))
        arrays, names = zip(*(_rows_of(part, name, required) for part in parts), strict=True)
        widths = [rows.shape[2] - 1 for rows in arrays]
        if len(set(widths)) > 1:
            raise ValueError(
                f"the parts of {name} have {', '.join(map(str, widths))} columns; give the same "
                "inputs in each part."
            )
        kinds = [RowKinds.of(rows) for rows in arrays]
        # JAX may trace the numbers of a derivative, but the type of the part is known.
        has_derivatives = any(isinstance(part, Derivative) for part in parts)
        columns = reduce(operator.or_, kinds).columns
        return cls(jnp.concatenate(arrays), names[0], RowKinds(columns, has_derivatives))

    def at(self, kernel: Kernel) -> jax.Array:
        """X as points or as measured rows, whichever the kernel takes."""
        return self.X if kernel.is_of_points or self.X.ndim == 3 else as_rows(self.X)

    def kernel(self, kernel: Kernel) -> Kernel:
        """Kernel of these rows.

        Args:
            kernel: Kernel of the process; a kernel of measured rows is returned unchanged.

        Raises:
            ValueError: A row is a derivative, and a part of the kernel has none.
        """
        if self.kinds is None or not kernel.is_of_points:
            return kernel
        return self.kernel_of_rows(kernel)

    def kernel_of_rows(self, kernel: Kernel) -> Measured:
        """Kernel of measured rows of these kinds.

        Args:
            kernel: Kernel of the process, of points or of measured rows.

        Raises:
            ValueError: X has points, or a row is a derivative and a part of the kernel has none.
        """
        if self.kinds is None:
            raise ValueError("X has points, and not measured rows.")
        kernel = kernel.inner if isinstance(kernel, Measured) else kernel
        if self.kinds.has_derivatives:
            _require_derivatives(kernel, self.X)
        known = measured(at_medians(kernel), self.kinds).with_nodes_for(self.X)
        return measured(kernel, known.kinds)


def _are_rows(X: np.ndarray | jax.Array) -> bool:
    """True for an array of measured rows; False for other arrays with three axes."""
    if X.ndim != 3 or X.shape[1] != 2 or X.shape[2] < 2:
        return False
    if validation.is_traced(X):
        return True
    rows = RowArrays.of(np.asarray(X))
    columns = np.arange(-1, X.shape[2] - 1)
    is_valid = (rows.sides >= 0.0).all(axis=1) & (rows.factor > 0.0) & np.isin(rows.column, columns)
    return bool(is_valid.all())


def _rows_of(part: Any, name: str, required: Columns) -> tuple[jax.Array, Columns]:
    if isinstance(part, Functional):
        if required is not None and part.names is not None and part.names != required:
            has_columns(name, part.names, required)
        return part.rows(), part.names
    points, names = validation.inputs(part, name, required)
    return as_rows(points), names


def _require_derivatives(kernel: Kernel, rows: jax.Array) -> None:
    d = rows.shape[2] - 1
    columns = range(d)
    if not validation.is_traced(rows):
        columns = sorted({int(column) for column in np.asarray(rows)[:, 1, -1] if column >= 0})
    for column in columns:
        for part in kernel.rough_parts(column, d):
            raise ValueError(
                f"{part!r} has no derivative: functions drawn from it are not differentiable. Use "
                "a smoother kernel, such as Matern32, Matern52, RBF or IntegratedBrownian, or rows "
                "that are values or intervals."
            )


def _check_lengths(lower: np.ndarray, upper: np.ndarray, kind: str) -> None:
    if np.any(upper < lower):
        row, column = np.argwhere(upper < lower)[0]
        raise ValueError(
            f"interval {row} ends at {upper[row, column]:g}, before it starts at "
            f"{lower[row, column]:g}; exchange start and end."
        )
    empty = np.all(upper == lower, axis=1)
    if kind == "sum" and np.any(empty):
        row = int(np.argmax(empty))
        raise ValueError(
            f"interval {row} has length 0, so its integral is 0 whatever the process. For the "
            "value there, use kind='mean' or the point itself."
        )


def _at_least_1d(value: Any) -> Any:
    return np.atleast_1d(value) if isinstance(value, int | float | np.number) else value
