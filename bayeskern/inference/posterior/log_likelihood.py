"""Log likelihood of each observation at each draw."""

from __future__ import annotations

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from numpyro.distributions import Distribution, MaskedDistribution

from bayeskern.core.batching import batch_size, evenly
from bayeskern.hyperparameters import WRAPPERS
from bayeskern.inference.model.evaluation import join_chains
from bayeskern.inference.model.target import Target
from bayeskern.inference.model.trace.enumeration import NoPointwiseError
from bayeskern.inference.model.trace.validation import is_factor, is_observed
from bayeskern.inference.model.upstream import upstream_sites
from bayeskern.inference.posterior.predictive import at_each
from bayeskern.inference.result import Fit
from bayeskern.prediction.mixture import MAX_MIXTURE_DRAWS
from bayeskern.protocols import HasLogLikelihood, HasPointwise

# Log densities of the values of a site, and True for unmasked values (None if all are unmasked).
Density = tuple[jax.Array, jax.Array | None]
# Relative spread that constant log likelihoods get.
MIN_RELATIVE_SPREAD = 1e-10


class Pointwise(NamedTuple):
    """Log likelihood of each observation of a site, at each draw.

    Attributes:
        values: (chains, draws, *data); if some observations are masked, (chains, draws, unmasked).
        counted: True for unmasked observations, in the shape of the data; None if all are unmasked.
    """

    values: np.ndarray
    counted: np.ndarray | None


def log_likelihood(posterior: Fit) -> dict[str, np.ndarray]:
    """log p(y_i | draw) of every observed site: each (chains, draws, *data)."""
    return {name: density.values for name, density in pointwise(posterior)[0].items()}


