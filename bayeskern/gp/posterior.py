"""Gaussian processes given data: predictions, components, leave-one-out densities."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy.typing import ArrayLike

from bayeskern.core.functions import compiled, compiled_or_raised
from bayeskern.gp import plot
from bayeskern.gp.prior import (
    Inputs,
    evaluate_mean,
    mask_residual,
    mean_at,
    mean_of_rows,
    new_rows,
    observes_kinds_of,
    per_point,
)
from bayeskern.kernels.base import Kernel
from bayeskern.kernels.components import component_names, part_of
from bayeskern.kernels.measured.kernel import (
    RowKinds,
    are_in_units_of_f,
    as_rows,
    measured,
    points_of,
)
from bayeskern.linalg import Factor, NoisyGram, Solver
from bayeskern.linalg.dense import DenseSolver
from bayeskern.linalg.factor import AnyArray
from bayeskern.prediction.mixture import Prediction, chunked

if TYPE_CHECKING:
    # matplotlib takes long to import.
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


class LeaveOneOut(NamedTuple):
    """Predictive distribution of each y_i given all other observations.

    Attributes:
        mean: E[y_i | y_-i], shape (n,).
        variance: Var[y_i | y_-i], noise included, shape (n,).
        log_density: log p(y_i | y_-i), shape (n,).
    """

    mean: Array
    variance: Array
    log_density: Array


class ConditionedGP(eqx.Module):
    """Gaussian process given data, as `GaussianProcess.condition` returns it.

    All predictions use one factor of C = K + noise I and the weights a = C^-1 (y - m): f at x has
    mean m(x) + k(x, X) a and variance k(x, x) - k(x, X) C^-1 k(X, x).

    Attributes:
        kernel: The kernel.
        X: The inputs, shape (n, d), or measured rows, shape (n, 2, d + 1).
        y: The observations, shape (n,).
        noise: Noise variance, a number or shape (n,); or a covariance matrix, shape (n, n).
        prior_mean: Prior mean: a number, shape (n,), or a function of one point.
        observed: Mask of the observed rows, shape (n,); None if all are observed.
        factor: Factor of C.
        weights: a, shape (n,).
        columns: Columns of X if it was a data frame, or None.
        solver: The solver that factored C.

    References:
        Rasmussen and Williams (2006), equations 2.25 and 2.26 and algorithm 2.1.

    Examples:
        >>> import bayeskern as bk
        >>> from bayeskern.kernels import RBF
        >>> gp = bk.GaussianProcess(RBF(), [0.0, 1.0, 2.0], noise=0.01).condition([0.0, 1.0, 0.0])
        >>> gp.predict([1.0], latent=True).sd.round(2)
        array([0.1])
        >>> round(float(gp.loo().mean[0]), 2)
        0.81
    """

    kernel: Kernel
    X: Array
    y: Array
    noise: Array
    prior_mean: Array | Callable
    observed: Array | None
    factor: Factor
    weights: Array
    columns: tuple[str, ...] | None = eqx.field(static=True)
    solver: Solver

    @property
    def matrix(self) -> NoisyGram:
        """Covariance matrix of the observations, C."""
        return NoisyGram(self.kernel, self.X, self.noise, self.observed)

    @property
    def jitter(self) -> Array:
        """Share of each diagonal entry of C added to it so that its factorization succeeds."""
        return self.factor.jitter

    @property
    def residuals(self) -> Array:
        """y - m in observed rows, else 0: (n,)."""
        return mask_residual(self.y - evaluate_mean(self.prior_mean, self.X), self.observed)

    @property
    def residual(self) -> float:
        """Largest error of C a = y - m in a row, relative to |y - m| and to the sd of y there.

        The product is one with C itself, not with its factor or jitter. Each row has its own
        scale, so that a row of large variance does not hide errors of the others.
        """
        r = np.asarray(self.residuals)
        errors = np.abs(self.solver.solution_errors(self.matrix, self.weights, r))
        variances = self.kernel.evaluate_diag(self.X) + self.matrix.noise_of_rows()
        sizes = np.maximum(np.abs(r), np.sqrt(np.asarray(variances)))
        # A row without variance and value has no error.
        return float(np.max(np.divide(errors, sizes, out=errors, where=sizes > 0.0)))

    def predict(
        self,
        X_new: Inputs,
        latent: bool = False,
        noise: ArrayLike | None = None,
        mean: ArrayLike | None = None,
    ) -> Prediction:
        """Predictive distribution at new points.

        Args:
            X_new: New inputs, shape (m, d) or (m,), or a data frame with the same columns;
                `Interval`, `Derivative`, or a list of these.
            latent: Whether to predict f itself, rather than a new observation. Means, integrals
                and derivatives are predicted without noise if no row of their kind was observed,
                unless `noise` is given.
            noise: Noise variance of new observations, a number or shape (m,). Required if the
                training noise differs from point to point.
            mean: Prior mean at X_new, a number or shape (m,). Required if the prior mean was given
                as an array.

        Returns:
            A `Prediction` with the additive components of the kernel.

        Raises:
            ValueError: If the noise or the mean at X_new is unknown, or X_new lacks columns of X.
        """
        rows, kinds = new_rows(X_new, self.kernel, self.X, self.columns)
        gp = self.measured(kinds)
        has_noise = observes_kinds_of(gp.X, rows) if noise is None else jnp.ones(())
        latent = latent or not np.any(has_noise)
        new_noise = gp.new_noise(noise, rows.shape[0], latent) * has_noise
        return ProcessPrediction(gp, rows, new_noise, gp.new_mean(mean, rows))

    def measured(self, kinds: RowKinds | None) -> ConditionedGP:
        """Copy for predictions of measured rows too.

        The factor of the data is kept. Covariances of the data with means and derivatives are
        dense, whatever the solver.

        Args:
            kinds: Kinds of rows to predict; None for points.
        """
        if kinds is None:
            return self
        kernel = measured(self.kernel, kinds)
        if not self.kernel.is_of_points:
            return dataclasses.replace(self, kernel=kernel)
        return dataclasses.replace(
            self,
            kernel=kernel,
            X=as_rows(self.X),
            prior_mean=mean_of_rows(self.prior_mean, kinds),
            solver=DenseSolver(),
        )

    def covariance(self, X_new: Inputs) -> Float[Array, "m m"]:
        """Joint posterior covariance of f at X_new.

        Args:
            X_new: New inputs, shape (m, d) or (m,), or a data frame with the same columns.

        Returns:
            Shape (m, m).
        """
        rows, kinds = new_rows(X_new, self.kernel, self.X, self.columns)
        gp = self.measured(kinds)
        return compiled_or_raised(gp.solver.covariance, gp.matrix, None, gp.factor, rows)

    def loo(self) -> LeaveOneOut:
        """Leave-one-out predictions in closed form, from the factor of C.

        Returns:
            Means, variances and log densities, NaN in masked rows.

        References:
            Rasmussen and Williams (2006), equations 5.10-5.12.
        """
        variance = 1.0 / compiled(self.factor.inv_diag)
        mean = self.y - self.weights * variance
        log_density = -0.5 * (jnp.square(self.weights) * variance + jnp.log(2 * jnp.pi * variance))
        observed = True if self.observed is None else self.observed
        return LeaveOneOut(
            *(jnp.where(observed, x, jnp.nan) for x in (mean, variance, log_density))
        )

    def plot_samples(
        self,
        X_new: Inputs | None = None,
        n: int = 5,
        level: float = 0.95,
        seed: int = 0,
        ax: Axes | None = None,
    ) -> Figure:
        """Plot functions sampled from the posterior over one input, with median and band.

        Args:
            X_new: Inputs of one column, shape (m,) or (m, 1), or a data frame; the plot spans their
                range. X by default.
            n: Number of functions.
            level: Probability of the central band, at each point.
            seed: Seed of the draws.
            ax: Axes to plot in; a new figure if None.

        Returns:
            The figure, with the observations as dots. Means over intervals are shown at their
            midpoints; integrals and derivatives are left out.

        Raises:
            ValueError: If there are several inputs, or the prior mean was given as an array.
        """
        points = plot.points(X_new, points_of(self.X), self.columns)
        rows, kinds = new_rows(points, self.kernel, self.X, self.columns)
        gp = self.measured(kinds)
        f = ProcessPrediction(gp, rows, jnp.zeros(()), mean_at(gp.prior_mean, rows))
        shown = np.ones(len(self.X), bool) if self.observed is None else np.asarray(self.observed)
        shown = shown & are_in_units_of_f(self.X)
        data = np.asarray(points_of(self.X))[shown, 0], np.asarray(self.y)[shown]
        return plot.samples(points, f, self.columns, n, level, seed, ax, data)

    def new_noise(self, noise: ArrayLike | None, m: int, latent: bool) -> Array:
        """Noise variance at m new points; 0 if `latent`."""
        if latent:
            return jnp.zeros(())
        if noise is None and jnp.ndim(self.noise) > 0:
            raise ValueError(
                "the training noise differs from point to point, so the noise at new points is "
                "unknown: give noise=..., or latent=True to predict the function without noise."
            )
        return self.noise if noise is None else per_point("noise", noise, m)

    def new_mean(self, mean: ArrayLike | None, X_new: Array) -> Array:
        """Prior mean at new points X_new (m, d), or `mean` if it is not None."""
        if mean is None:
            return mean_at(self.prior_mean, X_new)
        return per_point("mean", mean, X_new.shape[0])


class ProcessPredictive(eqx.Module):
    """Process given data, or one of its additive components, at new points or rows X.

    Attributes:
        gp: The conditioned process.
        part: Name of the component; None for the whole process.
        X: New points, (m, d), or measured rows, (m, 2, d + 1).
        prior_mean: Prior mean at X, a number or (m,).
        noise: Noise variance at X, a number or (m,).
    """

    gp: ConditionedGP
    part: str | None = eqx.field(static=True)
    X: Array
    prior_mean: Array
    noise: Array

    def mean(self) -> Array:
        """Means: (m,)."""
        gp = self.gp
        latent = gp.solver.mean(gp.matrix, self.part, gp.factor, gp.residuals, gp.weights, self.X)
        return latent + self.prior_mean

    def moments(self) -> tuple[Array, Array]:
        """Means and variances: (m,), (m,)."""
        gp = self.gp
        variance = gp.solver.variance(gp.matrix, self.part, gp.factor, self.X)
        return self.mean(), variance + self.noise

    def sample(self, key: Array, n: int) -> Array:
        """Joint draws: (n, m)."""
        gp = self.gp
        key_f, key_noise = jax.random.split(key)
        deviations = gp.solver.deviations(gp.matrix, self.part, gp.factor, self.X, key_f, n)
        errors = jax.random.normal(key_noise, deviations.shape, deviations.dtype)
        return deviations + self.mean() + jnp.sqrt(self.noise) * errors


# -- one conditioned process as a Prediction -------------------------------------------------------

_mean_jit = eqx.filter_jit(lambda predictive: predictive.mean())
moments_jit = eqx.filter_jit(lambda predictive: predictive.moments())
sample_jit = eqx.filter_jit(lambda predictive, key, n: predictive.sample(key, n))


class ProcessPrediction(Prediction):
    """Lazy prediction at X_new of one conditioned process, or of its component `part`.

    Args:
        gp: The conditioned process.
        X_new: New points, (m, d), or measured rows, (m, 2, d + 1).
        noise: Noise variance at X_new, a number or (m,).
        mean: Prior mean at X_new, a number or (m,).
        part: Name of the component; None for the whole process.
    """

    def __init__(
        self, gp: ConditionedGP, X_new: AnyArray, noise: Array, mean: Array, part: str | None = None
    ):
        self._gp, self._X_new, self._noise, self._mean, self._part = gp, X_new, noise, mean, part
        if part is None:
            self._component = partial(_component, gp, X_new)
            self.components = tuple(component_names(gp.kernel))

    @property
    def _numbers_per_point(self) -> int:
        """Array elements that the solver holds for each new point."""
        return self._gp.solver.numbers_per_point(self._gp.kernel, self._gp.X.shape[0])

    def _at(self, X: Any) -> ProcessPredictive:
        zero = jnp.zeros(())
        return ProcessPredictive(self._gp, self._part, X, zero, zero)

    def _means(self) -> np.ndarray:
        f = chunked(lambda X: _mean_jit(self._at(X)), self._numbers_per_point, self._X_new)
        return (f + self._mean)[None]

    def _moments(self) -> tuple[np.ndarray, np.ndarray]:
        n = self._numbers_per_point
        f = chunked(lambda X: jnp.stack(moments_jit(self._at(X))), n, self._X_new)
        return (f[0] + self._mean)[None], (f[1] + self._noise)[None]

    def _draw(self, key: Array, size: int) -> np.ndarray:
        X_new = jnp.asarray(self._X_new)
        predictive = ProcessPredictive(self._gp, self._part, X_new, self._mean, self._noise)
        return np.asarray(sample_jit(predictive, key, size))


def _component(gp: ConditionedGP, X_new: AnyArray, name: str) -> ProcessPrediction:
    """Prediction of one additive component."""
    # Raises for an unknown name here, not when the lazy prediction is evaluated.
    part_of(gp.kernel, name)
    return ProcessPrediction(gp, X_new, jnp.zeros(()), jnp.zeros(()), name)
