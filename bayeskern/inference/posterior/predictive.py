"""Predictions of any model: new values of its observed sites, at draws from the posterior."""

from __future__ import annotations

import math
from collections.abc import Callable
from copy import copy
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from bayeskern.core.batching import batch_size, by_chunk, evenly
from bayeskern.inference.model.checks.indices import require_in_range
from bayeskern.inference.model.target import Target
from bayeskern.inference.model.trace.arguments import as_jax, make_static
from bayeskern.inference.model.trace.handlers import DrawObserved
from bayeskern.inference.model.trace.sites import trace_at
from bayeskern.inference.model.trace.validation import CannotDrawError, is_factor
from bayeskern.inference.model.upstream import conditional_sites, upstream_sites
from bayeskern.inference.posterior.prediction_check import (
    PredictionCheck,
    rows_to_average,
    with_rows,
)
from bayeskern.inference.result import Fit
from bayeskern.prediction.empirical import DRAWS_AT_A_POINT, Predictions, SampledPrediction
from bayeskern.prediction.mixture import MAX_MIXTURE_DRAWS, Mixture, count_draws, thin
from bayeskern.protocols import HasLogLikelihood, HasPredictive, most_draws

Draws = dict[str, np.ndarray]


class PredictiveModel(eqx.Module):
    """A model at new arguments, which draws new values of its observed sites.

    Attributes:
        target: The model at the arguments of the fit.
        new: New positional and named arguments.
        conditional: Sites whose new values are conditioned on the observed values.
        given: Observed sites that stay at their data.
    """

    target: Target
    new: tuple[tuple, dict]
    conditional: tuple[str, ...] = eqx.field(static=True)
    given: frozenset[str] = eqx.field(static=True)

    def trace(self, draw: dict, key: jax.Array) -> dict[str, dict]:
        """Trace at a draw of the latents, with zeros at conditional sites."""
        model = DrawObserved(self.target.model, self.conditional, self.given)
        return trace_at(model, draw, key, *self.new)

    def observations(self, draw: dict, key: jax.Array) -> dict[str, jax.Array]:
        """Values of the observed sites that are not given, in the order of the model."""
        # Discrete latents are drawn too, but are not predictions.
        skipped = {*draw, *self.target.discrete, *self.given}
        return {
            name: jnp.asarray(site["value"])
            for name, site in self.trace(draw, key).items()
            if site["type"] == "sample" and not (name in skipped or is_factor(site))
        }

    def deterministics(self, draw: dict, key: jax.Array) -> dict[str, jax.Array]:
        """Values of the deterministic sites."""
        trace = self.trace(draw, key)
        sites = {n: site for n, site in trace.items() if site["type"] == "deterministic"}
        return {name: jnp.asarray(site["value"]) for name, site in sites.items()}

    def new_values(self, site: str, draw_and_key: tuple[dict, jax.Array], rows: jax.Array) -> Any:
        """Distribution of new values of a conditional site, given the observed values."""
        draw, key = draw_and_key
        old = self.target.trace_at(draw, key)[site]
        new = trace_at(DrawObserved(self.target.model, (site,)), draw, key, *self.new)[site]
        return old["fn"].given(old["value"], new["fn"], rows)

    def shapes(self, draws: Draws) -> dict[str, tuple[int, ...]]:
        """Shape of every site that can be predicted, in the order of the model.

        Raises:
            ValueError: If indices in the new arguments do not fit the axis that they index.
        """
        order: list[str] = []

        def run(model: PredictiveModel, draw: dict) -> dict[str, jax.Array]:
            values = model.observations(draw, jax.random.key(0))
            order.extend(values)
            return values

        draw = _first(draws)
        program, shapes, _ = eqx.filter_make_jaxpr(run)(self, draw)
        require_in_range(program, self, draw)
        return {name: shapes[name].shape for name in order}

    def samples(self, draws: Draws, keys: jax.Array, size: int, joint: bool = False) -> Draws:
        """New values of the observed sites at each draw.

        Args:
            draws: Draws of the latents.
            keys: A random key for each draw.
            size: Number of new values at each draw.
            joint: True to draw the conditional sites too, each given the observed values.
        """
        function = eqx.Partial(PredictiveModel._sample, self, joint=joint)
        batch = None if joint and self.conditional else batch_size(size)
        return at_each(function, (draws, keys), size, batch)

    def _sample(self, draw: dict, key: jax.Array, joint: bool) -> dict[str, jax.Array]:
        values = self.observations(draw, key)
        for i, site in enumerate(self.conditional):
            rows, site_key = jnp.arange(values.pop(site).shape[-1]), jax.random.fold_in(key, i)
            if joint:
                values[site] = self.new_values(site, (draw, key), rows).sample(site_key, 1)[0]
        return values


