"""Normal-inverse-gamma posteriors of linear models."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import scipy
from jax.scipy.special import gammaln

from bayeskern.linear.collapsed import (
    CollapsedModel,
    condition,
    draw_coefficients,
    flat_predictors,
    linear_gaussian,
)
from bayeskern.linear.gaussian_posterior import ConditionalPosterior, SeveralPosteriors
from bayeskern.linear.model import LinearModel
from bayeskern.prediction.closed_form import ClosedFormPrediction
from bayeskern.protocols import ClosedForm


class NormalInverseGamma(NamedTuple):
    """Normal-inverse-gamma posterior of the coefficients b and the noise.

    b | noise ~ N(unit.mean, noise V), noise ~ InverseGamma(concentration, rate).

    Attributes:
        collapsed: The model with its coefficients integrated out.
        unit: The posterior of b if the noise is 1, with covariance V.
        concentration: The concentration of the noise.
        rate: The rate of the noise.
        log_evidence: The log marginal likelihood.
        residual: The relative residual of the normal equations of b.
    """

    collapsed: CollapsedModel
    unit: ConditionalPosterior | SeveralPosteriors
    concentration: jax.Array
    rate: jax.Array
    log_evidence: float
    residual: float

    @classmethod
    def of(cls, model: LinearModel) -> NormalInverseGamma:
        """The posterior of a prepared model: Gelman et al. (2013), section 14.2."""
        collapsed, data = CollapsedModel(model), linear_gaussian(model)
        prior: Any = model.observation_model.noise_variance
        scales, unit, log_evidence = condition(collapsed, data, {"noise": jnp.ones(())})
        loc, sd = (np.asarray(v) for v in scales[:2])
        proper = np.isfinite(sd)
        shift = np.asarray(unit.mean - loc)
        standardized = np.where(proper, shift / np.where(proper, sd, 1.0), 0.0)
        penalized_error = data.squared_error(unit.mean) + np.sum(np.square(standardized))
        prior_concentration, prior_rate = jnp.asarray(prior.concentration), jnp.asarray(prior.rate)
        flat = np.sum(~np.broadcast_to(proper, loc.shape))
        concentration = prior_concentration + 0.5 * (data.n - flat)
        rate = prior_rate + 0.5 * penalized_error
        # `condition` has noise 1: replace its factor exp(-penalized_error / 2) by the integral of
        # noise^(-(n - flat) / 2) exp(-penalized_error / (2 noise)) over the prior of the noise.
        log_prior_norm = prior_concentration * jnp.log(prior_rate)
        log_evidence += 0.5 * penalized_error + log_prior_norm - gammaln(prior_concentration)
        log_evidence += gammaln(concentration) - concentration * jnp.log(rate)
        residual = data.residual(unit.mean, *scales)
        return cls(collapsed, unit, concentration, rate, float(log_evidence), residual)

    def draw(self, key: jax.Array, n: int) -> tuple[jax.Array, jax.Array]:
        """n draws of the noise, and of the coefficients given the noise."""
        key_noise, key_coefficients = jax.random.split(key)
        noise = dist.InverseGamma(self.concentration, self.rate).sample(key_noise, (n,))
        deviations = draw_coefficients(self.unit, key_coefficients, n) - self.unit.mean
        sd = jnp.sqrt(noise).reshape(-1, *[1] * self.unit.mean.ndim)
        return noise, self.unit.mean + sd * deviations

    def closed_form(self) -> ClosedForm:
        """The joint posterior of weights, intercept and noise."""

        def draw(key, n):
            noise, b = self.draw(key, n)
            return {"noise": noise, **self.collapsed.sites(b)}

        marginals: dict[str, Any] = {"noise": dist.InverseGamma(self.concentration, self.rate)}
        for name, (mean, variance) in self.collapsed.moments_of_sites(self.unit).items():
            scale = jnp.sqrt(self.rate / self.concentration * variance)
            marginals[name] = dist.StudentT(2.0 * self.concentration, mean, scale)
        return ClosedForm(draw, self.log_evidence, self.residual, marginals)

    def predict(self, X, latent: bool) -> ClosedFormPrediction:
        """Predict y, or the linear predictor, at features X (m, p).

        The prediction is Student t with 2 * concentration degrees of freedom. The output index runs
        fastest.
        """
        Z = self.collapsed.design_matrix(X)
        variance = np.asarray(self.unit.variance(Z)) + (not latent)
        scale = np.sqrt(self.rate / self.concentration * variance)
        mean = np.ravel(np.asarray(Z @ self.unit.mean.T))
        distribution = scipy.stats.t(2.0 * float(self.concentration), mean, scale)
        return ClosedFormPrediction(distribution, len(mean), partial(self._draw_new, Z, latent))

    def _draw_new(self, Z: jax.Array, latent: bool, key: jax.Array, n: int) -> np.ndarray:
        """Joint draws of y, or of the linear predictor, at a design matrix Z: (n, m)."""
        key_parameters, key_errors = jax.random.split(key)
        noise, b = self.draw(key_parameters, n)
        eta = flat_predictors(b, Z)
        errors = 0.0 if latent else jax.random.normal(key_errors, eta.shape)
        return np.asarray(eta + jnp.sqrt(noise)[:, None] * errors)
