"""Missing observations: the sites that have them, and how each is imputed.

Values are assumed to be missing at random: whether a value is missing depends on observed values
only, so that the mechanism needs no model (Rubin 1976, "Inference and missing data", Biometrika 63,
581-592).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from bayeskern.core.formatting import counted
from bayeskern.hyperparameters import innermost
from bayeskern.inference.model.checks.bad_data import kind_of
from bayeskern.inference.model.target import Target
from bayeskern.inference.model.trace.arguments import StaticArray
from bayeskern.inference.model.trace.enumeration import is_step
from bayeskern.inference.model.trace.imputed import Gap, Imputed
from bayeskern.inference.model.trace.missing_values import CONDITIONABLE, separate
from bayeskern.inference.model.trace.validation import is_observed
from bayeskern.inference.model.upstream import used_values
from bayeskern.protocols import (
    ChoosesForm,
    ConditionsOnData,
    HasClosedForm,
    HasLogLikelihood,
    HasMarginal,
    HasPredictive,
    PreparesData,
)

if TYPE_CHECKING:
    from numpyro.distributions import Distribution

# Protocols of models with computations of their own, which a NumPyro handler would not reach.
OWN_COMPUTATIONS = (
    PreparesData, HasMarginal, HasClosedForm, HasPredictive, HasLogLikelihood, ChoosesForm,
)  # fmt: skip
# Negative numbers that often stand for missing values.
SENTINELS = (-99, -999, -9999, -99999)


def imputed(model: Callable, args: tuple, kwargs: dict) -> tuple[Callable, tuple, dict]:
    """Impute missing observations: make them latents, or integrate them out.

    NaN, None and masked values of observed sites are missing.

    Args:
        model: A NumPyro model.
        args: Its positional arguments.
        kwargs: Its named arguments.

    Returns:
        The model, unchanged if no value is missing; arguments with NaN for missing values.

    Raises:
        ValueError: If the missing values of a site cannot be imputed; the message names the site.
    """
    if isinstance(model, OWN_COMPUTATIONS):
        raise ValueError(
            "missing='impute' is for models that are functions of NumPyro. A "
            f"{type(model).__name__} takes the rows without missing values, which give the same "
            "posterior: seen = ~np.isnan(y); posterior = infer(model, X[seen], y[seen]). "
            "posterior.predict(X[~seen]) predicts the other rows."
        )
    args, kwargs = jax.tree.map(_with_nan, (args, kwargs), is_leaf=_may_hold_none)
    target = Target.from_model(model, args, kwargs)
    values = target.observed({s.name: np.zeros(s.shape) for s in target.latents})
    missing = {k: np.asarray(np.isnan(np.asarray(v, float))) for k, v in values.items()}
    gaps = {name: mask for name, mask in missing.items() if mask.any()}
    if not gaps:
        for name, site_values in values.items():
            _refuse_sentinels(name, site_values)
        return model, args, kwargs
    if all(mask.all() for mask in missing.values()):
        raise ValueError(
            f"all values of {', '.join(map(repr, missing))} are missing, so that there are no data."
        )
    if target.subsampled:
        raise ValueError(
            "missing='impute' needs all rows at once: leave subsample_size out of the plates."
        )
    used = used_values(target)
    sites = _traced(target)
    plan = tuple(_gap(name, mask, sites[name], name in used, target) for name, mask in gaps.items())
    return Imputed(model, plan), args, kwargs


def _gap(name: str, missing: np.ndarray, site: dict, used: bool, target: Target) -> Gap:
    """Missing values of a site; ValueError, naming it, if they cannot be imputed."""
    fn: Distribution = site["fn"]
    core, _, _ = separate(fn, missing.shape)
    single, kind = innermost(core), kind_of(core)
    if missing.ndim and missing.all():
        raise ValueError(
            f"all values of {name!r} are missing: give it no obs=, to make it a latent."
        )
    if is_step(site):
        raise ValueError(
            f"the missing values of {name!r} are in a scan, and steps of a scan cannot differ in "
            "their latents. Write the steps as a loop: for t in range(n): previous = "
            f"numpyro.sample(f'{name}_{{t}}', ..., obs=y[t])."
        )
    if missing.shape != np.broadcast_shapes(missing.shape, fn.shape()):
        raise ValueError(
            f"one missing value of {name!r} stands for {fn.shape()} values: give it their shape."
        )
    if isinstance(single, ConditionsOnData):
        raise ValueError(
            f"{name!r} is a {kind}, which leaves missing values out itself: pass "
            "mask=~jnp.isnan(y) to it, and obs=jnp.nan_to_num(y). posterior.predict at the same "
            "inputs predicts them."
        )
    event_axes = tuple(range(-core.event_dim, 0))
    partly = missing & ~missing.all(axis=event_axes, keepdims=True)
    if partly.any() and not isinstance(single, CONDITIONABLE):
        raise ValueError(
            f"{name!r} has events of {kind} that are missing in part, and only those of a "
            "MultivariateNormal can be conditioned on the other part. Leave these events out, or "
            "make all of their values NaN."
        )
    if used:
        _require_latent(name, core, kind, site, target)
    return Gap(name, StaticArray(missing), used)


def _require_latent(name: str, core: Distribution, kind: str, site: dict, target: Target) -> None:
    """Raise ValueError if the missing values of a site cannot be latents."""
    reason = ""
    if core.support.is_discrete:  # pyright: ignore[reportOptionalMemberAccess]
        reason = f"{kind} is discrete"
    elif core.event_dim and not isinstance(innermost(core), CONDITIONABLE):
        reason = f"{kind} is multivariate"
    elif site.get("scale") is not None:
        reason = "its density is scaled"
    elif target.discrete:
        reason = f"{', '.join(map(repr, target.discrete))} is summed out"
    if reason:
        raise ValueError(
            f"the missing values of {name!r} must be a latent, because other sites depend on them, "
            f"but cannot be one: {reason}. Leave these rows out."
        )


def _traced(target: Target) -> dict[str, dict]:
    """Observed sites of an abstract trace, which has shapes but no values."""
    sites: dict[str, dict] = {}

    def run() -> None:
        trace = target.trace_at({s.name: jnp.zeros(s.shape) for s in target.latents})
        sites.update({name: site for name, site in trace.items() if is_observed(site)})

    jax.eval_shape(run)
    return sites


def _may_hold_none(x: Any) -> bool:
    return hasattr(x, "to_numpy") or isinstance(x, np.ndarray)


def _with_nan(x: Any) -> Any:
    """Replace None, pandas.NA and masked values among numbers by NaN.

    Other objects are returned unchanged.
    """
    if isinstance(x, np.ma.MaskedArray):
        return np.where(np.ma.getmaskarray(x), np.nan, np.ma.getdata(x))
    values = np.asarray(x.to_numpy()) if hasattr(x, "to_numpy") else x
    if not isinstance(values, np.ndarray) or values.dtype != object:
        return x
    # pandas takes a while to import.
    import pandas as pd

    try:
        return np.where(pd.isna(values), np.nan, values).astype(float)
    except (TypeError, ValueError):
        return x


def _refuse_sentinels(name: str, values: np.ndarray) -> None:
    codes = [code for code in SENTINELS if np.any(values == code)]
    if codes:
        raise ValueError(
            f"{name!r} has no NaN, but {counted(int(np.sum(values == codes[0])), 'value')} of "
            f"{codes[0]}, which often stands for a missing one. Pass np.where(y == {codes[0]}, "
            "np.nan, y), or leave missing='impute' out."
        )
