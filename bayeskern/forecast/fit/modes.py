"""One structure fitted to a series: its mode, and weighted draws of the hyperparameters around it.

Nothing is compiled, save Gram matrices of kernels that have no formula in NumPy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.optimize import minimize
from scipy.special import logsumexp

from bayeskern.forecast.fit.robust import DEGREES, noise_factors
from bayeskern.forecast.fit.rolling import Origin
from bayeskern.forecast.history.basis_evidence import BasisEvidence
from bayeskern.forecast.history.mode_search import find_mode
from bayeskern.forecast.model.building import build_evidence, build_model, build_scale
from bayeskern.forecast.model.evidence import Evidence, bound, latent_target
from bayeskern.forecast.model.structure import Choices, Structure, log_prior_of_change
from bayeskern.forecast.model.transformation import Scale
from bayeskern.gp import GPRegression, LatentGP
from bayeskern.gp.time_series.predictive import JointPredictive
from bayeskern.inference import Posterior
from bayeskern.inference.approximation.psis import Weights, pareto_smooth, resample
from bayeskern.inference.assessment.point import assess_point
from bayeskern.inference.model.target import Target
from bayeskern.inference.optimization.modes import CRITERIA, Optimum
from bayeskern.inference.result import Fit
from bayeskern.inference.verdict import Trust, effective
from bayeskern.prediction.mixture import NOT_FACTORED

STEPS = 500
# The relative gain of a step below which a search ends, and that of a search that follows it.
GAIN, SMALL_GAIN = 1e-5, 1e-7
# A curvature is good for so many posterior sds around.
AROUND = 0.1
# That of the differences of the gradient.
STEP = 1e-4
# The most rounds of robust noise, which end where the log density gains no more than this.
ROUNDS, SETTLED = 10, 0.1
# What stands for -log p where there is none.
BARRIER = 1e100
# A curvature below this is taken for it: a proposal four prior sds wide, as most priors go.
LEAST_CURVATURE = 0.25
# k-hat from which the weights of draws have no mean that could be relied on.
HOPELESS_KHAT = 1.0
NO_TIMES = np.zeros(0)


@dataclass(frozen=True, eq=False)
class Fitted:
    """A structure at the mode of its hyperparameters.

    Attributes:
        structure: What was fitted.
        choices: Among which it was.
        scale: y <-> z.
        x: Times, (n,).
        y: Values as they are, (n,).
        evidence: The log density of z and the hyperparameters.
        mode: The mode, (d,), in unconstrained coordinates.
        value: The log density there, where it has been computed.
        curvature: The Hessian of -log p next to it, (d, d), where it is known.
        log_prior: The log prior probability of the structure, up to a constant.
    """

    structure: Structure
    choices: Choices
    scale: Scale
    x: np.ndarray
    y: np.ndarray
    evidence: Evidence
    mode: np.ndarray
    value: float | None = None
    curvature: np.ndarray | None = None
    log_prior: float = 0.0

    @classmethod
    def of(cls, structure: Structure, choices: Choices, x, y, start=None) -> Fitted:
        """Search for the mode, from the median of the prior or, by name, from other values."""
        scale = build_scale(choices, structure, y)
        if choices.whole_history:
            return cls._of_history(structure, choices, x, y, scale)
        evidence = build_evidence(choices, structure, x, scale, y)
        begin = zip(evidence.names, evidence.middle, strict=True)
        begin = np.array([(start or {}).get(name, z) for name, z in begin])
        mode, value = climb(evidence, begin)
        fitted = cls(structure, choices, scale, x, y, evidence, mode, value)
        fitted = fitted.robust() if choices.robust else fitted
        new_changes = max(0, len(structure.changes) - len(choices.changes))
        return replace(fitted, log_prior=new_changes * log_prior_of_change(len(y)))

    @classmethod
    def _of_history(cls, structure: Structure, choices: Choices, x, y, scale: Scale) -> Fitted:
        """The basis functions of a long series at their mode."""
        evidence = BasisEvidence.of(
            x,
            scale.forward(y),
            choices.seasons,
            step=choices.step,
            end=choices.end,
            unit=choices.unit,
            effects=choices.effects,
        )
        mode, value = find_mode(evidence)
        return cls(structure, choices, scale, x, y, evidence, mode, value)

    def robust(self) -> Fitted:
        """The same with Student t noise, in turns with the factors of the noise variance."""
        fitted = self
        for _ in range(ROUNDS):
            noise = float(fitted.evidence.values(fitted.mode)["noise"])
            mean, variance = fitted.evidence.fitted(fitted.mode)
            squares = np.square(fitted.evidence.y - mean) + variance
            factors, bound = noise_factors(squares, noise, self._on_events(self.x))
            evidence = fitted.evidence.with_noise_factors(factors, bound)
            mode, value = climb(evidence, fitted.mode)
            gained = value - fitted.log_density
            fitted = replace(fitted, evidence=evidence, mode=mode, value=value)
            if abs(gained) < SETTLED:
                break
        return fitted

    def given(self, x: np.ndarray, y: np.ndarray) -> Fitted:
        """The same hyperparameters, on the same scale, given all values y at times x: (n,) both."""
        evidence = self.evidence.given(x, self.scale.forward(y))
        if self.choices.robust:
            # The new values have a factor of 1 until what is left of them is known.
            known = np.append(self.evidence.noise_factors, np.ones(len(y) - len(self.y)))
            mean, variance = evidence.with_noise_factors(known, 0.0).fitted(self.mode)
            noise = float(evidence.values(self.mode)["noise"])
            squares = np.square(evidence.y - mean) + variance
            factors = noise_factors(squares, noise, self._on_events(x))
            evidence = evidence.with_noise_factors(*factors)
        return replace(self, x=x, y=y, evidence=evidence, value=None, curvature=None)

    def _on_events(self, x: np.ndarray) -> np.ndarray:
        """Which of times x (n,) have an event or a holiday: (n,)."""
        effects = self.choices.effects
        return np.zeros(len(x), bool) if effects is None else effects.on_events(x)

    @cached_property
    def log_density(self) -> float:
        """The log density at the mode."""
        return self._value_and_gradient[0] if self.value is None else self.value

    @property
    def gradient(self) -> np.ndarray:
        """The gradient of the log density at the mode: (d,)."""
        return self._value_and_gradient[1]

    @cached_property
    def _value_and_gradient(self) -> tuple[float, np.ndarray]:
        return self.evidence.value_and_gradient(self.mode)

    @cached_property
    def model(self) -> GPRegression | LatentGP:
        """The model of z."""
        return build_model(self.choices, self.structure, self.x, self.scale, self.y)

    @property
    def target(self) -> Target:
        """The model and the values as methods of inference take them."""
        if self.choices.likelihood is not None:
            return latent_target(self.model, self.x, self.y)
        return bound(self.model, self.x, self.scale.forward(self.y))

    @cached_property
    def log_jacobian(self) -> float:
        """What turns a log density of z into one of y."""
        return float(np.sum(self.scale.log_jacobian(self.y)))

    @property
    def log_joint(self) -> float:
        """The log density of y and the hyperparameters at the mode; -inf where there is none."""
        value = self.log_density + self.log_jacobian + self.log_prior
        return value if np.isfinite(value) else -np.inf

    @cached_property
    def log_evidence(self) -> float:
        """log p(y) by Laplace's method; -inf where the density is."""
        curvatures = np.linalg.eigvalsh(np.nan_to_num(self.hessian))
        volume = len(self.mode) * np.log(2.0 * np.pi)
        volume -= np.sum(np.log(np.maximum(curvatures, LEAST_CURVATURE)))
        return self.log_joint + 0.5 * float(volume)

    @property
    def by_name(self) -> dict[str, float]:
        """The mode in unconstrained coordinates, by the names of the hyperparameters."""
        return dict(zip(self.evidence.names, self.mode.tolist(), strict=True))

    @cached_property
    def hessian(self) -> np.ndarray:
        """The curvature of -log p at the mode: (d, d), by differences of the gradient."""
        if self.curvature is not None:
            return self.curvature
        d = len(self.mode)
        steps = self.mode + STEP * np.eye(d)
        with self.evidence.threads():
            H = [self.gradient - self.evidence.value_and_gradient(z)[1] for z in steps]
        H = np.reshape(H, (d, d))
        return 0.5 * (H + H.T) / STEP

    def rescaled(self) -> Fitted:
        """The same after another search, in coordinates that have about the same curvature.

        A period is known to a thousandth where a variance is known to a half, and L-BFGS ends
        early on such a ridge.
        """
        scale = 1.0 / np.sqrt(np.maximum(np.diag(np.nan_to_num(self.hessian)), 1.0))
        mode, value = climb(self.evidence, self.mode, scale=scale, enough=SMALL_GAIN)
        if not value > self.log_density:
            return self
        return replace(self, mode=mode, value=value, curvature=None)

    def polished(self) -> Fitted:
        """The same where the gradient is zero, as far as that can be reached.

        Newton's method goes there within a few steps, unless L-BFGS has ended on a ridge.
        """
        closer = self._by_newton(STEPS)
        return closer if closer.optimum.converged else closer.rescaled()._by_newton(STEPS)

    def _by_newton(self, steps: int) -> Fitted:
        """The same after so many steps of Newton's method at most, each of which halves a slope.

        The curvature where they begin does for all of them; it is another where they end, unless
        that is near by or it was given.
        """
        at = self
        with self.evidence.threads():
            for _ in range(steps):
                slope = at.optimum.gradient_norm
                if slope < CRITERIA.gradient_tol:
                    break
                try:
                    mode = at.mode + np.linalg.solve(self.hessian, at.gradient)
                except np.linalg.LinAlgError:
                    break
                closer = replace(at, mode=mode, value=None, curvature=self.hessian)
                # Written so that NaN is no improvement.
                halved = closer.optimum.gradient_norm < 0.5 * slope
                if not (halved and np.isfinite(closer.log_density)):
                    break
                at = closer
        moved = at.mode - self.mode
        if moved @ self.hessian @ moved < np.square(AROUND):
            return at
        return replace(at, value=at.log_density, curvature=self.curvature)

    @cached_property
    def optimum(self) -> Optimum:
        """The mode as methods have it."""
        return Optimum(
            z=self.mode,
            log_density=self.log_density,
            gradient=-self.gradient,
            curvature=lambda: self.hessian,
            ends=self.mode[None],
            start_log_densities=np.array([self.log_density]),
            coordinates=self.evidence.names,
            mode="unconstrained",
        )

    def rolling(self, origins: Sequence[Origin]) -> list[tuple[np.ndarray, np.ndarray]]:
        """Means and sds of z at the values ahead of each origin, at the mode."""
        counts = [origin.count for origin in origins]
        reach = [len(origin.steps) for origin in origins]
        pairs = self.evidence.rolling(self.mode, counts, reach)
        more = self.heavier_noise(self.mode)
        return [(mean, np.sqrt(variance + more)) for mean, variance in pairs]

    def heavier_noise(self, z) -> np.ndarray:
        """How much more variance Student t noise has than normal noise, at z (..., d): (...)."""
        if not self.choices.robust:
            return np.zeros(np.shape(z)[:-1])
        return (DEGREES / (DEGREES - 2.0) - 1.0) * self.evidence.values(z)["noise"]

    def draws(self, count: int, seed: int, x_new: np.ndarray = NO_TIMES) -> Draws:
        """Draws around the mode, from the normal distribution with its curvature, weighted.

        x_new: the times that are likely to be asked for, or to have values, one day: sorted, (m,).
        """
        d = len(self.mode)
        if d == 0:
            return Draws(self, np.zeros((1, 0)), np.array([self.log_density]))
        # Where the curvature is not known the draws go wide, and their weights say what they are.
        eigenvalues, vectors = np.linalg.eigh(np.nan_to_num(self.hessian))
        curvature = (vectors * np.maximum(eigenvalues, LEAST_CURVATURE)) @ vectors.T
        # Eigenvectors may turn round when a digit of the data changes; this factor does not.
        factor = np.linalg.cholesky(curvature)
        standard = np.random.default_rng(seed).standard_normal((count, d))
        z = self.mode + np.linalg.solve(factor.T, standard.T).T
        log_q = -0.5 * np.sum(np.square(standard), axis=1) - 0.5 * d * np.log(2.0 * np.pi)
        log_q += np.sum(np.log(np.diag(factor)))
        predictive = self.evidence.predictive(z, x_new)
        return Draws(self, z, predictive.log_densities - log_q, predictive)

    def as_point(self) -> Draws:
        """The end of the search alone."""
        return Draws(self, self.mode[None], np.zeros(1))

    def at_mode(self) -> Draws:
        """The mode alone."""
        polished = self.polished()
        return Draws(polished, polished.mode[None], np.zeros(1))


