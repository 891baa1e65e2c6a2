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

import jax
import jax.numpy as jnp
import numpy as np

# From this length of the shorter interval on, in lengthscales, differences of second integrals
# keep their digits; for shorter intervals the ramps are integrated by Gauss-Legendre quadrature,
# which has an error below 1e-13 there with this number of nodes.
SECOND_INTEGRAL_MIN_LENGTH, RAMP_NODES = 0.1, 5
# Intervals shorter than this, in lengthscales, at lags of one sign, are treated as points.
POINT_MAX_LENGTH = 1e-5


class LagFunction(ABC):
    """Even function k(r) of a lag r in lengthscales, with its integrals from 0.

    Subclasses are hashable. They define the integrals for r >= 0; `first` and `second` extend them
    to all lags, where `first` is odd and `second` is even.
    """

    @abstractmethod
    def value(self, r: jax.Array) -> jax.Array:
        """k(r), with correct derivatives at all lags."""

    @abstractmethod
    def first_integral(self, r: jax.Array) -> jax.Array:
        """Integral of k from 0 to r, for r >= 0."""

    @abstractmethod
    def second_integral(self, r: jax.Array) -> jax.Array:
        """Integral of `first_integral` from 0 to r, for r >= 0."""


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def _first(function: LagFunction, r: jax.Array) -> jax.Array:
    return jnp.sign(r) * function.first_integral(jnp.abs(r))


@_first.defjvp
def _first_jvp(function, primals, tangents):
    (r,), (dr,) = primals, tangents
    return _first(function, r), function.value(r) * dr


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def _second(function: LagFunction, r: jax.Array) -> jax.Array:
    return function.second_integral(jnp.abs(r))


@_second.defjvp
def _second_jvp(function, primals, tangents):
    (r,), (dr,) = primals, tangents
    return _second(function, r), _first(function, r) * dr


def mean_in_closed_form(
    function: LagFunction, r0: jax.Array, h: jax.Array, g: jax.Array
) -> jax.Array:
    """Mean of k(x - z), from the integrals of k.

    Args:
        function: The function k and its integrals.
        r0: Smallest lag: the start of the interval of x minus the end of that of z, (n, m).
        h: Length of the interval of x, an array that broadcasts to (n, m); 0 for a point.
        g: Length of the interval of z.

    Returns:
        The means, shape (n, m).
    """
    first, second = partial(_first, function), partial(_second, function)
    s, L = jnp.minimum(h, g), jnp.maximum(h, g)
    r3 = r0 + s + L
    is_point = (L == 0.0) | ((L < POINT_MAX_LENGTH) & ((r0 > 0.0) | (r3 < 0.0)))
    is_long = s > SECOND_INTEGRAL_MIN_LENGTH
    length, short = jnp.where(is_point, 1.0, L), jnp.where(is_long, s, 1.0)
    plateau = (first(r3 - s) - first(r0 + s)) / length
    by_ramps = plateau + s / length * _ramps(function.value, r0, r3, s, RAMP_NODES)
    differences = second(r3) - second(r3 - s) - second(r0 + s) + second(r0)
    by_differences = differences / (short * length)
    return jnp.where(
        is_point,
        function.value(r0 + 0.5 * (s + L)),
        jnp.where(is_long, by_differences, by_ramps),
    )


def mean_by_quadrature(
    k: Callable, r0: jax.Array, h: jax.Array, g: jax.Array, nodes: int
) -> jax.Array:
    """Mean of k(x - z) by Gauss-Legendre quadrature of each smooth piece.

    It is exact if k is a polynomial of degree 2 nodes - 2 on each side of the lag 0.

    Args:
        k: Even function of the lag, elementwise.
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


def _ramps(k, r0, r3, s, nodes: int):
    """Integrals of u k(r0 + s u) and of u k(r3 - s u) over u from 0 to 1, added."""
    rising = _unit_integral(k, r0, s, nodes, lambda u: u)
    return rising + _unit_integral(k, r3, -s, nodes, lambda u: u)


def _unit_integral(k, start, length, nodes: int, weight: Callable):
    """Integral of weight(u) k(start + length u) over u from 0 to 1, divided where k has its kink.

    A scan over the nodes, so that no array is larger than the result.
    """
    kink = jnp.clip(-start / jnp.where(length == 0.0, 1.0, length), 0.0, 1.0)

    @jax.checkpoint
    def add(total, node):
        u, w = node
        below, above = kink * u, kink + (1.0 - kink) * u
        at_below = kink * weight(below) * k(start + length * below)
        at_above = (1.0 - kink) * weight(above) * k(start + length * above)
        return total + w * (at_below + at_above), None

    shape = jnp.broadcast_shapes(jnp.shape(start), jnp.shape(length))
    total, _ = jax.lax.scan(add, jnp.zeros(shape), unit_nodes(nodes))
    return total


def unit_nodes(nodes: int) -> tuple[jax.Array, jax.Array]:
    """Gauss-Legendre nodes and weights on [0, 1], each (nodes,)."""
    u, w = np.polynomial.legendre.leggauss(nodes)
    return jnp.asarray(0.5 * (u + 1.0)), jnp.asarray(0.5 * w)
