"""Kernels of things without coordinates: levels of categories, rows of a given matrix."""

from __future__ import annotations

from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from numpyro.distributions import constraints

from bayeskern import hyperparameters as hyper
from bayeskern.core import validation
from bayeskern.hyperparameters import Hyperparameter, hyperparameter
from bayeskern.kernels import column_groups, metrics
from bayeskern.kernels.base import Kernel
from bayeskern.kernels.column_groups import Columns


class Categorical(Kernel):
    """Kernel of categories, k(x, z) = variance * prod_d correlation_d^[x_d != z_d].

    Two points are as similar as they have equal columns, the Hamming distance. With correlation =
    exp(-1 / l) it is variance * exp(-h / l) of the number h of columns that differ. The columns are
    text or categories of a data frame, or numbers of which only equality counts. The kernel
    `Coregion` has a free covariance matrix over the levels instead.

    Args:
        correlation: Correlation of two levels of a column that differ, from 0 (levels have nothing
            in common) to 1 (levels do not matter): a number, or a vector (d,), one for each column.
        variance: Prior variance k(x, x), in the squared units of the output.

    References:
        Qian, Wu and Wu (2008), "Gaussian process models for computer experiments with qualitative
        and quantitative factors"; Couto (2005), "Kernel k-means for categorical data".

    Examples:
        >>> import pandas as pd
        >>> from bayeskern.kernels import RBF, Categorical
        >>> frame = pd.DataFrame({"age": [1.0, 1.0, 2.0], "city": ["Bonn", "Rome", "Bonn"]})
        >>> kernel = RBF().on(["age"]) * Categorical(0.3).on(["city"])
        >>> print(kernel(frame).round(3))
        [[1.    0.3   0.607]
         [0.3   1.    0.182]
         [0.607 0.182 1.   ]]
    """

    sentence: ClassVar[str] = "differs from category to category"
    is_differentiable: ClassVar[bool] = False
    takes_levels: ClassVar[bool] = True
    of_levels: ClassVar[bool] = True

    correlation: Hyperparameter = hyperparameter(0.5, constraints.unit_interval, scalar=False)
    variance: Hyperparameter = hyperparameter(1.0)

    def evaluate(self, X: jax.Array, Z: jax.Array | None = None) -> jax.Array:
        Z, d = X if Z is None else Z, X.shape[1]
        correlation = metrics.require_per_dimension("correlation", self.correlation, X)
        gram = self.variance * jnp.ones((len(X), len(Z)))
        for i, rho in enumerate(jnp.broadcast_to(correlation, (d,))):
            gram = gram * jnp.where(X[:, None, i] == Z[None, :, i], 1.0, rho)
        return gram

    def evaluate_diag(self, X: jax.Array) -> jax.Array:
        return jnp.broadcast_to(self.variance, X.shape[:1])

    def by_columns(self, d: int) -> dict[Columns, Kernel]:
        return column_groups.one_by_one(self, ("correlation",), d)


class Precomputed(Kernel):
    """Kernel given as a matrix, k(i, j) = matrix_ij.

    The points are row numbers 0, 1, ... of the matrix in one column, of the data and of the points
    to be predicted alike: `GaussianProcess(Precomputed(K), train, noise)` and `predict(test)` with
    indices `train` and `test`. It may be multiplied by a number and added to other kernels.

    Args:
        matrix: Covariances (N, N), symmetric and positive semi-definite.

    Raises:
        ValueError: The matrix is not square, symmetric and positive semi-definite to rounding; or,
            on evaluation, a point is not a row number. Under `jax.jit` its covariances are NaN.

    Examples:
        >>> from bayeskern.kernels import Precomputed
        >>> print(Precomputed([[2.0, 1.0, 0.0], [1.0, 2.0, 1.0], [0.0, 1.0, 2.0]])([0, 2]))
        [[2. 0.]
         [0. 2.]]
    """

    sentence: ClassVar[str] = "follows a given covariance matrix"
    is_differentiable: ClassVar[bool] = False
    of_levels: ClassVar[bool] = True

    # A fixed hyperparameter, so that another matrix of the same size does not recompile.
    matrix: Hyperparameter = hyperparameter(1.0, constraints.real, scalar=False)

    def __check_init__(self):
        shape = hyper.shape(self.matrix)
        if hyper.is_specified(self.matrix) or len(shape) != 2 or shape[0] != shape[1]:
            raise ValueError(
                "matrix must be the covariances of N points with each other, shape (N, N), got "
                f"{'a prior' if hyper.is_specified(self.matrix) else f'shape {shape}'}."
            )
        if not validation.is_traced(self.matrix):
            validation.semidefinite(np.asarray(self.matrix), "matrix")

    def evaluate(self, X: jax.Array, Z: jax.Array | None = None) -> jax.Array:
        i, known = self._rows_of(X)
        j, known_j = (i, known) if Z is None else self._rows_of(Z)
        return jnp.where(known[:, None] & known_j, jnp.asarray(self.matrix)[i[:, None], j], jnp.nan)

    def evaluate_diag(self, X: jax.Array) -> jax.Array:
        i, known = self._rows_of(X)
        return jnp.where(known, jnp.asarray(self.matrix)[i, i], jnp.nan)

    def _rows_of(self, X):
        return validation.whole_numbers(
            X, self.matrix.shape[0], "row number of the matrix", "Precomputed"
        )

    def __repr__(self):
        return f"Precomputed({' x '.join(map(str, hyper.shape(self.matrix)))} matrix)"
