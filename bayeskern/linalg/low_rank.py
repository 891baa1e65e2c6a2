"""Covariance matrices of kernels with m features, in O(n m^2) time.

K = Phi Phi' + D, with n x m features Phi and diagonal noise D, is the covariance matrix of Bayesian
linear regression with weights ~ N(0, I). All results follow from the QR decomposition of A =
D^-1/2 Phi stacked on the identity, [A; I] = [Q_1; Q_2] R. The stacked matrix has full column rank
for any features, and R'R = I + A'A is the posterior precision of the weights. The normal equations
would square the condition number. Golub and Van Loan (2013), "Matrix computations", section 5.3;
Rasmussen and Williams (2006), section 2.1.

Noise variances, and so the rows, may differ by many orders of magnitude. The decomposition is
accurate row by row because the longest rows come first (Cox and Higham 1998, "Stability of
Householder QR factorization for weighted least squares problems"), and residuals because they are
projected twice (Giraud and others 2005, "The loss of orthogonality in the Gram-Schmidt
orthogonalization process").
"""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import solve_triangular

from bayeskern.core import validation
from bayeskern.core.validation import NotPositiveDefiniteError, is_traced
from bayeskern.kernels.base import Kernel
from bayeskern.kernels.components import in_component, part_of
from bayeskern.linalg.factor import AnyArray, Factor, scale_rows
from bayeskern.linalg.solver import Cost, Fits, Noise, NoisyGram, Refused, Solver


class LowRankFactor(Factor):
    """QR decomposition of a matrix K = Phi Phi' + D. Created by `compute`.

    L = D^1/2 (I + A (I + R')^-1 A'). L L' = K, because (I + R')(I + R) = 2 I + R + R' + A'A.
    Products take O(n m) time per column.

    Attributes:
        sd: Diagonal of D^1/2, shape (n,).
        Q1: Q_1, the rows of the data, shape (n, m).
        Q2: Q_2 = R^-1, the rows of the prior, shape (m, m).
        R: Upper triangular matrix with a positive diagonal, shape (m, m).
        jitter: 0.
    """

    sd: jax.Array
    Q1: jax.Array
    Q2: jax.Array
    R: jax.Array
    jitter: jax.Array

    @classmethod
    def compute(cls, phi: AnyArray, noise: AnyArray) -> LowRankFactor:
        """Factor Phi Phi' + D.

        Args:
            phi: Features, shape (n, m).
            noise: Diagonal of D, shape (n,).

        Returns:
            The factor.

        Raises:
            NotPositiveDefiniteError: A noise variance is 0, or below the rounding error of the
                variance of f. Under `jax.jit` the factor is NaN instead.
        """
        proper = _exceeds_rounding(phi, noise) & jnp.all(jnp.isfinite(phi), axis=1)
        if not is_traced(proper) and not np.all(proper):
            row = int(np.argmin(proper))
            raise NotPositiveDefiniteError(
                f"the noise variance of row {row}, {float(noise[row])!r}, is within the rounding "
                "error of the variance of f, so the covariance matrix cannot be factored. Increase "
                "the noise, or use solver='dense', which adds a jitter to the diagonal."
            )
        return cls._of_qr(jnp.where(proper[:, None], phi, 0.0), jnp.where(proper, noise, jnp.nan))

    @classmethod
    def _of_qr(cls, phi, noise) -> LowRankFactor:
        n, m = phi.shape
        sd = jnp.sqrt(noise)
        A = jnp.concatenate([phi / sd[:, None], jnp.eye(m)])
        order = jnp.argsort(-jnp.max(jnp.abs(A), axis=1, initial=0.0))
        Q, R = jnp.linalg.qr(A[order])
        sign = jnp.sign(jnp.diagonal(R))
        Q, R = jnp.zeros_like(Q).at[order].set(Q * sign), R * sign[:, None]
        return cls(sd=sd, Q1=Q[:n], Q2=Q[n:], R=R, jitter=jnp.zeros(()))

    def fit(self, Z: AnyArray) -> tuple[jax.Array, jax.Array]:
        """Least squares with the rows A, for targets Z (n, ...).

        Returns:
            The residuals Z - Q_1 Q_1'Z, (n, ...), and the coefficients Q_1'Z, (m, ...).
        """
        first = self.Q1.T @ Z
        residuals = jnp.asarray(Z) - self.Q1 @ first
        # What the residuals of all n + m rows still have in the span of Q is rounding error.
        rest = self.Q1.T @ residuals - self.Q2.T @ (self.Q2 @ first)
        return residuals - self.Q1 @ rest, first + rest

    def solve(self, B: AnyArray) -> jax.Array:
        residuals, _ = self.fit(scale_rows(1.0 / self.sd, B))
        return scale_rows(1.0 / self.sd, residuals)

    def whiten(self, B: AnyArray) -> jax.Array:
        Z = scale_rows(1.0 / self.sd, B)
        explained = self.Q1.T @ Z
        correction = solve_triangular(jnp.eye(len(self.R)) + self.R, explained)
        return Z - self.Q1 @ (explained - correction)

    def sqrt_mul(self, B: AnyArray) -> jax.Array:
        R = self.R
        # A = Q_1 R.
        weights = solve_triangular(jnp.eye(len(R)) + R, R.T @ (self.Q1.T @ B), trans="T")
        return scale_rows(self.sd, B + self.Q1 @ (R @ weights))

    def logdet(self) -> jax.Array:
        return 2.0 * (jnp.sum(jnp.log(self.sd)) + jnp.sum(jnp.log(jnp.diagonal(self.R))))

    def inv_diag(self) -> jax.Array:
        leverage = jnp.sum(jnp.square(self.Q1), axis=1)
        # At most 2 m rows have a leverage above 1/2, since the leverages sum to m at most. There
        # 1 - leverage would cancel: it is the squared length of the projected unit vector.
        n, m = self.Q1.shape
        _, rows = jax.lax.top_k(leverage, min(n, 2 * m))

        def of_projections():
            Q = jnp.concatenate([self.Q1, self.Q2])
            P = jnp.zeros((n + m, len(rows))).at[rows, jnp.arange(len(rows))].set(1.0)
            P = P - Q @ self.Q1[rows].T
            P = P - Q @ (Q.T @ P)
            return (1.0 - leverage).at[rows].set(jnp.sum(jnp.square(P), axis=0))

        is_high = jnp.any(leverage > 0.5)
        rest = jax.lax.cond(is_high, of_projections, lambda: 1.0 - leverage)
        return rest / jnp.square(self.sd)


