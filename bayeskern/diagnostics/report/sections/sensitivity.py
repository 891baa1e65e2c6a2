"""Would other priors have given another answer? Power scaling of prior and likelihood.

Kallioinen, Paananen, Buerkner and Vehtari (2024), "Detecting and diagnosing prior and likelihood
sensitivity with power-scaling".
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator

import equinox as eqx
import jax
import numpy as np

from bayeskern.core.batching import by_chunk, evenly
from bayeskern.diagnostics.report.blocks import Missing, Table, Text
from bayeskern.diagnostics.report.priors import SitePrior
from bayeskern.diagnostics.report.wording import listed
from bayeskern.inference.approximation.psis import has_even_tail

# The most draws that are weighted, since the density of each may cost O(n^3), and the fewest.
MAX_DRAWS, MIN_DRAWS = 1000, 100
MAX_ROWS = 40
# A log density that varies by less than this share of its size counts as flat.
FLAT = 1e-12


def sensitivity(subject) -> Iterator:
    why = _why_not(subject)
    if why:
        yield Missing(why)
        return
    scaled, not_scaled = _scaled(subject)
    if not scaled:
        yield Missing(
            "No site has a proper prior that is the same whatever the others are, so there is no "
            "prior to scale."
        )
        return
    numbers = dict(list(subject.varying.items())[: 2 * MAX_ROWS])
    if not numbers:
        yield Missing("No number moves from draw to draw, so there is nothing to watch.")
        return
    log_prior, log_likelihood, rows = densities(subject, scaled)
    sites = listed([prior.site for prior in scaled], 10)
    why = _why_no_weights(log_prior, log_likelihood, sites)
    if why:
        yield Missing(why)
        return
    numbers = {name: x[:, rows] for name, x in numbers.items() if np.ptp(x[:, rows]) > 0}
    table = power_scaling(numbers, log_prior, log_likelihood)
    yield Text(
        "How much the posterior moves when the prior, or the likelihood, is made a little stronger "
        "or weaker. Good: little for the prior, more for the likelihood. A prior value above 0.05 "
        "means that the prior has a say; a likelihood value below it, too, that it has the only "
        "say."
    )
    head = ("parameter", *map(str, table.columns))
    yield Table(head, tuple((n, *map(_cell, table.loc[n])) for n in list(numbers)[:MAX_ROWS]))
    conflict = [str(i) for i in table.index if str(table.loc[i].iloc[-1]) not in ("✓", "")]
    if conflict:
        yield Text(f"Look at the priors that bear on {listed(conflict)}.")
    yield Text(f"Scaled: the priors of {sites}.")
    if not_scaled:
        yield Text(
            "Not scaled, since their priors depend on other sites, or are those of members of "
            "groups or of single observations, which are part of the model: "
            f"{listed([prior.site for prior in not_scaled])}."
        )


def _cell(value) -> str:
    return f"{value:.3f}" if isinstance(value, float) else str(value)


def _why_not(subject) -> str | None:
    p = subject.posterior
    if p is None:
        return "Nothing was fitted, so there is no prior to vary."
    if p.is_point:
        return "A point has no spread, so its sensitivity to the prior cannot be measured."
    if not subject.has_model:
        return "Without the model its prior density cannot be computed."
    if p.target.discrete:
        return "Discrete sites were summed out, so prior and likelihood cannot be told apart."
    if not subject.observed:
        return "Nothing is observed: the posterior is the prior."
    if len(next(iter(p.flat.values()))) < MIN_DRAWS:
        return f"There are fewer than {MIN_DRAWS} draws, too few to weight them."
    return None


def _scaled(subject) -> tuple[list[SitePrior], list[SitePrior]]:
    """The priors to scale, those at the top of the model, and the others.

    Below the top a prior is part of the model (Kallioinen et al. 2024, on hierarchical models), as
    is that of the members of a plate, or of as many numbers as there are observations.
    """
    observations = max(np.size(values) for values in subject.observed.values())
    proper = [p for p in subject.priors if p.distribution is not None]
    top = [p for p in proper if p.is_constant]
    # Without others at the top, as of coefficients in a plate, members are what there is.
    scaled = [p for p in top if not p.in_plate and np.prod(p.shape) < max(observations, 2)] or top
    return scaled, [p for p in proper if p not in scaled]


def densities(subject, scaled: list[SitePrior]):
    """log prior and log likelihood, (chains, draws) each, and which draws of a chain they are of.

    The prior is that of the sites to be scaled.
    """
    p = subject.posterior
    chains, count = p.shape
    rows = evenly(count, MAX_DRAWS // chains)
    draws = {
        s.name: p.draws[s.name][:, rows].reshape(-1, *p.draws[s.name].shape[2:])
        for s in p.target.latents
    }
    by_site = log_probs(p.target, draws)
    names = {prior.site for prior in scaled}
    log_prior = sum(v for site, v in by_site.items() if site in names)
    log_likelihood = sum(v for site, v in by_site.items() if site not in draws)
    shape = (chains, len(rows))
    return np.reshape(log_prior, shape), np.reshape(log_likelihood, shape), rows


def _why_no_weights(log_prior, log_likelihood, sites: str) -> str:
    """Why draws cannot be weighted by a power of these, if they cannot."""
    log_densities = {"prior": log_prior.ravel(), "likelihood": log_likelihood.ravel()}
    for name, log_density in log_densities.items():
        if not np.isfinite(log_density).all():
            return f"The {name} is not finite at some draws, so it cannot be scaled."
        if np.ptp(log_density) <= FLAT * max(1.0, np.abs(log_density).max()):
            if name == "prior":
                return f"The prior of {sites} is flat where the draws lie: nothing to scale."
            return "The likelihood is the same at all draws: the data say nothing here."
        if has_even_tail(log_density) or has_even_tail(-log_density):
            return f"The {name} is the same at many draws, too many to weight them by it."
    return ""


def power_scaling(numbers: dict, log_prior, log_likelihood):
    """ArviZ's table of sensitivities of numbers (chains, draws), by their names."""
    import arviz as az  # slow to import

    tree = az.from_dict(
        {
            # A tree does not allow every name that a number may have.
            "posterior": {"x": np.stack(list(numbers.values()), axis=-1)},
            "log_prior": {"prior": log_prior},
            "log_likelihood": {"data": log_likelihood[..., None]},
        }
    )
    table = _quiet_summary(tree)
    table.index = list(numbers)
    return table


def _quiet_summary(tree):
    """ArviZ's table without its log, which says where to read about its findings."""
    import arviz as az  # slow to import

    log = logging.getLogger("arviz_stats")
    level = log.level
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        log.setLevel(logging.ERROR)
        try:
            return az.psense_summary(tree)
        finally:
            log.setLevel(level)


def log_probs(target, draws: dict) -> dict[str, np.ndarray]:
    """The log density of each site, summed, at each of the draws: (S,)."""
    return by_chunk(lambda part: _log_probs(target, part), draws, 1)


@eqx.filter_jit
def _log_probs(target, draws):
    return jax.lax.map(target.site_log_probs, draws)
