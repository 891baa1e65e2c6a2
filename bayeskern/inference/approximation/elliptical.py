"""Mixtures of normal and Student t distributions, in NumPy without compilation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import solve_triangular
from scipy.special import gammaln, log_softmax, logsumexp, softmax

from bayeskern.inference.approximation.psis import weighted_moments
from bayeskern.inference.search.factors import robust_cholesky

# Minimum share of a part of a mixture, so that no mode is lost by chance.
MIN_PART_SHARE = 0.02


@dataclass(frozen=True, eq=False)
class Elliptical:
    """A mixture of k normal or multivariate Student t distributions.

    Attributes:
        means: (k, d).
        trils: Cholesky factors of the covariances (of the scale matrices for t), (k, d, d).
        log_weights: Log weights, which need not be normalised, (k,).
        tails: Degrees of freedom; None for normal distributions.
    """

    means: np.ndarray
    trils: np.ndarray
    log_weights: np.ndarray
    tails: float | None = None

    @classmethod
    def at_mean(cls, mean: np.ndarray, tril: np.ndarray, tails: float | None = None) -> Elliptical:
        """A single distribution: mean (d,), tril (d, d)."""
        return cls(np.asarray(mean)[None], np.asarray(tril)[None], np.zeros(1), tails)

    @classmethod
    def around(cls, z: np.ndarray, tails: float | None, wider: float = 1.0) -> Elliptical:
        """A single distribution with the moments of draws z (n, d), `wider` times as wide."""
        mean, covariance = weighted_moments(z, np.full(len(z), 1.0 / len(z)))
        return cls.at_mean(mean, wider * robust_cholesky(covariance), tails)

    @classmethod
    def joined(cls, mixtures: Sequence[Elliptical]) -> Elliptical:
        """One mixture of all parts of these mixtures, with their log weights unchanged."""
        arrays = zip(*((m.means, m.trils, m.log_weights) for m in mixtures), strict=True)
        means, trils, log_weights = map(np.concatenate, arrays)
        return cls(means, trils, log_weights, mixtures[0].tails)

    def largest(self, count: int) -> Elliptical:
        """The parts of largest weight, at most `count`."""
        chosen = np.argsort(-self.log_weights, kind="stable")[:count]
        return Elliptical(
            self.means[chosen], self.trils[chosen], self.log_weights[chosen], self.tails
        )

    def with_share(self, share: float, factor: float = 1.0) -> Elliptical:
        """A copy with weights that sum to `share` and scales `factor` times as large."""
        log_weights = log_softmax(self.log_weights) + np.log(share)
        return replace(self, trils=factor * self.trils, log_weights=log_weights)

    def draw(self, rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
        """n draws (n, d) and their log densities (n,)."""
        k, d = self.means.shape
        part = rng.choice(k, n, p=softmax(self.log_weights))
        z = rng.standard_normal((n, d))
        if self.tails is not None:
            z /= np.sqrt(rng.chisquare(self.tails, (n, 1)) / self.tails)
        # Part by part: a factor for each draw would be n x d x d numbers.
        for i in range(k):
            rows = part == i
            z[rows] = self.means[i] + z[rows] @ self.trils[i].T
        return z, self.log_density(z)

    def log_density(self, z: np.ndarray) -> np.ndarray:
        """Log density: (n, d) -> (n,)."""
        return np.asarray(logsumexp(self.log_parts(z), axis=1))

    def refit(self, z: np.ndarray, weights: np.ndarray) -> Elliptical:
        """A copy with each part refitted to its share of the weighted draws z (n, d).

        The weighted covariance is the scale matrix also of a Student t, which is wider than the
        draws on purpose.
        Cappe, Douc, Guillin, Marin and Robert (2008), "Adaptive importance sampling in general
        mixture classes", equations 14-16.
        """
        responsibilities = weights[:, None] * softmax(self.log_parts(z), axis=1)
        shares = responsibilities.sum(axis=0)
        means, trils = self.means.copy(), self.trils.copy()
        # A part with a smaller share has too few draws to be refitted.
        for i in np.flatnonzero(~(shares < MIN_PART_SHARE)):
            means[i], covariance = weighted_moments(z, responsibilities[:, i] / shares[i])
            trils[i] = robust_cholesky(covariance)
        return Elliptical(means, trils, np.log(np.maximum(shares, MIN_PART_SHARE)), self.tails)

    def log_parts(self, z: np.ndarray) -> np.ndarray:
        """Log density of each part at z (n, d), its weight included: (n, k)."""
        parts = [self._log_part(z, *part) for part in zip(self.means, self.trils, strict=True)]
        return np.stack(parts, axis=1) + log_softmax(self.log_weights)

    def _log_part(self, z: np.ndarray, mean: np.ndarray, tril: np.ndarray) -> np.ndarray:
        d, tails = len(mean), self.tails
        # At extreme values the square overflows, which gives a density of zero, as it should.
        with np.errstate(over="ignore"):
            white = solve_triangular(tril, (z - mean).T, lower=True, check_finite=False)
            square = np.sum(np.square(white), axis=0)
        log_det = np.sum(np.log(np.diag(tril)))
        if tails is None:
            return -0.5 * square - 0.5 * d * np.log(2.0 * np.pi) - log_det
        log_norm = (
            gammaln(0.5 * (tails + d)) - gammaln(0.5 * tails) - 0.5 * d * np.log(tails * np.pi)
        )
        return log_norm - log_det - 0.5 * (tails + d) * np.log1p(square / tails)
