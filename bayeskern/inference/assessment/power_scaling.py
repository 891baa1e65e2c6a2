"""Sensitivity of a posterior to its priors and its likelihood, by power scaling.

Kallioinen, Paananen, Buerkner and Vehtari (2024), "Detecting and diagnosing prior and likelihood
sensitivity with power-scaling".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from numpyro.ops.provenance import eval_provenance

from bayeskern.core.batching import by_chunk, evenly
from bayeskern.core.formatting import ROUNDING_ERROR, counted
from bayeskern.core.scalars import scalar_columns
from bayeskern.inference.approximation.psis import has_even_tail
from bayeskern.inference.model.cost import is_costly
from bayeskern.inference.model.target import Target
from bayeskern.inference.result import Fit
from bayeskern.inference.verdict import Trust, worst_entry


class ScaledDensities(NamedTuple):
    """Log densities whose powers are taken, at evenly spaced draws of each chain.

    Attributes:
        rows: Indices of the draws, (m,).
        log_prior: Log prior density of `sites`, (chains, m).
        log_likelihood: Log likelihood, (chains, m).
        sites: Latents whose priors are scaled.
    """

    rows: np.ndarray
    log_prior: np.ndarray
    log_likelihood: np.ndarray
    sites: tuple[str, ...]


# Sensitivity above which the prior or the likelihood has an influence.
INFLUENCE_THRESHOLD = 0.05
# Sensitivity to the prior above which advice mentions a conflict. With the square of the prior, the
# mean of a normal posterior then shifts by about one sd. At most one in twenty priors that agree
# with the data exceed it.
CONFLICT_THRESHOLD = 0.2


class Sensitivity(NamedTuple):
    """Sensitivity of one parameter to powers of the prior and the likelihood.

    Attributes:
        prior: Sensitivity to the prior.
        likelihood: Sensitivity to the likelihood.
    """

    prior: float
    likelihood: float

    @property
    def diagnosis(self) -> str:
        """Diagnosis of ArviZ, or "" if the prior has no influence."""
        if not self.prior > INFLUENCE_THRESHOLD:
            return ""
        data_count = self.likelihood > INFLUENCE_THRESHOLD
        return f"potential {'prior-data conflict' if data_count else 'strong prior or weak data'}"

    @property
    def is_conflict(self) -> bool:
        """True if prior and data disagree clearly."""
        return self.prior > CONFLICT_THRESHOLD and self.likelihood > INFLUENCE_THRESHOLD


# Largest number of parameters whose sensitivity is computed for the advice of a verdict.
MAX_PARAMETERS = 50


def with_prior_conflict(posterior: Fit, trust: Trust) -> Trust:
    """Verdict whose advice names parameters about which priors and data disagree.

    The verdict itself is on the draws and stays the same. Sensitivities are computed only if the
    draws can be used and the density is cheap; `bk.report` always computes them.
    """
    is_known = "prior_sensitivity" in trust.evidence
    target = posterior.target
    if is_known or trust.verdict not in ("good", "caution") or target is None:
        return trust
    if reason_not_scalable(posterior) or is_costly(target):
        return trust
    densities = scaled_densities(posterior)
    if reason_not_weighted(densities):
        return trust
    draws = {
        name: values[:, densities.rows].reshape(-1, *values.shape[2:])
        for name, values in posterior.draws.items()
        if name in densities.sites
    }
    names, columns = scalar_columns(draws)
    by_chain = columns.T.reshape(len(names), *densities.log_prior.shape)
    by_name = dict(zip(names[:MAX_PARAMETERS], by_chain, strict=False))
    conflicts = {
        name: s.prior for name, s in sensitivities(by_name, densities).items() if s.is_conflict
    }
    if not conflicts:
        return trust
    worst = worst_entry("prior_sensitivity", np.array([*conflicts.values()]), [*conflicts])
    advice = f"{trust.advice} {conflict_advice(worst['prior_sensitivity_at'], len(conflicts))}"
    return replace(trust, advice=advice.strip(), evidence=trust.evidence | worst)


def conflict_advice(worst: object, count: int) -> str:
    """Advice for `count` parameters in conflict; `worst` is the name of the worst."""
    others = "" if count == 1 else f" and {counted(count - 1, 'other parameter')}"
    return (
        f"The priors and the data disagree about {worst}{others} (power scaling). Check the "
        'priors: see "Sensitivity to the prior" in bk.report.'
    )


# Fewer draws cannot be weighted.
MIN_SCALED_DRAWS = 100


def reason_not_scalable(posterior: Fit) -> str:
    """Key of the reason why prior and likelihood cannot be scaled; "" if they can."""
    target = posterior.target
    if posterior.is_point:
        return "point"
    if target is None:
        return "no_model"
    if target.discrete:
        return "discrete"
    if not any(site.kind == "observed" for site in target.sites().values()):
        return "nothing_observed"
    if posterior.shape[0] * posterior.shape[1] < MIN_SCALED_DRAWS:
        return "few_draws"
    return "" if scaled_priors(target) else "no_prior"


def scaled_priors(target: Target) -> tuple[str, ...]:
    """Latents whose priors are scaled: latents that depend on no other latent.

    The priors of other latents are part of the model (Kallioinen et al. 2024, on hierarchical
    models). Latents in a plate, or with at least one element per observation, are left out too,
    unless nothing else remains.
    """
    return eqx.filter_eval_shape(_scaled_priors, target)


# Compiled, because JAX caches its trace for later targets of the same model and shapes.
@eqx.filter_jit
def _scaled_priors(target: Target) -> tuple[str, ...]:
    in_plate: set[str] = set()

    def log_priors(**values: jax.Array) -> dict[str, jax.Array]:
        trace = target.trace_at(values)
        in_plate.update(name for name in values if trace[name]["cond_indep_stack"])
        return {
            name: jnp.sum(trace[name]["fn"].log_prob(value))
            for name, value in values.items()
            if name not in target.without_prior
        }

    latents = {s.name: jax.ShapeDtypeStruct(s.shape, float) for s in target.latents}
    provenance = eval_provenance(log_priors, **latents)
    top = [name for name, sources in provenance.items() if sources <= {name}]
    sizes = [np.prod(s.shape) for s in target.sites().values() if s.kind == "observed"]
    limit = max([*sizes, 2])
    small = [name for name in top if name not in in_plate and np.prod(latents[name].shape) < limit]
    return tuple(small or top)


# More draws are thinned, because a density may be costly.
MAX_SCALED_DRAWS = 1_000


def scaled_densities(posterior: Fit) -> ScaledDensities:
    """Log prior of the scaled sites, and log likelihood, at some draws of each chain."""
    target, draws = posterior.known_target, posterior.draws
    chains, count = posterior.shape
    rows, sites = evenly(count, MAX_SCALED_DRAWS // chains), scaled_priors(target)
    flat = {
        s.name: draws[s.name][:, rows].reshape(-1, *draws[s.name].shape[2:]) for s in target.latents
    }
    by_site = log_probs(target, flat)
    log_prior = sum(v for site, v in by_site.items() if site in sites)
    log_likelihood = sum(v for site, v in by_site.items() if site not in flat)
    shape = (-1, len(rows))
    return ScaledDensities(
        rows, np.reshape(log_prior, shape), np.reshape(log_likelihood, shape), sites
    )


def log_probs(target: Target, draws: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Log density of each site, summed over its elements, at S draws: (S,)."""
    return by_chunk(lambda part: _log_probs(target, part), draws, 1)


