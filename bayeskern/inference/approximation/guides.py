"""Variational families for SVI: normal, NumPyro autoguides, user-defined guides.

`draw` gives z and log q(z), both differentiable in the parameters, an unconstrained pytree. Except
for user-defined guides, q is a density of whitened coordinates u with z = centre + A u. A nearly
Gaussian posterior is nearly standard normal in u, so that one learning rate suits every model.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

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

from bayeskern.core.random import jax_seed
from bayeskern.core.tracing import by_one_thread
from bayeskern.hyperparameters import innermost
from bayeskern.inference.approximation.elliptical import Elliptical
from bayeskern.inference.approximation.proposals import Approximation
from bayeskern.inference.model.target import Target
from bayeskern.inference.search.factors import triangular_root

type Parameters = dict[str, jax.Array]


class Guide(eqx.Module):
    """A family of distributions q(u), where z = centre + A u.

    Attributes:
        name: Name of the family.
        centre: Origin of u, (d,).
        A: Scale of u, lower triangular, or diagonal for some families, (d, d).
    """

    name: str = eqx.field(static=True)
    centre: jax.Array
    A: jax.Array

    def init(self, scale: float) -> Parameters:
        """Initial parameters, with sds `scale` in u."""
        raise NotImplementedError

    def distribution(self, params: Parameters) -> dist.Distribution:
        """q(u) at these parameters."""
        raise NotImplementedError

    def draw(self, params: Parameters, key: jax.Array) -> tuple[jax.Array, jax.Array]:
        """One draw z (d,) and log q(z)."""
        q = self.distribution(params)
        u, intermediates = q.sample_with_intermediates(key)
        if intermediates:
            log_q = q.log_prob(u, intermediates)
        else:
            # "Sticking the landing" (Roeder, Wu and Duvenaud, 2017): without the score term, whose
            # mean is zero, the gradient has no noise if q is exact.
            log_q = self.distribution(jax.lax.stop_gradient(params)).log_prob(u)
        return self.centre + self.A @ u, jnp.sum(log_q) - self.log_det

    def log_density(self, params: Parameters, z: jax.Array) -> jax.Array:
        """log q(z) at any z (d,)."""
        u = jax.scipy.linalg.solve_triangular(self.A, z - self.centre, lower=True)
        return jnp.sum(self.distribution(params).log_prob(u)) - self.log_det

    @property
    def log_det(self) -> jax.Array:
        """log det A."""
        return jnp.sum(jnp.log(jnp.diagonal(self.A)))

    def approximation(self, params: Parameters) -> Approximation:
        """The fitted distribution over z."""
        return FittedFlow(self, params) if self.name == "flow" else self.gaussian(params)

    def gaussian(self, params: Parameters) -> Elliptical:
        """The fitted normal distribution over z; not defined for a flow."""
        mean, factor = jax.device_get(_mean_and_factor(self, params))
        A = np.asarray(self.A)
        return Elliptical.at_mean(np.asarray(self.centre) + A @ mean, triangular_root(A @ factor))


class GaussianGuide(Guide):
    """Normal distributions, with a diagonal ("mean_field") or a full covariance.

    The covariance is L L' with L = diag(s) (I + lower), as in NumPyro's AutoMultivariateNormal,
    which is not used because JAX takes seconds to trace it.
    """

    def init(self, scale: float) -> Parameters:
        """Initial parameters, with sds `scale` in u."""
        d = self.centre.shape[0]
        # s = log(1 + exp(softplus_inverse)).
        params = {"loc": jnp.zeros(d), "softplus_inverse": jnp.full(d, np.log(np.expm1(scale)))}
        return params if self.name == "mean_field" else params | {"lower": jnp.zeros((d, d))}

    def distribution(self, params: Parameters) -> dist.Distribution:
        """q(u) at these parameters."""
        s = jax.nn.softplus(params["softplus_inverse"])
        if self.name == "mean_field":
            return dist.Normal(params["loc"], s)
        lower = jnp.tril(params["lower"], -1) + jnp.eye(len(s))
        return dist.MultivariateNormal(params["loc"], scale_tril=s[:, None] * lower)


class AutoGuide(Guide):
    """One of NumPyro's autoguides."""

    def init(self, scale: float) -> Parameters:
        """Initial parameters, with sds `scale` in u."""
        return _autoguide(self.name, self.centre.shape[0], scale).start

    def distribution(self, params: Parameters) -> dist.Distribution:
        """q(u) at these parameters."""
        built = _autoguide(self.name, self.centre.shape[0], 1.0)
        return built.guide.get_posterior(_constrain(params, built.constraints))


