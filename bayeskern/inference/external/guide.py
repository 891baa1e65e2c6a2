"""Guides of NumPyro with fitted parameters, as fits."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
from numpyro.infer.autoguide import AutoLaplaceApproximation

from bayeskern.core.random import stream
from bayeskern.inference.approximation.guides import UserGuide
from bayeskern.inference.approximation.proposals import Approximation
from bayeskern.inference.approximation.psis import pareto_smooth
from bayeskern.inference.assessment.point import assess_point
from bayeskern.inference.findings import Findings
from bayeskern.inference.mcmc.exploration import MIN_SPIKE_SHARE
from bayeskern.inference.mcmc.shares import (
    integral_in_ellipsoid,
    proportions,
    share_in_ellipsoid,
)
from bayeskern.inference.methods.from_approximation import fit_from_approximation
from bayeskern.inference.model.evaluation import log_densities
from bayeskern.inference.model.target import Target
from bayeskern.inference.result import Fit
from bayeskern.inference.search.modes import Optimum
from bayeskern.inference.search.search import find_optimum
from bayeskern.inference.verdict import Trust

# Number of draws from the guide.
GUIDE_DRAWS = 4_000
# Number of starts of the search for modes near a guide, as for SVI, and its maximum number of
# steps.
GUIDE_SEARCH_STARTS, MAX_GUIDE_SEARCH_STEPS = 8, 1_000


def fit_guide(
    target: Target, guide: Callable, params: Mapping[str, Any], seed: int, progress: bool
) -> Fit:
    """Fit of draws from a guide, judged as for SVI; of its point if it has no spread.

    Args:
        target: The model.
        guide: A guide for its latent sites, or an autoguide.
        params: Constrained values of the parameters of the guide.
        seed: Seed of the draws and of the search for modes.
        progress: True to show a progress bar.

    Raises:
        ValueError: If the sites or the parameters do not fit, or the draws are not finite.
        TypeError: If `params` is not a mapping.
    """
    q = _approximation(target, guide, params)
    z, log_q = q.draw(stream(seed, "draws"), GUIDE_DRAWS)
    bad = ~np.isfinite(z)
    if bad.any():
        name = target.coordinates[int(np.argwhere(bad)[0][1])]
        raise ValueError(
            f"the guide draws values of {name} that are not finite: check its parameters."
        )
    is_point = np.ptp(z, axis=0) <= 1e-13 * np.max(np.abs(z), axis=0)
    search = partial(
        find_optimum,
        target,
        GUIDE_SEARCH_STARTS,
        seed,
        MAX_GUIDE_SEARCH_STEPS,
        progress,
        title="modes",
    )
    if is_point.all():
        optimum = search(jacobian=False)
        return Fit(z=z[:1][None], assess=assess_guide_point, optimum=optimum)
    problem = None
    if is_point.any():
        names = [name for name, fixed in zip(target.coordinates, is_point, strict=True) if fixed]
        problem = (
            f"The guide is a point in {', '.join(names)}, which has no spread. Take a guide with a "
            "distribution for it, such as AutoNormal or AutoMultivariateNormal."
        )
    optimum = search().bounded()
    problem = problem or _narrow_mode(target, optimum, z, log_q, seed)
    return fit_from_approximation(q, GUIDE_DRAWS, seed, optimum, problem)


def _approximation(target: Target, guide: Callable, params: Mapping[str, Any]) -> Approximation:
    """The distribution of a guide with these parameters."""
    family = UserGuide(target, guide)
    unconstrained = family.unconstrained(params)
    if isinstance(family.guide, AutoLaplaceApproximation):
        # As a guide, it is the mode alone; `get_posterior` returns its normal distribution.
        normal, posterior = copy.copy(family.guide), family.guide.get_posterior(dict(params))
        normal._get_posterior = lambda: posterior
        family, unconstrained = UserGuide(target, normal), {}
    return family.approximation(unconstrained)


def _narrow_mode(
    target: Target, optimum: Optimum, z: np.ndarray, log_q: np.ndarray, seed: int
) -> str | None:
    """Advice if a mode in the guide holds much mass but few draws; else None.

    The mode is much narrower than the guide, so that weighted draws do not show it.
    """
    modes = [optimum, *optimum.influential]
    outside = Findings((optimum,)).missed(target.coordinates, z)
    shares = [(mode, share_in_ellipsoid(mode, z)) for mode in modes]
    suspects = [
        (mode, share)
        for mode, share in shares
        if share < MIN_SPIKE_SHARE and not any(mode is other for other in outside)
    ]
    if not suspects:
        return None
    log_evidence = pareto_smooth(log_densities(target, z) - log_q).log_evidence
    for mode, draws_share in suspects:
        _, log_integral = integral_in_ellipsoid(target, mode, seed)
        share = proportions([log_evidence, log_integral])[1]
        min_share = share.value - 2.0 * share.error
        if min_share > max(MIN_SPIKE_SHARE, 2.0 * draws_share):
            return (
                f"A narrow mode holds at least {100.0 * min_share:.2g} % of the posterior, but "
                f"{100.0 * draws_share:.2g} % of the draws of the guide. Take method='nuts' or "
                "'smc', which draw from it in proportion to its share."
            )
    return None


# Largest distance of a point from a mode, in posterior sds.
MAX_MODE_DISTANCE_SDS = 0.1


def assess_guide_point(posterior: Fit) -> Trust:
    """Verdict on a guide that is one point, given the best mode."""
    optimum, z = posterior.optimum, posterior.z[0, 0]
    assert optimum is not None
    trust = assess_point(optimum)
    if trust.verdict == "bad":
        return trust
    modes = (optimum, *optimum.others)
    distances = [float(np.sqrt(mode.squared_distances(z[None])[0])) for mode in modes]
    nearest = int(np.argmin(distances))
    evidence = trust.evidence | {"distance_from_mode": distances[nearest]}
    if not distances[nearest] < MAX_MODE_DISTANCE_SDS:
        advice = (
            f"The point of the guide lies {distances[nearest]:.2g} posterior sds from the nearest "
            "mode: the optimiser has not converged. Take more steps, or a lower learning rate."
        )
        return Trust("bad", advice, evidence)
    if nearest:
        gap = optimum.log_density - modes[nearest].log_density
        advice = f"Another mode has a density {gap:.2g} nats higher. Start the optimiser there."
        return Trust("bad", advice, evidence)
    advice = (
        "The guide is a single point (AutoDelta or Delta), and it is the mode: a point has no "
        "spread, and intervals based on it are too narrow."
    )
    return Trust("not assessable", advice, evidence)
