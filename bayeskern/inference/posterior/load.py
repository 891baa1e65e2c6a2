"""Posteriors from files, with their model or without it."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jax
import numpy as np

from bayeskern.inference.estimate import Estimate
from bayeskern.inference.model.target import Target
from bayeskern.inference.model.trace.axes import netcdf_name
from bayeskern.inference.posterior import netcdf
from bayeskern.inference.posterior.json_arrays import NotStored, unpack
from bayeskern.inference.posterior.log_likelihood import without_spread
from bayeskern.inference.posterior.posterior import Posterior
from bayeskern.inference.posterior.summary import summary
from bayeskern.inference.result import Fit
from bayeskern.inference.verdict import Trust
from bayeskern.protocols import NotKeptError, PreparesData, Restorable

# A model whose log density differs by more, relatively or on the whole, is another one.
SAME = 1e-5
# The fields of a Fit that a file keeps. Its `weighted` is that of the Posterior, with sites.
FIT_FIELDS = ("z", "log_q", "trace", "sample_stats", "attempts")


def load(path, model=None) -> Posterior:
    """Read a posterior that `posterior.save(path)` wrote.

    Args:
        path: The name of the file.
        model: The model that was fitted. Everything but predictions works without it.

    Returns:
        The posterior, with its verdict.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If `posterior.save` did not write the file, or `model` is not the one that was
            fitted.
        TypeError: If the model is no model.
    """
    groups, own_group = netcdf.read(Path(path))
    arrays = {name: np.asarray(values) for name, values in own_group.data_vars.items()}
    state = unpack(json.loads(str(arrays.pop("state"))), arrays)
    posterior = groups["posterior"].dataset
    draws = {name: np.asarray(posterior[safe]) for name, safe in state.pop("draws").items()}
    trust, log_evidence = Trust(**state.pop("trust")), state.pop("log_evidence")
    log_p, model_arguments = state.pop("log_p"), state.pop("model")
    target, missing = _target(model, model_arguments)
    if target is not None:
        _require_same(target, draws, model_arguments)
    fit = Fit(assess=lambda _: trust, **{name: state.pop(name) for name in FIT_FIELDS})
    loaded = StoredPosterior(
        draws=draws,
        fit=fit,
        target=target,
        log_evidence=None if log_evidence is None else Estimate(*log_evidence),
        stored=groups,
        model_arguments=model_arguments,
        missing=missing,
        **state,
    )
    # A cached property, which would be computed from the model.
    vars(loaded)["log_p"] = log_p
    return loaded


@dataclass(frozen=True, eq=False, repr=False)
class StoredPosterior(Posterior):
    """A Posterior that was read from a file: only predictions need its model."""

    #: the groups that ArviZ knows, as they were saved
    stored: Any = None
    #: the arguments of the model, the columns it was fitted to, its observed sites
    model_arguments: dict = field(default_factory=dict)
    #: why there is nothing to predict from, if so
    missing: str | None = None

    def require_model(self) -> None:
        if self.missing:
            raise ValueError(self.missing)

    def log_likelihood(self) -> dict[str, np.ndarray]:
        if self.is_point:
            return super().log_likelihood()
        group = self.stored.children.get("log_likelihood", {})
        names = {name: netcdf_name(name) for name in self.model_arguments["observed"]}
        return {
            name: without_spread(group[safe].to_numpy())
            for name, safe in names.items()
            if safe in group
        }

    def observed(self) -> dict[str, np.ndarray]:
        group = self.stored.children.get("observed_data", {})
        return {name: group[name].to_numpy() for name in group}

    def to_arviz(self):
        return self.stored.copy(deep=True)

    def summary(self, **options):
        return summary(self, self.stored["posterior"].to_dataset(), **options)

    def save(self, path) -> None:
        netcdf.save(self, path, self.model_arguments if self.target is None else None)


def _require_same(target: Target, draws: dict, fitted: dict) -> None:
    """Refuse another model than was fitted, as far as its density tells."""
    shapes = {s.name: s.shape for s in target.latents if s.name in draws}
    same = all(np.shape(draws[name])[2:] == shape for name, shape in shapes.items())
    old = fitted.get("density")
    new = netcdf.log_density(target, draws) if same and old is not None else None
    if same and (new is None or np.isclose(new, old, rtol=SAME, atol=SAME, equal_nan=True)):
        return
    raise ValueError(
        "model is not the one that was fitted: its latents have other shapes, or its density "
        "differs at the draws in the file. Give the model, with the same priors and options, that "
        "bk.infer had."
    )


def _target(model, fitted: dict) -> tuple[Target | None, str | None]:
    """The target of the model, or why there is none.

    Raises TypeError or ValueError if the model cannot be the one that was fitted.
    """
    if model is None:
        return None, "predict needs the model: load it with bk.load(path, model=...)."
    named = [*enumerate(fitted["args"]), *fitted["kwargs"].items()]
    for name, value in named:
        missing = _not_stored(value)
        if missing:
            what = f"argument {name + 1}" if isinstance(name, int) else f"argument {name!r}"
            return None, (
                f"{what} of the model was a {missing.kind}, which is not kept in a file, so there "
                "is nothing to predict from. Fit the model to arrays, numbers and strings."
            )
    if not callable(model):
        raise TypeError(f"model must be the one that was fitted, got {type(model).__name__}.")
    try:
        return _target_of(model, fitted)
    except Exception as reason:
        # Whatever a model does with arguments that were meant for another.
        raise ValueError(
            "model is not the one that was fitted: it does not take the arguments in the file "
            f"({type(reason).__name__}: {reason}). Give the model that bk.infer had."
        ) from reason


def _target_of(model, fitted: dict) -> tuple[Target | None, str | None]:
    args, kwargs = fitted["args"], fitted["kwargs"]
    if isinstance(model, Restorable):
        try:
            model, args = model.restore(args, fitted["columns"], fitted.get("classes"))
        except NotKeptError as reason:
            return None, str(reason)
    elif isinstance(model, PreparesData):
        (model, args), kwargs = model.prepare(*args, **kwargs), {}
    return Target.of(model, args, kwargs), None


def _not_stored(value) -> NotStored | None:
    """The first value in a tree that was not kept."""
    leaves = jax.tree.leaves(value, is_leaf=lambda x: isinstance(x, NotStored))
    return next((leaf for leaf in leaves if isinstance(leaf, NotStored)), None)