#: The families in coordinates u, by name.
GUIDES: dict[str, type[Guide]] = {
    "mean_field": GaussianGuide,
    "full_rank": GaussianGuide,
    "low_rank": AutoGuide,
    "flow": AutoGuide,
}


class _BuiltGuide(NamedTuple):
    """An autoguide, the constraints of its parameters, and their unconstrained start."""

    guide: autoguide.AutoContinuous
    constraints: dict[str, constraints.Constraint]
    start: Parameters


@by_one_thread
@lru_cache(maxsize=64)
def _autoguide(name: str, d: int, scale: float) -> _BuiltGuide:
    """Cached autoguide for d coordinates, independent of model and data."""

    def model():
        numpyro.sample("u", dist.ImproperUniform(constraints.real, (), (d,)))

    # Constants: JAX may be tracing, and a cached guide must not hold tracers.
    with jax.ensure_compile_time_eval():
        start = init_to_value(values={"u": jnp.zeros(d)})
        if name == "flow":
            guide = autoguide.AutoIAFNormal(model, init_loc_fn=start)
        else:
            guide = autoguide.AutoLowRankMultivariateNormal(
                model, init_loc_fn=start, init_scale=scale
            )
        trace = handlers.trace(handlers.seed(guide, jax.random.key(0))).get_trace()
        return _BuiltGuide(guide, _constraints(trace), jax.device_get(_unconstrained(trace)))


class UserGuide(eqx.Module):
    """A user-defined guide for the latent sites of a model, or an autoguide.

    Attributes:
        target: The model.
        guide: The NumPyro guide.
    """

    target: Target
    guide: Callable = eqx.field(static=True)

    def __init__(self, target: Target, guide: Callable | type):
        self.target = target
        self.guide = guide(target.model) if isinstance(guide, type) else guide
        # A first call outside compiled functions: an autoguide keeps the trace of its first call.
        self._trace(jax.random.key(0))

    @by_one_thread
    def _trace(self, key: jax.Array) -> dict[str, dict[str, Any]]:
        guide = handlers.seed(self.guide, key)
        return handlers.trace(guide).get_trace(*self.target.args, **self.target.kwargs)

    def init(self, scale: float) -> Parameters:
        """Parameters at the guide's own start; `scale` is not used."""
        return _unconstrained(self._trace(jax.random.key(0)))

    def unconstrained(self, params: Mapping[str, Any]) -> Parameters:
        """Unconstrained parameters at values such as `svi.get_params` returns.

        Raises:
            TypeError: If the values are no mapping.
            ValueError: If names or shapes do not fit the guide, with both lists, or if a value is
                not finite; the message names the parameter.
        """
        if not isinstance(params, Mapping):
            raise TypeError(
                "the parameters of a guide must be a dict by name, such as svi_result.params or "
                f"svi.get_params(state); got {type(params).__name__}."
            )
        trace = self._trace(jax.random.key(0))
        own = {name: trace[name]["value"] for name in _constraints(trace)}
        values = {str(name): jax.tree.map(jnp.asarray, value) for name, value in params.items()}
        if jax.tree.map(jnp.shape, own) != jax.tree.map(jnp.shape, values):
            raise ValueError(
                f"the parameters do not fit the guide. The guide has {_shapes(own)}; the "
                f"parameters are {_shapes(values)}. Pass the parameters of this guide, with its "
                "model and data."
            )
        for name, value in values.items():
            if not all(bool(jnp.all(jnp.isfinite(leaf))) for leaf in jax.tree.leaves(value)):
                raise ValueError(
                    f"the parameter {name!r} is NaN or infinite: the optimisation failed. Fit the "
                    "guide again with a lower learning rate."
                )
        wide = jax.tree.map(
            lambda x: x.astype(float) if jnp.issubdtype(x.dtype, jnp.floating) else x, values
        )
        return {name: biject_to(c).inv(wide[name]) for name, c in _constraints(trace).items()}

    @by_one_thread
    def draw(self, params: Parameters, key: jax.Array) -> tuple[jax.Array, jax.Array]:
        """One draw z (d,) and log q(z)."""
        values = _constrain(params, _constraints(self._trace(jax.random.key(0))))
        guide = handlers.substitute(handlers.seed(self.guide, key), data=values)
        trace = handlers.trace(guide).get_trace(*self.target.args, **self.target.kwargs)
        sites = {k: v for k, v in trace.items() if v["type"] == "sample"}
        self._require_same_sites(sites)
        log_q = sum(jnp.sum(_log_prob(site)) for site in sites.values())
        z, log_det = self.target.unconstrain({k: v["value"] for k, v in sites.items()})
        return z, log_q + log_det

    def _require_same_sites(self, sites: dict[str, dict[str, Any]]) -> None:
        model_sites = {s.name for s in self.target.latents}
        # Leave out the auxiliary site of an autoguide: its other sites are functions of it.
        guide_sites = {k for k, v in sites.items() if not v["infer"].get("is_auxiliary", False)}
        missing, extra = sorted(model_sites - guide_sites), sorted(guide_sites - model_sites)
        if missing or extra:
            problem = f"no site {missing}" if missing else f"sites {extra} that the model lacks"
            raise ValueError(
                f"the guide has {problem}. Give it one site for each latent site of the model, "
                "with the same name."
            )
        # The density of auxiliary draws is the density of z only if z is a bijection of them.
        auxiliary = sorted(sites.keys() - guide_sites)
        size = sum(jnp.size(sites[name]["value"]) for name in auxiliary)
        are_points = all(
            isinstance(innermost(sites[name]["fn"]), dist.Delta) for name in guide_sites
        )
        if auxiliary and not (size == self.target.size and are_points):
            raise ValueError(
                f"the guide has auxiliary draws {auxiliary} beside the latent sites of the model, "
                "so that the density of its sites is unknown. Integrate them out, or take a guide "
                "without them."
            )

    def approximation(self, params: Parameters) -> Approximation:
        """The fitted distribution over z."""
        return FittedGuide(self, params)