def _exceeds_rounding(phi, noise) -> jax.Array:
    """Mask of the rows whose noise exceeds the rounding error of k(x, x): (n,)."""
    prior = jnp.sum(jnp.square(phi), axis=1)
    return noise > jnp.finfo(prior.dtype).eps * prior


@jax.custom_jvp
def log_density(phi: AnyArray, noise: AnyArray, r: AnyArray) -> jax.Array:
    """log N(r; 0, Phi Phi' + D), which can be differentiated any number of times.

    Args:
        phi: Features, shape (n, m).
        noise: Diagonal of D, shape (n,).
        r: Residuals, shape (n,).

    Returns:
        A number; -inf, with a gradient of 0, if the matrix is singular up to rounding.
    """
    return _density_and_slopes(phi, noise, r)[0]


@log_density.defjvp
def _log_density_jvp(primals, tangents):
    # With a = K^-1 r: a'dPhi Phi'a - tr(K^-1 dPhi Phi') + 1/2 tr((a a' - K^-1) dD) - a'dr.
    value, *slopes = _density_and_slopes(*primals)
    changes = [jnp.sum(slope * change) for slope, change in zip(slopes, tangents, strict=True)]
    return value, sum(changes[1:], changes[0])


def _density_and_slopes(phi, noise, r):
    """The log density and its derivatives in the features, the noise and the residuals."""
    finite = jnp.all(jnp.isfinite(phi)) & jnp.all(jnp.isfinite(r))
    proper = jnp.all(_exceeds_rounding(phi, noise)) & finite
    # If the density is -inf, the arguments are replaced by numbers with finite derivatives.
    phi, noise, r = (jnp.where(proper, x, safe) for x, safe in ((phi, 0.0), (noise, 1.0), (r, 0.0)))
    factor = LowRankFactor._of_qr(phi, noise)
    residuals, explained = factor.fit(r / factor.sd)
    weights = factor.Q2 @ explained  # Their posterior mean.
    a = residuals / factor.sd
    quadratic = residuals @ residuals + weights @ weights
    value = -0.5 * (quadratic + factor.logdet() + len(r) * jnp.log(2.0 * jnp.pi))
    slopes = (
        jnp.outer(a, weights) - (factor.Q1 @ factor.Q2.T) / factor.sd[:, None],
        0.5 * (jnp.square(a) - factor.inv_diag()),
        -a,
    )
    return jnp.where(proper, value, -jnp.inf), *(jnp.where(proper, s, 0.0) for s in slopes)


