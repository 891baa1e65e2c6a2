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
from bayeskern.ridge.kernel_ridge.dual_system import LOG_2PI

# Criteria are means over points, or logarithms: below this gradient little is left to gain.
SMALL = 1e-4
# What the line search is told where a criterion has no value.
REFUSED = 1e10


class Objective(NamedTuple):
    """A criterion of kernel ridge as a function of its `Free` hyperparameters, and of alpha."""

    #: the kernel with its free values at their starts
    kernel: Kernel
    paths: tuple
    constraints: tuple[Constraint, ...]
    #: None where it is to be chosen
    alpha: float | None
    name: str

    @classmethod
    def of(cls, name: str, kernel, alpha) -> Objective:
        sites = [
            s for s in hyper.sites(kernel) if isinstance(hyper.get(kernel, s.path), hyper.Free)
        ]
        if not sites:
            raise ValueError(
                f"optimize={name!r} has nothing to find: no hyperparameter of {kernel!r} is marked "
                "with Free(start). Mark some, or leave optimize out."
            )
        paths = tuple(s.path for s in sites)
        starts = [hyper.get(kernel, path).init for path in paths]
        # Free values that are numbers in the kernel may pass into a compiled function.
        start = hyper.replace(kernel, paths, map(jnp.asarray, starts)).require_concrete()
        return cls(start, paths, tuple(s.constraint for s in sites), alpha, name)

    def start(self) -> np.ndarray:
        """Unconstrained coordinates of the free values; log alpha comes behind them."""
        return np.concatenate([np.ravel(v) for v in self._unconstrained()])

    def at(self, position):
        """(kernel, alpha) at unconstrained coordinates."""
        values, end = [], 0
        for constraint, start in zip(self.constraints, self._unconstrained(), strict=True):
            begin, end = end, end + np.size(start)
            values.append(biject_to(constraint)(position[begin:end].reshape(np.shape(start))))
        alpha = jnp.exp(position[-1]) if self.alpha is None else self.alpha
        return hyper.replace(self.kernel, self.paths, values), alpha

    def _unconstrained(self):
        pairs = zip(self.constraints, self.paths, strict=True)
        return [biject_to(c).inv(hyper.get(self.kernel, path)) for c, path in pairs]


def tune(objective: Objective, alphas: tuple | None, X, T, s, sign: float, constant: bool):
    """(kernel, alpha) in the minimum that quasi-Newton steps (L-BFGS) lead to.

    alphas: the first alpha, the lowest and the highest allowed, None if it is held. X: (n, d); T:
    (n, k), targets times s; s: (n,), square roots of weights; sign: -1 for a multiquadric. Warns
    with ConvergenceWarning if the steps end where the gradient is not small.
    """
    data = jnp.asarray(X), jnp.asarray(T), jnp.asarray(s)

    def evaluate(position):
        value, gradient = _evaluate(position, objective, *data, sign, constant)
        if not np.isfinite(value) or not np.all(np.isfinite(gradient)):
            return REFUSED, np.zeros_like(position)
        return float(value), np.array(gradient)

    start = objective.start()
    bounds = [(None, None)] * len(start)
    if alphas is not None:
        first, lowest, highest = np.log(alphas)
        start, bounds = np.append(start, first), [*bounds, (lowest, highest)]
    found = minimize(evaluate, start, jac=True, method="L-BFGS-B", bounds=bounds)
    slope = np.max(np.abs(found.jac))
    if found.fun >= REFUSED or (not found.success and slope > SMALL):
        warnings.warn(
            f"optimize={objective.name!r} stopped where the gradient is {slope:.2g}: "
            f"{found.message}. Start elsewhere, or scale X and y to be of order 1.",
            ConvergenceWarning,
            stacklevel=4,
        )
    kernel, alpha = objective.at(jnp.asarray(found.x))
    return kernel, float(alpha)


@eqx.filter_jit
def _evaluate(position, objective, X, T, s, sign, constant):
    def value(position):
        kernel, alpha = objective.at(position)
        K = sign * s[:, None] * kernel.evaluate(X) * s
        return _CRITERIA[objective.name](K, T, alpha, s, constant)

    return jax.value_and_grad(value)(position)


# The same numbers as in path.py and system.py, written for differentiation.


def _loo(K, T, alpha, s, constant):
    coefficients, diagonal, _ = _solved(K, T, alpha, s, constant)
    return 0.5 * jnp.log(jnp.sum(jnp.square(coefficients / diagonal[:, None])))


def _gcv(K, T, alpha, s, constant):
    coefficients, diagonal, _ = _solved(K, T, alpha, s, constant)
    return 0.5 * jnp.log(jnp.sum(jnp.square(coefficients))) - jnp.log(jnp.sum(diagonal))


def _evidence(K, T, alpha, s, constant):
    coefficients, _, logdet = _solved(K, T, alpha, s, constant)
    n, k = T.shape
    degrees = n - 1 if constant else n
    return 0.5 * (jnp.sum(T * coefficients) / (n * k) + (logdet + degrees * LOG_2PI) / n)


_CRITERIA = {"loo": _loo, "gcv": _gcv, "evidence": _evidence}


def _solved(K, T, alpha, s, constant):
    """(C T, diag C, log |M + alpha I|), with C and M as in system.py, for weighted K and T."""
    n = K.shape[0]
    if not constant:
        inverse, coefficients, logdet = inverse_and_logdet(K + alpha * jnp.eye(n), T)
        return coefficients, jnp.diagonal(inverse), logdet
    # H s = length e_1
    length = -jnp.linalg.norm(s)
    v = s.at[0].add(-length)
    t = 2.0 / (v @ v)
    w = t * (K @ v)
    w = w - 0.5 * t * (v @ w) * v
    M = (K - v[:, None] * w - w[:, None] * v)[1:, 1:]
    reflected = T - t * v[:, None] * (v @ T)
    inverse, rest, logdet = inverse_and_logdet(M + alpha * jnp.eye(n - 1), reflected[1:])
    rest = jnp.pad(rest, ((1, 0), (0, 0)))
    Av = jnp.pad(inverse @ v[1:], (1, 0))
    diagonal = jnp.pad(jnp.diagonal(inverse), (1, 0))
    diagonal = diagonal - 2.0 * t * v * Av + jnp.square(t * v) * (v @ Av)
    return rest - t * v[:, None] * (v @ rest), diagonal, logdet
