"""Linear models with Gaussian noise, conditioned on sufficient statistics.

Weights that are Gaussian given the scales (prior sds and noise) are integrated out: the scales are
inferred, and then the weights are drawn from their exact conditional distribution.
"""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpyro
from numpyro import handlers

from bayeskern.core.tracing import by_one_thread
from bayeskern.linear.gaussian_posterior import (
    ConditionalPosterior,
    LinearGaussian,
    SeveralOutputs,
    SeveralPosteriors,
)
from bayeskern.linear.lasso import lasso
from bayeskern.linear.model import LinearModel


def linear_gaussian(model: LinearModel) -> LinearGaussian | SeveralOutputs:
    """Reduce the rows of a prepared model; coefficients are as in `model.moments`."""
    n, M = model.all_rows.n, model.root_of_products()
    shape = model.shape(), model.is_proper, model.is_aligned
    return LinearGaussian.reduced(n, M, *shape, log_det=model.all_rows.log_det)


class CollapsedModel(eqx.Module):
    """NumPyro model of the scales, with the coefficients integrated out."""

    model: LinearModel

    def __call__(self, data: LinearGaussian | SeveralOutputs):
        loc, sd, noise = self.scales()
        numpyro.factor("evidence", jnp.asarray(data.log_marginal(loc, sd, noise)))

    def scales(self) -> tuple:
        """Sample the scales inside a NumPyro model.

        Returns:
            The prior means of the coefficients, (p,) or (outputs, p); their prior sds, (p,); and
            the noise variance.
        """
        noise: Any = self.model.observation_model.sample("").noise_variance
        loc, sd = self.model.moments(self.model.size)
        if self.model.outputs is not None:
            loc = jnp.broadcast_to(loc, (self.model.outputs, *sd.shape))
        return loc, (sd * jnp.sqrt(noise) if self.model.prior.per_noise else sd), noise

    @by_one_thread
    def scales_at(self, draw: dict) -> tuple:
        """The scales at one draw of their sites."""
        scales: Any = handlers.substitute(
            handlers.seed(self.scales, jax.random.key(0)), data=draw
        )()
        return scales

    def recover(self, data, draws: dict, key: jax.Array, mean: bool) -> dict:
        """Add weights and intercept to S draws of the scales: draws, or means if `mean`."""
        count = len(next(iter(draws.values()), [0]))
        keys = jax.random.split(key, count)
        return {**draws, **self.sites(_recover_coefficients(self, data, draws, keys, mean))}

    def design_matrix(self, X) -> jax.Array:
        """The columns of the coefficients: [1, x - center], or x; x times `Prior.root`, if any."""
        intercept, L = self.model.intercept, self.model.prior.root
        columns = X if intercept is None else X - intercept.point
        columns = columns if L is None else columns @ L
        if intercept is None:
            return columns
        return jnp.concatenate([jnp.ones((len(X), 1)), columns], axis=1)

    def sites(self, b) -> dict:
        """The sites `weights` and `intercept` from coefficients b (..., p or 1 + p)."""
        if self.model.intercept is None:
            return {"weights": self.model.weights_of(b)}
        at_center, weights = b[..., 0], self.model.weights_of(b[..., 1:])
        center = self.model.intercept.point
        return {"weights": weights, "intercept": at_center - weights @ center}

    def moments_of_sites(
        self, posterior: ConditionalPosterior | SeveralPosteriors
    ) -> dict[str, tuple[jax.Array, jax.Array]]:
        """Mean and variance of each element of the sites `weights` and `intercept`."""
        moments = {}
        for name, rows in self.sites(jnp.eye(posterior.mean.shape[-1])).items():
            # An element of a site is a row times b; with several outputs, b is (outputs, p).
            rows, mean = rows.T if rows.ndim == 2 else rows[None], self.sites(posterior.mean)[name]
            variance = posterior.variance(rows).reshape(len(rows), -1).T
            moments[name] = mean, variance.reshape(mean.shape)
        return moments


@eqx.filter_jit
def _recover_coefficients(collapsed, data, draws, keys, mean):
    def at_draw(draw_and_key):
        draw, key = draw_and_key
        posterior = data.posterior(*collapsed.scales_at(draw))
        return posterior.mean if mean else posterior.draw(key)

    # Batches bound the memory.
    return jax.lax.map(at_draw, (draws, keys), batch_size=64)


@eqx.filter_jit
def condition(collapsed, data, draw: dict) -> tuple:
    """The scales at one draw, and p(b | y, scales) and log p(y | scales) given them."""
    scales = collapsed.scales_at(draw)
    return scales, data.posterior(*scales), data.log_marginal(*scales)


@eqx.filter_jit
def draw_coefficients(posterior, key: jax.Array, n: int) -> jax.Array:
    """n draws of the coefficients: (n, [outputs,] p)."""
    return jax.vmap(posterior.draw)(jax.random.split(key, n))


class LinearPredictive(eqx.Module):
    """Distribution of y at a design matrix Z; of the linear predictor if noise is 0.

    With several outputs, the output index runs fastest, and the number m of values is the number of
    rows of Z times the number of outputs.
    """

    coefficients: ConditionalPosterior | SeveralPosteriors
    Z: jax.Array
    noise: jax.Array

    def mean(self) -> jax.Array:
        """The means: (m,)."""
        return jnp.ravel(self.Z @ self.coefficients.mean.T)

    def moments(self) -> tuple[jax.Array, jax.Array]:
        """The means and variances: (m,), (m,)."""
        return self.mean(), self.coefficients.variance(self.Z) + self.noise

    def sample(self, key: jax.Array, n: int) -> jax.Array:
        """Joint draws: (n, m)."""
        key_coefficients, key_noise = jax.random.split(key)
        b = jax.vmap(self.coefficients.draw)(jax.random.split(key_coefficients, n))
        eta = flat_predictors(b, self.Z)
        return eta + jnp.sqrt(self.noise) * jax.random.normal(key_noise, eta.shape)


def flat_predictors(b: jax.Array, Z: jax.Array) -> jax.Array:
    """Z b for n draws b (n, [outputs,] p): (n, m), the output index runs fastest."""
    return jnp.moveaxis(b @ Z.T, -1, 1).reshape(len(b), -1)


def predictive_at(collapsed, data, latent: bool, draw, X) -> LinearPredictive:
    """y, or the linear predictor, at features X (m, p) given the scales at one draw."""
    loc, sd, noise = collapsed.scales_at(draw)
    coefficients, Z = data.posterior(loc, sd, noise), collapsed.design_matrix(X)
    return LinearPredictive(coefficients, Z, jnp.zeros(()) if latent else noise)


class FromStatistics(eqx.Module):
    """The full model, with weights, and its likelihood from sufficient statistics."""

    model: LinearModel

    def __call__(self):
        statistics = self.model.all_rows
        likelihood, weights, intercept = self.model.parameters(self.model.size)
        intercept = 0.0 if intercept is None else intercept
        log_likelihood = statistics.log_likelihood(weights, intercept, likelihood.noise_variance)
        numpyro.factor("likelihood", log_likelihood)

    def mode(self, jacobian: bool) -> dict | None:
        """The mode under a prior with kinks, where L-BFGS fails; None under other priors."""
        return lasso(self.model, linear_gaussian(self.model), jacobian)
