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
# So many fits go side by side; `benchmarks.calibration` measures what that gains.
LANES = 8
# What a model may offer that takes the data as arguments, past its sites.
OFFERS = ("prepare", "marginal", "exact", "for_method")


def refit(given: Given, target: Target, data: dict, method, seeds) -> Iterator[Callable]:
    """For each simulated data set a function that gives its Posterior, or raises what went wrong.

    given: prepared, as is its target. data: (simulations, shape) by site; seeds: one for each. A
    model that has only sites gets the data there, so that its arguments stay what they were,
    whatever else it does with them. One that offers more gets them in the arguments that hold the
    observations.

    SVI is run for several data sets side by side, except by a guide by hand: it reads the arguments
    of the model itself.
    """
    offers = any(hasattr(given.model, name) for name in OFFERS)
    if offers or callable(getattr(method, "guide", None)):
        return _by_arguments(given, target, data, method, seeds)
    # Looked at once: that takes as long as many a fit.
    first = Target.of(AtSites(target.model, target.arguments), (_arrays(data, 0),), {})

    def target_at(i):
        return dataclasses.replace(first, arguments=((_arrays(data, i),), {}))

    lanes = _lanes(max(target.size, *(value[0].size for value in data.values())))
    # Another method may be made from it.
    if type(method).run is SVI.run and lanes > 1:
        return _in_batches(target_at, method, seeds, lanes)
    return (partial(_alone, target_at(i), method, seed) for i, seed in enumerate(seeds))


def row(values: dict, i: int) -> dict:
    return {name: value[i] for name, value in values.items()}


def _arrays(data: dict, i: int) -> dict:
    """Those of one simulation. A single number too is an array: as a number it would be static."""
    return {name: jnp.asarray(value) for name, value in row(data, i).items()}


def _by_arguments(given, target, data, method, seeds) -> Iterator[Callable]:
    first = row(data, 0)
    places = {name: _argument(given, target, name, first) for name in data}
    classes = getattr(given.model, "classes", None)

    def fit(i):
        new = {places[name]: decode(value, classes) for name, value in row(data, i).items()}
        args, kwargs = _with(given.model, given.raw, new)
        return infer(given.model, *args, method=method, seed=seeds[i], progress=False, **kwargs)

    return (partial(fit, i) for i in range(len(seeds)))


def _alone(target, method, seed) -> Posterior:
    return _posterior(target, method, seed, marginalization.run(method, target, seed, False))


def _posterior(target, method, seed, fit) -> Posterior:
    return Posterior.of(method.name, fit, target, {}, seed=seed)


def _lanes(size: int) -> int:
    """How many fits to run at once that have `size` observations, or coordinates."""
    # A process makes size x size matrices of the ones, a guide of the others.
    return min(LANES, batch_size(size**2) or 1)


def _in_batches(target_at, method, seeds, lanes) -> Iterator[Callable]:
    for start in range(0, len(seeds), lanes):
        each = [(target_at(i), method, seeds[i]) for i in range(len(seeds))[start : start + lanes]]
        try:
            begun = [method.begin(target, seed, False) for target, _, seed in each]
            # All batches have one shape, so that nothing is compiled again.
            begun += begun[-1:] * (lanes - len(begun))
            found = method.finish(begun, False)[: len(each)]
            fits = [partial(_posterior, *one, fit) for one, fit in zip(each, found, strict=True)]
        except FAILURES:
            # An error of one must not cost the others theirs: each by itself, then.
            fits = [partial(_alone, *one) for one in each]
        yield from fits


class AtSites(eqx.Module):
    """A model of its data alone, which it puts at the observed sites: model(data), by site."""

    model: Callable
    arguments: tuple[tuple, dict]

    def __call__(self, data):
        args, kwargs = arguments.release(self.arguments)
        return _Put(self.model, data)(*args, **kwargs)


class _Put(Messenger):
    """Puts values of all rows at observed sites; where a plate takes a part, that part."""

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


def _argument(given: Given, target: Target, site: str, data: dict) -> str:
    """The argument that holds what a site observes.

    Raises ValueError where there is none, or where several might.
    """
    latents = {s.name: jnp.zeros(s.shape) for s in target.latents}
    observed = _observed(target, latents, site)
    bound = inspect.signature(given.model).bind(*given.args, **given.kwargs).arguments
    found = [name for name, value in bound.items() if _same(value, observed)]
    if len(found) > 1:
        # Values may agree by chance: only the right one moves the site.
        found = [name for name in found if _moves(given, latents, site, name, data[site])]
    if len(found) != 1:
        raise ValueError(
            f"no argument of the model holds the values of the observed site "
            f"{site!r} as they are, so simulated ones could not be given to it. Observe an "
            "argument itself, or calibrate a plain function of the same sites, without a guide by "
            "hand."
        )
    return found[0]


def _observed(target, latents, site) -> np.ndarray:
    return sites.observed(target, latents)[site]


def _same(value, observed) -> bool:
    """Whether an argument holds these values; NaN is a hole."""
    if value is None or isinstance(value, str | dict) or np.shape(value) != observed.shape:
        return False
    value = np.asarray(value)
    return value.dtype.kind in "biuf" and np.array_equal(value, observed, equal_nan=True)


def _moves(given, latents, site, name, value) -> bool:
    args, kwargs = _with(given.model, (given.args, given.kwargs), {name: value})
    changed = Target.of(given.model, args, kwargs)
    return bool(np.array_equal(_observed(changed, latents, site), value))


def _with(model, given: tuple[tuple, dict], new: dict) -> tuple[tuple, dict]:
    """Arguments of a model with others in the place of some, by name."""
    prepare = getattr(model, "prepare", model)
    bound = inspect.signature(prepare).bind(*given[0], **given[1])
    for name, value in new.items():
        bound.arguments[name] = jnp.asarray(value) if np.ndim(value) == 0 else value
    return bound.args, bound.kwargs
