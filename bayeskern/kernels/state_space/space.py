"""Gaussian processes in time as state-space models, and their algebra.

A Gaussian process has a state-space form if f(t) = h'x(t), where the state x(t), a vector of s
numbers, is a Markov process: x(t + d) = A x(t) + w with w ~ N(0, Q) independent of the past. The
state of a sum concatenates the states of its terms; the state of a product is their Kronecker
product. Sarkka and Solin (2019), "Applied Stochastic Differential Equations", chapter 12;
Hartikainen and Sarkka (2010).
"""

from __future__ import annotations

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from bayeskern.core.functions import one_number
from bayeskern.hyperparameters import Parametrized
from bayeskern.kernels.state_space.blocks import Repeated, Weighted
from bayeskern.kernels.state_space.integrals import Integral
from bayeskern.kernels.state_space.terms import NoStateSpaceError, Term

# A filter with a larger state is too slow to be useful.
MAX_STATE_SIZE = 200


class StateSpace(eqx.Module):
    """Process f(t) = h(t)'x(t) + white noise in time, with state x(t) ~ N(0, P(t)).

    f is a sum of independent terms, and x concatenates their states. Times are scalars.

    Attributes:
        terms: The terms, in the order of their states.
        white: Variances of independent white noises that are added to h'x.
    """

    terms: tuple[Term, ...]
    white: tuple[jax.Array, ...] = ()

    @property
    def size(self) -> int:
        """Size s of the state."""
        return sum(term.size for term in self.terms)

    @property
    def starts(self) -> tuple[jax.Array, ...]:
        """Start times; before them the state-space form does not hold."""
        return sum((term.starts for term in self.terms), ())

    @property
    def has_closed_integrals(self) -> bool:
        """True if all integrals are in closed form; otherwise some are by quadrature."""
        return all(term.has_closed_integral for term in self.terms)

    def h(self, t: Float[Array, ""]) -> Float[Array, " s"]:
        """Coefficients of the state in f at the time t."""
        return jnp.concatenate([term.value(t) for term in self.terms])

    def slope(self, t: Float[Array, ""]) -> Float[Array, " s"]:
        """Coefficients of the state in the derivative of f at the time t.

        Raises:
            NoStateSpaceError: f has no derivative.
        """
        return jnp.concatenate([term.slope(t) for term in self.terms])

    def integral(self, t: Float[Array, ""], d: Float[Array, ""], nodes: int) -> Integral:
        """Integral of h'x from the time t to t + d.

        Args:
            t: Start of the step.
            d: Length of the step.
            nodes: Gauss-Legendre nodes, for terms without closed form.
        """
        integrals = [term.integral(t, d, nodes) for term in self.terms]
        coefficients, covariances, variances = zip(*integrals, strict=True)
        variance = jnp.sum(jnp.stack(variances))
        return Integral(jnp.concatenate(coefficients), jnp.concatenate(covariances), variance)

    def covariance(self, t: Float[Array, ""]) -> Float[Array, "s s"]:
        """Prior covariance of the state, P(t)."""
        priors = tuple(term.prior(t) for term in self.terms)
        return Weighted(priors, tuple(term.weights for term in self.terms)).dense()

    def step(self, t: Float[Array, ""], d: Float[Array, ""]) -> tuple[Repeated, Weighted]:
        """Transition matrix A and noise covariance Q from time t to t + d, d >= 0."""
        A, Q = zip(*(term.transition(t, d) for term in self.terms), strict=True)
        weights = tuple(term.weights for term in self.terms)
        return Repeated(A, tuple(map(len, weights))), Weighted(Q, weights)

    def __add__(self, other: StateSpace) -> StateSpace:
        """Sum of independent processes."""
        return StateSpace(self.terms + other.terms, self.white + other.white)

    def __mul__(self, other: StateSpace) -> StateSpace:
        """Process whose kernel is the product of two kernels.

        Raises:
            NoStateSpaceError: A factor has white noise, or the state is too large.
        """
        if self.white or other.white:
            raise NoStateSpaceError("White has a state-space form in sums, but not in products.")
        size = self.size * other.size
        if size > MAX_STATE_SIZE:
            raise NoStateSpaceError(
                f"its state has at least {size:,} numbers; the maximum is {MAX_STATE_SIZE}"
            )
        return StateSpace(tuple(_product(a, b) for a in self.terms for b in other.terms))

    def scaled(self, scale: jax.Array) -> StateSpace:
        """Process whose kernel is multiplied by a number."""
        terms = tuple(RescaledTerm(term, scale) for term in self.terms)
        return StateSpace(terms, tuple(scale * variance for variance in self.white))

    def modulated(self, f: Callable) -> StateSpace:
        """Process multiplied by a function f of time, which takes a point of shape (1,)."""
        if self.white:
            raise NoStateSpaceError(
                "White has a state-space form in sums, but not multiplied by a function."
            )
        return StateSpace(tuple(RescaledTerm(term, jnp.ones(()), f) for term in self.terms))


