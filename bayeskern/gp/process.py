"""A Gaussian process: the NumPyro distribution."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from numpyro.distributions import Distribution, constraints

from bayeskern import hyperparameters as hyper
from bayeskern.core import validation
from bayeskern.gp import plot
from bayeskern.gp.posterior import ConditionedGP, ProcessPredictive
from bayeskern.gp.prior import (
    evaluate_mean,
    is_function,
    mask_residual,
    mean_at,
    mean_function,
    per_point,
    positive_definite,
)
from bayeskern.kernels.base import Kernel
from bayeskern.linalg import Choice, Factor, NoisyGram, explain, solver_of
from bayeskern.prediction.mixture import Prediction


class GaussianProcess(Distribution):
    """The distribution of y = f(X) + e with f ~ GP(mean, kernel) and e ~ N(0, noise).

    y ~ N(m(X), k(X, X) + noise I). It is a NumPyro distribution, to be used in any model:
    `numpyro.sample("y", GaussianProcess(kernel, X, noise), obs=y)`. The inputs X may repeat and
    need no order.

    Args:
        kernel: The covariance function, with a number for every hyperparameter.
        X: Inputs, shape (n, d) or (n,), or a data frame.
        noise: The noise variance, a number or an array of shape (n,).
        mean: The prior mean m: a number, an array of shape (n,), or a function of one point.
        mask: Shape (n,), True where y is observed; other rows do not count. By default all do.
        solver: "auto" for the fastest that fits; "dense", the Cholesky factor, n^3 operations;
            "markov", the Kalman filter, for one input and kernels with a state, in time that grows
            like n; "low_rank" for kernels with m features, n m^2 operations; "kronecker" for
            inputs that are a full grid and kernels that are products over its axes, with one noise
            for all points and no mask; "neighbors", an approximation in which each point is
            conditioned on the 30 nearest of those before it, also in time that grows like n, taken
            where no other fits in memory. Or a solver that `bayeskern.linalg.solver_of` has
            prepared for X, which `jax.jit` may then trace. `explain` says what was taken, and why.

    Attributes:
        kernel: The kernel, its columns resolved.
        X: The inputs, shape (n, d).
        noise: The noise variance.
        prior_mean: The prior mean: a number, shape (n,), or a function of one point.
        observed: The mask, or None.
        solver: The solver that was taken.

    Raises:
        TypeError: If the kernel is no kernel, or if it, the noise or the mean still holds a
            distribution or `Free`.
        ValueError: If the kernel is not positive definite by construction, the noise negative,
            the noise or the mean has another shape, or the solver does not fit or asks for more
            memory than there is.

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

    support = constraints.real_vector
    pytree_data_fields = ("kernel", "X", "noise", "prior_mean", "observed", "solver")
    pytree_aux_fields = ("columns",)

    def __init__(
        self, kernel: Kernel, X, noise, mean=0.0, mask=None, solver="auto", *, validate_args=None
    ):
        X, self.columns = validation.inputs(X)
        n = X.shape[0]
        self.kernel = positive_definite(kernel).resolve(self.columns).require_concrete()
        self.X = X
        self.noise = per_point("noise", noise, n)
        hyper.check("noise", self.noise, constraints.nonnegative)
        self.prior_mean = mean_function(mean) if is_function(mean) else per_point("mean", mean, n)
        # Not `self.mask`, which is a method of every NumPyro distribution.
        self.observed = None if mask is None else jnp.asarray(mask, bool)
        self.solver = solver_of(self.kernel, X, solver, self.noise, self.observed)
        super().__init__(batch_shape=(), event_shape=(n,), validate_args=validate_args)

    @property
    def mean(self):
        return jnp.broadcast_to(evaluate_mean(self.prior_mean, self.X), self.event_shape)

    @property
    def variance(self):
        return self.kernel.evaluate_diag(self.X) + self.noise

    @property
    def covariance_matrix(self):
        return NoisyGram(self.kernel, self.X, self.noise).dense()

    def sample(self, key, sample_shape=()):
        white = jax.random.normal(key, (*sample_shape, *self.event_shape), self.X.dtype)
        draws = self._factor().sqrt_mul(white.reshape(-1, *self.event_shape).T).T
        return self.mean + draws.reshape(white.shape)

    def explain(self) -> Choice:
        """Which solver computes with the covariance matrix, what it costs, and why no other.

        Of an approximate solver, also what the log density per point loses to it, about.
        """
        return explain(self.solver, NoisyGram(self.kernel, self.X, self.noise, self.observed))

    def _factor(self, observed=None) -> Factor:
        return self.solver.factor(NoisyGram(self.kernel, self.X, self.noise, observed))

    def log_prob(self, value):
        """The log evidence of kernel and noise, log N(value; mean, K + noise I).

        -inf, with a gradient of 0, where K + noise I is not positive definite.

        Args:
            value: y, shape (..., n).

        Returns:
            Shape (...).
        """
        R = mask_residual(value - self.mean, self.observed)
        C = NoisyGram(self.kernel, self.X, self.noise, self.observed)
        return self.solver.log_density(C, R)

    def condition(self, y) -> ConditionedGP:
        """Condition the process on data, with one factorization for all that follows.

        Args:
            y: Observations, shape (n,).

        Raises:
            NotPositiveDefiniteError: If the covariance cannot be factored.
        """
        y = validation.targets(y, self.event_shape[0])
        factor = self._factor(self.observed)
        r = mask_residual(y - self.mean, self.observed)
        return ConditionedGP(
            kernel=self.kernel,
            X=self.X,
            y=y,
            noise=self.noise,
            prior_mean=self.prior_mean,
            observed=self.observed,
            factor=factor,
            weights=factor.solve(r),
            columns=self.columns,
            solver=self.solver,
        )

    def pointwise(self, y):
        """The log density of each observation given all others, log p(y_i | y_-i).

        Args:
            y: Observations, shape (..., n).

        Returns:
            The log densities, shape (..., n), and which of them count, shape (n,).

        References:
            Buerkner, Gabry and Vehtari (2021), "Efficient leave-one-out cross-validation for
            Bayesian non-factorized normal and Student-t models".
        """
        loo = jnp.vectorize(lambda y: self.condition(y).loo().log_density, signature="(n)->(n)")
        counted = jnp.ones(self.event_shape, bool) if self.observed is None else self.observed
        return loo(y), counted

    def plot_samples(self, X_new=None, n: int = 5, level: float = 0.95, seed: int = 0, ax=None):
        """Draw functions f from the prior along one input, over their median and a band.

        `condition(y).plot_samples()` draws them from the posterior.

        Args:
            X_new: Inputs of one column, shape (m,) or (m, 1), or a data frame: the functions reach
                from the least to the greatest. X by default.
            n: How many functions.
            level: The probability of the central band, at each point.
            seed: The same seed gives the same draws.
            ax: The axes to draw in; a new figure if None.

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
        points = plot.points(X_new, self.X, self.columns)
        f = GaussianProcess(self.kernel, points, 0.0, mean_at(self.prior_mean, points))
        prior = Prediction(
            lambda: f.mean[None],
            lambda: (f.mean[None], f.variance[None]),
            lambda key, n: f.sample(key, (n,)),
        )
        return plot.samples(points, prior, self.columns, n, level, seed, ax)

    def given(self, y, new: GaussianProcess, rows) -> ProcessPredictive:
        """The distribution of observations at new points, given those of this process.

        Args:
            y: Observations of this process, shape (n,).
            new: The same process at m other points, with their mean and their noise.
            rows: Which of these points, shape (k,).
        """

        def at_rows(value):
            return value if jnp.ndim(value) == 0 else value[rows]

        gp, mean = self.condition(y), evaluate_mean(new.prior_mean, new.X)
        return ProcessPredictive(gp, None, new.X[rows], at_rows(mean), at_rows(new.noise))
