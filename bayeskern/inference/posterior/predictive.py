"""Predictions of any model: new values of its observations, at draws from the posterior."""

from __future__ import annotations

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from bayeskern.core.batching import batch_size, by_chunk, evenly
from bayeskern.inference.model.trace.arguments import as_jax, make_static
from bayeskern.inference.model.trace.handlers import DrawObserved
from bayeskern.inference.model.trace.sites import conditional_sites, trace_at, upstream_sites
from bayeskern.inference.model.trace.validation import CannotDrawError, is_factor
from bayeskern.prediction.empirical import DRAWS_AT_A_POINT, Predictions, SampledPrediction
from bayeskern.prediction.mixture import Prediction, count_draws, mixture, thin
from bayeskern.protocols import HasLogLikelihood, HasPredictive


def predict(posterior, args: tuple, seed: int, extend: bool, kwargs: dict):
    """The posterior predictive at new arguments of the model.

    The model itself makes it where it offers `predictive`. Sites whose distribution conditions on
    data, as `GaussianProcess` does, are conditioned on what was observed. Sites that others depend
    on stay as they are given. All others are drawn, once for each draw of the posterior. A
    Prediction, or one for each site in a dict.
    """
    target = posterior.target
    if isinstance(target.model, HasPredictive):
        if extend:
            raise ValueError(
                f"{type(target.model).__name__} predicts in closed form and has no plate of "
                "latents to extend: leave extend=True out."
            )
        return target.model.predictive(posterior.flat, target.args, *args, seed=seed, **kwargs)
    sites, conditional = target.sites(), conditional_sites(target)
    draws, new, given = _at_new(posterior, args, seed, extend, kwargs)
    shapes = shapes_of(target, draws, new, conditional, given)
    predictions = {
        name: _mixture(target, draws, new, name, sites[name].shape[-1], shapes[name][-1], seed)
        for name in shapes
        if name in conditional
    }
    if set(shapes) - set(conditional):
        samples = _sampled(posterior, draws, new, conditional, given, shapes, seed)
        predictions |= {
            name: SampledPrediction(name, samples[name]) for name in shapes if name in samples
        }
    if not predictions:
        raise ValueError("the model has no site to predict: all of its sample sites are latent.")
    return Predictions(predictions) if len(predictions) > 1 else next(iter(predictions.values()))


def _at_new(posterior, args, seed, extend, kwargs) -> tuple[dict, tuple, frozenset]:
    """The draws that the model takes at new arguments, these themselves, and what they give."""
    target = posterior.target
    draws, new = latents(posterior), as_jax((args, kwargs))
    if target.holds_data:
        new = make_static(new)
    if extend:
        draws = _extended(posterior, draws, new, seed)
    shapes = {name: values.shape[1:] for name, values in draws.items()}
    draws |= _drawn_anew(posterior, draws, new)
    return draws, new, upstream_sites(target, *new, shapes).given


def latents(posterior) -> dict[str, np.ndarray]:
    """The draws of the model's latent sites, with chains joined: each (S, *site)."""
    return {s.name: posterior.flat[s.name] for s in posterior.target.latents}


def _extended(posterior, draws, new, seed) -> dict[str, np.ndarray]:
    """The draws, with those of new members of plates from their prior given the draw."""
    target = posterior.target
    first = {name: values[0] for name, values in draws.items()}
    shapes = eqx.filter_eval_shape(_latents_at, target, first, jax.random.key(0), new, tuple(draws))
    grown = tuple(k for k in shapes if shapes[k].shape != draws[k].shape[1:])
    if not grown:
        return draws
    count = math.prod(posterior.shape)
    if posterior.is_point:
        # New members have a spread where the parameters have none.
        count = DRAWS_AT_A_POINT
        draws = {k: np.broadcast_to(v, (count, *v.shape[1:])) for k, v in draws.items()}
    keys = jax.random.split(jax.random.fold_in(jax.random.key(seed), 1), count)
    size = sum(math.prod(shapes[name].shape) for name in grown)
    return draws | _at_each(
        eqx.Partial(_latents_at, target, new=new, names=grown), draws, keys, size
    )


def _latents_at(target, draw, key, new, names) -> dict:
    """The latents of these names, with the new members of their plates."""
    trace = trace_at(target.model, draw, key, *new, extend=True)
    return {name: jnp.asarray(trace[name]["value"]) for name in names if name in trace}


