"""The periodic kernel as a sum of a few harmonics, with a bound on the error.

With z = 1 / lengthscale^2, exp(z (cos a - 1)) = sum_j q_j cos(j a), where q_j = 2 exp(-z) I_j(z),
and half of that for j = 0 (Solin and Sarkka 2014, "Explicit link between periodic covariance
functions and state space models", equation 27). Here the harmonics 0, ..., J interpolate the
function at the 2 J + 1 angles 2 pi i / (2 J + 1): each q_j with j > J is added to the coefficient
of the lower harmonic that has the same values at these angles. So the variance is exact, no
coefficient is negative, and the error is at most twice the sum of the q_j with j > J.

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

# More harmonics make the filter too slow to be useful.
MAX_HARMONICS = 200


def coefficients(lengthscale: ArrayLike, harmonics: int) -> Float[Array, " J1"]:
    """Variances of the harmonics 0, ..., J of a periodic kernel of variance 1."""
    j, n = np.arange(harmonics + 1), 2 * harmonics + 1
    angles = 2.0 * np.pi * np.arange(n) / n
    # cos(j angle), with j i reduced modulo 2 J + 1 before the multiplication by 2 pi.
    waves = np.where(j == 0, 1.0, 2.0)[:, None] * np.cos(angles[np.outer(j, np.arange(n)) % n])
    # At lengthscales below 1e-50 the coefficients are constant, and the division would overflow.
    exponents = (np.cos(angles) - 1.0) / jnp.square(jnp.maximum(lengthscale, 1e-50))
    # At large lengthscales the harmonics above 0 are small: subtract 1 to keep their digits.
    is_large = jnp.asarray(lengthscale) > 1.0
    values = jnp.where(is_large, jnp.expm1(exponents), jnp.exp(exponents))
    means = jnp.asarray(waves) @ values / n + jnp.where(is_large, j == 0, 0.0)
    # Rounding can make small coefficients negative.
    return jnp.maximum(means, 0.0)


def log_error(lengthscale: ArrayLike, harmonics: ArrayLike) -> np.ndarray:
    """Log of a bound on the relative error of the covariances, in NumPy."""
    z, k = 1.0 / np.square(lengthscale), np.add(harmonics, 1.0)
    return np.log(4.0) + np.sqrt(z * z + k * k) - z - k * np.arcsinh(k / z)


# Bound on the error of the covariances, relative to the variance.
MAX_HARMONIC_ERROR = 1e-10


@lru_cache
def least_lengthscales() -> np.ndarray:
    """Smallest lengthscales for which 1, 2, ... harmonics are known to suffice."""
    harmonics = np.arange(1, MAX_HARMONICS + 1)
    low, high = np.full(len(harmonics), -12.0), np.full(len(harmonics), 12.0)
    # Bisection of the log lengthscale: the error decreases as the lengthscale increases.
    for _ in range(60):
        middle = 0.5 * (low + high)
        suffices = log_error(np.exp(middle), harmonics) <= np.log(MAX_HARMONIC_ERROR)
        low, high = np.where(suffices, low, middle), np.where(suffices, middle, high)
    return np.exp(high)


def least_lengthscale(harmonics: int) -> float:
    """Smallest lengthscale for which this number of harmonics is known to suffice."""
    return float(least_lengthscales()[harmonics - 1])


# Largest prior probability of lengthscales that need more harmonics. The density is 0 at these
# lengthscales, so that data cannot reveal them: the probability has to be negligible.
MAX_EXCLUDED_PROBABILITY = 1e-6


def count_harmonics(lengthscale: ArrayLike | Distribution | Free) -> int | None:
    """Number of harmonics that suffices for a lengthscale; None if it is not known.

    Args:
        lengthscale: A number or a prior. For a prior, lengthscales that need more harmonics have a
            probability of at most `MAX_EXCLUDED_PROBABILITY`.

    Returns:
        The number. None for traced numbers, NaN, `Free` and priors without a cdf, or if more than
        `MAX_HARMONICS` are needed.
    """
    if isinstance(lengthscale, Distribution):
        return _first(_mass_below(lengthscale) <= MAX_EXCLUDED_PROBABILITY)
    if isinstance(lengthscale, Free) or is_traced(lengthscale):
        return None
    return _first(np.asarray(lengthscale) >= least_lengthscales())


def _mass_below(prior: Distribution) -> np.ndarray:
    """Prior probability below each of `least_lengthscales`; NaN if it has no cdf."""
    try:
        return np.asarray(prior.cdf(least_lengthscales()))
    except NotImplementedError:
        return np.full(MAX_HARMONICS, np.nan)


def _first(suffices: np.ndarray) -> int | None:
    """Smallest sufficient number of harmonics, from a mask over 1, 2, ..."""
    return int(np.argmax(suffices)) + 1 if suffices.any() else None
