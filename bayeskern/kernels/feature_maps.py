"""From a kernel to its features, and back: k(x, z) = phi(x)'phi(z) with finitely many features.

Here is one function for each kernel that has such features, and for each operation that makes new
ones out of them; `features.register` adds one for a kernel of one's own. Shawe-Taylor and
Cristianini (2004), chapter 9.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import reduce, singledispatch
from itertools import combinations_with_replacement

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from bayeskern.kernels import metrics
from bayeskern.kernels.algebra import Named, Power, Product, Scaled, Select, Sum, Warped
from bayeskern.kernels.base import Kernel
from bayeskern.kernels.dot_product import AllSubsets, Constant, Linear, Polynomial
from bayeskern.kernels.periodic import Cosine
from bayeskern.kernels.stationary import RBF, White

# Numbers in a table of features: 2 GiB.
MOST = 2**28


def kernel_from_features(phi: Callable) -> Kernel:
    """The kernel k(x, z) = phi(x)'phi(z), for a function phi of one point (d,).

    phi returns a number or a vector (m,), in the operations of JAX. `feature_map` leads back.

        kernel_from_features(lambda x: jnp.array([1.0, x[0], x[0] * x[1]]))
    """
    if not callable(phi):
        raise TypeError(f"phi must be a function of one point, got {type(phi).__name__}.")
    return Linear().warp(phi)


@singledispatch
def features(kernel: Kernel, X: Float[Array, "n d"], degree: int | None) -> Float[Array, "n m"]:
    """phi(X) of a concrete kernel; degree: where to cut the series of an RBF.

    Raises ValueError where the kernel has no finite features, or too many of them.
    """
    raise ValueError(
        f"{kernel!r} has no finite feature map. NystromFeatures comes near to any positive "
        "definite kernel, RandomFourierFeatures to a stationary one."
    )


def check_degree(kernel: Kernel, degree: int | None) -> None:
    """Refuse a degree where no series is to be cut, and a series without a degree."""
    series = [node for node in kernel.nodes() if isinstance(node, RBF)]
    if series and degree is None:
        raise ValueError(
            f"{series[0]!r} has infinitely many features: give the degree at which their series "
            "is cut, such as feature_map(X, degree=8), or take RandomFourierFeatures."
        )
    if degree is not None and not series:
        raise ValueError(
            f"degree={degree!r} cuts the series of an RBF, and {kernel!r} has none. Leave it out."
        )


# -- kernels ---------------------------------------------------------------------------------------


@features.register
def _(kernel: Constant, X, degree):
    return jnp.full((len(X), 1), jnp.sqrt(kernel.variance))


@features.register
def _(kernel: Linear, X, degree):
    center = metrics.per_dimension("center", kernel.center, X)
    return jnp.sqrt(metrics.per_dimension("variance", kernel.variance, X)) * (X - center)


@features.register
def _(kernel: Polynomial, X, degree):
    level = jnp.full((len(X), 1), jnp.sqrt(kernel.offset))
    phi = jnp.concatenate([level, X], axis=1)
    return jnp.sqrt(kernel.variance) * _multinomial(kernel, phi, kernel.degree)


@features.register
def _(kernel: AllSubsets, X, degree):
    _check_size(kernel, len(X), 2 ** X.shape[1])
    phi = jnp.full((len(X), 1), jnp.sqrt(kernel.variance))
    for x in X.T:
        phi = jnp.concatenate([phi, phi * x[:, None]], axis=1)
    return phi


@features.register
def _(kernel: Cosine, X, degree):
    return jnp.sqrt(kernel.variance) * kernel._circle(X)


@features.register
def _(kernel: RBF, X, degree):
    # exp(-|x - z|^2 / 2) = exp(-|x|^2 / 2) exp(-|z|^2 / 2) sum_a x^a z^a / a!
    X = metrics.scale(X, kernel.lengthscale)
    # Factors of 1 fill up what is short of the degree.
    phi = jnp.concatenate([jnp.ones_like(X[:, :1]), X], axis=1)
    chosen, run = _choices(kernel, *phi.shape, degree)
    factorials = np.prod(np.where(chosen == 0, 1.0, run), axis=1)
    bump = jnp.sqrt(kernel.variance) * jnp.exp(-0.5 * jnp.sum(X * X, axis=1))
    # The bump comes first: it keeps high powers of far points from overflowing.
    return _products(phi, chosen, bump[:, None] / np.sqrt(factorials))


@features.register
def _(kernel: White, X, degree):
    raise ValueError(
        f"{kernel!r} has no feature map: white noise is no function of a point. Leave it out, and "
        "give its variance as the noise of the model."
    )


# -- the algebra -----------------------------------------------------------------------------------


@features.register
def _(kernel: Sum, X, degree):
    return jnp.concatenate([features(term, X, degree) for term in kernel.terms], axis=1)


@features.register
def _(kernel: Product, X, degree):
    factors = [features(term, X, degree) for term in kernel.terms]
    _check_size(kernel, len(X), math.prod(phi.shape[1] for phi in factors))
    return reduce(lambda a, b: (a[:, :, None] * b[:, None, :]).reshape(len(X), -1), factors)


@features.register
def _(kernel: Scaled, X, degree):
    return jnp.sqrt(kernel.scale) * features(kernel.inner, X, degree)


@features.register
def _(kernel: Power, X, degree):
    return _multinomial(kernel, features(kernel.inner, X, degree), kernel.power)


@features.register
def _(kernel: Named, X, degree):
    return features(kernel.inner, X, degree)


@features.register
def _(kernel: Select, X, degree):
    return features(kernel.inner, kernel._take(X), degree)


@features.register
def _(kernel: Warped, X, degree):
    return features(kernel.inner, kernel._map(X), degree)


# -- pieces ----------------------------------------------------------------------------------------


def _multinomial(kernel, phi, power: int):
    """Features of (phi(x)'phi(z))^power, by the multinomial theorem, so that equal ones count once.

    They are sqrt(power! / a!) phi^a for the C(m + power - 1, power) exponents a of m features.
    """
    chosen, run = _choices(kernel, *phi.shape, power)
    # power! / a! is the product of i / run, the i-th factor being the run-th of its kind.
    squares = np.prod(np.arange(1, power + 1) / run, axis=1)
    return _products(phi, chosen, jnp.sqrt(squares))


def _choices(kernel, n: int, m: int, power: int) -> tuple[np.ndarray, np.ndarray]:
    """Which `power` of m factors to multiply, in every way, and how often each has come so far."""
    count = math.comb(m + power - 1, power)
    _check_size(kernel, n, count)
    chosen = np.array([*combinations_with_replacement(range(m), power)])
    run = np.ones((count, power))
    for i in range(1, power):
        run[:, i] += np.where(chosen[:, i] == chosen[:, i - 1], run[:, i - 1], 0.0)
    return chosen, run


def _products(phi, chosen, out):
    for column in chosen.T:
        out = out * phi[:, column]
    return out


def _check_size(kernel, n: int, count: int) -> None:
    if max(n, 256) * count > MOST:
        raise ValueError(
            f"{kernel!r} has {count:,} features, too many to be written down for {n:,} points. "
            "Take the kernel itself, which needs none of them, or NystromFeatures."
        )
