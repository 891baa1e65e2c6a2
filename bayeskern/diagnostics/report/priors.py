"""The priors of a model: what each site was given, and its density."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpyro.distributions import Distribution

from bayeskern.hyperparameters import show
from bayeskern.inference.model import sites

# What a density shows: the rest of a heavy tail would squeeze it to a line.
SHOWN = (0.005, 0.995)
# In distances of the quartiles from one another.
REACH = 4.0
POINTS, DRAWS = 120, 2000


class Prior(NamedTuple):
    """text: as one would type it; fixed: whether it is the same whatever the other sites are;
    alike: whether all of its numbers have the same one; in_plate: whether it is of many members.
    """

    site: str
    text: str
    shape: tuple[int, ...]
    fn: Distribution | None
    fixed: bool
    alike: bool
    in_plate: bool


class Density(NamedTuple):
    name: str
    x: np.ndarray
    y: np.ndarray


def priors(posterior) -> list[Prior]:
    """The prior of every latent site, as the model has it at two of the draws."""
    flat, target = posterior.flat, posterior.target
    last = len(next(iter(flat.values()))) - 1
    traces = []
    for row, shift in ((0, 0.0), (last, 1e-3)):
        draw = {s.name: jnp.asarray(flat[s.name][row]) for s in target.latents}
        if posterior.is_point and shift:
            # A single point is moved a little, so that what depends on it shows.
            draw = _nudged(target, draw, shift)
        traces.append(
            sites.trace_at(target.model, draw, jax.random.key(0), target.args, target.kwargs)
        )
    return [_prior(s, *(trace[s.name] for trace in traces)) for s in target.latents]


def _nudged(target, draw, shift):
    z, _ = target.unconstrain(draw)
    values = target.constrain(z + shift)
    return {s.name: values[s.name] for s in target.latents}


def _prior(latent, site, other) -> Prior:
    in_plate = bool(site["cond_indep_stack"])
    if latent.is_param:
        return Prior(latent.name, "no prior (Free)", latent.shape, None, True, True, in_plate)
    fn, text = site["fn"], _text(site["fn"])
    if type(_base(fn)).__name__ == "ImproperUniform":
        return Prior(latent.name, "flat (improper)", latent.shape, None, True, True, in_plate)
    fixed = _same(fn, other["fn"])
    alike = _base(fn).event_dim == 0 and _constant(fn)
    text = text if fixed else f"{type(_base(fn)).__name__}, which depends on other sites"
    return Prior(latent.name, text, latent.shape, fn, fixed, alike, in_plate)


def _base(fn):
    while type(fn).__name__ in ("Independent", "ExpandedDistribution", "MaskedDistribution"):
        fn = fn.base_dist
    return fn


def _text(fn) -> str:
    """As one would type it, each number in three digits, repeated numbers once."""
    fn = jax.tree.map(_short, _base(fn))
    text = show(fn)
    return text if len(text) < 200 else f"{type(fn).__name__}(...)"


def _short(leaf):
    x = np.asarray(leaf, float)
    x = x.ravel()[0] if x.size and np.all(x == x.ravel()[0]) else x
    return np.asarray([float(f"{v:.3g}") for v in np.ravel(x)]).reshape(np.shape(x))


def _same(fn, other) -> bool:
    a, b = jax.tree.leaves(fn), jax.tree.leaves(other)
    return len(a) == len(b) and all(np.array_equal(x, y) for x, y in zip(a, b, strict=True))


def _constant(fn) -> bool:
    return all(np.ptp(np.asarray(leaf)) == 0 for leaf in jax.tree.leaves(_base(fn)))


def density(subject, prior: Prior) -> Density | None:
    """The density of the first number of a site; None where there is no proper prior."""
    if prior.fn is None or 0 in prior.shape:
        return None
    if prior.fixed:
        # By itself, which costs nothing of the model.
        drawn = prior.fn.sample(jax.random.key(subject.seed), (DRAWS,))
    elif (drawn := subject.prior.get(prior.site.replace("/", "."))) is None:
        return None
    name = subject.names[prior.site][0]
    drawn = np.asarray(drawn, float).reshape(len(drawn), -1)[:, 0]
    ends = limits(drawn)
    if ends is None:
        return None
    low, high = ends
    if prior.fixed and prior.alike:
        # A density that starts at an end of its support is to be seen to start there.
        edge = 0.0 if 0.0 <= drawn.min() < 0.05 * (high - low) else low
        x = np.linspace(edge + 1e-6 * (high - edge), high, POINTS)
        y = _at(_base(prior.fn), x)
        if np.isfinite(y).all():
            return Density(name, x, y)
    return Density(name, *kde(drawn[(drawn >= low) & (drawn <= high)]))


def _at(fn, x):
    # The first of those that are all alike.
    one = jax.tree.map(lambda leaf: jnp.ravel(jnp.asarray(leaf))[0], fn)
    try:
        return np.exp(np.asarray(jax.vmap(one.log_prob)(jnp.asarray(x))))
    except (TypeError, ValueError):
        return np.full(len(x), np.nan)


def limits(x) -> tuple[float, float] | None:
    """Where a density is shown; None where it has no width."""
    low, q25, middle, q75, high = np.quantile(x, (SHOWN[0], 0.25, 0.5, 0.75, SHOWN[1]))
    reach = REACH * (q75 - q25)
    low, high = max(low, middle - reach), min(high, middle + reach)
    return (low, high) if np.isfinite([low, high]).all() and high > low else None


def kde(x) -> tuple[np.ndarray, np.ndarray]:
    """A density from draws, at fewer points than ArviZ makes it."""
    from arviz_stats.base import array_stats

    grid, y, *_ = array_stats.kde(np.asarray(x, float))
    keep = np.linspace(0, len(grid) - 1, min(len(grid), POINTS)).round().astype(int)
    return grid[keep], y[keep]
