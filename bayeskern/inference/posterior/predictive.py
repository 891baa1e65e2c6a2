"""Predictions of any model: new values of its observed sites, at draws from the posterior."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from bayeskern.core.batching import batch_size, by_chunk, evenly
from bayeskern.inference.model.target import Target
from bayeskern.inference.model.trace.arguments import as_jax, make_static
from bayeskern.inference.model.trace.handlers import DrawObserved
from bayeskern.inference.model.trace.sites import conditional_sites, trace_at, upstream_sites
from bayeskern.inference.model.trace.validation import CannotDrawError, is_factor
from bayeskern.prediction.empirical import DRAWS_AT_A_POINT, Predictions, SampledPrediction
from bayeskern.prediction.mixture import Prediction, count_draws, mixture, thin
from bayeskern.protocols import HasLogLikelihood, HasPredictive

if TYPE_CHECKING:
    from bayeskern.inference.posterior.posterior import Posterior

Draws = dict[str, np.ndarray]


def predict(posterior: Posterior, args: tuple, seed: int, extend: bool, kwargs: dict) -> Any:
    """The posterior predictive at new arguments of the model.

    A model that offers `predictive` computes it. Sites whose distribution conditions on data, as
    `GaussianProcess` does, are conditioned on the observed values. Observed sites that others
    depend on stay as they are given. All others are drawn, once for each draw of the posterior.

    Args:
        posterior: The posterior.
        args: New positional arguments of the model.
        seed: Seed of the draws.
        extend: As in `Posterior.predict`.
        kwargs: New named arguments of the model.

    Returns:
        A prediction, or a dict of them by site where there are several.
    """
    target = posterior.known_target
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
    predictions: dict[str, Any] = {
        name: _mixture(target, draws, new, name, sites[name].shape[-1], shapes[name][-1], seed)
        for name in shapes
        if name in conditional
    }
    if set(shapes) - set(conditional):
        if posterior.is_point:
            draws = _repeated(draws)
        count = DRAWS_AT_A_POINT if posterior.is_point else math.prod(posterior.shape)
        keys = jax.random.split(jax.random.key(seed), count)
        size = sum(math.prod(shape) for name, shape in shapes.items() if name not in conditional)
        samples = _samples(target, draws, keys, new, conditional, given, size, batch_size(size))
        predictions |= {
            name: SampledPrediction(name, samples[name]) for name in shapes if name in samples
        }
    if not predictions:
        raise ValueError("the model has no site to predict: all of its sample sites are latent.")
    return Predictions(predictions) if len(predictions) > 1 else next(iter(predictions.values()))


def _repeated(draws: Draws) -> Draws:
    """The draw of a point estimate, repeated."""
    return {k: np.broadcast_to(v, (DRAWS_AT_A_POINT, *v.shape[1:])) for k, v in draws.items()}


def _at_new(
    posterior: Posterior, args: tuple, seed: int, extend: bool, kwargs: dict
) -> tuple[Draws, tuple[tuple, dict], frozenset[str]]:
    """Draws for new arguments, these arguments as JAX takes them, and the sites that they fix."""
    target = posterior.known_target
    draws, new = latents(posterior), as_jax((args, kwargs))
    if target.holds_data:
        new = make_static(new)
    if extend:
        draws = _extended(posterior, draws, new, seed)
    shapes = {name: values.shape[1:] for name, values in draws.items()}
    draws |= _sampled_deterministics(posterior, draws, new)
    return draws, new, upstream_sites(target, *new, shapes).given


def latents(posterior: Posterior) -> Draws:
    """Draws of the model's latent sites, with chains joined: each (S, *site)."""
    flat = posterior.flat
    return {s.name: flat[s.name] for s in posterior.known_target.latents}


def _first(draws: Draws) -> Draws:
    """The first draw."""
    return {name: values[0] for name, values in draws.items()}


def _extended(posterior: Posterior, draws: Draws, new: tuple[tuple, dict], seed: int) -> Draws:
    """The draws, with new members of plates from their prior given the draw."""
    target = posterior.known_target
    shapes = eqx.filter_eval_shape(
        _latents_at, target, _first(draws), jax.random.key(0), new, tuple(draws)
    )
    grown = tuple(k for k in shapes if shapes[k].shape != draws[k].shape[1:])
    if not grown:
        return draws
    if posterior.is_point:
        # New members have a spread where the parameters have none.
        draws = _repeated(draws)
    count = DRAWS_AT_A_POINT if posterior.is_point else math.prod(posterior.shape)
    keys = jax.random.split(jax.random.fold_in(jax.random.key(seed), 1), count)
    size = sum(math.prod(shapes[name].shape) for name in grown)
    function = eqx.Partial(_latents_at, target, new=new, names=grown)
    return draws | _at_each(function, draws, keys, size)


