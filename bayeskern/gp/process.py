"""A Gaussian process: the NumPyro distribution, and what it knows after data."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpyro.distributions import Distribution, constraints

from bayeskern import hyperparameters as hyper
from bayeskern.core import validation
from bayeskern.core.functions import StaticFunction
from bayeskern.kernels.base import Kernel
from bayeskern.kernels.components import component, component_names
from bayeskern.linalg import DenseFactor, Factor, log_density
from bayeskern.prediction.mixture import Prediction, chunked

# From this size on the parts of the kernel are computed again for the gradient, not kept: that
# costs no more time than fetching so many n x n arrays, and a fraction of the memory.
RECOMPUTE_FROM = 1000


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
        self.noise = _per_point("noise", noise, n)
        hyper.check("noise", self.noise, constraints.nonnegative)
        self.prior_mean = mean_function(mean) if is_function(mean) else _per_point("mean", mean, n)
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
        make = eqx.filter_checkpoint(covariance) if large else covariance
        K = make(self.kernel, self.X, self.noise, self.observed)
        # A NumPyro distribution takes a batch of values: (..., n) -> (...).
        density = jnp.vectorize(log_density, excluded=(0,), signature="(n)->()")(
            K, residual(value - self.mean, self.observed)
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
        r = residual(y - self.mean, self.observed)
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
        each = jnp.vectorize(lambda y: self.condition(y).loo().log_density, signature="(n)->(n)")
        counted = jnp.ones(self.event_shape, bool) if self.observed is None else self.observed
        return each(y), counted

    def given(self, y, new: GaussianProcess, rows) -> NewObservations:
        """Observations of `new` (m points) at the rows (k,) of them, given those of this one.

        new: the same process at other points, with their mean and their noise.
        """

        def at(value):
            return value if jnp.ndim(value) == 0 else value[rows]

        mean = evaluate_mean(new.prior_mean, new.X)
        gp = self.condition(y)
        return NewObservations(gp, gp.kernel, new.X[rows], at(mean), at(new.noise))


class LeaveOneOut(NamedTuple):
    """For each i, the predictive distribution of y_i given all the others: three arrays (n,)."""

    mean: jax.Array
    variance: jax.Array
    log_density: jax.Array


class ConditionedGP(eqx.Module):
    """A Gaussian process given data: the factor of K + noise and the weights a = K^-1 (y - m)."""

    kernel: Kernel
    X: jax.Array
    y: jax.Array
    noise: jax.Array
    prior_mean: jax.Array | Callable
    observed: jax.Array | None
    factor: Factor
    weights: jax.Array
    columns: tuple[str, ...] | None = eqx.field(static=True)

    @property
    def jitter(self) -> jax.Array:
        """What was added to the diagonal so that the covariance could be factored."""
        return self.factor.jitter

    @property
    def residual(self) -> float:
        """|(K + noise) a - (y - m)| / |y - m|: how well the weights solve what they ought to."""
        r = residual(self.y - evaluate_mean(self.prior_mean, self.X), self.observed)
        K = covariance(self.kernel, self.X, self.noise, self.observed)
        size = jnp.linalg.norm(r)
        # All zeros are solved exactly.
        return float(jnp.linalg.norm(K @ self.weights - r) / jnp.where(size > 0, size, 1.0))

    def predict(self, X_new, latent: bool = False, noise=None, mean=None) -> Prediction:
        """The distribution of new observations at X_new (m, d), or of f with `latent=True`.

        noise: their noise variance, needed when the training noise differs from point to point;
        mean: the prior mean at X_new, needed when it was given as an array.
        """
        X_new = new_points(X_new, self.X, self.columns)
        noise = self.new_noise(noise, X_new.shape[0], latent)
        mean = self.new_mean(mean, X_new)
        return _prediction(self, X_new, noise, mean)

    def covariance(self, X_new) -> Float[Array, "m m"]:
        """The joint covariance of the latent function at X_new: (m, m)."""
        X_new = new_points(X_new, self.X, self.columns)
        return _posterior_covariance(self, self.kernel, X_new)

    def loo(self) -> LeaveOneOut:
        """Leave-one-out prediction of each observation in closed form, from the one factor.

        Rasmussen and Williams (2006), equations 5.10-5.12. Rows that are masked out are NaN.
        """
        variance = 1.0 / self.factor.inv_diag()
        mean = self.y - self.weights * variance
        log_density = -0.5 * (jnp.square(self.weights) * variance + jnp.log(2 * jnp.pi * variance))
        observed = True if self.observed is None else self.observed
        return LeaveOneOut(
            *(jnp.where(observed, x, jnp.nan) for x in (mean, variance, log_density))
        )

    def new_noise(self, noise, m: int, latent: bool):
        """The noise variance of m new points: 0 for the latent function."""
        if latent:
            return jnp.zeros(())
        if noise is None and jnp.ndim(self.noise) == 1:
            raise ValueError(
                "the training noise differs from point to point, so that of new points is unknown: "
                "give noise=..., or latent=True for the function without noise."
            )
        return self.noise if noise is None else _per_point("noise", noise, m)

    def new_mean(self, mean, X_new):
        """The prior mean at new points."""
        if mean is None and not callable(self.prior_mean) and jnp.ndim(self.prior_mean) == 1:
            raise ValueError(
                "the prior mean was given as an array, so its values at X_new are unknown: "
                "give mean=..., or make the mean a function of one point."
            )
        if mean is None:
            return evaluate_mean(self.prior_mean, X_new)
        return _per_point("mean", mean, X_new.shape[0])


class Predictive(eqx.Module):
    """A process given data, or one of its additive components, at new points X (m, d).

    kernel: that of the process, or of the component. prior_mean, noise: at X, a number or (m,);
    without a noise it is that of the data.
    """

    gp: ConditionedGP
    kernel: Kernel
    X: jax.Array
    prior_mean: jax.Array
    noise: jax.Array | None

    def mean(self) -> jax.Array:
        """The means: (m,)."""
        return posterior_mean(self.gp, self.kernel, self.X) + self.prior_mean

    def moments(self) -> tuple[jax.Array, jax.Array]:
        """The means and variances: (m,), (m,)."""
        mean, variance = posterior_moments(self.gp, self.kernel, self.X)
        return mean + self.prior_mean, variance + self._noise()

    def sample(self, key, n: int) -> jax.Array:
        """Joint draws: (n, m)."""
        draws = posterior_draws(self.gp, self.kernel, self.X, self._noise(), key, n)
        return draws + self.prior_mean

    def _noise(self):
        # Asked for only where it counts: the mean does without.
        return self.gp.new_noise(self.noise, self.X.shape[0], latent=False)


class NewObservations(Predictive):
    """A `Predictive` that is drawn from for each of many draws of the hyperparameters."""

    def sample(self, key, n: int) -> jax.Array:
        m = self.X.shape[0]
        K = _posterior_covariance(self.gp, self.kernel, self.X)
        L = DenseFactor.compute(K + jnp.diag(jnp.broadcast_to(self._noise(), (m,)))).L

        def by_cholesky():
            white = jax.random.normal(key, (n, m), K.dtype)
            return white @ L.T + self.mean()

        # Without noise the covariance may be rounding error; eigenvectors take longer.
        usable = jnp.all(jnp.isfinite(L))
        return jax.lax.cond(usable, by_cholesky, lambda: Predictive.sample(self, key, n))


# -- the mathematics, on arrays --------------------------------------------------------------------


def covariance(kernel, X, noise, mask=None):
    """k(X) + noise I; a row that is masked out becomes a row of the identity."""
    n = X.shape[0]
    K = kernel.evaluate(X)
    K = K + jnp.diag(jnp.broadcast_to(noise, (n,)))
    if mask is None:
        return K
    return jnp.where(mask[:, None] & mask[None, :], K, jnp.eye(n, dtype=K.dtype))


def residual(r, mask):
    return r if mask is None else jnp.where(mask, r, 0.0)


def _cross(gp, kernel, X_new):
    """k(X, X_new): (n, m), with zero rows where the data are masked out."""
    K = kernel.evaluate(gp.X, X_new)
    return K if gp.observed is None else jnp.where(gp.observed[:, None], K, 0.0)


def posterior_mean(gp, kernel, X_new):
    return gp.weights @ _cross(gp, kernel, X_new)


def posterior_moments(gp, kernel, X_new):
    """Mean and variance of the (component of the) latent function at X_new: (m,), (m,).

    Algorithm 2.1 of Rasmussen and Williams (2006).
    """
    cross = _cross(gp, kernel, X_new)
    prior = kernel.evaluate_diag(X_new)
    explained = jnp.sum(jnp.square(gp.factor.whiten(cross)), axis=0)
    # Rounding may push a variance that is nearly 0 below it; NaN is left to be seen.
    floor = jnp.finfo(prior.dtype).eps * prior
    return gp.weights @ cross, jnp.maximum(prior - explained, floor)


def _posterior_covariance(gp, kernel, X_new):
    whitened = gp.factor.whiten(_cross(gp, kernel, X_new))
    return kernel.evaluate(X_new) - whitened.T @ whitened


def posterior_draws(gp, kernel, X_new, noise, key, n):
    """n joint draws at X_new: (n, m)."""
    m = X_new.shape[0]
    K = _posterior_covariance(gp, kernel, X_new) + jnp.diag(jnp.broadcast_to(noise, (m,)))
    # Eigenvectors, not Cholesky: where the data leave nothing open the covariance is rounding
    # error, with eigenvalues a little below 0.
    values, vectors = jnp.linalg.eigh(K)
    white = jax.random.normal(key, (n, m), K.dtype)
    draws = (white * jnp.sqrt(jnp.maximum(values, 0.0))) @ vectors.T
    return draws + posterior_mean(gp, kernel, X_new)


# -- one conditioned process -> Prediction ---------------------------------------------------------

_mean_jit = eqx.filter_jit(posterior_mean)
_moments_jit = eqx.filter_jit(posterior_moments)
draws_jit = eqx.filter_jit(posterior_draws)


def _prediction(gp: ConditionedGP, X_new, noise, mean, part=None) -> Prediction:
    """part: the kernel of one component, which has no components of its own."""
    kernel = gp.kernel if part is None else part

    def means():
        found = chunked(lambda x: _mean_jit(gp, kernel, x), gp.X.shape[0], X_new)
        return (found + mean)[None]

    def moments():
        found = chunked(lambda x: jnp.stack(_moments_jit(gp, kernel, x)), gp.X.shape[0], X_new)
        return (found[0] + mean)[None], (found[1] + noise)[None]

    def draw(key, n):
        return draws_jit(gp, kernel, X_new, noise, key, n) + mean

    def of(name):
        return _prediction(gp, X_new, jnp.zeros(()), 0.0, component(kernel, name))

    names = tuple(component_names(kernel)) if part is None else ()
    return Prediction(means, moments, draw, of if part is None else None, names)


# -- small pieces ----------------------------------------------------------------------------------


def positive_definite(kernel: Kernel) -> Kernel:
    """Refuse a kernel that contains one which is known not to be positive definite."""
    if not isinstance(kernel, Kernel):
        raise TypeError(f"kernel must be a bayeskern kernel, got {type(kernel).__name__}.")
    for node in kernel.nodes():
        if not node.positive_definite:
            raise ValueError(
                f"{type(node).__name__} is not positive definite, so no Gaussian process has it as "
                "its covariance. InverseMultiquadric is the positive definite relative."
            )
    return kernel


def new_points(X_new, X, columns) -> jax.Array:
    """Read new points; of a data frame, the columns that the process was conditioned on."""
    X_new, _ = validation.inputs(X_new, "X_new", columns)
    if X_new.shape[1] != X.shape[1]:
        raise ValueError(
            f"X_new has {X_new.shape[1]} columns but the process was conditioned on {X.shape[1]}; "
            "give the same columns in the same order."
        )
    return X_new


def mean_function(mean):
    if not is_function(mean):
        return hyper.as_hyperparameter(mean)
    return mean if isinstance(mean, eqx.Module) else StaticFunction(mean)


def is_function(mean) -> bool:
    # A NumPyro distribution is callable too: calling it draws from it.
    return callable(mean) and not hyper.is_specified(mean)


def evaluate_mean(mean, X):
    """The prior mean at X: a number, an array, or a function of one point applied to each."""
    return jax.vmap(mean)(X).reshape(X.shape[0]) if callable(mean) else mean


def _per_point(name, value, n):
    if hyper.is_specified(value):
        raise TypeError(f"{name} must be a number here, got {hyper.show(value)}; see GPRegression.")
    value = value if isinstance(value, jax.Array) else jnp.asarray(np.asarray(value, float))
    if value.shape not in ((), (n,)):
        raise ValueError(
            f"{name} must be one number or one for each of {n} points, got {value.shape}."
        )
    return value
