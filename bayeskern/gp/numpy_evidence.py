"""The evidence of a Gaussian process in time and its gradient, in NumPy: nothing is compiled.

A first fit in JAX waits ten seconds and more for the compiler; with a few hundred values the whole
search takes a tenth of a second here. The formulas are those of `GPRegression` and of its kernels.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpyro.distributions as dist
from numpyro.distributions import transforms
from scipy.linalg import lapack, solve_triangular
from threadpoolctl import threadpool_limits

from bayeskern.gp.prior import is_function
from bayeskern.gp.regression import GPRegression
from bayeskern.hyperparameters import is_specified
from bayeskern.kernels.derivatives import Pairs, gram, has_derivatives

LOG_2PI = float(np.log(2.0 * np.pi))


class LogNormalPrior(NamedTuple):
    """value = least + exp(z), with z ~ N(location, scale^2)."""

    location: float
    scale: float
    least: float = 0.0

    @classmethod
    def of(cls, prior) -> LogNormalPrior | None:
        """The prior of a hyperparameter in this form, or None if it has another one."""
        # A LogNormal is the exponential of a Normal, and stays so with a shift after it.
        if not isinstance(prior, dist.TransformedDistribution) or prior.batch_shape != ():
            return None
        base, (first, *others) = prior.base_dist, prior.transforms
        is_exponential = type(base) is dist.Normal and type(first) is transforms.ExpTransform
        if not (is_exponential and all(map(_is_shift, others))):
            return None
        return cls(float(base.loc), float(base.scale), float(sum(t.loc for t in others)))


def _is_shift(transform) -> bool:
    return type(transform) is transforms.AffineTransform and transform.scale == 1.0


class NumpyEvidence:
    """log p(y, hyperparameters) of a GPRegression in time, over unconstrained coordinates z.

    The hyperparameters with a prior are least + exp(z), in the order of the sites of the model;
    the noise comes last. `of` makes one where the model allows it.

    Attributes:
        names: The names of the sites, d of them.
        priors: The prior of each, on z.
    """

    def __init__(self, model: GPRegression, x, y):
        """x, y: (n,)."""
        self.kernel, self.x, self.y = model.kernel, x, y
        values = {**model.kernel.hyperparameters(), "noise": model.noise}
        free = [is_specified(value) for value in values.values()]
        self.names = tuple(n for n, is_free in zip(values, free, strict=True) if is_free)
        self.priors = [LogNormalPrior.of(values[name]) for name in self.names]
        self._free = np.flatnonzero(free)
        self._values = np.array(
            [0.0 if is_free else float(v) for v, is_free in zip(values.values(), free, strict=True)]
        )
        self._location, self._scale, self._least = np.reshape(self.priors, (-1, 3)).astype(float).T
        self._pairs = Pairs.among(x)

    @classmethod
    def of(cls, model: GPRegression, x, y) -> NumpyEvidence | None:
        """The evidence of a model, or None if its kernel, mean or priors are not known here."""
        values = [*model.kernel.hyperparameters().values(), model.noise]
        known = all(
            LogNormalPrior.of(v) is not None if is_specified(v) else np.ndim(v) == 0 for v in values
        )
        has_mean = is_function(model.mean) or is_specified(model.mean) or np.any(model.mean != 0.0)
        if has_mean or not known or not has_derivatives(model.kernel):
            return None
        return cls(model, x, y)

    def threads(self):
        """A context in which BLAS takes one thread: several only wait for one another here."""
        return threadpool_limits(1, "blas")

    @property
    def middle(self) -> np.ndarray:
        """The median of the prior: (d,)."""
        return self._location

    def values(self, z) -> dict[str, np.ndarray]:
        """The hyperparameters by name, for z of shape (..., d)."""
        values = self._least + np.exp(z)
        return {name: values[..., i] for i, name in enumerate(self.names)}

    def log_density(self, z) -> tuple[float, np.ndarray]:
        """The log density at z (d,), and its gradient; -inf and zeros where K has no factor.

        Rasmussen and Williams (2006), equations 5.8 and 5.9, and the prior of z.
        """
        *kernel_values, noise = self._at(z)
        n, pairs = len(self.y), self._pairs
        K, derivatives = gram(self.kernel, kernel_values, pairs)
        K = pairs.spread(K) + noise * np.eye(n)
        factor, failed = lapack.dpotrf(K, lower=1)
        if failed:
            return -np.inf, np.zeros(len(z))
        weights, _ = lapack.dpotrs(factor, self.y, lower=1)
        inverse, _ = lapack.dpotri(factor, lower=1)
        inverse = np.tril(inverse) + np.tril(inverse, -1).T
        # d log p / d theta = 1/2 tr((a a' - K^-1) dK / d theta)
        A = np.outer(weights, weights) - inverse
        trace_with = pairs.contract(A)
        slopes = np.empty(len(z))
        for i, place in enumerate(self._free):
            is_noise = place == len(derivatives)
            slopes[i] = np.trace(A) if is_noise else trace_with(derivatives[place]())
        standard = (z - self._location) / self._scale
        value = -0.5 * (self.y @ weights + standard @ standard) - np.log(np.diag(factor)).sum()
        value -= 0.5 * (n + len(z)) * LOG_2PI + np.log(self._scale).sum()
        return value, 0.5 * slopes * np.exp(z) - standard / self._scale

    def predict(self, z, x_new) -> tuple[np.ndarray, np.ndarray]:
        """Means and variances of new observations at x_new (m,): (m,) each. z: (d,)."""
        solve, values, noise = self._conditioned(z)
        among, _ = gram(self.kernel, values, Pairs(x_new, x_new))
        half, mean = solve(x_new)
        return mean, np.maximum(among - np.sum(np.square(half), axis=0), 0.0) + noise

    def draw(self, z, x_new, standard) -> np.ndarray:
        """Joint draws of new observations at x_new (m,), from standard normal ones: (k, m) both."""
        solve, values, noise = self._conditioned(z)
        among, _ = gram(self.kernel, values, Pairs(x_new[:, None], x_new[None, :]))
        half, mean = solve(x_new)
        covariance = among - half.T @ half + noise * np.eye(len(x_new))
        return mean + standard @ _factor(covariance).T

    def _conditioned(self, z):
        """The process given the data: x_new -> L^-1 k(x, x_new) (n, m) and the mean (m,)."""
        *values, noise = self._at(z)
        K, _ = gram(self.kernel, values, self._pairs)
        factor = _factor(self._pairs.spread(K) + noise * np.eye(len(self.y)))
        weights = solve_triangular(factor, self.y, lower=True, check_finite=False)

        def solve(x_new):
            between, _ = gram(self.kernel, values, Pairs(self.x[:, None], x_new[None, :]))
            half = solve_triangular(factor, between, lower=True, check_finite=False)
            return half, weights @ half

        return solve, values, noise

    def curvature(self, z, step: float = 1e-4) -> np.ndarray:
        """The Hessian of -log p at z (d, d), by central differences of the gradient."""
        steps = step * np.eye(len(z))
        with self.threads():
            H = [self.log_density(z - h)[1] - self.log_density(z + h)[1] for h in steps]
        return 0.25 * (np.array(H) + np.array(H).T) / step

    def _at(self, z) -> np.ndarray:
        values = self._values.copy()
        values[self._free] = self._least + np.exp(z)
        return values


def _factor(K) -> np.ndarray:
    """The Cholesky factor of K; NaN where it has none."""
    factor, failed = lapack.dpotrf(K, lower=1)
    return np.full_like(K, np.nan) if failed else factor
