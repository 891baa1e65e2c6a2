"""Stacking weights of models of the same data, by leave-one-out.

Yao, Vehtari, Simpson and Gelman (2018), "Using stacking to average Bayesian predictive
distributions".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize

from bayeskern.diagnostics.leave_one_out.result import CrossValidation
from bayeskern.inference import Estimate, Posterior
from bayeskern.inference.posterior.netcdf import log_density

# Number of bootstrap samples of the observations.
BOOTSTRAPS = 100
# Tolerance by which a derivative of the mean log score may exceed its bound at the optimum.
OPTIMALITY_TOL = 1e-3


class Stacked(NamedTuple):
    """Result of stacking for one model.

    Attributes:
        weight: Weight of the model in the best average of predictive distributions for left-out
            observations.
        elpd_difference: Difference of its elpd from the largest elpd.
    """

    weight: Estimate
    elpd_difference: Estimate


def stacked(results: Mapping[str, CrossValidation], seed: int = 0) -> dict[str, Stacked]:
    """Stacking weights of several models, with bootstrap errors.

    Args:
        results: Leave-one-out of the same observations, by name of the model.
        seed: Seed of the bootstrap.
    """
    elpd = np.stack([result.estimates.elpd for result in results.values()], axis=1)
    count = len(elpd)
    # Weights do not change if the densities of one observation are divided by the largest one.
    densities = np.exp(elpd - elpd.max(axis=1, keepdims=True))
    weights = stacking_weights(densities, np.ones(count))
    rng = np.random.default_rng(seed)
    counts = rng.multinomial(count, np.full(count, 1.0 / count), size=BOOTSTRAPS)
    errors = np.std([stacking_weights(densities, n) for n in counts], axis=0)
    best = int(np.argmax(elpd.sum(axis=0)))
    differences = elpd - elpd[:, [best]]
    return {
        name: Stacked(
            Estimate(float(weights[k]), float(errors[k])),
            Estimate(
                float(np.sum(differences[:, k])),
                float(np.sqrt(count * np.var(differences[:, k]))),
            ),
        )
        for k, name in enumerate(results)
    }


def stacking_weights(densities: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Stacking weights w, which sum to one.

    They maximise sum_i counts_i log sum_k w_k densities_ik. `compare` of ArviZ computes the same
    weights, but without counts.

    Args:
        densities: Predictive density of each left-out observation by each model, (n, K).
        counts: How often each observation counts, (n,).

    Returns:
        The weights, (K,); NaN if the optimiser did not converge.
    """

    def score(w: np.ndarray) -> tuple[float, np.ndarray]:
        # Bounded, so that the gradient does not overflow at a corner.
        mixture = np.maximum(densities @ w, 1e-30)
        gradient = (counts / mixture) @ densities
        return -float(counts @ np.log(mixture)) / total, -gradient / total

    total, models = np.sum(counts), densities.shape[1]
    optimum = minimize(
        score,
        np.full(models, 1.0 / models),
        jac=True,
        method="SLSQP",
        bounds=[(0.0, 1.0)] * models,
        constraints={"type": "eq", "fun": lambda w: np.sum(w) - 1.0, "jac": np.ones_like},
        options={"ftol": 1e-10},
    )
    weights = np.clip(optimum.x, 0.0, 1.0)
    weights = weights / np.sum(weights)
    # At the maximum, no derivative exceeds the average of all derivatives with these weights, 1.
    _, gradient = score(weights)
    return weights if -np.min(gradient) < 1.0 + OPTIMALITY_TOL else np.full(models, np.nan)


def are_one_model(posteriors: list[Posterior]) -> bool:
    """True if posteriors have the same sites and, if known, the same density."""
    first, *others = posteriors
    return all(_same_model(first, other) for other in others)


def _same_model(a: Posterior, b: Posterior) -> bool:
    shapes = [{name: v.shape[2:] for name, v in p.draws.items()} for p in (a, b)]
    if shapes[0] != shapes[1]:
        return False
    # A method may have fitted a form of the model with other latents.
    if a.target is None or b.target is None or a.target.latents != b.target.latents:
        return True
    densities = [log_density(p.known_target, a.draws) for p in (a, b)]
    if None in densities:
        return True
    return bool(np.isclose(densities[0], densities[1], rtol=1e-6, atol=1e-6, equal_nan=True))  # pyright: ignore[reportArgumentType, reportCallIssue]
