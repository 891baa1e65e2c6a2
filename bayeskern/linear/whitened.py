"""Linear models in whitened coordinates: the posterior is nearly spherical.

If b = loc + sd * V u with V orthogonal, u ~ N(0, I) gives the prior b ~ N(loc, sd^2). V has as its
columns the right singular vectors of X diag(sd). The curvature of the likelihood in u is then close
to diagonal, even for collinear features, and samplers mix well.
"""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist

from bayeskern.linear.model import LinearModel
from bayeskern.protocols import Marginal


class Whitened(eqx.Module):
    """The model in whitened coordinates u of its coefficients b, at the site `axes`.

    Attributes:
        model: The prepared model.
        basis: The columns are the directions of u, (p, p).
        proper: True if b = loc + sd * basis u with u ~ N(0, I). Otherwise b = loc + basis u, and
            the prior is a factor on b.
    """

    model: LinearModel
    basis: np.ndarray
    proper: bool = eqx.field(static=True)

    def __call__(self, X, y=None, extra=None):
        model = self.model
        likelihood = model.observation_model.sample("")
        loc, sd = model.moments(X.shape[1])
        b = self._coefficients(loc, sd, likelihood.outputs)
        has_intercept_coefficient = model.intercept is not None and not model.intercept.is_fixed
        intercept, weights = (b[..., 0], b[..., 1:]) if has_intercept_coefficient else (0.0, b)
        weights = model.weights_of(weights)
        numpyro.deterministic("weights", weights)
        if model.intercept is not None:
            intercept = intercept - weights @ model.intercept.point
            numpyro.deterministic("intercept", intercept)
        model.observe(likelihood, X, weights, intercept, y, extra)

    def _coefficients(self, loc, sd, outputs):
        shape = loc.shape if outputs is None else (outputs, *loc.shape)
        if self.proper:
            u = numpyro.sample("axes", dist.Normal(0.0, 1.0).expand(shape).to_event(len(shape)))
            return loc + sd * (u @ self.basis.T)
        # u is flat; coefficients with a finite prior sd get their prior as a factor.
        u = numpyro.sample("axes", dist.ImproperUniform(dist.constraints.real, (), shape))
        b, finite = loc + u @ self.basis.T, jnp.isfinite(sd)
        log_prior = dist.Normal(loc, jnp.where(finite, sd, 1.0)).log_prob(b)
        numpyro.factor("prior", jnp.sum(jnp.where(finite, log_prior, 0.0)))
        return b


def whitened(model: LinearModel, X, y, extra) -> Marginal | None:
    """The whitened model; None if the prior is not Gaussian given its scales."""
    if not model.prior.gaussian:
        return None
    relative_sds, proper, M = model.shape(), model.is_proper, model.root_of_products()
    if model.intercept is not None and model.intercept.is_fixed:
        M = M[1:, 1:]
    p = len(relative_sds)
    H = M[:p, :p]
    _, S, Vt = np.linalg.svd(np.pad(H, ((0, p - len(H)), (0, 0))) * relative_sds)
    basis = Vt.T
    if not proper:
        # A unit step in a coordinate of u changes the linear predictor, (n,), by norm 1.
        basis = relative_sds[:, None] * basis / np.maximum(S, S[0] * np.finfo(float).eps)
    return Marginal(Whitened(model, basis, proper), (X, y, extra), _without_axes)


def _without_axes(draws, key, mean):
    """Sites of the full model from draws of the whitened one."""
    return {name: value for name, value in draws.items() if name != "axes"}
