"""Save posteriors to netCDF files that ArviZ reads, with a further group for the rest."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import numpy as np

from bayeskern.core.files import atomic_write, require_file
from bayeskern.inference.model.target import Target
from bayeskern.inference.model.trace.axes import netcdf_name
from bayeskern.inference.posterior.json_arrays import pack
from bayeskern.protocols import classes_of, columns_of

if TYPE_CHECKING:
    # xarray takes a while to import.
    import xarray as xr

    from bayeskern.inference.posterior.posterior import Posterior

# Name of the further group, its format, and the version of the format.
GROUP, FORMAT, VERSION = "bayeskern", "bayeskern posterior", 2
# Fields of a Posterior that are stored unchanged; `save` converts further fields.
FIELDS = (
    "method",
    "timing",
    "z",
    "log_q",
    "weighted",
    "trace",
    "sample_stats",
    "attempts",
    "dims",
    "seed",
)


def save(posterior: Posterior, path: str | Path, model: dict | None = None) -> None:
    """Write a posterior to a netCDF file, whole or not at all; nothing is pickled.

    Args:
        posterior: The posterior.
        path: Name of the file.
        model: Description of its model from an earlier file, if the model is not loaded.

    Raises:
        OSError: If the path is a folder or cannot be written to.
    """
    import xarray as xr

    path = require_file(path, "posterior.nc")
    arrays: dict[str, np.ndarray] = {}
    groups = posterior.to_arviz()
    state = {name: getattr(posterior, name) for name in FIELDS}
    trust = posterior.trust
    # Labels from pandas and xarray become arrays.
    state |= {
        "coords": {
            k: np.asarray(v) if hasattr(v, "to_numpy") else v for k, v in posterior.coords.items()
        },
        "trust": {"verdict": trust.verdict, "advice": trust.advice, "evidence": trust.evidence},
        "log_p": posterior.log_p,
        "log_evidence": None if posterior.log_evidence is None else tuple(posterior.log_evidence),
        "draws": {name: netcdf_name(name) for name in posterior.draws},
        "model": model or _model(posterior),
    }
    text = json.dumps(pack(state, arrays), allow_nan=False)
    variables: dict[str, tuple] = {
        name: ([f"{name}_{i}" for i in range(a.ndim)], a) for name, a in arrays.items()
    }
    # Not an attribute, since attributes are limited to 64 kB.
    variables["state"] = ([], text)
    groups[GROUP] = xr.DataTree(xr.Dataset(variables, attrs={"format": FORMAT, "version": VERSION}))
    with atomic_write(path) as temporary:
        groups.to_netcdf(temporary, engine="h5netcdf")


def read(path: Path) -> tuple[xr.DataTree, xr.Dataset]:
    """Read the groups of ArviZ, and the further group.

    Raises FileNotFoundError, or ValueError if `save` did not write the file.
    """
    import xarray as xr

    if not path.exists():
        raise FileNotFoundError(f"there is no file {path}.")
    try:
        with xr.open_datatree(path, engine="h5netcdf") as file:
            groups = file.load()
    except (OSError, ValueError, KeyError) as error:
        raise ValueError(
            f"{path} is not a netCDF file written by posterior.save: {error}"
        ) from None
    own_group = groups[GROUP].dataset if GROUP in groups.children else None
    if own_group is None or own_group.attrs.get("format") != FORMAT:
        raise ValueError(
            f"{path} was not written by posterior.save, so it has no posterior to load. "
            "xarray.open_datatree reads ArviZ's files."
        )
    if own_group.attrs["version"] > VERSION:
        raise ValueError(f"{path} was written by a newer version of bayeskern: update bayeskern.")
    return groups.filter(lambda node: node.name != GROUP), own_group


def _model(posterior: Posterior) -> dict[str, Any]:
    """Arguments, columns, classes and names of observed sites of the model."""
    target = posterior.known_target
    sites = target.sites()
    return {
        "observed": [name for name, site in sites.items() if site.kind == "observed"],
        "args": target.args,
        "kwargs": target.kwargs,
        "columns": columns_of(target.model),
        "classes": classes_of(target.model),
        "density": log_density(target, posterior.draws),
    }


def log_density(target: Target, draws: dict[str, np.ndarray]) -> float | None:
    """Log density at the first draw; None without latents, or if the draws lack a latent."""
    if not target.latents or any(s.name not in draws for s in target.latents):
        return None
    return float(_log_density_at(target, {s.name: draws[s.name][0, 0] for s in target.latents}))


@eqx.filter_jit
def _log_density_at(target: Target, draw: dict) -> jax.Array:
    return target.log_density(target.unconstrain(draw)[0], jacobian=False)
