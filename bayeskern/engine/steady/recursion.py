"""Recursions of first order for many coefficients at once, by matrix products over blocks.

x_{t+1} = l x_t + k u_t for each l. Within a block of B steps, the x_t are a matrix times the u_t
plus powers of l times the first x, so that Python loops over N / B blocks only: for dozens of
coefficients faster than one call of `scipy.signal.lfilter` for each.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Complex = NDArray[np.complex128]
# Steps in a block, B.
BLOCK = 64


class Correlations(NamedTuple):
    """Sums over t of s_{t+1} y_t and s_{t+1} x_t, and s_0: see `Recursions.correlations`.

    Attributes:
        values: Sums over t and series of s_{t+1} y_t, (h,).
        states: Sums over t and series of s_{t+1} x_t, (h,).
        first: s_0, (h, c).
    """

    values: Complex
    states: Complex
    first: Complex


@dataclass(frozen=True, eq=False)
class Recursions:
    """Recursions with coefficients l.

    Attributes:
        roots: l, (h,).
    """

    roots: Complex

    @cached_property
    def _powers(self) -> Complex:
        """l^j for j = 0, ..., B: (B + 1, h)."""
        powers = np.ones((BLOCK + 1, len(self.roots)), complex)
        np.cumprod(np.broadcast_to(self.roots, powers[1:].shape), axis=0, out=powers[1:])
        return powers

    def read(
        self, inputs: np.ndarray, gains: Complex, start: Complex, weights: Complex
    ) -> tuple[np.ndarray, Complex]:
        """Real parts of sums over the recursions.

        Args:
            inputs: u, (N, c).
            gains: k, (h,).
            start: x_0, (h, c).
            weights: (m, h).

        Returns:
            Re sum_i weights_i x_{i,t} for t = 0, ..., N, (N + 1, m, c), and x_N, (h, c).
        """
        (N, c), m = inputs.shape, len(weights)
        blocks, powers = _blocks(inputs), self._powers
        first = self._block_states(blocks, gains, start)
        # From the first state of each block.
        rows = (weights[:, None] * powers[:BLOCK]).reshape(m * BLOCK, len(self.roots)).T
        read = first[:-1].real @ rows.real - first[:-1].imag @ rows.imag
        read = read.reshape(len(blocks), c, m, BLOCK)
        # From the inputs of the block.
        response = ((weights * gains) @ powers[: BLOCK - 1].T).real
        own = _lower_toeplitz(response).reshape(-1, BLOCK) @ _by_step(blocks)
        read = read.transpose(0, 3, 2, 1) + own.reshape(m, BLOCK, len(blocks), c).transpose(
            2, 1, 0, 3
        )
        read = read.reshape(len(blocks) * BLOCK, m, c)
        last, rest = first[N // BLOCK], N % BLOCK
        if rest:
            own = gains * (blocks[N // BLOCK, :rest].T @ powers[:rest][::-1])
            last = last * powers[rest] + own
        end = ((last @ weights.T).real.T)[None]
        return np.concatenate([read[:N], end]), last.T

    def _block_states(self, blocks: np.ndarray, gains: Complex, start: Complex) -> Complex:
        """First states of the blocks and the state after the last one, (b + 1, c, h)."""
        gained = gains * (blocks.transpose(0, 2, 1) @ self._powers[:BLOCK][::-1])
        states = np.empty((len(blocks) + 1, *start.T.shape), complex)
        states[0] = start.T
        for b in range(len(blocks)):
            states[b + 1] = states[b] * self._powers[BLOCK] + gained[b]
        return states

    def at(self, inputs: np.ndarray, gains: Complex, start: Complex, ends: np.ndarray) -> Complex:
        """x_t at t = ends (e,) with 0 <= ends <= N: (e, h, c)."""
        blocks, powers = _blocks(inputs), self._powers
        states = self._block_states(blocks, gains, start)
        out = np.empty((len(ends), len(self.roots), inputs.shape[1]), complex)
        for i, (block, rest) in enumerate(zip(*np.divmod(ends, BLOCK), strict=True)):
            own = 0.0
            if rest:
                own = gains * (blocks[block, :rest].T @ powers[:rest][::-1])
            out[i] = (states[block] * powers[rest] + own).T
        return out

    def sums(self, inputs: np.ndarray, ends: np.ndarray) -> Complex:
        """sum_{t < end} l^t u_t for ends (e,) with 0 <= ends <= N: (e, h, c)."""
        blocks, powers = _blocks(inputs), self._powers
        own = blocks.transpose(0, 2, 1) @ powers[:BLOCK]
        before = powers[BLOCK] ** np.arange(len(blocks) + 1)[:, None]
        sums = np.concatenate([np.zeros_like(own[:1]), own * before[:-1, None]]).cumsum(axis=0)
        out = np.empty((len(ends), len(self.roots), inputs.shape[1]), complex)
        for i, (block, rest) in enumerate(zip(*np.divmod(ends, BLOCK), strict=True)):
            part = sums[block]
            if rest:
                part = part + before[block] * (blocks[block, :rest].T @ powers[:rest])
            out[i] = part.T
        return out

    def correlations(
        self, later: np.ndarray, values: np.ndarray, gains: Complex, start: Complex
    ) -> Correlations:
        """Sums of products of recursions forward and backward in time.

        s_t = sum_{u >= t} l^(u - t) v_u, and x_{t+1} = l x_t + k y_t.

        Args:
            later: v, (N, c).
            values: y, (N, c).
            gains: k, (h,).
            start: x_0, (h, c).
        """
        v, y, powers = _blocks(later), _blocks(values), self._powers
        j = np.arange(BLOCK)
        # l^j and its derivative, j l^(j - 1).
        power, slope = powers[:BLOCK], np.zeros((BLOCK, len(self.roots)), complex)
        slope[1:] = j[1:, None] * powers[: BLOCK - 1]
        of_v, slope_v = (v.transpose(0, 2, 1) @ part for part in (power, slope))
        of_y, slope_y = (y.transpose(0, 2, 1) @ part[::-1] for part in (power, slope))
        after = np.empty((len(v) + 1, *of_v.shape[1:]), complex)
        after[-1] = 0.0
        for b in range(len(v) - 1, -1, -1):
            after[b] = after[b + 1] * powers[BLOCK] + of_v[b]
        first, after = after[0], after[1:]
        states = self._block_states(y, gains, start)[:-1]
        # sum over blocks of v_{t+d} y_t, by lag d within the block.
        pairs = _by_step(v) @ _by_step(y).T
        lags = np.subtract.outer(j, j)
        by_lag = np.bincount(lags[lags > 0] - 1, pairs[lags > 0], BLOCK - 1)
        sums = by_lag @ power[: BLOCK - 1] + np.sum(after * of_y, axis=(0, 1))
        own = gains * (by_lag @ slope[: BLOCK - 1] + np.sum(after * slope_y, axis=(0, 1)))
        own += np.sum(states * slope_v, axis=(0, 1))
        own += BLOCK * powers[BLOCK - 1] * np.sum(after * states, axis=(0, 1))
        return Correlations(sums, own, first.T)


def _blocks(series: np.ndarray) -> np.ndarray:
    """Series (N, c) in blocks, the last one filled with zeros: (b, B, c)."""
    count = -(-len(series) // BLOCK)
    out = np.zeros((count * BLOCK, series.shape[1]))
    out[: len(series)] = series
    return out.reshape(count, BLOCK, -1)


def _by_step(blocks: np.ndarray) -> np.ndarray:
    """Blocks (b, B, c) by step within the block: (B, b c)."""
    return blocks.transpose(1, 0, 2).reshape(BLOCK, -1)


def _lower_toeplitz(response: np.ndarray) -> np.ndarray:
    """Matrices with the elements response[:, j - 1 - i] for i < j, else 0: (m, B, B)."""
    j = np.arange(BLOCK)
    lags = np.subtract.outer(j, j) - 1
    return np.where(lags >= 0, response[:, np.maximum(lags, 0)], 0.0)
