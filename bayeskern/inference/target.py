"""A model and its data as a log density on R^d, and the way back.

Every latent site is mapped to the real line by the bijection of its support, and all of them are
laid out in one flat vector z. A `numpyro.param` site takes part as a value without a prior.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from numpyro import handlers
from numpyro.distributions import biject_to, constraints
from numpyro.infer.util import compute_log_probs

from bayeskern.inference.ordered import as_made, in_order


class Latent(NamedTuple):
    """A latent site: its name, its shape before and after the map to the real line."""

    name: str
    is_param: bool
    shape: tuple[int, ...]
    unconstrained_shape: tuple[int, ...]

    @property
    def size(self) -> int:
        return int(np.prod(self.unconstrained_shape, dtype=int))


class Target(eqx.Module):
    """log p(z) for a NumPyro model and its arguments, z in R^d.

    A pytree: passed to a compiled function, new data of the same shapes do not recompile. Raises
    ValueError if the model has no latent site, or a discrete one.
    """

    ordered_model: Callable
    args: tuple
    kwargs: dict
    latents: tuple[Latent, ...] = eqx.field(static=True)
    #: latents whose prior is improper, or that have none, and so cannot be drawn from it
    without_prior: tuple[str, ...] = eqx.field(static=True)

    @classmethod
    def of(cls, model: Callable, args: tuple, kwargs: dict) -> Target:
        """Look at the model once, abstractly, and lay out its latent sites."""
        latents, without_prior = _look(model, args, kwargs)
        if not latents:
            raise ValueError(
                "the model has no latent site: every hyperparameter is a number, so there is "
                "nothing to infer. Give one a prior (a NumPyro distribution) or Free(init)."
            )
        return cls(in_order(model), args, kwargs, tuple(latents), tuple(without_prior))

    @property
    def model(self) -> Callable:
        return as_made(self.ordered_model)

    @property
    def size(self) -> int:
        """d, the number of unconstrained coordinates."""
        return sum(latent.size for latent in self.latents)

    @property
    def coordinates(self) -> list[str]:
        """A name for each coordinate of z: `site`, or `site[i,j]`."""
        return [
            f"{s.name}[{','.join(map(str, index))}]" if index else s.name
            for s in self.latents
            for index in np.ndindex(s.unconstrained_shape)
        ]

    def unravel(self, z) -> dict:
        """The unconstrained value of each latent site."""
        ends = np.cumsum([s.size for s in self.latents])[:-1]
        parts = jnp.split(z, ends)
        return {
            s.name: part.reshape(s.unconstrained_shape)
            for s, part in zip(self.latents, parts, strict=True)
        }

    def ravel(self, unconstrained: dict):
        """The inverse of `unravel`."""
        return jnp.concatenate([jnp.ravel(unconstrained[s.name]) for s in self.latents])

    def log_density(self, z, jacobian: bool = True):
        """log p(z): of the model's own parameters, or with `jacobian` of the unconstrained ones.

        Values without a prior (param sites) have no Jacobian and no density of their own.
        """
        placed = _Placed(self.unravel(z))
        log_probs, _ = compute_log_probs(placed.model(self.model), self.args, self.kwargs, {})
        total = sum(log_probs.values(), jnp.zeros(()))
        return total + placed.log_det if jacobian else total

    def constrain(self, z) -> dict:
        """Values of all latent and deterministic sites at z."""
        placed = _Placed(self.unravel(z))
        trace = handlers.trace(placed.model(self.model)).get_trace(*self.args, **self.kwargs)
        wanted = {s.name for s in self.latents}
        return {
            name: site["value"]
            for name, site in trace.items()
            if name in wanted or site["type"] == "deterministic"
        }

    def draw_prior(self, key, spread) -> jax.Array:
        """One z from the prior.

        Coordinates without a proper prior are normal around their first value, with sd `spread`.
        """
        key, jitter = jax.random.split(key)
        model = handlers.seed(handlers.substitute(self.model, substitute_fn=_centre_improper), key)
        trace = handlers.trace(model).get_trace(*self.args, **self.kwargs)
        unconstrained = {}
        for i, latent in enumerate(self.latents):
            site = trace[latent.name]
            value = jnp.asarray(biject_to(_support(site)).inv(site["value"]))
            if latent.name in self.without_prior:
                noise = jax.random.normal(jax.random.fold_in(jitter, i), value.shape)
                value = value + spread * noise.astype(value.dtype)
            unconstrained[latent.name] = value
        return self.ravel(unconstrained)


class _Placed:
    """Puts unconstrained values at their sites and adds up the log determinants."""

    def __init__(self, unconstrained: dict):
        self.unconstrained, self.log_det = unconstrained, jnp.zeros(())

    def model(self, model):
        # Whatever the model draws beside its latent sites is drawn from a fixed key.
        return handlers.substitute(
            handlers.seed(model, jax.random.key(0)), substitute_fn=self._substitute
        )

    def _substitute(self, site):
        if site["name"] not in self.unconstrained or site["type"] not in ("sample", "param"):
            return None
        transform, u = biject_to(_support(site)), self.unconstrained[site["name"]]
        value = transform(u)
        if site["type"] == "sample":
            self.log_det = self.log_det + jnp.sum(transform.log_abs_det_jacobian(u, value))
        return value


def _look(model, args, kwargs) -> tuple[list[Latent], list[str]]:
    """The latent sites and the names of those without a proper prior; nothing is computed."""
    latents, without_prior = [], []

    def run():
        handled = handlers.substitute(model, substitute_fn=_centre_improper)
        trace = handlers.trace(handlers.seed(handled, jax.random.key(0))).get_trace(*args, **kwargs)
        # In here, since the bounds of a support may be traced values themselves.
        for name, site in trace.items():
            if site["type"] != "param" and (site["type"] != "sample" or site["is_observed"]):
                continue
            latents.append(_latent(name, site))
            if latents[-1].is_param or type(site["fn"]).__name__ == "ImproperUniform":
                without_prior.append(name)

    jax.eval_shape(run)
    return latents, without_prior


def _latent(name, site) -> Latent:
    support, is_param = _support(site), site["type"] == "param"
    if not is_param and support.is_discrete:
        raise ValueError(
            f"the latent site {name!r} is discrete; this backend needs continuous latents. "
            "Sum it out in the model (for example with dist.MixtureSameFamily)."
        )
    shape = jnp.shape(site["value"])
    return Latent(name, is_param, shape, biject_to(support).inverse_shape(shape))


def _support(site) -> constraints.Constraint:
    if site["type"] == "param":
        return site["kwargs"].get("constraint", constraints.real)
    return site["fn"].support


def _centre_improper(site):
    """A value for a site that cannot be sampled: the image of 0."""
    fn = site.get("fn")
    if site["type"] != "sample" or type(fn).__name__ != "ImproperUniform":
        return None
    transform = biject_to(fn.support)
    return transform(jnp.zeros(transform.inverse_shape(fn.batch_shape + fn.event_shape)))
