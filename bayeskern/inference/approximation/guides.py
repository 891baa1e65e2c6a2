"""Families of approximating distributions for SVI: NumPyro's autoguides, or a guide by hand.

A family draws z with its log density, differentiably in its parameters, which are an unconstrained
pytree. The autoguides work in coordinates u with z = centre + A u, in which a posterior close to
Gaussian is close to standard normal, so that one learning rate suits every model.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro import handlers
from numpyro.distributions import biject_to, constraints
from numpyro.infer import autoguide
from numpyro.infer.initialization import init_to_value

from bayeskern.inference.approximation.proposals import (
    Approximation,
    Elliptical,
    log_density,
    with_defensive_tails,
)
from bayeskern.inference.model.target import Target
from bayeskern.inference.optimization.factors import triangular_root

GUIDES = {
    "mean_field": autoguide.AutoDiagonalNormal,
    "full_rank": autoguide.AutoMultivariateNormal,
    "low_rank": autoguide.AutoLowRankMultivariateNormal,
    "flow": autoguide.AutoIAFNormal,
}


class AutoGuide(eqx.Module):
    """One of NumPyro's autoguides, in coordinates u: z = centre + A u.

    centre: (d,); A: (d, d) lower triangular, diagonal for families that need it to be.
    """

    name: str = eqx.field(static=True)
    centre: jax.Array
    A: jax.Array

    def init(self, scale):
        """Parameters of a distribution with sds `scale` in u."""
        return _autoguide(self.name, self.centre.shape[0], scale).start

    def distribution(self, params) -> dist.Distribution:
        """q(u), at these parameters."""
        built = _autoguide(self.name, self.centre.shape[0], 1.0)
        return built.guide.get_posterior(_constrain(params, built.constraints))

    def draw(self, params, key):
        """One z and log q(z)."""
        q = self.distribution(params)
        u, intermediates = q.sample_with_intermediates(key)
        if intermediates:
            log_q = q.log_prob(u, intermediates)
        else:
            # Without the derivative of log q in its parameters, which is zero on average: the
            # gradient has no noise where q is exact (Roeder, Wu and Duvenaud, 2017).
            log_q = self.distribution(jax.lax.stop_gradient(params)).log_prob(u)
        return self.to_z(u), jnp.sum(log_q) - self.log_det

    def log_density(self, params, z):
        """log q(z) at any z."""
        u = jax.scipy.linalg.solve_triangular(self.A, z - self.centre, lower=True)
        return jnp.sum(self.distribution(params).log_prob(u)) - self.log_det

    def to_z(self, u):
        return self.centre + self.A @ u

    @property
    def log_det(self):
        return jnp.sum(jnp.log(jnp.diagonal(self.A)))

    def approximation(self, params) -> Approximation:
        """The fitted distribution over z."""
        if self.name == "flow":
            return FittedFlow(self, params)
        q = self.distribution(params)
        mean, factor = np.asarray(q.mean), np.asarray(_factor(q))
        A = np.asarray(self.A)
        tril = triangular_root(A @ factor)
        return Elliptical.of(np.asarray(self.centre) + A @ mean, tril)


class _BuiltGuide(NamedTuple):
    """An autoguide, the constraints of its parameters, and their unconstrained start."""

    guide: autoguide.AutoContinuous
    constraints: dict
    start: dict


@lru_cache(maxsize=64)
def _autoguide(name: str, d: int, scale: float) -> _BuiltGuide:
    """An autoguide for d coordinates, built once, since it depends on no model and no data."""

    def model():
        numpyro.sample("u", dist.ImproperUniform(constraints.real, (), (d,)))

    # It may be asked for while JAX traces, and must not hold anything traced.
    with jax.ensure_compile_time_eval():
        start = init_to_value(values={"u": jnp.zeros(d)})
        options = {} if name == "flow" else {"init_scale": scale}
        guide = GUIDES[name](model, init_loc_fn=start, **options)
        trace = handlers.trace(handlers.seed(guide, jax.random.key(0))).get_trace()
        return _BuiltGuide(guide, _constraints(trace), jax.device_get(_unconstrained(trace)))


class UserGuide(eqx.Module):
    """A NumPyro guide for the model's own sites; an autoguide may come as its class."""

    target: Target
    guide: Callable = eqx.field(static=True)

    def __init__(self, target, guide):
        self.target = target
        self.guide = guide(target.model) if isinstance(guide, type) else guide
        # An autoguide looks at its model when it is first called, and keeps what it sees.
        self._trace(jax.random.key(0))

    def _trace(self, key):
        guide = handlers.seed(self.guide, key)
        return handlers.trace(guide).get_trace(*self.target.args, **self.target.kwargs)

    def init(self, scale):
        return _unconstrained(self._trace(jax.random.key(0)))

    def draw(self, params, key):
        values = _constrain(params, _constraints(self._trace(jax.random.key(0))))
        guide = handlers.substitute(handlers.seed(self.guide, key), data=values)
        trace = handlers.trace(guide).get_trace(*self.target.args, **self.target.kwargs)
        sites = {k: v for k, v in trace.items() if v["type"] == "sample"}
        self._require_same_sites(sites)
        log_q = sum(jnp.sum(_log_prob(site)) for site in sites.values())
        z, log_det = self.target.unconstrain({k: v["value"] for k, v in sites.items()})
        return z, log_q + log_det

    def _require_same_sites(self, sites) -> None:
        model_sites = {s.name for s in self.target.latents}
        # Without the auxiliary site of an autoguide, from which the others follow.
        guide_sites = {k for k, v in sites.items() if not v["infer"].get("is_auxiliary", False)}
        if guide_sites != model_sites:
            missing, extra = sorted(model_sites - guide_sites), sorted(guide_sites - model_sites)
            says = f"has no site {missing}, which the model has" if missing else ""
            says += " and " if missing and extra else ""
            says += f"has sites {extra}, which the model has not" if extra else ""
            raise ValueError(
                f"the guide {says}: give each latent site of the model one of the same name."
            )

    def approximation(self, params) -> Approximation:
        return FittedGuide(self, params)


