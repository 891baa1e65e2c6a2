"""Mode under a Laplace prior, by coordinate descent, with weights exactly 0."""

from __future__ import annotations

import warnings
from typing import Any

import jax
import numpy as np
from numpyro.distributions import Distribution
from scipy.optimize import minimize_scalar

from bayeskern import hyperparameters as hyper
from bayeskern.linear.gaussian_posterior import LinearGaussian, SeveralOutputs
from bayeskern.linear.model import LinearModel
from bayeskern.linear.priors import Laplace

# Maximum number of rounds, each of which optimises the weights and then the noise.
MAX_ROUNDS = 500


def lasso(model: LinearModel, data: LinearGaussian | SeveralOutputs, jacobian: bool) -> dict | None:
    """The mode of weights, intercept and noise under a Laplace prior: the lasso.

    Weights w minimise |y - X w|^2 / (2 noise) + sum_j |w_j| / scale_j, jointly with the noise if it
    is inferred.

    Args:
        model: The prepared model.
        data: The reduced rows, of one output.
        jacobian: Whether to maximise the density of log noise instead of the noise.

    Returns:
        The sites at the mode; None if the prior is not Laplace.

    Raises:
        ValueError: If the scale is to be inferred, if there is no mode because the features fit y
            perfectly while the noise is inferred, or if the iteration does not converge.
    """
    if not isinstance(model.prior, Laplace):
        return None
    assert isinstance(data, LinearGaussian)
    if hyper.is_specified(model.prior.scale):
        raise ValueError(
            "the posterior has no mode if the scale of a Laplace prior is inferred: the density "
            "grows without bound as the scale and the weights go to zero. Give the scale a number, "
            "or use method='nuts'."
        )
    # Imported here, because scikit-learn takes long to import.
    from sklearn.exceptions import ConvergenceWarning

    problem = _Problem(model, data, jacobian)
    H, t = problem.H, problem.t
    # There may be several modes, such as a close fit with little noise and a sparse fit with more:
    # start from noises between the mean squared errors of least squares and of b = 0.
    max_noise = problem.squared_error(np.zeros(H.shape[1])) / problem.n
    min_noise = problem.squared_error(np.linalg.lstsq(H, t)[0]) / problem.n
    # Up to rounding errors.
    is_perfect = min_noise <= 1e-20 * max_noise
    if problem.infers_noise and is_perfect and problem.grows_without_bound():
        raise ValueError(
            "the posterior has no mode: the features fit y perfectly, so that its density grows "
            "without bound as the noise goes to zero. Give the noise a number, or a prior that "
            "vanishes at 0, such as InverseGamma or LogNormal, or use method='nuts'."
        )
    max_noise = max_noise or 1.0
    if problem.infers_noise:
        starts = np.geomspace(max(min_noise, 1e-8 * max_noise), max_noise, 12)
    else:
        noise: Any = model.observation_model.noise_variance
        starts = [float(noise)]
    with warnings.catch_warnings():
        # Some starts may fail to converge: only the result with the highest density matters.
        warnings.simplefilter("ignore", ConvergenceWarning)
        _, converged, noise = max(map(problem.optimize, starts), key=lambda result: result[0])
    if not converged:
        raise ValueError(
            f"the lasso did not settle: weights and noise still changed after {MAX_ROUNDS} rounds. "
            "Give the noise a number, or use method='nuts'."
        )
    b = problem.coefficients(noise)
    mode = {"noise": np.asarray(noise)} if problem.infers_noise else {}
    if model.intercept is None:
        return {**mode, "weights": b}
    intercept = b[0] - b[1:] @ np.asarray(model.intercept.point)
    return {**mode, "weights": b[1:], "intercept": intercept}


