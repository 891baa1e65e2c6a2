"""Posteriors in files: netCDF that ArviZ reads, with a group of our own for the rest."""

from __future__ import annotations

import collections
import json
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from bayeskern.core.files import atomic_write, require_file
from bayeskern.inference.model import sites
from bayeskern.inference.model.target import Target
from bayeskern.inference.posterior import arviz
from bayeskern.inference.posterior.posterior import Posterior
from bayeskern.inference.result import Estimate
from bayeskern.inference.verdict import Trust

GROUP, FORMAT, VERSION = "bayeskern", "bayeskern posterior", 2
# Kept as they are; everything else that a Posterior holds follows from the model.
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

# A model whose log density differs by more, relatively or on the whole, is another one.
SAME = 1e-5


@dataclass(frozen=True, eq=False, repr=False)
class StoredPosterior(Posterior):
    """A Posterior that was read from a file: all but `predict` works without its model."""

    #: the groups that ArviZ knows, as they were saved
    stored: Any = None
    #: the arguments of the model, the columns it was fitted to, its observed sites
    fitted: dict = field(default_factory=dict)
    #: why there is nothing to predict from, if so
    missing: str | None = None

    def predict(self, *new_args, seed: int = 0, **kwargs):
        if self.missing:
            raise ValueError(self.missing)
        return super().predict(*new_args, seed=seed, **kwargs)

    def log_likelihood(self) -> dict[str, np.ndarray]:
        if self.is_point:
            return super().log_likelihood()
        kept = self.stored.children.get("log_likelihood", {})
        names = {name: _safe(name) for name in self.fitted["observed"]}
        return {
            name: arviz.without_spread(kept[safe].to_numpy())
            for name, safe in names.items()
            if safe in kept
        }

    def observed(self) -> dict[str, np.ndarray]:
        kept = self.stored.children.get("observed_data", {})
        return {name: kept[name].to_numpy() for name in kept}

    def to_arviz(self):
        return self.stored.copy(deep=True)

    def summary(self, **options):
        return arviz.summary(self, self.stored["posterior"].to_dataset(), **options)

    def save(self, path) -> None:
        save(self, path)


def save(posterior: Posterior, path) -> None:
    """Write a posterior to a netCDF file, whole or not at all; nothing is pickled.

    Raises OSError, naming it, if it is a folder or cannot be written to.
    """
    import xarray as xr

    path = require_file(path, "posterior.nc")
    arrays: dict[str, np.ndarray] = {}
    groups = posterior.to_arviz()
    state = {name: getattr(posterior, name) for name in FIELDS}
    trust = posterior.trust
    state |= {
        "coords": {k: _plain(v) for k, v in posterior.coords.items()},
        "trust": {"verdict": trust.verdict, "advice": trust.advice, "evidence": trust.evidence},
        "log_p": posterior.log_p,
        "log_evidence": None if posterior.log_evidence is None else tuple(posterior.log_evidence),
        "draws": {name: _safe(name) for name in posterior.draws},
        "model": _model(posterior),
    }
    text = json.dumps(pack(state, arrays), allow_nan=False)
    own = {name: ([f"{name}_{i}" for i in range(a.ndim)], a) for name, a in arrays.items()}
    # Not an attribute: those have room for 64 kB.
    own["state"] = ([], text)
    groups[GROUP] = xr.DataTree(xr.Dataset(own, attrs={"format": FORMAT, "version": VERSION}))
    with atomic_write(path) as temporary:
        groups.to_netcdf(temporary, engine="h5netcdf")


def load(path, model=None) -> Posterior:
    """Read a posterior that `posterior.save(path)` wrote.

    Everything but `predict` works without the model. model: the one that was fitted, for
    `predict`. Raises FileNotFoundError if there is no file, ValueError if it is not one of ours or
    the model is another than was fitted.
    """
    groups, own = _read(Path(path))
    arrays = {name: np.asarray(values) for name, values in own.data_vars.items()}
    state = unpack(json.loads(str(arrays.pop("state"))), arrays)
    posterior = groups["posterior"].dataset
    draws = {name: np.asarray(posterior[safe]) for name, safe in state.pop("draws").items()}
    trust, log_evidence = Trust(**state.pop("trust")), state.pop("log_evidence")
    log_p, fitted = state.pop("log_p"), state.pop("model")
    target, missing = _target(model, fitted)
    if target is not None:
        _require_same(target, draws, fitted)
    loaded = StoredPosterior(
        draws=draws,
        judge=lambda _: trust,
        target=target,
        log_evidence=None if log_evidence is None else Estimate(*log_evidence),
        stored=groups,
        fitted=fitted,
        missing=missing,
        **state,
    )
    # What would be worked out from the model.
    vars(loaded)["log_p"] = log_p
    return loaded


