"""A posterior as an xarray DataTree with the groups and named axes of ArviZ."""

from __future__ import annotations

import inspect
import math
import warnings
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpyro.primitives import Messenger

from bayeskern.core.batching import evenly
from bayeskern.inference.assessment.power_scaling import log_probs
from bayeskern.inference.model.evaluation import join_chains
from bayeskern.inference.model.target import Target
from bayeskern.inference.model.trace.axes import dataset, netcdf_name
from bayeskern.inference.model.trace.enumeration import NoPointwiseError
from bayeskern.inference.model.trace.validation import CannotDrawError
from bayeskern.inference.posterior import predictive
from bayeskern.inference.posterior.log_likelihood import masks_of, pointwise, spread_constants
from bayeskern.inference.result import Fit
from bayeskern.prediction.mixture import MAX_MIXTURE_DRAWS
from bayeskern.protocols import HasLogLikelihood

if TYPE_CHECKING:
    # xarray takes a while to import.
    import xarray as xr

# Most values in all replicated data sets together; beyond it, fewer replicates are drawn.
MAX_REPLICATE_NUMBERS = 2 * 10**7


def to_arviz(posterior: Fit) -> xr.DataTree:
    """ArviZ groups that the model and the method provide.

    posterior, sample_stats, log_likelihood, log_prior, posterior_predictive, prior,
    prior_predictive, observed_data and constant_data. Axes are named after plates,
    `infer={"event_dims": [...]}` and `dims`. Masked observations are left out, and unmasked
    observations of such a site lie along one axis, `<site>_observed`. If observations cannot be
    drawn, the groups that need them are left out, with a warning.
    """
    import xarray as xr

    target = posterior.known_target
    data, masks = _data(posterior)
    site_dataset = partial(_dataset, posterior, sites=target.sites(), masks=masks)
    groups = {"posterior": parameters(posterior)}
    statistics = posterior.sample_stats
    if "lp" not in statistics and posterior.log_p is not None:
        statistics = statistics | {"lp": posterior.log_p[None]}
    if statistics:
        groups["sample_stats"] = _dataset(posterior, statistics)
    if data and not posterior.is_point:
        try:
            by_site, rows = pointwise(posterior)
            values = {name: spread_constants(density.values) for name, density in by_site.items()}
            groups["log_likelihood"] = site_dataset(values, rows=rows)
        except NoPointwiseError as reason:
            warnings.warn(f"{reason} The group log_likelihood is left out.", stacklevel=3)
    groups |= _log_prior(posterior)
    try:
        groups |= _replicates(posterior, data, masks) | _prior(posterior, data, masks)
    except CannotDrawError as reason:
        warnings.warn(
            f"{reason} The groups posterior_predictive, prior and prior_predictive are left out.",
            stacklevel=3,
        )
    unmasked = _unmasked(data, data, masks, 0)
    if unmasked:
        groups["observed_data"] = site_dataset(unmasked, sample_dims=[])
    constants = _constants(target, data)
    if constants:
        groups["constant_data"] = _dataset(posterior, constants, sample_dims=[])
    return xr.DataTree.from_dict(groups)


def observed(posterior: Fit) -> dict[str, np.ndarray]:
    """Observations by site; for a masked site, the vector of its unmasked observations."""
    data, masks = _data(posterior)
    return _unmasked(data, data, masks, 0)


def parameters(posterior: Fit) -> xr.Dataset:
    """Draws of the latents and deterministics as a data set."""
    return _dataset(posterior, posterior.draws, sites=posterior.known_target.sites())


def axis_labels(posterior: Fit, group: xr.Dataset) -> dict[str, list[list[str]]]:
    """Labels along the axes of each site, from its variable in the group of parameters."""
    names = [netcdf_name(site) for site in posterior.draws]
    if len({*names}) < len(names):
        return {}
    variables = {site: group[name] for site, name in zip(posterior.draws, names, strict=True)}
    return {
        site: [[str(x) for x in values[d].values] for d in values.dims[2:]]
        for site, values in variables.items()
    }


def _dataset(
    posterior: Fit, values: dict, rows: np.ndarray | None = None, **options: Any
) -> xr.Dataset:
    """`axes.dataset` with the labels of a posterior; rows: indices of the draws of each chain."""
    count, thinning_note = posterior.shape[1], None
    if rows is not None and len(rows) < count:
        thinning_note = f"{len(rows)} of {count} draws of each chain, evenly spaced"
    common: dict[str, Any] = {"sites": {}, "rows": rows, "thinned": thinning_note}
    common |= {"coords": posterior.coords, "dims": posterior.dims} | options
    return dataset(values, posterior.method, **common)


# -- groups ----------------------------------------------------------------------------------------