def _at_each(one, draws, keys, size: int) -> dict[str, np.ndarray]:
    """one(draw, key) for each draw, `size` numbers in each."""
    batch = batch_size(size)
    return by_chunk(lambda items: _mapped(one, *items, batch), (draws, keys), size)


@eqx.filter_jit
def _mapped(one, draws, keys, batch):
    return jax.lax.map(lambda item: one(*item), (draws, keys), batch_size=batch)


def _drawn_anew(posterior, draws, new) -> dict[str, np.ndarray]:
    """Draws of sites that were deterministic in the fit, and that the model now samples."""
    sampled = []

    def run(draw, new):
        trace = trace_at(posterior.target.model, draw, jax.random.key(0), *new)
        sampled.extend(name for name, site in trace.items() if site["type"] == "sample")

    eqx.filter_eval_shape(run, {name: value[0] for name, value in draws.items()}, new)
    again = set(sampled) & set(posterior.target.deterministics)
    return {name: posterior.flat[name] for name in again}


# -- draws of the observations ---------------------------------------------------------------------


def _drawn(target, draw, key, new, conditional, given) -> dict:
    """A value of every site that is neither in the draw nor given; 0 at those that are conditional.

    In the order of the model.
    """
    model = DrawObserved(target.model, conditional, given)
    # What was summed out is drawn on the way, and is no prediction.
    skipped = {*draw, *target.discrete, *given}
    trace = trace_at(model, draw, key, *new)
    return {
        name: jnp.asarray(site["value"])
        for name, site in trace.items()
        if site["type"] == "sample" and not (name in skipped or is_factor(site))
    }


def shapes_of(target, draws, new, conditional, given) -> dict[str, tuple[int, ...]]:
    """The shape of every site that can be predicted, in the order of the model."""
    order = []

    def run(draw, new):
        values = _drawn(target, draw, jax.random.key(0), new, conditional, given)
        order.extend(values)
        return values

    first = {name: value[0] for name, value in draws.items()}
    shapes = eqx.filter_eval_shape(run, first, new)
    return {name: shapes[name].shape for name in order}


def _sampled(posterior, draws, new, conditional, given, shapes, seed) -> dict[str, np.ndarray]:
    """One draw of every site that is not conditional for each draw of the posterior."""
    count = math.prod(posterior.shape)
    if posterior.is_point:
        draws = {k: np.broadcast_to(v, (DRAWS_AT_A_POINT, *v.shape[1:])) for k, v in draws.items()}
        count = DRAWS_AT_A_POINT
    keys = jax.random.split(jax.random.key(seed), count)
    size = sum(math.prod(shape) for name, shape in shapes.items() if name not in conditional)
    batch = batch_size(size)
    return by_chunk(
        lambda items: _sample(posterior.target, *items, new, conditional, given, False, batch),
        (draws, keys),
        size,
    )


@eqx.filter_jit
def _sample(target, draws, keys, new, conditional, given, joint, batch):
    """joint: draw the conditional sites as well, each given what was observed."""

    def one(item):
        draw, key = item
        values = _drawn(target, draw, key, new, conditional, given)
        for i, site in enumerate(conditional):
            rows, site_key = jnp.arange(values.pop(site).shape[-1]), jax.random.fold_in(key, i)
            if joint:
                new_values = _new_values(target, new, site, (draw, key), rows)
                values[site] = new_values.sample(site_key, 1)[0]
        return values

    return jax.lax.map(one, (draws, keys), batch_size=batch)


def deterministics(posterior, args: tuple, seed: int, extend: bool, kwargs: dict) -> dict:
    """Every deterministic site at new arguments of the model and each draw: (S, *site) each."""
    target = posterior.target
    if isinstance(target.model, HasPredictive):
        # Such a model takes new arguments in `predictive` only.
        if not target.deterministics:
            return {}
        raise ValueError(
            f"{type(target.model).__name__} predicts in closed form, and its deterministic sites "
            f"are known at the arguments of the fit only: {', '.join(target.deterministics)} in "
            "posterior.draws."
        )
    conditional = conditional_sites(target)
    draws, new, given = _at_new(posterior, args, seed, extend, kwargs)
    one = eqx.Partial(_deterministics, target, conditional, given, new)
    first = {name: value[0] for name, value in draws.items()}
    shapes = eqx.filter_eval_shape(one, first, jax.random.key(0))
    size = sum(math.prod(shape.shape) for shape in shapes.values())
    keys = jax.random.split(jax.random.key(seed), len(next(iter(draws.values()))))
    return _at_each(one, draws, keys, size)


