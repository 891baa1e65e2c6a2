"""Weighted draws of the hyperparameters of a structure."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from scipy.special import logsumexp

from bayeskern.engine.predictive import JointPredictive
from bayeskern.forecast.fit.modes import MIN_PROPOSAL_CURVATURE, FittedStructure
from bayeskern.inference import Posterior
from bayeskern.inference.approximation.psis import Weights, pareto_smooth, resample
from bayeskern.inference.assessment.point import assess_point
from bayeskern.inference.result import Fit
from bayeskern.inference.verdict import Trust, effective
from bayeskern.prediction.mixture import NOT_FACTORED

NO_TIMES = np.zeros(0)


@dataclass(frozen=True, eq=False)
class Draws:
    """Draws of the hyperparameters of a structure, with log importance ratios.

    Attributes:
        fitted: The structure at its mode.
        z: Draws in unconstrained coordinates, (S, d).
        log_ratios: Log importance ratios, log p - log q, (S,).
        next_times: Sorted times of likely predictions or new values, (m,).
        computed: Joint distribution of the values at `next_times`, if already computed.
    """

    fitted: FittedStructure
    z: np.ndarray
    log_ratios: np.ndarray
    next_times: np.ndarray = field(default_factory=lambda: NO_TIMES)
    computed: JointPredictive | None = None

    @classmethod
    def from_laplace(
        cls, fitted: FittedStructure, count: int, seed: int, x_new: np.ndarray = NO_TIMES
    ) -> Draws:
        """Draws from the normal approximation at the mode, with importance weights.

        Args:
            fitted: The structure at its mode.
            count: Number of draws.
            seed: Random seed.
            x_new: Sorted times of likely predictions or new values, (m,), to be precomputed.
        """
        d = len(fitted.mode)
        if d == 0:
            return cls(fitted, fitted.mode[None], np.array([fitted.log_density]))
        # Where the curvature is small or negative, the proposal is wide; the weights correct it.
        eigenvalues, vectors = np.linalg.eigh(np.nan_to_num(fitted.hessian))
        curvature = (vectors * np.maximum(eigenvalues, MIN_PROPOSAL_CURVATURE)) @ vectors.T
        # Unlike eigenvectors, the Cholesky factor is a continuous function of the data.
        factor = np.linalg.cholesky(curvature)
        standard = np.random.default_rng(seed).standard_normal((count, d))
        z = fitted.mode + np.linalg.solve(factor.T, standard.T).T
        log_q = -0.5 * np.sum(np.square(standard), axis=1) - 0.5 * d * np.log(2.0 * np.pi)
        log_q += np.sum(np.log(np.diag(factor)))
        predictive = fitted.density.predictive(z, x_new)
        return cls(fitted, z, predictive.log_densities - log_q, x_new, predictive)

    @classmethod
    def at_mode(cls, fitted: FittedStructure) -> Draws:
        """Single draw at the polished mode."""
        polished = fitted.polished()
        return cls(polished, polished.mode[None], np.zeros(1))

    @cached_property
    def predictive(self) -> JointPredictive | None:
        """Joint distribution at `next_times` for each draw; None without times."""
        if self.computed is not None or len(self.next_times) == 0:
            return self.computed
        return self.fitted.density.predictive(self.z, self.next_times)

    @cached_property
    def weights(self) -> Weights:
        """Pareto-smoothed importance weights with k-hat."""
        return pareto_smooth(self.log_ratios)

    @cached_property
    def shares(self) -> np.ndarray:
        """Truncated importance weights, normalised to sum to one, (S,).

        Ionides (2008), "Truncated importance sampling".
        """
        w = np.minimum(self._normalised, len(self.z) ** -0.5)
        return w / w.sum()

    @cached_property
    def log_evidence(self) -> float:
        """Log marginal likelihood log p(y) by importance sampling."""
        value = float(logsumexp(self._ratios) - np.log(len(self.z)))
        return value + self.fitted.log_jacobian + self.fitted.log_prior

    def resampled(self, count: int, seed: int) -> np.ndarray:
        """Equally weighted draws, (count, d)."""
        return self.z[self.resampled_rows(count, seed)]

    def resampled_rows(self, count: int, seed: int) -> np.ndarray:
        """Indices of equally weighted draws, with repetitions, (count,)."""
        return resample(self.shares, count, np.random.default_rng(seed))

    def moments(self, x_new: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and sd of transformed values at x_new (m,), over all draws: (m,) each."""
        if self.predictive is not None and self.predictive.covers(x_new):
            means, variances = self.predictive.moments(np.arange(len(self.z)), x_new)
        else:
            means, variances = self.fitted.density.moments(self.z, x_new)
        return self.averaged(means, variances + self.fitted.excess_noise(self.z)[:, None])

    def loo_moments(self) -> tuple[np.ndarray, np.ndarray]:
        """Leave-one-out mean and sd of each transformed value, over all draws: (n,) each."""
        means, variances, _ = self.fitted.density.loo(self.z)
        # A left-out value has a noise factor of 1: its fitted factor was computed from the value.
        factors = self.fitted.density.noise_factors
        noise = np.reshape(self.fitted.density.values(self.z)["noise"], -1)
        excess = self.fitted.excess_noise(self.z)[:, None] - noise[:, None] * (factors - 1.0)
        return self.averaged(means, variances + excess)

    def averaged(self, means: np.ndarray, variances: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and sd of the mixture over draws, from moments of each (S, m): (m,) each."""
        usable = np.isfinite(means).all(axis=1) & np.isfinite(variances).all(axis=1)
        shares = np.where(usable, self.shares, 0.0)
        if not shares.any():
            raise FloatingPointError(NOT_FACTORED)
        shares = shares / shares.sum()
        means, variances = np.nan_to_num(means), np.nan_to_num(variances)
        mean = shares @ means
        return mean, np.sqrt(shares @ (variances + np.square(means - mean)))

    def correlation(self, x_new: np.ndarray) -> np.ndarray:
        """Predictive correlation at times x_new (m,), averaged over the draws: (m, m)."""
        pairs = [self.fitted.density.joint(z, x_new) for z in self.z]
        means, covariances = (np.array(part) for part in zip(*pairs, strict=True))
        means = means - self.shares @ means
        covariance = np.einsum("s,sij->ij", self.shares, covariances)
        covariance += np.einsum("s,si,sj->ij", self.shares, means, means)
        sds = np.sqrt(np.diag(covariance))
        return covariance / np.outer(sds, sds)

    @property
    def ess(self) -> float:
        """Effective number of draws, 1 / sum w^2, of the weights before truncation."""
        return float(1.0 / np.sum(np.square(self._normalised)))

    @property
    def _ratios(self) -> np.ndarray:
        """Log importance ratios, -inf in place of NaN."""
        return np.where(np.isnan(self.log_ratios), -np.inf, self.log_ratios)

    @property
    def _normalised(self) -> np.ndarray:
        """Importance weights before truncation, normalised to sum to one, (S,)."""
        return np.exp(self._ratios - logsumexp(self._ratios))

    @property
    def is_point(self) -> bool:
        """True for a point estimate, a single draw."""
        return len(self.z) == 1

    def posterior(self, seed: int) -> Posterior:
        """The draws as a posterior of the hyperparameters."""
        # Importance sampling does not need a precise mode, but users see `posterior.optimum`.
        fitted = self.fitted.polished()
        z = self.z if self.is_point else self.resampled(len(self.z), seed)
        fit = Fit(
            z=z[None],
            assess=self._assess,
            optimum=fitted.optimum,
            draws=fitted.density.values(z[None]),
            log_evidence=None if self.is_point else self.weights.log_evidence,
        )
        name = "map" if self.is_point else "importance"
        return Posterior.from_fit(fit, fitted.target, name, seed=seed)

    def _assess(self, posterior: Fit) -> Trust:
        weights, optimum = self.weights, posterior.optimum
        assert optimum is not None
        if self.is_point or optimum.problem():
            return assess_point(optimum)
        evidence = {
            **optimum.evidence(),
            "khat": weights.khat,
            "khat_threshold": weights.threshold,
            "ess_of_weights": weights.ess,
        }
        advice = (
            f"{effective(weights.ess)} of the hyperparameters: enough to average a forecast over "
            "them, too few for their quantiles. Use method='nuts' for those quantiles."
        )
        # At a k-hat of 1 or more, importance ratios have no finite mean.
        return Trust("caution" if weights.khat < 1.0 else "bad", advice, evidence)