class FittedGuide(eqx.Module):
    """A guide by hand with its parameters, as a distribution to draw z from."""

    family: UserGuide
    params: object

    def draw(self, key, n):
        return _draw(self, jax.random.split(key, n))


class FittedFlow(eqx.Module):
    """A flow with its parameters, as a distribution over z."""

    family: AutoGuide
    params: object

    def draw(self, key, n):
        return _draw(self, jax.random.split(key, n))

    def log_density(self, z):
        return log_density(self, jnp.asarray(z))

    def sample(self, key, n):
        keys = jax.random.split(key, n)
        return jax.vmap(lambda key: self.family.draw(self.params, key)[0])(keys)

    def evaluate(self, z):
        return jax.vmap(lambda z: self.family.log_density(self.params, z))(z)

    def with_tails(self, tails, z):
        return with_defensive_tails(self, tails, z)


@eqx.filter_jit
def _draw(fitted, keys):
    return jax.vmap(lambda key: fitted.family.draw(fitted.params, key))(keys)


def _log_prob(site):
    fn, value, intermediates = site["fn"], site["value"], site["intermediates"]
    return fn.log_prob(value, intermediates) if intermediates else fn.log_prob(value)


def _constraints(trace) -> dict:
    return {
        name: site["kwargs"].get("constraint", constraints.real)
        for name, site in trace.items()
        if site["type"] == "param"
    }


def _unconstrained(trace) -> dict:
    return {name: biject_to(c).inv(trace[name]["value"]) for name, c in _constraints(trace).items()}


def _constrain(params: dict, constraints: dict) -> dict:
    return {name: biject_to(constraints[name])(value) for name, value in params.items()}


def _factor(q):
    """L, lower triangular, with L L' the covariance: not by Cholesky, which rounding can fail."""
    if hasattr(q, "scale_tril"):
        return q.scale_tril
    return jnp.diag(jnp.sqrt(q.variance))
