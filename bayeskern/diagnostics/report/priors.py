"""Priors of a model: their text and their densities."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
from numpyro.distributions import Distribution

from bayeskern.core.formatting import three_digits
from bayeskern.hyperparameters import innermost, show
from bayeskern.inference import Target
from bayeskern.inference.model.trace.validation import is_improper


class SitePrior(NamedTuple):
    """The prior of a latent site.

    Attributes:
        site: Name of the site.
        text: The prior as source code.
        shape: Shape of the site.
        distribution: The prior, or None if it is not proper.
        is_constant: Whether the prior is independent of the other sites.
        in_plate: Whether the site is in a plate.
    """

    site: str
    text: str
    shape: tuple[int, ...]
    distribution: Distribution | None
    is_constant: bool
    in_plate: bool

    def density(self, index: tuple[int, ...], x: np.ndarray) -> np.ndarray | None:
        """Density of one element at x, NaN outside its support; None if it has no closed form."""
        if self.distribution is None or not self.is_constant:
            return None
        fn = innermost(self.distribution)
        if fn.event_dim:
            return None
        try:
            own: Any = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, self.shape)[index], fn)
            density = np.exp(np.asarray(jax.vmap(own.log_prob)(jnp.asarray(x))))
            return np.where(np.asarray(own.support(x)), density, np.nan)
        except (TypeError, ValueError):
            return None


def site_priors(target: Target) -> list[SitePrior]:
    """Priors of the latent sites of a model.

    The model is traced at two points next to the origin of the unconstrained coordinates, which is
    inside of every support. Draws of a bad posterior may lie at the edge of a support, where priors
    that depend on them are undefined.
    """
    if not target.latents:
        return []
    points = (target.constrain(jnp.full(target.size, z)) for z in (0.0, 0.1))
    # The ends of an interval may coincide at these points, which is harmless here.
    with numpyro.validation_enabled(False):
        traces = [
            target.trace_at({s.name: values[s.name] for s in target.latents}) for values in points
        ]
    return [_site_prior(s, *(trace[s.name] for trace in traces)) for s in target.latents]


def _site_prior(latent: Any, site: dict, other: dict) -> SitePrior:
    """Prior of a latent; site, other: its entries in the traces of the model at two points."""
    fn, is_constant = None, True
    if latent.is_param:
        text = "no prior (Free)"
    elif is_improper(site["fn"]):
        text = "flat (improper)"
    else:
        fn = site["fn"]
        is_constant = _have_equal_parameters(fn, other["fn"])
        depends = f"{type(innermost(fn)).__name__}, which depends on other sites"
        text = _text(fn) if is_constant else depends
    in_plate = bool(site["cond_indep_stack"])
    return SitePrior(latent.name, text, latent.shape, fn, is_constant, in_plate)


def _text(fn: Any) -> str:
    """Source code of a distribution, with three digits of each number, repeated numbers once."""
    fn = jax.tree.map(_short, innermost(fn))
    text = show(fn)
    return text if len(text) < 200 else f"{type(fn).__name__}(...)"


def _short(leaf):
    x = np.asarray(leaf, float)
    return three_digits(x.ravel()[0] if x.size and np.all(x == x.ravel()[0]) else x)


def _have_equal_parameters(fn, other) -> bool:
    a, b = jax.tree.leaves(fn), jax.tree.leaves(other)
    return len(a) == len(b) and all(np.array_equal(x, y) for x, y in zip(a, b, strict=True))
