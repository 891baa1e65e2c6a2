"""Posterior of linear models with Gaussian noise and weights, given scales.

y ~ N(X b, noise I) and b ~ N(loc, diag(sd^2)). Bishop (2006), section 3.3; Rasmussen and Williams
(2006), section 2.1. The cross products X'X are never formed: they would lose digits if features are
ill-conditioned or prior sds have very different sizes.
"""

from __future__ import annotations

from abc import abstractmethod

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import cho_solve, solve_triangular

from bayeskern.core.constants import LOG_2PI


class LinearGaussian(eqx.Module):
    """n rows of data reduced to k <= p rows: |y - X b|^2 = |t - H b|^2 + rss.

    Attributes:
        n: The number of rows.
        rss: The part of |y - X b|^2 that does not depend on b, a number.
        H: The reduced rows of X, shape (k, p).
        t: The reduced rows of y, shape (k,).
        relative_sds: The prior sds up to a common factor, shape (p,); a guess if the prior does not
            fix them.
        S: The singular values in H diag(relative_sds) = U diag(S) V', shape (k,).
        Ut: U't, shape (k,).
        V: The right singular vectors, shape (p, k).
        log_det: log |C| if the covariance of the rows is noise * C, and H and t are whitened by C.
    """

    n: jax.Array
    rss: jax.Array
    H: jax.Array
    t: jax.Array
    relative_sds: jax.Array
    S: jax.Array
    Ut: jax.Array
    V: jax.Array
    log_det: jax.Array

    @classmethod
    def reduced(
        cls,
        n,
        M: np.ndarray,
        relative_sds,
        proper: bool = True,
        shared_scale: bool = False,
        log_det: np.ndarray | float = 0.0,
    ) -> LinearGaussian | SeveralOutputs:
        """Reduce n rows, and choose the subclass that computes their posterior fastest.

        Args:
            n: The number of rows.
            M: Upper triangular with M'M = [X y]'[X y], at most p + 1 rows, or p + outputs.
            relative_sds: The prior sds up to a common factor, (p,).
            proper: Whether all coefficients have proper priors.
            shared_scale: Whether the prior sds of all coefficients but the first are always
                `relative_sds` times one number.
            log_det: log |C| if the rows were whitened by C.
        """
        p = len(relative_sds)
        H, t, rest = M[:p, :p], M[:p, p:], M[p:, p:]
        fewer_rows = len(H) < p and proper
        if not fewer_rows:
            # Rows of zeros up to p rows.
            missing = p - len(H)
            H, t = (np.pad(part, ((0, missing), (0, 0))) for part in (H, t))
        U, S, Vt = np.linalg.svd(H * relative_sds, full_matrices=False)
        form = FunctionSpace if fewer_rows else SharedScale if shared_scale else WeightSpace
        several = M.shape[1] > p + 1
        by_output = np.sum(np.square(rest), axis=0), t.T, t.T @ U
        rss, t, Ut = (jnp.asarray(part if several else part[0]) for part in by_output)
        data = form(
            n=jnp.asarray(float(n)),
            rss=rss,
            H=jnp.asarray(H),
            t=t,
            relative_sds=jnp.asarray(relative_sds),
            S=jnp.asarray(S),
            Ut=Ut,
            V=jnp.asarray(Vt.T),
            log_det=jnp.asarray(log_det),
        )
        return SeveralOutputs(data) if several else data

    def squared_error(self, b) -> jax.Array:
        """|y - X b|^2."""
        return self.rss + jnp.sum(jnp.square(self.t - self.H @ b))

    def residual(self, b, loc, sd, noise) -> float:
        """Norm of the normal equations' residual at b, relative to the norm of its terms."""
        H, t, scale, b = (np.asarray(v) for v in (self.H, self.t, self.relative_sds, b))
        prior_gradient = (b - np.asarray(loc)) / np.square(np.asarray(sd))
        gradient = H.T @ (t - H @ b) / float(noise) - prior_gradient
        size = np.linalg.norm(scale * (np.abs(H.T) @ np.abs(t))) / float(noise)
        size += np.linalg.norm(scale * prior_gradient)
        return float(np.linalg.norm(scale * gradient) / size) if size > 0 else 0.0

    @abstractmethod
    def posterior(self, loc, sd, noise) -> ConditionalPosterior:
        """p(b | y, scales); sd is (p,), and infinite for coefficients with a flat prior."""

    @abstractmethod
    def log_marginal(self, loc, sd, noise) -> jax.Array:
        """log p(y | scales), with b integrated out; a flat prior has density 1."""


class ConditionalPosterior(eqx.Module):
    """N(mean, covariance) of the coefficients b, given data and scales; mean: (p,)."""

    mean: jax.Array

    @abstractmethod
    def draw(self, key: jax.Array) -> jax.Array:
        """One draw: (p,)."""

    @abstractmethod
    def variance(self, X: jax.Array) -> jax.Array:
        """x' covariance x for each row x of X (m, p): (m,)."""


