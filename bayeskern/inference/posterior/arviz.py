"""A posterior as ArviZ wants it: an xarray DataTree with named axes."""

from __future__ import annotations

import inspect
import math

import numpy as np
from numpyro.primitives import Messenger

from bayeskern.core import validation
from bayeskern.core.batching import evenly
from bayeskern.core.formatting import counted
from bayeskern.inference.model import sites
from bayeskern.inference.posterior import predictive
from bayeskern.inference.posterior.log_likelihood import masks_of, pointwise
from bayeskern.inference.posterior.summary import shown
from bayeskern.prediction.mixture import MOST_DRAWS

# Draws of the data are thinned to at most so many numbers.
MOST_NUMBERS = 2 * 10**7
PRIOR_DRAWS = 1000
# Relative spread of log likelihoods that counts as none.
HAIR = 1e-10


def to_arviz(posterior):
    """The groups that ArviZ knows, as far as the model and the method have them.

    posterior, sample_stats, log_likelihood, posterior_predictive, prior, prior_predictive,
    observed_data and constant_data. The axes have the names of their plates, of
    `infer={"event_dims": [...]}` and of `dims`. Observations that are masked out are left out, and
    what remains lies along one axis, `<site>_observed`.
    """
    import xarray as xr

    target, found = posterior.target, sites.look(posterior.target)
    groups = {"posterior": _parameters(posterior, found)}
    stats = _sample_stats(posterior)
    if stats:
        groups["sample_stats"] = _Group(posterior, {}).dataset(stats)
    data, masks = _data(posterior)
    if data and not posterior.is_point and not target.discrete:
        parts, rows = pointwise(posterior)
        group, said = _Group(posterior, found, masks, rows), _thinned(posterior, rows)
        values = {name: spread_constants(part.values) for name, part in parts.items()}
        groups["log_likelihood"] = group.dataset(values, thinned=said)
    groups |= _predictives(posterior, found, masks, data)
    kept = _kept(data, masks)
    if kept:
        groups["observed_data"] = _Group(posterior, found, masks).dataset(kept, sample_dims=[])
    constant = _constants(target, data)
    if constant:
        groups["constant_data"] = _Group(posterior, {}).dataset(constant, sample_dims=[])
    return xr.DataTree.from_dict(groups)


def observed(posterior) -> dict[str, np.ndarray]:
    """The observations by site; of a site that is masked in part, those that count, as a vector."""
    return _kept(*_data(posterior))


def summary(posterior, data, **options):
    """ArviZ's table of means, sds and intervals of every latent and deterministic.

    R-hat and effective sample sizes stand in it for MCMC only, where they mean what they say. Of
    a point estimate it has the values. Unless `round_to` says otherwise, as many digits are shown
    as the sd lets matter. data: what `parameters` returns.
    """
    import arviz as az

    show = (lambda table: table) if "round_to" in options else shown

    # ArviZ takes differences, which truth values have not.
    data = data.map(lambda x: x.astype(int) if x.dtype == bool else x)
    if "diverging" in posterior.sample_stats:
        return show(az.summary(data, **options))
    median = options.pop("kind", "stats").endswith("_median")
    if not posterior.is_point:
        return show(az.summary(data, kind="stats_median" if median else "stats", **options))
    table = az.summary(data, **{"kind": "stats", "round_to": "none", **options})
    return table[["mean"]].rename(columns={"mean": "value"})


# -- groups ----------------------------------------------------------------------------------------


def _data(posterior) -> tuple[dict, dict]:
    """The values of every observed site, and where they are not masked out, if not everywhere."""
    target = posterior.target
    data = sites.observed(target, {k: v[0] for k, v in predictive.latents(posterior).items()})
    masks = {} if hasattr(target.model, "pointwise") else masks_of(posterior)
    masks = {name: mask for name, mask in masks.items() if mask is not None and not mask.all()}
    # What is masked out everywhere is no data, nor is what has no rows.
    data = {k: v for k, v in data.items() if v.size and (k not in masks or masks[k].any())}
    return data, masks


def _kept(data: dict, masks: dict) -> dict[str, np.ndarray]:
    return {name: _unmasked(value, masks.get(name), 0) for name, value in data.items()}


