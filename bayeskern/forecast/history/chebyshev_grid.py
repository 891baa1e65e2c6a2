"""Polynomial interpolation of smooth functions of two variables on a rectangle."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

# Most nodes in each direction.
MAX_NODES = 8
# Distance of the singularities of the functions from the rectangle. 1 / (1 + exp(x)) has its own at
# a distance of pi.
SINGULARITY_DISTANCE = 2.0


@dataclass(frozen=True, eq=False)
class ChebyshevGrid:
    """Nodes and weights of polynomial interpolation on a rectangle.

    Trefethen (2013), "Approximation theory and approximation practice", chapters 2 to 5.

    Attributes:
        axes: Nodes along each of the two directions.
    """

    axes: tuple[np.ndarray, np.ndarray]

    @classmethod
    def over(cls, points: np.ndarray, tol: float) -> ChebyshevGrid | None:
        """Grid for points (S, 2) and functions of the order of 1; None if it needs too many nodes.

        With k nodes on an interval of half width h the error is about 2 (h / (2 r))^k / k, for a
        function of the order of 1 with singularities r away, in the complex plane.
        """
        axes = []
        for values in points.T:
            middle, half = 0.5 * (values.max() + values.min()), 0.5 * np.ptp(values)
            counts = np.arange(1, MAX_NODES + 1)
            errors = 2.0 * (0.5 * half / SINGULARITY_DISTANCE) ** counts / counts
            enough = np.flatnonzero(errors <= tol)
            if len(enough) == 0:
                return None
            count = int(counts[enough[0]])
            angles = np.pi * (np.arange(count) + 0.5) / count
            axes.append(middle + half * np.cos(angles))
        return cls(tuple(axes))

    @property
    def nodes(self) -> np.ndarray:
        """All nodes: (k, 2)."""
        grid = np.meshgrid(*self.axes, indexing="ij")
        return np.stack(grid, axis=-1).reshape(-1, 2)

    def weights(self, points: np.ndarray) -> np.ndarray:
        """Weights of the nodes in the value at points (S, 2): (S, k)."""
        first, second = (_lagrange(a, v) for a, v in zip(self.axes, points.T, strict=True))
        return (first[:, :, None] * second[:, None, :]).reshape(len(points), -1)


def _lagrange(nodes: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Lagrange polynomials of nodes (k,) at values (S,): (S, k)."""
    out = np.ones((len(values), len(nodes)))
    for i, node in enumerate(nodes):
        for other in np.delete(nodes, i):
            out[:, i] *= (values - other) / (node - other)
    return out
