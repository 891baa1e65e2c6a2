"""Integrals of state-space processes over a time step."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from bayeskern.core.quadrature import unit_nodes

if TYPE_CHECKING:
    from bayeskern.kernels.state_space.terms import Term


class Integral(NamedTuple):
    """Integral a'x(t) + e of a process over (t, t + d), with state x and noise e.

    Attributes:
        coefficients: a, shape (s,).
        covariance: Covariance of e and the noise of the state at t + d, shape (s,).
        variance: Variance of e.
    """

    coefficients: Float[Array, " s"]
    covariance: Float[Array, " s"]
    variance: Float[Array, ""]

    @classmethod
    def without_noise(cls, coefficients: jax.Array) -> Integral:
        """Integral of a process that its state determines."""
        return cls(coefficients, jnp.zeros_like(coefficients), jnp.zeros(()))

    def scaled(self, scale: jax.Array) -> Integral:
        """Integral of a process whose variance is multiplied by a number.

        The variances of the state are multiplied too; the coefficients stay unchanged.
        """
        return Integral(self.coefficients, scale * self.covariance, scale * self.variance)


def by_quadrature(term: Term, t: jax.Array, d: jax.Array, nodes: int) -> Integral:
    """Integral of a term over (t, t + d) by Gauss-Legendre quadrature.

    The noise of the state at t + s is w(s), of variance Q(s), and Cov(w(r), w(s)) = Q(r) A', with
    the transition A from t + r to t + s for r < s.

    Args:
        term: The term.
        t: Start of the step.
        d: Length of the step.
        nodes: Number of nodes of a single integral; the variance, a double integral, has nodes^2.
    """
    u, w = unit_nodes(nodes)

    def features(s):
        return jax.vmap(term.features)(t + s)

    def value_noise(s):
        # Covariance of w(s) and its first number, the noise of the value of a copy.
        return jax.vmap(lambda s: term.transition(t, s)[1][:, 0])(s)

    def transition(r, s):
        return jax.vmap(lambda r: term.transition(t + r, s - r)[0])(r)

    s, weights = d * u, term.weights
    from_start = jax.vmap(lambda s: term.transition(t, s)[0][0])(s)
    coefficients = jnp.einsum("k,kb,km->bm", d * w, from_start, features(s))
    to_end = jnp.einsum("kij,kj->ki", transition(s, d), value_noise(s))
    covariance = jnp.einsum("k,kb,km->bm", d * w, to_end, features(s)) * weights

    @jax.checkpoint
    def before(s):
        # Covariance of the noise of f at t + s and its integral over (t, t + s).
        r = s * u
        at_s = jnp.einsum("kb,kb->k", transition(r, s)[:, 0], value_noise(r))
        return s * jnp.einsum("k,km,m->", w * at_s, features(r), weights * term.features(t + s))

    variance = 2.0 * d * w @ jax.lax.map(before, s)
    return Integral(coefficients.ravel(), covariance.ravel(), variance)
