"""Check and read the kernel, the mean and the points of a Gaussian process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeGuard

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from narwhals.typing import IntoDataFrame
from numpy.typing import ArrayLike
from numpyro.distributions import Distribution, constraints

from bayeskern import hyperparameters as hyper
from bayeskern.core import validation
from bayeskern.core.functions import as_module
from bayeskern.kernels.base import Kernel
from bayeskern.kernels.measured.kernel import (
    MeasuredLevel,
    MeasuredMean,
    RowArrays,
    RowKinds,
    as_rows,
)
from bayeskern.kernels.measured.rows import Functional, Rows
from bayeskern.linalg.factor import AnyArray

# Points (n, d) or (n,), or a data frame; intervals and derivatives; or a list of these.
Inputs = ArrayLike | IntoDataFrame | Functional | Sequence


def positive_definite(kernel: Kernel) -> Kernel:
    """Return the kernel, or raise ValueError if a part of it is not positive definite.

    Raises TypeError if `kernel` is not a `Kernel`.
    """
    if not isinstance(kernel, Kernel):
        # scikit-learn has kernels of the same names.
        kind = f"{type(kernel).__module__}.{type(kernel).__name__}"
        raise TypeError(
            "kernel must be a bayeskern kernel, such as bayeskern.kernels.RBF(), got "
            f"{kernel!r} of type {kind}."
        )
    for node in kernel.nodes():
        if isinstance(node, Kernel) and not node.positive_definite:
            raise ValueError(
                f"{type(node).__name__} is not positive definite, so it cannot be the covariance "
                "of a Gaussian process. InverseMultiquadric is similar and positive definite."
            )
    return kernel


def mask_residual(r: Array, mask: Array | None) -> Array:
    """Residuals r with zeros in masked rows."""
    return r if mask is None else jnp.where(mask, r, 0.0)


def mean_function(mean: ArrayLike | Distribution | hyper.Free | Callable) -> Array | Callable:
    """Read a prior mean: wrap a function as a module, else read a hyperparameter."""
    if is_function(mean):
        return as_module(mean)
    # A model before inference may hold a distribution or Free here, a model in use an array.
    return hyper.as_hyperparameter(mean)  # pyright: ignore[reportReturnType]


def read_mean(mean: ArrayLike | Callable, n: int) -> Array | Callable:
    """Read a prior mean without priors: a function, a number or an array (n,)."""
    return mean_function(mean) if is_function(mean) else per_point("mean", mean, n)


def is_function(mean: object) -> TypeGuard[Callable]:
    """True if a prior mean is a function of one point, not a number or its prior."""
    # A NumPyro distribution is callable too: calling it draws a sample.
    return callable(mean) and not hyper.is_specified(mean)


def evaluate_mean(mean: Array | Callable, X: AnyArray) -> Array:
    """Prior mean at X (n, d): a function of one point is applied to each row."""
    return jax.vmap(mean)(X).reshape(X.shape[0]) if callable(mean) else mean


def mean_at(mean: Array | Callable, X_new: AnyArray) -> Array:
    """Prior mean at new points. Raises ValueError if it was given as an array (n,)."""
    if not callable(mean) and jnp.ndim(mean) == 1:
        raise ValueError(
            "the prior mean was given as an array, so its values at X_new are unknown. Give the "
            "mean as a function of one point, or pass mean=... to ConditionedGP.predict."
        )
    return evaluate_mean(mean, X_new)


def points_alone(X: Inputs) -> tuple[Array, tuple[str, ...] | None]:
    """Read points (n, d) and column names; refuse intervals and derivatives."""
    rows = Rows.read(X)
    if rows.kinds is not None:
        raise ValueError(
            "a latent process is observed at points, but X has intervals or derivatives. "
            "GPRegression and GaussianProcess take them; here, give points, such as the midpoints."
        )
    return rows.X, rows.names


def new_points(X_new: Inputs, X: Array, columns: tuple[str, ...] | None) -> Array:
    """Read new points of a process at points X; take `columns` from a data frame."""
    points, _ = validation.inputs(X_new, "X_new", columns)
    _require_inputs(points.shape[1], X)
    return points


def new_rows(
    X_new: Inputs, kernel: Kernel, X: Array, columns: tuple[str, ...] | None
) -> tuple[Array, RowKinds | None]:
    """Read new points or measured rows of a process.

    Args:
        X_new: New points, or functionals.
        kernel: Kernel of the process.
        X: Points or measured rows of the process.
        columns: Columns to take from a data frame.

    Returns:
        New points (m, d) and None, or new measured rows (m, 2, d + 1) and the kinds of rows for
        which the kernel is needed.
    """
    new = Rows.read(X_new, "X_new", columns)
    _require_inputs(number_of_inputs(new.X), X)
    if X.ndim == 2 and new.kinds is None:
        return new.X, None
    if new.kinds is None:
        return as_rows(new.X), RowKinds((), False)
    return new.X, new.kernel_of_rows(kernel).kinds


def number_of_inputs(X: Array) -> int:
    """Number d of inputs of points (n, d) or measured rows (n, 2, d + 1)."""
    return X.shape[1] if X.ndim == 2 else X.shape[2] - 1


def observes_kinds_of(X: Array, X_new: Array) -> Array:
    """1.0 for new rows of a kind (value, mean, derivative) that X has: () or (m,)."""
    if X.ndim == 2 and X_new.ndim == 2:
        return jnp.ones(())
    old, new = (_kinds_one_hot(as_rows(rows) if rows.ndim == 2 else rows) for rows in (X, X_new))
    return new @ jnp.max(old, axis=0)


def _kinds_one_hot(rows: Array) -> Array:
    """Indicators of values, means and derivatives of measured rows: (n, 3)."""
    parts = RowArrays.of(rows)
    is_derivative, is_mean = parts.is_derivative, parts.is_mean
    kinds = jnp.stack([~(is_mean | is_derivative), is_mean, is_derivative], axis=1)
    return kinds.astype(float)


def _require_inputs(d: int, X: Array) -> None:
    if d != number_of_inputs(X):
        raise ValueError(
            f"X_new has {d} columns but X, the points of the process, has {number_of_inputs(X)}; "
            "give the same columns in the same order."
        )


def mean_of_rows(mean: Array | Callable, kinds: RowKinds | None) -> Array | Callable:
    """Prior mean of measured rows, from the prior mean of the process at a point.

    An array (n,) is returned unchanged: it holds the prior means of the rows themselves. For points
    (`kinds` is None), any prior mean is returned unchanged.
    """
    if kinds is None or (not callable(mean) and jnp.ndim(mean) == 1):
        return mean
    return MeasuredMean(mean, kinds) if callable(mean) else MeasuredLevel(jnp.asarray(mean))


def read_noise_of_rows(noise: Any, n: int) -> Array:
    """Read the noise of n rows: a variance (), variances (n,) or a covariance matrix (n, n)."""
    if not hyper.is_specified(noise) and np.shape(noise) == (n, n):
        return validation.covariance(noise, n, "noise")
    noise = per_point("noise", noise, n)
    hyper.check("noise", noise, constraints.nonnegative)
    return noise


def per_point(name: str, value: object, n: int) -> Array:
    """Read a number or n numbers as an array of shape () or (n,).

    Raises TypeError for a distribution or `Free`, and ValueError for any other shape.
    """
    if hyper.is_specified(value):
        raise TypeError(
            f"{name} must be a number here, got {hyper.show(value)}. For priors, use GPRegression "
            "or LatentGP."
        )
    value = value if isinstance(value, Array) else jnp.asarray(np.asarray(value, float))
    if value.shape not in ((), (n,)):
        raise ValueError(f"{name} must be one number or {n} numbers, got shape {value.shape}.")
    return value
