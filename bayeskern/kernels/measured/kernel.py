"""Kernel of measured rows: values, means, integrals and derivatives of a process.

Measured rows are an array of shape (n, 2, d + 1): a row holds the lower corner (d,) of a box and a
factor, then the sides (d,) of the box and the column of a derivative, or -1. It stands for the
factor times the mean of the process over the box, or for the derivative at the lower corner. An
integral is the mean times the size of the box. Rows are arrays, so that they can be stored, sliced
and traced as points are; points have two axes, rows have three.
"""

from __future__ import annotations

import dataclasses
import math
import warnings
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from bayeskern.core.functions import one_number
from bayeskern.core.quadrature import unit_nodes
from bayeskern.core.validation import is_traced
from bayeskern.kernels.base import Kernel
from bayeskern.kernels.means.boxes import Boxes
from bayeskern.kernels.state_space.space import NoStateSpaceError, StateSpace
from bayeskern.kernels.wrappers import Wrapper

# Smallest and largest number of Gauss-Legendre nodes of each smooth piece of an integral without
# closed form. The number is doubled until the covariances change by less than `NODES_ERROR`.
MIN_NODES, MAX_NODES = 8, 64


class RowArrays(NamedTuple):
    """Parts of n measured rows.

    Attributes:
        lower: Lower corners, shape (n, d).
        sides: Lengths of the sides, shape (n, d).
        factor: Factors of the means, shape (n,).
        column: Columns of derivatives as floats, -1 for none, shape (n,).
    """

    lower: jax.Array
    sides: jax.Array
    factor: jax.Array
    column: jax.Array

    @classmethod
    def of(cls, rows: Any) -> RowArrays:
        """Parts of rows (n, 2, d + 1)."""
        return cls(rows[:, 0, :-1], rows[:, 1, :-1], rows[:, 0, -1], rows[:, 1, -1])

    def join(self) -> jax.Array:
        """The rows as one array, shape (n, 2, d + 1)."""
        box = jnp.stack([self.lower, self.sides], axis=1)
        return jnp.concatenate([box, jnp.stack([self.factor, self.column], axis=1)[..., None]], 2)

    @property
    def directions(self) -> jax.Array:
        """Unit vectors of the derivatives, 0 for other rows, shape (n, d)."""
        return (self.column[:, None] == jnp.arange(self.lower.shape[1])).astype(float)

    @property
    def is_derivative(self) -> jax.Array:
        """Mask of the derivatives, shape (n,)."""
        return self.column >= 0.0

    @property
    def is_mean(self) -> jax.Array:
        """Mask of the means and integrals over boxes that are not points, shape (n,)."""
        return (self.sides > 0.0).any(axis=1)


def as_rows(points: jax.Array) -> jax.Array:
    """Points (n, d) as measured rows (n, 2, d + 1)."""
    ones = jnp.ones_like(points[:, 0])
    return RowArrays(points, jnp.zeros_like(points), ones, -ones).join()


def points_of(X: jax.Array) -> jax.Array:
    """Points (n, d): X itself, or the midpoints of measured rows (n, 2, d + 1)."""
    return X if X.ndim == 2 else X[:, 0, :-1] + 0.5 * X[:, 1, :-1]


def are_in_units_of_f(X: jax.Array) -> np.ndarray:
    """Mask of points, and of measured rows that are values or means, (n,)."""
    if X.ndim == 2:
        return np.ones(len(X), bool)
    rows = RowArrays.of(np.asarray(X))
    return np.asarray((rows.factor == 1.0) & ~rows.is_derivative)


class RowKinds(eqx.Module):
    """Kinds of rows for which a kernel is evaluated; all of them static.

    Attributes:
        columns: Columns along which some row is a mean.
        has_derivatives: Whether some row is a derivative.
        nodes: Gauss-Legendre nodes of each smooth piece of an integral without closed form.
    """

    columns: tuple[int, ...] = eqx.field(static=True)
    has_derivatives: bool = eqx.field(static=True)
    nodes: int = eqx.field(static=True, default=2 * MIN_NODES)

    @classmethod
    def of(cls, rows: jax.Array) -> RowKinds:
        """Kinds of rows (n, 2, d + 1); all kinds if JAX traces the rows."""
        if is_traced(rows):
            return cls(tuple(range(rows.shape[2] - 1)), True)
        # NumPy, not JAX: under `jit`, JAX traces operations on known arrays too.
        parts = RowArrays.of(np.asarray(rows))
        columns = np.flatnonzero(np.any(parts.sides > 0.0, axis=0)).tolist()
        return cls(tuple(columns), bool(np.any(parts.is_derivative)))

    def __or__(self, other: RowKinds) -> RowKinds:
        columns = tuple(sorted({*self.columns, *other.columns}))
        has_derivatives = self.has_derivatives or other.has_derivatives
        return RowKinds(columns, has_derivatives, max(self.nodes, other.nodes))