def _read(path: Path):
    import xarray as xr

    if not path.exists():
        raise FileNotFoundError(f"there is no file {path}.")
    try:
        with xr.open_datatree(path, engine="h5netcdf") as file:
            groups = file.load()
    except (OSError, ValueError, KeyError) as error:
        raise ValueError(f"{path} is no netCDF file that posterior.save wrote: {error}") from None
    own = groups[GROUP].dataset if GROUP in groups.children else None
    if own is None or own.attrs.get("format") != FORMAT:
        raise ValueError(
            f"{path} was not written by posterior.save, so it has no posterior to load. "
            "xarray.open_datatree reads the files of ArviZ."
        )
    if own.attrs["version"] > VERSION:
        raise ValueError(f"{path} was written by a newer bayeskern than this one; update it.")
    return groups.filter(lambda node: node.name != GROUP), own


# -- the model's arguments -------------------------------------------------------------------------


def _model(posterior) -> dict:
    """What is needed beside the model: its arguments, columns, classes, the names it observes."""
    target = posterior.target
    if target is None:
        return posterior.fitted
    found = sites.look(target)
    return {
        "observed": [name for name, site in found.items() if site.kind == "observed"],
        "args": target.args,
        "kwargs": target.kwargs,
        "columns": getattr(target.model, "columns", None),
        "classes": getattr(target.model, "classes", None),
        "density": _density(target, posterior.draws),
    }


def _density(target: Target, draws: dict) -> float | None:
    """The log density at the first draw; None where the draws do not hold all latents, or none."""
    if not target.latents or any(s.name not in draws for s in target.latents):
        return None
    return float(_density_at(target, {s.name: draws[s.name][0, 0] for s in target.latents}))


@eqx.filter_jit
def _density_at(target, draw):
    return target.log_density(target.unconstrain(draw)[0], jacobian=False)


def _require_same(target: Target, draws: dict, fitted: dict) -> None:
    """Refuse another model than was fitted, as far as its density tells."""
    shapes = {s.name: s.shape for s in target.latents if s.name in draws}
    same = all(np.shape(draws[name])[2:] == shape for name, shape in shapes.items())
    was = fitted.get("density")
    now = _density(target, draws) if same and was is not None else None
    if same and (now is None or np.isclose(now, was, rtol=SAME, atol=SAME, equal_nan=True)):
        return
    raise ValueError(
        "model is not the one that was fitted: its latents have other shapes, or its density "
        "differs at the draws in the file. Give the model, with the same priors and options, that "
        "bk.infer had."
    )


def _target(model, fitted: dict) -> tuple[Target | None, str | None]:
    """The target for a model that was given, or why there is none."""
    if model is None:
        return None, "predict needs the model: load it with bk.load(path, model=...)."
    named = [*enumerate(fitted["args"]), *fitted["kwargs"].items()]
    for name, value in named:
        lost = _lost(value)
        if lost:
            what = f"argument {name + 1}" if isinstance(name, int) else f"argument {name!r}"
            return None, (
                f"{what} of the model was a {lost.kind}, which is not kept in a file, so there is "
                "nothing to predict from. Fit the model to arrays, numbers and strings."
            )
    if not callable(model):
        raise TypeError(f"model must be the one that was fitted, got {type(model).__name__}.")
    try:
        return _made(model, fitted)
    except Exception as reason:
        # Whatever a model does with arguments that were meant for another.
        raise ValueError(
            "model is not the one that was fitted: it does not take the arguments in the file "
            f"({type(reason).__name__}: {reason}). Give the model that bk.infer had."
        ) from reason