def require_axes(found: dict[str, sites.Site], coords: dict, dims: dict) -> None:
    """Raise what would be raised for coords and dims when the tree is made: before the fit.

    found: what `sites.look` returns. Raises ValueError naming the site and the axis, TypeError
    where names are none.
    """
    for name, names in dims.items():
        validation.one_of("dims: site", name, found)
        if isinstance(names, str) or not hasattr(names, "__iter__"):
            raise TypeError(
                f"dims of {name!r} must be a list of names of its axes, such as [{str(names)!r}]; "
                f"got {names!r}."
            )
        given = [axis for axis in names if axis is not None]
        if len(set(given)) < len(given) or set(given) & {"chain", "draw"}:
            raise ValueError(
                f"dims of {name!r} are {given}: axes need names of their own, other than 'chain' "
                "and 'draw', which the draws have."
            )
    for axis, labels in coords.items():
        if np.ndim(labels) != 1:
            raise TypeError(
                f"coords of {axis!r} must be a list of labels, one for each place; got {labels!r}."
            )
    for name, site in found.items():
        axes = _axes(name, site.shape, site, dims)
        _require_labels(name, site.shape, axes, coords)


def _axes(name: str, shape, site, dims: dict) -> list[str | None]:
    """The names of the axes of values of this shape, by plates and by dims."""
    names = list(site.names[: len(shape)]) if site else []
    if site is None or site.shape[: len(shape)] != tuple(shape):
        # A plate that was subsampled, or a site that the model itself does not have.
        names = [None] * len(shape)
    given = list(dims.get(name, []))
    whole = len(site.shape) if site else len(shape)
    if len(given) > whole:
        has = f"has {whole}" if whole else "is one number"
        raise ValueError(
            f"dims names {counted(len(given), 'axis', 'axes')} of {name!r}, {given}, but it {has}."
        )
    # Fewer names than axes are those of the last ones.
    names[whole - len(given) :] = given[: max(0, len(shape) - (whole - len(given)))]
    return names


def _require_labels(name: str, shape, axes, coords) -> None:
    for axis, size in zip(axes, shape, strict=True):
        if axis in coords and len(coords[axis]) != size:
            raise ValueError(
                f"coords has {counted(len(coords[axis]), 'label')} for {axis!r}, but that "
                f"axis of {name!r} has {counted(size, 'place')}."
            )


class _Group:
    """Makes the data set of one group: names for the axes, labels along them."""

    def __init__(self, posterior, found: dict, masks: dict | None = None, rows=None):
        self.posterior, self.found = posterior, found
        self.masks = dict(masks or {})
        self.coords = {axis: np.asarray(labels) for axis, labels in posterior.coords.items()}
        if rows is not None:
            self.coords["draw"] = rows

    def dataset(self, values: dict, sample_dims=("chain", "draw"), **attributes):
        import arviz as az
        import numpyro

        given = {name: attribute for name, attribute in attributes.items() if attribute}
        skip = len(sample_dims)
        dims = {name: self._dims(name, np.shape(v)[skip:]) for name, v in values.items()}
        dims = {k: [d and d.replace("/", ".") for d in axes] for k, axes in dims.items()}
        return az.dict_to_dataset(
            {_safe(name, values): np.asarray(value) for name, value in values.items()},
            dims={_safe(name, values): dims[name] for name in values},
            coords={axis.replace("/", "."): labels for axis, labels in self.coords.items()},
            sample_dims=list(sample_dims),
            attrs={"method": self.posterior.method, **given},
            inference_library=numpyro,
        )

    def _dims(self, name: str, shape) -> list[str | None]:
        if name in self.masks:
            return [self._masked(name)]
        names = _axes(name, shape, self.found.get(name), self.posterior.dims)
        _require_labels(name, shape, names, self.coords)
        return names

    def _masked(self, name: str) -> str:
        """The axis of the observations that count, labelled by where they lie among all."""
        mask = self.masks[name]
        (*_, last), axis = (None, *self._dims_of_all(name)), f"{name}_observed"
        labels = self.coords.get(last) if mask.ndim == 1 else None
        labels = np.arange(mask.size) if labels is None else np.asarray(labels)
        self.coords[axis] = labels[mask.ravel()]
        return axis

    def _dims_of_all(self, name: str) -> list[str | None]:
        mask = self.masks.pop(name)
        try:
            return self._dims(name, mask.shape)
        finally:
            self.masks[name] = mask


def spread_constants(values):
    """The log likelihood with a hair's breadth of spread for observations that have none.

    ArviZ's LOO refuses values that are all equal, as they are where an observation tells nothing
    of the latents; this much changes none of its digits. values: (chains, draws, ...).
    """
    constant, first = _constant(values, HAIR)
    chains, draws, *shape = values.shape
    ramp = np.linspace(0.0, HAIR, chains * draws).reshape(chains, draws, *[1] * len(shape))
    return np.where(constant, first + _scale(first) * ramp, values)


