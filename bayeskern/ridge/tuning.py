"""Optimise hyperparameters of kernel ridge regression by a selection criterion."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from numpyro.distributions import biject_to
from numpyro.distributions.constraints import Constraint
from scipy.optimize import minimize
from sklearn.exceptions import ConvergenceWarning

from bayeskern import hyperparameters as hyper
from bayeskern.kernels.base import Kernel
from bayeskern.linalg import inverse_and_logdet
from bayeskern.ridge.penalties import gcv_ratio, loo_sum_of_squares
from bayeskern.ridge.systems import centering, gaussian_log_density


class WeightedRows(NamedTuple):
    """The points of positive weight, to which kernel ridge is fitted.

    Attributes:
        X: Points, (n, d).
        T: Targets times the square roots of the weights, (n, k).
        u: The square roots of the weights, (n,).
        sign: -1 for a multiquadric, whose negative is fitted; otherwise 1.
        constant: True if there is an unpenalised constant.
    """

    X: np.ndarray
    T: np.ndarray
    u: np.ndarray
    sign: float
    constant: bool


class Objective(NamedTuple):
    """A criterion of kernel ridge as a function of `Free` hyperparameters and alpha.

    Attributes:
        kernel: The kernel with starting values in place of `Free`.
        paths: The paths of the free values in the kernel.
        constraints: The constraints of the free values.
        alpha: The penalty; None if it is optimised too.
        criterion: "loo", "gcv" or "evidence".
    """

    kernel: Kernel
    paths: tuple
    constraints: tuple[Constraint, ...]
    alpha: float | None
    criterion: str

    @classmethod
    def of(cls, criterion: str, kernel: Kernel, alpha: float | None) -> Objective:
        """The objective for a kernel; ValueError if it has no `Free` hyperparameters."""
        sites = [
            s for s in hyper.sites(kernel) if isinstance(hyper.get(kernel, s.path), hyper.Free)
        ]
        if not sites:
            raise ValueError(
                f"optimize={criterion!r} has nothing to optimise: no hyperparameter of {kernel!r} "
                "is marked with Free(start). Mark some, or leave optimize out."
            )
        paths = tuple(s.path for s in sites)
        free: list[Any] = [hyper.get(kernel, path) for path in paths]
        starts = [value.init for value in free]
        # With numbers in place of `Free`, the kernel may pass into a compiled function.
        start = hyper.replace(kernel, paths, map(jnp.asarray, starts)).require_concrete()
        return cls(start, paths, tuple(s.constraint for s in sites), alpha, criterion)

    def start(self) -> np.ndarray:
        """The starting values in unconstrained coordinates, without log alpha."""
        return np.array(ravel_pytree(self._unconstrained())[0])

    def at(self, position):
        """(kernel, alpha) at unconstrained coordinates, log alpha last if it is free."""
        start, unravel = ravel_pytree(self._unconstrained())
        free = unravel(position[: start.size])
        values = [biject_to(c)(v) for c, v in zip(self.constraints, free, strict=True)]
        alpha = jnp.exp(position[-1]) if self.alpha is None else self.alpha
        return hyper.replace(self.kernel, self.paths, values), alpha

    def _unconstrained(self):
        pairs = zip(self.constraints, self.paths, strict=True)
        return [biject_to(c).inv(hyper.get(self.kernel, path)) for c, path in pairs]


def tune(objective: Objective, alphas: tuple | None, rows: WeightedRows) -> tuple[Kernel, float]:
    """Minimise the objective by quasi-Newton steps (L-BFGS).

    Args:
        objective: The criterion.
        alphas: Start, lower bound and upper bound of alpha; None if alpha is fixed.
        rows: The data.

    Returns:
        The kernel and alpha at the minimum.

    Warns:
        sklearn.exceptions.ConvergenceWarning: If the steps end at a gradient that is not small.
    """
    data = jnp.asarray(rows.X), jnp.asarray(rows.T), jnp.asarray(rows.u)
    # The value for the line search where the criterion is not finite.
    rejected_value = 1e10

    def evaluate(position):
        value, gradient = _evaluate(position, objective, *data, rows.sign, rows.constant)
        if not np.isfinite(value) or not np.all(np.isfinite(gradient)):
            return rejected_value, np.zeros_like(position)
        return float(value), np.array(gradient)

    start = objective.start()
    bounds: list[tuple] = [(None, None)] * len(start)
    if alphas is not None:
        log_alpha, lowest, highest = np.log(alphas)
        start, bounds = np.append(start, log_alpha), [*bounds, (lowest, highest)]
    optimum = minimize(evaluate, start, jac=True, method="L-BFGS-B", bounds=bounds)
    gradient_norm = np.max(np.abs(optimum.jac))
    # Criteria are means over points, or logarithms: a gradient below 1e-4 leaves little to gain.
    if optimum.fun >= rejected_value or (not optimum.success and gradient_norm > 1e-4):
        warnings.warn(
            f"optimize={objective.criterion!r} stopped where the gradient is {gradient_norm:.2g}: "
            f"{optimum.message}. Use other starting values, or scale X and y to be of order 1.",
            ConvergenceWarning,
            stacklevel=4,
        )
    kernel, alpha = objective.at(jnp.asarray(optimum.x))
    return kernel, float(alpha)


@eqx.filter_jit
def _evaluate(position, objective, X, T, u, sign, constant):
    def value(position):
        kernel, alpha = objective.at(position)
        K = sign * u[:, None] * kernel.evaluate(X) * u
        return _loss(objective.criterion, K, T, alpha, u, constant)

    return jax.value_and_grad(value)(position)


def _loss(criterion: str, K, T, alpha, u, constant: bool):
    """Log RMSE up to a constant, or minus the mean log marginal likelihood."""
    coefficients, inverse_diagonal, logdet = _solve(K, T, alpha, u, constant)
    columns = inverse_diagonal[:, None]
    if criterion == "loo":
        return 0.5 * jnp.log(jnp.sum(loo_sum_of_squares(coefficients, columns)))
    if criterion == "gcv":
        return 0.5 * jnp.log(jnp.sum(gcv_ratio(coefficients, columns)))
    n = K.shape[0]
    quadratic = jnp.sum(T * coefficients, axis=0)
    return -jnp.mean(gaussian_log_density(quadratic, logdet, n - constant)) / n


def _solve(K, T, alpha, u, constant: bool):
    """(C T, diag C, log |A|); with a constant, A acts on vectors orthogonal to u."""
    A = K + alpha * jnp.eye(K.shape[0])
    if not constant:
        inverse, coefficients, logdet = inverse_and_logdet(A, T)
        return coefficients, jnp.diagonal(inverse), logdet
    unit, v, spread = centering(K, u)
    A = A - unit[:, None] * v - v[:, None] * unit
    inverse, coefficients, logdet = inverse_and_logdet(A, T - jnp.outer(unit, unit @ T))
    # C is the inverse of M + alpha I without its eigenvector `unit`.
    eigenvalue = alpha + spread
    diagonal = jnp.diagonal(inverse) - jnp.square(unit) / eigenvalue
    return coefficients, diagonal, logdet - jnp.log(eigenvalue)
