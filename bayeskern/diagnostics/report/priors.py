"""The priors of a model: what each site was given, and its density."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
from numpyro.distributions import Distribution

from bayeskern.core.formatting import three_digits
from bayeskern.diagnostics.drawing import kde, within
from bayeskern.hyperparameters import innermost, show
from bayeskern.inference.model.trace.validation import is_improper

# The quantiles between which a density is shown: the rest of a heavy tail would squeeze it to a
# line.
CENTRAL = (0.005, 0.995)
# How far from the median a density is shown, in interquartile ranges.
REACH = 4.0
# Where priors are looked at: all unconstrained coordinates at one of these.
PLACES = (0.0, 0.1)
POINTS, DRAWS = 120, 2000


class SitePrior(NamedTuple):
    """The prior of a latent site.

    text: as one would type it. distribution: None where there is no proper prior. is_constant:
    whether it is the same whatever the other sites are. is_iid: whether all numbers of the site
    have the same one. in_plate: whether the site has many members.
    """

    site: str
    text: str
    shape: tuple[int, ...]
    distribution: Distribution | None
    is_constant: bool
    is_iid: bool
    in_plate: bool


class DensityCurve(NamedTuple):
    """The density y of a number at the points x."""

    name: str
    x: np.ndarray
    y: np.ndarray


def site_priors(posterior) -> list[SitePrior]:
    """The prior of every latent site, as the model has it at two places.

    They are next to the origin of the unconstrained coordinates, which is inside of every support:
    draws of a bad posterior may lie at its edge, where priors that depend on them have no meaning.
    """
    target = posterior.target
    if not target.latents:
        return []
    places = (target.constrain(jnp.full(target.size, z)) for z in PLACES)
    # Two ends of an interval may be the same there, which is no matter here.
    with numpyro.validation_enabled(False):
        traces = [
            target.trace_at({s.name: values[s.name] for s in target.latents}) for values in places
        ]
    return [_site_prior(s, *(trace[s.name] for trace in traces)) for s in target.latents]


def _site_prior(latent, site, other) -> SitePrior:
    """latent: of the target; site, other: of the model's trace at two places."""
    in_plate, fn = bool(site["cond_indep_stack"]), site.get("fn")
    if latent.is_param:
        return _without_density(latent, "no prior (Free)", in_plate)
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


def _without_density(latent, text: str, in_plate: bool) -> SitePrior:
    return SitePrior(latent.name, text, latent.shape, None, True, True, in_plate)


def _text(fn) -> str:
    """As one would type it, with three digits of each number, and repeated numbers once."""
    fn = jax.tree.map(_short, innermost(fn))
    text = show(fn)
    return text if len(text) < 200 else f"{type(fn).__name__}(...)"


def _short(leaf):
    x = np.asarray(leaf, float)
    return three_digits(x.ravel()[0] if x.size and np.all(x == x.ravel()[0]) else x)


def _have_equal_parameters(fn, other) -> bool:
    a, b = jax.tree.leaves(fn), jax.tree.leaves(other)
    return len(a) == len(b) and all(np.array_equal(x, y) for x, y in zip(a, b, strict=True))


def prior_density(subject, prior: SitePrior) -> DensityCurve | None:
    """The density of the first number of a site; None where there is no proper prior."""
    if prior.distribution is None or 0 in prior.shape:
        return None
    if prior.is_constant:
        # The distribution alone is drawn from: running the model would cost far more.
        drawn = prior.distribution.sample(jax.random.key(subject.seed), (DRAWS,))
    elif (drawn := subject.prior_draws(prior.site)) is None:
        return None
    name = subject.names[prior.site][0]
    drawn = np.asarray(drawn, float).reshape(len(drawn), -1)[:, 0]
    ends = limits(drawn)
    if ends is not None and prior.is_constant and prior.is_iid:
        low, high = ends
        # A density that starts at an end of its support is to be seen to start there.
        edge = 0.0 if 0.0 <= drawn.min() < 0.05 * (high - low) else low
        x = np.linspace(edge + 1e-6 * (high - edge), high, POINTS)
        y = _density_at(innermost(prior.distribution), x)
        if np.isfinite(y).all():
            return DensityCurve(name, x, y)
    return density_of_draws(name, drawn)


def _density_at(fn, x):
    # The first of those that are all alike.
    first = jax.tree.map(lambda leaf: jnp.ravel(jnp.asarray(leaf))[0], fn)
    try:
        return np.exp(np.asarray(jax.vmap(first.log_prob)(jnp.asarray(x))))
    except (TypeError, ValueError):
        return np.full(len(x), np.nan)


def density_of_draws(name: str, draws) -> DensityCurve | None:
    """A kernel density estimate within `limits`; None where it has no width."""
    ends = limits(draws)
    return None if ends is None else DensityCurve(name, *kde(within(draws, *ends)))


def limits(x) -> tuple[float, float] | None:
    """Where a density is shown; None where it has no width."""
    low, q25, median, q75, high = np.quantile(x, (CENTRAL[0], 0.25, 0.5, 0.75, CENTRAL[1]))
    reach = REACH * (q75 - q25)
    low, high = max(low, median - reach), min(high, median + reach)
    return (low, high) if np.isfinite([low, high]).all() and high > low else None
