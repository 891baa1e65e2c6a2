"""Fit and forecast of a series without compiling anything, where its model allows that."""

from __future__ import annotations

from dataclasses import dataclass

import jax
import numpy as np
from scipy.optimize import minimize

from bayeskern.gp.numpy_evidence import NumpyEvidence
from bayeskern.inference.assessment.point import assess_point
from bayeskern.inference.methods.base import Method
from bayeskern.inference.methods.map import MAP
from bayeskern.inference.model.target import Target
from bayeskern.inference.optimization.modes import Optimum
from bayeskern.inference.posterior.posterior import Posterior
from bayeskern.inference.result import Fit
from bayeskern.prediction.mixture import Prediction, chunked, shuffled, thin

# With more values than this the matrices that NumPy writes out, one for each derivative, take more
# time and memory than compilation.
MOST_VALUES = 1500
STEPS = 500
# What stands for -log p where there is none.
BARRIER = 1e100


@dataclass(frozen=True)
class Mode(Method):
    """The mode in the unconstrained coordinates, from the median of the prior.

    It is `MAP(starts=1, jacobian=True)`, which it falls back on: for another kernel or another
    prior than `NumpyEvidence` knows, and for long series.
    """

    name = "map"
    is_point = True

    def run(self, target: Target, seed: int, progress: bool) -> Fit:
        evidence = evidence_of(target)
        if evidence is None:
            return MAP(starts=1, jacobian=True).run(target, seed, progress)

        def objective(z):
            value, gradient = evidence.log_density(z)
            # The line search steps back from a high value, but is lost at an infinite one.
            return min(-value, BARRIER), -gradient

        options = {"maxiter": STEPS, "ftol": 1e-13, "gtol": 1e-5}
        with evidence.threads():
            end = minimize(objective, evidence.middle, jac=True, method="L-BFGS-B", options=options)
            z, value, gradient, hessian = _polished(evidence, end.x)
        optimum = Optimum(
            z=z,
            log_density=value,
            gradient=-gradient,
            curvature=lambda: hessian,
            ends=z[None],
            start_log_densities=np.array([value]),
            coordinates=target.coordinates,
            mode="unconstrained",
        )
        return Fit(
            z=z[None, None],
            assess=lambda _: assess_point(optimum),
            optimum=optimum,
            draws=evidence.values(z[None, None]),
        )


def _polished(evidence: NumpyEvidence, z):
    """z, value, gradient and Hessian of -log p after a step of Newton's method, where it helps.

    Rounding ends L-BFGS sooner: it goes by differences of values, Newton's method by the gradient.
    """
    value, gradient = evidence.log_density(z)
    hessian = evidence.curvature(z)
    try:
        closer = z + np.linalg.solve(hessian, gradient)
        closer_value, closer_gradient = evidence.log_density(closer)
    except np.linalg.LinAlgError:
        return z, value, gradient, hessian
    if np.isfinite(closer_value) and np.abs(closer_gradient).max() < np.abs(gradient).max():
        z, value, gradient = closer, closer_value, closer_gradient
    return z, float(value), gradient, hessian


def predict(posterior: Posterior, x_new: np.ndarray) -> Prediction:
    """What `posterior.predict` returns, without its components. x_new: (m,)."""
    evidence = evidence_of(posterior.target)
    if evidence is None:
        return posterior.predict(x_new)
    draws = thin({"z": posterior.z.reshape(-1, posterior.z.shape[-1])})["z"]

    def moments():
        def of_chunk(x):
            return np.stack([evidence.predict(z, x) for z in draws], axis=1)

        with evidence.threads():
            return tuple(chunked(of_chunk, len(evidence.y), x_new))

    def draw(key, count):
        rng = np.random.default_rng(np.asarray(jax.random.key_data(key)))
        standard = rng.standard_normal((len(draws), -(-count // len(draws)), len(x_new)))
        with evidence.threads():
            paths = [evidence.draw(z, x_new, s) for z, s in zip(draws, standard, strict=True)]
        return shuffled(np.array(paths), key, count)

    return Prediction(lambda: moments()[0], moments, draw)


def evidence_of(target: Target) -> NumpyEvidence | None:
    """The evidence of a GPRegression in time, in NumPy; None where JAX has to do it."""
    X, y, mask = map(np.asarray, target.args)
    if mask.sum() > MOST_VALUES or X.shape[1] != 1:
        return None
    return NumpyEvidence.of(target.model, X[mask, 0], y[mask])