class ProductTerm(Term):
    """Term whose kernel is a product of two kernels, by Kronecker products."""

    first: Term
    second: Term

    @property
    def b(self) -> int:
        return self.first.b * self.second.b

    @property
    def weights(self) -> jax.Array:
        return jnp.kron(self.first.weights, self.second.weights)

    @property
    def starts(self) -> tuple[jax.Array, ...]:
        return self.first.starts + self.second.starts

    def features(self, t: jax.Array) -> jax.Array:
        return jnp.kron(self.first.features(t), self.second.features(t))

    def prior(self, t: jax.Array) -> jax.Array:
        return jnp.kron(self.first.prior(t), self.second.prior(t))

    def transition(self, t: jax.Array, d: jax.Array) -> tuple[jax.Array, jax.Array]:
        (A, Q), (B, R) = self.first.transition(t, d), self.second.transition(t, d)
        # The noise (A P A' + Q) x (B S B' + R) - A P A' x B S B', with the priors P and S, is
        # written as a sum, so that nothing cancels.
        APA = A @ self.first.prior(t) @ A.T
        BSB_R = B @ self.second.prior(t) @ B.T + R
        return jnp.kron(A, B), jnp.kron(APA, R) + jnp.kron(Q, BSB_R)

    @property
    def copy_slope(self) -> jax.Array:
        first, second = jnp.eye(self.first.b)[0], jnp.eye(self.second.b)[0]
        return jnp.kron(self.first.copy_slope, second) + jnp.kron(first, self.second.copy_slope)


class RescaledTerm(Term):
    """Term multiplied by sqrt(scale) f(t); f = None means f(t) = 1."""

    inner: Term
    scale: jax.Array
    f: Callable | None = None

    @property
    def b(self) -> int:
        return self.inner.b

    @property
    def weights(self) -> jax.Array:
        return self.scale * self.inner.weights

    @property
    def starts(self) -> tuple[jax.Array, ...]:
        return self.inner.starts

    def features(self, t: jax.Array) -> jax.Array:
        phi = self.inner.features(t)
        return phi if self.f is None else one_number(self.f, jnp.reshape(t, 1)) * phi

    def prior(self, t: jax.Array) -> jax.Array:
        return self.inner.prior(t)

    def transition(self, t: jax.Array, d: jax.Array) -> tuple[jax.Array, jax.Array]:
        return self.inner.transition(t, d)

    @property
    def copy_slope(self) -> jax.Array:
        return self.inner.copy_slope

    @property
    def constant_variance(self) -> jax.Array | None:
        variance = self.inner.constant_variance
        return None if self.f is not None or variance is None else self.scale * variance

    @property
    def has_closed_integral(self) -> bool:
        return self.f is None and self.inner.has_closed_integral

    def integral(self, t: jax.Array, d: jax.Array, nodes: int) -> Integral:
        if self.f is not None:
            return super().integral(t, d, nodes)
        return self.inner.integral(t, d, nodes).scaled(self.scale)


def _product(first: Term, second: Term) -> Term:
    """Term whose kernel is the product of the kernels of two terms."""
    for factor, other in ((first, second), (second, first)):
        if factor.constant_variance is not None:
            return RescaledTerm(other, factor.constant_variance)
    return ProductTerm(first, second)


def number(kernel: Parametrized, name: str) -> jax.Array:
    """Value of a hyperparameter of a kernel of one column, as an array of shape ().

    Raises:
        NoStateSpaceError: The hyperparameter has a value for each of several columns.
    """
    value = jnp.asarray(getattr(kernel, name))
    if value.size != 1:
        raise NoStateSpaceError(f"{kernel!r} has a {name} for each of several columns.")
    return value.reshape(())