def at_each(function: Callable, items: tuple, size: int, batch: int | None) -> Any:
    """function(*item) at each item of a tuple of pytrees of arrays (S, ...), in batches.

    Args:
        function: A pytree, such as an `eqx.Partial`: new arrays in it do not recompile.
        items: The items.
        size: Number of values that the function returns for each item.
        batch: Batch size; None for one at a time.
    """
    return by_chunk(lambda part: _mapped(function, part, batch), items, size)


@eqx.filter_jit
def _mapped(function: Callable, items: tuple, batch: int | None) -> Any:
    return jax.lax.map(lambda item: function(*item), items, batch_size=batch)


def predict(
    posterior: Fit, args: tuple, seed: int, extend: bool, draws: int | None, kwargs: dict
) -> Any:
    """The posterior predictive at new arguments of the model, with a verdict on it.

    Args:
        posterior: The posterior.
        args: New positional arguments of the model.
        seed: Seed of the draws.
        extend: As in `Posterior.predict`.
        draws: Largest number of draws to average; None for the default of the model.
        kwargs: New named arguments of the model.

    Returns:
        A prediction, or a dict of predictions by site if there are several.
    """
    most = most_draws(posterior.known_target.model) if draws is None else draws
    rows = rows_to_average(posterior, most)
    at_new = partial(_predict, args=args, seed=seed, extend=extend, most=draws, kwargs=kwargs)
    prediction = at_new(with_rows(posterior, rows))
    if isinstance(prediction, Predictions):
        return Predictions(
            {
                name: _checked(of_site, posterior, rows, partial(_of_site, at_new, name))
                for name, of_site in prediction.items()
            }
        )
    return _checked(prediction, posterior, rows, at_new)


def _checked(prediction: Any, *check: Any) -> Any:
    """Copy of a prediction with a `PredictionCheck`."""
    clone = copy(prediction)
    clone.check = PredictionCheck(*check)
    return clone


def _of_site(at_new: Callable[[Fit], Predictions], name: str, posterior: Fit) -> Any:
    """Prediction of one of several sites."""
    return at_new(posterior)[name]


def _predict(
    posterior: Fit, args: tuple, seed: int, extend: bool, most: int | None, kwargs: dict
) -> Any:
    """The posterior predictive at new arguments of the model, averaged over all draws.

    A model that offers `predictive` computes it. Sites whose distribution conditions on data, such
    as `GaussianProcess`, are conditioned on the observed values. Observed sites on which other
    sites depend keep their data. All other sites are drawn, once for each draw of the posterior.

    Args:
        posterior: The posterior.
        args: New positional arguments of the model.
        seed: Seed of the draws.
        extend: As in `Posterior.predict`.
        most: Largest number of draws to condition on; None for 200.
        kwargs: New named arguments of the model.

    Returns:
        A prediction, or a dict of predictions by site if there are several.
    """
    target = posterior.known_target
    if isinstance(target.model, HasPredictive):
        if extend:
            raise ValueError(
                f"{type(target.model).__name__} predicts in closed form and has no plate of "
                "latents to extend: omit extend=True."
            )
        return target.model.predictive(posterior.flat, target.args, *args, seed=seed, **kwargs)
    draws, model = _at_new(posterior, args, seed, extend, kwargs)
    shapes, sites = model.shapes(draws), target.sites()
    predictions: dict[str, Any] = {}
    for name in shapes:
        if name in model.conditional:
            thinned, n = thin(draws, most or MAX_MIXTURE_DRAWS), sites[name].shape[-1]
            keys = jax.random.split(jax.random.key(seed), count_draws(thinned))
            conditional_at = eqx.Partial(PredictiveModel.new_values, model, name)
            rows = np.arange(shapes[name][-1])
            predictions[name] = Mixture(conditional_at, (thinned, keys), rows, n)
    if set(shapes) - set(model.conditional):
        draws = _repeated(draws) if posterior.is_point else draws
        keys = jax.random.split(jax.random.key(seed), _count(posterior))
        size = sum(math.prod(s) for name, s in shapes.items() if name not in model.conditional)
        samples = model.samples(draws, keys, size)
        predictions |= {n: SampledPrediction(n, samples[n]) for n in shapes if n in samples}
    if not predictions:
        raise ValueError("the model has no site to predict: all of its sample sites are latent.")
    return Predictions(predictions) if len(predictions) > 1 else next(iter(predictions.values()))


