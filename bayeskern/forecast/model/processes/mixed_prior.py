"""Prior of a process observed in totals over periods and in single fine steps."""

from __future__ import annotations

import numpy as np
import numpyro.distributions as dist

from bayeskern.engine.prior import Gradient, NumpyPrior
from bayeskern.forecast.model.kernels import NOISE, SHORT_TERM, above, default_noise
from bayeskern.forecast.model.processes.fine_steps import FineSteps
from bayeskern.forecast.model.trends import TRENDS, in_units
from bayeskern.kernels import Matern12, Seasonal
from bayeskern.kernels.pairs import Pairs

# Trend whose learned priors describe the deviations of fine steps from a level.
LEARNED_FROM = TRENDS["reverting"]
# Minimum step size, in sds of the totals.
MIN_STEP_SIZE = 1e-3


class MixedPrior:
    """`ProcessPrior` of means over intervals of fine steps.

    The noise is part of the process. The noise of a fine step is independent of all others. Means
    over overlapping intervals share the noise of their common steps, so that a total and its days
    are exactly coherent, and the variance of the noise of new values is 0.

    Args:
        slow: Trend and seasons of the periods, constant within each part of a period; no noise.
        fast: Stationary components of the fine steps, and the noise of an average period.
        steps: The intervals.
    """

    def __init__(self, slow: NumpyPrior, fast: NumpyPrior, steps: FineSteps):
        self._slow, self._fast, self._steps = slow, fast, steps
        self.names = (*slow.names, *fast.names)
        self.component_names = (*slow.component_names, *fast.component_names)
        self.middle = np.append(slow.middle, fast.middle)
        self.prior_sd = np.append(slow.prior_sd, fast.prior_sd)

    def _split(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Hyperparameters of the slow and of the fast components."""
        count = len(self._slow.names)
        return z[..., :count], z[..., count:]

    def values(self, z: np.ndarray) -> dict[str, np.ndarray]:
        """Hyperparameters by name, for z (..., d)."""
        slow, fast = self._split(z)
        return self._slow.values(slow) | self._fast.values(fast)

    def noise(self, z: np.ndarray) -> float:
        """Variance of noise beyond the process: 0."""
        return 0.0

    def log_density(self, z: np.ndarray) -> float:
        """log p(z), for z (d,)."""
        slow, fast = self._split(z)
        return self._slow.log_density(slow) + self._fast.log_density(fast)

    def covariance(self, z: np.ndarray, pairs: Pairs) -> tuple[np.ndarray, Gradient]:
        """Covariances at z (d,) of the means at the pairs, and `Gradient` at z."""
        blocks, count = pairs.cached(self._steps.blocks), self._steps.mean_count
        slow, fast = self._split(z)
        K_slow, slow_gradient = self._slow.covariance(slow, blocks.nodes)
        K_fast, fast_gradient = self._fast.covariance(fast, self._steps.lags)
        K_fast = K_fast.copy()
        K_fast[0] += count * self._fast.noise(fast)

        def gradient(A: np.ndarray, b: float) -> np.ndarray:
            at_lags = blocks.lag_weights(A)
            of_slow = slow_gradient(blocks.part_weights(A), 0.0)
            return np.append(of_slow, fast_gradient(at_lags, count * at_lags[0]))

        return blocks.of_parts(K_slow) + blocks.of_lags(K_fast), gradient

    def components(self, z: np.ndarray, pairs: Pairs) -> dict[str, np.ndarray]:
        """Component name -> its covariance at z (d,), at the pairs."""
        blocks, (slow, fast) = pairs.cached(self._steps.blocks), self._split(z)
        of_slow = self._slow.components(slow, blocks.nodes)
        of_fast = self._fast.components(fast, self._steps.lags)
        return {name: blocks.of_parts(K) for name, K in of_slow.items()} | {
            name: blocks.of_lags(K) for name, K in of_fast.items()
        }


def fast_prior(steps: FineSteps, step_size: float) -> NumpyPrior:
    """Prior of seasons within a period, short-term deviations, and noise.

    Args:
        steps: The intervals.
        step_size: Typical change between consecutive fine steps, after multiplication by the
            average number of fine steps in a period, in sds of the totals.
    """
    learned, size = steps.learned.priors_of(LEARNED_FROM), max(step_size, MIN_STEP_SIZE)

    def prior(name: str, least: float = 0.0) -> dist.Distribution:
        location, scale = learned[name]
        return above(least, in_units(location, name, size, 1.0), scale)

    kernel = Matern12(
        prior("trend.memory.lengthscale", 1.0),
        prior("trend.memory.variance"),
    ).named(SHORT_TERM)
    for name, period in steps.seasons.items():
        lengthscale = prior("season.seasonal.lengthscale")
        variance = prior("season.size.constant.variance")
        kernel += Seasonal(period, lengthscale, variance).named(name)
    location, scale = learned[NOISE]
    # The noise of an average period: n_bar squared times the variance of a step, over n_bar.
    location = in_units(location, NOISE, size, 1.0) - np.log(steps.mean_count)
    return NumpyPrior(kernel, default_noise(location, scale))