class WeightSpace(LinearGaussian):
    """Posterior from its p x p precision, for at least as many rows as coefficients.

    The precision is R'R = H'H / noise + diag(1 / sd^2), where R is the triangular factor in a QR
    factorisation of H / sqrt(noise) stacked on diag(1 / sd).
    """

    def posterior(self, loc, sd, noise) -> ConditionalPosterior:
        # With the targets as a last column, Q is not needed.
        A, z = self._stacked_roots(loc, sd, noise)
        z = jnp.concatenate([z, jnp.zeros_like(sd)])
        R = jnp.linalg.qr(jnp.column_stack([A, z]), mode="r")[: len(sd)]
        R, projected_targets = R[:, :-1], R[:, -1]
        return PrecisionPosterior(loc + solve_triangular(R, projected_targets), R)

    def log_marginal(self, loc, sd, noise) -> jax.Array:
        shift, logdet = self._posterior_shift(loc, sd, noise)
        proper = jnp.isfinite(sd)
        standardized = jnp.where(proper, shift / jnp.where(proper, sd, 1.0), 0.0)
        log_scales = jnp.sum(jnp.where(proper, -jnp.log(jnp.where(proper, sd, 1.0)), 0.5 * LOG_2PI))
        squared_error = self.squared_error(loc + shift)
        log_likelihood = -0.5 * (self.n * (LOG_2PI + jnp.log(noise)) + squared_error / noise)
        log_likelihood -= 0.5 * self.log_det
        return log_likelihood - 0.5 * standardized @ standardized + log_scales - 0.5 * logdet

    def _posterior_shift(self, loc, sd, noise):
        """The posterior mean minus `loc`, and log |precision|."""
        # With Q, unlike `posterior`: its derivative is finite even if the fit is perfect.
        A, z = self._stacked_roots(loc, sd, noise)
        Q, R = jnp.linalg.qr(A)
        logdet = 2.0 * jnp.sum(jnp.log(jnp.abs(jnp.diagonal(R))))
        return solve_triangular(R, Q[: len(z)].T @ z), logdet

    def _stacked_roots(self, loc, sd, noise):
        """A and z such that A'A is the precision, and b - loc minimises |z - A (b - loc)|.

        z holds only the first rows; the others, the prior's, are 0. In terms of b - loc,
        coefficients that the data do not determine stay at `loc`.
        """
        root = jnp.sqrt(noise)
        A = jnp.concatenate([self.H / root, jnp.diag(1.0 / sd)])
        return A, (self.t - self.H @ loc) / root


class SharedScale(WeightSpace):
    """Prior sds of all coefficients but the first are `relative_sds` times one number.

    In the coordinates g = V' diag(1 / relative_sds) b the precision is D + c v v': diagonal, plus a
    rank-one term for the first coefficient. The Sherman-Morrison formula solves it in O(p^2).
    """

    def _posterior_shift(self, loc, sd, noise):
        # The prior precision of b / relative_sds is diag(ratio), where all but the first are equal.
        ratio, v = jnp.square(self.relative_sds / sd), self.V[0]
        D, c = jnp.square(self.S) / noise + ratio[-1], ratio[0] - ratio[-1]
        misfit = self.Ut - self.S * (self.V.T @ (loc / self.relative_sds))
        solved_misfit, solved_v = self.S * misfit / noise / D, v / D
        pivot = 1.0 + c * (v @ solved_v)
        g = solved_misfit - solved_v * (c * (v @ solved_misfit) / pivot)
        log_scales = jnp.sum(jnp.log(self.relative_sds))
        logdet = jnp.sum(jnp.log(D)) + jnp.log(pivot) - 2.0 * log_scales
        return self.relative_sds * (self.V @ g), logdet


class PrecisionPosterior(ConditionalPosterior):
    """Posterior with precision R'R, where R (p, p) is upper triangular."""

    R: jax.Array

    def draw(self, key: jax.Array) -> jax.Array:
        return self.mean + solve_triangular(self.R, jax.random.normal(key, self.mean.shape))

    def variance(self, X: jax.Array) -> jax.Array:
        return jnp.sum(jnp.square(solve_triangular(self.R, X.T, trans=1)), axis=0)


class FunctionSpace(LinearGaussian):
    """Posterior from the k x k data covariance, for fewer rows than coefficients."""

    def posterior(self, loc, sd, noise) -> ConditionalPosterior:
        L, whitened, B = self._factor_covariance(loc, sd, noise)
        mean = loc + jnp.square(sd) * (B.T @ solve_triangular(L, whitened, lower=True, trans=1))
        return MatheronPosterior(mean, sd, B, L, noise)

    def log_marginal(self, loc, sd, noise) -> jax.Array:
        L, whitened, _ = self._factor_covariance(loc, sd, noise)
        k = len(self.S)
        logdet = 2.0 * jnp.sum(jnp.log(jnp.diagonal(L))) + (self.n - k) * jnp.log(noise)
        logdet += self.log_det
        return -0.5 * (self.n * LOG_2PI + logdet + whitened @ whitened + self.rss / noise)

    def _factor_covariance(self, loc, sd, noise):
        """Factor the covariance L L' = noise I + B diag(sd^2) B' of U't, where B = U'H.

        Returns:
            L (k, k), L^-1 (U't - B loc) (k,), and B (k, p).
        """
        B = self.S[:, None] * self.V.T / self.relative_sds
        C = noise * jnp.eye(len(self.S)) + (B * jnp.square(sd)) @ B.T
        L = jnp.linalg.cholesky(C, symmetrize_input=False)
        return L, solve_triangular(L, self.Ut - B @ loc, lower=True), B


