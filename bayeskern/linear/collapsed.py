"""A linear model with Gaussian noise through its sufficient statistics, whatever n is.

Where the weights are Gaussian given the scales they are integrated out: what is left to infer are
the scales alone, and the weights are drawn from their exact conditional afterwards.
"""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpyro
from numpyro import handlers

from bayeskern.linear.gaussian_posterior import System
from bayeskern.linear.lasso import lasso
from bayeskern.linear.model import LinearModel

# Draws are recovered so many at a time.
BATCH = 64


def system_of(model: LinearModel) -> System:
    """The rows that a prepared model has seen, in the coefficients that `moments` speaks of."""
    statistics, intercept = model.statistics, model.intercept
    M = statistics.about_zero() if intercept is None else statistics.around(intercept.center)
    return System.of(statistics.n, M, model.shape(), model.is_proper, model.is_aligned)


class Collapsed(eqx.Module):
    """The model with its coefficients integrated out: a model of the scales, given a System."""

    model: LinearModel

    def __call__(self, system):
        loc, sd, noise = self.scales()
        numpyro.factor("evidence", system.log_evidence(loc, sd, noise))

    def scales(self):
        """Sample the scales: prior means and sds of the coefficients (p,), the noise variance."""
        noise = self.model.noise_model.sample("").noise
        loc, sd = self.model.moments(len(self.model.statistics.mean) - 1)
        return loc, (sd * jnp.sqrt(noise) if self.model.prior.per_noise else sd), noise

    def at(self, draw: dict):
        """`scales` at given values of its sites."""
        draw = {name: value for name, value in draw.items() if name}
        model = handlers.substitute(handlers.seed(self.scales, jax.random.key(0)), data=draw)
        return model()

    def recover(self, system, draws: dict, key, mean: bool) -> dict:
        """Weights and intercept beside draws of the scales, each (S, shape)."""
        count = len(next(iter(draws.values()), [0]))
        keys = jax.random.split(key, count)
        b = _recovered(self, system, draws, keys, mean)
        return {**draws, **self.coefficients(b)}

    def with_level(self, X):
        """The columns that the coefficients multiply: [1, x - center], or x without intercept."""
        intercept = self.model.intercept
        if intercept is None:
            return X
        return jnp.concatenate([jnp.ones((len(X), 1)), X - jnp.asarray(intercept.center)], axis=1)

    def coefficients(self, b) -> dict:
        """The sites that coefficients (S, p) or (S, 1 + p) stand for."""
        if self.model.intercept is None:
            return {"weights": b}
        level, weights = b[:, 0], b[:, 1:]
        return {
            "weights": weights,
            "intercept": level - weights @ jnp.asarray(self.model.intercept.center),
        }


@eqx.filter_jit
def _recovered(collapsed, system, draws, keys, mean):
    def one(item):
        draw, key = item
        given = system.given(*collapsed.at(draw))
        return given.mean if mean else given.draw(key)

    return jax.lax.map(one, (draws, keys), batch_size=BATCH)


@eqx.filter_jit
def conditional(collapsed, system, draw):
    """The scales at one draw, the coefficients given them, and the log evidence."""
    scales = collapsed.at(draw)
    return scales, system.given(*scales), system.log_evidence(*scales)


@eqx.filter_jit
def coefficients(given, key, n):
    """n draws of the coefficients: (n, p)."""
    return jax.vmap(given.draw)(jax.random.split(key, n))


@eqx.filter_jit
def moments(collapsed, system, draws, X, latent):
    """Means and variances of the linear predictor at features X (m, p), or of y: (S, m) each."""

    def one(draw):
        loc, sd, noise = collapsed.at(draw)
        given, Z = system.given(loc, sd, noise), collapsed.with_level(X)
        return Z @ given.mean, given.variance(Z) + (0.0 if latent else noise)

    return jax.lax.map(one, draws)


@eqx.filter_jit
def joint(collapsed, system, draws, X, latent, key, n):
    """n joint draws at X for each draw of the scales: (S, n, m)."""

    def one(item):
        draw, key = item
        loc, sd, noise = collapsed.at(draw)
        given, Z = system.given(loc, sd, noise), collapsed.with_level(X)
        key, own = jax.random.split(key)
        eta = jax.vmap(given.draw)(jax.random.split(key, n)) @ Z.T
        return eta if latent else eta + jnp.sqrt(noise) * jax.random.normal(own, eta.shape)

    count = len(next(iter(draws.values())))
    return jax.lax.map(one, (draws, jax.random.split(key, count)))


class Sufficient(eqx.Module):
    """The model as it stands, its likelihood through the sufficient statistics."""

    model: LinearModel

    def __call__(self):
        statistics = self.model.statistics
        likelihood, weights, intercept = self.model.parameters(len(statistics.mean) - 1)
        level = 0.0 if intercept is None else intercept
        log_likelihood = statistics.log_likelihood(weights, level, likelihood.noise)
        numpyro.factor("likelihood", log_likelihood)

    def mode(self, jacobian: bool) -> dict | None:
        """The mode where L-BFGS cannot find it, since the density has kinks; else None."""
        return lasso(self.model, system_of(self.model), jacobian)
