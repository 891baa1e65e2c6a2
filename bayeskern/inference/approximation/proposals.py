"""Distributions on R^d that can be drawn from with their density: proposals and approximations."""

from __future__ import annotations

from typing import NamedTuple, Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from scipy.special import softmax

from bayeskern.core.batching import BATCH, by_chunk
from bayeskern.core.progress import Progress
from bayeskern.inference.approximation.psis import weighted_moments
from bayeskern.inference.model.distribution_pytrees import restore_leaves, sort_leaves
from bayeskern.inference.model.target import Target
from bayeskern.inference.optimization.factors import robust_cholesky

# The share of draws that come from the Student t beside a proposal of another shape.
DEFENSIVE = 0.25
# A part of a mixture keeps at least this share, so that a mode is not lost by bad luck.
LEAST_SHARE = 0.02
# Seconds of work that need no progress bar.
MOMENT = 2.0


class Approximation(Protocol):
    """A distribution over z that can be drawn from with its density.

    draw: (key, n) -> z (n, d) and log q(z) (n,).
    """

    def draw(self, key, n: int) -> tuple[jax.Array, jax.Array]: ...


@runtime_checkable
class Evaluable(Approximation, Protocol):
    """An approximation that knows its density at any z (n, d): log q(z) (n,)."""

    def log_density(self, z) -> jax.Array: ...


@runtime_checkable
class Widenable(Approximation, Protocol):
    """An approximation that can be given tails of so many degrees of freedom, around draws z."""

    def with_tails(self, tails: float | None, z) -> Approximation: ...


@runtime_checkable
class Refittable(Approximation, Protocol):
    """An approximation that can be fitted again to draws z (n, d) with weights (n,)."""

    def refit(self, z, weights) -> Approximation: ...


class Sample(NamedTuple):
    """Draws z (S, d) of an approximation q, with log p and log q of each: (S,)."""

    z: np.ndarray
    log_p: np.ndarray
    log_q: np.ndarray


class Elliptical(eqx.Module):
    """A mixture of normal or, with `tails` degrees of freedom, of multivariate Student t parts.

    means: (k, d); trils: (k, d, d), Cholesky factors of the covariance (of the scale matrix for
    t); log_weights: (k,).
    """

    means: jax.Array
    trils: jax.Array
    log_weights: jax.Array
    tails: float | None = eqx.field(static=True, default=None)

    @classmethod
    def of(cls, mean, tril, tails: float | None = None) -> Elliptical:
        """A single part: mean (d,), tril (d, d)."""
        return cls(jnp.asarray(mean)[None], jnp.asarray(tril)[None], jnp.zeros(1), tails)

    @classmethod
    def around(cls, z, tails: float | None, wider: float = 1.0) -> Elliptical:
        """A single part at the moments of draws z (n, d), its scale `wider` times theirs."""
        mean, covariance = weighted_moments(z, np.full(len(z), 1.0 / len(z)))
        return cls.of(mean, wider * robust_cholesky(covariance), tails)

    @property
    def parts(self) -> dist.Distribution:
        if self.tails is None:
            return dist.MultivariateNormal(self.means, scale_tril=self.trils)
        return dist.MultivariateStudentT(jnp.asarray(self.tails), self.means, self.trils)

    def draw(self, key, n):
        return _draw(self, key, n)

    def log_density(self, z):
        return log_density(self, jnp.asarray(z))

    def sample(self, key, n):
        which, key = jax.random.split(key)
        part = jax.random.categorical(which, self.log_weights, shape=(n,))
        key, radius = jax.random.split(key)
        z = jax.random.normal(key, (n, self.means.shape[1]))
        if self.tails is not None:
            z = z / jnp.sqrt(dist.Chi2(self.tails).sample(radius, (n, 1)) / self.tails)
        # Part by part: a factor for each draw would be n x d x d numbers.
        return sum(
            jnp.where((part == k)[:, None], self.means[k] + z @ self.trils[k].T, 0.0)
            for k in range(len(self.means))
        )

    def evaluate(self, z):
        return jax.nn.logsumexp(self._by_part(z), axis=-1)

    def _by_part(self, z):
        weights = jax.nn.log_softmax(self.log_weights)
        return self.parts.log_prob(z[:, None, :]) + weights

    def with_tails(self, tails: float | None, z=None) -> Elliptical:
        return Elliptical(self.means, self.trils, self.log_weights, tails)

    def refit(self, z, weights) -> Elliptical:
        """Each part at the weighted moments of the draws that are due to it.

        The covariance becomes the scale also of a Student t, which is wider for it, on purpose.
        Cappe, Douc, Guillin, Marin and Robert (2008), "Adaptive importance sampling in general
        mixture classes", equations 14-16.
        """
        z, weights = np.asarray(z), np.asarray(weights)
        share = weights[:, None] * softmax(np.asarray(_by_part(self, z)), axis=1)
        means, trils, sizes = [], [], []
        for k in range(share.shape[1]):
            size = share[:, k].sum()
            if size < LEAST_SHARE:
                # Too few draws to fit it again.
                mean, tril = self.means[k], self.trils[k]
            else:
                mean, covariance = weighted_moments(z, share[:, k] / size)
                tril = robust_cholesky(covariance)
            means.append(mean), trils.append(tril), sizes.append(max(size, LEAST_SHARE))
        parts = (jnp.asarray(np.stack(a)) for a in (means, trils))
        return Elliptical(*parts, jnp.log(jnp.asarray(sizes)), self.tails)