def _repeated(draws: Draws) -> Draws:
    """The draw of a point estimate, repeated."""
    return {k: np.broadcast_to(v, (DRAWS_AT_A_POINT, *v.shape[1:])) for k, v in draws.items()}


def _count(posterior: Fit) -> int:
    """Number of draws of a prediction."""
    return DRAWS_AT_A_POINT if posterior.is_point else math.prod(posterior.shape)


def _at_new(
    posterior: Fit, args: tuple, seed: int, extend: bool, kwargs: dict
) -> tuple[Draws, PredictiveModel]:
    """Draws for new arguments, and the model at them."""
    target = posterior.known_target
    draws, new = latents(posterior), as_jax((args, kwargs))
    if target.holds_data:
        new = make_static(new)
    if extend:
        draws = _extended(posterior, draws, new, seed)
    shapes = {name: values.shape[1:] for name, values in draws.items()}
    draws |= _sampled_deterministics(posterior, draws, new)
    given = upstream_sites(target, new, shapes).given
    return draws, PredictiveModel(target, new, conditional_sites(target), given)


def latents(posterior: Fit) -> Draws:
    """Draws of the model's latent sites, with chains joined: each (S, *site)."""
    flat = posterior.flat
    return {s.name: flat[s.name] for s in posterior.known_target.latents}


def _first(draws: Draws) -> Draws:
    """The first draw."""
    return {name: values[0] for name, values in draws.items()}


def _extended(posterior: Fit, draws: Draws, new: tuple[tuple, dict], seed: int) -> Draws:
    """The draws, with new members of plates from their prior given the draw."""
    target = posterior.known_target
    shapes = eqx.filter_eval_shape(
        _latents_at, target, _first(draws), jax.random.key(0), new, tuple(draws)
    )
    extended_names = tuple(k for k in shapes if shapes[k].shape != draws[k].shape[1:])
    if not extended_names:
        return draws
    # New members have a spread even if the parameters are a single point.
    draws = _repeated(draws) if posterior.is_point else draws
    keys = jax.random.split(jax.random.fold_in(jax.random.key(seed), 1), _count(posterior))
    size = sum(math.prod(shapes[name].shape) for name in extended_names)
    function = eqx.Partial(_latents_at, target, new=new, names=extended_names)
    return draws | at_each(function, (draws, keys), size, batch_size(size))


def _latents_at(
    target: Target, draw: dict, key: jax.Array, new: tuple[tuple, dict], names: tuple[str, ...]
) -> dict[str, jax.Array]:
    """Latents with these names, with the new members of their plates."""
    trace = trace_at(target.model, draw, key, *new, extend=True)
    return {name: jnp.asarray(trace[name]["value"]) for name in names if name in trace}


def _sampled_deterministics(posterior: Fit, draws: Draws, new: tuple[tuple, dict]) -> Draws:
    """Draws of sites that were deterministic in the fit and are sampled at new arguments."""
    target, sampled = posterior.known_target, []

    def run(draw: dict, new: tuple[tuple, dict]) -> None:
        trace = trace_at(target.model, draw, jax.random.key(0), *new)
        sampled.extend(name for name, site in trace.items() if site["type"] == "sample")

    eqx.filter_eval_shape(run, _first(draws), new)
    return {name: posterior.flat[name] for name in set(sampled) & set(target.deterministics)}


