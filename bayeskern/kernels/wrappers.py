"""Kernels that scale, name, or transform the values of one kernel."""

from __future__ import annotations

import operator
from functools import partial, reduce
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from numpyro.distributions import constraints

from bayeskern import hyperparameters as hyper
from bayeskern.core import validation
from bayeskern.hyperparameters import Hyperparameter, hyperparameter
from bayeskern.kernels import column_groups, feature_maps
from bayeskern.kernels.base import Kernel
from bayeskern.kernels.column_groups import Columns
from bayeskern.kernels.constant import Constant
from bayeskern.kernels.description import InputAxis
from bayeskern.kernels.function import CovarianceFunction
from bayeskern.kernels.means.boxes import Boxes
from bayeskern.kernels.pairs import Slope
from bayeskern.kernels.state_space.space import StateSpace


class Wrapper(Kernel):
    """Base of kernels that transform one kernel and keep its name.

    A subclass maps points (`_map`), or entries of the Gram matrix (`_transform`), or both.

    Args:
        inner: The kernel k.
    """

    takes_levels: ClassVar[bool] = True

    inner: Kernel

    def children(self) -> list[tuple[tuple, Kernel]]:
        return [(("inner",), self.inner)]

    def own_name(self) -> str | None:
        return self.inner.own_name()

    def label(self) -> str:
        return self.inner.label()

    def evaluate(self, X: jax.Array, Z: jax.Array | None = None) -> jax.Array:
        Z = None if Z is None else self._map(Z)
        return self._transform(self.inner.evaluate(self._map(X), Z))

    def evaluate_diag(self, X: jax.Array) -> jax.Array:
        return self._transform(self.inner.evaluate_diag(self._map(X)))

    def features(self, X: jax.Array, degree: int | None) -> jax.Array:
        return self.inner.features(self._map(X), degree)

    def _map(self, X: jax.Array) -> jax.Array:
        """Points at which the inner kernel is evaluated."""
        return X

    def _transform(self, K: jax.Array) -> jax.Array:
        """Transform covariances of the inner kernel."""
        return K


class Proportional(Wrapper):
    """Base of kernels proportional to one kernel: `Scaled` and `Named`."""

    depends_on_lag: ClassVar[bool] = True

    def evaluate_means(self, X: Boxes, Z: Boxes) -> jax.Array:
        return self._transform(self.inner.evaluate_means(X, Z))

    def features_of_means(self, X: Boxes) -> jax.Array:
        return self.inner.features_of_means(X)

    def frequencies(self, key: jax.Array, n: int, d: int, orthogonal: bool = False) -> jax.Array:
        return self.inner.frequencies(key, n, d, orthogonal)

    def state_space(self) -> StateSpace:
        return self.inner.state_space()

    def by_columns(self, d: int) -> dict[Columns, Kernel]:
        return self.inner.by_columns(d)

    def describe(self, axis: InputAxis) -> str:
        return self.inner.describe(axis)

    def bare(self) -> CovarianceFunction:
        return self.inner.bare()


class Scaled(Proportional):
    """Scaled kernel scale * k(x, z).

    Args:
        inner: The kernel k.
        scale: Factor of the variance, 0 or more.
    """

    scale: Hyperparameter = hyperparameter(1.0, constraints.nonnegative)

    precedence: ClassVar[int] = 2

    def _transform(self, K: jax.Array) -> jax.Array:
        return self.scale * K

    def features_of_means(self, X: Boxes) -> jax.Array:
        return jnp.sqrt(self.scale) * self.inner.features_of_means(X)

    def state_space(self) -> StateSpace:
        return self.inner.state_space().scaled(self.scale)

    def features(self, X: jax.Array, degree: int | None) -> jax.Array:
        return jnp.sqrt(self.scale) * self.inner.features(X, degree)

    def by_columns(self, d: int) -> dict[Columns, Kernel]:
        scale = hyper.replace(Constant(), [("variance",)], [self.scale])
        return column_groups.merge_overlapping([((), scale), *self.inner.by_columns(d).items()])

    @staticmethod
    def numpy_gram(parts, values, pairs):
        scale = next(values)
        K, pull = parts[0].evaluate(values, pairs)

        def pullback(w):
            return [partial(w.dot, K), *(partial(_times, scale, slope) for slope in pull(w))]

        return scale * K, pullback

    def terms_of_sum(self) -> list[tuple[tuple[str, ...], Kernel]]:
        # Not `Scaled(k, self.scale)`: the scale may hold a value for each draw.
        terms = self.inner.terms_of_sum()
        return [(names, hyper.replace(self, [("inner",)], [k])) for names, k in terms]

    def __repr__(self):
        return f"{hyper.show(self.scale)} * {self.inner._show_in(3)}"


def _times(factor: float, slope: Slope) -> float:
    return factor * slope()


class Named(Proportional):
    """Kernel with a name, which labels its hyperparameters and its component.

    Args:
        inner: The kernel.
        name: An identifier, such as "trend"; "rest" is reserved for the unnamed terms.
    """

    name: str = eqx.field(static=True)

    is_name: ClassVar[bool] = True

    def __check_init__(self):
        validation.kernel_name(self.name)

    def own_name(self) -> str | None:
        return self.name

    def named(self, name: str) -> Kernel:
        return Named(self.inner, name)

    @staticmethod
    def numpy_gram(parts, values, pairs):
        return parts[0].evaluate(values, pairs)

    def terms_of_sum(self) -> list[tuple[tuple[str, ...], Kernel]]:
        return [((self.name, *names), kernel) for names, kernel in self.inner.terms_of_sum()]

    def __repr__(self):
        return f"{self.inner._show_in(4)}.named({self.name!r})"


class Power(Wrapper):
    """Power k(x, z)^power.

    Args:
        inner: The kernel k.
        power: A whole number of at least 1. It is static, because a traced power has no safe
            derivative.
    """

    power: int = eqx.field(
        static=True, converter=lambda p: validation.positive_integer(p, "the power of a kernel")
    )

    precedence: ClassVar[int] = 3
    depends_on_lag: ClassVar[bool] = True

    def _transform(self, K: jax.Array) -> jax.Array:
        return K**self.power

    def frequencies(self, key: jax.Array, n: int, d: int, orthogonal: bool = False) -> jax.Array:
        keys = jax.random.split(key, self.power)
        return reduce(operator.add, (self.inner.frequencies(k, n, d, orthogonal) for k in keys))

    def state_space(self) -> StateSpace:
        return reduce(operator.mul, [self.inner.state_space()] * self.power)

    def features(self, X: jax.Array, degree: int | None) -> jax.Array:
        return feature_maps.multinomial(self, self.inner.features(X, degree), self.power)

    def by_columns(self, d: int) -> dict[Columns, Kernel]:
        return {columns: k**self.power for columns, k in self.inner.by_columns(d).items()}

    def describe(self, axis: InputAxis) -> str:
        return f"{self.inner.describe(axis)}, transformed"

    def __repr__(self):
        return f"{self.inner._show_in(4)} ** {self.power}"


class Exp(Wrapper):
    """Exponential exp(k(x, z)).

    Args:
        inner: The kernel k.
    """

    depends_on_lag: ClassVar[bool] = True

    def _transform(self, K: jax.Array) -> jax.Array:
        return jnp.exp(K)

    features = Kernel.features

    def by_columns(self, d: int) -> dict[Columns, Kernel]:
        return {column_groups.joined(self.inner.by_columns(d)): self}

    def describe(self, axis: InputAxis) -> str:
        return f"{self.inner.describe(axis)}, transformed"

    def __repr__(self):
        return f"{self.inner._show_in(4)}.exp()"
