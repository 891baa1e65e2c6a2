"""A Gaussian process: the NumPyro distribution."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from numpyro.distributions import Distribution, constraints

from bayeskern import hyperparameters as hyper
from bayeskern.core import validation
from bayeskern.gp.posterior import ConditionedGP, NewObservations
from bayeskern.gp.prior import (
    RECOMPUTE_FROM,
    covariance,
    evaluate_mean,
    is_function,
    mask_residual,
    mean_function,
    per_point,
    positive_definite,
)
from bayeskern.kernels.base import Kernel
from bayeskern.linalg import DenseFactor, log_density


class GaussianProcess(Distribution):
    """The distribution of y = f(X) + e, f ~ GP(mean, kernel), e ~ N(0, noise).

    kernel: a concrete kernel. X: (n, d) or (n,). noise: the noise variance, a number or (n,).
    mean: a number, an array (n,), or a function of one point. mask: (n,), True where y is
    observed; the other rows do not count (by default all do).

    Use it in any NumPyro model: `numpyro.sample("y", GaussianProcess(...), obs=y)`. Rasmussen and
    Williams (2006), section 2.2. Raises TypeError if the kernel is still a specification and
    ValueError if it is not positive definite by construction.
    """

    support = constraints.real_vector
    pytree_data_fields = ("kernel", "X", "noise", "prior_mean", "observed")
    pytree_aux_fields = ("columns",)

    def __init__(self, kernel: Kernel, X, noise, mean=0.0, mask=None, *, validate_args=None):
        X, self.columns = validation.inputs(X)
        n = X.shape[0]
        self.kernel = positive_definite(kernel).resolve(self.columns).require_concrete()
        self.X = X
        self.noise = per_point("noise", noise, n)
        hyper.check("noise", self.noise, constraints.nonnegative)
        self.prior_mean = mean_function(mean) if is_function(mean) else per_point("mean", mean, n)
        # Not `self.mask`, which is a method of every NumPyro distribution.
        self.observed = None if mask is None else jnp.asarray(mask, bool)
        super().__init__(batch_shape=(), event_shape=(n,), validate_args=validate_args)

    @property
    def mean(self):
        return jnp.broadcast_to(evaluate_mean(self.prior_mean, self.X), self.event_shape)

    @property
    def variance(self):
        return self.kernel.evaluate_diag(self.X) + self.noise

    @property
    def covariance_matrix(self):
        return covariance(self.kernel, self.X, self.noise)

    def sample(self, key, sample_shape=()):
        white = jax.random.normal(key, (*sample_shape, *self.event_shape), self.X.dtype)
        factor = DenseFactor.compute(self.covariance_matrix)
        return self.mean + jnp.einsum("ij,...j->...i", factor.L, white)

    def log_prob(self, value):
        """log N(y; mean, K + noise): the log evidence of the kernel and the noise."""
        large = self.X.shape[0] >= RECOMPUTE_FROM
        compute = eqx.filter_checkpoint(covariance) if large else covariance
        K = compute(self.kernel, self.X, self.noise, self.observed)
        # A NumPyro distribution takes a batch of values: (..., n) -> (...).
        density = jnp.vectorize(log_density, excluded=(0,), signature="(n)->()")(
            K, mask_residual(value - self.mean, self.observed)
        )
        if self.observed is None:
            return density
        left_out = jnp.sum(~self.observed)
        return density + 0.5 * left_out * jnp.log(2.0 * jnp.pi)

    def condition(self, y) -> ConditionedGP:
        """The process given y (n,), factored once; predict from it as often as you like.

        Raises NotPositiveDefiniteError if the covariance cannot be factored.
        """
        y = validation.targets(y, self.event_shape[0])
        K = covariance(self.kernel, self.X, self.noise, self.observed)
        factor = DenseFactor.compute(K)
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
        )

    def pointwise(self, y):
        """log p(y_i | all other values) for each i, and which of them count: (..., n), (n,).

        Buerkner, Gabry and Vehtari (2021), "Efficient leave-one-out cross-validation for Bayesian
        non-factorized normal and Student-t models".
        """
        loo = jnp.vectorize(lambda y: self.condition(y).loo().log_density, signature="(n)->(n)")
        counted = jnp.ones(self.event_shape, bool) if self.observed is None else self.observed
        return loo(y), counted

    def given(self, y, new: GaussianProcess, rows) -> NewObservations:
        """Observations of `new` (m points) at the rows (k,) of them, given those of this one.

        new: the same process at other points, with their mean and their noise.
        """

        def at_rows(value):
            return value if jnp.ndim(value) == 0 else value[rows]

        gp, mean = self.condition(y), evaluate_mean(new.prior_mean, new.X)
        return NewObservations(gp, gp.kernel, new.X[rows], at_rows(mean), at_rows(new.noise))
