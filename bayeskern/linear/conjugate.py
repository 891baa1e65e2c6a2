"""The linear model whose noise is integrated out as well: normal-inverse-gamma, Student t."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jax.scipy.special import gammaln

from bayeskern.linear.collapsed import Collapsed, coefficients, conditional, system_of
from bayeskern.linear.gaussian_posterior import Conditional, System
from bayeskern.linear.model import LinearModel
from bayeskern.prediction.student_t import StudentPrediction
from bayeskern.protocols import ClosedForm


class Conjugate(NamedTuple):
    """Normal-inverse-gamma: b | noise ~ N(given.mean, noise V), noise ~ InverseGamma(a, b).

    given: of b in units of the noise; prior: of the noise; a, b: after the data.
    """

    collapsed: Collapsed
    system: System
    given: Conditional
    log_evidence: float
    residual: float
    a: jax.Array
    b: jax.Array

    @classmethod
    def of(cls, model: LinearModel) -> Conjugate:
        collapsed, system, prior = Collapsed(model), system_of(model), model.noise.noise
        # In units of the noise.
        scales, given, evidence = conditional(collapsed, system, {"noise": jnp.ones(())})
        loc, sd = (np.asarray(v) for v in scales[:2])
        proper = np.isfinite(sd)
        off = np.where(proper, np.asarray(given.mean - loc) / np.where(proper, sd, 1.0), 0.0)
        missed = system.rss + jnp.sum(jnp.square(system.t - system.H @ given.mean)) + off @ off
        before, rate = jnp.asarray(prior.concentration), jnp.asarray(prior.rate)
        a, b = before + 0.5 * (system.n - np.sum(~proper)), rate + 0.5 * missed
        evidence += 0.5 * missed + before * jnp.log(rate) - gammaln(before)
        evidence += gammaln(a) - a * jnp.log(b)
        residual = system.residual(given.mean, *scales)
        return cls(collapsed, system, given, float(evidence), residual, a, b)

    def draw(self, key, n):
        """n draws of the noise, and of the coefficients given them."""
        own, other = jax.random.split(key)
        noise = dist.InverseGamma(self.a, self.b).sample(own, (n,))
        around = coefficients(self.given, other, n) - self.given.mean
        return noise, self.given.mean + jnp.sqrt(noise)[:, None] * around

    def closed_form(self) -> ClosedForm:
        def draw(key, n):
            noise, b = self.draw(key, n)
            return {"noise": noise, **self.collapsed.coefficients(b)}

        return ClosedForm(draw, self.log_evidence, self.residual)

    def predict(self, X, latent: bool) -> StudentPrediction:
        Z = self.collapsed.with_level(X)
        variance = np.asarray(self.given.variance(Z)) + (not latent)

        def draw(key, n):
            own, other = jax.random.split(key)
            noise, b = self.draw(own, n)
            e = 0.0 if latent else jax.random.normal(other, (n, len(X)))
            return b @ Z.T + jnp.sqrt(noise)[:, None] * e

        scale = np.sqrt(self.b / self.a * variance)
        return StudentPrediction(2.0 * self.a, Z @ self.given.mean, scale, draw)
