"""Covariance matrices of kernels with m features, K = Phi Phi' + D, in O(n m^2) time.

They are those of Bayesian linear regression with weights ~ N(0, I). All follows from the QR
decomposition of A = D^-1/2 Phi stacked on the identity, [A; I] = [Q_1; Q_2] R, which has full
column rank whatever the features: R'R = I + A'A is the precision of the weights given the data.
Normal equations would square its condition. Golub and Van Loan (2013), "Matrix computations",
section 5.3; Rasmussen and Williams (2006), section 2.1.
"""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import solve_triangular

from bayeskern.core.validation import NotPositiveDefiniteError, is_traced
from bayeskern.kernels.components import in_component, part_of
from bayeskern.linalg.factor import Cost, Factor, Solver


class Regression(eqx.Module):
    """The QR decomposition [A; I] = [Q_1; Q_2] R with A = D^-1/2 Phi.

    Attributes:
        sd: The diagonal of D^1/2, (n,).
        Q1: The rows of the data, (n, m).
        Q2: Those of the prior, (m, m), which are R^-1.
        R: (m, m), upper triangular with a positive diagonal.
    """

    sd: jax.Array
    Q1: jax.Array
    Q2: jax.Array
    R: jax.Array

    @classmethod
    def of(cls, phi, noise) -> Regression:
        """phi: (n, m); noise: (n,), positive."""
        n, m = phi.shape
        sd = jnp.sqrt(noise)
        Q, R = jnp.linalg.qr(jnp.concatenate([phi / sd[:, None], jnp.eye(m)]))
        sign = jnp.sign(jnp.diagonal(R))
        Q, R = Q * sign, R * sign[:, None]
        return cls(sd, Q[:n], Q[n:], R)

    def logdet(self):
        return 2.0 * (jnp.sum(jnp.log(self.sd)) + jnp.sum(jnp.log(jnp.diagonal(self.R))))

    def inv_diag(self):
        return (1.0 - jnp.sum(jnp.square(self.Q1), axis=1)) / jnp.square(self.sd)


def positive(phi, noise) -> jax.Array:
    """Which rows have noise that rounding does not swallow beside k(x, x): (n,)."""
    prior = jnp.sum(jnp.square(phi), axis=1)
    return noise > jnp.finfo(prior.dtype).eps * prior


@jax.custom_jvp
def log_density(phi, noise, r):
    """log N(r; 0, Phi Phi' + D), which may be differentiated any number of times.

    Args:
        phi: Features, shape (n, m).
        noise: The diagonal of D, shape (n,).
        r: Residuals, shape (n,).

    Returns:
        A number; -inf, with a gradient of 0, if the matrix is not positive definite to rounding.
    """
    return _density_and_slopes(phi, noise, r)[0]


@log_density.defjvp
def _log_density_jvp(primals, tangents):
    # With a = K^-1 r: a'dPhi Phi'a - tr(K^-1 dPhi Phi') + 1/2 (a a' - K^-1) dD - a'dr.
    value, *slopes = _density_and_slopes(*primals)
    return value, sum(jnp.sum(s * d) for s, d in zip(slopes, tangents, strict=True))


def _density_and_slopes(phi, noise, r):
    """The log density and its derivatives in the features, the noise and the residuals."""
    proper = jnp.all(positive(phi, noise)) & jnp.all(jnp.isfinite(phi)) & jnp.all(jnp.isfinite(r))
    # Numbers whose derivatives are finite take the place of those that have none.
    phi, noise, r = (jnp.where(proper, x, safe) for x, safe in ((phi, 0.0), (noise, 1.0), (r, 0.0)))
    factor = Regression.of(phi, noise)
    z = r / factor.sd
    explained = factor.Q1.T @ z
    left, weights = z - factor.Q1 @ explained, factor.Q2 @ explained
    a = left / factor.sd
    quadratic = left @ left + weights @ weights
    value = -0.5 * (quadratic + factor.logdet() + len(r) * jnp.log(2.0 * jnp.pi))
    slopes = (
        jnp.outer(a, weights) - (factor.Q1 @ factor.Q2.T) / factor.sd[:, None],
        0.5 * (jnp.square(a) - factor.inv_diag()),
        -a,
    )
    return jnp.where(proper, value, -jnp.inf), *(jnp.where(proper, s, 0.0) for s in slopes)


