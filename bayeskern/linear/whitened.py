"""A linear model in axes in which its posterior is nearly round.

With b = loc + sd * V u, V orthogonal, u ~ N(0, I) says the same as b ~ N(loc, sd^2). Where V holds
the right singular vectors of the features, scaled by their sds, the likelihood's curvature in u is
close to diagonal, however collinear the features are, and samplers move freely.
"""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist

from bayeskern.linear.model import LinearModel, linear_predictor
from bayeskern.protocols import Marginal

AXES = "axes"


class Rotated(eqx.Module):
    """The model over the coordinates u of its coefficients, at the site `axes`.

    axes: (p, p); proper: whether u has the prior N(0, I). If it has not, b = loc + axes u, and
    the coefficients have their own priors.
    """

    model: LinearModel
    axes: np.ndarray
    proper: bool = eqx.field(static=True)

    def __call__(self, X, y=None, extra=None):
        model = self.model
        likelihood = model.noise_model.sample("")
        loc, sd = model.moments(X.shape[1])
        b = self._coefficients(loc, sd, likelihood.outputs)
        own_level = model.intercept is not None and not model.intercept.is_fixed
        level, weights = (b[..., 0], b[..., 1:]) if own_level else (0.0, b)
        numpyro.deterministic("weights", weights)
        if model.intercept is not None:
            level = level - weights @ jnp.asarray(model.intercept.center)
            numpyro.deterministic("intercept", level)
        eta = linear_predictor(X, weights, level)
        numpyro.sample("y", likelihood.distribution(eta, **(extra or {})), obs=y)

    def _coefficients(self, loc, sd, outputs):
        shape = loc.shape if outputs is None else (outputs, *loc.shape)
        if self.proper:
            u = numpyro.sample(AXES, dist.Normal(0.0, 1.0).expand(shape).to_event(len(shape)))
            return loc + sd * (u @ self.axes.T)
        u = numpyro.sample(AXES, dist.ImproperUniform(dist.constraints.real, (), shape))
        b, finite = loc + u @ self.axes.T, jnp.isfinite(sd)
        own = dist.Normal(loc, jnp.where(finite, sd, 1.0)).log_prob(b)
        numpyro.factor("prior", jnp.sum(jnp.where(finite, own, 0.0)))
        return b


def rotated(model: LinearModel, X, y, extra) -> Marginal | None:
    """A prepared model in better axes; None where its prior is not Gaussian given the scales."""
    if not model.prior.gaussian:
        return None
    shape, proper, statistics = model.shape(), model.is_proper, model.statistics
    if model.intercept is None:
        M = statistics.about_zero()
    else:
        M = statistics.around(model.intercept.center)
        M = M[1:, 1:] if model.intercept.is_fixed else M
    p = len(shape)
    H = M[:p, :p]
    _, S, Vt = np.linalg.svd(np.pad(H, ((0, p - len(H)), (0, 0))) * shape)
    axes = Vt.T
    if not proper:
        # One unit of u changes the linear predictor by one unit in all rows together.
        axes = shape[:, None] * axes / np.maximum(S, S[0] * np.finfo(float).eps)

    def recover(draws, key, mean):
        return {name: value for name, value in draws.items() if name != AXES}

    return Marginal(Rotated(model, axes, proper), (X, y, extra), recover)
