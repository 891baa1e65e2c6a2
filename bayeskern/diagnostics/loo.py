"""Leave-one-out cross-validation of a posterior, by Pareto smoothed importance sampling.

Vehtari, Gelman and Gabry (2017), "Practical Bayesian model evaluation using leave-one-out
cross-validation and WAIC".
"""

from __future__ import annotations

import warnings

import numpy as np

from bayeskern.core.scalars import scalar_columns


def psis_loo(tree, site: str, efficiency: float):
    """ArviZ's PSIS-LOO of one site of the group log_likelihood, pointwise.

    efficiency: as `relative_efficiency` returns it. ArviZ's warnings are silenced, since whoever
    calls this shows the k-hats.
    """
    import arviz as az

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return az.loo(tree, var_name=site, reff=efficiency, pointwise=True)


def relative_efficiency(posterior) -> float:
    """Effective draws per draw, on average over the numbers of the posterior; 1 without chains."""
    if not posterior.has_chains:
        return 1.0
    from arviz_stats.base import array_stats

    x = scalar_columns(posterior.flat)[1].reshape(*posterior.shape, -1)
    with warnings.catch_warnings():
        # A number that never moves has no effective draws, and is left out of the mean.
        warnings.simplefilter("ignore")
        efficiency = array_stats.ess(np.moveaxis(x, -1, 0), method="mean", relative=True)
        return float(np.clip(np.nanmean(efficiency), 1e-3, 1.0))
