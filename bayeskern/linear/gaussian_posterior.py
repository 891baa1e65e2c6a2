"""The Gaussian linear model given its scales: y ~ N(H b, noise I), b ~ N(loc, diag(sd^2)).

No cross products are formed, so that ill-conditioned H, and prior sds of any sizes, cost no more
digits than they must.
"""

from __future__ import annotations

from abc import abstractmethod

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import cho_solve, solve_triangular

from bayeskern.linear.statistics import LOG_2PI


class System(eqx.Module):
    """|y - X b|^2 = |t - H b|^2 + rss for n rows.

    H: (k, p), t: (k,), rss: a number, n: how many rows; shape: (p,), the prior sds up to a factor,
    as far as they are known.
    """

    n: jax.Array
    rss: jax.Array
    H: jax.Array
    t: jax.Array
    shape: jax.Array
    #: of H diag(shape) = U S V': the singular values (r,), U't (r,), and the axes V (p, r)
    S: jax.Array
    Ut: jax.Array
    V: jax.Array

    @classmethod
    def of(cls, n: float, M, shape, proper: bool = True, aligned: bool = False) -> System:
        """From M (k, p + 1) with M'M = [X y]'[X y], y being the last column.

        proper: whether no coefficient has a flat prior. aligned: whether the prior sds, but for
        the first one, will always be `shape` times one number.
        """
        p = M.shape[1] - 1
        H, t, rest = M[:p, :p], M[:p, p], M[p:, p]
        dual = len(H) < p and proper
        if not dual:
            short = p - len(H)
            H, t = np.pad(H, ((0, short), (0, 0))), np.pad(t, (0, short))
        U, S, Vt = np.linalg.svd(H * shape, full_matrices=False)
        return (Dual if dual else Aligned if aligned else Primal)(
            n=jnp.asarray(float(n)),
            rss=jnp.asarray(float(rest @ rest)),
            H=jnp.asarray(H),
            t=jnp.asarray(t),
            shape=jnp.asarray(shape),
            S=jnp.asarray(S),
            Ut=jnp.asarray(U.T @ t),
            V=jnp.asarray(Vt.T),
        )

    def log_likelihood(self, b, noise):
        """log N(y; X b, noise I)."""
        missed = self.rss + jnp.sum(jnp.square(self.t - self.H @ b))
        return -0.5 * (self.n * (LOG_2PI + jnp.log(noise)) + missed / noise)

    def residual(self, b, loc, sd, noise) -> float:
        """How far b is from solving the normal equations, relative to what they balance."""
        H, t, shape, b = (np.asarray(v) for v in (self.H, self.t, self.shape, b))
        pull = (b - np.asarray(loc)) / np.square(np.asarray(sd))
        left = H.T @ (t - H @ b) / float(noise) - pull
        size = np.linalg.norm(shape * (np.abs(H.T) @ np.abs(t))) / float(noise)
        size += np.linalg.norm(shape * pull)
        return float(np.linalg.norm(shape * left) / size) if size > 0 else 0.0

    @abstractmethod
    def given(self, loc, sd, noise) -> Conditional:
        """The coefficients given the scales; sd: (p,), infinite where the prior is flat."""

    @abstractmethod
    def log_evidence(self, loc, sd, noise):
        """log p(y), b integrated out; flat priors count as density 1."""


class Conditional(eqx.Module):
    """N(mean, covariance) of the coefficients, given data and scales."""

    mean: jax.Array

    @abstractmethod
    def draw(self, key) -> jax.Array:
        """One draw: (p,)."""

    @abstractmethod
    def variance(self, X) -> jax.Array:
        """x' covariance x for each row of X (m, p): (m,)."""


