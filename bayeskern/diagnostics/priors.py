"""Priors of a model: their text and their densities."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
from numpyro.distributions import Distribution

from bayeskern.core.formatting import three_digits
from bayeskern.hyperparameters import innermost, is_from_sd, show
from bayeskern.inference import Posterior, Target
from bayeskern.inference.model.trace.validation import is_improper


class SitePrior(NamedTuple):
    """The prior of a latent site.

    Attributes:
        site: Name of the site.
        text: The prior as written in a model.
        shape: Shape of the site.
        distribution: The prior, or None if it is not proper.
        is_unconditional: True if the prior does not depend on other sites.
        in_plate: True if the site is in a plate.
    """

    site: str
    text: str
    shape: tuple[int, ...]
    distribution: Distribution | None
    is_unconditional: bool
    in_plate: bool

    def density(self, index: tuple[int, ...], x: np.ndarray) -> np.ndarray | None:
        """Density of one element at x, NaN outside its support; None if not available."""
        if self.distribution is None or not self.is_unconditional:
            return None
        fn: Any = innermost(self.distribution)
        if fn.event_dim:
            return None
        # The density of all elements, since parameters may have further axes (Beta is a Dirichlet).
        points = jnp.broadcast_to(
            jnp.reshape(x, (-1, *[1] * len(self.shape))), (len(x), *self.shape)
        )
        try:
            with numpyro.validation_enabled(False):
                density = np.exp(np.asarray(fn.log_prob(points)))
            inside = np.broadcast_to(np.asarray(fn.support(points)), density.shape)
        except (TypeError, ValueError):
            return None
        element = (slice(None), *index)
        return np.where(inside[element], density[element], np.nan)


def site_priors(target: Target) -> list[SitePrior]:
    """Priors of the latent sites of a model.

    The model is traced at two points near the origin of the unconstrained coordinates; a prior that
    differs between them depends on other sites. Draws of a bad posterior would not do: they may lie
    at the edge of a support, where dependent priors are undefined.
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


def exact_marginals(posterior: Posterior) -> str:
    """Sentence on the marginals that are known exactly: "p ~ Beta(16, 8)"; "" without any."""
    if not posterior.marginals:
        return ""
    known = site_priors(posterior.known_target) if posterior.target is not None else []
    priors = {p.site: p.text for p in known if p.distribution is not None and p.is_unconditional}
    texts = []
    for site, marginal in posterior.marginals.items():
        prior = f" (prior {priors[site]})" if site in priors else ""
        texts.append(f"{site} ~ {marginal}{prior}")
    return f"Exact moments and quantiles, not those of draws: {', '.join(texts)}."


def _site_prior(latent: Any, first: dict, second: dict) -> SitePrior:
    """Prior of a latent site, from its entries in the traces at two points."""
    fn, is_unconditional = None, True
    if latent.is_param:
        text = "no prior (Free)"
    elif is_improper(first["fn"]):
        text = "flat (improper)"
    else:
        fn = first["fn"]
        is_unconditional = _have_equal_parameters(fn, second["fn"])
        depends = f"{type(innermost(fn)).__name__}, which depends on other sites"
        text = _text(fn) if is_unconditional else depends
    in_plate = bool(first["cond_indep_stack"])
    return SitePrior(latent.name, text, latent.shape, fn, is_unconditional, in_plate)


def _text(fn: Any) -> str:
    """A distribution as it is written in a model; constant arrays as one number.

    Numbers have three digits. "HalfNormal(0.5) on the sd" is the prior of a variance.
    """
    fn = jax.tree.map(_short, innermost(fn))
    if is_from_sd(fn):
        return f"{_text(fn.base_dist)} on the sd"
    text = re.sub(r"(?<=\d)\.0(?=[,)\]])", "", show(fn)).removesuffix("()")
    return text if len(text) < 200 else f"{type(fn).__name__}(...)"


def _short(leaf):
    x = np.asarray(leaf, float)
    return three_digits(x.ravel()[0] if x.size and np.all(x == x.ravel()[0]) else x)


def _have_equal_parameters(fn, other) -> bool:
    a, b = jax.tree.leaves(fn), jax.tree.leaves(other)
    return len(a) == len(b) and all(np.array_equal(x, y) for x, y in zip(a, b, strict=True))
