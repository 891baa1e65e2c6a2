"""The mode under a Laplace prior, by coordinate descent: exact zeros and all."""

from __future__ import annotations

import warnings

import jax
import numpy as np
from numpyro.distributions import Distribution
from scipy.optimize import minimize_scalar

from bayeskern import hyperparameters as hyper

# Weights and noise are improved in turn until the noise changes by no more than this.
TOLERANCE, ROUNDS = 1e-10, 500
# From so many noises, for there may be several modes.
STARTS = 12
# What is left of the sum of squares by a fit that is perfect but for rounding.
PERFECT = 1e-20


def lasso(model, system, jacobian: bool) -> dict | None:
    """The mode of weights, intercept and noise: the lasso at the penalty that the scales stand for.

    argmin |y - X w|^2 / (2 noise) + sum_j |w_j| / scale_j, the noise at its own mode. None for a
    prior without kinks. Raises ValueError if the scale is to be inferred, if the noise is and the
    features fit y perfectly, so that there is no mode, and if none is found in ROUNDS.
    """
    if not model.prior.kinked:
        return None
    if hyper.is_specified(model.prior.scale):
        raise ValueError(
            "the posterior has no mode where the scale of a Laplace prior is inferred: its density "
            "grows without bound as the scale and the weights go to zero. Fix the scale, or take "
            "method='nuts'."
        )
    # Here, since scikit-learn takes a while to import.
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import Lasso

    centred = model.intercept is not None
    H, t, n = np.asarray(system.H), np.asarray(system.t), float(system.n)
    own = model.noise_model.noise
    inferred = hyper.is_specified(own)
    # Compiled, for it is asked thousands of times; a Free noise has none.
    log_prior = jax.jit(own.log_prob) if isinstance(own, Distribution) else _nothing
    scale = np.broadcast_to(np.asarray(model.prior.scale), H.shape[1] - centred)
    solver = Lasso(fit_intercept=False, warm_start=True, tol=1e-12, max_iter=1_000_000)

    def missed(b):
        return float(system.rss + np.sum(np.square(t - H @ b)))

    def improved(noise):
        """The best noise from a start, whether it is settled, and how high its density is."""
        settled = not inferred
        for _ in range(ROUNDS):
            b = _weights(H, t, noise, scale, model.intercept, solver)
            if settled:
                break
            before, noise = noise, _noise(log_prior, missed(b), n, jacobian)
            settled = abs(noise - before) <= TOLERANCE * noise
        height = _height(b, noise, missed(b), n, scale, model.intercept, log_prior, jacobian)
        return height, settled, noise

    # Weights that explain much go with little noise, and few with more: there may be several modes.
    most, least = missed(np.zeros(H.shape[1])) / n, missed(np.linalg.lstsq(H, t)[0]) / n
    if inferred and least <= PERFECT * most and _rises(log_prior, n, jacobian):
        raise ValueError(
            "the posterior has no mode: the features fit y perfectly, so that its density grows "
            "without bound as the noise goes to zero. Give the noise, or a prior on it that "
            "vanishes there, such as InverseGamma or LogNormal, or take method='nuts'."
        )
    most = most or 1.0
    starts = np.geomspace(max(least, 1e-8 * most), most, STARTS) if inferred else [float(own)]
    with warnings.catch_warnings():
        # Starts far from the mode may be hard, which is no matter.
        warnings.simplefilter("ignore", ConvergenceWarning)
        _, settled, noise = max((improved(noise) for noise in starts), key=lambda found: found[0])
    if not settled:
        raise ValueError(
            f"the lasso did not settle: weights and noise still changed after {ROUNDS} rounds. "
            "Give the noise, or take method='nuts'."
        )
    b = _weights(H, t, noise, scale, model.intercept, solver)
    found = {"noise": np.asarray(noise)} if inferred else {}
    if not centred:
        return {**found, "weights": b}
    level = b[0] - b[1:] @ np.asarray(model.intercept.center)
    return {**found, "weights": b[1:], "intercept": level}


def _height(b, noise, missed, n, scale, intercept, log_prior, jacobian) -> float:
    """The log density at weights and noise, up to what depends on neither."""
    weights = b if intercept is None else b[1:]
    height = -np.sum(np.abs(weights) / scale)
    if intercept is not None:
        height -= 0.5 * np.square((b[0] - float(intercept.loc)) / float(intercept.sd))
    return float(height) + _of_noise(np.log(noise), log_prior, missed, n, jacobian)


def _weights(H, t, noise, scale, intercept, solver) -> np.ndarray:
    """The coefficients at a given noise; the level, which is not penalised, projected out."""
    if intercept is None:
        return scale * _solve(H * scale, t, noise, solver)
    # The prior on the level is one more row.
    prior = np.sqrt(noise) / float(intercept.sd)
    ones, rest = np.append(H[:, 0], prior), np.vstack([H[:, 1:], np.zeros(H.shape[1] - 1)])
    target = np.append(t, prior * float(intercept.loc))
    unit = ones / (ones @ ones)
    inner, level = unit @ rest, unit @ target
    w = scale * _solve((rest - np.outer(ones, inner)) * scale, target - level * ones, noise, solver)
    return np.concatenate([[level - inner @ w], w])


def _solve(H, t, noise, solver) -> np.ndarray:
    solver.set_params(alpha=noise / len(t))
    return solver.fit(np.asfortranarray(H), t).coef_.copy()


def _noise(log_prior, missed: float, n: float, jacobian: bool) -> float:
    """The mode of the noise given the sum of squares."""

    def loss(log_noise):
        return -_of_noise(log_noise, log_prior, missed, n, jacobian)

    start = np.log(max(missed, np.finfo(float).tiny) / n)
    found = minimize_scalar(loss, bracket=(start - 1.0, start), options={"xtol": 1e-12})
    return float(np.exp(found.x))


def _rises(log_prior, n: float, jacobian: bool) -> bool:
    """Whether the density still rises as the noise goes to 0, where nothing is missed."""
    near, nearer = (_of_noise(x, log_prior, 0.0, n, jacobian) for x in (-100.0, -200.0))
    return nearer > near


def _nothing(noise) -> float:
    return 0.0


def _of_noise(log_noise, log_prior, missed: float, n: float, jacobian: bool) -> float:
    """The log density at a noise, given the sum of squares."""
    noise = np.exp(log_noise)
    return (
        float(log_prior(noise)) + jacobian * log_noise - 0.5 * n * log_noise - 0.5 * missed / noise
    )