class Primal(System):
    """Through R with R'R = H'H / noise + diag(1 / sd^2), the posterior precision.

    R comes from the QR factorisation of the square roots of the two, laid over one another.
    """

    def given(self, loc, sd, noise):
        # With what is to be explained for a last column, so that Q is not needed.
        A, z = self._roots(loc, sd, noise)
        z = jnp.concatenate([z, jnp.zeros_like(sd)])
        R = jnp.linalg.qr(jnp.column_stack([A, z]), mode="r")[: len(sd)]
        R, explained = R[:, :-1], R[:, -1]
        return Rooted(loc + solve_triangular(R, explained), R)

    def log_evidence(self, loc, sd, noise):
        moved, logdet = self._solved(loc, sd, noise)
        proper = jnp.isfinite(sd)
        off = jnp.where(proper, moved / jnp.where(proper, sd, 1.0), 0.0)
        flat = jnp.sum(jnp.where(proper, -jnp.log(jnp.where(proper, sd, 1.0)), 0.5 * LOG_2PI))
        return self.log_likelihood(loc + moved, noise) - 0.5 * off @ off + flat - 0.5 * logdet

    def _solved(self, loc, sd, noise):
        """The posterior mean from `loc` on, and log |precision|."""
        # With Q, whose derivative is finite also where nothing remains unexplained.
        A, z = self._roots(loc, sd, noise)
        Q, R = jnp.linalg.qr(A)
        logdet = 2.0 * jnp.sum(jnp.log(jnp.abs(jnp.diagonal(R))))
        return solve_triangular(R, Q[: len(z)].T @ z), logdet

    def _roots(self, loc, sd, noise):
        """A with A'A the precision, and what its first rows are to explain of b - loc.

        From `loc` on, so that what is not determined stays there.
        """
        root = jnp.sqrt(noise)
        A = jnp.concatenate([self.H / root, jnp.diag(1.0 / sd)])
        return A, (self.t - self.H @ loc) / root


class Aligned(Primal):
    """Where `shape` times one number are the prior sds, of all coefficients but the first.

    In coordinates g = V' diag(1/shape) b the precision is then diagonal, plus rank one for the
    first: D + c v v', solved by Sherman and Morrison's formula in O(p^2).
    """

    def _solved(self, loc, sd, noise):
        ratio, v = jnp.square(self.shape / sd), self.V[0]
        D, c = jnp.square(self.S) / noise + ratio[-1], ratio[0] - ratio[-1]
        pull = self.S * (self.Ut - self.S * (self.V.T @ (loc / self.shape))) / noise / D
        moved = v / D
        more = 1.0 + c * (v @ moved)
        g = pull - moved * (c * (v @ pull) / more)
        logdet = jnp.sum(jnp.log(D)) + jnp.log(more) - 2.0 * jnp.sum(jnp.log(self.shape))
        return self.shape * (self.V @ g), logdet


class Rooted(Conditional):
    """R: (p, p), upper triangular, R'R being the precision."""

    R: jax.Array

    def draw(self, key):
        return self.mean + solve_triangular(self.R, jax.random.normal(key, self.mean.shape))

    def variance(self, X):
        return jnp.sum(jnp.square(solve_triangular(self.R, X.T, trans=1)), axis=0)


class Dual(System):
    """Through the k x k covariance of the data, for fewer rows than coefficients: k < p."""

    def given(self, loc, sd, noise):
        L, whitened, B = self._solved(loc, sd, noise)
        mean = loc + jnp.square(sd) * (B.T @ solve_triangular(L, whitened, lower=True, trans=1))
        return FromPrior(mean, sd, B, L, noise)

    def log_evidence(self, loc, sd, noise):
        L, whitened, _ = self._solved(loc, sd, noise)
        k = len(self.S)
        logdet = 2.0 * jnp.sum(jnp.log(jnp.diagonal(L))) + (self.n - k) * jnp.log(noise)
        return -0.5 * (self.n * LOG_2PI + logdet + whitened @ whitened + self.rss / noise)

    def _solved(self, loc, sd, noise):
        """L with L L' = noise I + B diag(sd^2) B', L^-1 (U't - B loc), and B = U'H (k, p)."""
        B = self.S[:, None] * self.V.T / self.shape
        C = noise * jnp.eye(len(self.S)) + (B * jnp.square(sd)) @ B.T
        L = jnp.linalg.cholesky(C, symmetrize_input=False)
        return L, solve_triangular(L, self.Ut - B @ loc, lower=True), B


class FromPrior(Conditional):
    """A draw from the prior, moved by what the data say of it (Bhattacharya et al., 2016)."""

    sd: jax.Array
    B: jax.Array
    L: jax.Array
    noise: jax.Array

    def draw(self, key):
        own, other = jax.random.split(key)
        b = self.sd * jax.random.normal(own, self.sd.shape)
        e = jnp.sqrt(self.noise) * jax.random.normal(other, self.B.shape[:1])
        # What is left is a prior draw less the part of it that noisy data would have shown.
        seen = cho_solve((self.L, True), self.B @ b + e)
        return self.mean + b - jnp.square(self.sd) * (self.B.T @ seen)

    def variance(self, X):
        # In Joseph's form: as a difference it would lose all digits under a wide prior.
        scaled = X * jnp.square(self.sd)
        shown = cho_solve((self.L, True), self.B @ scaled.T)
        left = X - (self.B.T @ shown).T
        own = jnp.sum(jnp.square(left * self.sd), axis=1)
        return own + self.noise * jnp.sum(jnp.square(shown), axis=0)