@eqx.filter_jit
def _log_probs(target: Target, draws: dict[str, jax.Array]) -> dict[str, jax.Array]:
    return jax.lax.map(target.site_log_probs, draws)


def reason_not_weighted(densities: ScaledDensities) -> str:
    """Reason why draws cannot be weighted by a power of these densities, or ""."""
    priors = f"prior of {', '.join(densities.sites)}"
    for name, log in ((priors, densities.log_prior), ("likelihood", densities.log_likelihood)):
        x = log.ravel()
        if not np.isfinite(x).all():
            return f"The {name} is not finite at some draws, so it cannot be scaled."
        # The range of a constant density is rounding error.
        is_flat = np.ptp(x) <= 1e-12 * max(1.0, np.abs(x).max())
        if is_flat or has_even_tail(x) or has_even_tail(-x):
            return f"The {name} is the same at too many draws, so it cannot be scaled."
    return ""


# Powers of the prior or the likelihood.
POWERS = (0.99, 1.01)


def sensitivities(
    draws: Mapping[str, np.ndarray], densities: ScaledDensities
) -> dict[str, Sensitivity]:
    """Sensitivity of each parameter that varies, from its draws (chains, m), by name."""
    from arviz_stats.base.array import array_stats  # slow to import

    def weights(log: np.ndarray) -> list[np.ndarray]:
        """Normalised weights by each power, (1, draws)."""
        powers = (
            np.exp(array_stats.power_scale_lw(log.ravel(), alpha=power))  # pyright: ignore[reportArgumentType]
            for power in POWERS
        )
        return [w[None] / w.sum() for w in powers]

    of_prior, of_likelihood = weights(densities.log_prior), weights(densities.log_likelihood)

    def sensitivity(x: np.ndarray, by_power: list[np.ndarray]) -> float:
        lower, upper = by_power
        value = array_stats.power_scale_sense(x[None], lower, upper, *POWERS)
        return float(np.asarray(value).item())

    table = {}
    for name, values in draws.items():
        x = np.ravel(values)
        if np.isfinite(x).all() and np.ptp(x) > ROUNDING_ERROR * np.max(np.abs(x)):
            table[name] = Sensitivity(sensitivity(x, of_prior), sensitivity(x, of_likelihood))
    return table