class LowRankFactor(Factor):
    """The matrix K = Phi Phi' + D, with L = D^1/2 (I + A (I + R')^-1 A').

    L L' = K, because (I + R')(I + R) = 2 I + R + R' + A'A. `compute` makes it; each product takes
    O(n m) time for a column.

    Attributes:
        regression: The QR decomposition.
        jitter: 0.
    """

    regression: Regression
    jitter: jax.Array

    @classmethod
    def compute(cls, phi, noise) -> LowRankFactor:
        """Factor Phi Phi' + D.

        Args:
            phi: Features, shape (n, m).
            noise: The diagonal of D, shape (n,).

        Raises:
            NotPositiveDefiniteError: A noise is 0, or lost in rounding. Under `jax.jit`, where
                nothing can be raised, the factor is NaN instead.
        """
        proper = positive(phi, noise) & jnp.all(jnp.isfinite(phi), axis=1)
        if not is_traced(proper) and not np.all(proper):
            row = int(np.argmin(proper))
            raise NotPositiveDefiniteError(
                f"the value in row {row} has the noise {float(noise[row])!r}, which is nothing "
                "beside the features, so that their covariance matrix cannot be factored. Give it "
                "more noise, or solver='dense', which adds to the diagonal what rounding asks for."
            )
        safe = Regression.of(
            jnp.where(proper[:, None], phi, 0.0), jnp.where(proper, noise, jnp.nan)
        )
        return cls(regression=safe, jitter=jnp.zeros(()))

    def solve(self, B):
        sd, Q1 = self.regression.sd, self.regression.Q1
        Z = _divided(B, sd)
        return _divided(Z - Q1 @ (Q1.T @ Z), sd)

    def whiten(self, B):
        sd, Q1, R = self.regression.sd, self.regression.Q1, self.regression.R
        Z = _divided(B, sd)
        explained = Q1.T @ Z
        return Z - Q1 @ (explained - solve_triangular(jnp.eye(len(R)) + R, explained))

    def sqrt_mul(self, B):
        sd, Q1, R = self.regression.sd, self.regression.Q1, self.regression.R
        # A = Q_1 R.
        weights = solve_triangular(jnp.eye(len(R)) + R, R.T @ (Q1.T @ B), trans="T")
        Y = B + Q1 @ (R @ weights)
        return sd * Y if Y.ndim == 1 else sd[:, None] * Y

    def logdet(self):
        return self.regression.logdet()

    def inv_diag(self):
        return self.regression.inv_diag()


def _divided(B, sd):
    return B / (sd if B.ndim == 1 else sd[:, None])


class LowRankSolver(Solver):
    """Bayesian linear regression in the features of the kernel, where it has finitely many."""

    name = "low_rank"

    def obstacle(self, kernel, X):
        for part in kernel.series():
            return f"{part!r} has infinitely many features"
        try:
            _count(kernel, X)
        except ValueError as reason:
            return str(reason).partition(". ")[0].rstrip(".")
        return None

    def cost(self, kernel, X):
        n, m = X.shape[0], _count(kernel, X)
        # Two times the factorization, which is kept with the features and what changes them.
        return Cost(12.0 * (n + m) * m**2 + 50.0 * n * m, 8.0 * (8.5 * (n + m) * m + 5.0 * n))

    def factor(self, kernel, X, noise, observed=None):
        return LowRankFactor.compute(*_masked(kernel, X, noise, observed))

    def mean(self, kernel, part, X, noise, r, weights, X_new, observed=None):
        kernel = part_of(kernel, part)
        return kernel.features(X_new, None) @ (kernel.features(X, None).T @ weights)

    def variance(self, kernel, part, X, noise, factor, X_new, observed=None):
        # The covariance of the weights given the data is R^-1 R^-T.
        phi = _features_of(kernel, part, X_new)
        return jnp.sum(jnp.square(phi @ factor.regression.Q2), axis=1)

    def multiply(self, kernel, X, noise, b, observed=None):
        phi, noise = _masked(kernel, X, noise, observed)
        return phi @ (phi.T @ b) + noise * b

    def log_density(self, kernel, X, noise, R, observed=None):
        phi, noise = _masked(kernel, X, noise, observed)
        density = jnp.vectorize(lambda r: log_density(phi, noise, r), signature="(n)->()")(R)
        if observed is None:
            return density
        return density + 0.5 * jnp.sum(~observed) * jnp.log(2.0 * jnp.pi)


def _count(kernel, X) -> int:
    """How many features the kernel has. Raises ValueError if it has no finite ones."""
    points = jax.ShapeDtypeStruct(X.shape, X.dtype)
    return eqx.filter_eval_shape(lambda X: kernel.features(X, None), points).shape[1]


def _masked(kernel, X, noise, observed):
    """The features and the noise of each row; one that is not observed has none, and noise 1."""
    phi, noise = kernel.features(X, None), jnp.broadcast_to(noise, X.shape[:1])
    if observed is None:
        return phi, noise
    return jnp.where(observed[:, None], phi, 0.0), jnp.where(observed, noise, 1.0)


def _features_of(kernel, part: str | None, X):
    """The features of the kernel at X, those that are not of the component 0: (n, m)."""
    if part is None:
        return kernel.features(X, None)
    terms = zip(kernel.terms_of_sum(), in_component(kernel, part), strict=True)
    return jnp.concatenate([is_in * term.features(X, None) for (_, term), is_in in terms], axis=1)
