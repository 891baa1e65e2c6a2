"""Tempered sequential Monte Carlo, from known modes and the prior."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from scipy.special import logsumexp, softmax

from bayeskern.core import validation
from bayeskern.core.progress import Progress
from bayeskern.core.random import stream
from bayeskern.inference.assessment.smc import ParticleAssessment
from bayeskern.inference.estimate import Estimate
from bayeskern.inference.methods.base import Method
from bayeskern.inference.model.checkpoint_file import CheckpointFile
from bayeskern.inference.model.evaluation import log_densities
from bayeskern.inference.model.target import Target
from bayeskern.inference.result import ANCESTOR, ISLAND, Fit
from bayeskern.inference.search.modes import Optimum
from bayeskern.inference.search.search import find_optimum
from bayeskern.inference.smc.sampler import HISTORY_COLUMNS, ParticleState, Sampler
from bayeskern.inference.smc.start import StartDistribution


@dataclass(frozen=True)
class SMC(Method):
    """Tempered sequential Monte Carlo, from the prior and around all modes found.

    Particles start from q0, a mixture of the prior and of Student t's at the modes that a search
    has found, and follow pi_t, proportional to q0^(1 - t) p^t, to the posterior p. Temperatures t
    are chosen by the effective sample size of the incremental weights; at each temperature the
    particles are resampled and moved by Hamiltonian trajectories. q0 gives each known mode about
    its share of the posterior. Few temperatures therefore suffice, and a narrow mode keeps its
    share, which it would lose to wide modes on a path from the prior.

    The particles are divided into independent islands k, each with the estimate Z_k of the
    marginal likelihood, the product over temperatures of the mean incremental weight. The log
    marginal likelihood is log mean(Z_k), with standard error sd(Z_k) / (sqrt(islands) mean(Z_k)).
    Errors of means, in the verdict and in `posterior.expectation`, are estimated from islands and
    ancestors.

    Args:
        particles: Number of particles in all islands together, and of draws.
        islands: Number of islands, at least 2; a divisor of `particles`.
        min_ess: Effective sample size after each change of temperature, as a share of the
            particles; values closer to 1 give smaller changes.
        max_moves: Maximum number of pairs of moves at each temperature. Moves end earlier once the
            distance of the particles from their origin stops growing.
        checkpoint: File for the state of the run. An interrupted run resumes from it with the same
            draws.

    Raises:
        ValueError: If an option is out of range; in `infer`, if the checkpoint belongs to another
            run.

    References:
        Del Moral, Doucet and Jasra (2006), "Sequential Monte Carlo samplers"; Verge, Dubarry, Del
        Moral and Moulines (2015), "On parallel implementation of sequential Monte Carlo methods:
        the island particle model"; Lee and Whiteley (2018), "Variance estimation in the particle
        filter".

    Examples:
        >>> import numpyro, numpyro.distributions as dist, bayeskern as bk
        >>> def coin(heads):
        ...     p = numpyro.sample("p", dist.Beta(1.0, 1.0))
        ...     numpyro.sample("heads", dist.Binomial(20, p), obs=heads)
        >>> posterior = bk.infer(coin, 14, method=bk.SMC(particles=2000), seed=1)
        >>> print(round(posterior.log_evidence.value))
        -3
    """

    particles: int = 4000
    islands: int = 8
    min_ess: float = 0.8
    max_moves: int = 20
    checkpoint: str | Path | None = None

    name = "smc"
    use = "several modes; the log marginal likelihood"
    counts = ("particles", "islands", "max_moves")

    def __post_init__(self) -> None:
        super().__post_init__()
        validation.level(self.min_ess, "min_ess")
        if self.islands < 2:
            raise ValueError(f"islands must be at least 2, got {self.islands}.")
        if self.particles % self.islands or self.particles < 2 * self.islands:
            raise ValueError(
                f"particles must be a multiple of islands ({self.islands}), at least 2 for each "
                f"island; got {self.particles}."
            )

    def run(self, target: Target, seed: int, progress: bool) -> Fit:
        target.require_priors("SMC")
        file = state = None
        if self.checkpoint is not None:
            # Seed and options that determine the draws.
            settings = (seed, self.particles, self.islands, self.min_ess, self.max_moves)
            file = CheckpointFile(self.checkpoint, "SMC", target, settings)
            state = file.read_as(ParticleState, partial(_log_densities_of_sample, target))
        # Many starts cost little compared with the particles.
        optimum = find_optimum(target, 32, seed, 1000, progress, title="SMC: modes").bounded()
        start = StartDistribution.at_modes(target, optimum, seed)
        start = start.refitted(target, stream(seed, "pilot"), self.particles // 2)
        sampler = Sampler(
            target=target,
            start=start,
            islands=self.islands,
            size=self.particles // self.islands,
            min_ess=self.min_ess,
            max_moves=self.max_moves,
            seed=seed,
        )
        first = sampler.first_state()
        with Progress("SMC", 100, progress) as bar:

            def report(state: ParticleState) -> None:
                temperature = float(state.temperature)
                # 99 % at temperature 1, until the particles have moved there.
                percent = int(100 if state.done else 99 * temperature)
                bar.to(percent, f"temperature {temperature:.3g}")
                if file is not None:
                    file.write_when_due(state._asdict, state.done)

            state = sampler.run(first if state is None else state, report)
        return self._fit(sampler, first, state, optimum)

    def _fit(
        self, sampler: Sampler, first: ParticleState, state: ParticleState, optimum: Optimum
    ) -> Fit:
        chosen = sampler.draws(state)
        history = {name: state.history[:, i] for i, name in enumerate(HISTORY_COLUMNS)}
        assess = ParticleAssessment(
            acceptance=float(history["acceptance"][-1]),
            unmoved=float(np.mean(np.all(state.z == state.origin, axis=1))),
            exhausted=bool(history["moves"][-1] >= self.max_moves),
            origin=state.origin[chosen],
            temperature=float(state.temperature),
            temperatures=len(state.history),
            evaluations=int(state.evaluations) * sampler.count,
            log_evidence=mean_over_islands(state.log_evidence),
            start=sampler.start,
            first=first.particles,
        )
        return Fit(
            z=state.z[chosen][None],
            assess=assess,
            log_evidence=assess.log_evidence,
            optimum=optimum,
            sample_stats={
                "lp": state.log_p[chosen][None],
                ANCESTOR: state.ancestor[chosen][None],
                ISLAND: (chosen // sampler.size)[None],
            },
            trace=history,
        )


def _log_densities_of_sample(target: Target, state: ParticleState) -> tuple[np.ndarray, np.ndarray]:
    """Log densities of at most 256 particles: computed by the model, and stored in the state."""
    rows = np.flatnonzero(np.isfinite(state.log_p))[:256]
    return log_densities(target, state.z[rows]), state.log_p[rows]


def mean_over_islands(log_evidence: np.ndarray) -> Estimate:
    """Log of the mean marginal likelihood over islands, with its standard error.

    The standard error is computed by the delta method.
    """
    count = len(log_evidence)
    relative = count * softmax(log_evidence)
    value = logsumexp(log_evidence) - np.log(count)
    return Estimate(float(value), float(np.std(relative, ddof=1) / np.sqrt(count)))
