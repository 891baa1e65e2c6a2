"""Posteriors from files, with or without their model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from bayeskern.core.frames import TextColumn
from bayeskern.core.json_arrays import NotStored
from bayeskern.core.netcdf import Stored, read
from bayeskern.inference.estimate import Estimate
from bayeskern.inference.known_marginal import KnownMarginal
from bayeskern.inference.model import forms
from bayeskern.inference.model.imputation import imputed
from bayeskern.inference.model.target import Target
from bayeskern.inference.model.trace.axes import netcdf_name
from bayeskern.inference.posterior import netcdf
from bayeskern.inference.posterior.log_likelihood import without_spread
from bayeskern.inference.posterior.posterior import Posterior
from bayeskern.inference.result import KnownVerdict
from bayeskern.inference.verdict import Trust
from bayeskern.protocols import NotKeptError, PreparesData, Restorable

if TYPE_CHECKING:
    # xarray takes a while to import.
    import xarray as xr


def load(path: str | Path, model: Callable | None = None) -> Posterior:
    """Read a posterior that `posterior.save(path)` wrote.

    Args:
        path: Name of the file.
        model: The model that was fitted. Everything but predictions works without it.

    Returns:
        The posterior, with its verdict.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If `posterior.save` did not write the file, or `model` is not the fitted model.
        TypeError: If the model cannot be called.
    """
    return posterior_in(read(path), model)


def posterior_in(stored: Stored, model: Callable | None = None) -> Posterior:
    """The posterior in the contents of a file. Arguments and errors as in `load`."""
    state = stored.state(netcdf.FORMAT)
    target, missing = _target(model, state["model"])
    if target is not None:
        size = state["z"].shape[-1]
        target = forms.with_size(target, state["method"].rpartition(" ")[2], size)
    return restored(state, stored.groups, target, missing)


def restored(
    state: dict[str, Any], groups: xr.DataTree, target: Target | None, missing: str | None = None
) -> Posterior:
    """The posterior with a state (`netcdf.state_of`) and groups of ArviZ.

    Args:
        state: The state.
        groups: The groups.
        target: The model given the data; None if it is unknown.
        missing: Reason why `target` is None.

    Raises:
        ValueError: If `target` is not the target of the fit.
    """
    state = dict(state)
    posterior = groups["posterior"].dataset
    draws = {name: np.asarray(posterior[safe]) for name, safe in state.pop("draws").items()}
    trust, log_evidence = Trust(**state.pop("trust")), state.pop("log_evidence")
    model_arguments = state.pop("model")
    if target is not None:
        _require_same(target, draws, model_arguments)
    marginals = {name: KnownMarginal(*m) for name, m in state.pop("marginals").items()}
    return StoredPosterior(
        assess=KnownVerdict(trust),
        draws=draws,
        marginals=marginals,
        target=target,
        log_evidence=None if log_evidence is None else Estimate(*log_evidence),
        stored=groups,
        model_arguments=model_arguments,
        missing=missing,
        **state,
    )


@dataclass(frozen=True, eq=False, repr=False)
class StoredPosterior(Posterior):
    """A Posterior that was read from a file: only predictions need its model.

    Attributes:
        stored: Groups of ArviZ as they were saved.
        model_arguments: Arguments, columns and observed sites of the model.
        missing: Reason why predictions are impossible; None if they are possible.
        log_p: As in `Posterior`, from the file and not from the model.
    """

    log_p: np.ndarray | None = None  # pyright: ignore[reportIncompatibleVariableOverride]
    stored: Any = None
    model_arguments: dict = field(default_factory=dict)
    missing: str | None = None

    def require_model(self) -> None:
        if self.missing:
            raise ValueError(self.missing)

    @property
    def missing_values(self) -> dict[str, np.ndarray]:
        return self.model_arguments["missing"]

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

    def to_arviz(self) -> xr.DataTree:
        return self.stored.copy(deep=True)

    def _parameters(self) -> xr.Dataset:
        return self.stored["posterior"].to_dataset()

    def save(self, path: str | Path) -> None:
        model = self.model_arguments if self.target is None else None
        netcdf.save(self, self.to_arviz(), path, model)


def _require_same(target: Target, draws: dict[str, np.ndarray], fitted: dict) -> None:
    """Raise ValueError if the shapes of latents or the density differ from the file."""
    shapes = {s.name: s.shape for s in target.latents if s.name in draws}
    same = all(np.shape(draws[name])[2:] == shape for name, shape in shapes.items())
    old = fitted["density"]
    new = netcdf.log_density(target, draws) if same else None
    if old is not None and new is not None:
        same = np.isclose(new, old, rtol=1e-5, atol=1e-5, equal_nan=True)
    if not same:
        raise ValueError(
            "model is not the fitted model: its latents have other shapes, or its density differs "
            "at the draws in the file. Pass the model that was passed to bk.infer, with the same "
            "priors and options."
        )


def _target(model: Callable | None, fitted: dict) -> tuple[Target | None, str | None]:
    """The target of the model, or the reason why there is none.

    Raises TypeError or ValueError if the model cannot be the fitted model.
    """
    if model is None:
        return None, "predict needs the model: load it with bk.load(path, model=...)."
    named = [*enumerate(fitted["args"]), *fitted["kwargs"].items()]
    for name, value in named:
        for leaf in jax.tree.leaves(value, is_leaf=lambda x: isinstance(x, NotStored)):
            if isinstance(leaf, NotStored):
                label = name + 1 if isinstance(name, int) else repr(name)
                return None, (
                    f"argument {label} of the model was a {leaf.kind}, which is not kept in a "
                    "file, so predictions are impossible. Fit the model to arrays, numbers and "
                    "strings."
                )
    if not callable(model):
        raise TypeError(f"model must be the fitted model, got {type(model).__name__}.")
    args, kwargs = fitted["args"], fitted["kwargs"]
    try:
        if isinstance(model, Restorable):
            levels, columns = fitted["levels"], fitted["columns"]
            if levels:
                columns = tuple(TextColumn.of(c, levels[c]) if c in levels else c for c in columns)
            model, args = model.restore(args, columns, fitted["classes"])
        elif isinstance(model, PreparesData):
            (model, args), kwargs = model.prepare(*args, **kwargs), {}
        if fitted["missing"]:
            model, args, kwargs = imputed(model, args, kwargs)
        return Target.from_model(model, args, kwargs), None
    except NotKeptError as reason:
        return None, str(reason)
    except Exception as reason:
        # A model may raise any error with the arguments of another model.
        raise ValueError(
            "model is not the fitted model: it does not take the arguments in the file "
            f"({type(reason).__name__}: {reason}). Pass the model that was passed to bk.infer."
        ) from reason
