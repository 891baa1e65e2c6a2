"""Optimise hyperparameters of kernel ridge regression by a selection criterion."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from numpyro.distributions import biject_to
from numpyro.distributions.constraints import Constraint, nonnegative, positive
from scipy.optimize import minimize
from sklearn.exceptions import ConvergenceWarning

from bayeskern import hyperparameters as hyper
from bayeskern.core.plateaus import Neighbourhood
from bayeskern.core.random import stream
from bayeskern.core.scalars import scalar_name
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

    def mean_square(self) -> float:
        """Mean square of the weighted targets, around a constant if there is one."""
        T, u = self.T, self.u
        if self.constant:
            T = T - np.outer(u, u @ T / (u @ u))
        return float(np.mean(np.square(T)))


class Objective(NamedTuple):
    """A criterion of kernel ridge as a function of `Free` hyperparameters and alpha.

    Attributes:
        kernel: The kernel with starting values in place of `Free`.
        names: The dotted names of the free values in the kernel.
        paths: Their paths.
        constraints: The constraints of the free values.
        alpha: The penalty; None if it is optimised too.
        criterion: "loo", "gcv" or "evidence".
    """

    kernel: Kernel
    names: tuple[str, ...]
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
        names, limits = tuple(s.name for s in sites), tuple(s.constraint for s in sites)
        return cls(start, names, paths, limits, alpha, criterion)

    def with_values(self, values: Mapping[str, np.ndarray]) -> Objective:
        """The objective with other starting values, by name."""
        paths = dict(zip(self.names, self.paths, strict=True))
        kernel = hyper.replace(
            self.kernel, [paths[name] for name in values], map(jnp.asarray, values.values())
        )
        return self._replace(kernel=kernel)

    def coordinates(self) -> tuple[list[str], np.ndarray]:
        """Names of the unconstrained coordinates of the kernel, and True where they are logs."""
        names, logs = [], []
        for name, constraint, value in zip(
            self.names, self.constraints, self._unconstrained(), strict=True
        ):
            names += [scalar_name(name, index) for index in np.ndindex(np.shape(value))]
            is_log = constraint in (positive, nonnegative)
            logs += [is_log] * np.size(value)
        return names, np.array(logs)

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


class Starts(NamedTuple):
    """Starts of a search, and the range of alpha.

    Attributes:
        own: The starting values of the user, in unconstrained coordinates.
        centre: Starting values in the units of the data.
        alpha_range: Lower and upper bound of alpha, the last coordinate; None if alpha is fixed.
        restarts: Number of further starts, random ones around `centre`.
        seed: Seed of the random starts.
    """

    own: np.ndarray
    centre: np.ndarray
    alpha_range: tuple[float, float] | None
    restarts: int
    seed: int

    def bounds(self, is_log: np.ndarray) -> list[tuple]:
        """Bounds: a factor of 1e6 from `centre` for logs, the range of alpha, no others.

        is_log: True for the logarithms among the coordinates of the kernel.
        """
        reach = np.log(1e6)
        low, high = (
            np.minimum(self.own, self.centre - reach),
            np.maximum(self.own, self.centre + reach),
        )
        bounds = [
            (low[i], high[i]) if log else (None, None) for i, log in enumerate(is_log.tolist())
        ]
        return bounds if self.alpha_range is None else [*bounds, tuple(np.log(self.alpha_range))]

    def random(self, bounds: list[tuple]) -> np.ndarray:
        """The further starts, with sds of a factor of e^1.5, (restarts, d)."""
        rng = stream(self.seed, "restarts")
        draws = self.centre + 1.5 * rng.standard_normal((self.restarts, len(self.centre)))
        low, high = np.array(bounds, float).T
        return np.fmin(np.fmax(draws, low), high)


def tune(objective: Objective, starts: Starts, rows: WeightedRows) -> tuple[Kernel, float]:
    """Minimise the objective by quasi-Newton steps (L-BFGS) from several starts.

    If the searches from the user's start and from the units of the data agree, and their end is not
    on a plateau, no further ones are made.

    Args:
        objective: The criterion.
        starts: The starts.
        rows: The data.

    Returns:
        The kernel and alpha at the minimum.

    Warns:
        sklearn.exceptions.ConvergenceWarning: If the steps end at a gradient that is not small, on
            a plateau, or at a bound of a hyperparameter.
    """
    data = jnp.asarray(rows.X), jnp.asarray(rows.T), jnp.asarray(rows.u)
    # The value for the line search where the criterion is not finite.
    rejected_value = 1e10

    def evaluate(position):
        value, gradient = _evaluate(position, objective, *data, rows.sign, rows.constant)
        if not np.isfinite(value) or not np.all(np.isfinite(gradient)):
            return rejected_value, np.zeros_like(position)
        return float(value), np.array(gradient)

    names, is_log = objective.coordinates()
    bounds = starts.bounds(is_log)

    def search(start):
        # Tighter than by default, so that the optimum hardly depends on the start.
        tolerances = {"ftol": 1e-13, "gtol": 1e-7}
        return minimize(
            evaluate, start, jac=True, method="L-BFGS-B", bounds=bounds, options=tolerances
        )

    # Criteria are logarithms or means over points: times n, they are in nats.
    n, extra = len(rows.X), len(starts.own) - len(names)
    neighbourhood = Neighbourhood(
        lambda z: -n * np.array([evaluate(position)[0] for position in z]),
        np.r_[is_log, np.zeros(extra, bool)],
        starts.centre,
        (*names, *["alpha"] * extra),
    )

    def flat_directions(optimum):
        no_hessian = np.zeros((len(optimum.x), len(optimum.x)))
        return neighbourhood.flat_directions(optimum.x, -n * optimum.fun, no_hessian)

    optima = [search(start) for start in (starts.own, starts.centre)]
    optimum, other = sorted(optima, key=lambda o: o.fun)
    agree = other.fun - optimum.fun < 1e-6 and np.max(np.abs(other.x - optimum.x)) < 0.05
    if not agree or any(d.limit is None for d in flat_directions(optimum)):
        higher = neighbourhood.higher(optimum.x, -n * optimum.fun, flat_directions(optimum))
        further = [search(start) for start in (*higher[:1], *starts.random(bounds))]
        optimum = min([optimum, *further], key=lambda o: o.fun)
    gradient_norm = np.max(np.abs(optimum.jac))
    # A gradient below 1e-4 leaves little to gain.
    if optimum.fun >= rejected_value or (not optimum.success and gradient_norm > 1e-4):
        _warn(
            objective,
            f"stopped where the gradient is {gradient_norm:.2g}: {optimum.message}. Use other "
            "starting values, or scale X and y to be of order 1.",
        )
    flat = {name: d.limit for d in flat_directions(optimum) for name in d.coordinates}
    for i, name in enumerate(names):
        if name in flat and flat[name] is None:
            _warn(
                objective,
                f"ended on a plateau: the data do not determine {name}, and a factor of 10 hardly "
                "changes the criterion, so its value is arbitrary. Fix it, or start it in the "
                "units of the data with more restarts.",
            )
        elif name not in flat and optimum.x[i] in bounds[i]:
            _warn(
                objective,
                f"ended at the bound of {name}, a factor of 1e6 from the units of the data: the "
                "best may lie beyond. Fix it, or use a kernel that suits the data.",
            )
    kernel, alpha = objective.at(jnp.asarray(optimum.x))
    return kernel, float(alpha)


def _warn(objective: Objective, problem: str) -> None:
    warnings.warn(f"optimize={objective.criterion!r} {problem}", ConvergenceWarning, stacklevel=5)


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
