"""Means of a function of the lag x - z over pairs of intervals.

The mean of k(x - z) over x in an interval of length h and z in an interval of length g is an
integral over the lag t = x - z from r0 to r3 = r0 + h + g with trapezoidal weights. With s =
min(h, g) and L = max(h, g), the weights rise over [r0, r0 + s], are 1 / L until r3 - s, and fall
over [r3 - s, r3]:

    M = 1 / (s L) (int_0^s u k(r0 + u) du + s int_{r0 + s}^{r3 - s} k(t) dt
                   + int_0^s u k(r3 - u) du).

k may have a kink at the lag 0; each of the three pieces is therefore divided there.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from typing import ClassVar

import jax
import jax.numpy as jnp

from bayeskern.core.quadrature import unit_nodes

# Length of the shorter interval, in lengthscales, above which differences of second integrals keep
# their digits.
SECOND_INTEGRAL_MIN_LENGTH = 0.05
# Nodes of the Gauss-Legendre quadrature of the ramps of shorter intervals; the error is below
# 1e-12.
RAMP_NODES = 3


class LagFunction(ABC):
    """Even function k(r) of a lag r in lengthscales, with its integrals from 0.

    Subclasses are hashable. They define the integrals for r >= 0; the first integral is an odd
    function of r, and the second an even one.

    Attributes:
        has_kink: True if a derivative of k jumps at the lag 0.
    """

    has_kink: ClassVar[bool] = True

    @abstractmethod
    def value(self, r: jax.Array) -> jax.Array:
        """k(r), with correct derivatives at all lags."""

    @abstractmethod
    def first_integral(self, r: jax.Array) -> jax.Array:
        """Integral of k from 0 to r, for r >= 0."""

    @abstractmethod
    def second_integral(self, r: jax.Array) -> jax.Array:
        """Integral of `first_integral` from 0 to r, for r >= 0."""


def mean_in_closed_form(
    function: LagFunction, r0: jax.Array, h: jax.Array, g: jax.Array
) -> jax.Array:
    """Mean of k(x - z), from the integrals of k.

    Args:
        function: The function k and its integrals.
        r0: Smallest lag: start of the interval of x minus end of the interval of z, (n, m).
        h: Length of the interval of x, an array that broadcasts to (n, m); 0 for a point.
        g: Length of the interval of z.

    Returns:
        The means, shape (n, m).
    """
    return _mean(function, r0, jnp.minimum(h, g), jnp.maximum(h, g))


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def _mean(function: LagFunction, r0: jax.Array, s: jax.Array, L: jax.Array) -> jax.Array:
    """The mean for a shorter interval of length s and a longer one of length L."""
    r1, r2, r3 = r0 + s, r0 + L, r0 + L + s
    is_long, length = s > SECOND_INTEGRAL_MIN_LENGTH, jnp.where(L > 0.0, L, 1.0)
    plateau = (_first(function, r2) - _first(function, r1)) / length
    ramps = _ramps(function.value, r0, r3, s, RAMP_NODES, function.has_kink)
    second = [function.second_integral(jnp.abs(r)) for r in (r0, r1, r2, r3)]
    differences = second[3] - second[2] - second[1] + second[0]
    by_differences = differences / (jnp.where(is_long, s, 1.0) * length)
    mean = jnp.where(is_long, by_differences, plateau + s / length * ramps)
    return jnp.where(_is_point(r0, s + L, L), function.value(r0 + 0.5 * (s + L)), mean)


@_mean.defjvp
def _mean_jvp(function, primals, tangents):
    # Derivatives are differences of means over one interval, at the two ends of the other.
    (r0, s, L), (dr0, ds, dL) = primals, tangents
    mean = _mean(function, r0, s, L)
    at_start, at_end = _mean_over_one(function, r0, s), _mean_over_one(function, r0 + L, s)
    slope = jnp.where(
        _is_point(r0, s + L, L),
        _slope(function, r0 + 0.5 * (s + L)),
        _ratio(at_end - at_start, L),
    )
    over_longer = _mean_over_one(function, r0 + s, L)
    in_lengths = _ratio(over_longer - mean, s) * ds + _ratio(at_end - mean, L) * dL
    return mean, slope * dr0 + in_lengths


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def _mean_over_one(function: LagFunction, r: jax.Array, g: jax.Array) -> jax.Array:
    """Mean of k over the lags from r to r + g."""
    # Derivatives divide differences of these means by the lengths of short intervals, so the means
    # must keep all digits.
    is_long = g > SECOND_INTEGRAL_MIN_LENGTH
    by_difference = (_first(function, r + g) - _first(function, r)) / jnp.where(is_long, g, 1.0)
    by_nodes = _unit_integral(function.value, r, g, RAMP_NODES, jnp.ones_like, function.has_kink)
    return jnp.where(is_long, by_difference, by_nodes)


@_mean_over_one.defjvp
def _mean_over_one_jvp(function, primals, tangents):
    (r, g), (dr, dg) = primals, tangents
    mean = _mean_over_one(function, r, g)
    at_end = function.value(r + g)
    slope = jnp.where(
        _is_point(r, g, g),
        _slope(function, r + 0.5 * g),
        _ratio(at_end - function.value(r), g),
    )
    return mean, slope * dr + _ratio(at_end - mean, g) * dg


def _first(function: LagFunction, r):
    """The first integral at lags of any sign."""
    return jnp.sign(r) * function.first_integral(jnp.abs(r))


def _slope(function: LagFunction, r):
    """Derivative of k."""
    return jax.jvp(function.value, (r,), (jnp.ones_like(r),))[1]


# Shorter intervals, in lengthscales, at lags of one sign, are treated as points.
POINT_MAX_LENGTH = 1e-5


def _is_point(r, span, longest):
    """True for intervals so short that k is linear over the lags from r to r + span."""
    is_short = (longest < POINT_MAX_LENGTH) & ((r > 0.0) | (r + span < 0.0))
    return is_short | (longest == 0.0)


def _ratio(a, length):
    """a / length, or 0 for intervals of length 0."""
    return jnp.where(length > 0.0, a / jnp.where(length > 0.0, length, 1.0), 0.0)


def mean_by_quadrature(
    k: Callable, r0: jax.Array, h: jax.Array, g: jax.Array, nodes: int
) -> jax.Array:
    """Mean of k(x - z) by Gauss-Legendre quadrature of each smooth piece.

    It is exact if k is a polynomial of degree 2 nodes - 2 on each side of the lag 0.

    Args:
        k: Function of the lag, elementwise.
        r0: Smallest lag, as in `mean_in_closed_form`.
        h: Length of the interval of x.
        g: Length of the interval of z.
        nodes: Nodes of each piece; there are six pieces.
    """
    s, L = jnp.minimum(h, g), jnp.maximum(h, g)
    r3, length = r0 + s + L, jnp.where(L > 0.0, L, 1.0)
    # For two points, L = 0, the plateau is k at their lag.
    share = jnp.where(L > 0.0, (L - s) / length, 1.0)
    plateau = _unit_integral(k, r0 + s, L - s, nodes, lambda u: 1.0)
    return share * plateau + s / length * _ramps(k, r0, r3, s, nodes)


def _ramps(k, r0, r3, s, nodes: int, has_kink: bool = True):
    """Integrals of u k(r0 + s u) and of u k(r3 - s u) over u from 0 to 1, added."""
    rising = _unit_integral(k, r0, s, nodes, lambda u: u, has_kink)
    return rising + _unit_integral(k, r3, -s, nodes, lambda u: u, has_kink)


# Largest number of nodes at which a function is evaluated at once; with more, one node at a time.
MAX_NODES_AT_ONCE = 5


def _unit_integral(k, start, length, nodes: int, weight: Callable, has_kink: bool = True):
    """Integral over (0, 1) of weight(u) k(start + length u), cut at the kink of k."""
    if not has_kink:
        u, w = unit_nodes(nodes)
        return sum(b * weight(a) * k(start + length * a) for a, b in zip(u, w, strict=True))
    kink = jnp.clip(-start / jnp.where(length == 0.0, 1.0, length), 0.0, 1.0)

    def at_node(u):
        below, above = kink * u, kink + (1.0 - kink) * u
        at_below = kink * weight(below) * k(start + length * below)
        return at_below + (1.0 - kink) * weight(above) * k(start + length * above)

    u, w = unit_nodes(nodes)
    if nodes <= MAX_NODES_AT_ONCE:
        # XLA fuses the sum with the values, and compiles this faster than a scan.
        u, w = (x.reshape(-1, *(1,) * jnp.ndim(kink)) for x in (u, w))
        return jnp.sum(w * at_node(u), axis=0)

    @jax.checkpoint
    def add(total, node):
        u, w = node
        return total + w * at_node(u), None

    total, _ = jax.lax.scan(add, jnp.zeros(jnp.shape(kink)), (u, w))
    return total
