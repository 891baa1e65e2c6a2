"""Refitting a model to data that were simulated from it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from functools import partial

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from numpyro.primitives import Messenger

from bayeskern.core.batching import batch_size
from bayeskern.inference import Method, Posterior, Target, infer
from bayeskern.inference.infer import fit_target
from bayeskern.inference.model.bound import BoundModel
from bayeskern.likelihoods.labels import decode
from bayeskern.protocols import (
    ChoosesForm,
    HasClosedForm,
    HasMarginal,
    PreparesData,
    classes_of,
)

#: what may go wrong with one data set and not with others; RuntimeError: of compiled code
FAILURES = (ValueError, ArithmeticError, RuntimeError)
# So many fits run at once; `benchmarks.calibration` measures what that gains.
FITS_AT_ONCE = 8
# What a model may offer that takes the data as arguments, past its sites.
PAST_ITS_SITES = PreparesData | HasMarginal | HasClosedForm | ChoosesForm


def refit(bound_model: BoundModel, target: Target, data: dict, method, seeds) -> Iterator[Callable]:
    """For each simulated data set a function that gives its Posterior, or raises what went wrong.

    bound_model: prepared, as is its target. data: (simulations, shape) by site; seeds: one for
    each. A model that has only sites gets the data there, so that its arguments stay what they
    were, whatever else it does with them. One that offers more gets them in the arguments that hold
    the observations.

    A method that runs side by side is given several data sets at once, unless it reads the
    arguments of the model itself, as a guide by hand does.
    """
    if isinstance(bound_model.model, PAST_ITS_SITES) or method.reads_arguments:
        return _by_arguments(bound_model, target, data, method, seeds)
    # Inspected once for all data sets, since that takes as long as many a fit.
    first = Target.of(ConditionedModel(target), (_arrays(data, 0),), {})

    def target_at(i):
        return first.with_arguments(_arrays(data, i))

    at_once = _fits_at_once(max(target.size, *(values[0].size for values in data.values())))
    if method.runs_side_by_side and at_once > 1:
        return _in_batches(target_at, method, seeds, at_once)
    return (partial(fit_target, method, target_at(i), seed) for i, seed in enumerate(seeds))


def row(values: dict, i: int) -> dict:
    """The values of simulation i, by site."""
    return {name: value[i] for name, value in values.items()}


def _arrays(data: dict, i: int) -> dict:
    """The data of simulation i as arrays: a single number would be static."""
    return {name: jnp.asarray(value) for name, value in row(data, i).items()}


def _by_arguments(bound_model, target, data, method, seeds) -> Iterator[Callable]:
    first = row(data, 0)
    arguments_of = {site: _argument_of(bound_model, target, site, first) for site in data}
    classes = classes_of(bound_model.model)

    def fit(i):
        new = {arguments_of[site]: decode(value, classes) for site, value in row(data, i).items()}
        args, kwargs = _replace_arguments(bound_model.model, bound_model.original, new)
        return infer(
            bound_model.model, *args, method=method, seed=seeds[i], progress=False, **kwargs
        )

    return (partial(fit, i) for i in range(len(seeds)))


# -- several fits at once --------------------------------------------------------------------------


def _fits_at_once(size: int) -> int:
    """How many fits to run at once that have `size` observations, or coordinates."""
    # A process makes size x size matrices of observations, a guide of coordinates.
    return min(FITS_AT_ONCE, batch_size(size**2) or 1)


def _in_batches(target_at, method: Method, seeds, at_once) -> Iterator[Callable]:
    for start in range(0, len(seeds), at_once):
        batch = range(start, min(start + at_once, len(seeds)))
        targets, batch_seeds = [target_at(i) for i in batch], [seeds[i] for i in batch]
        # All batches have one shape, so that nothing is compiled again.
        padding = at_once - len(batch)
        try:
            fits = method.run_many(
                targets + targets[-1:] * padding, batch_seeds + batch_seeds[-1:] * padding
            )
        except FAILURES:
            # The error of one must not cost the others their fits, so each runs alone.
            for target, seed in zip(targets, batch_seeds, strict=True):
                yield partial(fit_target, method, target, seed)
            continue
        for target, seed, fit in zip(targets, batch_seeds, fits, strict=False):
            yield partial(Posterior.of, method.name, fit, target, seed=seed)


class ConditionedModel(eqx.Module):
    """A model of its data alone, model(data): its observed sites are conditioned on data by site.

    numpyro.handlers.condition does not know of plates that take a part of their rows.
    """

    target: Target

    def __call__(self, data):
        return _Condition(self.target.model, data)(*self.target.args, **self.target.kwargs)


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


def _argument_of(bound_model: BoundModel, target: Target, site: str, data: dict) -> str:
    """The name of the argument that holds what a site observes.

    Raises ValueError where there is none, or where several might.
    """
    latents = {s.name: jnp.zeros(s.shape) for s in target.latents}
    observed = target.observed(latents)[site]
    bound = (
        inspect.signature(bound_model.model).bind(*bound_model.args, **bound_model.kwargs).arguments
    )
    candidates = [name for name, value in bound.items() if _holds(value, observed)]
    if len(candidates) > 1:
        # Values may agree by chance: only the right one moves the site.
        candidates = [
            name for name in candidates if _moves_site(bound_model, latents, site, name, data[site])
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


def _moves_site(bound_model, latents, site, argument: str, value) -> bool:
    """Whether the site observes `value` once the argument of that name is set to it."""
    args, kwargs = _replace_arguments(
        bound_model.model, (bound_model.args, bound_model.kwargs), {argument: value}
    )
    changed = Target.of(bound_model.model, args, kwargs)
    return bool(np.array_equal(changed.observed(latents)[site], value))


def _replace_arguments(model, old: tuple[tuple, dict], new: dict) -> tuple[tuple, dict]:
    """Arguments of a model, some of which are replaced by name."""
    prepare = model.prepare if isinstance(model, PreparesData) else model
    bound = inspect.signature(prepare).bind(*old[0], **old[1])
    for name, value in new.items():
        bound.arguments[name] = jnp.asarray(value) if np.ndim(value) == 0 else value
    return bound.args, bound.kwargs
