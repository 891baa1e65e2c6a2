"""The periodic kernel as a sum of a few harmonics, with a bound on the error.

With z = 1 / lengthscale^2, exp(z (cos a - 1)) = sum_j q_j cos(j a), where q_j = 2 exp(-z) I_j(z),
and half of it for j = 0 (Solin and Sarkka 2014, "Explicit link between periodic covariance
functions and state space models", equation 27). Here the function is interpolated at the 2 J + 1
angles 2 pi i / (2 J + 1) by the harmonics 0, ..., J: each q_j with j > J is added to that of a
lower harmonic, which has the same values there. So no variance is lost, no coefficient is negative,
and the error is at most twice the sum of the q_j with j > J.

The q_j are the probabilities that two Poisson(z / 2) numbers differ by j. Chernoff's bound is
sum_{j > J} q_j <= 2 exp(sqrt(z^2 + k^2) - z - k asinh(k / z)) with k = J + 1.
"""

from __future__ import annotations

from functools import lru_cache

import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float
from numpyro.distributions import Distribution

from bayeskern.core.validation import is_traced
from bayeskern.hyperparameters import Free

# Bound on the error of the covariances, relative to the variance.
MAX_RELATIVE_ERROR = 1e-10
# More harmonics make the filter too slow to be useful.
MAX_HARMONICS = 200
# Probability that a prior may give to lengthscales that need more harmonics. The density is 0
# there, so that the probability has to be much less than data could make up for.
MAX_EXCLUDED_PROBABILITY = 1e-6


def coefficients(lengthscale: ArrayLike, harmonics: int) -> Float[Array, " J1"]:
    """Variances of the harmonics 0, ..., J of a periodic kernel of variance 1."""
    j, n = np.arange(harmonics + 1), 2 * harmonics + 1
    angles = 2.0 * np.pi * np.arange(n) / n
    # The angles times j, as multiples of the first angle below a full turn.
    waves = np.where(j == 0, 1.0, 2.0)[:, None] * np.cos(angles[np.outer(j, np.arange(n)) % n])
    # Smaller lengthscales have the same coefficients, but overflow.
    exponents = (np.cos(angles) - 1.0) / jnp.square(jnp.maximum(lengthscale, 1e-50))
    # Large lengthscales leave little for the harmonics above 0: the values less 1 keep its digits.
    is_large = jnp.asarray(lengthscale) > 1.0
    values = jnp.where(is_large, jnp.expm1(exponents), jnp.exp(exponents))
    means = jnp.asarray(waves) @ values / n + jnp.where(is_large, j == 0, 0.0)
    # Rounding can make positive numbers negative.
    return jnp.maximum(means, 0.0)


def log_error(lengthscale: ArrayLike, harmonics: ArrayLike) -> np.ndarray:
    """Log of a bound on the relative error of the covariances, in NumPy."""
    z, k = 1.0 / np.square(lengthscale), np.add(harmonics, 1.0)
    return np.log(4.0) + np.sqrt(z * z + k * k) - z - k * np.arcsinh(k / z)


@lru_cache
def least_lengthscales() -> np.ndarray:
    """Least lengthscales for which 1, 2, ... harmonics are known to suffice."""
    harmonics = np.arange(1, MAX_HARMONICS + 1)
    low, high = np.full(len(harmonics), -12.0), np.full(len(harmonics), 12.0)
    # The error falls with the lengthscale: bisection of its logarithm.
    for _ in range(60):
        middle = 0.5 * (low + high)
        enough = log_error(np.exp(middle), harmonics) <= np.log(MAX_RELATIVE_ERROR)
        low, high = np.where(enough, low, middle), np.where(enough, middle, high)
    return np.exp(high)


def least_lengthscale(harmonics: int) -> float:
    """Least lengthscale for which this number of harmonics is known to suffice."""
    return float(least_lengthscales()[harmonics - 1])


def count_harmonics(lengthscale: ArrayLike | Distribution | Free) -> int | None:
    """Number of harmonics that suffices for a lengthscale; None if it is not known.

    Args:
        lengthscale: A number, or a prior; the lengthscales that need more harmonics may have a
            probability of at most MAX_EXCLUDED_PROBABILITY. The number is not known for traced
            numbers, NaN and `Free`.
    """
    if isinstance(lengthscale, Distribution):
        return _first(_mass_below(lengthscale) <= MAX_EXCLUDED_PROBABILITY)
    if isinstance(lengthscale, Free) or is_traced(lengthscale):
        return None
    return _first(np.asarray(lengthscale) >= least_lengthscales())


def _mass_below(prior: Distribution) -> np.ndarray:
    """Probability of a prior below each least lengthscale; NaN if it has no cdf."""
    try:
        return np.asarray(prior.cdf(least_lengthscales()))
    except NotImplementedError:
        return np.full(MAX_HARMONICS, np.nan)


def _first(enough: np.ndarray) -> int | None:
    return int(np.argmax(enough)) + 1 if enough.any() else None
