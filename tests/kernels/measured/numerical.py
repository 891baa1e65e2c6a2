"""Covariances of means by numerical integration of a kernel, cut where it may have kinks."""

from itertools import pairwise

import numpy as np
from numpy.polynomial.legendre import leggauss

NODES, WEIGHTS = leggauss(40)


def rule(a: float, b: float, kinks) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights of the mean over [a, b]; one node for a point."""
    if a == b:
        return np.array([a]), np.ones(1)
    cuts = [a, *sorted(x for x in kinks if a < x < b), b]
    pieces = list(pairwise(cuts))
    nodes = [low + (high - low) * (NODES + 1.0) / 2.0 for low, high in pieces]
    weights = [(high - low) * WEIGHTS / (2.0 * (b - a)) for low, high in pieces]
    return np.concatenate(nodes), np.concatenate(weights)


def covariances(k, intervals, kinks=()) -> np.ndarray:
    """Covariances of the means over intervals (a, b) of a process with the kernel k.

    Args:
        k: Function of points (n,) and (m,), the matrix (n, m).
        intervals: Pairs (a, b); a = b for a value.
        kinks: Times at which k has kinks, beside x = z.
    """
    K = np.empty((len(intervals), len(intervals)))
    for i, (a, b) in enumerate(intervals):
        for j, (c, d) in enumerate(intervals[: i + 1]):
            x, u = rule(a, b, (c, d, *kinks))
            rules = [rule(c, d, (x_i, *kinks)) for x_i in x]
            z = np.concatenate([z for z, _ in rules])
            values, start = np.asarray(k(x, z)), 0
            total = 0.0
            for x_row, u_i, (z_i, v) in zip(values, u, rules, strict=True):
                total += u_i * (x_row[start : start + len(z_i)] @ v)
                start += len(z_i)
            K[i, j] = K[j, i] = total
    return K
