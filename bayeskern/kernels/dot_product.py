"""Kernels made of the inner product x'z."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from numpyro.distributions import constraints

from bayeskern.core import validation
from bayeskern.hyperparameters import hyperparameter
from bayeskern.kernels import feature_maps, metrics
from bayeskern.kernels.base import Kernel


class Linear(Kernel):
    """v (x - c)'(z - c): straight lines through `center` c.

    variance: a number or one per dimension; center: likewise, in the units of the input.
    """

    variance: jax.Array = hyperparameter(1.0, scalar=False)
    center: jax.Array = hyperparameter(0.0, constraints.real, scalar=False)

    def evaluate(self, X, Z=None):
        variance = metrics.per_dimension("variance", self.variance, X)
        left = self._from_center(X)
        return (left * variance) @ (left if Z is None else self._from_center(Z)).T

    def evaluate_diag(self, X):
        variance = metrics.per_dimension("variance", self.variance, X)
        return jnp.sum(variance * jnp.square(self._from_center(X)), axis=1)

    def features(self, X, degree):
        variance = metrics.per_dimension("variance", self.variance, X)
        return jnp.sqrt(variance) * self._from_center(X)

    def _from_center(self, X):
        return X - metrics.per_dimension("center", self.center, X)


class Polynomial(Kernel):
    """v (offset + x'z)^degree, with offset >= 0 and degree a static whole number."""

    degree: int = eqx.field(
        static=True, default=2, converter=lambda p: validation.positive_integer(p, "degree")
    )
    offset: jax.Array = hyperparameter(1.0, constraints.nonnegative)
    variance: jax.Array = hyperparameter(1.0)

    def evaluate(self, X, Z=None):
        return self.variance * (self.offset + X @ (X if Z is None else Z).T) ** self.degree

    def evaluate_diag(self, X):
        return self.variance * (self.offset + jnp.sum(X * X, axis=1)) ** self.degree

    def features(self, X, degree):
        level = jnp.full((len(X), 1), jnp.sqrt(self.offset))
        phi = jnp.concatenate([level, X], axis=1)
        return jnp.sqrt(self.variance) * feature_maps.multinomial(self, phi, self.degree)

    def _arguments(self):
        return [f"degree={self.degree}", *super()._arguments()]


class AllSubsets(Kernel):
    """v prod_d (1 + x_d z_d): all 2^D products of distinct features, in O(D).

    Shawe-Taylor and Cristianini (2004), definition 9.1.
    """

    variance: jax.Array = hyperparameter(1.0)

    def evaluate(self, X, Z=None):
        Z = X if Z is None else Z
        # One dimension at a time: the (n, m, d) array is never formed.
        gram = self.variance
        for d in range(X.shape[1]):
            gram = gram * (1.0 + X[:, None, d] * Z[None, :, d])
        return gram

    def evaluate_diag(self, X):
        return self.variance * jnp.prod(1.0 + X * X, axis=1)

    def features(self, X, degree):
        feature_maps.check_size(self, len(X), 2 ** X.shape[1])
        phi = jnp.full((len(X), 1), jnp.sqrt(self.variance))
        for column in X.T:
            phi = jnp.concatenate([phi, phi * column[:, None]], axis=1)
        return phi


class ArcCosine(Kernel):
    """v |x|^p |z|^p J_p(angle) / (pi J) for order p = 0, 1, 2: an infinitely wide network.

    A bias of 1 is appended to x and z, and J = J_p(0) / pi normalises, so that order p has
    variance v (1 + |x|^2)^p on the diagonal. Cho and Saul (2009), equations 3-6.
    """

    order: int = eqx.field(static=True, default=1)
    variance: jax.Array = hyperparameter(1.0)

    def __check_init__(self):
        if self.order not in (0, 1, 2):
            raise ValueError(f"order must be 0, 1 or 2, got {self.order!r}.")

    def evaluate(self, X, Z=None):
        norm = jnp.sqrt(1.0 + jnp.sum(X * X, axis=1))
        unit, other, other_norm = _direction(X, norm), None, norm
        if Z is not None:
            other_norm = jnp.sqrt(1.0 + jnp.sum(Z * Z, axis=1))
            other = _direction(Z, other_norm)
        cosine = unit @ (unit if Z is None else other).T
        if Z is None:
            cosine = jnp.where(jnp.eye(X.shape[0], dtype=bool), 1.0, cosine)
        size = (norm[:, None] * other_norm[None, :]) ** self.order
        return self.variance * size * _ARC[self.order](cosine)

    def evaluate_diag(self, X):
        return self.variance * (1.0 + jnp.sum(X * X, axis=1)) ** self.order

    def _arguments(self):
        return [f"order={self.order}", *super()._arguments()]


def _direction(X, norm):
    return jnp.concatenate([X, jnp.ones_like(X[:, :1])], axis=1) / norm[:, None]


# J_p as functions of c = cos(angle), divided by their values at c = 1. Each is, up to a factor,
# the derivative of the next, so that only order 0 is singular at c = 1, where it is set to 0.
# Rounding may put c a little outside [-1, 1]: values are clipped there, derivatives are not.


def _arc0(c):
    inside = jnp.abs(c) < 1.0
    end = jnp.clip(jax.lax.stop_gradient(c), 0.0, 1.0)
    return jnp.where(inside, 1.0 - jnp.arccos(jnp.where(inside, c, 0.0)) / jnp.pi, end)


@jax.custom_jvp
def _arc1(c):
    c = jnp.clip(c, -1.0, 1.0)
    angle = jnp.arccos(c)
    return (jnp.sqrt(jnp.maximum(1.0 - c * c, 0.0)) + (jnp.pi - angle) * c) / jnp.pi


@_arc1.defjvp
def _arc1_jvp(primals, tangents):
    return _arc1(*primals), _arc0(*primals) * tangents[0]


@jax.custom_jvp
def _arc2(c):
    c = jnp.clip(c, -1.0, 1.0)
    angle, s = jnp.arccos(c), jnp.sqrt(jnp.maximum(1.0 - c * c, 0.0))
    return (3.0 * s * c + (jnp.pi - angle) * (1.0 + 2.0 * c * c)) / (3.0 * jnp.pi)


@_arc2.defjvp
def _arc2_jvp(primals, tangents):
    return _arc2(*primals), 4.0 / 3.0 * _arc1(*primals) * tangents[0]


_ARC = {0: _arc0, 1: _arc1, 2: _arc2}