# Errors, as a share of the largest variance: the number of nodes suffices at the first, and a
# warning is given above the second.
NODES_ERROR, WARNING_ERROR = 1e-9, 1e-6


class Measured(Wrapper):
    """Kernel of measured rows of a process with another kernel.

    Attributes:
        inner: Kernel of the process, a function of points (n, d).
        kinds: Kinds of rows.
    """

    kinds: RowKinds

    is_of_points: ClassVar[bool] = False

    def evaluate(self, X: jax.Array, Z: jax.Array | None = None) -> jax.Array:
        X_rows = RowArrays.of(X)
        Z_rows = X_rows if Z is None else RowArrays.of(Z)
        K = self._without_factors(X_rows, Z_rows)
        return X_rows.factor[:, None] * K * Z_rows.factor

    def evaluate_diag(self, X: jax.Array) -> jax.Array:
        return jax.vmap(lambda row: self.evaluate(row[None])[0, 0])(X)

    def features(self, X: jax.Array, degree: int | None) -> jax.Array:
        rows = RowArrays.of(X)
        boxes, directions = self._boxes(rows), rows.directions
        phi = self.inner.features_of_means(boxes)
        if self.kinds.has_derivatives:

            def moved(step):
                return self.inner.features_of_means(boxes.shifted(step * directions))

            _, slopes = jax.jvp(moved, (0.0,), (1.0,))
            phi = jnp.where(rows.is_derivative[:, None], slopes, phi)
        return rows.factor[:, None] * phi

    def state_space(self) -> StateSpace:
        """State-space model of the process.

        Raises:
            NoStateSpaceError: The process has no state-space model, or the rows are not functions
                of its state.
        """
        space = self.inner.state_space()
        if space.white and (self.kinds.columns or self.kinds.has_derivatives):
            raise NoStateSpaceError("White has no means over intervals, and no derivative.")
        if self.kinds.has_derivatives:
            jax.eval_shape(space.slope, jnp.zeros(()))
        return space

    def terms_of_sum(self) -> list[tuple[tuple[str, ...], Kernel]]:
        return [(names, self.of(kernel)) for names, kernel in self.inner.terms_of_sum()]

    def resolve(self, columns: tuple[str, ...] | None) -> Measured:
        return self.of(self.inner.resolve(columns))

    def of(self, kernel: Kernel) -> Measured:
        """Kernel of rows of the same kinds, for a process with the kernel `kernel`."""
        return Measured(kernel, self.kinds)

    def with_nodes_for(self, X: jax.Array) -> Measured:
        """Copy with nodes for an error below `NODES_ERROR` at rows X, at most `MAX_NODES`.

        Warns:
            UserWarning: With the largest number of nodes, the error is above `WARNING_ERROR`.
        """
        if any(map(is_traced, jax.tree.leaves((self, X)))) or not self.uses_nodes(X):
            return self
        of_means, rows = self._of_means, _sample(X)
        error, nodes = math.inf, MIN_NODES
        K = _evaluate(of_means._with_nodes(nodes), rows)
        while error > NODES_ERROR and nodes < MAX_NODES:
            coarse, nodes = K, 2 * nodes
            K = _evaluate(of_means._with_nodes(nodes), rows)
            error = _largest_change(coarse, K)
        if error > WARNING_ERROR:
            warnings.warn(
                f"means of {self.inner!r} over these intervals have no closed form, and {nodes} "
                f"nodes of quadrature leave an error of about {error:.1g} of the largest variance. "
                "Use shorter intervals, or a sum of kernels in place of the product.",
                stacklevel=2,
            )
        return self._with_nodes(nodes)

    def quadrature_error(self, X: jax.Array) -> float:
        """Largest change of a covariance if the number of nodes is doubled.

        The change is relative to the largest variance, and estimated from at most `ERROR_ROWS` rows
        of X. It is 0 if all covariances are in closed form.
        """
        if not self.uses_nodes(X):
            return 0.0
        rows, finer = _sample(X), self._with_nodes(2 * self.kinds.nodes)
        return _largest_change(_evaluate(self, rows), _evaluate(finer, rows))

    def uses_nodes(self, X: jax.Array) -> bool:
        """True if some covariances of rows X are computed by quadrature."""
        if not self.kinds.columns:
            return False
        kernels = (self._of_means._with_nodes(nodes) for nodes in (MIN_NODES, MAX_NODES))
        programs = [str(jax.make_jaxpr(kernel.evaluate)(X[:1])) for kernel in kernels]
        return programs[0] != programs[1]

    @property
    def _of_means(self) -> Measured:
        """Copy for values and means alone.

        Derivatives need the same number of nodes, and take long to trace.
        """
        return Measured(self.inner, dataclasses.replace(self.kinds, has_derivatives=False))

    def _with_nodes(self, nodes: int) -> Measured:
        return Measured(self.inner, dataclasses.replace(self.kinds, nodes=nodes))

    def _boxes(self, rows: RowArrays) -> Boxes:
        return Boxes(rows.lower, rows.sides, self.kinds.columns, self.kinds.nodes)

    def _without_factors(self, X: RowArrays, Z: RowArrays) -> jax.Array:
        boxes = self._boxes(X), self._boxes(Z)
        if not self.kinds.has_derivatives:
            return self.inner.evaluate_means(*boxes)
        directions = X.directions, Z.directions

        def means(step_X, step_Z):
            X, Z = boxes
            return self.inner.evaluate_means(
                X.shifted(step_X * directions[0]), Z.shifted(step_Z * directions[1])
            )

        def along_Z(step_X):
            return jax.jvp(lambda step_Z: means(step_X, step_Z), (0.0,), (1.0,))

        (K, K_z), (K_x, K_xz) = jax.jvp(along_Z, (0.0,), (1.0,))
        of_X, of_Z = X.is_derivative[:, None], Z.is_derivative
        return jnp.where(of_X, jnp.where(of_Z, K_xz, K_x), jnp.where(of_Z, K_z, K))

    def __repr__(self) -> str:
        return repr(self.inner)


