"""What a Gaussian process is before data: its kernel, its mean and its covariance matrix."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from bayeskern import hyperparameters as hyper
from bayeskern.core.functions import StaticFunction
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
    return mean if isinstance(mean, eqx.Module) else StaticFunction(mean)


def is_function(mean) -> bool:
    """Whether a prior mean is a function of one point, not a number or its prior."""
    # A NumPyro distribution is callable too: calling it draws from it.
    return callable(mean) and not hyper.is_specified(mean)


def evaluate_mean(mean, X):
    """The prior mean at X: a number, an array, or a function of one point applied to each."""
    return jax.vmap(mean)(X).reshape(X.shape[0]) if callable(mean) else mean


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
