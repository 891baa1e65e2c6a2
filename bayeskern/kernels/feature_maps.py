"""Explicit features phi(x)'phi(z) = k(x, z): products, powers and series.

Kernels with finitely many features compute them in their method `features`. This module has the
functions that these methods share. Shawe-Taylor and Cristianini (2004), chapter 9.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce
from itertools import combinations_with_replacement

import jax.numpy as jnp
import numpy as np
from jax import Array

# Largest number of elements of an array of features: 2 GiB.
MAX_FEATURE_NUMBERS = 2**28


def check_size(kernel: object, n: int, count: int) -> None:
    """Raise ValueError if an array of features is too large for memory."""
    if max(n, 256) * count > MAX_FEATURE_NUMBERS:
        raise ValueError(
            f"{kernel!r} has {count:,} features, too many to store for {n:,} points. "
            "Use the kernel itself, which does not need them, or NystromFeatures."
        )


def pairwise_products(kernel: object, factors: Sequence[Array]) -> Array:
    """Features of a product kernel, from the features (n, m_i) of its factors.

    There is one feature for each choice of one feature from every factor.
    """
    n = len(factors[0])
    check_size(kernel, n, math.prod(phi.shape[1] for phi in factors))
    return reduce(lambda a, b: (a[:, :, None] * b[:, None, :]).reshape(n, -1), factors)


def multinomial(kernel: object, phi: Array, power: int) -> Array:
    """Features of (phi(x)'phi(z))^power, by the multinomial theorem.

    They are sqrt(power! / a!) phi^a, with phi (n, m), for the C(m + power - 1, power) vectors a of
    m exponents with sum `power`.
    """
    n, m = phi.shape
    factors, repeats = monomials(kernel, n, m, power)
    # power! / a! is the product over i of i / repeats_i: the i-th factor occurs for the
    # repeats_i-th time.
    coefficients = np.prod(np.arange(1, power + 1) / repeats, axis=1)
    return multiply_out(phi, factors, jnp.sqrt(coefficients))


def monomials(kernel: object, n: int, m: int, power: int) -> tuple[np.ndarray, np.ndarray]:
    """Every multiset of `power` out of m factors, and the running count of each factor.

    Example: factors (0, 0, 2) have the counts (1, 2, 1). Both arrays have shape
    (C(m + power - 1, power), power); n, the number of points, is only used to check the size.
    """
    count = math.comb(m + power - 1, power)
    check_size(kernel, n, count)
    factors = np.array([*combinations_with_replacement(range(m), power)])
    repeats = np.ones((count, power))
    for i in range(1, power):
        repeats[:, i] += np.where(factors[:, i] == factors[:, i - 1], repeats[:, i - 1], 0.0)
    return factors, repeats


def multiply_out(phi: Array, factors: np.ndarray, out: Array) -> Array:
    """`out` times the product of the columns of phi in each row of `factors`."""
    for column in factors.T:
        out = out * phi[:, column]
    return out
