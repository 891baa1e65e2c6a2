"""Start distribution of particles: the prior and a Student t at each known mode."""

from __future__ import annotations

from dataclasses import dataclass, replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from scipy.linalg import solve_triangular
from scipy.special import gammaln, log_softmax, softmax

from bayeskern.core.random import stream
from bayeskern.inference.approximation.adaptive import tempered_weights
from bayeskern.inference.approximation.elliptical import MIN_PART_SHARE, Elliptical
from bayeskern.inference.approximation.proposals import PriorProposal
from bayeskern.inference.approximation.psis import pareto_smooth
from bayeskern.inference.model.cost import has_open_loop
from bayeskern.inference.model.evaluation import draw_prior, log_densities
from bayeskern.inference.model.target import Target
from bayeskern.inference.search.modes import Optimum

# Degrees of freedom of the Student t's.
DEGREES_OF_FREEDOM = 5.0


# Share of the particles drawn from the prior or, if the prior is improper, from a Student t with
# the moments of wide draws.
PRIOR_SHARE = 0.2
# Share of the particles drawn from wider Student t's at the modes, and the scales of these as
# multiples of the scales at the modes.
WIDE_SHARE, WIDE_FACTORS = 0.15, (4.0, 16.0, 64.0)
# Maximum number of modes with wider Student t's; modes of largest weight come first.
MAX_WIDE_MODES = 4
# Number of wide draws, and their sd in coordinates without a proper prior.
WIDE_DRAWS, WIDE_SD = 256, 3.0
# Weight of the initial shares when they are mixed with the shares estimated from a pilot sample.
INITIAL_WEIGHT = 0.3
# Minimum effective sample size of the pilot sample; its weights are tempered to reach it.
MIN_PILOT_ESS = 50.0
# Minimum number of Student t's in a compiled density. The number is padded to a power of two, so
# that a change in the number of modes rarely causes a recompilation.
MIN_COMPILED_PARTS = 4