@dataclass(frozen=True, eq=False)
class Draws:
    """Draws of the hyperparameters of a structure, and the logs of their weights p / q.

    Attributes:
        fitted: The structure.
        z: (S, d), in unconstrained coordinates.
        log_ratios: (S,).
        predictive: What each says of the next values, where it has been computed.
    """

    fitted: Fitted
    z: np.ndarray
    log_ratios: np.ndarray
    predictive: JointPredictive | None = None

    @cached_property
    def weights(self) -> Weights:
        """The weights, Pareto smoothed, with their k-hat."""
        return pareto_smooth(self.log_ratios)

    @cached_property
    def shares(self) -> np.ndarray:
        """The weights, which sum to one, truncated: (S,).

        Ionides (2008), "Truncated importance sampling".
        """
        w = np.minimum(self._normalised, len(self.z) ** -0.5)
        return w / w.sum()

    @cached_property
    def log_evidence(self) -> float:
        """log p(y), of the values as they are."""
        value = float(logsumexp(self._ratios) - np.log(len(self.z)))
        return value + self.fitted.log_jacobian + self.fitted.log_prior

    def resampled(self, count: int, seed: int) -> np.ndarray:
        """Equally weighted draws: (count, d)."""
        return self.z[self.chosen(count, seed)]

    def chosen(self, count: int, seed: int) -> np.ndarray:
        """Which draws those are, some of them several times: (count,)."""
        return resample(self.shares, count, np.random.default_rng(seed))

    def moments(self, x_new: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and sd of z at new times x_new (m,), averaged over the draws: (m,) each."""
        if self.predictive is not None and self.predictive.covers(x_new):
            means, variances = self.predictive.moments(np.arange(len(self.z)), x_new)
        else:
            means, variances = self.fitted.evidence.moments(self.z, x_new)
        return self.averaged(means, variances + self.fitted.heavier_noise(self.z)[:, None])

    def moments_of_others(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean and sd of z of each value given all others, averaged over the draws: (n,) each."""
        means, variances, _ = self.fitted.evidence.loo(self.z)
        own = getattr(self.fitted.evidence, "noise_factors", 1.0)
        more = self.fitted.heavier_noise(self.z)[:, None]
        more = more - self._noise(self.z)[:, None] * (own - 1.0)
        return self.averaged(means, variances + more)

    def averaged(self, means, variances) -> tuple[np.ndarray, np.ndarray]:
        """Mean and sd of the mixture of the draws, from their moments (S, m): (m,) each."""
        usable = np.isfinite(means).all(axis=1) & np.isfinite(variances).all(axis=1)
        shares = np.where(usable, self.shares, 0.0)
        if not shares.any():
            raise FloatingPointError(NOT_FACTORED)
        shares = shares / shares.sum()
        means, variances = np.nan_to_num(means), np.nan_to_num(variances)
        mean = shares @ means
        return mean, np.sqrt(shares @ (variances + np.square(means - mean)))

    def correlation(self, x_new: np.ndarray) -> np.ndarray:
        """Correlation of new values at times x_new (m,), averaged over the draws: (m, m)."""
        pairs = [self.fitted.evidence.joint(z, x_new) for z in self.z]
        means, covariances = (np.array(part) for part in zip(*pairs, strict=True))
        means = means - self.shares @ means
        covariance = np.einsum("s,sij->ij", self.shares, covariances)
        covariance += np.einsum("s,si,sj->ij", self.shares, means, means)
        sds = np.sqrt(np.diag(covariance))
        return covariance / np.outer(sds, sds)

    def _noise(self, z) -> np.ndarray:
        """The noise variance at each of z (S, d): (S,)."""
        return np.reshape(self.fitted.evidence.values(z)["noise"], -1)

    @property
    def ess(self) -> float:
        """The effective number of draws: 1 / sum w^2, of the weights as they are."""
        return float(1.0 / np.sum(np.square(self._normalised)))

    @property
    def _ratios(self) -> np.ndarray:
        """The log ratios; where there is no density it is zero."""
        return np.where(np.isnan(self.log_ratios), -np.inf, self.log_ratios)

    @property
    def _normalised(self) -> np.ndarray:
        """The weights, which sum to one."""
        return np.exp(self._ratios - logsumexp(self._ratios))

    @property
    def is_point(self) -> bool:
        return len(self.z) == 1

    def posterior(self, seed: int) -> Posterior:
        """These draws as the posterior of the structure."""
        # Draws are weighted, so that the search may end early before them; a mode that is shown
        # is the mode.
        fitted = self.fitted.polished()
        z = self.z if self.is_point else self.resampled(len(self.z), seed)
        fit = Fit(
            z=z[None],
            assess=lambda _: self._assess(fitted.optimum),
            optimum=fitted.optimum,
            draws=fitted.evidence.values(z[None]),
            log_evidence=None if self.is_point else self.weights.log_evidence,
        )
        target = fitted.target
        name = "map" if self.is_point else "importance"
        return Posterior.of(name, fit, target, seed=seed)

    def _assess(self, optimum: Optimum) -> Trust:
        weights = self.weights
        if self.is_point or optimum.problem():
            return assess_point(optimum)
        evidence = {
            **optimum.evidence(),
            "khat": weights.khat,
            "khat_threshold": weights.threshold,
            "ess_of_weights": weights.ess,
        }
        few = (
            f"{effective(weights.ess)} of the hyperparameters: enough to widen a forecast by what "
            "is not known of them, too few for their own quantiles. Take method='nuts' for those."
        )
        return Trust("caution" if weights.khat < HOPELESS_KHAT else "bad", few, evidence)


def climb(
    evidence: Evidence,
    start,
    steps: int = STEPS,
    scale: float | np.ndarray = 1.0,
    enough: float = GAIN,
) -> tuple[np.ndarray, float]:
    """The mode by L-BFGS in so many steps at most, and the log density there.

    scale: how far each coordinate has to go for the density to change by much, (d,) or one number;
    enough: the relative gain of a step below which it is the last.
    """
    if len(start) == 0:
        return start, evidence.log_density(start)

    def objective(u):
        value, gradient = evidence.value_and_gradient(start + scale * u)
        # The line search steps back from a high value, but is lost at an infinite one.
        return (-value, -scale * gradient) if np.isfinite(value) else (BARRIER, np.zeros(len(u)))

    options = {"maxiter": steps, "ftol": enough, "gtol": 1e-3}
    with evidence.threads():
        begin = np.zeros(len(start))
        end = minimize(objective, begin, jac=True, method="L-BFGS-B", options=options)
    return start + scale * end.x, -float(end.fun) if end.fun < BARRIER else -np.inf
