"""Dot-product kernels: functions of the inner product x'z."""

from __future__ import annotations

import math
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from numpyro.distributions import constraints

from bayeskern import hyperparameters as hyper
from bayeskern.core import validation
from bayeskern.hyperparameters import Hyperparameter, hyperparameter
from bayeskern.kernels import column_groups, feature_maps, metrics
from bayeskern.kernels.base import Kernel
from bayeskern.kernels.column_groups import Columns
from bayeskern.kernels.function import CovarianceFunction
from bayeskern.kernels.means.boxes import Boxes
from bayeskern.kernels.pairs import with_slopes
from bayeskern.kernels.state_space.integrals import Integral
from bayeskern.kernels.state_space.space import StateSpace, number
from bayeskern.kernels.state_space.terms import CoefficientsTerm, PolynomialTerm


class Linear(Kernel):
    """Linear kernel, k(x, z) = sum_i variance_i (x_i - center_i) (z_i - center_i).

    Functions drawn from it are straight lines or planes through 0 at the center: Bayesian linear
    regression with slopes ~ N(0, variance).

    Args:
        variance: Prior variance of the slopes, in squared units of the output per squared units of
            the inputs: a number or a vector (d,).
        center: Point where the function is 0, in the units of the inputs: a number or a vector
            (d,).

    References:
        Rasmussen and Williams (2006), section 4.2.2.

    Examples:
        >>> from bayeskern.kernels import Linear
        >>> print(Linear(variance=2.0, center=1.0)([1.0, 2.0, 3.0]))
        [[0. 0. 0.]
         [0. 2. 4.]
         [0. 4. 8.]]
    """

    offers: ClassVar[tuple[str, ...]] = ("features", "state_space", "means", "numpy_gram")
    sentence: ClassVar[str] = "follows a straight line"
    means_from_features: ClassVar[bool] = True

    variance: Hyperparameter = hyperparameter(1.0, scalar=False)
    center: Hyperparameter = hyperparameter(0.0, constraints.real, scalar=False)

    def evaluate(self, X: jax.Array, Z: jax.Array | None = None) -> jax.Array:
        variance = metrics.require_per_dimension("variance", self.variance, X)
        X_centered = self._from_center(X)
        Z_centered = X_centered if Z is None else self._from_center(Z)
        return (X_centered * variance) @ Z_centered.T

    def evaluate_diag(self, X: jax.Array) -> jax.Array:
        variance = metrics.require_per_dimension("variance", self.variance, X)
        return jnp.sum(variance * jnp.square(self._from_center(X)), axis=1)

    def state_space(self) -> StateSpace:
        return StateSpace((LineTerm(number(self, "variance"), number(self, "center")),))

    def features(self, X: jax.Array, degree: int | None) -> jax.Array:
        variance = metrics.require_per_dimension("variance", self.variance, X)
        return jnp.sqrt(variance) * self._from_center(X)

    def features_of_means(self, X: Boxes) -> jax.Array:
        return self.features(X.middle, None)

    def _from_center(self, X):
        return X - metrics.require_per_dimension("center", self.center, X)

    @staticmethod
    def numpy_gram(parts, values, pairs):
        variance, center = next(values), next(values)
        products = pairs.cached(_products, center)

        def d_center():
            return -variance * (pairs.s + pairs.t - 2.0 * center)

        return with_slopes(variance * products, [lambda: products, d_center])


def _products(pairs, center):
    return (pairs.s - center) * (pairs.t - center)


class LineTerm(CoefficientsTerm):
    """w (t - center) with w ~ N(0, variance); the state is w.

    With the value of the line in the state too, its covariance matrix would be singular.
    """

    variance: jax.Array
    center: jax.Array

    @property
    def weights(self) -> jax.Array:
        return self.variance[None]

    def features(self, t: jax.Array) -> jax.Array:
        return (t - self.center)[None]

    def integral(self, t: jax.Array, d: jax.Array, nodes: int) -> Integral:
        return Integral.without_noise(d * self.features(t + 0.5 * d))


class Polynomial(Kernel):
    """Polynomial kernel, k(x, z) = variance * (offset + x'z)^degree.

    Functions drawn from it are polynomials of this degree.

    Args:
        degree: A whole number of at least 1; static.
        offset: A number of 0 or more, in the squared units of the inputs. A larger offset gives
            lower degrees more weight.
        variance: A positive factor.
        exact: True for variance * (x'z)^degree, of which the features are the monomials of degree
            exactly `degree`. There is then no offset. Static.

    Raises:
        ValueError: The degree is not such a number, or both `exact` and an offset are given.

    References:
        Rasmussen and Williams (2006), section 4.2.2; Shawe-Taylor and Cristianini (2004),
        chapter 9.

    Examples:
        >>> from bayeskern.kernels import Polynomial
        >>> print(Polynomial(degree=3, offset=1.0)([0.0, 1.0]))
        [[1. 1.]
         [1. 8.]]
    """

    offers: ClassVar[tuple[str, ...]] = ("features", "state_space")
    sentence: ClassVar[str] = "follows a polynomial of degree {kernel.degree}"
    means_from_features: ClassVar[bool] = True

    degree: int = eqx.field(
        static=True, default=2, converter=lambda p: validation.positive_integer(p, "degree")
    )
    offset: Hyperparameter = hyperparameter(1.0, constraints.nonnegative)
    variance: Hyperparameter = hyperparameter(1.0)
    exact: bool = eqx.field(static=True, default=False)

    def __post_init__(self):
        if self.exact:
            # The default offset is 1.
            if not isinstance(self.offset, int | float) or self.offset not in (0.0, 1.0):
                raise ValueError(
                    f"Polynomial(exact=True) has no offset, got {hyper.show(self.offset)}. Leave "
                    "it out."
                )
            self.offset = 0.0

    def own_hyperparameters(self) -> list[tuple]:
        own = super().own_hyperparameters()
        return [site for site in own if not (self.exact and site[0] == "offset")]

    def evaluate(self, X: jax.Array, Z: jax.Array | None = None) -> jax.Array:
        return self.variance * (self.offset + X @ (X if Z is None else Z).T) ** self.degree

    def evaluate_diag(self, X: jax.Array) -> jax.Array:
        return self.variance * (self.offset + jnp.sum(X * X, axis=1)) ** self.degree

    def state_space(self) -> StateSpace:
        # (offset + x z)^p by the binomial theorem: a variance for each power of x.
        p = self.degree
        variances = [math.comb(p, j) * self.offset ** (p - j) for j in range(p + 1)]
        term = PolynomialTerm(p, self.variance * jnp.stack(variances))
        return StateSpace((term,))

    def features(self, X: jax.Array, degree: int | None) -> jax.Array:
        constant = jnp.full((len(X), 0 if self.exact else 1), jnp.sqrt(self.offset))
        phi = jnp.concatenate([constant, X], axis=1)
        return jnp.sqrt(self.variance) * feature_maps.multinomial(self, phi, self.degree)


