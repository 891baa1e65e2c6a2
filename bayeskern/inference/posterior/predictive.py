"""Predictions of any model: new values of its observations, at draws from the posterior."""

from __future__ import annotations

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from bayeskern.core.batching import batch_size, by_chunk
from bayeskern.inference.model import sites
from bayeskern.inference.model.arguments import hold, read
from bayeskern.prediction.empirical import Predictions, SampledPrediction
from bayeskern.prediction.mixture import Prediction, count_draws, mixture, thin

# A point estimate has one draw; so many observations are drawn at it.
AT_A_POINT = 1000


def predict(posterior, args: tuple, seed: int, kwargs: dict):
    """The posterior predictive at new arguments of the model.

    By the model itself where it offers `predictive(draws, data, *new_args, seed=)`; conditioned on
    what was observed where a site's distribution offers `given`, as `GaussianProcess` does; else
    one draw of every site that is not latent for each draw of the posterior. A Prediction, or one
    for each site in a dict.
    """
    target = posterior.target
    if hasattr(target.model, "predictive"):
        return target.model.predictive(posterior.flat, target.args, *args, seed=seed, **kwargs)
    given = {name: site for name, site in sites.look(target).items() if site.conditional}
    draws, new = latents(posterior), read((args, kwargs))
    if target.holds_data:
        new = hold(new)
    shapes = shapes_of(target, draws, new, tuple(given))
    found = {
        name: _mixture(target, draws, new, name, given[name].shape[-1], shapes[name][-1], seed)
        for name in shapes
        if name in given
    }
    if set(shapes) - set(given):
        drawn = _sampled(posterior, draws, new, tuple(given), shapes, seed)
        found |= {name: SampledPrediction(name, drawn[name]) for name in shapes if name in drawn}
    if not found:
        raise ValueError("the model has no site to predict: all of its sample sites are latent.")
    return Predictions(found) if len(found) > 1 else next(iter(found.values()))


def latents(posterior) -> dict[str, np.ndarray]:
    """The draws of the model's latent sites, with chains joined: each (S, shape)."""
    return {s.name: posterior.flat[s.name] for s in posterior.target.latents}


# -- draws of the observations ---------------------------------------------------------------------


def _drawn(target, draw, key, new, given) -> dict:
    """A value of every site that is not latent, in the order of the model."""
    model = sites.Unobserved(target.model, given)
    # What was summed out is drawn on the way, and is no prediction.
    skipped = {*(s.name for s in target.latents), *target.discrete}
    trace = sites.trace_at(model, draw, key, *new)
    return {
        name: jnp.asarray(site["value"])
        for name, site in trace.items()
        if site["type"] == "sample"
        and not (name in skipped or sites.is_factor(site))
        # Data inside a scan, which handlers do not reach, are no prediction.
        and not site["is_observed"]
    }


def shapes_of(target, draws, new, given) -> dict[str, tuple[int, ...]]:
    """The shape of every site that can be predicted, in the order of the model."""
    order = []

    def run(draw, new):
        found = _drawn(target, draw, jax.random.key(0), new, given)
        order.extend(found)
        return found

    first = {name: value[0] for name, value in draws.items()}
    shapes = eqx.filter_eval_shape(run, first, new)
    return {name: shapes[name].shape for name in order}


def _sampled(posterior, draws, new, given, shapes, seed) -> dict[str, np.ndarray]:
    """One draw of every site but the given ones for each draw of the posterior."""
    chains, count = next(iter(posterior.draws.values())).shape[:2]
    count = chains * count
    if posterior.is_point:
        draws = {k: np.broadcast_to(v, (AT_A_POINT, *v.shape[1:])) for k, v in draws.items()}
        count = AT_A_POINT
    keys = jax.random.split(jax.random.key(seed), count)
    size = sum(math.prod(shape) for name, shape in shapes.items() if name not in given)
    batch = batch_size(size)
    return by_chunk(
        lambda items: _sample(posterior.target, *items, new, given, False, batch),
        (draws, keys),
        size,
    )


@eqx.filter_jit
def _sample(target, draws, keys, new, given, joint, batch):
    """joint: draw the given sites as well, each conditioned on what was observed."""

    def one(item):
        draw, key = item
        found = _drawn(target, draw, key, new, given)
        for i, site in enumerate(given):
            rows, own = jnp.arange(found.pop(site).shape[-1]), jax.random.fold_in(key, i)
            if joint:
                found[site] = _given(target, new, site, (draw, key), rows).sample(own, 1)[0]
        return found

    return jax.lax.map(one, (draws, keys), batch_size=batch)


# -- sites that condition on what was observed -----------------------------------------------------


def _given(target, new, site, draw_and_key, rows):
    """The distribution of new values of a site, given the old ones, at one draw."""
    draw, key = draw_and_key
    old = sites.trace_at(target.model, draw, key, target.args, target.kwargs)[site]
    model = sites.Unobserved(target.model, (site,))
    return old["fn"].given(old["value"], sites.trace_at(model, draw, key, *new)[site]["fn"], rows)


def _mixture(target, draws, new, site, n, m, seed) -> Prediction:
    """Gaussians at m new values of a site, one for each draw, given n old ones."""
    draws = thin(draws)
    keys = jax.random.split(jax.random.key(seed), count_draws(draws))
    return mixture(eqx.Partial(_given, target, new, site), (draws, keys), np.arange(m), n)


# -- replicates of the data, and the prior ---------------------------------------------------------


def replicates(target, draws: dict, count: int, given: tuple, shapes: dict) -> dict:
    """New data at the model's own arguments, one set for each of `count` draws.

    given: the sites that are conditioned on the data that were observed.
    """
    size = sum(math.prod(shape) for shape in shapes.values())
    keys = jax.random.split(jax.random.key(0), count)
    new, batch = target.arguments, None if given else batch_size(size)
    return by_chunk(
        lambda items: _sample(target, *items, new, given, True, batch), (draws, keys), size
    )


def prior(target, count: int, size: int) -> dict[str, np.ndarray]:
    """Draws of the latents and deterministics, `size` numbers in each, from the prior."""
    keys, batch = jax.random.split(jax.random.key(1), count), batch_size(size)
    return by_chunk(lambda keys: _prior(target, keys, batch), keys, size)


@eqx.filter_jit
def _prior(target, keys, batch):
    wanted = {*(s.name for s in target.latents), *target.deterministics}

    def one(key):
        model = sites.Unobserved(target.model)
        trace = sites.trace_at(model, {}, key, target.args, target.kwargs)
        return {name: jnp.asarray(trace[name]["value"]) for name in trace if name in wanted}

    return jax.lax.map(one, keys, batch_size=batch)
