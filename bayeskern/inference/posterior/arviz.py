"""A posterior as ArviZ wants it: an xarray DataTree with named axes."""

from __future__ import annotations

import inspect
import math
import warnings

import numpy as np
from numpyro.primitives import Messenger

from bayeskern.core.batching import evenly
from bayeskern.inference.model.trace.axes import DatasetMaker
from bayeskern.inference.model.trace.enumeration import NoPointwiseError
from bayeskern.inference.model.trace.sites import ModelSite, conditional_sites
from bayeskern.inference.model.trace.validation import CannotDrawError
from bayeskern.inference.posterior import predictive
from bayeskern.inference.posterior.log_likelihood import masks_of, pointwise, spread_constants
from bayeskern.prediction.mixture import MOST_DRAWS
from bayeskern.protocols import HasLogLikelihood

# Replicates of the data are thinned to at most this many numbers.
MOST_NUMBERS = 2 * 10**7
PRIOR_DRAWS = 1000


def to_arviz(posterior):
    """The groups that ArviZ knows, as far as the model and the method have them.

    posterior, sample_stats, log_likelihood, posterior_predictive, prior, prior_predictive,
    observed_data and constant_data. The axes have the names of their plates, of
    `infer={"event_dims": [...]}` and of `dims`. Observations that are masked out are left out, and
    what remains lies along one axis, `<site>_observed`. Where observations cannot be drawn, the
    groups that need them are left out, with a warning.
    """
    # xarray takes a while to import.
    import xarray as xr

    target = posterior.target
    data, masks = _data(posterior)
    groups = {"posterior": parameters(posterior)}
    statistics = _sample_stats(posterior)
    if statistics:
        groups["sample_stats"] = _dataset_maker(posterior, {}).dataset(statistics)
    if data and not posterior.is_point:
        try:
            groups |= _log_likelihood(posterior, masks)
        except NoPointwiseError as reason:
            warnings.warn(f"{reason} The group log_likelihood is left out.", stacklevel=3)
    try:
        groups |= _replicates(posterior, data, masks) | _prior(posterior, data, masks)
    except CannotDrawError as reason:
        warnings.warn(
            f"{reason} The groups posterior_predictive, prior and prior_predictive are left out.",
            stacklevel=3,
        )
    unmasked = _unmasked_data(data, masks)
    if unmasked:
        maker = _dataset_maker(posterior, target.sites(), masks)
        groups["observed_data"] = maker.dataset(unmasked, sample_dims=[])
    constants = _constants(target, data)
    if constants:
        maker = _dataset_maker(posterior, {})
        groups["constant_data"] = maker.dataset(constants, sample_dims=[])
    return xr.DataTree.from_dict(groups)


def observed(posterior) -> dict[str, np.ndarray]:
    """The observations by site; where some are masked out, a vector of the others."""
    return _unmasked_data(*_data(posterior))


def parameters(posterior):
    """The draws of the latents and deterministics as a data set."""
    return _dataset_maker(posterior, posterior.target.sites()).dataset(posterior.draws)


def _dataset_maker(posterior, sites: dict[str, ModelSite], masks=None, rows=None) -> DatasetMaker:
    return DatasetMaker(posterior.method, sites, posterior.coords, posterior.dims, masks, rows)


# -- groups ----------------------------------------------------------------------------------------


def _data(posterior) -> tuple[dict, dict]:
    """The values of every observed site, and where they are not masked out, if not everywhere."""
    target = posterior.target
    first = {name: values[0] for name, values in predictive.latents(posterior).items()}
    data = target.observed(first)
    masks = {} if isinstance(target.model, HasLogLikelihood) else masks_of(posterior)
    masks = {name: mask for name, mask in masks.items() if mask is not None and not mask.all()}
    # What is masked out everywhere is no data, nor is what has no rows.
    data = {k: v for k, v in data.items() if v.size and (k not in masks or masks[k].any())}
    return data, masks


def _unmasked_data(data: dict, masks: dict) -> dict[str, np.ndarray]:
    return {name: _unmasked(values, masks.get(name), 0) for name, values in data.items()}


def _sample_stats(posterior) -> dict:
    statistics = dict(posterior.sample_stats)
    if "lp" not in statistics and posterior.log_p is not None:
        statistics["lp"] = posterior.log_p[None]
    return statistics


def _log_likelihood(posterior, masks) -> dict:
    """The group log_likelihood."""
    by_site, rows = pointwise(posterior)
    values = {name: spread_constants(density.values) for name, density in by_site.items()}
    maker = _dataset_maker(posterior, posterior.target.sites(), masks, rows)
    return {"log_likelihood": maker.dataset(values, thinned=_thinned(posterior, rows))}


