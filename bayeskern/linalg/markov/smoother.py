"""Posterior mean and covariance of a state-space model at other times.

The n times of the values and the m other times are sorted together; a forward and a backward pass
take O(n + m) time, and O((n + m) m) time for the covariance.
"""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.scipy.linalg import cho_solve
from jax.typing import ArrayLike

from bayeskern.kernels.state_space.space import StateSpace
from bayeskern.linalg.factor import AnyArray
from bayeskern.linalg.markov.factor import ObservedProcess, Row, information

# The variances of the fast formula are used if their relative errors are at most this large.
MAX_RELATIVE_ERROR = 1e-8
# Rounding errors of the fast formula, in units of machine precision.
ROUNDING_ERRORS = 16.0
# Jitters, in units of the rounding error, tried in turn after one that does not suffice.
MORE_JITTERS = 1e2, 1e4


def weighted_covariances(
    space: StateSpace, t: AnyArray, weights: AnyArray, t_new: AnyArray
) -> jax.Array:
    """sum_i weights_i Cov(f(t_i), f(t_new)), (m,), for t and weights (n,), t_new (m,)."""
    times, zeros = jnp.concatenate([t, t_new]), jnp.zeros(len(t_new))
    process = ObservedProcess.of(space, times, 0.0, jnp.concatenate([jnp.ones(len(t)), zeros]))
    return product(process, jnp.concatenate([weights, zeros]))[len(t) :]


def product(process: ObservedProcess, weights: AnyArray) -> jax.Array:
    """sum_i weights_i Cov(f_i, f_j) over observed rows i, for each row j.

    f does not include the noise.
    """
    a, space = process.sorted(weights), process.space

    def forward(carry, data):
        # z: sum over rows i up to this step of weights_i Cov(f_i, x), with the state x in this
        # step; c: Cov(x, f) for the row of this step.
        z, P = carry
        row, a, step = data
        P = step.prior(space, P)
        c = P @ row.h
        z = z + row.observed * a * c
        return (row.A @ z, row.A @ P @ row.A.T + row.Q.dense()), (row.h @ z, c)

    start = jnp.zeros(process.size), process.initial.P
    _, (sums_up_to, c) = process.scan(forward, start, a, process.steps)

    def backward(u, data):
        # u: sum over later rows i of weights_i A'h, since Cov(x, f_i) = Cov(x) A'h.
        row, a, sum_up_to, c = data
        u = row.A.T @ u
        return u + row.observed * a * row.h, sum_up_to + c @ u

    _, sums = process.scan(backward, jnp.zeros(process.size), a, sums_up_to, c, reverse=True)
    return process.unsorted(sums)