def _latents_at(
    target: Target, draw: dict, key: jax.Array, new: tuple[tuple, dict], names: tuple[str, ...]
) -> dict[str, jax.Array]:
    """Latents of these names, with the new members of their plates."""
    trace = trace_at(target.model, draw, key, *new, extend=True)
    return {name: jnp.asarray(trace[name]["value"]) for name in names if name in trace}


def _at_each(function: Callable, draws: Draws, keys: jax.Array, size: int) -> Draws:
    """function(draw, key) at each draw, which makes `size` numbers."""
    batch = batch_size(size)
    return by_chunk(lambda items: _mapped(function, items, batch), (draws, keys), size)


@eqx.filter_jit
def _mapped(function: Callable, items: tuple[dict, jax.Array], batch: int | None) -> dict:
    return jax.lax.map(lambda item: function(*item), items, batch_size=batch)


def _sampled_deterministics(posterior: Posterior, draws: Draws, new: tuple[tuple, dict]) -> Draws:
    """Draws of sites that were deterministic in the fit, and that the model now samples."""
    target, sampled = posterior.known_target, []

    def run(draw: dict, new: tuple[tuple, dict]) -> None:
        trace = trace_at(target.model, draw, jax.random.key(0), *new)
        sampled.extend(name for name, site in trace.items() if site["type"] == "sample")

    eqx.filter_eval_shape(run, _first(draws), new)
    return {name: posterior.flat[name] for name in set(sampled) & set(target.deterministics)}


# -- draws of the observations ---------------------------------------------------------------------


def _drawn(
    target: Target,
    draw: dict,
    key: jax.Array,
    new: tuple[tuple, dict],
    conditional: Collection[str],
    given: Collection[str],
) -> dict[str, jax.Array]:
    """Values of all sites that are neither latent nor given; 0 at conditional ones.

    In the order of the model.
    """
    model = DrawObserved(target.model, conditional, given)
    # Discrete latents are drawn on the way, and are no prediction.
    skipped = {*draw, *target.discrete, *given}
    trace = trace_at(model, draw, key, *new)
    return {
        name: jnp.asarray(site["value"])
        for name, site in trace.items()
        if site["type"] == "sample" and not (name in skipped or is_factor(site))
    }


def shapes_of(
    target: Target,
    draws: Draws,
    new: tuple[tuple, dict],
    conditional: Collection[str],
    given: Collection[str],
) -> dict[str, tuple[int, ...]]:
    """Shape of every site that can be predicted, in the order of the model.

    Args:
        target: The model.
        draws: Draws of its latents.
        new: Its arguments.
        conditional: Sites that are conditioned on the observed values.
        given: Observed sites that stay as they are.
    """
    order: list[str] = []

    def run(draw: dict, new: tuple[tuple, dict]) -> dict[str, jax.Array]:
        values = _drawn(target, draw, jax.random.key(0), new, conditional, given)
        order.extend(values)
        return values

    shapes = eqx.filter_eval_shape(run, _first(draws), new)
    return {name: shapes[name].shape for name in order}


def _samples(
    target: Target,
    draws: Draws,
    keys: jax.Array,
    new: tuple[tuple, dict],
    conditional: tuple[str, ...],
    given: frozenset[str],
    size: int,
    batch: int | None,
    joint: bool = False,
) -> Draws:
    """New values of the observed sites at each draw, which are `size` numbers.

    joint: draw the conditional sites as well, each given the observed values.
    """
    return by_chunk(
        lambda items: _sample(target, items, new, conditional, given, joint, batch),
        (draws, keys),
        size,
    )


@eqx.filter_jit
def _sample(
    target: Target,
    items: tuple[dict, jax.Array],
    new: tuple[tuple, dict],
    conditional: tuple[str, ...],
    given: frozenset[str],
    joint: bool,
    batch: int | None,
) -> dict[str, jax.Array]:
    def one(item: tuple[dict, jax.Array]) -> dict[str, jax.Array]:
        draw, key = item
        values = _drawn(target, draw, key, new, conditional, given)
        for i, site in enumerate(conditional):
            rows, site_key = jnp.arange(values.pop(site).shape[-1]), jax.random.fold_in(key, i)
            if joint:
                new_values = _new_values(target, new, site, (draw, key), rows)
                values[site] = new_values.sample(site_key, 1)[0]
        return values

    return jax.lax.map(one, items, batch_size=batch)


def deterministics(
    posterior: Posterior, args: tuple, seed: int, extend: bool, kwargs: dict
) -> Draws:
    """Deterministic sites at new arguments of the model and each draw: each (S, *site).

    The arguments are those of `predict`.
    """
    target = posterior.known_target
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
    function = eqx.Partial(_deterministics, target, conditional, given, new)
    shapes = eqx.filter_eval_shape(function, _first(draws), jax.random.key(0))
    size = sum(math.prod(shape.shape) for shape in shapes.values())
    keys = jax.random.split(jax.random.key(seed), len(next(iter(draws.values()))))
    return _at_each(function, draws, keys, size)


