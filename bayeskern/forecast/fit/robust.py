"""Student t noise by variational inference: a noise factor for each value.

y_i = f_i + e_i / sqrt(l_i), with e_i ~ N(0, noise) and l_i ~ Gamma(nu / 2, nu / 2), has Student t
noise with nu degrees of freedom. The posterior is approximated by q(f) q(l), with gamma
distributions of l_i; the noise variance of y_i then has the factor 1 / E[l_i]. Tipping and Lawrence
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
    """Factors of the noise variance, (n,), and a constant of the variational bound.

    The log marginal likelihood with Gaussian noise and these factors, plus the constant, is a lower
    bound on the log marginal likelihood with Student t noise.

    Args:
        squares: Expected squared residuals E[(y - f)^2], (n,).
        noise: Noise variance.
        trusted: Mask of values with Gaussian noise, that is a factor of 1, (n,): values on holidays
            and events, whose effects look like outliers.
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
