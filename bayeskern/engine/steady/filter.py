"""Kalman filter with a constant gain.

The states a_0, a_1, ... of a linear model are observed with noise:

    a_{t+1} = T a_t + disturbance,  disturbance ~ N(0, Q),    y_t = Z a_t + e_t,  e_t ~ N(0, r).

If the covariance P of the first state solves the Riccati equation, the variance F of the one-step
prediction errors ("innovations") and the gain K are constant: Harvey (1989), section 3.3.3. With
L = T - K Z = V diag(l) V^-1, each coordinate of V^-1 a is a recursive filter of first order, and a
pass over N values and s states takes O(N s). `regression` corrects for another first state.

Products of powers of L have closed forms in the coordinates of V: see `SteadyFilter.gram`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from bayeskern.engine.steady.recursion import Complex, Recursions


class System(NamedTuple):
    """Matrices of a linear model with s states.

    Attributes:
        transition: T, (s, s).
        observation: Z, (s,).
        state_noise: Q, (s, s).
        noise: r.
        start: Covariance of the first state, (s, s).
    """

    transition: np.ndarray
    observation: np.ndarray
    state_noise: np.ndarray
    noise: float
    start: np.ndarray


def steady_covariance(system: System) -> np.ndarray:
    """Solution of P = T P T' - K F K' + Q, by doubling: (s, s).

    Chu, Fan, Lin and Wang (2004), "Structure-preserving algorithms for periodic discrete-time
    algebraic Riccati equations". Faster than `scipy.linalg.solve_discrete_are`, which factors
    matrices of twice the size.
    """
    A, H = system.transition.T, system.state_noise
    G = np.outer(system.observation, system.observation) / system.noise
    s, identity = len(A), np.eye(len(A))
    # 60 doublings are 10^18 steps of the filter, beyond the memory of any state in float64.
    for _ in range(60):
        solved = np.linalg.solve(identity + G @ H, np.hstack([A, G]))
        gain = A.T @ H @ solved[:, :s]
        G = G + A @ solved[:, s:] @ A.T
        A = A @ solved[:, :s]
        # Rounding errors of an asymmetric matrix would grow.
        G, H = 0.5 * (G + G.T), H + 0.5 * (gain + gain.T)
        if np.abs(gain).max() <= 1e-12 * np.abs(H).max():
            break
    return H


class SquareSlopes(NamedTuple):
    """A function of innovations and its derivatives.

    Attributes:
        value: The function.
        loop: Derivative with respect to L, (s, s).
        gain: Derivative with respect to K at fixed L, (s,).
    """

    value: float
    loop: np.ndarray
    gain: np.ndarray


@dataclass(frozen=True, eq=False)
class SteadyFilter:
    """Filter of a system whose first state has the steady covariance.

    Attributes:
        system: The matrices.
        covariance: P, (s, s).
        variance: F.
        gain: K, (s,).
    """

    system: System
    covariance: np.ndarray
    variance: float
    gain: np.ndarray

    @classmethod
    def of(cls, system: System) -> SteadyFilter:
        """Steady state of a system."""
        P = steady_covariance(system)
        variance = float(system.observation @ P @ system.observation + system.noise)
        return cls(system, P, variance, system.transition @ (P @ system.observation) / variance)

    @cached_property
    def closed_loop(self) -> np.ndarray:
        """L = T - K Z, (s, s)."""
        return self.system.transition - np.outer(self.gain, self.system.observation)

    @cached_property
    def _eigen(self) -> tuple[Complex, Complex, Complex]:
        """Eigenvalues l of L (s,), V and its inverse, (s, s) each."""
        values, vectors = np.linalg.eig(self.closed_loop)
        return values, vectors, np.linalg.inv(vectors)

    @property
    def eigenvalues(self) -> Complex:
        """Eigenvalues l of L, (s,)."""
        return self._eigen[0]

    @cached_property
    def _half(self) -> tuple[np.ndarray, np.ndarray]:
        """Indices of real eigenvalues and of one of each conjugate pair (h,); multiplicities (s,).

        `numpy.linalg.eig` returns pairs next to one another, the positive imaginary part first.
        """
        imaginary = self.eigenvalues.imag
        return np.flatnonzero(imaginary >= 0.0), 1.0 + (imaginary > 0.0)

    @cached_property
    def _recursions(self) -> Recursions:
        """Recursions of the eigenvalues with non-negative imaginary part."""
        return Recursions(self.eigenvalues[self._half[0]].astype(complex))

    # -- to and from the coordinates of V ----------------------------------------------------------

    def readout(self, rows: np.ndarray) -> Complex:
        """C V for C (m, s): coefficients of the state's coordinates."""
        return rows @ self._eigen[1]

    def adjoint_readout(self, rows: np.ndarray) -> Complex:
        """C V^-T for C (m, s): coefficients of the coordinates V' lambda."""
        return rows @ self._eigen[2].T

    def to_coordinates(self, states: np.ndarray) -> Complex:
        """V^-1 A for A (s, m)."""
        return self._eigen[2] @ states

    def from_coordinates(self, rows: Complex) -> np.ndarray:
        """C V^-1 for C (m, s), real."""
        return (rows @ self._eigen[2]).real

    @cached_property
    def _z(self) -> Complex:
        return self.readout(self.system.observation)

    @cached_property
    def _k(self) -> Complex:
        return self.to_coordinates(self.gain)

    # -- passes over the data ----------------------------------------------------------------------

    def forward(
        self, values: np.ndarray, start: np.ndarray | None = None, rows: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Innovations of series, and linear functions of their predicted states.

        Args:
            values: c series, (N, c).
            start: Means of their first states, (s, c); 0 by default.
            rows: C, (m, s).

        Returns:
            Innovations (N, c); C a_t for t = 0, ..., N: (N + 1, m, c); and a_N, (s, c).
        """
        c = values.shape[1]
        functions = np.vstack(
            [self.system.observation, np.zeros((0, len(self.gain))) if rows is None else rows]
        )
        first = np.zeros((len(self.gain), c)) if start is None else start
        half, multiplicity = self._half
        weights = (self.readout(functions) * multiplicity)[:, half]
        begin = self.to_coordinates(first).astype(complex)[half]
        read, last = self._recursions.read(values, self._k[half], begin, weights)
        end = (self._eigen[1][:, half] @ (multiplicity[half, None] * last)).real
        return values - read[:-1, 0], read[:, 1:], end

    def backward(
        self, innovations: np.ndarray, rows: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Derivatives of J = sum_t v_t^2 / (2 F) with respect to the predicted states.

        lambda_t = dJ / da_t = -Z' v_t / F + L' lambda_{t+1} with lambda_N = 0. The smoothed state
        is a_t - P lambda_t: de Jong (1989), "Smoothing and interpolation with the state-space
        model".

        Args:
            innovations: v, (N, c).
            rows: C, (m, s).

        Returns:
            lambda_0 (s, c), and C lambda_t for t = 0, ..., N: (N + 1, m, c).
        """
        half, multiplicity = self._half
        functions = np.zeros((0, len(self.gain))) if rows is None else rows
        weights = (self.adjoint_readout(functions) * multiplicity)[:, half]
        zero = np.zeros((len(half), innovations.shape[1]), complex)
        gains = self._z[half] / -self.variance
        read, last = self._recursions.read(innovations[::-1], gains, zero, weights)
        first = self._eigen[2].T[:, half] @ (multiplicity[half, None] * last)
        return first.real, read[::-1]

    def slopes(self, values: np.ndarray, start: np.ndarray) -> SquareSlopes:
        """Squared innovations of series, J = sum_t v_t^2 / (2 F), and derivatives of J.

        The derivative in L is the sum over t of lambda_{t+1} a_t'. In the coordinates of V, its
        elements are divided differences of polynomials in the eigenvalues, since
        sum_t l^(u - t - 1) m^t = (l^u - m^u) / (l - m): no sum over pairs of states is needed.

        Args:
            values: c series, (N, c).
            start: Means of their first states, (s, c).
        """
        _, V, inverse = self._eigen
        innovations, _, _ = self.forward(values, start)
        first, half = self.to_coordinates(start).astype(complex), self._half[0]
        sums = self._recursions.correlations(
            innovations / -self.variance, values, self._k[half], first[half]
        )
        of_values, diagonal = self._whole(sums.values), self._whole(sums.states)
        loop = self._divided(of_values) * self._k
        for column, q in zip(first.T, self._whole(sums.first).T, strict=True):
            loop += self._divided(q) * column
        np.fill_diagonal(loop, diagonal)
        loop = (inverse.T @ (self._z[:, None] * loop) @ V.T).real
        gain = (inverse.T @ (self._z * of_values)).real
        return SquareSlopes(0.5 * float(np.square(innovations).sum()) / self.variance, loop, gain)

    def _whole(self, part: Complex) -> Complex:
        """Values of all states, from those of the first of each conjugate pair (h, ...)."""
        half, multiplicity = self._half
        whole = np.empty((len(self.gain), *part.shape[1:]), complex)
        whole[half] = part
        pairs = multiplicity[half] > 1.0
        # The conjugate follows.
        whole[half[pairs] + 1] = part[pairs].conj()
        return whole

    def _divided(self, values: Complex) -> Complex:
        """Divided differences (p_i - p_j) / (l_i - l_j) of p (s,), 0 on the diagonal: (s, s)."""
        gaps = self.eigenvalues[:, None] - self.eigenvalues
        np.fill_diagonal(gaps, 1.0)
        return (values[:, None] - values) / gaps

    def at_ends(
        self, values: np.ndarray, ends: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Innovations of series, their states at e places, and the information up to these.

        Args:
            values: c series, (N, c).
            ends: Places from 1 to N, (e,).

        Returns:
            Innovations (N, c), predicted states a_t at t = ends (e, s, c), and the sums over
            t < ends of L'^t Z' v_t / F (e, s, c).
        """
        innovations, _, _ = self.forward(values)
        half, multiplicity = self._half
        zero, weights = np.zeros((len(half), values.shape[1]), complex), multiplicity[half, None]
        states = weights * self._recursions.at(values, self._k[half], zero, ends)
        sums = weights * self._recursions.sums(innovations, ends)
        sums = sums * (self._z[half] / self.variance)[:, None]
        _, V, inverse = self._eigen
        return innovations, (V[:, half] @ states).real, (inverse.T[:, half] @ sums).real

    def respond(self, weights: Complex, count: int) -> np.ndarray:
        """sum_i weights_i l_i^t for weights (s,), conjugate in pairs, and t < count: (count,)."""
        half, multiplicity = self._half
        rows = (weights * multiplicity)[None, half]
        zero, ones = np.zeros((count, 1)), np.ones((len(half), 1), complex)
        return self._recursions.read(zero, self._k[half], ones, rows)[0][:-1, 0, 0]

    def power(self, exponent: int) -> np.ndarray:
        """L^n, (s, s)."""
        values, V, inverse = self._eigen
        return ((V * values**exponent) @ inverse).real

    # -- closed forms ------------------------------------------------------------------------------

    @cached_property
    def _resolvent(self) -> Complex:
        """1 / (1 - l_i l_j), (s, s)."""
        return 1.0 / (1.0 - self.eigenvalues[:, None] * self.eigenvalues)

    @cached_property
    def eigen_gram(self) -> Complex:
        """V' G V for N = infinity, (s, s): see `gram`."""
        return np.multiply.outer(self._z, self._z) * self._resolvent / self.variance

    def powers(self, exponents: np.ndarray) -> Complex:
        """l_i^n for exponents n (m,): (m, s)."""
        return np.power(self.eigenvalues, np.asarray(exponents)[:, None])

    def gram(self, N: int) -> np.ndarray:
        """G = sum_{t < N} L'^t Z' Z L^t / F, the information on the first state: (s, s)."""
        last = self.eigenvalues**N
        inner = self.eigen_gram * (1.0 - np.multiply.outer(last, last))
        return (self._eigen[2].T @ inner @ self._eigen[2]).real

    def gram_times(self, rows: Complex, counts: np.ndarray) -> Complex:
        """C_i V^-T (V' G V) for C V^-T (m, s) and G of counts N_i (m,): (m, s)."""
        powers = self.powers(counts)
        return rows @ self.eigen_gram - ((rows * powers) @ self.eigen_gram) * powers

    def gram_slope(self, S: np.ndarray, N: int) -> np.ndarray:
        """Derivative of tr(S G) / 2 with respect to L, for symmetric S (s, s): (s, s)."""
        roots, V, inverse = self._eigen
        last = roots ** (N - 1)
        S = inverse @ S @ inverse.T
        sums = (1.0 - np.multiply.outer(last, last)) * self._resolvent
        differences = self._divided(last)
        np.fill_diagonal(differences, (N - 1) * roots ** (N - 2))
        slope = (self.eigen_gram * roots) @ (S * sums)
        slope -= roots[:, None] * differences * ((self.eigen_gram * (last * roots)) @ S)
        return (inverse.T @ slope @ V.T).real

    def slopes_of_system(
        self, of_gain: np.ndarray, of_variance: float, of_covariance: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, float]:
        """Chain rule through the Riccati equation.

        Args:
            of_gain: Derivative of a function with respect to K at fixed P and T, (s,).
            of_variance: With respect to F.
            of_covariance: With respect to P, symmetric, (s, s).

        Returns:
            Derivatives with respect to T (s, s), Q (s, s) and r; that to T without the direct part.
        """
        P, K, Z, T = self.covariance, self.gain, self.system.observation, self.system.transition
        of_PZ = T.T @ of_gain / self.variance
        of_variance = of_variance - float(of_gain @ K) / self.variance
        slope = of_covariance + 0.5 * (np.outer(Z, of_PZ) + np.outer(of_PZ, Z))
        slope = slope + of_variance * np.outer(Z, Z)
        # dP = L dP L' + dT P L' + L P dT' + dQ + K dr K'.
        _, V, inverse = self._eigen
        of_Q = (inverse.T @ ((V.T @ slope @ V) * self._resolvent) @ inverse).real
        of_T = np.outer(of_gain, P @ Z) / self.variance + 2.0 * of_Q @ self.closed_loop @ P
        return of_T, of_Q, float(of_variance + K @ of_Q @ K)