class MatheronPosterior(ConditionalPosterior):
    """Posterior whose draws are corrected prior draws, by Matheron's rule.

    Bhattacharya, Chakraborty and Mallick (2016). B and L are as in `_factor_covariance`.
    """

    sd: jax.Array
    B: jax.Array
    L: jax.Array
    noise: jax.Array

    def draw(self, key: jax.Array) -> jax.Array:
        key_prior, key_noise = jax.random.split(key)
        b = self.sd * jax.random.normal(key_prior, self.sd.shape)
        e = jnp.sqrt(self.noise) * jax.random.normal(key_noise, self.B.shape[:1])
        # A prior draw minus its regression on the noisy data B b + e simulated from it.
        weights = cho_solve((self.L, True), self.B @ b + e)
        return self.mean + b - jnp.square(self.sd) * (self.B.T @ weights)

    def variance(self, X: jax.Array) -> jax.Array:
        # Joseph's form, a sum of squares. Under a wide prior, the difference of prior variance and
        # explained variance would lose all digits.
        cross = X * jnp.square(self.sd)
        gain = cho_solve((self.L, True), self.B @ cross.T)
        remaining = X - (self.B.T @ gain).T
        from_prior = jnp.sum(jnp.square(remaining * self.sd), axis=1)
        return from_prior + self.noise * jnp.sum(jnp.square(gain), axis=0)


# -- several outputs -------------------------------------------------------------------------------


class SeveralOutputs(eqx.Module):
    """A `LinearGaussian` for each of k outputs with the same X, noise and prior sds.

    Arrays that do not depend on y are stored and factored once. loc is (k, p) in all methods.

    Attributes:
        each: The data of all outputs: `rss`, `t` and `Ut` have the outputs as their first axis.
    """

    each: LinearGaussian

    @property
    def n(self) -> jax.Array:
        """The number of observations of all outputs together."""
        return self.each.n * len(self.each.rss)

    def squared_error(self, b) -> jax.Array:
        """|Y - X b'|^2, b (k, p)."""
        return jnp.sum(self._map(lambda data, b: data.squared_error(b), b))

    def residual(self, b, loc, sd, noise) -> float:
        """The largest of the outputs' relative residuals of the normal equations."""
        outputs = zip(zip(*_parts_of_y(self.each), strict=True), b, loc, strict=True)
        return max(self._with(parts).residual(b, loc, sd, noise) for parts, b, loc in outputs)

    def posterior(self, loc, sd, noise) -> SeveralPosteriors:
        """p(b | y, scales) of every output."""
        return SeveralPosteriors(self._map(lambda data, loc: data.posterior(loc, sd, noise), loc))

    def log_marginal(self, loc, sd, noise) -> jax.Array:
        """log p(Y | scales): the sum over the outputs, which are independent."""
        return jnp.sum(self._map(lambda data, loc: data.log_marginal(loc, sd, noise), loc))

    def _map(self, function, per_output):
        """Map function(data of an output, value of the output) over the outputs."""

        def at_output(parts, value):
            return function(self._with(parts), value)

        return jax.vmap(at_output)(_parts_of_y(self.each), per_output)

    def _with(self, parts) -> LinearGaussian:
        """The data of one output, from its `rss`, `t` and `Ut`."""
        return eqx.tree_at(_parts_of_y, self.each, parts)


class SeveralPosteriors(eqx.Module):
    """Independent posteriors of k outputs' coefficients, with a common covariance.

    Attributes:
        each: The posteriors, with the outputs as a first axis of every array.
    """

    each: ConditionalPosterior

    @property
    def mean(self) -> jax.Array:
        """The means: (k, p)."""
        return self.each.mean

    def draw(self, key: jax.Array) -> jax.Array:
        """One draw: (k, p)."""
        keys = jax.random.split(key, len(self.mean))
        return jax.vmap(lambda posterior, key: posterior.draw(key))(self.each, keys)

    def variance(self, X: jax.Array) -> jax.Array:
        """x' covariance x for each row x of X (m, p), each repeated k times: (m k,)."""
        first = jax.tree.map(lambda leaf: leaf[0], self.each)
        return jnp.repeat(first.variance(X), len(self.mean))


def _parts_of_y(data: LinearGaussian) -> tuple[jax.Array, jax.Array, jax.Array]:
    return data.rss, data.t, data.Ut
