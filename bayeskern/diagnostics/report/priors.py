"""Priors of a model: their text and their densities."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
from numpyro.distributions import Distribution

from bayeskern.core.formatting import three_digits
from bayeskern.diagnostics.drawing import kde, within
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
        is_iid: Whether all parameters of the site have the same prior.
        in_plate: Whether the site is in a plate.
    """

    site: str
    text: str
    shape: tuple[int, ...]
    distribution: Distribution | None
    is_constant: bool
    is_iid: bool
    in_plate: bool


class DensityCurve(NamedTuple):
    """The density y of a parameter at the points x."""

    name: str
    x: np.ndarray
    y: np.ndarray


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
    in_plate = bool(site["cond_indep_stack"])
    if latent.is_param:
        return _without_density(latent, "no prior (Free)", in_plate)
    fn = site["fn"]
    if is_improper(fn):
        return _without_density(latent, "flat (improper)", in_plate)
    is_constant = _have_equal_parameters(fn, other["fn"])
    is_iid = innermost(fn).event_dim == 0 and all(
        np.ptp(np.asarray(leaf)) == 0 for leaf in jax.tree.leaves(innermost(fn))
    )
    text = (
        _text(fn)
        if is_constant
        else f"{type(innermost(fn)).__name__}, which depends on other sites"
    )
    return SitePrior(latent.name, text, latent.shape, fn, is_constant, is_iid, in_plate)


def _without_density(latent: Any, text: str, in_plate: bool) -> SitePrior:
    return SitePrior(latent.name, text, latent.shape, None, True, True, in_plate)


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


def prior_curve(name: str, prior: SitePrior, draws: np.ndarray) -> DensityCurve | None:
    """Density of the first parameter of a site; None if it has no width.

    Args:
        name: Name of the parameter.
        prior: Prior of the site.
        draws: Draws of the site from the prior, (S, shape).
    """
    draws = draws.reshape(len(draws), -1)[:, 0]
    ends = limits(draws)
    is_same = prior.is_constant and prior.is_iid
    if ends is not None and prior.distribution is not None and is_same:
        low, high = ends
        # A density on positive values is drawn from zero on.
        edge = 0.0 if 0.0 <= draws.min() < 0.05 * (high - low) else low
        x = np.linspace(edge + 1e-6 * (high - edge), high, 120)
        y = _density_at(innermost(prior.distribution), x)
        if np.isfinite(y).all():
            return DensityCurve(name, x, y)
    return density_of_draws(name, draws)


def _density_at(fn: Any, x: np.ndarray) -> np.ndarray:
    # All elements have the same density; the first one is taken.
    first = jax.tree.map(lambda leaf: jnp.ravel(jnp.asarray(leaf))[0], fn)
    try:
        return np.exp(np.asarray(jax.vmap(first.log_prob)(jnp.asarray(x))))
    except (TypeError, ValueError):
        return np.full(len(x), np.nan)


def density_of_draws(name: str, draws: np.ndarray) -> DensityCurve | None:
    """Kernel density estimate within `limits`; None if they have no width."""
    ends = limits(draws)
    return None if ends is None else DensityCurve(name, *kde(within(draws, *ends)))


def limits(x: np.ndarray) -> tuple[float, float] | None:
    """Range in which a density is drawn; None if it has no width.

    The range is that of the central 99 %, and within four interquartile ranges of the median: the
    rest of a heavy tail would squeeze the density to a line.
    """
    low, q25, median, q75, high = np.quantile(x, (0.005, 0.25, 0.5, 0.75, 0.995))
    reach = 4.0 * (q75 - q25)
    low, high = max(low, median - reach), min(high, median + reach)
    return (low, high) if np.isfinite([low, high]).all() and high > low else None