class FittedGuide(eqx.Module):
    """The fitted distribution over z of a family with these parameters."""

    family: Guide | UserGuide
    params: Parameters

    def draw(self, rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
        """n draws (n, d) and log q of each (n,)."""
        return jax.device_get(_draw(self, jax_seed(rng), n))


class FittedFlow(FittedGuide):
    """The fitted distribution of a flow, with a log density at any z."""

    def log_density(self, z: np.ndarray) -> np.ndarray:
        """log q(z): (n, d) -> (n,)."""
        return jax.device_get(_log_density(self, jnp.asarray(z)))


@eqx.filter_jit
def _draw(fitted, seed, n):
    keys = jax.random.split(jax.random.key(seed), n)
    return jax.vmap(lambda key: fitted.family.draw(fitted.params, key))(keys)


@eqx.filter_jit
def _log_density(fitted, z):
    return jax.vmap(lambda z: fitted.family.log_density(fitted.params, z))(z)


def _shapes(params: Parameters) -> str:
    """Names of parameters with the shapes of their arrays."""
    shapes = {
        name: [jnp.shape(x) for x in jax.tree.leaves(value)] for name, value in params.items()
    }
    named = (f"{name} {', '.join(map(str, leaves))}" for name, leaves in shapes.items())
    return "; ".join(named) or "no parameters"


def _log_prob(site: dict[str, Any]) -> jax.Array:
    fn, value, intermediates = site["fn"], site["value"], site["intermediates"]
    return fn.log_prob(value, intermediates) if intermediates else fn.log_prob(value)


def _constraints(trace: dict[str, dict[str, Any]]) -> dict[str, constraints.Constraint]:
    """Constraint of each parameter in a trace."""
    return {
        name: site["kwargs"].get("constraint", constraints.real)
        for name, site in trace.items()
        if site["type"] == "param"
    }


def _unconstrained(trace: dict[str, dict[str, Any]]) -> Parameters:
    """Unconstrained values of the parameters in a trace."""
    return {name: biject_to(c).inv(trace[name]["value"]) for name, c in _constraints(trace).items()}


def _constrain(params: Parameters, constraints: dict[str, constraints.Constraint]) -> Parameters:
    return {name: biject_to(constraints[name])(value) for name, value in params.items()}


@eqx.filter_jit
def _mean_and_factor(family, params):
    """Mean of q(u) and a square root of its covariance."""
    # A factor that q already has: a Cholesky factorisation of the covariance may fail.
    q = family.distribution(params)
    return q.mean, q.scale_tril if hasattr(q, "scale_tril") else jnp.diag(jnp.sqrt(q.variance))