class DistributionProposal(eqx.Module):
    """A NumPyro distribution over z, event shape (d,)."""

    ordered: object

    def __init__(self, distribution):
        self.ordered = sort_leaves(distribution)

    @property
    def distribution(self) -> dist.Distribution:
        return restore_leaves(self.ordered)

    def draw(self, key, n):
        return _draw_with_density(self, key, n)

    def log_density(self, z):
        return log_density(self, jnp.asarray(z))

    def sample(self, key, n):
        return self.distribution.sample(key, (n,))

    def evaluate(self, z):
        return self.distribution.log_prob(z)

    def with_tails(self, tails: float | None, z) -> Approximation:
        return with_defensive_tails(self, tails, z)


def with_defensive_tails(q, tails: float | None, z) -> Approximation:
    """A mixture of q with a Student t at the moments of draws z (n, d)."""
    if tails is None:
        return q
    return DefensiveMixture(q, Elliptical.around(z, tails))


class DefensiveMixture(eqx.Module):
    """A mixture of a proposal of any shape and, for DEFENSIVE of the draws, a Student t."""

    main: eqx.Module
    guard: Elliptical

    def draw(self, key, n):
        return _draw(self, key, n)

    def log_density(self, z):
        return log_density(self, jnp.asarray(z))

    def sample(self, key, n):
        few = int(DEFENSIVE * n)
        a, b = jax.random.split(key)
        return jnp.concatenate([self.main.sample(a, n - few), self.guard.sample(b, few)])

    def evaluate(self, z):
        main = self.main.evaluate(z) + np.log1p(-DEFENSIVE)
        return jnp.logaddexp(main, self.guard.evaluate(z) + np.log(DEFENSIVE))

    def refit(self, z, weights) -> DefensiveMixture:
        return DefensiveMixture(self.main, self.guard.refit(z, weights))


class PriorProposal(eqx.Module):
    """The model's own prior, in unconstrained coordinates."""

    target: Target

    def draw(self, key, n):
        return _draw_prior(self.target, jax.random.split(key, n))

    def log_density(self, z):
        return _log_priors(self.target, jnp.asarray(z))


@eqx.filter_jit
def _draw(q, key, n):
    z = q.sample(key, n)
    return z, q.evaluate(z)


@eqx.filter_jit
def _draw_with_density(q, key, n):
    # A flow knows the density of what it has drawn; inverting it would cost far more.
    distribution = q.distribution
    z, intermediates = distribution.sample_with_intermediates(key, (n,))
    return z, distribution.log_prob(z, intermediates) if intermediates else distribution.log_prob(z)


@eqx.filter_jit
def log_density(q, z):
    return q.evaluate(z)


@eqx.filter_jit
def _by_part(q, z):
    return q._by_part(z)


@eqx.filter_jit
def _draw_prior(target, keys):
    z = jax.vmap(lambda key: target.draw_prior(key, jnp.asarray(1.0)))(keys)
    return z, jax.lax.map(target.log_prior, z, batch_size=BATCH)


@eqx.filter_jit
def _log_priors(target, z):
    return jax.lax.map(target.log_prior, z, batch_size=BATCH)


@eqx.filter_jit
def _log_densities(target, z):
    return jax.lax.map(target.log_density, z, batch_size=BATCH)


def log_densities(target: Target, z, progress: bool = False) -> np.ndarray:
    """log p(z): (n, d) -> (n,). progress: show a bar, where it takes longer than a moment."""
    with Progress("log densities", len(z), progress, delay=MOMENT) as bar:
        return by_chunk(lambda part: _log_densities(target, jnp.asarray(part)), z, 1, bar.to)
