"""Names and labels of the axes of sites, and ArviZ data sets with them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from bayeskern.core import validation
from bayeskern.core.formatting import counted
from bayeskern.inference.model.trace.sites import ModelSite

if TYPE_CHECKING:
    # xarray takes a while to import.
    import xarray as xr


def require_axes(sites: dict[str, ModelSite], coords: Mapping, dims: Mapping) -> None:
    """Check, before a fit, that coords and dims match the sites.

    Args:
        sites: Sites of the model, from `Target.sites`.
        coords: Labels along named axes.
        dims: Names for the axes of sites.

    Raises:
        ValueError: If a site, an axis or a number of labels does not match.
        TypeError: If names or labels are not lists.
    """
    for name, names in dims.items():
        validation.one_of("dims: site", name, sites)
        if isinstance(names, str) or not hasattr(names, "__iter__"):
            raise TypeError(
                f"dims of {name!r} must be a list of names of its axes, such as [{str(names)!r}]; "
                f"got {names!r}."
            )
        named = [axis for axis in names if axis is not None]
        if len(set(named)) < len(named) or set(named) & {"chain", "draw"}:
            raise ValueError(
                f"dims of {name!r} are {named}: axes need different names, other than 'chain' and "
                "'draw', the axes of the draws."
            )
    for axis, labels in coords.items():
        if np.ndim(labels) != 1:
            raise TypeError(
                f"coords of {axis!r} must be a list of labels, one for each index; got {labels!r}."
            )
    for name, site in sites.items():
        for axis in _axes(name, site.shape, site, coords, dims):
            if axis in sites:
                raise ValueError(
                    f"an axis of {name!r} has the name of the site {axis!r}: give it another name "
                    "in dims, because a data set cannot hold both."
                )


def _axes(
    name: str, shape: tuple[int, ...], site: ModelSite | None, coords: Mapping, dims: Mapping
) -> list[str | None]:
    """Names of the axes of values of this shape, from plates and dims.

    Raises ValueError if dims has too many names, or coords another number of labels than indices.
    """
    names: list[str | None] = [None] * len(shape)
    # Plate names apply only where sizes agree: a plate may be subsampled. Values that are not sites
    # have none.
    if site and site.shape[: len(shape)] == tuple(shape):
        names = list(site.names[: len(shape)])
    own_names = list(dims.get(name, []))
    ndim = len(site.shape) if site else len(shape)
    if len(own_names) > ndim:
        actual = f"it has {ndim}" if ndim else "it is one number"
        raise ValueError(
            f"dims names {counted(len(own_names), 'axis', 'axes')} of {name!r}, {own_names}, "
            f"but {actual}."
        )
    # Fewer names than axes name the last axes.
    first = ndim - len(own_names)
    names[first:] = own_names[: max(0, len(shape) - first)]
    for axis, size in zip(names, shape, strict=True):
        if axis in coords and len(coords[axis]) != size:
            raise ValueError(
                f"coords has {counted(len(coords[axis]), 'label')} for {axis!r}, but that "
                f"axis of {name!r} has size {size}."
            )
    return names


def dataset(
    values: Mapping[str, np.ndarray],
    method: str,
    sites: dict[str, ModelSite],
    coords: Mapping,
    dims: Mapping,
    masks: Mapping[str, np.ndarray] | None = None,
    sample_dims: Sequence[str] = ("chain", "draw"),
    rows: np.ndarray | None = None,
    thinned: str | None = None,
) -> xr.Dataset:
    """Data set of one group, with named and labelled axes.

    Args:
        values: Arrays by site, each (*sample_dims, *site).
        method: Name of the inference method, an attribute of the data set.
        sites: Sites of the model, from `Target.sites`.
        coords: Labels along named axes.
        dims: Names for the axes of sites.
        masks: Masks by site, in the shape of the site: True for the observations in `values`. A
            site without a mask has all its observations.
        sample_dims: Names of the first axes.
        rows: Indices of the kept draws of each chain; None for all draws.
        thinned: Note on thinned draws, an attribute of the data set.

    Returns:
        The data set.

    Raises:
        ValueError: If labels or names do not match.
    """
    # arviz takes a while to import.
    import arviz as az
    import numpyro

    labels = {axis: np.asarray(axis_labels) for axis, axis_labels in coords.items()}
    if rows is not None:
        labels["draw"] = rows
    named_axes: dict[str, list[str | None]] = {}
    for name, value in values.items():
        mask = (masks or {}).get(name)
        shape = np.shape(value)[len(sample_dims) :] if mask is None else mask.shape
        names = _axes(name, shape, sites.get(name), labels, dims)
        if mask is not None:
            # Selected observations lie along one axis, labelled by their index among all.
            observed = f"{name}_observed"
            index = labels.get(names[0]) if mask.ndim == 1 and names[0] is not None else None
            labels[observed] = (np.arange(mask.size) if index is None else index)[mask.ravel()]
            # An event has axes of its own.
            names = [observed, *[None] * (np.ndim(value) - len(sample_dims) - 1)]
        named_axes[name] = [axis and axis.replace("/", ".") for axis in names]
    return az.dict_to_dataset(
        {netcdf_name(name, values): np.asarray(value) for name, value in values.items()},
        dims={netcdf_name(name, values): axes for name, axes in named_axes.items()},
        coords={axis.replace("/", "."): index for axis, index in labels.items()},
        sample_dims=list(sample_dims),
        attrs={"method": method} | ({"thinned": thinned} if thinned else {}),
        inference_library=numpyro,
    )


def netcdf_name(name: str, names: Mapping | Sequence[str] = ()) -> str:
    """Name with "." in place of "/", which separates groups in a netCDF file."""
    safe = name.replace("/", ".")
    if safe != name and safe in names:
        raise ValueError(
            f"sites {name!r} and {safe!r} would have the same name; rename one of them."
        )
    return safe