def deterministics(posterior: Fit, args: tuple, seed: int, extend: bool, kwargs: dict) -> Draws:
    """Deterministic sites at new arguments of the model and each draw: each (S, *site).

    The arguments are as in `predict`.
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
    draws, model = _at_new(posterior, args, seed, extend, kwargs)
    function = eqx.Partial(PredictiveModel.deterministics, model)
    shapes = eqx.filter_eval_shape(function, _first(draws), jax.random.key(0))
    size = sum(math.prod(shape.shape) for shape in shapes.values())
    keys = jax.random.split(jax.random.key(seed), len(next(iter(draws.values()))))
    return at_each(function, (draws, keys), size, batch_size(size))


def infer_discrete(posterior: Fit, seed: int) -> Draws:
    """Discrete sites that were summed out, drawn given the data at each draw: each (S, *site)."""
    target = posterior.known_target
    if not target.discrete:
        return {}
    sites = target.sites()
    size = sum(math.prod(sites[name].shape) for name in target.discrete)
    keys = jax.random.split(jax.random.key(seed), math.prod(posterior.shape))
    function = eqx.Partial(Target.draw_discrete, target)
    return at_each(function, (latents(posterior), keys), size, batch_size(size))


# -- replicates of the data, and the prior ---------------------------------------------------------


def draws_own_data(target: Target) -> bool:
    """True if the model can draw new data given its draws.

    A model that computes its own pointwise densities cannot, unless a site is conditional.
    """
    return not isinstance(target.model, HasLogLikelihood) or bool(conditional_sites(target))


def replicates_at(posterior: Fit, count: int) -> Draws:
    """New data at the model's own arguments, at `count` draws: each (count, *data)."""
    target = posterior.known_target
    if not draws_own_data(target):
        return {}
    model, draws = at_own_data(target), latents(posterior)
    rows = np.resize(evenly(math.prod(posterior.shape), count), count)
    try:
        shapes = model.shapes(draws)
    except CannotDrawError:
        return {}
    at_rows = {name: values[rows] for name, values in draws.items()}
    return replicates(model, at_rows, count, shapes)


def at_own_data(target: Target, conditional: bool = True) -> PredictiveModel:
    """The model at its own arguments.

    conditional: False to draw conditional sites without regard to the observed values.
    """
    sites = conditional_sites(target) if conditional else ()
    return PredictiveModel(target, target.arguments, sites, upstream_sites(target).fixed)


def replicates(
    model: PredictiveModel, draws: Draws, count: int, shapes: dict[str, tuple[int, ...]]
) -> Draws:
    """New data with the shapes `model.shapes(draws)`, one set for each of `count` draws.

    `count` is an argument because a model without latents has no draws to count.
    """
    size = sum(math.prod(shape) for shape in shapes.values())
    keys = jax.random.split(jax.random.key(0), count)
    return model.samples(draws, keys, size, joint=True)


def prior(target: Target, count: int, size: int) -> Draws:
    """Draws of the latents and deterministics from the prior, with `size` values in each draw."""
    names = (*(s.name for s in target.latents), *target.deterministics)
    return from_prior(target, jax.random.split(jax.random.key(1), count), names, size)


def from_prior(target: Target, keys: jax.Array, names: tuple[str, ...], size: int) -> Draws:
    """Sites of these names, drawn from the prior with each key: each (len(keys), *site).

    Observed sites are drawn too. size: number of values in a draw.
    """
    fixed = upstream_sites(target).fixed
    function = eqx.Partial(_prior_draw, target, names, fixed)
    return at_each(function, (keys,), size, batch_size(size))


def _prior_draw(
    target: Target, names: tuple[str, ...], fixed: frozenset[str], key: jax.Array
) -> dict[str, jax.Array]:
    model = DrawObserved(target.model, given=fixed)
    trace = trace_at(model, {}, key, target.args, target.kwargs)
    return {name: jnp.asarray(trace[name]["value"]) for name in names}
