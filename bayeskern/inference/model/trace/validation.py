"""Kinds of sites of a model, and checks of each site before a fit."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from numpyro.distributions import Distribution

from bayeskern.hyperparameters import innermost
from bayeskern.inference.model.trace.arguments import refuse_nonnumeric
from bayeskern.inference.model.trace.enumeration import require_enumerable
from bayeskern.inference.model.trace.unnormalized import Unnormalized
from bayeskern.protocols import ApproximatesLatent


def subsampled(trace: dict) -> set[str]:
    """Names of the subsampled plates in a trace."""
    plates = {name: site["args"] for name, site in trace.items() if site["type"] == "plate"}
    return {name for name, (size, part) in plates.items() if part not in (None, size)}


def require_valid(name: str, site: dict) -> None:
    """Raise ValueError, naming the site, if it cannot be fitted.

    The name must not be that of an axis of the draws, and the shape of the values must agree with
    the plates and the distribution. It must be possible to sum out a discrete latent.
    """
    kind = site["type"]
    # ArviZ would lose a plate of such a name.
    if name in ("chain", "draw", "sample"):
        what = "plate" if kind == "plate" else "site"
        raise ValueError(
            f"a {what} is named {name!r}, like an axis of the draws, and would lose its name. "
            f"Rename the {what}."
        )
    if kind == "deterministic":
        _require_plate_shape(name, site)
    if kind == "sample" and site["is_observed"]:
        _require_data_shape(name, site)
    if is_discrete_latent(site):
        require_enumerable(name, site)


def is_discrete_latent(site: dict) -> bool:
    """True for a latent sample site with discrete values."""
    return site["type"] == "sample" and not site["is_observed"] and site["fn"].support.is_discrete


def is_kinked(site: dict) -> bool:
    """True if the density of a site has no second derivative at its location."""
    fn = site.get("fn")
    while isinstance(fn, Distribution) and hasattr(fn, "base_dist"):
        fn = fn.base_dist  # pyright: ignore[reportAttributeAccessIssue]
    return isinstance(fn, dist.Laplace | dist.AsymmetricLaplace | dist.AsymmetricLaplaceQuantile)


def is_approximate(site: dict) -> bool:
    """True if a site integrates a latent out by an approximation, to be assessed."""
    observed = site["type"] == "sample" and site["is_observed"]
    return observed and isinstance(innermost(site["fn"]), ApproximatesLatent)


def is_observed(site: dict) -> bool:
    """True if a site holds data; a `numpyro.factor` does not."""
    return site["type"] == "sample" and site["is_observed"] and not is_factor(site)


def is_factor(site: dict) -> bool:
    """True for the site of a `numpyro.factor`."""
    return isinstance(innermost(site["fn"]), dist.Unit)


def is_improper(fn: Distribution) -> bool:
    """True if a distribution is flat on an unbounded support and cannot be drawn from."""
    return isinstance(innermost(fn), dist.ImproperUniform)


def is_unnormalized(fn: Distribution) -> bool:
    """True for a bare density, whose integral is the evidence."""
    return isinstance(innermost(fn), Unnormalized)


class CannotDrawError(ValueError):
    """A distribution has no `sample`: new data or plate members cannot be drawn."""


def require_sample(name: str, fn: Distribution) -> None:
    """Raise CannotDrawError, naming the site, if its distribution has no `sample`."""
    kind = type(innermost(fn))
    if kind.sample is Distribution.sample:
        raise CannotDrawError(
            f"the site {name!r} cannot be drawn: {kind.__name__} has no method "
            "sample(key, sample_shape=())."
        )


def _require_plate_shape(name: str, site: dict) -> None:
    shape = jnp.shape(site["value"])
    for frame in site["cond_indep_stack"]:
        # Event axes may follow the axis of the plate, so the plate may be any axis.
        if frame.size not in shape:
            raise ValueError(
                f"the deterministic {name!r} has shape {shape} inside plate {frame.name!r}, but "
                f"no axis has the {frame.size} rows of the plate. Move it out of the plate, or "
                "give it the shape of the plate."
            )


def _require_data_shape(name: str, site: dict) -> None:
    value, fn = np.shape(site["value"]), site["fn"]
    if not isinstance(fn, Distribution) or is_factor(site):
        return
    refuse_nonnumeric(f"the observed site {name!r}", site["value"])
    expected = tuple(fn.shape())
    try:
        broadcast = np.broadcast_shapes(value, expected)
    except ValueError:
        broadcast = None
    # A scalar may stand for many observations; (n,) against (n, 1) is a mistake.
    if broadcast != value and value != ():
        raise ValueError(
            f"the observed site {name!r} has values of shape {value} but its distribution has "
            f"shape {expected}. Reshape one of them, so that each value has one density."
        )