def _made(model, fitted: dict) -> tuple[Target | None, str | None]:
    args, kwargs = fitted["args"], fitted["kwargs"]
    if hasattr(model, "restore"):
        try:
            model, args = model.restore(args, fitted["columns"], fitted.get("classes"))
        except ValueError as reason:
            return None, str(reason)
    elif hasattr(model, "resolve"):
        model = model.resolve(fitted["columns"])
    elif hasattr(model, "prepare"):
        (model, args), kwargs = model.prepare(*args, **kwargs), {}
    return Target.of(model, args, kwargs), None


def _plain(labels):
    """Labels as they are, but those of pandas and xarray as an array."""
    return np.asarray(labels) if hasattr(labels, "to_numpy") else labels


def _safe(name: str) -> str:
    """A site's name in the groups that ArviZ knows."""
    return name.replace("/", ".")


def _lost(value) -> Lost | None:
    """The first value in a tree that was not kept."""
    leaves = jax.tree.leaves(value, is_leaf=lambda x: isinstance(x, Lost))
    return next((leaf for leaf in leaves if isinstance(leaf, Lost)), None)


# -- values as JSON, with arrays beside it ---------------------------------------------------------


class Lost(NamedTuple):
    """Stands for a value that a file does not keep."""

    kind: str


def pack(value, arrays: dict):
    """A value as JSON, exactly; arrays go to `arrays` and are named in their place.

    Everything that JSON lacks is an object with one key that tells its kind.
    """
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int | np.integer | np.bool_) and not isinstance(value, bool):
        return value.item() if isinstance(value, np.generic) else value
    if isinstance(value, float | np.floating):
        return float(value) if math.isfinite(value) else {"float": str(float(value))}
    if isinstance(value, dict):
        return {"dict": [[pack(k, arrays), pack(v, arrays)] for k, v in value.items()]}
    if isinstance(value, list):
        return [pack(v, arrays) for v in value]
    if isinstance(value, Lost):
        return {"lost": value.kind}
    if isinstance(value, tuple):
        items = [pack(v, arrays) for v in value]
        if hasattr(value, "_fields"):
            return {"named": [type(value).__name__, list(value._fields), items]}
        return {"tuple": items}
    if isinstance(value, np.ndarray | jax.Array):
        return _pack_array(value, arrays)
    return {"lost": type(value).__name__}


def _pack_array(value, arrays: dict):
    if not isinstance(value.dtype, np.dtype) or value.dtype.kind == "O":
        return {"lost": f"{type(value).__name__} of {value.dtype}"}
    array, name = np.asarray(value), f"array{len(arrays)}"
    plain = array.dtype.kind in "iuf" and array.dtype.itemsize in (4, 8)
    # netCDF has no place for the others, but for their bytes.
    arrays[name] = array if plain else np.frombuffer(array.tobytes(), np.uint8)
    kind = "jax" if isinstance(value, jax.Array) else "numpy"
    return {"array": [name, array.dtype.str, list(array.shape), kind]}


def unpack(value, arrays: dict):
    """The inverse of `pack`."""
    if isinstance(value, list):
        return [unpack(v, arrays) for v in value]
    if not isinstance(value, dict):
        return value
    ((kind, inside),) = value.items()
    return _UNPACK[kind](inside, arrays)


def _unpack_named(inside, arrays):
    name, fields, items = inside
    return collections.namedtuple(name, fields)(*(unpack(v, arrays) for v in items))


def _unpack_array(inside, arrays):
    name, dtype, shape, kind = inside
    stored, dtype = arrays[name], np.dtype(dtype)
    array = stored if stored.dtype == dtype else np.frombuffer(stored.tobytes(), dtype)
    array = array.reshape(shape).copy()
    return jnp.asarray(array) if kind == "jax" else array


_UNPACK = {
    "float": lambda inside, arrays: float(inside),
    "dict": lambda inside, arrays: {unpack(k, arrays): unpack(v, arrays) for k, v in inside},
    "tuple": lambda inside, arrays: tuple(unpack(v, arrays) for v in inside),
    "named": _unpack_named,
    "array": _unpack_array,
    "lost": lambda inside, arrays: Lost(inside),
}
