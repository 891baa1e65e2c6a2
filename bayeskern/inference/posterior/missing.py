"""Sites at the draws of a fit, with its missing observations; labels of their axes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax
import numpy as np

from bayeskern.core.batching import batch_size
from bayeskern.core.threads import blas_threads_for
from bayeskern.inference.model.evaluation import constrain, join_chains
from bayeskern.inference.model.target import Target
from bayeskern.inference.model.trace.imputed import Gap, gaps_of
from bayeskern.inference.model.trace.sites import ModelSite
from bayeskern.inference.posterior.predictive import at_each
from bayeskern.inference.result import Fit


def sites_at(fit: Fit, z: np.ndarray) -> dict[str, np.ndarray]:
    """Latents, deterministics and missing observations at points z.

    Missing values that were integrated out are drawn given the data at each point. A single point,
    such as a mode, gets their conditional mean.

    Args:
        fit: The fit, with its target and seed.
        z: Points in the coordinates of the fit, (chains, draws, d).

    Returns:
        Each site (chains, draws, *site); the missing values of a site as `<site>_missing`.
    """
    if fit.marginalized is not None:
        with blas_threads_for(z.shape[-1]):
            return fit.marginalized.draws(z)
    target, shape = fit.known_target, z.shape[:2]
    sites, gaps = constrain(target, z), _integrated(target)
    if not gaps:
        return sites
    latents = join_chains({s.name: sites[s.name] for s in target.latents})
    # A key of their own, so that these draws do not repeat the random numbers of the fit.
    key = jax.random.fold_in(jax.random.key(fit.seed or 0), 5)
    keys = jax.random.split(key, math.prod(shape))
    size = sum(gap.missing.value.sum() for gap in gaps)
    function = eqx.Partial(_missing_at, target, math.prod(shape) == 1)
    values = at_each(function, (latents, keys), size, batch_size(size))
    return sites | {gap.name: np.reshape(values[gap.name], (*shape, -1)) for gap in gaps}


def _integrated(target: Target) -> list[Gap]:
    """Missing values that are integrated out."""
    return [gap for gap in gaps_of(target.model) if not gap.latent]


def _missing_at(target: Target, mean: bool, draw: dict, key: jax.Array) -> dict[str, jax.Array]:
    draw_key, key = jax.random.split(key)
    if target.discrete:
        draw = draw | target.draw_discrete(draw, draw_key)
    trace, values = target.trace_at(draw, draw_key), {}
    for i, gap in enumerate(_integrated(target)):
        fn = trace[gap.site]["missing"]
        values[gap.name] = fn.mean if mean else fn.sample(jax.random.fold_in(key, i))
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
