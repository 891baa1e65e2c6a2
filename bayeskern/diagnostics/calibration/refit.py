"""A model fitted to data that were simulated from it, in the place of those it came with."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Iterator
from functools import partial

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from numpyro.primitives import Messenger

from bayeskern.core.batching import batch_size
from bayeskern.inference import SVI, Posterior, infer
from bayeskern.inference.methods import marginalization
from bayeskern.inference.model import arguments, sites
from bayeskern.inference.model.target import Target
from bayeskern.inference.posterior.prior_predictive import Given
from bayeskern.likelihoods.labels import decode

#: what may go wrong with one data set and not with others; RuntimeError: of compiled code
FAILURES = (ValueError, ArithmeticError, RuntimeError)
# So many fits run at once; `benchmarks.calibration` measures what that gains.
FITS_AT_ONCE = 8
# What a model may offer that takes the data as arguments, past its sites.
OFFERS = ("prepare", "marginal", "exact", "for_method")


def refit(given: Given, target: Target, data: dict, method, seeds) -> Iterator[Callable]:
    """For each simulated data set a function that gives its Posterior, or raises what went wrong.

    given: prepared, as is its target. data: (simulations, shape) by site; seeds: one for each. A
    model that has only sites gets the data there, so that its arguments stay what they were,
    whatever else it does with them. A model that offers more gets the data in the arguments that
    hold the observations.

    SVI is run for several data sets at once, except with a guide by hand, which reads the arguments
    of the model itself.
    """
    offers = any(hasattr(given.model, name) for name in OFFERS)
    if offers or callable(getattr(method, "guide", None)):
        return _by_arguments(given, target, data, method, seeds)
    # Looked at once: that takes as long as many a fit.
    model = ConditionedModel(target.model, target.arguments)
    first = Target.of(model, (_arrays(data, 0),), {})

    def target_at(i):
        return dataclasses.replace(first, arguments=((_arrays(data, i),), {}))

    at_once = _fits_at_once(max(target.size, *(values[0].size for values in data.values())))
    # A subclass may run in another way.
    if type(method).run is SVI.run and at_once > 1:
        return _in_batches(target_at, method, seeds, at_once)
    return (partial(_fit, target_at(i), method, seed) for i, seed in enumerate(seeds))


def row(values: dict, i: int) -> dict:
    """The values of simulation i, by site."""
    return {name: value[i] for name, value in values.items()}


def _arrays(data: dict, i: int) -> dict:
    """The data of simulation i as arrays: a single number would be static."""
    return {name: jnp.asarray(value) for name, value in row(data, i).items()}


def _by_arguments(given, target, data, method, seeds) -> Iterator[Callable]:
    first = row(data, 0)
    arguments_of = {site: _argument_of(given, target, site, first) for site in data}
    classes = getattr(given.model, "classes", None)

    def fit(i):
        new = {arguments_of[site]: decode(value, classes) for site, value in row(data, i).items()}
        args, kwargs = _replace_arguments(given.model, given.raw, new)
        return infer(given.model, *args, method=method, seed=seeds[i], progress=False, **kwargs)

    return (partial(fit, i) for i in range(len(seeds)))


def _fit(target, method, seed) -> Posterior:
    return _posterior(target, method, seed, marginalization.run(method, target, seed, False))


def _posterior(target, method, seed, fit) -> Posterior:
    return Posterior.of(method.name, fit, target, {}, seed=seed)


# -- several fits at once --------------------------------------------------------------------------


def _fits_at_once(size: int) -> int:
    """How many fits to run at once that have `size` observations, or coordinates."""
    # A process makes size x size matrices of observations, a guide of coordinates.
    return min(FITS_AT_ONCE, batch_size(size**2) or 1)


def _in_batches(target_at, method, seeds, at_once) -> Iterator[Callable]:
    for start in range(0, len(seeds), at_once):
        batch = [
            (target_at(i), method, seeds[i]) for i in range(len(seeds))[start : start + at_once]
        ]
        try:
            begun = [method.begin(target, seed, False) for target, _, seed in batch]
            # All batches have one shape, so that nothing is compiled again.
            begun += begun[-1:] * (at_once - len(begun))
            fits = method.finish(begun, False)[: len(batch)]
            posteriors = [
                partial(_posterior, *settings, fit)
                for settings, fit in zip(batch, fits, strict=True)
            ]
        except FAILURES:
            # The error of one must not cost the others their fits, so each runs alone.
            posteriors = [partial(_fit, *settings) for settings in batch]
        yield from posteriors


# -- data at the sites -----------------------------------------------------------------------------


class ConditionedModel(eqx.Module):
    """A model of its data alone, model(data): its observed sites are conditioned on data by site.

    numpyro.handlers.condition does not know of plates that take a part of their rows.
    """

    model: Callable
    arguments: tuple[tuple, dict]

    def __call__(self, data):
        args, kwargs = arguments.release(self.arguments)
        return _Condition(self.model, data)(*args, **kwargs)


class _Condition(Messenger):
    """Puts data of all rows at observed sites; where a plate takes a part of them, that part."""

    def __init__(self, fn, data):
        self.data, self.rows = data, {}
        super().__init__(fn)

    def process_message(self, msg):
        if msg["type"] != "sample" or not msg["is_observed"] or msg["name"] not in self.data:
            return
        value = self.data[msg["name"]]
        batch = jnp.ndim(value) - msg["fn"].event_dim
        for frame in msg["cond_indep_stack"]:
            axis = batch + frame.dim
            if axis >= 0 and value.shape[axis] != frame.size:
                value = jnp.take(value, self.rows[frame.name], axis)
        msg["value"] = value

    def postprocess_message(self, msg):
        if msg["type"] == "plate":
            self.rows[msg["name"]] = msg["value"]


# -- data in the arguments -------------------------------------------------------------------------


def _argument_of(given: Given, target: Target, site: str, data: dict) -> str:
    """The name of the argument that holds what a site observes.

    Raises ValueError where there is none, or where several might.
    """
    latents = {s.name: jnp.zeros(s.shape) for s in target.latents}
    observed = sites.observed(target, latents)[site]
    bound = inspect.signature(given.model).bind(*given.args, **given.kwargs).arguments
    candidates = [name for name, value in bound.items() if _holds(value, observed)]
    if len(candidates) > 1:
        # Values may agree by chance: only the right one moves the site.
        candidates = [
            name for name in candidates if _moves_site(given, latents, site, name, data[site])
        ]
    if len(candidates) != 1:
        raise ValueError(
            f"no argument of the model holds the values of the observed site "
            f"{site!r} as they are, so simulated ones could not be given to it. Observe an "
            "argument itself, or calibrate a plain function of the same sites, without a guide by "
            "hand."
        )
    return candidates[0]


def _holds(argument, observed) -> bool:
    """Whether an argument holds these values; NaN is a hole."""
    if argument is None or isinstance(argument, str | dict):
        return False
    if np.shape(argument) != observed.shape:
        return False
    argument = np.asarray(argument)
    is_number = argument.dtype.kind in "biuf"
    return is_number and np.array_equal(argument, observed, equal_nan=True)


def _moves_site(given, latents, site, argument: str, value) -> bool:
    """Whether the site observes `value` once the argument of that name is set to it."""
    args, kwargs = _replace_arguments(given.model, (given.args, given.kwargs), {argument: value})
    changed = Target.of(given.model, args, kwargs)
    return bool(np.array_equal(sites.observed(changed, latents)[site], value))


def _replace_arguments(model, old: tuple[tuple, dict], new: dict) -> tuple[tuple, dict]:
    """Arguments of a model, some of which are replaced by name."""
    prepare = getattr(model, "prepare", model)
    bound = inspect.signature(prepare).bind(*old[0], **old[1])
    for name, value in new.items():
        bound.arguments[name] = jnp.asarray(value) if np.ndim(value) == 0 else value
    return bound.args, bound.kwargs
