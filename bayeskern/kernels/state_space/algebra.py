"""What sums, products and multiples of processes with a state are, as processes with a state."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp

from bayeskern.core.functions import one_number
from bayeskern.kernels.state_space.processes import NoStateSpaceError, StateSpace, Term


class ProductTerm(Term):
    """The term whose kernel is the product of those of two: Kronecker products throughout."""

    first: Term
    second: Term

    @property
    def b(self):
        return self.first.b * self.second.b

    @property
    def copies(self):
        return self.first.copies * self.second.copies

    @property
    def weights(self):
        return jnp.kron(self.first.weights, self.second.weights)

    def features(self, t):
        return jnp.kron(self.first.features(t), self.second.features(t))

    def prior(self, t):
        return jnp.kron(self.first.prior(t), self.second.prior(t))

    def transition(self, t, d):
        (A, Q), (B, R) = self.first.transition(t, d), self.second.transition(t, d)
        # (A P A' + Q) x (B P B' + R) minus the part of the past; a sum, so that nothing cancels.
        before = A @ self.first.prior(t) @ A.T
        after = B @ self.second.prior(t) @ B.T + R
        return jnp.kron(A, B), jnp.kron(before, R) + jnp.kron(Q, after)


class TermInside(Term):
    """A term of which something is changed; the rest is as it is inside."""

    inner: Term

    @property
    def b(self):
        return self.inner.b

    @property
    def copies(self):
        return self.inner.copies

    @property
    def weights(self):
        return self.inner.weights

    def features(self, t):
        return self.inner.features(t)

    def prior(self, t):
        return self.inner.prior(t)

    def transition(self, t, d):
        return self.inner.transition(t, d)


class ScaledTerm(TermInside):
    """A term times the square root of a number."""

    scale: jax.Array

    @property
    def weights(self):
        return self.scale * self.inner.weights


class ModulatedTerm(TermInside):
    """A term times a function of time."""

    f: Callable

    def features(self, t):
        return one_number(self.f, jnp.reshape(t, 1)) * self.inner.features(t)


class SumSpace(StateSpace):
    """Independent processes, added."""

    summands: tuple[StateSpace, ...]

    @property
    def size(self):
        return sum(space.size for space in self.summands)

    @property
    def terms(self):
        return sum((space.terms for space in self.summands), ())

    @property
    def starts(self):
        return sum((space.starts for space in self.summands), ())

    @property
    def white(self):
        return sum((space.white for space in self.summands), ())


class ProductSpace(StateSpace):
    """The process whose kernel is the product of two: each term of one with each of the other."""

    first: StateSpace
    second: StateSpace

    def __check_init__(self):
        if self.first.white or self.second.white:
            raise NoStateSpaceError("White has a state-space form in sums, but not in products.")

    @property
    def size(self):
        return self.first.size * self.second.size

    @property
    def terms(self):
        return tuple(ProductTerm(a, b) for a in self.first.terms for b in self.second.terms)

    @property
    def starts(self):
        return self.first.starts + self.second.starts


class ScaledSpace(StateSpace):
    """A process times the square root of a number."""

    inner: StateSpace
    scale: jax.Array

    @property
    def size(self):
        return self.inner.size

    @property
    def terms(self):
        return tuple(ScaledTerm(term, self.scale) for term in self.inner.terms)

    @property
    def starts(self):
        return self.inner.starts

    @property
    def white(self):
        return tuple(self.scale * variance for variance in self.inner.white)


class ModulatedSpace(StateSpace):
    """A process times a function of time, which takes a point of shape (1,)."""

    inner: StateSpace
    f: Callable

    def __check_init__(self):
        if self.inner.white:
            raise NoStateSpaceError("White has a state-space form in sums, but not modulated.")

    @property
    def size(self):
        return self.inner.size

    @property
    def terms(self):
        return tuple(ModulatedTerm(term, self.f) for term in self.inner.terms)

    @property
    def starts(self):
        return self.inner.starts
