"""Would other priors have given another answer? Power scaling of prior and likelihood.

Kallioinen, Paananen, Buerkner and Vehtari (2024), "Detecting and diagnosing prior and likelihood
sensitivity with power-scaling".
"""

from __future__ import annotations

from collections.abc import Iterator

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from numpyro import handlers
from numpyro.infer.util import compute_log_probs

from bayeskern.chunks import by_chunk, evenly
from bayeskern.diagnostics.report import priors
from bayeskern.diagnostics.report.blocks import Missing, Table, Text, listed
from bayeskern.inference.target import Whole

# Draws that densities are computed at; each may cost O(n^3).
DRAWS, ROWS, FEW = 1000, 40, 100


def sensitivity(subject) -> Iterator:
    why = _why_not(subject)
    if why:
        yield Missing(why)
        return
    scaled, left = _scaled(subject)
    if not scaled:
        yield Missing("No site has a proper prior of its own, so there is no prior to vary.")
        return
    tree = power_scaling(subject, scaled)
    if tree is None:
        yield Missing("The prior or the likelihood is not finite at some draws.")
        return
    table = _summary(tree)
    yield Text(
        "How much the posterior moves when the prior, or the likelihood, is made a little stronger "
        "or weaker. Good: little for the prior, more for the likelihood. A prior value above 0.05 "
        "means that the prior has a say; a likelihood value below it, too, that it has the only "
        "say."
    )
    head = ("parameter", *map(str, table.columns))
    rows = [(str(i), *(_cell(v) for v in table.loc[i])) for i in table.index[:ROWS]]
    yield Table(head, tuple(rows))
    conflict = [str(i) for i in table.index if str(table.loc[i].iloc[-1]) not in ("✓", "")]
    if conflict:
        yield Text(f"Look at the priors that bear on {listed(conflict)}.")
    yield Text(f"Scaled: the priors of {listed([s.site for s in scaled], 10)}.")
    if left:
        yield Text(
            f"Not scaled, since they belong to members of groups or to single observations, whose "
            f"priors are part of the model: {listed([s.site for s in left])}."
        )


def _summary(tree):
    import logging
    import warnings

    import arviz as az

    log = logging.getLogger("arviz_stats")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        level = log.level
        # It says where to read about its findings, which the report says itself.
        log.setLevel(logging.ERROR)
        try:
            return az.psense_summary(tree)
        finally:
            log.setLevel(level)


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
    if not p.observed():
        return "Nothing is observed: the posterior is the prior."
    if len(next(iter(p.flat.values()))) < FEW:
        return f"There are fewer than {FEW} draws, too few to weight them."
    return None


def _scaled(subject):
    """The priors to scale, and those to leave: of members of plates, or of each observation."""
    data = max(np.size(v) for v in subject.posterior.observed().values())
    known = [p for p in priors.priors(subject.posterior) if p.fn is not None]
    count = {p.site: int(np.prod(p.shape, dtype=int)) for p in known}
    left = [p for p in known if p.in_plate or count[p.site] >= max(data, 2)]
    kept = [p for p in known if p not in left]
    return (kept, left) if kept else (known, [])


def power_scaling(subject, scaled):
    """Draws with their log prior and log likelihood, as ArviZ wants them; None if not finite."""
    import arviz as az

    p = subject.posterior
    chains, count = next(iter(p.draws.values())).shape[:2]
    rows = evenly(count, DRAWS // chains)
    draws = {
        s.name: p.draws[s.name][:, rows].reshape(-1, *p.draws[s.name].shape[2:])
        for s in p.target.latents
    }
    found = log_probs(p.target, draws)
    names = {s.site for s in scaled}
    latents = set(draws)
    log_prior = sum(v for k, v in found.items() if k in names)
    log_likelihood = sum(v for k, v in found.items() if k not in latents)
    if not (np.isfinite(log_prior).all() and np.isfinite(log_likelihood).all()):
        return None
    shape = (chains, len(rows))
    numbers = {n: x[:, rows] for n, x in subject.moving.items()}
    numbers = {n: numbers[n] for n in list(numbers)[: 2 * ROWS] if np.ptp(numbers[n]) > 0}
    return az.from_dict(
        {
            "posterior": {n.replace("/", "."): x for n, x in numbers.items()},
            "log_prior": {"prior": np.reshape(log_prior, shape)},
            "log_likelihood": {"data": np.reshape(log_likelihood, shape)[..., None]},
        }
    )


def log_probs(target, draws: dict) -> dict[str, np.ndarray]:
    """The log density of each site, summed, at each of the draws: (S,)."""
    return by_chunk(lambda part: _log_probs(target, part), draws, 1)


@eqx.filter_jit
def _log_probs(target, draws):
    def one(draw):
        model = handlers.seed(Whole(target.model), jax.random.key(0))
        found, _ = compute_log_probs(model, target.args, target.kwargs, draw)
        return {name: jnp.sum(value) for name, value in found.items()}

    return jax.lax.map(one, draws)
