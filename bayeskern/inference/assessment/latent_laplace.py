"""The verdict on a posterior whose observations were integrated over a latent by an approximation.

A distribution that does so, as `LatentProcess` does by Laplace's, offers `log_ratio(y, key, n)`: n
draws of the latent f from its approximation q and log p(y, f) / (q(f) Z), Z being the density that
it reported. Together with draws of the parameters those are weighted draws from the joint
posterior, so that k-hat says how far the approximation can be believed, and the weighted draws show
what it got wrong.
"""

from __future__ import annotations

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import logsumexp

from bayeskern.core.batching import evenly
from bayeskern.hyperparameters import innermost
from bayeskern.inference.approximation.psis import pareto_smooth, weighted_difference
from bayeskern.inference.assessment.approximation import (
    CORRECT,
    MOST,
    Difference,
    difference_advice,
    differences_evidence,
    is_reliable,
    too_different,
)
from bayeskern.inference.model.trace.sites import trace_at
from bayeskern.inference.verdict import Trust, effective

# How many draws of the parameters, each of which costs O(n^3), and of the latent for each of them.
OUTER, INNER = 20, 200
# The key in the evidence by which a verdict is known to have been assessed here already.
MARK = "inner_khat"


def assess_latent_laplace(posterior, trust: Trust) -> Trust:
    """The verdict, made worse where a latent was integrated out too inaccurately."""
    if posterior.is_point or posterior.target is None or MARK in trust.evidence:
        return trust
    for name in posterior.target.approximate:
        f, log_ratio = _latent_draws(posterior, name)
        trust = assess_latent_draws(trust, f, log_ratio)
    return trust


def _latent_draws(posterior, name: str) -> tuple[np.ndarray, np.ndarray]:
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
        site = trace_at(target.model, draw, key, target.args, target.kwargs)[name]
        process = innermost(site["fn"])
        # The observations of a plate, one set after the other, are approximated one by one.
        y = jnp.reshape(site["value"], (-1, *process.event_shape))
        keys = jax.random.split(key, len(y))
        f, log_ratio = jax.vmap(lambda y, key: process.log_ratio(y, key, n))(y, keys)
        return jnp.moveaxis(f, 0, 1), jnp.sum(log_ratio, axis=0)

    return jax.lax.map(one, (draws, keys))


def assess_latent_draws(trust: Trust, f, log_ratio) -> Trust:
    """A verdict, made worse where a latent was integrated out by an approximation that is off.

    f: (S, n, m), n draws of the latent from its approximation at each of S draws of the parameters,
    which are those that the verdict is on; log_ratio: (S, n), log p(y, f) / (q(f) Z) of each.
    """
    weights = pareto_smooth(log_ratio.ravel())
    flat = f.reshape(log_ratio.size, -1)
    shift = weighted_difference(flat, flat, y_weights=weights.normal)
    names = [f"f[{i}]" for i in range(flat.shape[1])]
    worst = differences_evidence(names, weights, [Difference(shift, weights.ess)])
    # How far log Z is off at each draw of the parameters: only what varies changes the posterior.
    log_z_error = logsumexp(log_ratio, axis=1) - np.log(log_ratio.shape[1])
    inner = {
        "inner_khat": weights.khat,
        "inner_ess": weights.ess,
        "inner_evidence_sd": np.std(log_z_error),
    }
    evidence = {**trust.evidence, **inner, **{f"inner_{w}": worst[w] for w in MOST}}
    instead = "Take LatentGP(..., integrate=False) with method='nuts'."
    if not is_reliable(weights):
        advice = (
            "The latent function was integrated out by an approximation whose error cannot be "
            f"measured (k-hat {weights.khat:.2g}, {effective(weights.ess)}). {instead}"
        )
    elif not np.std(log_z_error) < MOST["mean_shift"]:
        advice = (
            "The evidence of the latent function, as approximated, is off by amounts that differ "
            f"by {np.std(log_z_error):.2g} nats over the posterior of the parameters. {instead}"
        )
    elif wrong := too_different(worst):
        advice = (
            f"The latent function: {difference_advice(wrong, worst).removesuffix(CORRECT)}{instead}"
        )
    else:
        return dataclasses.replace(trust, evidence=evidence)
    if trust.verdict == "bad":
        return dataclasses.replace(trust, evidence=evidence)
    return Trust("caution", advice, evidence)
