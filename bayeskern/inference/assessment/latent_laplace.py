"""The verdict on a posterior whose observations were integrated over a latent by an approximation.

A distribution that does so, as `LatentProcess` does by Laplace's, offers `log_ratio(y, key, n)`: n
draws of the latent f from its approximation q and log p(y, f) / (q(f) Z), Z being the density that
it reported. Together with draws of the parameters those are weighted draws from the joint
posterior, so that k-hat says how far the approximation can be believed, and the weighted draws show
what it got wrong.
"""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from bayeskern.core.batching import evenly
from bayeskern.inference.assessment.approximation import judge_inner
from bayeskern.inference.model import sites
from bayeskern.inference.model.validation import innermost
from bayeskern.inference.verdict import Trust

# So many draws of the parameters, so many of the latent for each: the first cost O(n^3).
OUTER, INNER = 20, 200
# In the evidence of a verdict that has been through here.
MARK = "inner_khat"


def judged(posterior, trust: Trust) -> Trust:
    """The verdict, made worse where what was integrated out was not done well enough."""
    if posterior.is_point or posterior.target is None or MARK in trust.evidence:
        return trust
    for name in posterior.target.approximate:
        f, log_ratio = _drawn(posterior, name)
        trust = judge_inner(trust, f, log_ratio)
    return trust


def _drawn(posterior, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Draws of the latent (OUTER, INNER, m) and their log ratios (OUTER, INNER)."""
    rows = evenly(len(next(iter(posterior.flat.values()))), OUTER)
    draws = {s.name: posterior.flat[s.name][rows] for s in posterior.target.latents}
    keys = jax.random.split(jax.random.key(0), len(rows))
    f, log_ratio = jax.device_get(_log_ratios(posterior.target, draws, keys, name, INNER))
    return f.reshape(*log_ratio.shape, -1), log_ratio


@eqx.filter_jit
def _log_ratios(target, draws, keys, name, n):
    def one(item):
        draw, key = item
        site = sites.trace_at(target.model, draw, key, target.args, target.kwargs)[name]
        process = innermost(site["fn"])
        # The observations of a plate, one set after the other, are approximated one by one.
        y = jnp.reshape(site["value"], (-1, *process.event_shape))
        keys = jax.random.split(key, len(y))
        f, log_ratio = jax.vmap(lambda y, key: process.log_ratio(y, key, n))(y, keys)
        return jnp.moveaxis(f, 0, 1), jnp.sum(log_ratio, axis=0)

    return jax.lax.map(one, (draws, keys))
