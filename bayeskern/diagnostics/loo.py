"""Leave-one-out cross-validation of a posterior, by Pareto smoothed importance sampling.

Vehtari, Gelman and Gabry (2017), "Practical Bayesian model evaluation using leave-one-out
cross-validation and WAIC".
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from bayeskern.core.scalars import scalar_columns
from bayeskern.inference import Posterior

if TYPE_CHECKING:
    import xarray as xr


def psis_loo(tree: xr.DataTree, site: str, efficiency: float) -> Any:
    """Pointwise PSIS-LOO of one site by ArviZ.

    Warnings are silenced, since callers show the k-hats.

    Args:
        tree: Tree with a group log_likelihood.
        site: Name of the site.
        efficiency: Effective draws per draw, as `relative_efficiency` returns it.

    Returns:
        An ELPDData of ArviZ.
    """
    import arviz as az  # slow to import

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return az.loo(tree, var_name=site, reff=efficiency, pointwise=True)


def relative_efficiency(posterior: Posterior) -> float:
    """Effective draws per draw, averaged over parameters; 1 without chains."""
    if not posterior.has_chains:
        return 1.0
    from arviz_stats.base.array import array_stats  # slow to import

    x = scalar_columns(posterior.flat)[1].reshape(*posterior.shape, -1)
    with warnings.catch_warnings():
        # A constant parameter has no effective draws and is left out of the mean.
        warnings.simplefilter("ignore")
        efficiency = array_stats.ess(np.moveaxis(x, -1, 0), method="mean", relative=True)
        return float(np.clip(np.nanmean(efficiency), 1e-3, 1.0))