def _replicates(posterior, data, masks) -> dict:
    """The group posterior_predictive, where the model can draw its own observations."""
    if posterior.is_point or not predictive.draws_own_data(posterior.target):
        return {}
    target, draws = posterior.target, predictive.latents(posterior)
    conditional = conditional_sites(target)
    shapes = predictive.shapes_of_data(target, draws, conditional)
    if not _has_rows(shapes):
        return {}
    chains, count = posterior.shape
    rows = evenly(count, _most_replicates(shapes, conditional) // chains)
    thinned = {k: v.reshape(chains, count, *v.shape[1:])[:, rows] for k, v in draws.items()}
    thinned = {k: v.reshape(-1, *v.shape[2:]) for k, v in thinned.items()}
    new = predictive.replicates(target, thinned, chains * len(rows), conditional, shapes)
    new = {name: new[name].reshape(chains, -1, *new[name].shape[1:]) for name in shapes}
    maker = _dataset_maker(posterior, target.sites(), masks, rows)
    observed_part = _observed_part(new, data, masks)
    dataset = maker.dataset(observed_part, thinned=_thinned(posterior, rows))
    return {"posterior_predictive": dataset}


def _prior(posterior, data, masks) -> dict:
    """The groups prior and prior_predictive, where the prior is proper."""
    target, sites, groups = posterior.target, posterior.target.sites(), {}
    if target.without_prior:
        return {}
    conditional = conditional_sites(target)
    draws = predictive.latents(posterior)
    shapes = predictive.shapes_of_data(target, draws, conditional)
    size = sum(math.prod(site.shape) for site in sites.values())
    most = _most_replicates(shapes, conditional)
    count = min(PRIOR_DRAWS, most, max(1, MOST_NUMBERS // max(1, size)))
    prior = predictive.prior(target, count, size)
    if prior:
        by_site = {name: prior[name][None] for name in sites if name in prior}
        groups["prior"] = _dataset_maker(posterior, sites).dataset(by_site)
    if _has_rows(shapes):
        latents = {s.name: prior[s.name] for s in target.latents}
        new = predictive.replicates(target, latents, count, (), shapes)
        new = {name: new[name][None] for name in shapes}
        maker = _dataset_maker(posterior, sites, masks)
        groups["prior_predictive"] = maker.dataset(_observed_part(new, data, masks))
    return groups


def _has_rows(shapes: dict) -> bool:
    """Whether there are replicates: a site without rows has none, and JAX cannot map over it."""
    return bool(shapes) and all(map(math.prod, shapes.values()))


def _most_replicates(shapes: dict, conditional) -> int:
    """How many sets of replicates to draw at most."""
    if conditional:
        return MOST_DRAWS
    numbers = sum(map(math.prod, shapes.values())) if _has_rows(shapes) else 0
    return max(1, MOST_NUMBERS // max(1, numbers))


def _observed_part(new: dict, data: dict, masks: dict) -> dict:
    return {name: _unmasked(v, masks.get(name), 2) for name, v in new.items() if name in data}


def _unmasked(values, mask, axes: int):
    """The observations that count, along one axis in place of those after the first `axes`."""
    if mask is None:
        return values
    values = np.broadcast_to(values, (*values.shape[:axes], *mask.shape))
    return values[(slice(None),) * axes + (mask,)]


def _thinned(posterior, rows) -> str | None:
    count = posterior.shape[1]
    if len(rows) == count:
        return None
    return f"{len(rows)} of {count} draws of each chain, evenly spaced"


def _constants(target, data: dict) -> dict:
    """The arrays among the arguments that are not observed, by the names of the signature."""
    model = target.model
    while isinstance(model, Messenger):
        model = model.fn
    bound = inspect.signature(model).bind_partial(*target.args, **target.kwargs)
    arguments = {}
    for name, value in bound.arguments.items():
        kind = bound.signature.parameters[name].kind
        if kind is inspect.Parameter.VAR_POSITIONAL:
            arguments |= {f"{name}_{i}": argument for i, argument in enumerate(value)}
        elif kind is inspect.Parameter.VAR_KEYWORD:
            arguments |= value
        else:
            arguments[name] = value
    arrays = {k: np.asarray(v) for k, v in arguments.items() if hasattr(v, "dtype")}
    return {
        name: array
        for name, array in arrays.items()
        if array.ndim
        and array.dtype.kind in "biuf"
        and not any(_holds(array, values) for values in data.values())
    }


def _holds(argument, observed) -> bool:
    """Whether an argument holds what was observed; a hole in it may have been filled."""
    if argument.size != observed.size:
        return False
    present = ~np.isnan(argument.astype(float)).ravel()
    return present.any() and np.array_equal(argument.ravel()[present], observed.ravel()[present])
