"""Posterior mean and covariance of a state-space model at other times.

The n times of the values and the m other times are sorted together; a forward and a backward pass
take O(n + m) time, and O((n + m) m) time for the covariance.
"""

from __future__ import annotations

from functools import reduce
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.scipy.linalg import cho_solve
from jax.typing import ArrayLike

from bayeskern.kernels.state_space.space import StateSpace
from bayeskern.linalg.factor import AnyArray
from bayeskern.linalg.markov.factor import ObservedProcess, Row, informed_products

# Differences are used if the relative errors of the variances are at most this large.
MAX_RELATIVE_ERROR = 1e-8
# Rounding errors of a difference, in units of machine precision times the prior variance.
ROUNDING_ERRORS = 16.0
# Jitters, in units of the rounding error, tried in turn on covariances that cannot be factored.
JITTERS = 1.0, 1e2, 1e4


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


class Differences(NamedTuple):
    """Variances of f in each step, as differences.

    Attributes:
        gain: Kalman gains, shape (N, s).
        Ph: Covariances of the state with f given the earlier values, shape (N, s).
        unexplained: h - N P h with the information N from the later values, shape (N, s).
        given_earlier: Variances given the earlier values, shape (N,).
    """

    gain: jax.Array
    Ph: jax.Array
    unexplained: jax.Array
    given_earlier: jax.Array

    @property
    def variances(self) -> jax.Array:
        """Variances given all values, right in steps without a value of their own: (N,)."""
        return jnp.sum(self.Ph * self.unexplained, axis=1)


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
        differences = self._differences()
        variances = self._at_new_times(differences.variances)
        return jax.lax.cond(
            self._are_accurate(differences), lambda: variances, lambda: self._sums()[1]
        )

    def covariance(self) -> jax.Array:
        """Covariance matrix at the new times: (m, m)."""
        differences = self._differences()
        return jax.lax.cond(
            self._are_accurate(differences),
            lambda: self._joint_differences(differences),
            lambda: self._sums(jointly=True)[0],
        )

    def _differences(self) -> Differences:
        """Variances as differences, in O(s^2) operations for a step. De Jong (1989)."""

        def forward(covariance, data):
            (row,) = data
            h = self.state_mask * row.h
            Ph = covariance.P @ h
            S, gain, covariance = covariance.update_accurately(row)
            return covariance.predict(row), (jnp.sqrt(S), gain, h, Ph)

        _, (sd, gain, h, Ph) = self.process.scan(forward, self.process.initial)
        unexplained = h - informed_products(self.process, sd, gain, Ph)
        return Differences(gain, Ph, unexplained, jnp.sum(h * Ph, axis=1))

    def _are_accurate(self, differences: Differences) -> jax.Array:
        """True if the variances at all new times keep their digits.

        They lose them where the prior is vague and the posterior is not: before the first values,
        or in a gap.
        """
        prior, variances = map(
            self._at_new_times, (differences.given_earlier, differences.variances)
        )
        rounding = ROUNDING_ERRORS * jnp.finfo(prior.dtype).eps * prior
        return jnp.all(rounding <= MAX_RELATIVE_ERROR * variances)

    def _joint_differences(self, differences: Differences) -> jax.Array:
        """Covariance matrix at the new times: (m, m).

        De Jong and MacKinnon (1988), "Covariances for smoothed estimates in state space models".
        """
        m = len(self.process.order) - self.n

        def forward(carry, data):
            # Column i of `cross`: covariance of f at the new time i with the error of the state,
            # given the values so far.
            cross, C = carry
            row, gain, Ph, unexplained, j = data
            cross = cross.at[:, j].set(Ph, mode="drop")
            C = C.at[j].set(unexplained @ cross, mode="drop")
            cross = row.A @ (cross - jnp.outer(gain, row.h @ cross))
            return (cross, C), None

        gain, Ph, unexplained, _ = differences
        start = jnp.zeros((self.process.size, m)), jnp.zeros((m, m))
        (_, C), _ = self.process.scan(forward, start, gain, Ph, unexplained, self._new_times)
        return _symmetric(C)

    def _sums(self, jointly: bool = False) -> tuple[jax.Array, jax.Array]:
        """Covariance matrix (m, m), empty unless `jointly`, and variances (m,) at the new times.

        With the gain G = P A' (A P A' + Q)^-1, the error of the state given all values is
        R u + G (e_next - w), with independent u ~ N(0, P), w ~ N(0, Q), the error e_next of the
        next state and R = I - G A. So the covariance given all values is the sum

            R P R' + G (Q + P_next) G',

        as in Joseph's form of the filter. Errors of G have an effect of second order, though P may
        be vague. Sarkka (2013), "Bayesian Filtering and Smoothing", section 8.2; Bucy and Joseph
        (1968), "Filtering for stochastic processes with applications to guidance".
        """
        size, m = self.process.size, len(self.process.order) - self.n

        def forward(covariance, data):
            (row,) = data
            _, _, covariance = covariance.update_accurately(row)
            predicted = covariance.predict(row)
            return predicted, (covariance.P, predicted.P)

        def backward(carry, data):
            # Column j of `cross`: covariance of the state with f at a new time j from here on.
            P_next, cross, C = carry
            row, (G, known), j = data
            P = known + G @ P_next @ G.T
            h = self.state_mask * row.h
            if jointly:
                cross = (G @ cross).at[:, j].set(P @ h, mode="drop")
                C = C.at[j].set(h @ cross, mode="drop")
            return (P, cross, C), h @ P @ h

        def start(covariance):
            columns = m if jointly else 0
            return covariance.P, jnp.zeros((size, columns)), jnp.zeros((columns, columns))

        (*_, C), variances = self.process.scan_back(
            forward, _gains, backward, start, self._new_times
        )
        return _symmetric(C), self._at_new_times(variances)

    @property
    def _new_times(self) -> jax.Array:
        """Index of the new time of each step; m, which is dropped, for an observed time: (N,)."""
        order = self.process.order
        return jnp.where(order < self.n, len(order) - self.n, order - self.n)

    def _at_new_times(self, x: jax.Array) -> jax.Array:
        return self.process.unsorted(x)[self.n :]