class LowRankSolver(Solver):
    """Bayesian linear regression, for kernels with finitely many features."""

    name = "low_rank"

    def applicability(
        self, kernel: Kernel, X, noise: Noise = 0.0, observed: AnyArray | None = None
    ) -> Fits | Refused:
        for part in kernel.series():
            return Refused(f"{part!r} has infinitely many features")
        points = jax.ShapeDtypeStruct(X.shape, X.dtype)
        try:
            phi = eqx.filter_eval_shape(lambda X: kernel.features(X, None), points)
        except ValueError as reason:
            return Refused(str(reason).partition(". ")[0].rstrip("."))
        n, m = phi.shape
        # Operations: two QR decompositions. Memory: the decomposition, the features, and their
        # derivatives.
        operations = 12.0 * (n + m) * m**2 + 50.0 * n * m
        return Fits(Cost(operations, 8.0 * (10.0 * (n + m) * m + 5.0 * n)))

    def factor(self, C: NoisyGram) -> LowRankFactor:
        return LowRankFactor.compute(*_features_and_noise(C))

    def mean(
        self, C: NoisyGram, part: str | None, factor: Factor | None, r, weights, X_new
    ) -> jax.Array:
        if factor is None:
            kernel = part_of(C.kernel, part)
            return kernel.features(X_new, None) @ (kernel.features(C.X, None).T @ weights)
        assert isinstance(factor, LowRankFactor)
        # From the posterior mean of the weights: the sum over the rows would cancel.
        _, explained = factor.fit(r / factor.sd)
        return _features_of_part(C.kernel, part, X_new) @ (factor.Q2 @ explained)

    def variance(self, C: NoisyGram, part: str | None, factor: Factor, X_new) -> jax.Array:
        assert isinstance(factor, LowRankFactor)
        # The posterior covariance of the weights is R^-1 R^-T.
        phi = _features_of_part(C.kernel, part, X_new)
        return jnp.sum(jnp.square(phi @ factor.Q2), axis=1)

    def covariance(self, C: NoisyGram, part: str | None, factor: Factor, X_new) -> jax.Array:
        assert isinstance(factor, LowRankFactor)
        validation.joint_points(len(X_new))
        root = _features_of_part(C.kernel, part, X_new) @ factor.Q2
        return root @ root.T

    def multiply(self, C: NoisyGram, b: AnyArray) -> jax.Array:
        phi, noise = _features_and_noise(C)
        return phi @ (phi.T @ b) + noise * b

    def log_density(self, C: NoisyGram, R: AnyArray) -> jax.Array:
        phi, noise = _features_and_noise(C)
        density = jnp.vectorize(lambda r: log_density(phi, noise, r), signature="(n)->()")(R)
        return C.without_unobserved(density)


def _features_and_noise(C: NoisyGram) -> tuple[jax.Array, jax.Array]:
    """Features and noise of each row; 0 and 1 for an unobserved row."""
    phi, noise = C.kernel.features(C.X, None), C.noise_of_rows()
    if C.observed is None:
        return phi, noise
    return jnp.where(C.observed[:, None], phi, 0.0), jnp.where(C.observed, noise, 1.0)


def _features_of_part(kernel: Kernel, part: str | None, X) -> jax.Array:
    """Features of the kernel at X, set to 0 outside the component: (n, m)."""
    if part is None:
        return kernel.features(X, None)
    terms = zip(kernel.terms_of_sum(), in_component(kernel, part), strict=True)
    return jnp.concatenate([is_in * term.features(X, None) for (_, term), is_in in terms], axis=1)
