"""Verdict on a posterior from which a latent was integrated out approximately.

A distribution that integrates approximately, such as `LatentProcess` by Laplace's method, offers
`log_ratio(y, key, n)`: n draws of the latent f from its approximation q, and
log p(y, f) / (q(f) Z), where Z is its approximate density of y. Together with draws of the
parameters, these are weighted draws from the joint posterior. k-hat says how reliable the weights
are, and the weighted draws measure the errors of the approximation.
"""

from __future__ import annotations

from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import logsumexp

from bayeskern.core.batching import evenly
from bayeskern.hyperparameters import innermost
from bayeskern.inference.approximation.psis import pareto_smooth, weighted_difference
from bayeskern.inference.assessment.approximation import (
    DIFFERENCE_LIMITS,
    Difference,
    difference_advice,
    differences_evidence,
    is_reliable,
    too_different,
)
from bayeskern.inference.model.target import Target
from bayeskern.inference.result import Fit
from bayeskern.inference.verdict import Trust, effective


def assess_latent_laplace(posterior: Fit, trust: Trust) -> Trust:
    """Lower a verdict if a latent was integrated out too inaccurately."""
    if posterior.is_point or posterior.target is None or "inner_khat" in trust.evidence:
        return trust
    target = posterior.fitted_target
    for name in target.approximate:
        # Each draw of the parameters costs O(n^3).
        rows = evenly(len(next(iter(posterior.flat.values()))), 20)
        draws = {s.name: posterior.flat[s.name][rows] for s in target.latents}
        keys = jax.random.split(jax.random.key(0), len(rows))
        f, log_ratio = jax.device_get(_log_ratios(target, draws, keys, name, 200))
        trust = assess_latent_draws(trust, f.reshape(*log_ratio.shape, -1), log_ratio)
    return trust


@eqx.filter_jit
def _log_ratios(
    target: Target, draws: dict[str, np.ndarray], keys: jax.Array, name: str, n: int
) -> tuple[jax.Array, jax.Array]:
    """n draws of the latent of a site for each draw of the parameters, and their log ratios."""

    def at_draw(item: tuple[dict, jax.Array]) -> tuple[jax.Array, jax.Array]:
        draw, key = item
        site = target.trace_at(draw, key)[name]
        process = innermost(site["fn"])
        # Under a plate, each set of observations has an approximation of its own.
        y = jnp.reshape(site["value"], (-1, *process.event_shape))
        keys = jax.random.split(key, len(y))
        f, log_ratio = jax.vmap(lambda y, key: process.log_ratio(y, key, n))(y, keys)  # pyright: ignore[reportAttributeAccessIssue]
        return jnp.moveaxis(f, 0, 1), jnp.sum(log_ratio, axis=0)

    return jax.lax.map(at_draw, (draws, keys))


def assess_latent_draws(trust: Trust, f: np.ndarray, log_ratio: np.ndarray) -> Trust:
    """Lower a verdict if an approximation of a latent is inaccurate.

    Args:
        trust: Verdict on the draws of the parameters.
        f: n draws of the latent from its approximation at each of S draws of the parameters,
            (S, n, m).
        log_ratio: log p(y, f) / (q(f) Z) at each draw of the latent, (S, n).

    Returns:
        The verdict with further evidence.
    """
    weights = pareto_smooth(log_ratio.ravel())
    flat = f.reshape(log_ratio.size, -1)
    shift = weighted_difference(flat, flat, y_weights=weights.normal)
    names = [f"f[{i}]" for i in range(flat.shape[1])]
    worst = differences_evidence(names, weights, [Difference(shift, weights.ess)])
    # Error of log Z at each draw of the parameters: a constant error does not change the posterior.
    log_z_error = logsumexp(log_ratio, axis=1) - np.log(log_ratio.shape[1])
    log_z_sd = np.std(log_z_error)
    evidence = {
        **trust.evidence,
        "inner_khat": weights.khat,
        "inner_ess": weights.ess,
        "inner_evidence_sd": log_z_sd,
        **{f"inner_{kind}": worst[kind] for kind in DIFFERENCE_LIMITS},
    }
    remedy, advice = "Take method='nuts', which samples it (a LatentGP with integrate=False).", None
    if not is_reliable(weights):
        advice = (
            "The latent function was integrated out by an approximation whose error cannot be "
            f"measured (k-hat {weights.khat:.2g}, {effective(weights.ess)}). {remedy}"
        )
    elif not log_z_sd < DIFFERENCE_LIMITS["mean_shift"].good:
        advice = (
            "The error of the approximate evidence of the latent function varies by "
            f"{log_z_sd:.2g} nats over the posterior of the parameters. {remedy}"
        )
    elif kinds := too_different(worst):
        advice = f"The latent function: {difference_advice(kinds, worst, remedy)}"
    if advice is None or trust.verdict == "bad":
        return replace(trust, evidence=evidence)
    return Trust("caution", advice, evidence)