class AllSubsets(Kernel):
    """All-subsets kernel, k(x, z) = variance * prod_i (1 + x_i z_i).

    Its features are the 2^d products of distinct inputs, the interactions of every order;
    evaluating k(x, z) takes O(d) operations.

    Args:
        variance: A positive factor.

    References:
        Shawe-Taylor and Cristianini (2004), "Kernel methods for pattern analysis", chapter 9.

    Examples:
        >>> from bayeskern.kernels import AllSubsets
        >>> X = [[1.0, 2.0]]
        >>> print(AllSubsets()(X), AllSubsets().feature_map(X))
        [[10.]] [[1. 1. 2. 2.]]
    """

    offers: ClassVar[tuple[str, ...]] = ("features", "means")
    means_from_features: ClassVar[bool] = True

    variance: Hyperparameter = hyperparameter(1.0)

    def evaluate(self, X: jax.Array, Z: jax.Array | None = None) -> jax.Array:
        Z = X if Z is None else Z
        # One dimension at a time: the (n, m, d) array is never formed.
        gram = self.variance
        for i in range(X.shape[1]):
            gram = gram * (1.0 + X[:, None, i] * Z[None, :, i])
        return gram

    def evaluate_diag(self, X: jax.Array) -> jax.Array:
        return self.variance * jnp.prod(1.0 + X * X, axis=1)

    def features(self, X: jax.Array, degree: int | None) -> jax.Array:
        feature_maps.check_size(self, len(X), 2 ** X.shape[1])
        phi = jnp.full((len(X), 1), jnp.sqrt(self.variance))
        for column in X.T:
            phi = jnp.concatenate([phi, phi * column[:, None]], axis=1)
        return phi

    def features_of_means(self, X: Boxes) -> jax.Array:
        # The features are linear in each column.
        return self.features(X.middle, None)

    def by_columns(self, d: int) -> dict[Columns, Kernel]:
        return column_groups.one_by_one(self, (), d)


class ArcCosine(Kernel):
    """Arc-cosine kernel: an infinitely wide neural network with one hidden layer.

    k(x, z) = variance * |x|^p |z|^p J_p(angle) / J_p(0) for order p, where x and z are extended by
    a 1 for the bias, and angle is the angle between them. On the diagonal it is
    variance * (1 + |x|^2)^p with the original x.

    Args:
        order: 0 for step, 1 for rectified linear, 2 for rectified quadratic units; static.
        variance: A positive factor.

    Raises:
        ValueError: The order is not 0, 1 or 2.

    References:
        Cho and Saul (2009), "Kernel methods for deep learning", equations 3-6.

    Examples:
        >>> from bayeskern.kernels import ArcCosine
        >>> print(ArcCosine(order=1)([0.0, 1.0]).round(3))
        [[1.    1.068]
         [1.068 2.   ]]
    """

    order: int = eqx.field(static=True, default=1)
    variance: Hyperparameter = hyperparameter(1.0)

    def __check_init__(self):
        if self.order not in (0, 1, 2):
            raise ValueError(f"order must be 0, 1 or 2, got {self.order!r}.")

    def rough_parts(self, column: int, d: int) -> list[CovarianceFunction]:
        return [self] if self.order == 0 else []

    def evaluate(self, X: jax.Array, Z: jax.Array | None = None) -> jax.Array:
        X_norm, X_unit = _with_bias(X)
        Z_norm, Z_unit = (X_norm, X_unit) if Z is None else _with_bias(Z)
        cosine = X_unit @ Z_unit.T
        if Z is None:
            cosine = jnp.where(jnp.eye(X.shape[0], dtype=bool), 1.0, cosine)
        scale = (X_norm[:, None] * Z_norm[None, :]) ** self.order
        return self.variance * scale * (_arc0, _arc1, _arc2)[self.order](cosine)

    def evaluate_diag(self, X: jax.Array) -> jax.Array:
        return self.variance * (1.0 + jnp.sum(X * X, axis=1)) ** self.order


def _with_bias(X):
    """Points extended by a 1: their norms (n,), and the points divided by the norms."""
    norm = jnp.sqrt(1.0 + jnp.sum(X * X, axis=1))
    return norm, jnp.concatenate([X, jnp.ones_like(X[:, :1])], axis=1) / norm[:, None]


# J_p as a function of c = cos(angle), divided by its value at c = 1. Up to a factor, J_p is the
# derivative of J_{p+1}. The derivative of J_0 is infinite at |c| = 1 and is set to 0 there.
# Rounding may put c slightly outside [-1, 1]: the values are then clipped.


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
