"""Sensitivity to the prior, by power scaling of prior and likelihood.

Kallioinen, Paananen, Buerkner and Vehtari (2024), "Detecting and diagnosing prior and likelihood
sensitivity with power-scaling".
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import arviz as az
import equinox as eqx
import jax
import numpy as np

from bayeskern.core.batching import by_chunk, evenly
from bayeskern.diagnostics.report.blocks import Block, missing
from bayeskern.diagnostics.report.priors import SitePrior
from bayeskern.diagnostics.report.subject import Subject
from bayeskern.diagnostics.report.wording import listed
from bayeskern.inference import Target
from bayeskern.inference.approximation.psis import has_even_tail

block = partial(Block, "sensitivity")


def sensitivity(subject: Subject) -> Iterator[Block]:
    """Blocks of the section "Sensitivity to the prior"."""
    p = subject.posterior
    if p.is_point:
        yield block("point")
    elif not subject.has_model:
        yield block("no_model")
    elif subject.posterior.known_target.discrete:
        yield block("discrete")
    elif not p.observed():
        yield block("nothing_observed")
    elif p.shape[0] * p.shape[1] < 100:
        yield block("few_draws")
    elif not (priors := _priors_to_scale(subject)):
        yield block("no_prior")
    elif not subject.varying:
        yield block("no_variation")
    else:
        yield from _power_scaling(subject, priors)


def _power_scaling(subject: Subject, priors: list[SitePrior]) -> Iterator[Block]:
    # The density of each draw may cost O(n^3).
    rows = evenly(subject.posterior.shape[1], 1000 // subject.posterior.shape[0])
    log_prior, log_likelihood = densities(subject, [prior.site for prior in priors], rows)
    sites = listed([prior.site for prior in priors], 10)
    why = _why_no_weights(log_prior, log_likelihood, sites)
    if why:
        yield missing(why)
        return
    # ArviZ diagnoses 80 parameters; the table below shows 40.
    varying = list(subject.varying.items())[:80]
    draws = {name: x[:, rows] for name, x in varying if np.ptp(x[:, rows]) > 0}
    table = power_scaling(draws, log_prior, log_likelihood)
    conflicts = [str(i) for i in table.index if str(table.loc[i].iloc[-1]) not in ("✓", "")]
    yield block(
        "table",
        head=("parameter", *map(str, table.columns)),
        rows=[(name, *map(_cell, table.loc[name])) for name in list(draws)[:40]],
        conflicts=conflicts,
        sites=sites,
        not_scaled=[p.site for p in _proper(subject) if p not in priors],
    )


def _cell(value: Any) -> str:
    return f"{value:.3f}" if isinstance(value, float) else str(value)


def _proper(subject: Subject) -> list[SitePrior]:
    return [prior for prior in subject.priors.values() if prior.distribution is not None]


def _priors_to_scale(subject: Subject) -> list[SitePrior]:
    """Priors to scale: those at the top of the model, which depend on no other site.

    Other priors are part of the model (Kallioinen et al. 2024, on hierarchical models). So are
    priors of members of a plate, and of sites with at least one element per observation.
    """
    observations = max(np.size(values) for values in subject.posterior.observed().values())
    top = [p for p in _proper(subject) if p.is_unconditional]
    # Without any other prior at the top, the priors of plates and large sites are scaled.
    return [p for p in top if not p.in_plate and np.prod(p.shape) < max(observations, 2)] or top


def densities(
    subject: Subject, sites: Sequence[str], rows: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Log prior of some sites, and log likelihood, at some draws of each chain.

    Args:
        subject: A posterior with its model.
        sites: Names of the sites.
        rows: Indices of the draws, (m,).

    Returns:
        Both densities, (chains, m).
    """
    draws = subject.posterior.draws
    flat = {
        s.name: draws[s.name][:, rows].reshape(-1, *draws[s.name].shape[2:])
        for s in subject.posterior.known_target.latents
    }
    by_site = log_probs(subject.posterior.known_target, flat)
    log_prior = sum(v for site, v in by_site.items() if site in sites)
    log_likelihood = sum(v for site, v in by_site.items() if site not in flat)
    shape = (-1, len(rows))
    return np.reshape(log_prior, shape), np.reshape(log_likelihood, shape)


def _why_no_weights(log_prior: np.ndarray, log_likelihood: np.ndarray, sites: str) -> str:
    """Reason why draws cannot be weighted by a power of these densities, or ""."""
    for name, log in ((f"prior of {sites}", log_prior), ("likelihood", log_likelihood)):
        x = log.ravel()
        if not np.isfinite(x).all():
            return f"The {name} is not finite at some draws, so it cannot be scaled."
        # The spread of a flat density is rounding.
        is_flat = np.ptp(x) <= 1e-12 * max(1.0, np.abs(x).max())
        if is_flat or has_even_tail(x) or has_even_tail(-x):
            return f"The {name} is the same at too many draws, so it cannot be scaled."
    return ""


def power_scaling(
    draws: Mapping[str, np.ndarray], log_prior: np.ndarray, log_likelihood: np.ndarray
) -> Any:
    """Table of sensitivities by ArviZ, with a row for each parameter.

    Args:
        draws: Draws of each parameter, (chains, draws), by name.
        log_prior: Log density of the prior, (chains, draws).
        log_likelihood: Log likelihood, (chains, draws).
    """
    tree = az.from_dict(
        {
            # Names of parameters may be invalid in a DataTree.
            "posterior": {"x": np.stack(list(draws.values()), axis=-1)},
            "log_prior": {"prior": log_prior},
            "log_likelihood": {"data": log_likelihood[..., None]},
        }
    )
    # Silenced: ArviZ logs hints that refer to its own documentation.
    log = logging.getLogger("arviz_stats")
    level = log.level
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        log.setLevel(logging.ERROR)
        try:
            table = az.psense_summary(tree)
        finally:
            log.setLevel(level)
    table.index = list(draws)
    return table


def log_probs(target: Target, draws: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Log density of each site, summed over its elements, at S draws: (S,)."""
    return by_chunk(lambda part: _log_probs(target, part), draws, 1)


@eqx.filter_jit
def _log_probs(target, draws):
    return jax.lax.map(target.site_log_probs, draws)