def without_spread(values):
    """The inverse of `spread_constants`."""
    constant, first = _constant(values, 2.0 * HAIR)
    return np.where(constant, first, values)


def _constant(values, width):
    first = values[:1, :1]
    # Of infinities, which differ by NaN, none is constant.
    with np.errstate(invalid="ignore"):
        return np.ptp(values, axis=(0, 1), keepdims=True) <= width * _scale(first), first


def _scale(first):
    return np.maximum(1.0, np.abs(first))


def _safe(name: str, names) -> str:
    """A name that may stand in a netCDF file, where "/" divides groups."""
    safe = name.replace("/", ".")
    if safe != name and safe in names:
        raise ValueError(f"sites {name!r} and {safe!r} would have one name; rename one of them.")
    return safe


def parameters(posterior):
    """The draws of the latents and deterministics as a data set."""
    return _parameters(posterior, sites.look(posterior.target))


def _parameters(posterior, found):
    return _Group(posterior, found).dataset(posterior.draws)


def _sample_stats(posterior) -> dict:
    stats = dict(posterior.sample_stats)
    if "lp" not in stats and posterior.log_p is not None:
        stats["lp"] = posterior.log_p[None]
    return stats


def _predictives(posterior, found, masks, data) -> dict:
    """Replicates of the data from the posterior and from the prior, where they can be drawn."""
    target, groups = posterior.target, {}
    given = tuple(name for name, site in found.items() if site.conditional)
    # Such a model says that its observations, as it stands, are not those given the draws.
    own = hasattr(target.model, "pointwise") and not given
    draws = predictive.latents(posterior)
    shapes = predictive.shapes_of(target, draws, target.arguments, given)
    # A site without rows has no replicates, and JAX cannot map over it.
    shapes = shapes if all(map(math.prod, shapes.values())) else {}
    numbers = sum(math.prod(shape) for shape in shapes.values())
    most = MOST_DRAWS if given else max(1, MOST_NUMBERS // max(1, numbers))

    def group(values, keep, **options):
        chosen = {
            name: _unmasked(value, masks.get(name), 2)
            for name, value in values.items()
            if name in data
        }
        return _Group(posterior, found, masks, keep).dataset(chosen, **options)

    if shapes and not own and not posterior.is_point:
        chains, count = next(iter(posterior.draws.values())).shape[:2]
        rows = evenly(count, most // chains)
        thinned = {k: v.reshape(chains, count, *v.shape[1:])[:, rows] for k, v in draws.items()}
        thinned = {k: v.reshape(-1, *v.shape[2:]) for k, v in thinned.items()}
        new = predictive.replicates(target, thinned, chains * len(rows), given, shapes)
        new = {name: new[name].reshape(chains, -1, *new[name].shape[1:]) for name in shapes}
        said = _thinned(posterior, rows)
        groups["posterior_predictive"] = group(new, rows, thinned=said)
    if not target.without_prior:
        size = sum(math.prod(site.shape) for site in found.values())
        count = min(PRIOR_DRAWS, most, max(1, MOST_NUMBERS // max(1, size)))
        before = predictive.prior(target, count, size)
        own = {s.name: before[s.name] for s in target.latents}
        if before:
            before = {name: before[name][None] for name in found if name in before}
            groups["prior"] = _Group(posterior, found).dataset(before)
        if shapes:
            new = predictive.replicates(target, own, count, (), shapes)
            new = {name: new[name][None] for name in shapes}
            groups["prior_predictive"] = group(new, None)
    return groups


def _unmasked(values, mask, axes: int):
    """The observations that count, along one axis in place of those after the first `axes`."""
    if mask is None:
        return values
    values = np.broadcast_to(values, (*values.shape[:axes], *mask.shape))
    return values[(slice(None),) * axes + (mask,)]


def _thinned(posterior, rows) -> str | None:
    count = next(iter(posterior.draws.values())).shape[1]
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
            arguments |= {f"{name}_{i}": each for i, each in enumerate(value)}
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
        and not any(_same(array, value) for value in data.values())
    }


def _same(argument, observed) -> bool:
    """Whether an argument holds what was observed; a hole in it may have been filled."""
    if argument.size != observed.size:
        return False
    known = ~np.isnan(argument.astype(float)).ravel()
    return known.any() and np.array_equal(argument.ravel()[known], observed.ravel()[known])
