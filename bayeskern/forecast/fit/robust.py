"""Student t noise by a variational approximation: a factor of the noise variance of each value.

y_i = f_i + e_i / sqrt(l_i), with e_i ~ N(0, noise) and l_i ~ Gamma(nu / 2, nu / 2), is Student's t.
The posterior is approximated by q(f) q(l), each l_i with a gamma distribution: Tipping and Lawrence
(2005), "Variational inference for Student-t models: robust Bayesian interpolation and generalised
component analysis", section 3.
"""

from __future__ import annotations

import numpy as np
from scipy.special import digamma, gammaln

# Degrees of freedom: Gelman et al. (2013), "Bayesian data analysis", section 17.2.
DEGREES = 4.0


def noise_factors(
    squares: np.ndarray, noise: float, trusted: np.ndarray | bool = False
) -> tuple[np.ndarray, float]:
    """Factors of the noise variance, (n,), and their term of the log marginal likelihood.

    The log marginal likelihood of Gaussian noise with these factors, plus the term, is a lower
    bound on the log marginal likelihood of Student t noise.

    Args:
        squares: Expected squared residuals E[(y - f)^2], (n,).
        noise: Noise variance.
        trusted: Mask of the values with Gaussian noise and so a factor of 1, (n,): those of
            holidays and events, whose effects would pass for outliers.
    """
    shape, half = 0.5 * (DEGREES + 1.0), 0.5 * DEGREES
    rate = 0.5 * (DEGREES + squares / noise)
    precision = shape / rate
    # E[log l] - log E[l], and the KL divergence of q(l) from its prior.
    spread = digamma(shape) - np.log(shape)
    divergence = (
        (shape - half) * digamma(shape)
        - gammaln(shape)
        + gammaln(half)
        + half * (np.log(rate) - np.log(half))
        + shape * (half - rate) / rate
    )
    gain = np.where(trusted, 0.0, 0.5 * spread - divergence)
    return np.where(trusted, 1.0, 1.0 / precision), float(np.sum(gain))
