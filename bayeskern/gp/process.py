"""Gaussian processes as NumPyro distributions."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
from jax import Array
from numpy.typing import ArrayLike
from numpyro.distributions import Distribution, constraints

from bayeskern.core import validation
from bayeskern.core.functions import compiled_or_raised
from bayeskern.gp import plot
from bayeskern.gp.posterior import ConditionedGP, ProcessPredictive
from bayeskern.gp.prior import (
    Inputs,
    evaluate_mean,
    mask_residual,
    mean_at,
    mean_of_rows,
    new_rows,
    positive_definite,
    read_mean,
    read_noise_of_rows,
)
from bayeskern.kernels.base import Kernel
from bayeskern.kernels.measured.kernel import RowKinds, as_rows, kinds_of, points_of
from bayeskern.kernels.measured.rows import Rows
from bayeskern.linalg import Choice, Factor, NoisyGram, Solver, explain, solver_of
from bayeskern.prediction.mixture import Prediction

if TYPE_CHECKING:
    # matplotlib takes long to import.
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


class GaussianProcess(Distribution):
    """Distribution of y = f(X) + e with f ~ GP(mean, kernel) and e ~ N(0, noise).

    y ~ N(m(X), k(X, X) + noise I). It is a NumPyro distribution for use in any model:
    `numpyro.sample("y", GaussianProcess(kernel, X, noise), obs=y)`. Inputs may be repeated and
    need not be sorted.

    Args:
        kernel: Covariance function, with a number for every hyperparameter.
        X: Inputs, shape (n, d) or (n,), or a data frame; `Interval` and `Derivative` for means,
            integrals and derivatives; or a list of these.
        noise: Noise variance of the rows of X, a number or an array of shape (n,); or the
            covariance matrix of the noise, shape (n, n), for the dense solver.
        mean: Prior mean m: a number, an array of shape (n,), or a function of one point.
        mask: Shape (n,), True where y is observed; other rows are ignored. By default all rows are
            observed.
        solver: Method to factor K + noise I; `explain` reports the choice and its reasons.

            - "auto": "dense" for fewer than 256 points; otherwise the fastest exact solver that
              fits in memory, or else "neighbors".
            - "dense": Cholesky factor, in O(n^3) operations.
            - "markov": Kalman filter, in O(n), for one input and a kernel with a state-space form.
            - "low_rank": in O(n m^2), for a kernel with m features.
            - "kronecker": for a full grid of inputs and a kernel that is a product over its axes,
              with the same noise at all points and no mask.
            - "neighbors": an O(n) approximation that conditions each point on its 30 nearest
              predecessors.
            - A solver prepared for X by `bayeskern.linalg.solver_of`; X may then be traced by
              `jax.jit`.

    Attributes:
        kernel: The kernel, with column names replaced by indices.
        X: The inputs, shape (n, d).
        noise: The noise variance.
        prior_mean: Prior mean: a number, shape (n,), or a function of one point.
        observed: The mask, or None.
        solver: The chosen solver.

    Raises:
        TypeError: If `kernel` is not a Kernel, or if kernel, noise or mean still holds a
            distribution or `Free`.
        ValueError: If the kernel is not positive definite by construction, the noise is negative,
            the noise or the mean has the wrong shape, or the solver does not fit or needs more
            memory than the machine has.

    References:
        Rasmussen and Williams (2006), Gaussian Processes for Machine Learning, section 2.2.

    Examples:
        >>> import numpy as np
        >>> import bayeskern as bk
        >>> from bayeskern.kernels import RBF
        >>> X, y = np.array([0.0, 1.0, 2.0]), np.array([0.0, 1.0, 0.0])
        >>> process = bk.GaussianProcess(RBF(lengthscale=1.0), X, noise=0.01)
        >>> round(float(process.log_prob(y)), 3)
        -3.617
        >>> prediction = process.condition(y).predict([0.5, 1.5], latent=True)
        >>> prediction.mean.round(3)
        array([0.662, 0.662])
    """

    support = constraints.real_vector  # pyright: ignore[reportAssignmentType]
    pytree_data_fields = ("kernel", "X", "noise", "prior_mean", "observed", "solver")
    pytree_aux_fields = ("columns",)

    def __init__(
        self,
        kernel: Kernel,
        X: Inputs,
        noise: ArrayLike,
        mean: ArrayLike | Callable = 0.0,
        mask: ArrayLike | None = None,
        solver: str | Solver = "auto",
        *,
        validate_args: bool | None = None,
    ):
        rows = Rows.read(X)
        self.columns, n = rows.names, rows.X.shape[0]
        self.kernel = rows.kernel(
            positive_definite(kernel).resolve(self.columns).require_concrete()
        )
        self.X = rows.at(self.kernel)
        self.noise = read_noise_of_rows(noise, n)
        prior_mean = read_mean(mean, n)
        self.prior_mean = mean_of_rows(prior_mean, kinds_of(self.kernel))
        # Not `self.mask`, which is a method of every NumPyro distribution.
        self.observed = None if mask is None else jnp.asarray(mask, bool)
        self.solver = solver_of(self.kernel, self.X, solver, self.noise, self.observed)
        super().__init__(batch_shape=(), event_shape=(n,), validate_args=validate_args)

    @property
    def mean(self) -> Array:
        return jnp.broadcast_to(evaluate_mean(self.prior_mean, self.X), self.event_shape)

    @property
    def variance(self) -> Array:
        return self.kernel.evaluate_diag(self.X) + self._matrix(None).noise_of_rows()

    @property
    def covariance_matrix(self) -> Array:
        """Covariance of y, k(X, X) + noise I: (n, n)."""
        return self._matrix(None).dense()

    def sample(self, key: Array, sample_shape: tuple[int, ...] = ()) -> Array:
        white = jax.random.normal(key, (*sample_shape, *self.event_shape), self.X.dtype)
        factor = self.solver.factor(self._matrix(None))
        draws = factor.sqrt_mul(white.reshape(-1, *self.event_shape).T).T
        return self.mean + draws.reshape(white.shape)

    def explain(self) -> Choice:
        """Report the chosen solver, its cost, and why the others were not chosen.

        Returns:
            The choice. For an approximate solver, its `loss` estimates the log density lost per
            point.
        """
        return explain(self.solver, self._matrix(self.observed))

    def _matrix(self, observed: Array | None) -> NoisyGram:
        return NoisyGram(self.kernel, self.X, self.noise, observed)

    def log_prob(self, value: ArrayLike) -> Array:
        """Log marginal likelihood of kernel and noise, log N(value; mean, K + noise I).

        -inf, with a gradient of 0, where K + noise I is not positive definite.

        Args:
            value: y, shape (..., n).

        Returns:
            Shape (...).
        """
        R = mask_residual(jnp.asarray(value) - self.mean, self.observed)
        return compiled_or_raised(self.solver.log_density, self._matrix(self.observed), R)

    def condition(self, y: ArrayLike) -> ConditionedGP:
        """Condition the process on data, with one factorization for all predictions.

        Args:
            y: Observations, shape (n,).

        Returns:
            The conditioned process.

        Raises:
            NotPositiveDefiniteError: If the covariance cannot be factored.
        """
        targets = validation.targets(y, self.event_shape[0])
        r, C = mask_residual(targets - self.mean, self.observed), self._matrix(self.observed)
        factor, weights = compiled_or_raised(_factor_and_weights, self.solver, C, r)
        return ConditionedGP(
            kernel=self.kernel,
            X=self.X,
            y=targets,
            noise=self.noise,
            prior_mean=self.prior_mean,
            observed=self.observed,
            factor=factor,
            weights=weights,
            columns=self.columns,
            solver=self.solver,
        )

    def pointwise(self, y: ArrayLike) -> tuple[Array, Array]:
        """Log density of each observation given all others, log p(y_i | y_-i).

        Args:
            y: Observations, shape (..., n).

        Returns:
            The log densities, shape (..., n), and the mask of observed rows, shape (n,).

        References:
            Buerkner, Gabry and Vehtari (2021), "Efficient leave-one-out cross-validation for
            Bayesian non-factorized normal and Student-t models".
        """
        loo = jnp.vectorize(lambda y: self.condition(y).loo().log_density, signature="(n)->(n)")
        observed = jnp.ones(self.event_shape, bool) if self.observed is None else self.observed
        return loo(y), observed

    def plot_samples(
        self,
        X_new: Inputs | None = None,
        n: int = 5,
        level: float = 0.95,
        seed: int = 0,
        ax: Axes | None = None,
    ) -> Figure:
        """Plot functions sampled from the prior over one input, with median and band.

        For the posterior, use `condition(y).plot_samples()`.

        Args:
            X_new: Inputs of one column, shape (m,) or (m, 1), or a data frame; the plot spans their
                range. X by default.
            n: Number of functions.
            level: Probability of the central band, at each point.
            seed: Seed of the draws.
            ax: Axes to plot in; a new figure if None.

        Returns:
            The figure.

        Raises:
            ValueError: If there are several inputs, or the prior mean was given as an array.

        Examples:
            >>> import bayeskern as bk
            >>> from bayeskern.kernels import Matern52
            >>> process = bk.GaussianProcess(Matern52(lengthscale=2.0), [0.0, 10.0], noise=0.1)
            >>> figure = process.plot_samples(n=3)
        """
        points = plot.points(X_new, points_of(self.X), self.columns)
        rows, _ = new_rows(points, self.kernel, self.X, self.columns)
        f = GaussianProcess(self.kernel, rows, 0.0, mean_at(self.prior_mean, rows))
        prior = Prediction(
            lambda: f.mean[None],
            lambda: (f.mean[None], f.variance[None]),
            lambda key, n: f.sample(key, (n,)),
        )
        return plot.samples(points, prior, self.columns, n, level, seed, ax)

    def given(self, y: ArrayLike, new: GaussianProcess, rows: Array) -> ProcessPredictive:
        """Distribution of new observations, given the observations of this process.

        Args:
            y: Observations of this process, shape (n,).
            new: The same process at m new points, with the prior mean and noise there.
            rows: Indices of the points of `new` to predict, shape (k,).

        Returns:
            The joint distribution of the k new observations.

        Raises:
            ValueError: If the noise of the new observations is a covariance matrix.
        """
        if jnp.ndim(new.noise) == 2:
            raise ValueError(
                "noise of new observations must be a variance, or one for each point, but the "
                "process at new points has a covariance matrix. Give its diagonal."
            )

        def at_rows(value):
            return value if jnp.ndim(value) == 0 else value[rows]

        gp, mean, X_new = self.condition(y), evaluate_mean(new.prior_mean, new.X), new.X
        if X_new.ndim == 3 or self.X.ndim == 3:
            X_new = as_rows(X_new) if X_new.ndim == 2 else X_new
            gp = gp.measured(kinds_of(new.kernel) or RowKinds((), False))
        return ProcessPredictive(gp, None, X_new[rows], at_rows(mean), at_rows(new.noise))


def _factor_and_weights(solver: Solver, C: NoisyGram, r: Array) -> tuple[Factor, Array]:
    """Factor of C, and C^-1 r; NaN where C is not positive definite."""
    factor = solver.factor(C)
    return factor, factor.solve(r)
