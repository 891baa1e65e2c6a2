"""Student t noise by the variational method: what each value's noise variance is multiplied by.

y_i = f_i + e_i / sqrt(l_i), with e_i ~ N(0, noise) and l_i ~ Gamma(nu / 2, nu / 2), is Student's t.
The posterior is approximated by q(f) q(l), each l_i with a gamma distribution: Tipping and Lawrence
(2005), "Variational inference for Student-t models: robust Bayesian interpolation and generalised
component analysis", section 3.
"""

from __future__ import annotations

import numpy as np
from scipy.special import digamma, gammaincinv, gammaln

# The degrees of freedom: Gelman et al. (2013), "Bayesian data analysis", section 17.2.
DEGREES = 4.0
SHAPE = 0.5 * (DEGREES + 1.0)


def noise_factors(squares, noise: float) -> tuple[np.ndarray, float]:
    """The factors of the noise variance, (n,), and what they add to the log evidence.

    squares: the expected squared residuals E[(y - f)^2], (n,). With the factors, the evidence of
    Gaussian noise and the sum that is returned are together a lower bound on that of Student t
    noise.
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
    return 1.0 / precision, float(np.sum(0.5 * spread - divergence))


def factors_of_new(shape: tuple[int, int], seed: int) -> np.ndarray:
    """Factors of the noise variance of new values, for S draws at m times: (S, m).

    At each time the S factors are spread evenly over their distribution, in random order.
    """
    rng = np.random.default_rng(seed)
    evenly = (np.arange(shape[0]) + 0.5) / shape[0]
    ordered = 0.5 * DEGREES / gammaincinv(0.5 * DEGREES, evenly)
    return rng.permuted(np.tile(ordered[:, None], (1, shape[1])), axis=0)
