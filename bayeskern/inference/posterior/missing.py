"""Draws of missing observations that were integrated out; labels of their axes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax
import numpy as np

from bayeskern.core.batching import batch_size
from bayeskern.inference.model.evaluation import join_chains
from bayeskern.inference.model.target import Target
from bayeskern.inference.model.trace.imputed import Gap, gaps_of
from bayeskern.inference.model.trace.sites import ModelSite
from bayeskern.inference.posterior.predictive import at_each


def integrated_gaps(target: Target | None) -> dict[str, Gap]:
    """Missing values that are integrated out, by name in draws."""
    gaps = gaps_of(None if target is None else target.model)
    return {gap.name: gap for gap in gaps if not gap.latent}


def missing_draws(
    target: Target, draws: Mapping[str, np.ndarray], shape: tuple[int, int], seed: int
) -> dict[str, np.ndarray]:
    """Missing values that were integrated out, drawn given the data at each draw.

    Args:
        target: The model.
        draws: Draws of its latents, each (chains, draws, *site). A single draw, such as a mode,
            gets the conditional mean of the missing values.
        shape: Numbers of chains and of draws.
        seed: Seed of the fit.

    Returns:
        Draws by name, `<site>_missing`, each (chains, draws, number of missing values).
    """
    gaps = integrated_gaps(target)
    if not gaps:
        return {}
    flat = join_chains({s.name: draws[s.name] for s in target.latents})
    # A key of their own, so that these draws do not repeat the random numbers of the fit.
    keys = jax.random.split(jax.random.fold_in(jax.random.key(seed), 5), math.prod(shape))
    size = sum(gap.missing.value.sum() for gap in gaps.values())
    function = eqx.Partial(_missing_at, target, math.prod(shape) == 1)
    values = at_each(function, (flat, keys), size, batch_size(size))
    return {name: np.reshape(values[name], (*shape, -1)) for name in gaps}


def _missing_at(target: Target, mean: bool, draw: dict, key: jax.Array) -> dict[str, jax.Array]:
    draw_key, key = jax.random.split(key)
    if target.discrete:
        draw = draw | target.draw_discrete(draw, draw_key)
    trace, values = target.trace_at(draw, draw_key), {}
    for i, (name, gap) in enumerate(integrated_gaps(target).items()):
        fn = trace[gap.site]["missing"]
        values[name] = fn.mean if mean else fn.sample(jax.random.fold_in(key, i))
    return values


def axes_of_missing(
    target: Target, coords: Mapping[str, Any]
) -> tuple[dict[str, np.ndarray], dict[str, list[str]]]:
    """Names and labels of the axes of missing values: the labels of their rows.

    Args:
        target: The model.
        coords: Labels along named axes.

    Returns:
        coords and dims, in ArviZ's form.
    """
    gaps, labels, dims = gaps_of(target.model), {}, {}
    sites = target.sites() if gaps else {}
    for gap in gaps:
        axis = f"{gap.name}_row"
        labels[axis], dims[gap.name] = _labels(sites[gap.site], gap.missing.value, coords), [axis]
    return labels, dims


def _labels(site: ModelSite, missing: np.ndarray, coords: Mapping[str, Any]) -> np.ndarray:
    """Label of each missing value; its indices along axes without labels."""
    axes = [
        np.asarray(coords[name]) if name is not None and name in coords else np.arange(size)
        for name, size in zip(site.names, site.shape, strict=True)
    ]
    places = np.argwhere(missing)
    if len(axes) == 1:
        return axes[0][places[:, 0]]
    indices = [zip(axes, place, strict=True) for place in places]
    return np.array([", ".join(str(axis[i]) for axis, i in index) for index in indices])
