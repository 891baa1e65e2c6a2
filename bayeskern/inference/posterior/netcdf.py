"""Save posteriors to netCDF files that ArviZ reads, with a further group for the rest."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import numpy as np

from bayeskern.core.files import require_file
from bayeskern.core.frames import TextColumn
from bayeskern.core.netcdf import Format, to_bytes, write
from bayeskern.inference.model.target import Target
from bayeskern.inference.model.trace.axes import netcdf_name
from bayeskern.inference.result import Fit
from bayeskern.protocols import classes_of, columns_of

if TYPE_CHECKING:
    # xarray takes a while to import.
    import xarray as xr

FORMAT = Format("bayeskern posterior", version=4)
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


def save(posterior: Fit, groups: xr.DataTree, path: str | Path, model: dict | None = None) -> None:
    """Write a posterior to a netCDF file, whole or not at all; nothing is pickled.

    Args:
        posterior: The posterior.
        groups: Its groups of ArviZ.
        path: Name of the file.
        model: Description of its model from an earlier file, if the model is not loaded.

    Raises:
        OSError: If the path is a folder or cannot be written to.
    """
    require_file(path, "posterior.nc")
    content = to_bytes(groups, state_of(posterior, model), FORMAT)
    write(content, path, "posterior.nc")


def state_of(posterior: Fit, model: dict | None = None) -> dict[str, Any]:
    """State of a posterior beside the groups of ArviZ. Arguments as in `save`."""
    trust = posterior.trust
    return {name: getattr(posterior, name) for name in FIELDS} | {
        # Labels from pandas and xarray become arrays.
        "coords": {
            k: np.asarray(v) if hasattr(v, "to_numpy") else v for k, v in posterior.coords.items()
        },
        "trust": {"verdict": trust.verdict, "advice": trust.advice, "evidence": trust.evidence},
        "log_p": posterior.log_p,
        "log_evidence": None if posterior.log_evidence is None else tuple(posterior.log_evidence),
        "marginals": {name: tuple(m) for name, m in posterior.marginals.items()},
        "draws": {name: netcdf_name(name) for name in posterior.draws},
        "model": model or _model(posterior),
    }


def _model(posterior: Fit) -> dict[str, Any]:
    """Arguments, columns, classes and names of observed sites of the model."""
    target = posterior.known_target
    columns = columns_of(target.model)
    sites = target.sites()
    return {
        "observed": [name for name, site in sites.items() if site.kind == "observed"],
        "missing": posterior.missing_values,
        "args": target.args,
        "kwargs": target.kwargs,
        "columns": columns,
        "levels": {c: c.levels for c in columns or () if isinstance(c, TextColumn)},
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