class Smoother(eqx.Module):
    """Posterior variances and covariances of f, or a component of it, at new times.

    Attributes:
        process: The process at n observed and m new times.
        n: Number of observed times; static.
        state_mask: 1.0 for the state variables of the component, 0.0 for the others, (s,).
    """

    process: ObservedProcess
    n: int = eqx.field(static=True)
    state_mask: AnyArray

    @classmethod
    def of(
        cls,
        space: StateSpace,
        state_mask: AnyArray,
        t: AnyArray,
        noise: ArrayLike,
        observed: AnyArray | None,
        t_new: AnyArray,
    ) -> Smoother:
        """Smoother at unsorted times.

        Args:
            space: The state-space model.
            state_mask: 1.0 for the state variables of the component, 0.0 for the others, (s,).
            t: Times of the values, shape (n,).
            noise: Noise variance, a number or shape (n,).
            observed: Mask of the observed values, shape (n,); None for all.
            t_new: New times, shape (m,).
        """
        n, zeros = len(t), jnp.zeros(len(t_new))
        observed = jnp.ones(n) if observed is None else jnp.asarray(observed, t.dtype)
        noise = jnp.concatenate([jnp.broadcast_to(noise, (n,)), 1.0 + zeros])
        observed, times = jnp.concatenate([observed, zeros]), jnp.concatenate([t, t_new])
        return cls(ObservedProcess.of(space, times, noise, observed), n, state_mask)

    def variances(self) -> jax.Array:
        """Variances at the new times: (m,)."""
        variances, is_accurate = self._differences()
        return jax.lax.cond(is_accurate, lambda: variances, lambda: self._sums()[1])

    def covariance(self) -> jax.Array:
        """Covariance matrix at the new times, with the variances on the diagonal: (m, m)."""
        differences, is_accurate = self._differences()
        C, sums = self._sums(jointly=True)
        ratios = jnp.where(is_accurate & (sums > 0.0), differences / sums, 1.0)
        return C * jnp.sqrt(jnp.outer(ratios, ratios))

    def _differences(self) -> tuple[jax.Array, jax.Array]:
        """Variances at the new times as differences, and whether all of them are accurate.

        De Jong (1989) subtracts the reduction by later values from the variance given the values so
        far, in O(s^2) operations for a step. All digits cancel where the prior is vague and the
        posterior is not: before the first values, or in a gap.
        """

        def forward(covariance, data):
            (row,) = data
            Ph = covariance.P @ (self.state_mask * row.h)
            S, gain, covariance = covariance.update_accurately(row)
            return covariance.predict(row), (S, gain, Ph)

        _, steps = self.process.scan(forward, self.process.initial)

        def backward(N, data):
            # N: information about the state from the values after this time. `information` adds
            # the value at this time.
            row, S, gain, Ph = data
            _, N = information(N, row, gain, S)
            prior, size = (self.state_mask * row.h) @ Ph, jnp.abs(Ph)
            return N, (prior - Ph @ N @ Ph, prior + size @ jnp.abs(N) @ size)

        start = jnp.zeros((self.process.size,) * 2)
        _, (variances, sizes) = self.process.scan(backward, start, *steps, reverse=True)
        rounding = ROUNDING_ERRORS * jnp.finfo(sizes.dtype).eps * self._at_new_times(sizes)
        variances = self._at_new_times(variances)
        return variances, jnp.all(rounding <= MAX_RELATIVE_ERROR * variances)

    def _sums(self, jointly: bool = False) -> tuple[jax.Array, jax.Array]:
        """Covariance matrix (m, m), empty unless `jointly`, and variances (m,) at the new times.

        By `_backward_gain`, the error of the state given all values is R u + G (e_next - w), with
        independent u ~ N(0, P), w ~ N(0, Q) and the error e_next of the next state. So the
        covariance given all values is the sum

            R P R' + G (Q + P_next) G',

        as in Joseph's form of the filter. Errors of G, and of R = I - G A, have an effect of second
        order, though P may be vague. Bucy and Joseph (1968), "Filtering for stochastic processes
        with applications to guidance".
        """
        order, size = self.process.order, self.process.size
        m = len(order) - self.n

        def forward(covariance, data):
            (row,) = data
            _, _, covariance = covariance.update_accurately(row)
            predicted = covariance.predict(row)
            return predicted, (covariance.P, predicted.P)

        def backward(carry, data):
            # Column j of `cross`: covariance of the state with f at a new time j from here on.
            P_next, cross, C = carry
            row, (P, predicted), j = data
            G = _backward_gain(row, P, predicted)
            R = jnp.eye(size) - G @ row.A
            P = R @ P @ R.T + G @ (row.Q.times(G.T) + P_next @ G.T)
            h = self.state_mask * row.h
            if jointly:
                cross = (G @ cross).at[:, j].set(P @ h, mode="drop")
                C = C.at[j].set(h @ cross, mode="drop")
            return (P, cross, C), h @ P @ h

        def start(covariance):
            columns = m if jointly else 0
            return covariance.P, jnp.zeros((size, columns)), jnp.zeros((columns, columns))

        # Index of the new time of each step; m, which is dropped, for an observed time.
        j = jnp.where(order < self.n, m, order - self.n)
        (*_, C), variances = self.process.scan_back(forward, backward, start, j)
        return C + C.T - jnp.diag(jnp.diag(C)), self._at_new_times(variances)

    def _at_new_times(self, x: jax.Array) -> jax.Array:
        return self.process.unsorted(x)[self.n :]


def _backward_gain(row: Row, P: jax.Array, predicted: jax.Array) -> jax.Array:
    """Coefficients G of the next state in the mean of the state given it: (s, s).

    G = P A' (A P A' + Q)^-1, with the covariance P given the values so far, and `predicted` of the
    next state. Sarkka (2013), "Bayesian Filtering and Smoothing", section 8.2.
    """
    return cho_solve((semidefinite_root(predicted), True), row.A @ P).T


def semidefinite_root(P: jax.Array) -> jax.Array:
    """Triangular L with L L' = P + jitter, for a covariance of states that may be singular: (s, s).

    The jitter is relative to each variance, of the order of the rounding errors, and there from the
    start: a loop as in `linalg.root.cholesky` is slow to compile inside a scan.
    """
    variances, eye = jnp.diag(P), jnp.eye(len(P))
    scale = jnp.sqrt(jnp.where(variances > 0.0, variances, 1.0))
    unit, eps = P / jnp.outer(scale, scale), len(P) * jnp.finfo(P.dtype).eps
    L = jnp.linalg.cholesky(unit + eps * eye)
    for jitter in MORE_JITTERS:
        is_factored = jnp.all(jnp.isfinite(L))
        L = jnp.where(is_factored, L, jnp.linalg.cholesky(unit + jitter * eps * eye))
    return scale[:, None] * L