class _Problem:
    """The log joint density of weights, intercept and noise, given reduced rows.

    Attributes:
        H: The reduced rows of X, with the intercept's column first if there is an intercept.
        t: The reduced rows of y.
        rss: The part of |y - X b|^2 that does not depend on b.
        n: The number of rows.
        scale: The scales of the weights' prior, (p,).
        intercept: The mean and sd of the intercept's prior; None without an intercept.
        infers_noise: Whether the noise is inferred.
        log_prior: The log prior density of the noise.
        jacobian: Whether to maximise the density of log noise instead of the noise.
        solver: scikit-learn's Lasso.
    """

    def __init__(self, model: LinearModel, data: LinearGaussian, jacobian: bool):
        # Imported here, because scikit-learn takes long to import.
        from sklearn.linear_model import Lasso

        self.H, self.t = np.asarray(data.H), np.asarray(data.t)
        self.rss, self.n, self.jacobian = float(data.rss), float(data.n), jacobian
        self.intercept = None
        if model.intercept is not None:
            loc, sd = model.intercept.moments
            self.intercept = float(loc), float(sd)
        p = self.H.shape[1] - (self.intercept is not None)
        scale: Any = model.prior.scale  # pyright: ignore[reportAttributeAccessIssue]
        self.scale = np.broadcast_to(np.asarray(scale), p)
        noise = model.observation_model.noise_variance
        self.infers_noise = hyper.is_specified(noise)
        # Compiled, because it is evaluated thousands of times. A Free noise has no prior.
        self.log_prior = (
            jax.jit(noise.log_prob) if isinstance(noise, Distribution) else _flat_log_prior
        )
        options: dict = {"tol": 1e-12, "max_iter": 1_000_000}
        self.solver: Any = Lasso(fit_intercept=False, warm_start=True, **options)

    def squared_error(self, b: np.ndarray) -> float:
        """|y - X b|^2."""
        return float(self.rss + np.sum(np.square(self.t - self.H @ b)))

    def optimize(self, noise: float) -> tuple[float, bool, float]:
        """Optimise weights and noise in turn, from `noise`.

        Returns:
            The log density, True if the iteration converged, and the noise.
        """
        converged, b = not self.infers_noise, np.zeros(self.H.shape[1])
        for _ in range(MAX_ROUNDS):
            b = self.coefficients(noise)
            if converged:
                break
            previous, noise = noise, self.best_noise(self.squared_error(b))
            converged = abs(noise - previous) <= 1e-10 * noise
        return self.log_density(b, noise), converged, noise

    def coefficients(self, noise: float) -> np.ndarray:
        """The coefficients at a given noise; the unpenalised intercept is projected out."""
        H, t = self.H, self.t
        if self.intercept is None:
            return self.scale * self._penalized(H * self.scale, t, noise)
        # The intercept's prior N(loc, sd^2) acts as one more row, with the target loc.
        loc, sd = self.intercept
        prior_row = np.sqrt(noise) / sd
        ones = np.append(H[:, 0], prior_row)
        features = np.vstack([H[:, 1:], np.zeros(H.shape[1] - 1)])
        target = np.append(t, prior_row * loc)
        unit = ones / (ones @ ones)
        mean_features, mean_target = unit @ features, unit @ target
        centered = (features - np.outer(ones, mean_features)) * self.scale
        weights = self.scale * self._penalized(centered, target - mean_target * ones, noise)
        return np.concatenate([[mean_target - mean_features @ weights], weights])

    def _penalized(self, H, t, noise) -> np.ndarray:
        self.solver.set_params(alpha=noise / len(t))
        return self.solver.fit(np.asfortranarray(H), t).coef_.copy()

    def best_noise(self, squared_error: float) -> float:
        """The mode of the noise, given the sum of squared errors."""

        def loss(log_noise):
            return -self.log_density_of_noise(log_noise, squared_error)

        start = np.log(max(squared_error, np.finfo(float).tiny) / self.n)
        bracket = (start - 1.0, start)
        optimum: Any = minimize_scalar(loss, bracket=bracket, options={"xtol": 1e-12})
        return float(np.exp(optimum.x))

    def log_density(self, b, noise) -> float:
        """The log density at coefficients b and noise, up to a constant."""
        weights = b if self.intercept is None else b[1:]
        log_prior = -np.sum(np.abs(weights) / self.scale)
        if self.intercept is not None:
            loc, sd = self.intercept
            log_prior -= 0.5 * np.square((b[0] - loc) / sd)
        return float(log_prior) + self.log_density_of_noise(np.log(noise), self.squared_error(b))

    def log_density_of_noise(self, log_noise, squared_error: float) -> float:
        """The terms of the log density that depend on the noise, given the sum of squares."""
        noise, n = np.exp(log_noise), self.n
        log_prior = float(self.log_prior(noise)) + self.jacobian * log_noise
        return log_prior - 0.5 * n * log_noise - 0.5 * squared_error / noise

    def grows_without_bound(self) -> bool:
        """True if the density of a perfect fit still rises as the noise goes to 0."""
        at_small_noise, at_smaller_noise = (
            self.log_density_of_noise(log_noise, 0.0) for log_noise in (-100.0, -200.0)
        )
        return at_smaller_noise > at_small_noise


def _flat_log_prior(noise) -> float:
    return 0.0
