"""Leave-one-out cross-validation (LOO) by Pareto smoothed importance sampling.

Vehtari, Gelman and Gabry (2017), "Practical Bayesian model evaluation using leave-one-out
cross-validation and WAIC".
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from bayeskern.core.scalars import scalar_columns
from bayeskern.inference import Posterior
from bayeskern.inference.approximation.psis import has_even_tail


def psis_loo(log_likelihood: np.ndarray, efficiency: float, power: np.ndarray | float = 1.0) -> Any:
    """Pointwise PSIS-LOO of one site, or a sentence with the reason for its failure.

    Warnings are silenced, because callers show the k-hats.

    Args:
        log_likelihood: Log likelihood of each observation, (chains, draws, *site).
        efficiency: Effective draws per draw, as `relative_efficiency` returns it.
        power: Power of the likelihood of each observation in the posterior, a number or (*site).

    Returns:
        An ELPDData of ArviZ, or the sentence.
    """
    count = log_likelihood.shape[0] * log_likelihood.shape[1]
    by_draw = log_likelihood.reshape(count, -1)
    if by_draw.shape[1] < 2:
        return "LOO needs at least 2 observations; there is only one."
    if count < 25:
        # Fewer draws have no tail of weights to smooth.
        return f"LOO needs at least 25 draws; there are {count}."
    broken = ~np.isfinite(by_draw).all(axis=1)
    if broken.any():
        return (
            f"The log likelihood is not finite at {broken.sum():,} of {count:,} draws, so LOO "
            "is unavailable. Check the model at these draws."
        )
    if any(has_even_tail(-column, efficiency) for column in by_draw.T):
        return (
            "LOO is unavailable: there are too few distinct draws to leave out an observation by "
            "importance weighting."
        )
    import arviz as az  # slow to import

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tree = az.from_dict({"log_likelihood": {"y": log_likelihood}})
        smoothed = {}
        if np.any(power != 1.0):
            powered = az.from_dict({"log_likelihood": {"y": log_likelihood * power}})
            powered = powered["log_likelihood"].dataset["y"]
            weights, khat = powered.azstats.psislw(r_eff=efficiency, dim=["chain", "draw"])
            smoothed = {"log_weights": weights, "pareto_k": khat}
        return az.loo(tree, var_name="y", reff=efficiency, pointwise=True, **smoothed)


def relative_efficiency(posterior: Posterior) -> float:
    """Effective draws per draw, averaged over parameters; 1 without chains of MCMC."""
    if not posterior.has_chains:
        return 1.0
    from arviz_stats.base.array import array_stats  # slow to import

    x = scalar_columns(posterior.flat)[1].reshape(*posterior.shape, -1)
    with warnings.catch_warnings():
        # A constant parameter has no effective draws and is left out of the mean.
        warnings.simplefilter("ignore")
        efficiency = array_stats.ess(np.moveaxis(x, -1, 0), method="mean", relative=True)
        return float(np.clip(np.nanmean(efficiency), 1e-3, 1.0))