def _deterministics(target, conditional, given, new, draw, key) -> dict:
    trace = trace_at(DrawObserved(target.model, conditional, given), draw, key, *new)
    return {
        name: jnp.asarray(site["value"])
        for name, site in trace.items()
        if site["type"] == "deterministic"
    }


def infer_discrete(posterior, seed: int) -> dict[str, np.ndarray]:
    """The discrete sites that were summed out, given the data, at each draw: (S, *site) each."""
    target = posterior.target
    if not target.discrete:
        return {}
    target.require_no_scan()
    sites = target.sites()
    size = sum(math.prod(sites[name].shape) for name in target.discrete)
    keys = jax.random.split(jax.random.key(seed), math.prod(posterior.shape))
    return _at_each(eqx.Partial(_discrete, target), latents(posterior), keys, size)


def _discrete(target, draw, key) -> dict:
    return target.draw_discrete(draw, key)


# -- sites that condition on what was observed -----------------------------------------------------


def _new_values(target, new, site, draw_and_key, rows):
    """The distribution of new values of a site, given the old ones, at one draw."""
    draw, key = draw_and_key
    old = trace_at(target.model, draw, key, target.args, target.kwargs)[site]
    model = DrawObserved(target.model, (site,))
    return old["fn"].given(old["value"], trace_at(model, draw, key, *new)[site]["fn"], rows)


def _mixture(target, draws, new, site, n, m, seed) -> Prediction:
    """Gaussians at m new values of a site, one for each draw, given n old ones."""
    draws = thin(draws)
    keys = jax.random.split(jax.random.key(seed), count_draws(draws))
    return mixture(eqx.Partial(_new_values, target, new, site), (draws, keys), np.arange(m), n)


# -- replicates of the data, and the prior ---------------------------------------------------------


def draws_own_data(target) -> bool:
    """Whether new data of the model, as it stands, are those given its draws.

    A model that has its own densities of observations says that they are not.
    """
    return not isinstance(target.model, HasLogLikelihood) or bool(conditional_sites(target))


def replicates_at(posterior, count: int) -> dict[str, np.ndarray]:
    """New data at the model's own arguments, at `count` draws: each (count, *data)."""
    target = posterior.target
    if not draws_own_data(target):
        return {}
    conditional, draws = conditional_sites(target), latents(posterior)
    size = math.prod(posterior.shape)
    rows = np.resize(evenly(size, count), count)
    at_rows = {name: values[rows] for name, values in draws.items()}
    try:
        shapes = shapes_of_data(target, draws, conditional)
    except CannotDrawError:
        return {}
    return replicates(target, at_rows, count, conditional, shapes)


def shapes_of_data(target, draws, conditional) -> dict[str, tuple[int, ...]]:
    """The shape of every site of the model's own data, in the order of the model."""
    fixed = upstream_sites(target).fixed
    return shapes_of(target, draws, target.arguments, conditional, fixed)


def replicates(target, draws: dict, count: int, conditional: tuple, shapes: dict) -> dict:
    """New data at the model's own arguments, one set for each of `count` draws.

    conditional: the sites that are conditioned on the data that were observed.
    """
    fixed = upstream_sites(target).fixed
    size = sum(math.prod(shape) for shape in shapes.values())
    keys = jax.random.split(jax.random.key(0), count)
    new, batch = target.arguments, None if conditional else batch_size(size)
    return by_chunk(
        lambda items: _sample(target, *items, new, conditional, fixed, True, batch),
        (draws, keys),
        size,
    )


def prior(target, count: int, size: int) -> dict[str, np.ndarray]:
    """Draws of the latents and deterministics, `size` numbers in each, from the prior."""
    names = (*(s.name for s in target.latents), *target.deterministics)
    return from_prior(target, jax.random.split(jax.random.key(1), count), names, size)


def from_prior(target, keys, names: tuple[str, ...], size: int) -> dict[str, np.ndarray]:
    """The sites of these names, drawn from the prior with each key: (len(keys), *site) each.

    Observed sites are drawn too. size: how many numbers a draw has.
    """
    batch = batch_size(size)
    fixed = upstream_sites(target).fixed
    return by_chunk(lambda keys: _from_prior(target, keys, names, fixed, batch), keys, size)


@eqx.filter_jit
def _from_prior(target, keys, names, fixed, batch):
    def one(key):
        model = DrawObserved(target.model, given=fixed)
        trace = trace_at(model, {}, key, target.args, target.kwargs)
        return {name: jnp.asarray(trace[name]["value"]) for name in names}

    return jax.lax.map(one, keys, batch_size=batch)
