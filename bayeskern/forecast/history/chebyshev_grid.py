"""Polynomial interpolation of smooth functions of two variables on a rectangle."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, eq=False)
class ChebyshevGrid:
    """Nodes and weights of polynomial interpolation on a rectangle.

    Trefethen (2013), "Approximation theory and approximation practice", chapters 2 to 5.

    Attributes:
        axes: Nodes along each of the two directions.
    """

    axes: tuple[np.ndarray, np.ndarray]

    @classmethod
    def over(
        cls,
        points: np.ndarray,
        tol: float,
        *,
        max_nodes: int = 8,
        singularity_distance: float = 2.0,
    ) -> ChebyshevGrid | None:
        """Grid for functions of size about 1 at points (S, 2); None if it needs too many nodes.

        With k nodes on an interval of half width h, the error is about 2 (h / (2 r))^k / k for a
        function of size about 1 whose singularities in the complex plane lie at distance r.

        Args:
            points: Points at which the function is needed, (S, 2).
            tol: Absolute error.
            max_nodes: Largest number of nodes in each direction.
            singularity_distance: r. The singularities of 1 / (1 + exp(x)) lie at distance pi.
        """
        axes = []
        for values in points.T:
            middle, half = 0.5 * (values.max() + values.min()), 0.5 * np.ptp(values)
            counts = np.arange(1, max_nodes + 1)
            errors = 2.0 * (0.5 * half / singularity_distance) ** counts / counts
            if not np.any(errors <= tol):
                return None
            count = int(counts[np.argmax(errors <= tol)])
            angles = np.pi * (np.arange(count) + 0.5) / count
            axes.append(middle + half * np.cos(angles))
        return cls((axes[0], axes[1]))

    @property
    def nodes(self) -> np.ndarray:
        """All nodes: (k, 2)."""
        grid = np.meshgrid(*self.axes, indexing="ij")
        return np.stack(grid, axis=-1).reshape(-1, 2)

    def weights(self, points: np.ndarray) -> np.ndarray:
        """Weights of the nodes in the interpolated values at points (S, 2): (S, k)."""
        first, second = (_lagrange(a, v) for a, v in zip(self.axes, points.T, strict=True))
        return (first[:, :, None] * second[:, None, :]).reshape(len(points), -1)


def _lagrange(nodes: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Lagrange polynomials of nodes (k,) at values (S,): (S, k)."""
    out = np.ones((len(values), len(nodes)))
    for i, node in enumerate(nodes):
        for other in np.delete(nodes, i):
            out[:, i] *= (values - other) / (node - other)
    return out
