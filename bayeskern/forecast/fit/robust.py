"""Student t noise by the variational method: what each value's noise variance is multiplied by.

y_i = f_i + e_i / sqrt(l_i), with e_i ~ N(0, noise) and l_i ~ Gamma(nu / 2, nu / 2), is Student's t.
The posterior is approximated by q(f) q(l), each l_i with a gamma distribution: Tipping and Lawrence
(2005), "Variational inference for Student-t models: robust Bayesian interpolation and generalised
component analysis", section 3.
"""

from __future__ import annotations

import numpy as np
from scipy.special import digamma, gammaln

# The degrees of freedom: Gelman et al. (2013), "Bayesian data analysis", section 17.2.
DEGREES = 4.0
SHAPE = 0.5 * (DEGREES + 1.0)


def noise_factors(squares, noise: float, trusted=False) -> tuple[np.ndarray, float]:
    """The factors of the noise variance, (n,), and what they add to the log evidence.

    With the factors, the log marginal likelihood of Gaussian noise and the sum that is returned are
    together a lower bound on that of Student t noise.

    Args:
        squares: Expected squared residuals E[(y - f)^2], (n,).
        noise: The noise variance.
        trusted: Which values have Gaussian noise and so a factor of 1, (n,): those of holidays and
            events, whose effects would pass for outliers.
    """
    rate = 0.5 * (DEGREES + squares / noise)
    precision = SHAPE / rate
    # E[log l] - log E[l], and the divergence of q(l) from its prior.
    spread = digamma(SHAPE) - np.log(SHAPE)
    half = 0.5 * DEGREES
    divergence = (
        (SHAPE - half) * digamma(SHAPE)
        - gammaln(SHAPE)
        + gammaln(half)
        + half * (np.log(rate) - np.log(half))
        + SHAPE * (half - rate) / rate
    )
    gain = np.where(trusted, 0.0, 0.5 * spread - divergence)
    return np.where(trusted, 1.0, 1.0 / precision), float(np.sum(gain))
