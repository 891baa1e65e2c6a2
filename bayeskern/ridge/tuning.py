"""Hyperparameters of kernel ridge by gradient: of the leave-one-out error, GCV or the evidence."""

from __future__ import annotations

import warnings
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from numpyro.distributions import biject_to
from numpyro.distributions.constraints import Constraint
from scipy.optimize import minimize
from sklearn.exceptions import ConvergenceWarning

from bayeskern import hyperparameters as hyper
from bayeskern.kernels.base import Kernel
from bayeskern.linalg import inverse_and_logdet
from bayeskern.ridge import criteria
from bayeskern.ridge.reflection import Reflection

# Criteria are means over points, or logarithms: below this gradient little is left to gain.
GRADIENT_TOLERANCE = 1e-4
# The value that the line search sees where a criterion has none.
REJECTED = 1e10


class Objective(NamedTuple):
    """A criterion of kernel ridge as a function of its `Free` hyperparameters, and of alpha."""

    #: the kernel with its free values at their starts
    kernel: Kernel
    paths: tuple
    constraints: tuple[Constraint, ...]
    #: None where it is to be chosen
    alpha: float | None
    criterion: str

    @classmethod
    def of(cls, criterion: str, kernel, alpha) -> Objective:
        sites = [
            s for s in hyper.sites(kernel) if isinstance(hyper.get(kernel, s.path), hyper.Free)
        ]
        if not sites:
            raise ValueError(
                f"optimize={criterion!r} has nothing to find: no hyperparameter of {kernel!r} is "
                "marked with Free(start). Mark some, or leave optimize out."
            )
        paths = tuple(s.path for s in sites)
        starts = [hyper.get(kernel, path).init for path in paths]
        # Free values that are numbers in the kernel may pass into a compiled function.
        start = hyper.replace(kernel, paths, map(jnp.asarray, starts)).require_concrete()
        return cls(start, paths, tuple(s.constraint for s in sites), alpha, criterion)

    def start(self) -> np.ndarray:
        """The free values at their starts, in unconstrained coordinates; without log alpha."""
        return np.concatenate([np.ravel(v) for v in self._unconstrained()])

    def at(self, position):
        """(kernel, alpha) at unconstrained coordinates; a chosen log alpha comes last."""
        values, end = [], 0
        for constraint, start in zip(self.constraints, self._unconstrained(), strict=True):
            begin, end = end, end + np.size(start)
            values.append(biject_to(constraint)(position[begin:end].reshape(np.shape(start))))
        alpha = jnp.exp(position[-1]) if self.alpha is None else self.alpha
        return hyper.replace(self.kernel, self.paths, values), alpha

    def _unconstrained(self):
        pairs = zip(self.constraints, self.paths, strict=True)
        return [biject_to(c).inv(hyper.get(self.kernel, path)) for c, path in pairs]


def tune(
    objective: Objective, alphas: tuple | None, X, T, sqrt_weights, sign: float, constant: bool
):
    """(kernel, alpha) at the minimum to which quasi-Newton steps (L-BFGS) lead.

    alphas: the first alpha, the lowest and the highest allowed; None if alpha is held. X: (n, d);
    T: (n, k), targets times sqrt_weights; sqrt_weights: (n,); sign: -1 for a multiquadric. Warns
    with ConvergenceWarning if the steps end where the gradient is not small.
    """
    data = jnp.asarray(X), jnp.asarray(T), jnp.asarray(sqrt_weights)

    def evaluate(position):
        value, gradient = _evaluate(position, objective, *data, sign, constant)
        if not np.isfinite(value) or not np.all(np.isfinite(gradient)):
            return REJECTED, np.zeros_like(position)
        return float(value), np.array(gradient)

    start = objective.start()
    bounds = [(None, None)] * len(start)
    if alphas is not None:
        first, lowest, highest = np.log(alphas)
        start, bounds = np.append(start, first), [*bounds, (lowest, highest)]
    optimum = minimize(evaluate, start, jac=True, method="L-BFGS-B", bounds=bounds)
    gradient_norm = np.max(np.abs(optimum.jac))
    if optimum.fun >= REJECTED or (not optimum.success and gradient_norm > GRADIENT_TOLERANCE):
        warnings.warn(
            f"optimize={objective.criterion!r} stopped where the gradient is {gradient_norm:.2g}: "
            f"{optimum.message}. Start elsewhere, or scale X and y to be of order 1.",
            ConvergenceWarning,
            stacklevel=4,
        )
    kernel, alpha = objective.at(jnp.asarray(optimum.x))
    return kernel, float(alpha)


@eqx.filter_jit
def _evaluate(position, objective, X, T, sqrt_weights, sign, constant):
    def value(position):
        kernel, alpha = objective.at(position)
        K = sign * sqrt_weights[:, None] * kernel.evaluate(X) * sqrt_weights
        return _loss(objective.criterion, K, T, alpha, sqrt_weights, constant)

    return jax.value_and_grad(value)(position)


def _loss(criterion: str, K, T, alpha, sqrt_weights, constant: bool):
    """The log of a root mean squared error up to a constant, or minus the mean log evidence."""
    coefficients, inverse_diagonal, logdet = _solve(K, T, alpha, sqrt_weights, constant)
    columns = inverse_diagonal[:, None]
    if criterion == "loo":
        return 0.5 * jnp.log(jnp.sum(criteria.loo_sum_of_squares(coefficients, columns)))
    if criterion == "gcv":
        return 0.5 * jnp.log(jnp.sum(criteria.gcv_ratio(coefficients, columns)))
    n = K.shape[0]
    quadratic = jnp.sum(T * coefficients, axis=0)
    return -jnp.mean(criteria.log_evidence(quadratic, logdet, n - constant)) / n


def _solve(K, T, alpha, sqrt_weights, constant: bool):
    """(C T, diag C, log |M + alpha I|) as `dual_system` defines them, with derivatives."""
    n = K.shape[0]
    if not constant:
        inverse, coefficients, logdet = inverse_and_logdet(K + alpha * jnp.eye(n), T)
        return coefficients, jnp.diagonal(inverse), logdet
    H = Reflection.onto_first_axis(sqrt_weights)
    M = H.conjugate(K)[1:, 1:]
    inverse, reduced, logdet = inverse_and_logdet(M + alpha * jnp.eye(n - 1), H(T)[1:])
    diagonal = H.lifted_diagonal(jnp.diagonal(inverse), inverse @ H.v[1:])
    return H.lift(reduced), diagonal, logdet
