"""Self-normalised importance sampling with heavy tails, adapted in rounds, Pareto smoothed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from scipy.optimize import brentq

from bayeskern import checks
from bayeskern.inference import door
from bayeskern.inference.approximation import (
    Approximation,
    Density,
    Elliptical,
    Prior,
    cholesky,
    log_densities,
)
from bayeskern.inference.fit import Fit
from bayeskern.inference.judge import MOST, judge_weighted
from bayeskern.inference.laplace import square_root
from bayeskern.inference.modes import Optimum, find_optimum
from bayeskern.inference.progress import Progress
from bayeskern.inference.target import Target
from bayeskern.inference.trust import Trust
from bayeskern.inference.weights import Weights, compare, moments, resample, smooth
from bayeskern.inference.wider import Sample

PROPOSALS = ("laplace", "svi", "prior")


@dataclass(frozen=True)
class ImportanceSampling:
    """Draws from a proposal, weighted by p / q and resampled to equal weights.

    proposal: "laplace" (a mixture over all modes that were found), "svi", "prior", a Posterior, or
    a NumPyro distribution over the unconstrained coordinates, event shape (d,). The prior and a
    distribution are taken as they are, in one round. tails: degrees of freedom of the Student t in
    place of a Gaussian proposal (beside one of another shape); None for the proposal without.
    draws: how many are weighted, and how many come out. adapt: rounds in which the proposal is
    refitted to the weighted moments, before the draws that count. replace: False to take a quarter
    of the draws, none of them twice.

    The log evidence is the log of the mean weight. Owen (2013), chapters 9 and 10; Vehtari et al.
    (2024).
    """

    proposal: Any = "laplace"
    tails: float | None = 5.0
    draws: int = 8000
    adapt: int = 2
    replace: bool = True

    name = "importance"

    def __post_init__(self):
        checks.positive_integer(self.draws, "draws")
        if isinstance(self.adapt, bool) or not isinstance(self.adapt, int) or self.adapt < 0:
            raise ValueError(f"adapt must be a number of rounds, 0 or more, got {self.adapt!r}.")
        if self.tails is not None and not self.tails > 0:
            raise ValueError(
                f"tails must be degrees of freedom above 0, or None, got {self.tails}."
            )
        if isinstance(self.proposal, str):
            checks.one_of("proposal", self.proposal, PROPOSALS)

    def run(self, target: Target, seed: int, progress: bool) -> Fit:
        target.require_priors("importance sampling")
        q, optimum = self._proposal(target, seed, progress)
        *keys, last = jax.random.split(jax.random.key(seed), self.adapt + 1)
        before = None
        with Progress("importance sampling", self.adapt + 1, progress) as bar:
            for i, key in enumerate(keys if hasattr(q, "refit") else ()):
                sample, weights = before = reweigh(q, target, key, self.draws // 2)
                bar.to(i + 1, f"k-hat {weights.khat:.2f}")
                q = q.refit(sample.z, tempered(weights, 10 * target.size))
            sample, weights = reweigh(q, target, last, self.draws)
        if optimum is None and not np.any(np.isfinite(sample.log_p)):
            door.explain(target, sample.z[0])
        moved = None if before is None else _moved(before, (sample, weights), target.coordinates)
        return weighted_fit(sample, weights, q, self.draws, self.replace, seed, optimum, moved)

    def _proposal(self, target, seed, progress) -> tuple[Approximation, Optimum | None]:
        wanted = self.proposal
        if wanted == "prior":
            if target.without_prior:
                raise ValueError(
                    f"{', '.join(map(repr, target.without_prior))} has an improper prior, which "
                    "cannot be drawn from. Take proposal='laplace'."
                )
            return Prior(target), None
        if wanted == "laplace":
            optimum = find_optimum(target, 8, seed, 1000, progress, title="importance: modes")
            return around_modes(optimum, self.tails), optimum
        if hasattr(wanted, "event_shape"):
            if tuple(wanted.event_shape) != (target.size,):
                raise ValueError(
                    f"proposal has event shape {tuple(wanted.event_shape)}, but there are "
                    f"{target.size} unconstrained coordinates: {', '.join(target.coordinates)}."
                )
            return Density(wanted), None
        posterior = self._fitted(target, seed, progress)
        return widened(posterior, target, self.tails), posterior.optimum

    def _fitted(self, target, seed, progress):
        """The Posterior, or the Fit, that the proposal is made from."""
        if self.proposal == "svi":
            from bayeskern.inference.svi import SVI

            return SVI(draws=4000).run(target, seed, progress)
        if not hasattr(self.proposal, "z"):
            raise TypeError(
                f"proposal must be one of {', '.join(PROPOSALS)}, a Posterior or a NumPyro "
                f"distribution, got {type(self.proposal).__name__}."
            )
        return self.proposal


def reweigh(q: Approximation, target: Target, key, count: int) -> tuple[Sample, Weights]:
    """`count` draws from q with their densities, and their smoothed weights p / q."""
    z, log_q = map(np.asarray, q.draw(key, count))
    sample = Sample(z, log_densities(target, z), log_q)
    return sample, smooth(sample.log_p - sample.log_q)


def weighted_fit(sample, weights, q, count, replace, seed, optimum=None, moved=None) -> Fit:
    """Resample weighted draws to `count` equal ones, to a quarter of them without replacement."""
    count = count if replace else max(1, count // 4)
    chosen = resample(weights.normal, count, np.random.default_rng(seed), replace)

    def judge(posterior) -> Trust:
        distinct = len(np.unique(chosen))
        return judge_weighted(posterior, sample, weights, distinct, optimum, moved)

    return Fit(
        z=sample.z[chosen][None],
        weighted=(sample.z, weights.log),
        judge=judge,
        log_evidence=weights.log_evidence,
        optimum=optimum,
        approximation=q,
        trace={"khat": np.array([weights.khat])},
    )


def around_modes(optimum: Optimum, tails: float | None) -> Elliptical:
    """A Student t at each mode, weighted by Laplace's evidence of each."""
    modes = (optimum, *optimum.rivals)
    trils = [square_root(mode)[0] for mode in modes]
    evidence = np.array([mode.log_evidence for mode in modes])
    shares = np.where(np.isfinite(evidence), evidence, evidence[0])
    shares = shares if np.all(np.isfinite(shares)) else np.zeros(len(modes))
    return Elliptical(np.stack([m.z for m in modes]), np.stack(trils), shares, tails)


