"""Adaptive importance sampling: proposals refitted in rounds, weighted draws, resampling."""

from __future__ import annotations

import jax
import numpy as np
from scipy.optimize import brentq

from bayeskern.inference.approximation.proposals import Approximation, Elliptical, log_densities
from bayeskern.inference.approximation.psis import Weights, compare, resample, smooth
from bayeskern.inference.assessment.approximation import MOST, judge_weighted
from bayeskern.inference.assessment.overdispersed import Sample
from bayeskern.inference.methods.laplace import square_root
from bayeskern.inference.model.target import Target
from bayeskern.inference.optimization.modes import Optimum
from bayeskern.inference.result import Fit
from bayeskern.inference.verdict import Trust


def adapted(q: Approximation, target: Target, count: int, rounds: int, key, bar):
    """Refit q to its weighted draws, so many rounds, and draw `count` from what came of it.

    Returns (q, Sample, Weights, the coordinate whose estimate still changed, or None). A proposal
    that offers no `refit` has one round.
    """
    *keys, last = jax.random.split(key, rounds + 1)
    before = None
    for i, one in enumerate(keys if hasattr(q, "refit") else ()):
        sample, weights = before = reweigh(q, target, one, count // 2)
        bar.to(i + 1, f"k-hat {weights.khat:.2f}")
        q = q.refit(sample.z, tempered(weights, 10 * target.size))
    sample, weights = reweigh(q, target, last, count)
    moved = None if before is None else _moved(before, (sample, weights), target.coordinates)
    return q, sample, weights, moved


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
