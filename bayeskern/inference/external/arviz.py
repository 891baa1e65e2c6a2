"""Draws and sample statistics of an ArviZ DataTree or InferenceData."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

# Sample statistics that a verdict or a report reads: name in ArviZ or nutpie -> name in ArviZ.
STATISTICS = {
    "diverging": "diverging",
    "energy": "energy",
    "reached_max_treedepth": "reached_max_treedepth",
    "maxdepth_reached": "reached_max_treedepth",
    "tree_depth": "tree_depth",
    "depth": "tree_depth",
    "n_steps": "n_steps",
    "acceptance_rate": "acceptance_rate",
    "step_size": "step_size",
}


class Groups(NamedTuple):
    """The groups of a tree that a verdict needs.

    Attributes:
        draws: The group posterior, each variable (chains, draws, *site).
        sample_stats: Known statistics of the draws, each (chains, draws).
        library: Name of the library that made the draws; "" if unknown.
    """

    draws: dict[str, np.ndarray]
    sample_stats: dict[str, np.ndarray]
    library: str


def read_groups(idata: Any) -> Groups:
    """Read the groups posterior and sample_stats.

    Args:
        idata: A DataTree of ArviZ 1, or an InferenceData of earlier versions.

    Raises:
        TypeError: If `idata` has no groups.
        ValueError: If there is no group posterior with the dimensions chain and draw, or if
            statistics have another number of draws.
    """
    # Groups are attributes both of a DataTree and of an InferenceData.
    posterior, group = (getattr(idata, name, None) for name in ("posterior", "sample_stats"))
    if not hasattr(idata, "groups"):
        raise TypeError(
            "idata must be a DataTree or InferenceData of ArviZ with a group posterior; got "
            f"{type(idata).__name__}. A dict of draws is passed as draws=."
        )
    if posterior is None:
        raise ValueError(
            "idata has no group 'posterior': pass the tree that the sampler or ArviZ returned, for "
            "example by az.from_numpyro, az.from_cmdstanpy or pm.sample."
        )
    draws = {}
    for name in posterior.data_vars:
        variable = posterior[name]
        if not {"chain", "draw"} <= set(variable.dims):
            raise ValueError(
                f"{name!r} in the group posterior has the dimensions {list(variable.dims)}, and "
                "needs chain and draw: pass the tree before its samples are stacked or extracted."
            )
        draws[str(name)] = variable.transpose("chain", "draw", ...).to_numpy()
    statistics = {}
    shape = next(iter(draws.values())).shape[:2] if draws else ()
    variables = {} if group is None else group.data_vars
    for name, variable in variables.items():
        if name in STATISTICS and set(variable.dims) == {"chain", "draw"}:
            values = variable.transpose("chain", "draw").to_numpy()
            if values.shape != shape:
                raise ValueError(
                    f"{name!r} in the group sample_stats has {values.shape} chains and draws, the "
                    f"group posterior {shape}: select the same draws from both."
                )
            statistics[STATISTICS[name]] = values
    return Groups(draws, statistics, str(posterior.attrs.get("inference_library", "")))
