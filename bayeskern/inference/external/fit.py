"""Draws of another program as a fit: search for missed regions, and verdict."""

from __future__ import annotations

from functools import partial

import numpy as np

from bayeskern.core.batching import evenly
from bayeskern.core.formatting import counted
from bayeskern.inference.assessment.draws import DrawsAssessment
from bayeskern.inference.external.draws import ExternalDraws
from bayeskern.inference.findings import Findings
from bayeskern.inference.mcmc.chains import Plan
from bayeskern.inference.mcmc.exploration import Exploration
from bayeskern.inference.mcmc.initialization import find_modes
from bayeskern.inference.mcmc.kernel import KernelOptions, Transitions
from bayeskern.inference.mcmc.mass_matrix import MetricShape
from bayeskern.inference.mcmc.moves import moved_draws
from bayeskern.inference.mcmc.visits import ChainVisits
from bayeskern.inference.model.evaluation import log_densities
from bayeskern.inference.model.exchangeable import Exchanges
from bayeskern.inference.model.target import Target
from bayeskern.inference.result import Fit, KnownVerdict
from bayeskern.inference.search.modes import Optimum
from bayeskern.inference.verdict import Trust

# Options of the chains that visit regions without draws, as in `NUTS`.
VISITS = KernelOptions(target_accept=np.asarray(0.8), max_tree_depth=10)
VISIT_LENGTH = Plan(warmup=1000, draws=1000)
# Evidence if there are too many coordinates for a search.
NO_SEARCH = {"unexplained_draws_followed": "not looked for"}
# Maximum number of chains that are compared in pairs, to find their regions.
MAX_CHAINS = 32


def fit_draws(
    target: Target,
    external: ExternalDraws,
    sample_stats: dict[str, np.ndarray],
    seed: int,
    progress: bool,
) -> Fit:
    """Fit of draws as they are, with a verdict.

    Args:
        target: The model.
        external: The draws: chains, or a single row without an order.
        sample_stats: Known statistics of the draws, by ArviZ's names, each (chains, draws).
        seed: Seed of the search for modes, of the visits and of the moves.
        progress: True to show a progress bar.
    """
    z, d = external.z, external.z.shape[-1]
    log_p = log_densities(target, z.reshape(-1, d), progress).reshape(z.shape[:2])
    fields = {"z": z, "draws": external.sites, "sample_stats": sample_stats | {"lp": log_p}}
    problem = _zero_density(log_p) or _no_spread(target, z)
    if problem:
        verdict = Trust("bad", problem, {"draws": log_p.size})
        return Fit(assess=KnownVerdict(verdict), **fields)
    optimum = find_modes(target, seed, progress)
    exchanges = Exchanges() if optimum is None else optimum.exchanges
    metric = MetricShape.from_option(target, "auto").metric(np.std(z, axis=(0, 1)))
    visits = ChainVisits(target, VISITS, metric, VISIT_LENGTH, seed)
    some = evenly(len(z), MAX_CHAINS)
    exploration = Exploration(target, _transitions(z[some], log_p[some]), visits, exchanges)
    exploration.explore(optimum, Findings(), seed)
    exploration.estimate_shares(seed)
    evidence = exploration.evidence | NO_SEARCH
    if optimum is not None:
        evidence |= optimum.search_evidence
    if external.ignored:
        evidence["sites_ignored"] = ", ".join(external.ignored)
    assess = DrawsAssessment(
        exploration.explored(evidence),
        [] if optimum is None else _modes(optimum),
        partial(moved_draws, seed=seed),
    )
    return Fit(assess=assess, findings=exploration.findings, **fields)


def _modes(optimum: Optimum) -> list[Optimum]:
    """Modes with a curvature that may hold much of the posterior, in one order."""
    return [
        mode
        for mode in (optimum, *optimum.influential)
        if mode.converged
        and mode.inverse_root[1] is None
        and optimum.exchanges.are_sorted(mode.z[None])[0]
    ]


def _zero_density(log_p: np.ndarray) -> str | None:
    """Advice if the density is zero or NaN at some draws; else None."""
    zero = int(np.sum(~np.isfinite(log_p)))
    if not zero:
        return None
    where = "every draw" if zero == log_p.size else f"{zero} of {counted(log_p.size, 'draw')}"
    return (
        f"The density of the model is zero or not a number at {where}, so that these are not draws "
        "of its posterior. Check that they belong to this model, with these priors and data."
    )


def _no_spread(target: Target, z: np.ndarray) -> str | None:
    """Advice if a coordinate is constant in a chain or in all draws; else None."""
    fixed = np.argwhere(np.ptp(z, axis=1) == 0.0)
    if not len(fixed):
        return None
    chain, coordinate = fixed[0]
    where = f"chain {chain} does" if len(z) > 1 else "the draws do"
    return f"{where.capitalize()} not move in {target.coordinates[coordinate]}: it has no spread."


def _transitions(z: np.ndarray, log_p: np.ndarray) -> Transitions:
    """Chains as transitions whose steps are unknown."""
    unknown = np.full(log_p.shape, np.nan)
    return Transitions(
        z=z,
        diverging=np.zeros(log_p.shape, bool),
        energy=unknown,
        potential=-log_p,
        n_steps=np.zeros(log_p.shape, int),
        acceptance_rate=unknown,
        step_size=unknown,
    )
