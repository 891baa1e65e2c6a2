"""Normal and Student t proposals, in NumPy: there is nothing to compile before the first draw."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import solve_triangular
from scipy.special import gammaln, log_softmax, logsumexp, softmax

from bayeskern.inference.approximation.psis import weighted_moments
from bayeskern.inference.optimization.factors import robust_cholesky

# A part of a mixture keeps at least this share, so that a mode is not lost by bad luck.
LEAST_SHARE = 0.02


@dataclass(frozen=True, eq=False)
class Elliptical:
    """A mixture of normal or, with `tails` degrees of freedom, of multivariate Student t parts.

    means: (k, d); trils: (k, d, d), Cholesky factors of the covariance (of the scale matrix for
    t); log_weights: (k,), which need not be normalised.
    """

    means: np.ndarray
    trils: np.ndarray
    log_weights: np.ndarray
    tails: float | None = None

    @classmethod
    def of(cls, mean, tril, tails: float | None = None) -> Elliptical:
        """A single part: mean (d,), tril (d, d)."""
        return cls(np.asarray(mean)[None], np.asarray(tril)[None], np.zeros(1), tails)

    @classmethod
    def around(cls, z, tails: float | None, wider: float = 1.0) -> Elliptical:
        """A single part at the moments of draws z (n, d), its scale `wider` times theirs."""
        mean, covariance = weighted_moments(z, np.full(len(z), 1.0 / len(z)))
        return cls.of(mean, wider * robust_cholesky(covariance), tails)

    def draw(self, rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
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

    def log_density(self, z) -> np.ndarray:
        return logsumexp(self.log_parts(z), axis=1)

    def with_tails(self, tails: float | None, z=None) -> Elliptical:
        return replace(self, tails=tails)

    def refit(self, z, weights) -> Elliptical:
        """Each part at the weighted moments of the draws that are due to it.

        The covariance becomes the scale also of a Student t, which is wider for it, on purpose.
        Cappe, Douc, Guillin, Marin and Robert (2008), "Adaptive importance sampling in general
        mixture classes", equations 14-16.
        """
        share = weights[:, None] * softmax(self.log_parts(z), axis=1)
        means, trils, sizes = [], [], []
        for i, size in enumerate(share.sum(axis=0)):
            if size < LEAST_SHARE:
                # Too few draws to fit it again.
                mean, tril = self.means[i], self.trils[i]
            else:
                mean, covariance = weighted_moments(z, share[:, i] / size)
                tril = robust_cholesky(covariance)
            means.append(mean), trils.append(tril), sizes.append(max(size, LEAST_SHARE))
        return Elliptical(np.stack(means), np.stack(trils), np.log(sizes), self.tails)

    def log_parts(self, z) -> np.ndarray:
        """The log density of each part, its weight included: (n, k)."""
        parts = [self._log_part(z, *part) for part in zip(self.means, self.trils, strict=True)]
        return np.stack(parts, axis=1) + log_softmax(self.log_weights)

    def _log_part(self, z, mean, tril) -> np.ndarray:
        d, tails = len(mean), self.tails
        # Far out, the square overflows: a density of zero there, as it should be.
        with np.errstate(over="ignore"):
            white = solve_triangular(tril, (z - mean).T, lower=True, check_finite=False)
            square = np.sum(np.square(white), axis=0)
        log_det = np.sum(np.log(np.diag(tril)))
        if tails is None:
            return -0.5 * square - 0.5 * d * np.log(2.0 * np.pi) - log_det
        size = gammaln(0.5 * (tails + d)) - gammaln(0.5 * tails) - 0.5 * d * np.log(tails * np.pi)
        return size - log_det - 0.5 * (tails + d) * np.log1p(square / tails)
