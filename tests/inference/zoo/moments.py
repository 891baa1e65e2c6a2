"""Exact means and standard deviations: by sums over a grid, and of mixtures of normals."""

from typing import NamedTuple

import numpy as np
from scipy.special import softmax


class Moments(NamedTuple):
    """Mean and sd of a site, each with the shape of the site."""

    mean: np.ndarray
    sd: np.ndarray

    @classmethod
    def of(cls, distribution) -> "Moments":
        """Moments of a distribution of SciPy."""
        return cls(distribution.mean(), np.sqrt(distribution.var()))


def grid(*axes):
    """Arrays that broadcast to the product of the axes."""
    return np.meshgrid(*axes, indexing="ij", sparse=True)


def on_grid(log_density, **sites) -> dict[str, Moments]:
    """Moments of functions of a grid, weighted by a density.

    log_density: on a grid with cells of one volume. sites: by name, an array that broadcasts to
    the grid, or for a vector a list of these.
    """
    p = softmax(log_density)

    def moments(values):
        mean = np.sum(p * values)
        return mean, np.sqrt(np.sum(p * np.square(values - mean)))

    results = {}
    for name, values in sites.items():
        if isinstance(values, list):
            results[name] = Moments(*np.transpose([moments(v) for v in values]))
        else:
            results[name] = Moments(*map(np.asarray, moments(values)))
    return results


def mixed(log_weights, means, sds) -> Moments:
    """Moments of a mixture. log_weights: (k,), not normalised; means, sds: (k, ...)."""
    weights = softmax(log_weights)
    mean = np.tensordot(weights, means, axes=1)
    second = np.tensordot(weights, np.square(sds) + np.square(means), axes=1)
    return Moments(mean, np.sqrt(second - np.square(mean)))


def gaussian(precision, shift) -> Moments:
    """Moments of the normal density proportional to exp(shift' x - x' precision x / 2)."""
    covariance = np.linalg.inv(precision)
    return Moments(covariance @ shift, np.sqrt(np.diag(covariance)))
