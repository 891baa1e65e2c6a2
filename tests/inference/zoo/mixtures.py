"""Mixtures of two normal distributions of unequal widths, with moments in closed form."""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import scipy.stats

# A mode that fewer prior draws lead to is a needle, which no search can be blamed for.
MIN_BASIN_SHARE, BASIN_DRAWS = 1 / 5_000, 50_000


class NormalMixture(NamedTuple):
    """w N(m_0, s_0^2 I) + (1 - w) N(m_1, s_1^2 I) in d dimensions, seen from a wide normal prior.

    means: (2, d); sds: (2,); weights: (2,); prior_sd: of the prior N(0, prior_sd^2 I), by which the
    likelihood is divided, so that the posterior is the mixture itself.
    """

    means: np.ndarray
    sds: np.ndarray
    weights: np.ndarray
    prior_sd: float

    @property
    def size(self) -> int:
        return self.means.shape[1]

    @property
    def mean(self) -> np.ndarray:
        return self.weights @ self.means

    @property
    def sd(self) -> np.ndarray:
        second = self.weights @ (np.square(self.sds)[:, None] + np.square(self.means))
        return np.sqrt(second - np.square(self.mean))

    @property
    def basin_shares(self) -> np.ndarray:
        """Shares of prior draws at which each part has the larger density: (2,)."""
        rng = np.random.default_rng(0)
        z = self.prior_sd * rng.standard_normal((BASIN_DRAWS, self.size))
        parts = np.stack(
            [
                np.log(w) + scipy.stats.norm(m, s).logpdf(z).sum(axis=1)
                for m, s, w in zip(self.means, self.sds, self.weights, strict=True)
            ]
        )
        return np.bincount(np.argmax(parts, axis=0), minlength=2) / BASIN_DRAWS

    @property
    def is_needle(self) -> bool:
        return bool(np.min(self.basin_shares) < MIN_BASIN_SHARE)

    def model(self):
        """The NumPyro model."""
        prior = dist.Normal(0.0, self.prior_sd).expand([self.size]).to_event(1)
        x = numpyro.sample("x", prior)
        sds = jnp.asarray(self.sds)[:, None]
        parts = dist.Normal(jnp.asarray(self.means), sds).to_event(1)
        mixture = dist.MixtureSameFamily(dist.Categorical(jnp.asarray(self.weights)), parts)
        numpyro.factor("likelihood", mixture.log_prob(x) - prior.log_prob(x))


def random_mixture(seed: int) -> NormalMixture:
    """Random dimension (1 to 12), separation, ratio of widths (1 to 20) and weights."""
    rng = np.random.default_rng(seed)
    d = int(rng.integers(1, 13))
    wide = rng.uniform(0.3, 2.0)
    sds = np.array([wide, wide / np.exp(rng.uniform(0.0, np.log(20.0)))])
    # Far enough apart for two modes.
    direction = rng.standard_normal(d)
    direction /= np.linalg.norm(direction)
    distance = rng.uniform(4.0, 8.0) * wide
    centre = rng.normal(0.0, 1.0, d)
    means = centre + np.array([[-0.5], [0.5]]) * distance * direction
    weight = rng.uniform(0.1, 0.9)
    return NormalMixture(means, sds, np.array([weight, 1.0 - weight]), rng.uniform(3.0, 6.0))
