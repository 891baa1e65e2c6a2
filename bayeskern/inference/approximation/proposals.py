"""Proposal distributions: draws with their log densities."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist

from bayeskern.core.batching import BATCH, by_chunk
from bayeskern.core.random import jax_seed
from bayeskern.inference.approximation.elliptical import Elliptical
from bayeskern.inference.model.evaluation import draw_prior
from bayeskern.inference.model.target import Target
from bayeskern.inference.model.trace.distribution_pytrees import restore_leaves, sort_leaves


class Approximation(Protocol):
    """A distribution over z that gives draws with their log densities."""

    def draw(self, rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
        """n draws (n, d) and log q of each (n,)."""
        ...


@runtime_checkable
class Evaluable(Approximation, Protocol):
    """An approximation with a log density at any z."""

    def log_density(self, z: np.ndarray) -> np.ndarray:
        """log q(z): (n, d) -> (n,)."""
        ...


@runtime_checkable
class Refittable(Approximation, Protocol):
    """An approximation that can be refitted to weighted draws."""

    def refit(self, z: np.ndarray, weights: np.ndarray) -> Refittable:
        """A copy fitted to draws z (n, d) with weights (n,) that sum to one."""
        ...


class Sample(NamedTuple):
    """S draws z (S, d) with log p(z) and log q(z), (S,)."""

    z: np.ndarray
    log_p: np.ndarray
    log_q: np.ndarray


class DistributionProposal(eqx.Module):
    """A NumPyro distribution over z, event shape (d,)."""

    sorted_distribution: object

    def __init__(self, distribution: dist.Distribution):
        self.sorted_distribution = sort_leaves(distribution)

    @property
    def distribution(self) -> dist.Distribution:
        """The NumPyro distribution."""
        return restore_leaves(self.sorted_distribution)

    def draw(self, rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
        """n draws (n, d) and log q of each (n,)."""
        return jax.device_get(_draw_with_density(self, jax_seed(rng), n))

    def log_density(self, z: np.ndarray) -> np.ndarray:
        """log q(z): (n, d) -> (n,)."""
        return jax.device_get(_log_prob(self, jnp.asarray(z)))


@dataclass(frozen=True, eq=False)
class DefensiveMixture:
    """A mixture of a proposal and a Student t, which guards against light tails.

    Attributes:
        main: The proposal.
        guard: The Student t.
        share: Share of the Student t in the mixture.
    """

    main: Evaluable
    guard: Elliptical
    share: float = 0.25

    def draw(self, rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
        """n draws (n, d) and log q of each (n,)."""
        guard_count = int(self.share * n)
        parts = self.main.draw(rng, n - guard_count)[0], self.guard.draw(rng, guard_count)[0]
        z = np.concatenate(parts)
        return z, self.log_density(z)

    def log_density(self, z: np.ndarray) -> np.ndarray:
        """log q(z): (n, d) -> (n,)."""
        main = self.main.log_density(z) + np.log1p(-self.share)
        return np.logaddexp(main, self.guard.log_density(z) + np.log(self.share))

    def refit(self, z: np.ndarray, weights: np.ndarray) -> DefensiveMixture:
        """A copy whose Student t is refitted to weighted draws."""
        return replace(self, guard=self.guard.refit(z, weights))


@dataclass(frozen=True, eq=False)
class PriorProposal:
    """The prior of a model, in unconstrained coordinates."""

    target: Target

    def draw(self, rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
        """n draws (n, d) and their log prior densities (n,)."""
        z = draw_prior(self.target, rng, np.ones(n))
        return z, self.log_density(z)

    def log_density(self, z: np.ndarray) -> np.ndarray:
        """Log prior density: (n, d) -> (n,)."""
        return np.asarray(by_chunk(lambda part: _log_priors(self.target, jnp.asarray(part)), z, 1))


@eqx.filter_jit
def _draw_with_density(q, seed, n):
    # Intermediates of its draws give the density of a flow, without an expensive inversion.
    distribution, key = q.distribution, jax.random.key(seed)
    z, intermediates = distribution.sample_with_intermediates(key, (n,))
    return z, distribution.log_prob(z, intermediates) if intermediates else distribution.log_prob(z)


@eqx.filter_jit
def _log_prob(q, z):
    return q.distribution.log_prob(z)


@eqx.filter_jit
def _log_priors(target, z):
    return jax.lax.map(target.log_prior, z, batch_size=BATCH)
