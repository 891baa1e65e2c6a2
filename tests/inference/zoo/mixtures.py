"""Mixtures of two normal distributions of unequal widths, with moments in closed form."""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import scipy.stats

from tests.inference.zoo.moments import Moments
from tests.inference.zoo.posterior import ZooPosterior, sample_density

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
        return normal_mixture(*self)

    def posterior(self, name: str, family: str) -> ZooPosterior:
        # As arguments, so that mixtures of one dimension are compiled once.
        args = tuple(map(np.asarray, self))
        truth = lambda: {"x": Moments(self.mean, self.sd)}  # noqa: E731
        return ZooPosterior(name, family, normal_mixture, args, truth, has_prior_draws=False)


def normal_mixture(means, sds, weights, prior_sd):
    """The model of a `NormalMixture`."""
    prior = dist.Normal(0.0, prior_sd).expand([means.shape[1]]).to_event(1)
    parts = dist.Normal(jnp.asarray(means), jnp.asarray(sds)[:, None]).to_event(1)
    mixture = dist.MixtureSameFamily(dist.Categorical(jnp.asarray(weights)), parts)
    sample_density("x", mixture.log_prob, prior)


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


def diagonal_mixture(d, weights, means, sds, prior_sd) -> NormalMixture:
    """Two parts whose means lie on the diagonal."""
    return NormalMixture(
        np.repeat(np.array(means)[:, None], d, axis=1), np.array(sds), np.array(weights), prior_sd
    )


# Dimension, weights, means, sds, sd of the prior.
HARD = (
    (4, (0.85, 0.15), (-2.0, 4.0), (0.5, 2.0), 5.0),
    (6, (0.85, 0.15), (-2.0, 4.0), (0.5, 2.0), 5.0),
    (8, (0.85, 0.15), (-2.0, 4.0), (0.5, 2.0), 5.0),
    (8, (0.7, 0.3), (-2.0, 4.0), (1.0, 0.5), 5.0),
    (6, (0.3, 0.7), (-3.0, 3.0), (1.0, 0.4), 5.0),
    (10, (0.6, 0.4), (-3.0, 3.0), (1.0, 0.6), 4.0),
    (12, (0.5, 0.5), (-2.0, 3.0), (1.0, 0.5), 5.0),
)
SEEDS = range(60)
# Seeds without a needle, those of the smallest basins first.
SEARCHABLE = (
    18, 6, 0, 1, 8, 11, 12, 14, 16, 19, 20, 21, 22, 23, 24, 26, 27, 30, 34, 35, 37, 38, 39, 41,
    42, 43, 47, 48, 49, 51, 54, 55, 57, 58, 59,
)  # fmt: skip


def hard_posterior(d, weights, means, sds, prior_sd) -> ZooPosterior:
    name = f"mixture, {d} d, sds {sds[0]} and {sds[1]}"
    return diagonal_mixture(d, weights, means, sds, prior_sd).posterior(name, "mixtures")


def random_posterior(seed: int) -> ZooPosterior:
    mixture = random_mixture(seed)
    return mixture.posterior(f"random mixture {seed}, {mixture.size} d", "random mixtures")


# Gradient searches end in the wide part of these.
HARD_POSTERIORS = [hard_posterior(*hard) for hard in HARD]
RANDOM_POSTERIORS = [random_posterior(seed) for seed in SEARCHABLE]
NEEDLES = [random_posterior(seed) for seed in SEEDS if seed not in SEARCHABLE]
