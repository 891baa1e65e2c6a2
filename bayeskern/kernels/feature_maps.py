"""Explicit features phi(x)'phi(z) = k(x, z): what the kernels that have finitely many share.

Each such kernel makes its features in its method `features`; this module has what these methods
share: products and powers of features, and the refusals. Shawe-Taylor and Cristianini (2004),
chapter 9.
"""

from __future__ import annotations

import math
from functools import reduce
from itertools import combinations_with_replacement

import jax.numpy as jnp
import numpy as np

# Numbers in a table of features: 2 GiB.
MAX_ENTRIES = 2**28


def check_degree(kernel, degree: int | None) -> None:
    """Refuse a degree where there is no series to cut, and a series without a degree."""
    series = kernel.series()
    if series and degree is None:
        raise ValueError(
            f"{series[0]!r} has infinitely many features: give the degree at which their series "
            "is cut, such as feature_map(X, degree=8), or take RandomFourierFeatures."
        )
    if degree is not None and not series:
        raise ValueError(
            f"degree={degree!r} cuts the series of an RBF, and {kernel!r} has none. Leave it out."
        )


def check_size(kernel, n: int, count: int) -> None:
    """Refuse more features for n points than memory is likely to hold."""
    if max(n, 256) * count > MAX_ENTRIES:
        raise ValueError(
            f"{kernel!r} has {count:,} features, too many to be written down for {n:,} points. "
            "Take the kernel itself, which needs none of them, or NystromFeatures."
        )


def pairwise_products(kernel, factors):
    """Features of a product: one for each choice of one feature from every factor (n, m_i)."""
    n = len(factors[0])
    check_size(kernel, n, math.prod(phi.shape[1] for phi in factors))
    return reduce(lambda a, b: (a[:, :, None] * b[:, None, :]).reshape(n, -1), factors)


def multinomial(kernel, phi, power: int):
    """Features of (phi(x)'phi(z))^power, by the multinomial theorem, so that equal ones count once.

    They are sqrt(power! / a!) phi^a for the C(m + power - 1, power) exponents a of the m features
    in phi (n, m).
    """
    factors, repeats = monomials(kernel, *phi.shape, power)
    # power! / a! is the product of i / repeats, the i-th factor being the repeats-th of its kind.
    coefficients = np.prod(np.arange(1, power + 1) / repeats, axis=1)
    return multiply_out(phi, factors, jnp.sqrt(coefficients))


def gaussian_series(kernel, X, degree: int, variance):
    """Features of variance exp(-|x - z|^2 / 2), whose series is cut at a degree."""
    # Factors of 1 fill up the monomials whose degree is lower.
    phi = jnp.concatenate([jnp.ones_like(X[:, :1]), X], axis=1)
    factors, repeats = monomials(kernel, *phi.shape, degree)
    factorials = np.prod(np.where(factors == 0, 1.0, repeats), axis=1)
    bump = jnp.sqrt(variance) * jnp.exp(-0.5 * jnp.sum(X * X, axis=1))
    # The bump comes first: it keeps high powers of far points from overflowing.
    return multiply_out(phi, factors, bump[:, None] / np.sqrt(factorials))


def monomials(kernel, n: int, m: int, power: int) -> tuple[np.ndarray, np.ndarray]:
    """Every choice of `power` out of m factors, and how often each factor has come so far.

    Both are (C(m + power - 1, power), power); n is the number of points, for the check of size.
    """
    count = math.comb(m + power - 1, power)
    check_size(kernel, n, count)
    factors = np.array([*combinations_with_replacement(range(m), power)])
    repeats = np.ones((count, power))
    for i in range(1, power):
        repeats[:, i] += np.where(factors[:, i] == factors[:, i - 1], repeats[:, i - 1], 0.0)
    return factors, repeats


def multiply_out(phi, factors, out):
    """out times the products of the columns of phi that each row of factors names."""
    for column in factors.T:
        out = out * phi[:, column]
    return out