def pointwise(posterior: Fit) -> tuple[dict[str, Pointwise], np.ndarray]:
    """Pointwise log likelihood of every observed site, and indices of the draws of each chain."""
    if posterior.is_point:
        raise ValueError(
            "log_likelihood and LOO need draws of the parameters, and a point estimate has none. "
            "Take method='laplace' or 'nuts'."
        )
    target = posterior.known_target
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
    # Sites without rows, and fixed parameters, are not observations.
    observed = {
        k: site
        for k, site in target.sites().items()
        if site.kind == "observed" and k not in fixed and 0 not in site.shape
    }
    if not observed:
        return {}, np.arange(count)
    conditional = any(site.conditional for site in observed.values())
    rows = evenly(count, MAX_MIXTURE_DRAWS // chains if conditional else count)
    draws = join_chains({s.name: posterior.draws[s.name][:, rows] for s in target.latents})
    masks = masks_of(posterior)
    size = sum(int(np.prod(site.shape)) for site in observed.values())
    # The zeros tell the number of draws if the model has no latents.
    items = (draws, np.zeros(chains * len(rows)))
    batch = None if conditional else batch_size(size)
    values, same = at_each(eqx.Partial(_densities, target, masks), items, size, batch)
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


def masks_of(posterior: Fit) -> dict[str, np.ndarray | None]:
    """Masks of the observed sites, True for unmasked values, in the shape of the data.

    A site without a mask has None.
    """
    return jax.device_get(_masks(posterior.known_target, _first_draw(posterior)))


def powers_of(posterior: Fit) -> dict[str, np.ndarray]:
    """Powers of the likelihoods of unmasked observations under `numpyro.handlers.scale`.

    Each has the shape of the log likelihoods of its site at one draw; sites without a scale are
    left out.
    """
    target, draw = posterior.known_target, _first_draw(posterior)
    if isinstance(target.model, HasLogLikelihood) or not _shapes(target, draw)["scales"]:
        return {}
    masks, powers = masks_of(posterior), jax.device_get(_powers(target, draw))
    for name, power in powers.items():
        mask = masks[name]
        powers[name] = power if mask is None or mask.all() else power[mask]
    return powers


def factors_of(posterior: Fit) -> list[str]:
    """Names of the `numpyro.factor` sites of the model, which are no observations."""
    target = posterior.known_target
    if isinstance(target.model, HasLogLikelihood):
        return []
    return list(_shapes(target, _first_draw(posterior))["factors"])


def density(fn: Distribution, value: jax.Array) -> Density:
    """Log density of each value of a site, and True for unmasked values.

    Along axes declared only by `.to_event`, values are separate observations. A multivariate
    distribution has one density per event, unless it offers `pointwise(value)`.
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
        log_probs, counted, event_dim = jnp.asarray(fn.log_prob(value)), None, fn.event_dim
    # There may be more distributions than values, or more values than distributions.
    shape = np.broadcast_shapes(log_probs.shape, outer.shape()[: len(outer.shape()) - event_dim])
    for mask, axes in masks:
        mask = mask.reshape(mask.shape + (1,) * (axes - event_dim))
        counted = mask if counted is None else counted & mask
    counted = None if counted is None else jnp.broadcast_to(counted, shape)
    return jnp.broadcast_to(log_probs, shape), counted


def site_densities(target: Target, draw: dict) -> dict[str, Density]:
    """Log density of each observation of every observed site at one draw, and its mask.

    Discrete latents are summed out. It can be traced by JAX.
    """
    return (_summed_out if target.discrete else _by_site)(target, draw)


def _by_site(target: Target, draw: dict) -> dict[str, Density]:
    sites = {name: site for name, site in target.trace_at(draw).items() if is_observed(site)}
    return {name: density(site["fn"], site["value"]) for name, site in sites.items()}


def _summed_out(target: Target, draw: dict) -> dict[str, Density]:
    """Densities with discrete sites summed out; each event is one observation."""
    by_site = _by_site(target, draw)
    log_probs = target.pointwise(draw, list(by_site))
    for name, (_, counted) in by_site.items():
        if counted is not None and counted.ndim > log_probs[name].ndim:
            raise NoPointwiseError(
                f"the site {name!r} has partly masked events: such an observation has no log "
                "likelihood of its own if discrete latents are summed out."
            )
    return {name: (log_probs[name], counted) for name, (_, counted) in by_site.items()}


@eqx.filter_jit
def _masks(target: Target, draw: dict) -> dict[str, jax.Array | None]:
    return {name: counted for name, (_, counted) in _by_site(target, draw).items()}


def _first_draw(posterior: Fit) -> dict[str, np.ndarray]:
    return {s.name: posterior.draws[s.name][0, 0] for s in posterior.known_target.latents}


def _shapes(target: Target, draw: dict) -> dict[str, dict]:
    """Shapes of `numpyro.factor` sites, and of the scales of observed sites, without compiling."""
    return eqx.filter_eval_shape(_factors_and_scales, target, draw)


def _factors_and_scales(target: Target, draw: dict) -> dict[str, dict]:
    sites = {k: s for k, s in target.trace_at(draw).items() if s["type"] == "sample"}
    return {
        "factors": {name: site["value"] for name, site in sites.items() if is_factor(site)},
        "scales": {
            name: jnp.asarray(site["scale"])
            for name, site in sites.items()
            if is_observed(site) and site["scale"] is not None
        },
    }


@eqx.filter_jit
def _powers(target: Target, draw: dict) -> dict[str, jax.Array]:
    trace, powers = target.trace_at(draw), {}
    for name, (log_probs, _) in site_densities(target, draw).items():
        site = trace[name]
        if site["scale"] is None:
            continue
        power = jnp.asarray(site["scale"])
        # Values along axes of an event share the power of the event.
        events = log_probs.ndim - (jnp.ndim(site["value"]) - site["fn"].event_dim)
        power = power.reshape(power.shape + (1,) * (events if power.ndim else 0))
        powers[name] = jnp.broadcast_to(power, log_probs.shape)
    return powers


def _densities(
    target: Target, masks: dict, draw: dict, _: jax.Array
) -> tuple[dict[str, jax.Array], dict[str, jax.Array]]:
    """Log densities at a draw, and True for sites with the same mask as at the first draw."""
    densities = site_densities(target, draw)
    same = {
        name: jnp.asarray(True) if counted is None else jnp.all(counted == masks[name])
        for name, (_, counted) in densities.items()
    }
    return {name: log_probs for name, (log_probs, _) in densities.items()}, same


def _chains(values: np.ndarray, chains: int) -> np.ndarray:
    return values.reshape(chains, -1, *values.shape[1:])


# -- constant values, which ArviZ refuses ----------------------------------------------------------


def spread_constants(values: np.ndarray) -> np.ndarray:
    """Log likelihoods (chains, draws, ...) with a tiny spread where they are constant.

    ArviZ's LOO refuses constant values, such as for an observation that does not depend on the
    latents. The spread is too small to change a digit of LOO.
    """
    constant, first = _constant(values, MIN_RELATIVE_SPREAD)
    if not np.any(constant):
        return values
    chains, draws, *shape = values.shape
    ramp = np.linspace(0.0, MIN_RELATIVE_SPREAD, chains * draws)
    ramp = ramp.reshape(chains, draws, *[1] * len(shape))
    return np.where(constant, first + _scale(first) * ramp, values)


def without_spread(values: np.ndarray) -> np.ndarray:
    """The inverse of `spread_constants`."""
    constant, first = _constant(values, 2.0 * MIN_RELATIVE_SPREAD)
    return np.where(constant, first, values)


def _constant(values: np.ndarray, width: float) -> tuple[np.ndarray, np.ndarray]:
    """True for observations that are constant up to a relative width, and their first values."""
    first = values[:1, :1]
    # Infinite values count as not constant, since they differ by NaN.
    with np.errstate(invalid="ignore"):
        return np.ptp(values, axis=(0, 1), keepdims=True) <= width * _scale(first), first


def _scale(first: np.ndarray) -> np.ndarray:
    return np.maximum(1.0, np.abs(first))
