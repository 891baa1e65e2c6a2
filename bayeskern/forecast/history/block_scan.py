"""Linear recurrences over the rows of a matrix, evaluated in blocks by matrix products.

h_i = c_i h_{i-1} + g_i is a sum over the rows before i, with products of coefficients as weights.
Within a block of rows it is one small triangular matrix times the block; one row, the carry, links
each block to the next. A row-wise loop would spend its time in Python, and a banded solver cannot
use the fast matrix product.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

# Rows in a block: longer blocks multiply more zeros, shorter ones call the product more often.
BLOCK_ROWS = 32


class BlockMap(NamedTuple):
    """A linear map of rows with memory, in K blocks of b rows.

    Block k with input G (b, m) and carry s (m,) has the output `matrix[k] @ G + from_carry[k] s'`
    and passes on the carry `to_carry[k] @ G + decay[k] s`.

    Attributes:
        matrix: (K, b, b).
        from_carry: (K, b).
        to_carry: (K, b).
        decay: (K,).
        reverse: Whether the recurrence runs from the last row to the first.
    """

    matrix: np.ndarray
    from_carry: np.ndarray
    to_carry: np.ndarray
    decay: np.ndarray
    reverse: bool = False

    def apply(self, rows: np.ndarray, carry: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Apply the map to consecutive rows.

        Args:
            rows: (n, m), with (K - 1) b < n <= K b.
            carry: Carry from the rows before (after, in reverse), (m,).

        Returns:
            The output (n, m) and the carry for the next rows (m,).
        """
        (blocks, size), (n, m) = self.from_carry.shape, rows.shape
        if n < blocks * size:
            rows = np.concatenate([rows, np.zeros((blocks * size - n, m))])
        rows = rows.reshape(blocks, size, m)
        gains = np.matmul(self.to_carry[:, None, :], rows)[:, 0]
        carries = np.empty((blocks, m))
        for k in range(blocks - 1, -1, -1) if self.reverse else range(blocks):
            carries[k] = carry
            carry = self.decay[k] * carry + gains[k]
        out = np.matmul(self.matrix, rows)
        out += self.from_carry[:, :, None] * carries[:, None, :]
        return out.reshape(-1, m)[:n], carry


def padded(values: np.ndarray, fill: float) -> np.ndarray:
    """Values (n,) in rows of BLOCK_ROWS, the last row filled up: (K, BLOCK_ROWS)."""
    blocks = -(-len(values) // BLOCK_ROWS)
    rows = np.full(blocks * BLOCK_ROWS, fill)
    rows[: len(values)] = values
    return rows.reshape(blocks, BLOCK_ROWS)


def decay_products(coefficients: np.ndarray) -> np.ndarray:
    """Weights of the carry and of every input row in h, for coefficients (K, b): (K, b, b + 1).

    Column 0 belongs to the carry: c_0 ... c_i in row i. Column j + 1 belongs to input row j:
    c_{j+1} ... c_i in row i >= j, and 0 above.
    """
    blocks, size = coefficients.shape
    products = np.zeros((blocks, size, size + 1))
    row = np.zeros((blocks, size + 1))
    row[:, 0] = 1.0
    for i in range(size):
        row = coefficients[:, i, None] * row
        row[:, i + 1] = 1.0
        products[:, i] = row
    return products


def forward_map(coefficients: np.ndarray) -> BlockMap:
    """Map of g to h with h_i = c_i h_{i-1} + g_i, for coefficients (n,)."""
    products = decay_products(padded(coefficients, 1.0))
    matrix, from_carry = np.ascontiguousarray(products[:, :, 1:]), products[:, :, 0]
    return BlockMap(matrix, from_carry, matrix[:, -1], from_carry[:, -1])


def backward_map(coefficients: np.ndarray) -> BlockMap:
    """Map of g to h with h_i = c_i h_{i+1} + g_i, for coefficients (n,)."""
    products = decay_products(padded(coefficients, 1.0)[::-1, ::-1])[::-1, ::-1]
    matrix = np.ascontiguousarray(products[:, :, :0:-1])
    from_carry = np.ascontiguousarray(products[:, :, 0])
    return BlockMap(matrix, from_carry, matrix[:, 0], from_carry[:, 0], reverse=True)


def accumulate(coefficients: np.ndarray, rows: np.ndarray, *, reverse: bool = False) -> np.ndarray:
    """h_i = c_i h_{i-1} + g_i from zero, or h_i = c_i h_{i+1} + g_i in reverse.

    Args:
        coefficients: c, (n,).
        rows: g, (n, m).
        reverse: Whether to start at the last row.

    Returns:
        h, (n, m).
    """
    make = backward_map if reverse else forward_map
    return make(coefficients).apply(rows, np.zeros(rows.shape[1]))[0]