def _symmetric(C: jax.Array) -> jax.Array:
    """Symmetric matrix from one in which one of C_ij and C_ji is 0."""
    return C + C.T - jnp.diag(jnp.diag(C))


def _gains(rows: Row, covariances: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
    """G and R P R' + G Q G' of n steps, shapes (n, s, s).

    covariances: P given the values so far, and A P A' + Q of the next state.
    """
    P, predicted = covariances

    def of_step(row, P, root):
        G = cho_solve((root, True), row.A @ P).T
        R = jnp.eye(len(P)) - G @ row.A
        return G, R @ P @ R.T + G @ row.Q.times(G.T)

    return jax.vmap(of_step)(rows, P, semidefinite_root(predicted))


def semidefinite_root(P: jax.Array) -> jax.Array:
    """Triangular L with L L' = P, for covariances of states that may be singular: (..., s, s).

    Where P cannot be factored, L L' is P with a jitter relative to each variance, of the order of
    the rounding errors.
    """
    variances, eye = jnp.diagonal(P, axis1=-2, axis2=-1), jnp.eye(P.shape[-1])
    scale = jnp.sqrt(jnp.where(variances > 0.0, variances, 1.0))
    unit = P / (scale[..., :, None] * scale[..., None, :])
    eps = P.shape[-1] * jnp.finfo(P.dtype).eps

    def retried(L, jitter):
        # Not a loop as in `linalg.root.cholesky`, which is slow to compile inside a scan.
        is_factored = jnp.all(jnp.isfinite(L), axis=(-2, -1), keepdims=True)
        return jnp.where(is_factored, L, jnp.linalg.cholesky(unit + jitter * eps * eye))

    L = jnp.linalg.cholesky(unit)
    L = jax.lax.cond(jnp.all(jnp.isfinite(L)), lambda: L, lambda: reduce(retried, JITTERS, L))
    return scale[..., :, None] * L
