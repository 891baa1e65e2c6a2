"""The mode under a Laplace prior, by coordinate descent, which finds zeros exactly."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from numpyro.distributions import Distribution
from scipy.optimize import minimize_scalar

from bayeskern import hyperparameters as hyper
from bayeskern.linear.intercept import Intercept

# Weights and noise are improved in turn until the noise changes by no more than this.
TOLERANCE, ROUNDS = 1e-10, 500
# The number of values of the noise that the search starts from, since there may be several modes.
STARTS = 12
# A fit that leaves no more than this share of the sum of squares is perfect but for rounding.
PERFECT = 1e-20


def lasso(model, data, jacobian: bool) -> dict | None:
    """The mode of weights, intercept and noise: the lasso at the penalty that the scales stand for.

    argmin |y - X w|^2 / (2 noise) + sum_j |w_j| / scale_j, the noise at its own mode. None for a
    prior without kinks. data: the rows, a `LinearGaussian`. Raises ValueError if the scale is to be
    inferred, if there is no mode because the features fit y perfectly while the noise is inferred,
    and if none is found in ROUNDS.
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

    problem = _Problem.of(model, data, jacobian)
    H, t = problem.H, problem.t
    # A close fit goes with little noise, a sparse one with more: there may be several modes.
    largest = problem.squared_error(np.zeros(H.shape[1])) / problem.n
    smallest = problem.squared_error(np.linalg.lstsq(H, t)[0]) / problem.n
    if problem.infers_noise and smallest <= PERFECT * largest and problem.grows_without_bound():
        raise ValueError(
            "the posterior has no mode: the features fit y perfectly, so that its density grows "
            "without bound as the noise goes to zero. Give the noise, or a prior on it that "
            "vanishes there, such as InverseGamma or LogNormal, or take method='nuts'."
        )
    largest = largest or 1.0
    if problem.infers_noise:
        starts = np.geomspace(max(smallest, 1e-8 * largest), largest, STARTS)
    else:
        starts = [float(model.observation_model.noise)]
    with warnings.catch_warnings():
        # A start far from the mode may fail to converge; only the best of them counts.
        warnings.simplefilter("ignore", ConvergenceWarning)
        _, converged, noise = max(map(problem.ascend, starts), key=lambda result: result[0])
    if not converged:
        raise ValueError(
            f"the lasso did not settle: weights and noise still changed after {ROUNDS} rounds. "
            "Give the noise, or take method='nuts'."
        )
    b = problem.coefficients(noise)
    mode = {"noise": np.asarray(noise)} if problem.infers_noise else {}
    if model.intercept is None:
        return {**mode, "weights": b}
    intercept = b[0] - b[1:] @ np.asarray(model.intercept.center)
    return {**mode, "weights": b[1:], "intercept": intercept}


@dataclass(frozen=True, eq=False)
class _Problem:
    """What is maximized: the log density of weights, intercept and noise, given reduced rows.

    scale: of the weights' prior, (p,); log_prior: of the noise, where `infers_noise`; solver:
    scikit-learn's Lasso.
    """

    H: np.ndarray
    t: np.ndarray
    rss: float
    n: float
    scale: np.ndarray
    intercept: Intercept | None
    infers_noise: bool
    log_prior: Callable
    jacobian: bool
    solver: Any

    @classmethod
    def of(cls, model, data, jacobian) -> _Problem:
        # Here, since scikit-learn takes a while to import.
        from sklearn.linear_model import Lasso

        H, prior = np.asarray(data.H), model.observation_model.noise
        p = H.shape[1] - (model.intercept is not None)
        # Compiled, since it is evaluated thousands of times; a Free noise has no prior.
        log_prior = jax.jit(prior.log_prob) if isinstance(prior, Distribution) else _flat
        return cls(
            H,
            np.asarray(data.t),
            data.rss,
            float(data.n),
            np.broadcast_to(np.asarray(model.prior.scale), p),
            model.intercept,
            hyper.is_specified(prior),
            log_prior,
            jacobian,
            Lasso(fit_intercept=False, warm_start=True, tol=1e-12, max_iter=1_000_000),
        )

    def squared_error(self, b) -> float:
        return float(self.rss + np.sum(np.square(self.t - self.H @ b)))

    def ascend(self, noise):
        """From one noise: the log density reached, whether it converged, and the noise there."""
        converged = not self.infers_noise
        for _ in range(ROUNDS):
            b = self.coefficients(noise)
            if converged:
                break
            previous, noise = noise, self.best_noise(self.squared_error(b))
            converged = abs(noise - previous) <= TOLERANCE * noise
        return self.log_density(b, noise), converged, noise

    def coefficients(self, noise) -> np.ndarray:
        """The coefficients at a given noise; the intercept, not penalized, is projected out."""
        intercept, H, t = self.intercept, self.H, self.t
        if intercept is None:
            return self.scale * self._penalized(H * self.scale, t, noise)
        # The intercept's prior is one more row.
        prior_row = np.sqrt(noise) / float(intercept.sd)
        ones = np.append(H[:, 0], prior_row)
        features = np.vstack([H[:, 1:], np.zeros(H.shape[1] - 1)])
        target = np.append(t, prior_row * float(intercept.loc))
        unit = ones / (ones @ ones)
        mean_features, mean_target = unit @ features, unit @ target
        centered = (features - np.outer(ones, mean_features)) * self.scale
        weights = self.scale * self._penalized(centered, target - mean_target * ones, noise)
        return np.concatenate([[mean_target - mean_features @ weights], weights])

    def _penalized(self, H, t, noise) -> np.ndarray:
        self.solver.set_params(alpha=noise / len(t))
        return self.solver.fit(np.asfortranarray(H), t).coef_.copy()

    def best_noise(self, squared_error: float) -> float:
        """The mode of the noise given the sum of squares."""

        def loss(log_noise):
            return -self.log_density_of_noise(log_noise, squared_error)

        start = np.log(max(squared_error, np.finfo(float).tiny) / self.n)
        bracket = (start - 1.0, start)
        return float(np.exp(minimize_scalar(loss, bracket=bracket, options={"xtol": 1e-12}).x))

    def log_density(self, b, noise) -> float:
        """The log density at coefficients and noise, up to what depends on neither."""
        intercept = self.intercept
        weights = b if intercept is None else b[1:]
        log_prior = -np.sum(np.abs(weights) / self.scale)
        if intercept is not None:
            log_prior -= 0.5 * np.square((b[0] - float(intercept.loc)) / float(intercept.sd))
        return float(log_prior) + self.log_density_of_noise(np.log(noise), self.squared_error(b))

    def log_density_of_noise(self, log_noise, squared_error: float) -> float:
        """The terms of the log density that depend on the noise, given the sum of squares."""
        noise, n = np.exp(log_noise), self.n
        log_prior = float(self.log_prior(noise)) + self.jacobian * log_noise
        return log_prior - 0.5 * n * log_noise - 0.5 * squared_error / noise

    def grows_without_bound(self) -> bool:
        """Whether the density of a perfect fit still rises as the noise goes to 0."""
        near, nearer = (self.log_density_of_noise(x, 0.0) for x in (-100.0, -200.0))
        return nearer > near


def _flat(noise) -> float:
    return 0.0
