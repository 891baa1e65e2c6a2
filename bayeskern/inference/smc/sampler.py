"""Steps of the particle sampler: reweighting and moves at each temperature."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.linalg import solve_triangular
from scipy.special import softmax

from bayeskern.core.random import stream
from bayeskern.inference.approximation.proposals import Sample
from bayeskern.inference.approximation.psis import resample, weighted_moments
from bayeskern.inference.model.checks.bad_data import refuse_nonfinite
from bayeskern.inference.model.evaluation import log_densities
from bayeskern.inference.model.target import Target
from bayeskern.inference.search.factors import robust_cholesky
from bayeskern.inference.smc.moves import TemperedPath, move
from bayeskern.inference.smc.start import StartDistribution
from bayeskern.inference.smc.tempering import next_temperature, resample_islands

# Maximum number of temperatures.
MAX_TEMPERATURES = 300


class ParticleState(NamedTuple):
    """State of a sampler, as arrays.

    Attributes:
        temperature: The temperature t, ().
        z: Particles, (n, d).
        log_p: log p of each particle, (n,).
        log_q: log q0 of each particle, (n,).
        ancestor: Index of the first ancestor of each particle, (n,).
        log_evidence: Log marginal likelihood by island, up to this temperature, (islands,).
        tril: Cholesky factor of the covariance at this temperature, (d, d).
        step_size: Size of the leapfrog steps, in whitened coordinates, ().
        origin: Particles before the moves at this temperature, (n, d).
        distances: Mean distance from `origin` after each pair of moves so far, (m,).
        acceptance: Mean acceptance of the last pair of moves, (2,).
        counter: Number of steps of the sampler so far, ().
        evaluations: Number of gradients for each particle so far, ().
        settled: True if the moves at this temperature are complete, ().
        history: A row for each completed temperature, (temperatures, len(HISTORY_COLUMNS)).
        ess: Effective sample size of the last reweighting, as a share of the particles, ().
    """

    temperature: np.ndarray
    z: np.ndarray
    log_p: np.ndarray
    log_q: np.ndarray
    ancestor: np.ndarray
    log_evidence: np.ndarray
    tril: np.ndarray
    step_size: np.ndarray
    origin: np.ndarray
    distances: np.ndarray
    acceptance: np.ndarray
    counter: np.ndarray
    evaluations: np.ndarray
    settled: np.ndarray
    history: np.ndarray
    ess: np.ndarray

    @property
    def done(self) -> bool:
        """True once the moves at the last temperature are complete.

        The last temperature is 1, a temperature that cannot rise, or the last of
        MAX_TEMPERATURES temperatures.
        """
        at_end = self.temperature == 1.0 or len(self.history) >= MAX_TEMPERATURES
        stuck = len(self.history) > 1 and self.history[-1, 0] == self.history[-2, 0]
        return bool(self.settled and (at_end or stuck))

    @property
    def particles(self) -> Sample:
        """Particles with log p and log q0 of each."""
        return Sample(self.z, self.log_p, self.log_q)


# Columns of `ParticleState.history`.
HISTORY_COLUMNS = ("temperature", "ess", "acceptance", "moves", "step_size", "ancestors")


# Target acceptance probability of the step size.
TARGET_ACCEPTANCE = 0.8
# First step size, in whitened coordinates, times d^(1/4).
FIRST_STEP_SIZE = 0.8
# Change of the log step size for each unit of acceptance above the target.
STEP_SIZE_GAIN = 2.0
# Length of a trajectory, in whitened coordinates: a quarter of an orbit.
TRAJECTORY_LENGTH = 0.5 * np.pi
# Maximum number of leapfrog steps of a trajectory.
MAX_LEAPFROGS = 16
# Minimum number of pairs of moves at each temperature, and at the posterior; the change that the
# latter make shows whether the particles had reached its tails.
MIN_MOVES, MIN_LAST_MOVES = 2, 8
# Relative growth of the distance from the origin that counts as progress; moves end after a pair of
# moves with less growth.
MIN_DISTANCE_GROWTH = 0.05
# Moves continue, up to the maximum number, while more than this share of the particles has not
# moved.
MAX_RESTING_SHARE = 0.05
# Smallest step size of the second move of a pair, as a share of the common step size; small steps
# move the particles of narrow modes.
MIN_STEP_SHARE = 0.05


@dataclass(frozen=True, eq=False)
class Sampler:
    """Islands of particles that are tempered from q0 to the posterior.

    The islands share temperatures, covariances and step sizes, and are resampled separately.
    Adapting to all particles leaves the variance unchanged to first order (Beskos, Jasra, Kantas
    and Thiery, 2016, "On the convergence of adaptive sequential Monte Carlo methods"), so the
    islands vary as independent samplers would.

    Attributes:
        target: The posterior.
        start: q0.
        islands: Number of islands.
        size: Particles of each island.
        min_ess: Effective sample size after a change of temperature, as a share of the particles.
        max_moves: Maximum number of pairs of moves at a temperature.
        seed: Seed of all random numbers.
    """

    target: Target
    start: StartDistribution
    islands: int
    size: int
    min_ess: float
    max_moves: int
    seed: int

    @property
    def count(self) -> int:
        """Number of particles in all islands."""
        return self.islands * self.size

    def first_state(self) -> ParticleState:
        """The state at q0.

        Raises ValueError, naming the site, if no particle has a finite density.
        """
        first, d = self._initial_particles(), self.target.size
        return ParticleState(
            temperature=np.zeros(()),
            z=first.z,
            log_p=first.log_p,
            log_q=first.log_q,
            ancestor=np.arange(self.count),
            log_evidence=np.zeros(self.islands),
            tril=np.eye(d),
            step_size=np.asarray(FIRST_STEP_SIZE / d**0.25),
            origin=first.z,
            distances=np.zeros(0),
            acceptance=np.zeros(2),
            counter=np.zeros((), int),
            evaluations=np.zeros((), int),
            settled=np.ones((), bool),
            history=np.zeros((0, len(HISTORY_COLUMNS))),
            ess=np.ones(()),
        )

    def _initial_particles(self) -> Sample:
        """Draws of q0 with their densities."""
        z, log_q = self.start.draw(stream(self.seed, "particles"), self.count)
        finite = np.all(np.isfinite(z), axis=1)
        # A draw at the edge of a support lies at infinity; it gets a finite z and weight zero.
        z = np.where(finite[:, None], z, self.start.parts.means[0])
        log_p = log_densities(self.target, z)
        usable = finite & np.isfinite(log_p) & np.isfinite(log_q)
        if not usable.any():
            refuse_nonfinite(self.target, self.start.parts.means[0])
        return Sample(z, np.where(usable, log_p, -np.inf), np.where(finite, log_q, 0.0))

    def run(self, state: ParticleState, report: Callable[[ParticleState], None]) -> ParticleState:
        """Run to the posterior, and call `report` after each step."""
        path = TemperedPath(self.target, self.start.traceable(self.target))
        while not state.done:
            state = self._reweighted(state) if state.settled else self._moved(path, state)
            report(state)
        return state

    def _reweighted(self, state: ParticleState) -> ParticleState:
        """State after resampling at the next temperature."""
        rng = stream(self.seed, f"tempering {int(state.counter)}")
        with np.errstate(invalid="ignore"):
            ratios = np.where(np.isneginf(state.log_p), -np.inf, state.log_p - state.log_q)
        temperature = next_temperature(ratios, float(state.temperature), self.min_ess)
        step = temperature - float(state.temperature)
        # Zero times -inf would be NaN.
        log_weights = np.where(np.isneginf(ratios), -np.inf, step * ratios)
        chosen, log_means = resample_islands(log_weights, self.islands, rng)
        weights = softmax(log_weights)
        ess = 1.0 / np.sum(np.square(weights))
        z = state.z[chosen]
        return state._replace(
            temperature=np.asarray(temperature),
            z=z,
            log_p=state.log_p[chosen],
            log_q=state.log_q[chosen],
            ancestor=state.ancestor[chosen],
            log_evidence=state.log_evidence + log_means,
            tril=whitening(state.z, weights, ess),
            origin=z,
            distances=np.zeros(0),
            counter=state.counter + 1,
            settled=np.zeros((), bool),
            ess=np.asarray(ess / self.count),
        )

    def _moved(self, path: TemperedPath, state: ParticleState) -> ParticleState:
        """State after a pair of moves.

        The first has about equal step sizes for all particles, the second random ones.
        """
        rng = stream(self.seed, f"moves {int(state.counter)}")
        n, d = state.z.shape
        step, particles = float(state.step_size), state.particles
        length = TRAJECTORY_LENGTH * rng.uniform(0.5, 1.0)
        leapfrogs = int(np.clip(np.ceil(length / step), 1, MAX_LEAPFROGS))
        acceptance = []
        for shares in (
            rng.uniform(0.8, 1.2, n),
            np.exp(rng.uniform(np.log(MIN_STEP_SHARE), 0.0, n)),
        ):
            log_uniform, momentum = -rng.exponential(size=n), rng.standard_normal((n, d))
            random_inputs = momentum, log_uniform, step * shares
            temperature = float(state.temperature)
            particles, probability = move(
                path, temperature, state.tril, particles, *random_inputs, leapfrogs
            )
            acceptance.append(np.mean(probability))
        step *= np.exp(STEP_SIZE_GAIN * (acceptance[0] - TARGET_ACCEPTANCE))
        # Displacements in coordinates in which the particles have unit covariance.
        white = solve_triangular(state.tril, (particles.z - state.origin).T, lower=True)
        distances = np.append(state.distances, np.mean(np.linalg.norm(white, axis=0)))
        unmoved = np.mean(np.all(particles.z == state.origin, axis=1))
        settled = self._have_moved(distances, unmoved, float(state.temperature))
        state = state._replace(
            z=particles.z,
            log_p=particles.log_p,
            log_q=particles.log_q,
            step_size=np.asarray(step),
            distances=distances,
            acceptance=np.asarray(acceptance),
            counter=state.counter + 1,
            evaluations=state.evaluations + 2 * (leapfrogs + 1),
            settled=np.asarray(settled),
        )
        if settled:
            row = [
                state.temperature,
                state.ess,
                state.acceptance[0],
                len(distances),
                state.step_size,
                len(np.unique(state.ancestor)),
            ]
            state = state._replace(history=np.vstack([state.history, row]))
        return state

    def _have_moved(self, distances: np.ndarray, unmoved: float, temperature: float) -> bool:
        """True once particles have moved and their distance has stopped growing."""
        m = len(distances)
        min_moves = MIN_LAST_MOVES if temperature == 1.0 else MIN_MOVES
        if m < min(min_moves, self.max_moves):
            return False
        if m >= self.max_moves:
            return True
        growing = distances[-1] >= (1.0 + MIN_DISTANCE_GROWTH) * distances[-2]
        return bool(not (growing or unmoved > MAX_RESTING_SHARE))

    def draws(self, state: ParticleState) -> np.ndarray:
        """Indices (n,) of equally weighted draws from all islands.

        Particles are resampled with weights proportional to the marginal likelihood of their
        island. A single sampler of all particles would give each island the same total weight.
        Verge, Dubarry, Del Moral and Moulines (2015), "On parallel implementation of sequential
        Monte Carlo methods: the island particle model".
        """
        weights = np.repeat(softmax(state.log_evidence), self.size) / self.size
        return resample(weights, self.count, stream(self.seed, "draws"))


def whitening(z: np.ndarray, weights: np.ndarray, ess: float) -> np.ndarray:
    """Cholesky factor of the shrunk covariance of weighted draws z (n, d).

    The covariance is mixed with its diagonal; the diagonal has the weight d / (d + ess).
    """
    positive = weights > 0
    _, covariance = weighted_moments(z[positive], weights[positive])
    shrinkage = z.shape[1] / (z.shape[1] + ess)
    covariance = (1.0 - shrinkage) * covariance + shrinkage * np.diag(np.diag(covariance))
    return robust_cholesky(covariance)