def _deterministics(
    target: Target,
    conditional: tuple[str, ...],
    given: frozenset[str],
    new: tuple[tuple, dict],
    draw: dict,
    key: jax.Array,
) -> dict[str, jax.Array]:
    trace = trace_at(DrawObserved(target.model, conditional, given), draw, key, *new)
    return {
        name: jnp.asarray(site["value"])
        for name, site in trace.items()
        if site["type"] == "deterministic"
    }


def infer_discrete(posterior: Posterior, seed: int) -> Draws:
    """Discrete sites that were summed out, drawn given the data at each draw: each (S, *site)."""
    target = posterior.known_target
    if not target.discrete:
        return {}
    target.require_no_scan()
    sites = target.sites()
    size = sum(math.prod(sites[name].shape) for name in target.discrete)
    keys = jax.random.split(jax.random.key(seed), math.prod(posterior.shape))
    return _at_each(eqx.Partial(Target.draw_discrete, target), latents(posterior), keys, size)


# -- sites that condition on observed values -------------------------------------------------------


def _new_values(
    target: Target,
    new: tuple[tuple, dict],
    site: str,
    draw_and_key: tuple[dict, jax.Array],
    rows: jax.Array,
) -> Any:
    """Distribution of new values of a site, given the observed ones, at one draw."""
    draw, key = draw_and_key
    old = trace_at(target.model, draw, key, target.args, target.kwargs)[site]
    model = DrawObserved(target.model, (site,))
    return old["fn"].given(old["value"], trace_at(model, draw, key, *new)[site]["fn"], rows)


def _mixture(
    target: Target,
    draws: Draws,
    new: tuple[tuple, dict],
    site: str,
    n: int,
    m: int,
    seed: int,
) -> Prediction:
    """Gaussians at m new values of a site, one for each draw, given n observed ones."""
    draws = thin(draws)
    keys = jax.random.split(jax.random.key(seed), count_draws(draws))
    return mixture(eqx.Partial(_new_values, target, new, site), (draws, keys), np.arange(m), n)


# -- replicates of the data, and the prior ---------------------------------------------------------


def draws_own_data(target: Target) -> bool:
    """True if the model can draw new data given its draws.

    A model with densities of observations of its own cannot, unless a site is conditional.
    """
    return not isinstance(target.model, HasLogLikelihood) or bool(conditional_sites(target))


def replicates_at(posterior: Posterior, count: int) -> Draws:
    """New data at the model's own arguments, at `count` draws: each (count, *data)."""
    target = posterior.known_target
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


def shapes_of_data(
    target: Target, draws: Draws, conditional: tuple[str, ...]
) -> dict[str, tuple[int, ...]]:
    """Shape of every site of the model's own data, in the order of the model."""
    fixed = upstream_sites(target).fixed
    return shapes_of(target, draws, target.arguments, conditional, fixed)


def replicates(
    target: Target,
    draws: Draws,
    count: int,
    conditional: tuple[str, ...],
    shapes: dict[str, tuple[int, ...]],
) -> Draws:
    """New data at the model's own arguments, one set for each of `count` draws.

    Args:
        target: The model.
        draws: Draws of its latents, each (count, *site).
        count: Number of draws.
        conditional: Sites that are conditioned on the observed values.
        shapes: Shapes of the data, from `shapes_of_data`.
    """
    fixed = upstream_sites(target).fixed
    size = sum(math.prod(shape) for shape in shapes.values())
    keys = jax.random.split(jax.random.key(0), count)
    batch = None if conditional else batch_size(size)
    return _samples(target, draws, keys, target.arguments, conditional, fixed, size, batch, True)


def prior(target: Target, count: int, size: int) -> Draws:
    """Draws of the latents and deterministics, `size` numbers in each, from the prior."""
    names = (*(s.name for s in target.latents), *target.deterministics)
    return from_prior(target, jax.random.split(jax.random.key(1), count), names, size)


def from_prior(target: Target, keys: jax.Array, names: tuple[str, ...], size: int) -> Draws:
    """Sites of these names, drawn from the prior with each key: each (len(keys), *site).

    Observed sites are drawn too. size: how many numbers a draw has.
    """
    batch = batch_size(size)
    fixed = upstream_sites(target).fixed
    return by_chunk(lambda keys: _from_prior(target, keys, names, fixed, batch), keys, size)


@eqx.filter_jit
def _from_prior(
    target: Target,
    keys: jax.Array,
    names: tuple[str, ...],
    fixed: frozenset[str],
    batch: int | None,
) -> dict[str, jax.Array]:
    def one(key: jax.Array) -> dict[str, jax.Array]:
        model = DrawObserved(target.model, given=fixed)
        trace = trace_at(model, {}, key, target.args, target.kwargs)
        return {name: jnp.asarray(trace[name]["value"]) for name in names}

    return jax.lax.map(one, keys, batch_size=batch)