def _data(posterior: Fit) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Observed values by site, and masks of the sites with masked observations."""
    target = posterior.known_target
    first = {name: values[0] for name, values in predictive.latents(posterior).items()}
    data = target.observed(first)
    for name, missing in posterior.missing_values.items():
        data[name] = np.where(missing, np.nan, data[name])
    masks = {} if isinstance(target.model, HasLogLikelihood) else masks_of(posterior)
    masks = {name: mask for name, mask in masks.items() if mask is not None and not mask.all()}
    # A site without rows, or without unmasked observations, has no data.
    data = {k: v for k, v in data.items() if v.size and (k not in masks or masks[k].any())}
    return data, masks


def _replicates(posterior: Fit, data: dict, masks: dict) -> dict[str, xr.Dataset]:
    """The group posterior_predictive; empty if the model cannot draw its own observations."""
    target = posterior.known_target
    if posterior.is_point or not predictive.draws_own_data(target):
        return {}
    model = predictive.at_own_data(target)
    shapes = model.shapes(predictive.latents(posterior))
    if not _has_rows(shapes):
        return {}
    chains, count = posterior.shape
    rows = evenly(count, _most_replicates(shapes, model.conditional) // chains)
    latents = join_chains({s.name: posterior.draws[s.name][:, rows] for s in target.latents})
    new = predictive.replicates(model, latents, chains * len(rows), shapes)
    new = {name: new[name].reshape(chains, -1, *new[name].shape[1:]) for name in shapes}
    values = _unmasked(new, data, masks, 2)
    group = _dataset(posterior, values, rows=rows, sites=target.sites(), masks=masks)
    return {"posterior_predictive": group}


def _log_prior(posterior: Fit) -> dict[str, xr.Dataset]:
    """The group log_prior: log density of each latent site with a proper prior.

    The densities of the elements of a site are summed. Empty without such sites and for a point
    estimate. Empty too if the sum of the group log_likelihood is not the log likelihood of all
    data, since power scaling would then scale a wrong likelihood.
    """
    target = posterior.known_target
    sites = tuple(s.name for s in target.latents if s.name not in target.without_prior)
    pointwise_sums = not target.discrete and not isinstance(target.model, HasLogLikelihood)
    pointwise_sums &= not any(site.conditional for site in target.sites().values())
    if not sites or posterior.is_point or not pointwise_sums:
        return {}
    draws = join_chains({s.name: posterior.draws[s.name] for s in target.latents})
    by_site = log_probs(target, draws)
    values = {name: by_site[name].reshape(posterior.shape) for name in sites}
    # One number for each site, whatever its axes.
    return {"log_prior": _dataset(posterior, values, dims={})}


def _prior(posterior: Fit, data: dict, masks: dict) -> dict[str, xr.Dataset]:
    """The groups prior and prior_predictive; empty if the prior is improper."""
    target, groups = posterior.known_target, {}
    if target.without_prior:
        return {}
    sites, model = target.sites(), predictive.at_own_data(target)
    shapes = model.shapes(predictive.latents(posterior))
    size = sum(math.prod(site.shape) for site in sites.values())
    max_count = _most_replicates(shapes, model.conditional)
    count = min(1000, max_count, max(1, MAX_REPLICATE_NUMBERS // max(1, size)))
    prior = predictive.prior(target, count, size)
    if prior:
        by_site = {name: prior[name][None] for name in sites if name in prior}
        groups["prior"] = _dataset(posterior, by_site, sites=sites)
    if _has_rows(shapes):
        latents = {s.name: prior[s.name] for s in target.latents}
        model = predictive.at_own_data(target, conditional=False)
        new = predictive.replicates(model, latents, count, shapes)
        values = _unmasked({name: new[name][None] for name in shapes}, data, masks, 2)
        groups["prior_predictive"] = _dataset(posterior, values, sites=sites, masks=masks)
    return groups


def _has_rows(shapes: dict[str, tuple[int, ...]]) -> bool:
    """True if there are replicates; JAX cannot map over a site without rows."""
    return bool(shapes) and all(map(math.prod, shapes.values()))


def _most_replicates(shapes: dict[str, tuple[int, ...]], conditional: tuple[str, ...]) -> int:
    """Maximum number of replicated data sets."""
    if conditional:
        return MAX_MIXTURE_DRAWS
    numbers = sum(map(math.prod, shapes.values())) if _has_rows(shapes) else 0
    return max(1, MAX_REPLICATE_NUMBERS // max(1, numbers))


def _unmasked(values: dict, data: dict, masks: dict, leading_axes: int) -> dict[str, np.ndarray]:
    """Unmasked observations of the sites with data, along one axis after the leading axes."""
    unmasked = {}
    for name, array in values.items():
        mask = masks.get(name)
        if mask is not None and name in data:
            event = array.shape[leading_axes + mask.ndim :]
            array = np.broadcast_to(array, (*array.shape[:leading_axes], *mask.shape, *event))
            array = array[(slice(None),) * leading_axes + (mask,)]
        if name in data:
            unmasked[name] = array
    return unmasked


def _constants(target: Target, data: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Numeric array arguments that hold no observations, by parameter name."""
    model: Any = target.model
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
        and not any(_equals(array, values) for values in data.values())
    }


def _equals(argument: np.ndarray, observed: np.ndarray) -> bool:
    """True if an argument equals the observations where it is not NaN."""
    if argument.size != observed.size:
        return False
    present = ~np.isnan(argument.astype(float)).ravel()
    same = np.array_equal(argument.ravel()[present], observed.ravel()[present])
    return bool(present.any()) and same
