"""Checks of the sites of a model before it is fitted, and what kind of site each is."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from numpyro.distributions import Distribution

from bayeskern.hyperparameters import innermost
from bayeskern.inference.model.trace.arguments import refuse_no_numbers
from bayeskern.inference.model.trace.enumeration import require_enumerable
from bayeskern.inference.model.trace.unnormalized import Unnormalized
from bayeskern.protocols import ApproximatesLatent

# Their densities have no second derivative at their location.
KINKED = (dist.Laplace, dist.AsymmetricLaplace, dist.AsymmetricLaplaceQuantile)
# The axes that every set of draws has; ArviZ would lose a plate of that name.
AXES = ("chain", "draw", "sample")


def subsampled(trace: dict) -> set[str]:
    """The plates of a trace that take part of their rows at a time."""
    plates = {name: site["args"] for name, site in trace.items() if site["type"] == "plate"}
    return {name for name, (size, part) in plates.items() if part not in (None, size)}


def look_at(name: str, site: dict) -> None:
    """Raise ValueError, naming the site, if it cannot be fitted.

    Refused are the names of AXES, values of another shape than the plates or the distribution, and
    discrete latents that cannot be summed out.
    """
    kind = site["type"]
    if name in AXES:
        what = "plate" if kind == "plate" else "site"
        raise ValueError(
            f"a {what} is named {name!r}, like an axis of the draws, and would lose its name. "
            f"Rename the {what}."
        )
    if kind == "deterministic":
        _require_plate_shape(name, site)
    if kind == "sample" and site["is_observed"]:
        _require_data_shape(name, site)
    if kind == "sample" and is_discrete_latent(site):
        require_enumerable(name, site)


def is_discrete_latent(site: dict) -> bool:
    return site["type"] == "sample" and not site["is_observed"] and site["fn"].support.is_discrete


def is_kinked(site: dict) -> bool:
    """Whether the density of a site has kinks, in its value or in its location."""
    fn = site.get("fn")
    while isinstance(fn, Distribution) and hasattr(fn, "base_dist"):
        fn = fn.base_dist
    return isinstance(fn, KINKED)


def is_approximate(site: dict) -> bool:
    """Whether a site integrates a latent out by an approximation, which has to be assessed."""
    observed = site["type"] == "sample" and site["is_observed"]
    return observed and isinstance(innermost(site["fn"]), ApproximatesLatent)


def is_observed(site) -> bool:
    """Whether a site holds data; a `numpyro.factor` does not."""
    return site["type"] == "sample" and site["is_observed"] and not is_factor(site)


def is_factor(site) -> bool:
    return isinstance(innermost(site["fn"]), dist.Unit)


def is_improper(fn: Distribution) -> bool:
    """Whether a distribution is flat without end, so that nothing can be drawn from it."""
    return isinstance(innermost(fn), dist.ImproperUniform)


def is_unnormalized(fn: Distribution) -> bool:
    """Whether a density is known as it stands, so that its integral is the evidence."""
    return isinstance(innermost(fn), Unnormalized)


class CannotDrawError(ValueError):
    """A site has a density only, so that no new data, or members of a plate, can be drawn."""


def require_sample(name, fn: Distribution) -> None:
    """Raise CannotDrawError, naming the site, if its distribution has no `sample`."""
    kind = type(innermost(fn))
    if kind.sample is Distribution.sample:
        raise CannotDrawError(
            f"the site {name!r} cannot be drawn: {kind.__name__} has no method "
            "sample(key, sample_shape=())."
        )


def _require_plate_shape(name, site) -> None:
    frames, shape = site["cond_indep_stack"], jnp.shape(site["value"])
    if not frames:
        return
    for frame in frames:
        # With axes of events behind those of plates, the plate's own may be any of them.
        if frame.size not in shape:
            raise ValueError(
                f"the deterministic {name!r} has shape {shape} inside plate {frame.name!r}, whose "
                f"{frame.size} rows ought to be one of its axes. Move it out of the plate, or give "
                "it the shape of the plate."
            )


def _require_data_shape(name, site) -> None:
    value, fn = np.shape(site["value"]), site["fn"]
    if type(fn).__name__ == "Unit" or not isinstance(fn, Distribution):
        return
    refuse_no_numbers(f"the observed site {name!r}", site["value"])
    expected = tuple(fn.shape())
    try:
        broadcast = np.broadcast_shapes(value, expected)
    except ValueError:
        broadcast = None
    # One number for many observations is meant so; (n,) against (n, 1) never is.
    if broadcast != value and value != ():
        raise ValueError(
            f"the observed site {name!r} has values of shape {value} but its distribution has "
            f"shape {expected}. Reshape one of them, so that each value has one density."
        )