def widened(posterior, target: Target, tails: float | None) -> Approximation:
    """What a fit's draws came from, with heavier tails; or a Student t at the draws' moments."""
    z = np.asarray(posterior.z).reshape(-1, posterior.z.shape[-1])
    if z.shape[1] != target.size or len(z) < 2:
        raise ValueError(
            f"proposal has {len(z)} draws of {z.shape[1]} coordinates; this model needs several "
            f"draws of {target.size}. Fit the same model, by a method that gives draws."
        )
    q = posterior.approximation
    if q is not None and (tails is None or hasattr(q, "with_tails")):
        return q if tails is None else q.with_tails(tails, z)
    mean, covariance = moments(z, np.full(len(z), 1.0 / len(z)))
    return Elliptical.of(mean, cholesky(covariance), tails)


def tempered(weights: Weights, least: float) -> np.ndarray:
    """Weights flattened to a power at which `least` of them are effective, if they are not.

    Few effective draws would give a covariance that is too small, and the next round fewer still.
    """
    finite = np.isfinite(weights.log)
    least = min(least, 0.5 * finite.sum())

    def at(power):
        log = np.where(finite, power * np.where(finite, weights.log, 0.0), -np.inf)
        w = np.exp(log - log.max())
        return w / w.sum()

    def lacking(power):
        return 1.0 / np.sum(np.square(at(power))) - least

    return at(1.0) if lacking(1.0) >= 0 else at(brentq(lacking, 0.0, 1.0))


def _moved(before, after, coordinates) -> str | None:
    """The coordinate whose mean or sd changed from one round to the next by more than chance."""
    (first, w0), (last, w1) = before, after
    shift = compare(first.z, last.z, w0.normal, w1.normal)
    noise = 3.0 * np.sqrt(1.0 / w0.ess + 1.0 / w1.ess)
    for values, most in ((shift.mean, MOST["mean_shift"]), (shift.log_sd, MOST["log_sd_ratio"])):
        values = np.where(np.isnan(values), np.inf, values)
        if np.max(values) > most + noise:
            return coordinates[int(np.argmax(values))]
    return None