@dataclass(frozen=True, eq=False)
class StartDistribution:
    """q0 = a * prior + (1 - a) * mixture of Student t's, a normalised density over z.

    A mode whose share of q0 is about its share of the posterior keeps its share at all
    temperatures, because log p - log q0 is then about the same everywhere. Wider Student t's at the
    modes keep the share of wide components around narrow modes in the same way. The prior reaches
    modes that the search has missed.

    Attributes:
        parts: Student t's with DEGREES_OF_FREEDOM degrees of freedom.
        prior: The prior; None if it is improper or the model has a loop of unknown length.
        prior_share: a; 0 without a prior.
    """

    parts: Elliptical
    prior: PriorProposal | None
    prior_share: float

    @classmethod
    def at_modes(cls, target: Target, optimum: Optimum, seed: int) -> StartDistribution:
        """The start distribution for the modes found by a search."""
        modes = student_t_at_modes(optimum)
        largest = modes.largest(MAX_WIDE_MODES)
        share = WIDE_SHARE / len(WIDE_FACTORS)
        parts = [modes.with_share(1.0 - PRIOR_SHARE - WIDE_SHARE)]
        parts += [largest.with_share(share, factor) for factor in WIDE_FACTORS]
        # At extreme draws from the prior, a loop of unknown length may not end.
        if has_open_loop(target):
            return cls(Elliptical.joined(parts), None, 0.0)
        if not target.without_prior:
            return cls(Elliptical.joined(parts), PriorProposal(target), PRIOR_SHARE)
        spread = np.full(WIDE_DRAWS, WIDE_SD)
        z = draw_prior(target, stream(seed, "wide"), spread)
        wide = Elliptical.around(z[np.all(np.isfinite(z), axis=1)], DEGREES_OF_FREEDOM)
        return cls(Elliptical.joined([*parts, wide.with_share(PRIOR_SHARE)]), None, 0.0)

    def refitted(self, target: Target, rng: np.random.Generator, count: int) -> StartDistribution:
        """A copy in which the share of each part is close to its share of the posterior.

        With the weights w = p / q0 of a pilot sample, the share of part k becomes
        sum_i w_i rho_k(z_i), where rho_k(z_i) is the probability that draw i comes from part k. The
        new share is mixed with the old one. Cappe, Douc, Guillin, Marin and Robert (2008),
        "Adaptive importance sampling in general mixture classes", equation 14.

        Args:
            target: The posterior.
            rng: Random numbers.
            count: Draws of the pilot sample.
        """
        z, log_q = self.draw(rng, count)
        usable = np.isfinite(log_q) & np.all(np.isfinite(z), axis=1)
        z, log_q = z[usable], log_q[usable]
        log_p = log_densities(target, z)
        if not np.any(np.isfinite(log_p)):
            return self
        weights = tempered_weights(pareto_smooth(log_p - log_q), MIN_PILOT_ESS)
        # Part k contributes exp(log_parts_k + log(1 - a)) to the density q0.
        log_share = np.log1p(-self.prior_share)
        shares = weights @ np.exp(self.parts.log_parts(z) + log_share - log_q[:, None])
        old = softmax(self.parts.log_weights) * (1.0 - self.prior_share)
        prior_share = 0.0
        if self.prior is not None:
            estimate = max(0.0, 1.0 - shares.sum())
            prior_share = INITIAL_WEIGHT * self.prior_share + (1.0 - INITIAL_WEIGHT) * estimate
        log_weights = np.log(INITIAL_WEIGHT * old + (1.0 - INITIAL_WEIGHT) * shares)
        return replace(
            self, parts=replace(self.parts, log_weights=log_weights), prior_share=prior_share
        )

    def draw(self, rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
        """n draws in random order, (n, d), and log q0 of each, (n,).

        A draw from the edge of a support lies at infinity; it is kept, with a density of NaN.
        """
        from_prior = rng.binomial(n, self.prior_share)
        z, _ = self.parts.draw(rng, n - from_prior)
        if from_prior and self.prior is not None:
            z = np.concatenate([z, self.prior.draw(rng, from_prior)[0]])
        z = rng.permutation(z)
        return z, self.log_density(z)

    def log_density(self, z: np.ndarray) -> np.ndarray:
        """log q0(z): (n, d) -> (n,)."""
        log_parts = np.full(len(z), np.nan)
        finite = np.all(np.isfinite(z), axis=1)
        log_parts[finite] = self.parts.log_density(z[finite])
        if self.prior is None:
            return log_parts
        log_prior = self.prior.log_density(z)
        log_prior = np.where(np.isnan(log_prior), -np.inf, log_prior) + np.log(self.prior_share)
        return np.logaddexp(log_parts + np.log1p(-self.prior_share), log_prior)

    def traceable(self, target: Target) -> TraceableStart:
        """log q0 as a pytree, for compiled programs."""
        parts, (k, d), tails = self.parts, self.parts.means.shape, DEGREES_OF_FREEDOM
        padded = max(MIN_COMPILED_PARTS, 2 ** int(np.ceil(np.log2(k))))
        roots = np.stack([solve_triangular(t, np.eye(d), lower=True) for t in parts.trils])
        centres = np.einsum("kij,kj->ki", roots, parts.means)
        # Log density of a Student t at its mean, apart from the determinant of its scale.
        constant = gammaln(0.5 * (tails + d)) - gammaln(0.5 * tails)
        constant -= 0.5 * d * np.log(tails * np.pi)
        log_dets = np.sum(np.log(np.diagonal(parts.trils, axis1=1, axis2=2)), axis=1)
        heights = log_softmax(parts.log_weights) + np.log1p(-self.prior_share)
        heights += constant - log_dets

        def pad(x, value=0.0):
            return jnp.asarray(np.concatenate([x, np.full((padded - k, *x.shape[1:]), value)]))

        return TraceableStart(
            target=None if self.prior is None else target,
            roots=pad(roots),
            centres=pad(centres),
            heights=pad(heights, -np.inf),
            tails=jnp.asarray(tails),
            log_prior_share=jnp.asarray(np.log(self.prior_share)) if self.prior else None,
        )


class TraceableStart(eqx.Module):
    """log q0 as a pytree of arrays, so that new modes do not cause a recompilation.

    Attributes:
        target: The model with the prior; None if q0 has no prior.
        roots: Inverse Cholesky factors of the scale matrices, (k, d, d).
        centres: Each root times the mean of its Student t, (k, d).
        heights: Log density of each Student t at its mean, its share included, (k,).
        tails: Degrees of freedom, ().
        log_prior_share: Log share of the prior, (); None if q0 has no prior.
    """

    target: Target | None
    roots: jax.Array
    centres: jax.Array
    heights: jax.Array
    tails: jax.Array
    log_prior_share: jax.Array | None

    def __call__(self, z: jax.Array) -> jax.Array:
        """log q0(z): (d,) -> ()."""
        square = jnp.sum(jnp.square(self.roots @ z - self.centres), axis=1)
        exponent = 0.5 * (self.tails + len(z))
        log_parts = self.heights - exponent * jnp.log1p(square / self.tails)
        log_density = jax.nn.logsumexp(log_parts)
        if self.target is None or self.log_prior_share is None:
            return log_density
        return jnp.logaddexp(log_density, self.log_prior_share + self.target.log_prior(z))


# Maximum number of modes with a Student t.
MAX_MODES = 32


def student_t_at_modes(optimum: Optimum) -> Elliptical:
    """A Student t at each mode found, weighted by Laplace's evidence.

    Modes of negligible evidence keep a share of about MIN_PART_SHARE each, because Laplace's method
    is inaccurate at modes that are far from normal. A proposal for importance sampling leaves them
    out.
    """
    modes = (optimum, *optimum.others)[:MAX_MODES]
    trils = np.stack([mode.inverse_root[0] for mode in modes])
    log_weights = np.array([mode.log_evidence for mode in modes])
    known = np.isfinite(log_weights)
    if not optimum.proper or not known.any():
        log_weights = np.array([mode.log_density for mode in modes])
        known = np.full(len(modes), True)
    log_weights = np.where(known, log_weights, np.max(log_weights[known]))
    shares = np.maximum(softmax(log_weights), MIN_PART_SHARE)
    return Elliptical(np.stack([m.z for m in modes]), trils, np.log(shares), DEGREES_OF_FREEDOM)
