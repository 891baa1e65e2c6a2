"""What a Gaussian process is before data: its kernel, its mean and its covariance matrix."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from bayeskern import hyperparameters as hyper
from bayeskern.core import validation
from bayeskern.core.functions import as_module
from bayeskern.kernels.base import Kernel


def positive_definite(kernel: Kernel) -> Kernel:
    """Return the kernel, or raise ValueError if a part of it is known not to be positive definite.

    Raises TypeError if it is no kernel.
    """
    if not isinstance(kernel, Kernel):
        raise TypeError(f"kernel must be a bayeskern kernel, got {type(kernel).__name__}.")
    for node in kernel.nodes():
        if not node.positive_definite:
            raise ValueError(
                f"{type(node).__name__} is not positive definite, so no Gaussian process has it as "
                "its covariance. InverseMultiquadric is the positive definite relative."
            )
    return kernel


def mask_residual(r, mask):
    """r with zeros where data are masked out."""
    return r if mask is None else jnp.where(mask, r, 0.0)


def mean_function(mean):
    """Read a prior mean: a function as a module, anything else as a hyperparameter."""
    if not is_function(mean):
        return hyper.as_hyperparameter(mean)
    return as_module(mean)


def is_function(mean) -> bool:
    """Whether a prior mean is a function of one point, not a number or its prior."""
    # A NumPyro distribution is callable too: calling it draws from it.
    return callable(mean) and not hyper.is_specified(mean)


def evaluate_mean(mean, X):
    """The prior mean at X: a number, an array, or a function of one point applied to each."""
    return jax.vmap(mean)(X).reshape(X.shape[0]) if callable(mean) else mean


def mean_at(mean, X_new, advice: str = ""):
    """The prior mean at new points, which one that was given as an array (n,) does not say.

    advice: what else to do then.
    """
    if not callable(mean) and jnp.ndim(mean) == 1:
        raise ValueError(
            "the prior mean was given as an array, so its values at X_new are unknown: "
            f"{advice}make the mean a function of one point."
        )
    return evaluate_mean(mean, X_new)


def new_points(X_new, X, columns) -> jax.Array:
    """Read new points of a process at X; of a data frame, the columns that X was."""
    X_new, _ = validation.inputs(X_new, "X_new", columns)
    if X_new.shape[1] != X.shape[1]:
        raise ValueError(
            f"X_new has {X_new.shape[1]} columns but X, the points of the process, has "
            f"{X.shape[1]}; give the same columns in the same order."
        )
    return X_new


def above_rounding(variance, prior):
    """Posterior variances, which rounding may push below 0 where they are small beside the prior's.

    NaN is left to be seen.
    """
    return jnp.maximum(variance, jnp.finfo(prior.dtype).eps * prior)


def per_point(name, value, n):
    """Read one number, (), or one for each of n points, (n,).

    Raises TypeError if it is a distribution or free, and ValueError if it has another shape.
    """
    if hyper.is_specified(value):
        raise TypeError(f"{name} must be a number here, got {hyper.show(value)}; see GPRegression.")
    value = value if isinstance(value, jax.Array) else jnp.asarray(np.asarray(value, float))
    if value.shape not in ((), (n,)):
        raise ValueError(
            f"{name} must be one number or one for each of {n} points, got {value.shape}."
        )
    return value
