"""Student t distributions of standardised errors, with a scale for each time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammaln, stdtr, stdtrit


@dataclass(frozen=True, eq=False)
class StudentErrors:
    """Errors scale_i e at m times i, where e has a Student t distribution.

    Attributes:
        scales: Scale of each time, (m,).
        degrees: Degrees of freedom; infinite for a normal distribution.
    """

    scales: np.ndarray
    degrees: float = np.inf

    @classmethod
    def normal(cls, count: int) -> StudentErrors:
        """Standard normal errors at `count` times."""
        return cls(np.ones(count))

    def at(self, indices: np.ndarray | slice) -> StudentErrors:
        """Errors at times with these indices."""
        return StudentErrors(self.scales[indices], self.degrees)

    @property
    def sd(self) -> float:
        """Standard deviation of e; infinite for at most two degrees of freedom."""
        return float(1.0 / np.sqrt(1.0 - 2.0 / self.degrees)) if self.degrees > 2.0 else np.inf

    def quantile(self, q: ArrayLike) -> np.ndarray:
        """Quantiles of e for probabilities q, in the shape of q."""
        return stdtrit(self.degrees, q)

    def below(self, e: ArrayLike) -> np.ndarray:
        """Distribution function of e."""
        return stdtr(self.degrees, e)

    def log_density(self, e: ArrayLike) -> np.ndarray:
        """Log density of e."""
        nu = self.degrees
        if np.isinf(nu):
            return -0.5 * np.square(e) - 0.5 * np.log(2.0 * np.pi)
        constant = gammaln(0.5 * (nu + 1.0)) - gammaln(0.5 * nu) - 0.5 * np.log(nu * np.pi)
        return constant - 0.5 * (nu + 1.0) * np.log1p(np.square(e) / nu)

    def sample(self, correlation: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
        """Joint draws of the errors at all times, (n, m).

        A draw is a normal vector times one random factor, which makes its errors Student t.

        Args:
            correlation: Correlation of the normal errors, (m, m).
            n: Number of draws.
            rng: Generator of the draws.
        """
        eigenvalues, vectors = np.linalg.eigh(correlation)
        root = vectors * np.sqrt(np.maximum(eigenvalues, 0.0))
        errors = rng.standard_normal((n, len(root))) @ root.T
        return errors * self.factors(n, rng) * self.scales

    def factors(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """Random factors that make normal errors Student t, (n, 1)."""
        if np.isinf(self.degrees):
            return np.ones((n, 1))
        return np.sqrt(self.degrees / rng.chisquare(self.degrees, (n, 1)))
