"""Names and labels for the axes of sites, and data sets that have them, as ArviZ takes them."""

from __future__ import annotations

import numpy as np

from bayeskern.core import validation
from bayeskern.core.formatting import counted
from bayeskern.inference.model.trace.sites import ModelSite


def require_axes(sites: dict[str, ModelSite], coords: dict, dims: dict) -> None:
    """Refuse, before a fit, coords and dims that do not go with the sites.

    sites: what `Target.sites` returns. Raises ValueError naming the site and the axis, TypeError
    where names or labels have another type.
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
                f"dims of {name!r} are {named}: axes need names of their own, other than 'chain' "
                "and 'draw', which the draws have."
            )
    for axis, labels in coords.items():
        if np.ndim(labels) != 1:
            raise TypeError(
                f"coords of {axis!r} must be a list of labels, one for each place; got {labels!r}."
            )
    for name, site in sites.items():
        axes = _axes(name, site.shape, site, dims)
        _require_labels(name, site.shape, axes, coords)


def _axes(name: str, shape, site, dims: dict) -> list[str | None]:
    """The names of the axes of values of this shape, by plates and by dims."""
    names = list(site.names[: len(shape)]) if site else []
    if site is None or site.shape[: len(shape)] != tuple(shape):
        # A plate that was subsampled, or a site that the model itself does not have.
        names = [None] * len(shape)
    given_names = list(dims.get(name, []))
    ndim = len(site.shape) if site else len(shape)
    if len(given_names) > ndim:
        has = f"has {ndim}" if ndim else "is one number"
        raise ValueError(
            f"dims names {counted(len(given_names), 'axis', 'axes')} of {name!r}, {given_names}, "
            f"but it {has}."
        )
    # Fewer names than axes name the last axes.
    first = ndim - len(given_names)
    names[first:] = given_names[: max(0, len(shape) - first)]
    return names


def _require_labels(name: str, shape, axes, coords) -> None:
    for axis, size in zip(axes, shape, strict=True):
        if axis in coords and len(coords[axis]) != size:
            raise ValueError(
                f"coords has {counted(len(coords[axis]), 'label')} for {axis!r}, but that "
                f"axis of {name!r} has {counted(size, 'place')}."
            )


class DatasetMaker:
    """Makes the data set of one group: names for the axes, labels along them.

    sites: what `Target.sites` returns; masks: where observations count, by site, if not everywhere;
    rows: which draws of each chain are there, if not all.
    """

    def __init__(
        self,
        method: str,
        sites: dict[str, ModelSite],
        coords: dict,
        dims: dict,
        masks: dict | None = None,
        rows=None,
    ):
        self.method, self.sites, self.dims = method, sites, dims
        self.masks = dict(masks or {})
        self.coords = {axis: np.asarray(labels) for axis, labels in coords.items()}
        if rows is not None:
            self.coords["draw"] = rows

    def dataset(self, values: dict, sample_dims=("chain", "draw"), **attributes):
        """The data set of some sites, with named and labelled axes.

        values: arrays by site, (*sample_dims, *site); attributes: of the data set, empty ones left
        out. Raises ValueError if labels or names do not fit.
        """
        # arviz takes a while to import.
        import arviz as az
        import numpyro

        skip = len(sample_dims)
        dims = {name: self._dims(name, np.shape(v)[skip:]) for name, v in values.items()}
        dims = {k: [d and d.replace("/", ".") for d in axes] for k, axes in dims.items()}
        return az.dict_to_dataset(
            {netcdf_name(name, values): np.asarray(value) for name, value in values.items()},
            dims={netcdf_name(name, values): dims[name] for name in values},
            coords={axis.replace("/", "."): labels for axis, labels in self.coords.items()},
            sample_dims=list(sample_dims),
            attrs={"method": self.method, **{k: v for k, v in attributes.items() if v}},
            inference_library=numpyro,
        )

    def _dims(self, name: str, shape) -> list[str | None]:
        if name in self.masks:
            return [self._masked(name)]
        names = _axes(name, shape, self.sites.get(name), self.dims)
        _require_labels(name, shape, names, self.coords)
        return names

    def _masked(self, name: str) -> str:
        """The axis of the observations that count, labelled by their places among all."""
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


def netcdf_name(name: str, names=()) -> str:
    """A name that may stand in a netCDF file, where "/" divides groups."""
    safe = name.replace("/", ".")
    if safe != name and safe in names:
        raise ValueError(f"sites {name!r} and {safe!r} would have one name; rename one of them.")
    return safe
