"""Draws of parameters and data together, from a model's prior."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from bayeskern.core import validation
from bayeskern.core.batching import batch_size, by_chunk
from bayeskern.inference.model import sites
from bayeskern.inference.model.arguments import refusing_looks
from bayeskern.inference.model.target import Target
from bayeskern.inference.posterior.arviz import parameters, require_axes
from bayeskern.inference.posterior.posterior import Posterior


class Given(NamedTuple):
    """A model, its arguments, names for the axes of its sites, and the arguments as they came."""

    model: Callable
    args: tuple
    kwargs: dict
    coords: dict
    dims: dict
    raw: tuple[tuple, dict]

    @classmethod
    def of(cls, problem, args: tuple, kwargs: dict) -> Given:
        """Of a Problem, which has its data with it, or of a model with its arguments."""
        if not (hasattr(problem, "model") and hasattr(problem, "data")):
            return cls(problem, args, kwargs, {}, {}, (args, kwargs))
        if args or kwargs:
            raise TypeError(
                "a Problem holds its own data, so that there are no other arguments to give; to "
                "fit its model to other data, give problem.model and these."
            )
        named = isinstance(problem.data, dict)
        own, named = ((), problem.data) if named else (tuple(problem.data), {})
        coords, dims = problem.coords or {}, problem.dims or {}
        return cls(problem.model, own, named, coords, dims, (own, named))

    def prepared(self) -> Given:
        """With default priors set and the data as the model's own arguments."""
        if not hasattr(self.model, "prepare"):
            return self
        model, args = self.model.prepare(*self.args, **self.kwargs)
        coords = {**getattr(model, "coords", {}), **self.coords}
        return Given(model, args, {}, coords, self.dims, self.raw)

    def target(self) -> Target:
        target = Target.of(self.model, self.args, self.kwargs)
        if self.coords or self.dims:
            require_axes(sites.look(target), self.coords, self.dims)
        return target


def prior_predictive(problem, *args, draws: int = 1000, seed: int = 0, **kwargs):
    """Parameters from the prior and data given them: `prior_predictive(model, X, y)`.

    problem: a NumPyro model with its arguments, or a `Problem`. The data say which sites are
    observed and in what shape; their values matter only to default priors. Returns an xarray
    DataTree with the groups prior (latents, discrete ones too, and deterministics) and
    prior_predictive (the observed sites), one chain of `draws` each, and observed_data: as ArviZ
    takes it. What is masked out is drawn too. Raises ValueError, naming the site, where a prior is
    improper or missing (`Free`), where nothing is observed, and where a `numpyro.factor` has a say.
    """
    import xarray as xr

    validation.positive_integer(draws, "draws")
    given = Given.of(problem, args, kwargs).prepared()
    target = given.target()
    found, data = simulate(target, draws, seed)
    shown = Posterior(
        method="prior",
        draws={name: value[None] for name, value in found.items()},
        judge=None,
        target=target,
        coords=dict(given.coords),
        dims=dict(given.dims),
    )
    observed = sites.observed(target, {s.name: found[s.name][0] for s in target.latents})
    groups = {"prior": shown.draws} if found else {}
    groups["prior_predictive"] = {name: value[None] for name, value in data.items()}
    groups["observed_data"] = {name: value[None, None] for name, value in observed.items()}
    tree = {k: parameters(_with_draws(shown, v)) for k, v in groups.items()}
    tree["observed_data"] = tree["observed_data"].isel(chain=0, draw=0, drop=True)
    return xr.DataTree.from_dict(tree)


def _with_draws(posterior: Posterior, draws: dict) -> Posterior:
    return dataclasses.replace(posterior, draws=draws)


def simulate(target: Target, count: int, seed: int) -> tuple[dict, dict]:
    """Latents (discrete ones too) and deterministics, and the data, each (count, shape), together.

    Raises ValueError, naming the site, where they cannot be drawn.
    """
    found = _looked_at(target)
    size = sum(int(np.prod(site.shape)) for site in found.values())
    keys = jax.random.split(jax.random.key(validation.seed(seed)), count)
    batch, wanted = batch_size(size), tuple(found)
    drawn = by_chunk(lambda keys: _simulate(target, keys, wanted, batch), keys, size)

    def of(kind):
        return {name: drawn[name] for name in found if found[name].kind == kind}

    latents = {s.name: drawn[s.name] for s in target.latents}
    return latents | of("discrete") | of("deterministic"), of("observed")


@eqx.filter_jit
def _simulate(target, keys, wanted, batch):
    def one(key):
        trace = _trace(target, key)
        return {name: jnp.asarray(trace[name]["value"]) for name in wanted}

    return jax.lax.map(one, keys, batch_size=batch)


def _trace(target, key) -> dict:
    return sites.trace_at(sites.Unobserved(target.model), {}, key, target.args, target.kwargs)


def _looked_at(target: Target) -> dict[str, sites.Site]:
    """What is to be drawn, where all of it can be."""
    if target.without_prior:
        raise ValueError(
            f"{', '.join(map(repr, target.without_prior))} has no prior that could be drawn from: "
            "it is improper or flat, Free, or a numpyro.param. Give it a proper prior, or a number."
        )
    found = sites.look(target)
    if not any(site.kind == "observed" for site in found.values()):
        raise ValueError(
            "the model observes nothing with these arguments, so there are no data to draw. Give "
            "data as for infer: they say which sites are observed, and in what shape."
        )
    factors = []

    def run():
        trace = _trace(target, jax.random.key(0))
        is_factor = {k: v["type"] == "sample" and sites.is_factor(v) for k, v in trace.items()}
        factors.extend(name for name, found in is_factor.items() if found)

    with refusing_looks():
        jax.eval_shape(run)
    if factors:
        raise ValueError(
            f"{', '.join(map(repr, factors))} is a numpyro.factor: a density of nothing that could "
            "be drawn. Write it as a distribution, observed or latent."
        )
    return found
