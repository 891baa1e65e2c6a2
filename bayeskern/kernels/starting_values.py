"""Starting values of `Free` hyperparameters of a kernel, in the units of the data."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from scipy.spatial.distance import pdist

from bayeskern import hyperparameters as hyper
from bayeskern.hyperparameters.parametrized import Path
from bayeskern.kernels.base import Kernel
from bayeskern.kernels.compound import Sum
from bayeskern.kernels.wrappers import Named, Select, Warped, Wrapper

# Points whose distances are compared: 45,000 pairs are enough for a median.
MAX_POINTS = 300


def starting_values(
    kernel: Kernel, X: ArrayLike, variance: float | None = None
) -> dict[str, np.ndarray]:
    """Values of `Free` hyperparameters of a kernel in the units of the data.

    A lengthscale becomes the median distance of points that differ, in each dimension for a vector
    (Garreau, Jitkrittum and Kanagawa 2018, "Large sample analysis of the median heuristic"). The
    variances and scales of each additive term are multiplied by one factor, so that the mean of
    k(x, x) is `variance`. Other hyperparameters, such as periods, are left out.

    Args:
        kernel: The kernel; column names are resolved.
        X: Points, (n, d).
        variance: Mean square of the function, in the squared units of the output; None leaves
            variances out.

    Returns:
        Values by the dotted names of the hyperparameters, each of the shape of its `init`.
    """
    free = [s for s in hyper.sites(kernel) if isinstance(hyper.get(kernel, s.path), hyper.Free)]
    if not free:
        return {}
    concrete = hyper.at_medians(kernel)
    values: dict[str, np.ndarray] = {}
    amplitudes: dict[Path, list[hyper.Site]] = {}
    for site in free:
        node, points, term = _locate(concrete, site.path, jnp.asarray(X))
        if site.path[-1] == "lengthscale" and node.is_radial:
            lengthscale = _median_distance(np.asarray(points), hyper.get(concrete, site.path))
            if lengthscale is not None:
                values[site.name] = lengthscale
        elif site.path[-1] in ("variance", "scale"):
            amplitudes.setdefault(term, []).append(site)
    if not variance:
        return values
    for term, sites in amplitudes.items():
        node, points, _ = _locate(concrete, (*term, ""), jnp.asarray(X))
        ratio = variance / float(jnp.mean(node.evaluate_diag(points)))
        if np.isfinite(ratio) and ratio > 0.0:
            for site in sites:
                init = np.asarray(hyper.get(concrete, site.path))
                values[site.name] = init * ratio ** (1.0 / len(sites))
    return values


def _locate(kernel: Kernel, path: Path, X: Any) -> tuple[Any, Any, Path]:
    """Module that holds a hyperparameter, its points, and the path of its additive term."""
    node, term, is_additive = kernel, (), True
    for i, step in enumerate(path[:-1]):
        if isinstance(node, Wrapper) and step == "inner":
            X = node._map(X)
        # Variances inside a product, a power or 2 * (a + b) belong to it as a whole.
        is_additive = is_additive and isinstance(node, Sum | tuple | Named | Select | Warped)
        node = hyper.get(node, (step,))
        if is_additive:
            term = path[: i + 1]
    return node, X, term


def _median_distance(X: np.ndarray, like: Any) -> np.ndarray | None:
    """Median distance of points that differ, in the shape of a lengthscale; None without any."""
    shape = np.shape(like)
    # Evenly spaced rows: the same rows for the same data.
    rows = np.unique(np.linspace(0, len(X) - 1, min(len(X), MAX_POINTS)).astype(int))
    by_column = np.prod(shape) > 1 or len(shape) == 2
    groups = X[rows].T[:, :, None] if by_column else X[rows][None]
    medians = np.array([_median_above_0(pdist(points)) for points in groups])
    if not np.all(medians > 0.0):
        return None
    return np.diag(medians) if len(shape) == 2 else np.reshape(medians, shape)


def _median_above_0(distances: np.ndarray) -> float:
    positive = distances[distances > 0.0]
    return float(np.median(positive)) if len(positive) else 0.0