def measured(kernel: Kernel, kinds: RowKinds) -> Measured:
    """Kernel of measured rows, extended by rows of these kinds."""
    if isinstance(kernel, Measured):
        return Measured(kernel.inner, kernel.kinds | kinds)
    return Measured(kernel, kinds)


class MeasuredMean(eqx.Module):
    """Prior mean of measured rows of a process whose mean is a function of a point.

    Means over intervals are by Gauss-Legendre quadrature.

    Attributes:
        f: Function from a point (d,) to a number.
        kinds: Kinds of rows.

    Raises:
        ValueError: Some rows are means along several columns.
    """

    f: Callable
    kinds: RowKinds

    def __check_init__(self):
        if len(self.kinds.columns) > 1:
            raise ValueError(
                "the mean is a function of a point, which has no means over boxes with sides in "
                f"the columns {list(self.kinds.columns)}. Give the prior mean as a number, or as "
                "an array with the prior mean of each row."
            )

    def __call__(self, row: jax.Array) -> jax.Array:
        """Prior mean of one row (2, d + 1)."""
        rows = RowArrays.of(row[None])
        lower, sides, direction = rows.lower[0], rows.sides[0], rows.directions[0]
        u, w = unit_nodes(self.kinds.nodes)
        mean = w @ jax.vmap(lambda u: one_number(self.f, lower + u * sides))(u)
        _, slope = jax.jvp(lambda x: one_number(self.f, x), (lower,), (direction,))
        return rows.factor[0] * jnp.where(rows.is_derivative[0], slope, mean)


class MeasuredLevel(eqx.Module):
    """Prior mean of measured rows of a process whose mean is one number at all points.

    Attributes:
        value: The number.
    """

    value: jax.Array

    def __call__(self, row: jax.Array) -> jax.Array:
        """Prior mean of one row (2, d + 1)."""
        rows = RowArrays.of(row[None])
        return self.value * jnp.where(rows.is_derivative[0], 0.0, rows.factor[0])


def kinds_of(kernel: Kernel) -> RowKinds | None:
    """Kinds of rows of a kernel of measured rows; None for a kernel of points."""
    return kernel.kinds if isinstance(kernel, Measured) else None


@eqx.filter_jit
def _evaluate(kernel: Measured, rows: jax.Array) -> jax.Array:
    return kernel.evaluate(rows)


# Number of rows from which the error of quadrature is estimated.
ERROR_ROWS = 24


def _sample(X: jax.Array) -> jax.Array:
    """Evenly spaced rows of X, at most `ERROR_ROWS`."""
    return X[np.linspace(0, len(X) - 1, min(len(X), ERROR_ROWS)).round().astype(int)]


def _largest_change(K: jax.Array, finer: jax.Array) -> float:
    return float(jnp.max(jnp.abs(K - finer)) / jnp.max(jnp.diagonal(finer)))
