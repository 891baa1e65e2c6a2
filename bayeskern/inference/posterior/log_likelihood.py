"""The log likelihood of every single observation, at every draw."""

from __future__ import annotations

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from numpyro.distributions import MaskedDistribution

from bayeskern.core.batching import batch_size, by_chunk, evenly
from bayeskern.hyperparameters import WRAPPERS
from bayeskern.inference.model.trace.enumeration import NoPointwiseError
from bayeskern.inference.model.trace.sites import trace_at, upstream_sites
from bayeskern.inference.model.trace.validation import is_observed
from bayeskern.prediction.mixture import MOST_DRAWS
from bayeskern.protocols import HasLogLikelihood, HasPointwise

# The relative spread that constant log likelihoods are given.
HAIR = 1e-10


class Pointwise(NamedTuple):
    """The log likelihood of each observation of a site, at each draw.

    values: (chains, draws, *data), or (chains, draws, points) where some are masked out; counted:
    which are not masked out, in the shape of the data, or None if all count.
    """

    values: np.ndarray
    counted: np.ndarray | None


def log_likelihood(posterior) -> dict[str, np.ndarray]:
    """log p(y_i | draw) of every observed site: each (chains, draws, shape of the data)."""
    return {name: density.values for name, density in pointwise(posterior)[0].items()}


def pointwise(posterior) -> tuple[dict[str, Pointwise], np.ndarray]:
    """The pointwise log likelihood of every observed site, and at which draws of each chain."""
    if posterior.is_point:
        raise ValueError(
            "log_likelihood, and LOO with it, is not offered for a point estimate: without a "
            "spread of the parameters it would not be seen what each observation does to them. "
            "Take method='laplace' or 'nuts'."
        )
    target = posterior.target
    chains, count = posterior.shape
    model = target.model
    if isinstance(model, HasLogLikelihood):
        by_site = model.pointwise(posterior.flat, *target.args, **target.kwargs)
        if not isinstance(by_site, dict):
            (name,) = [k for k, site in target.sites().items() if site.kind == "observed"]
            by_site = {name: by_site}
        by_chain = {name: _chains(np.asarray(v), chains) for name, v in by_site.items()}
        return {name: Pointwise(v, None) for name, v in by_chain.items()}, np.arange(count)
    fixed = upstream_sites(target).fixed
    # A model that was shown its data before may have none now.
    observed = {
        k: site
        for k, site in target.sites().items()
        if site.kind == "observed" and k not in fixed and 0 not in site.shape
    }
    if not observed:
        return {}, np.arange(count)
    costly = any(site.conditional for site in observed.values())
    rows = evenly(count, MOST_DRAWS // chains if costly else count)
    draws = {s.name: _joined(posterior.draws[s.name][:, rows]) for s in target.latents}
    masks = masks_of(posterior)
    size = sum(int(np.prod(site.shape)) for site in observed.values())
    batch = None if costly else batch_size(size)
    values, same = by_chunk(
        lambda items: _densities(target, *items, masks, batch),
        (draws, np.zeros(chains * len(rows))),
        size,
    )
    by_site = {}
    for name in observed:
        mask = masks[name]
        if not np.all(same[name]):
            raise ValueError(
                f"the mask of the observed site {name!r} changes from draw to draw, so its "
                "observations have no log likelihood of their own. Write the choice into the "
                "likelihood."
            )
        if mask is None or mask.all():
            by_site[name] = Pointwise(_chains(values[name], chains), None)
        elif mask.any():
            by_site[name] = Pointwise(_chains(values[name][:, mask], chains), mask)
    return by_site, rows


def masks_of(posterior) -> dict[str, np.ndarray | None]:
    """Where each observed site is not masked out, in the shape of its data; None: everywhere."""
    draw = {s.name: posterior.draws[s.name][0, 0] for s in posterior.target.latents}
    return jax.device_get(_masks(posterior.target, draw))


def density(fn, value):
    """The log density of each value of a site, and where it is not masked out (None: everywhere).

    Axes that only `.to_event` declared are taken apart; a true multivariate has one density an
    event, unless it offers `pointwise(value)` itself.
    """
    masks, outer = [], fn
    while isinstance(fn, WRAPPERS):
        if isinstance(fn, MaskedDistribution):
            masks.append((jnp.asarray(fn._mask), fn.event_dim))
        fn = fn.base_dist
    if isinstance(fn, HasPointwise):
        log_probs, counted = fn.pointwise(value)
        event_dim = 0
    else:
        log_probs, counted, event_dim = fn.log_prob(value), None, fn.event_dim
    # As many as there are values or distributions, whichever are more.
    shape = np.broadcast_shapes(log_probs.shape, outer.shape()[: len(outer.shape()) - event_dim])
    for mask, axes in masks:
        mask = mask.reshape(mask.shape + (1,) * (axes - event_dim))
        counted = mask if counted is None else counted & mask
    counted = None if counted is None else jnp.broadcast_to(counted, shape)
    return jnp.broadcast_to(log_probs, shape), counted


def _by_site(target, draw):
    trace = trace_at(target.model, draw, jax.random.key(0), target.args, target.kwargs)
    return {
        name: density(site["fn"], site["value"])
        for name, site in trace.items()
        if is_observed(site)
    }


def _summed_out(target, draw):
    """The same with discrete sites summed out, which makes an event one observation."""
    by_site = _by_site(target, draw)
    log_probs = target.pointwise(draw, list(by_site))
    for name, (_, counted) in by_site.items():
        if counted is not None and counted.ndim > log_probs[name].ndim:
            raise NoPointwiseError(
                f"the site {name!r} has events of which parts are masked out: such an observation "
                "has no log likelihood of its own where discrete latents are summed out."
            )
    return {name: (log_probs[name], counted) for name, (_, counted) in by_site.items()}


@eqx.filter_jit
def _masks(target, draw):
    return {name: counted for name, (_, counted) in _by_site(target, draw).items()}


@eqx.filter_jit
def _densities(target, draws, ones, masks, batch):
    def one(item):
        densities = (_summed_out if target.discrete else _by_site)(target, item[0])
        same = {
            name: jnp.asarray(True) if counted is None else jnp.all(counted == masks[name])
            for name, (_, counted) in densities.items()
        }
        return {name: log_probs for name, (log_probs, _) in densities.items()}, same

    return jax.lax.map(one, (draws, ones), batch_size=batch)


def _joined(values):
    return values.reshape(-1, *values.shape[2:])


def _chains(values, chains: int):
    return values.reshape(chains, -1, *values.shape[1:])


# -- values that ArviZ would refuse ----------------------------------------------------------------


def spread_constants(values):
    """The log likelihood with a hair's breadth of spread for observations that have none.

    ArviZ's LOO refuses values that are all equal, as they are where an observation tells nothing
    of the latents; this much changes none of its digits. values: (chains, draws, ...).
    """
    constant, first = _constant(values, HAIR)
    chains, draws, *shape = values.shape
    ramp = np.linspace(0.0, HAIR, chains * draws).reshape(chains, draws, *[1] * len(shape))
    return np.where(constant, first + _scale(first) * ramp, values)


def without_spread(values):
    """The inverse of `spread_constants`."""
    constant, first = _constant(values, 2.0 * HAIR)
    return np.where(constant, first, values)


def _constant(values, width):
    first = values[:1, :1]
    # Infinite values count as not constant, since they differ by NaN.
    with np.errstate(invalid="ignore"):
        return np.ptp(values, axis=(0, 1), keepdims=True) <= width * _scale(first), first


def _scale(first):
    return np.maximum(1.0, np.abs(first))
