"""Draws of another program, matched with the sites of a model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from bayeskern.core.formatting import counted
from bayeskern.inference.model.evaluation import constrain, join_chains, unconstrain
from bayeskern.inference.model.target import Target

# Minimum number of draws of a chain; shorter chains have no R-hat.
MIN_LENGTH = 4


class ExternalDraws(NamedTuple):
    """Draws of another program.

    Attributes:
        z: Draws in unconstrained coordinates, (chains, draws, d); draws without an order are a
            single row.
        sites: Latent and deterministic sites at the draws, each (chains, draws, *site).
        ignored: Names of sites that the model does not have, sorted.
    """

    z: np.ndarray
    sites: dict[str, np.ndarray]
    ignored: tuple[str, ...]


def read_draws(target: Target, draws: Mapping[str, Any]) -> ExternalDraws:
    """Match draws with the sites of a model.

    Args:
        target: The model.
        draws: Arrays by site, each (chains, draws, *site), or each (draws, *site).

    Raises:
        TypeError: If `draws` is not a mapping.
        ValueError: If names or shapes do not fit the model, with both lists. If a site has values
            that are not numbers, not finite or outside its support, or if a deterministic site
            differs from its values in the model; the message names the site.
    """
    if not isinstance(draws, Mapping):
        raise TypeError(
            "draws must be a dict of arrays by site, each (chains, draws, *site) or (draws, "
            "*site), such as mcmc.get_samples(group_by_chain=True) of NumPyro; got "
            f"{type(draws).__name__}."
        )
    arrays = {str(name): np.asarray(values) for name, values in draws.items()}
    rows = _rows(target, arrays)
    if rows[-1] < MIN_LENGTH:
        raise ValueError(
            f"draws has {counted(rows[-1], 'draw')} in each chain, and a verdict needs at least "
            f"{MIN_LENGTH} (some hundreds are useful). Pass all draws after the warmup; for a "
            "point estimate, see bk.infer(..., method='map')."
        )
    chains = rows if len(rows) == 2 else (1, *rows)
    latents = {
        s.name: _finite(s.name, arrays[s.name]).reshape(*chains, *s.shape) for s in target.latents
    }
    z = unconstrain(target, join_chains(latents))[0].reshape(*chains, -1)
    _require_support(target, latents, z)
    sites = constrain(target, z)
    for name in sites.keys() & arrays.keys():
        values = arrays[name].reshape(*chains, *arrays[name].shape[len(rows) :])
        _require_equal(name, values, sites[name], name in latents)
    return ExternalDraws(z, sites, tuple(sorted(arrays.keys() - sites.keys())))


def _rows(target: Target, arrays: dict[str, np.ndarray]) -> tuple[int, ...]:
    """Leading axes of the arrays of all latent sites: (chains, draws) or (draws,)."""
    rows = set()
    for latent in target.latents:
        shape = arrays[latent.name].shape if latent.name in arrays else ()
        ndim = len(shape) - len(latent.shape)
        rows.add(shape[:ndim] if ndim in (1, 2) and shape[ndim:] == latent.shape else None)
    first = rows.pop()
    if first is not None and not rows:
        return first
    missing = [s.name for s in target.latents if s.name not in arrays]
    problem = f"no {', '.join(map(repr, missing))}" if missing else "other shapes"
    raise ValueError(
        f"the draws do not fit the model: there is {problem}.\n"
        f"Latent sites of the model: {_shapes({s.name: s.shape for s in target.latents})}.\n"
        f"Draws: {_shapes({name: values.shape for name, values in arrays.items()})}.\n"
        "Each latent site needs an array (chains, draws, *site), or (draws, *site), under its name "
        "in the model: rename the draws, or write the model in the form that was fitted."
    )


def _shapes(shapes: dict[str, tuple[int, ...]]) -> str:
    return ", ".join(f"{name} {shape}" for name, shape in shapes.items()) or "none"


def _finite(name: str, values: np.ndarray) -> np.ndarray:
    """Draws of a site as floats; ValueError if they are not finite numbers."""
    if values.dtype.kind not in "biuf":
        raise ValueError(f"draws of {name!r} have type {values.dtype}: pass numbers.")
    bad = ~np.isfinite(values)
    if bad.any():
        raise ValueError(
            f"draws of {name!r} have {counted(bad.sum(), 'value that is', 'values that are')} NaN "
            f"or infinite, the first at index {_index(bad)}: the run failed there. Leave out its "
            "chain, or fit again."
        )
    return values.astype(float)


def _index(bad: np.ndarray) -> tuple[int, ...]:
    """Index of the first True."""
    return tuple(map(int, np.argwhere(bad)[0]))


def _require_support(target: Target, latents: dict[str, np.ndarray], z: np.ndarray) -> None:
    """Raise ValueError, naming the site, if draws have no unconstrained coordinates."""
    begin = 0
    for latent in target.latents:
        part = z[..., begin : begin + latent.size]
        begin += latent.size
        outside = ~np.all(np.isfinite(part), axis=-1)
        if outside.any():
            _refuse_support(target, latents, latent.name, outside)


def _refuse_support(
    target: Target, latents: dict[str, np.ndarray], name: str, outside: np.ndarray
) -> None:
    chain, draw = _index(outside)
    trace = target.trace_at({site: values[0, 0] for site, values in latents.items()})
    count = counted(outside.sum(), "draw does", "draws do")
    raise ValueError(
        f"draws of {name!r} must lie inside the support of its prior, {trace[name]['fn'].support}; "
        f"{count} not, the first at index {(chain, draw)}: {latents[name][chain, draw].tolist()}. "
        "Check that the model has the prior that was fitted; numbers rounded to the edge of a "
        "support cannot be used either."
    )


def _require_equal(name: str, values: np.ndarray, computed: np.ndarray, latent: bool) -> None:
    """Raise ValueError if draws of a site differ from the values in the model."""
    if values.shape != computed.shape:
        raise ValueError(
            f"the site {name!r} has shape {values.shape} in the draws and {computed.shape} in the "
            "model. If it is another quantity, leave it out of the draws."
        )
    # Draws may be rounded to 32 bits.
    equal = np.isclose(values, computed, rtol=1e-4, atol=1e-2 * np.std(computed), equal_nan=True)
    if equal.all():
        return
    index = _index(~equal)
    problem = f"{values[index]:.6g} at index {index}, where the model has {computed[index]:.6g}"
    if latent:
        raise ValueError(
            f"draws of {name!r} lie outside the support of its prior ({problem}): a simplex must "
            "sum to 1, for example. Check that the model has the prior that was fitted."
        )
    raise ValueError(
        f"the deterministic site {name!r} has other values in the draws ({problem}): they belong "
        "to another model or to other data. If it is another quantity, leave it out of the draws."
    )
