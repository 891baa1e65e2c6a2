"""Kernels that transform one kernel: its values, its points, or only its name."""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import partial, reduce
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from numpyro.distributions import constraints

from bayeskern import hyperparameters as hyper
from bayeskern.core import validation
from bayeskern.core.functions import as_module, one_number
from bayeskern.hyperparameters import Hyperparameter, hyperparameter
from bayeskern.kernels import column_groups, feature_maps, warps
from bayeskern.kernels.base import Kernel
from bayeskern.kernels.column_groups import Columns
from bayeskern.kernels.constant import Constant
from bayeskern.kernels.description import InputAxis
from bayeskern.kernels.function import CovarianceFunction
from bayeskern.kernels.means.boxes import Boxes
from bayeskern.kernels.pairs import Slope
from bayeskern.kernels.state_space.space import NoStateSpaceError, StateSpace


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

    def describe(self, axis: InputAxis) -> str:
        return f"{self.inner.describe(axis)}, transformed"

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

    def __repr__(self):
        return f"{self.inner._show_in(4)}.exp()"


class Select(Wrapper):
    """Kernel on a subset of the columns of X.

    Args:
        inner: The kernel k.
        columns: One column or several, each an index or, for data frames, a name.
    """

    columns: tuple[int | str, ...] = eqx.field(static=True, converter=validation.columns)

    depends_on_lag: ClassVar[bool] = True

    def resolve(self, columns: tuple[str, ...] | None) -> Select:
        if columns is None:
            return self
        indices = tuple(validation.column_indices(self.columns, len(columns), columns).tolist())
        return Select(self.inner.resolve(tuple(columns[i] for i in indices)), indices)

    def frequencies(self, key: jax.Array, n: int, d: int, orthogonal: bool = False) -> jax.Array:
        # Frequencies are zero along the columns that are not selected.
        unit_vectors = self._map(jnp.eye(d))
        return self.inner.frequencies(key, n, unit_vectors.shape[1], orthogonal) @ unit_vectors.T

    def state_space(self) -> StateSpace:
        if self.columns != (0,):
            raise NoStateSpaceError(f"{self!r} selects other columns than column 0, the time.")
        return self.inner.state_space()

    def evaluate_means(self, X: Boxes, Z: Boxes) -> jax.Array:
        indices = self._indices(X.d)
        return self.inner.evaluate_means(X.on(indices), Z.on(indices))

    def features_of_means(self, X: Boxes) -> jax.Array:
        return self.inner.features_of_means(X.on(self._indices(X.d)))

    def rough_parts(self, column: int, d: int) -> list[CovarianceFunction]:
        indices = self._indices(d)
        if column not in indices:
            return []
        return self.inner.rough_parts(indices.index(column), len(indices))

    def _indices(self, d: int) -> list[int]:
        return (validation.column_indices(self.columns, d) % d).tolist()

    def by_columns(self, d: int) -> dict[Columns, Kernel]:
        indices = self._indices(d)
        return {
            tuple(sorted(indices[i] for i in columns)): Select(k, self.columns)
            for columns, k in self.inner.by_columns(len(indices)).items()
        }

    def _map(self, X: jax.Array) -> jax.Array:
        return X[:, validation.column_indices(self.columns, X.shape[1])]

    def describe(self, axis: InputAxis) -> str:
        names = [axis.name(column) for column in self.columns if isinstance(column, int)]
        return f"{self.inner.describe(axis)} (in {', '.join(names)})"

    def __repr__(self):
        return f"{self.inner._show_in(4)}.on({list(self.columns)})"


class Modulated(Wrapper):
    """Modulated kernel f(x) k(x, z) f(z), for a function f of one point.

    Args:
        inner: The kernel k.
        f: JAX function from one point, shape (d,), to a number. It may be an equinox module,
            whose weights are fixed.
    """

    f: Callable = eqx.field(converter=as_module)

    def evaluate(self, X: jax.Array, Z: jax.Array | None = None) -> jax.Array:
        f_X = self._values(X)
        f_Z = f_X if Z is None else self._values(Z)
        return f_X[:, None] * self.inner.evaluate(X, Z) * f_Z

    def evaluate_diag(self, X: jax.Array) -> jax.Array:
        return jnp.square(self._values(X)) * self.inner.evaluate_diag(X)

    def state_space(self) -> StateSpace:
        return self.inner.state_space().modulated(self.f)

    def features(self, X: jax.Array, degree: int | None) -> jax.Array:
        return self._values(X)[:, None] * self.inner.features(X, degree)

    def terms_of_sum(self) -> list[tuple[tuple[str, ...], Kernel]]:
        return [(names, Modulated(k, self.f)) for names, k in self.inner.terms_of_sum()]

    def _values(self, X):
        return jax.vmap(partial(one_number, self.f))(X)

    def describe(self, axis: InputAxis) -> str:
        return f"{self.inner.describe(axis)}, times a given function"

    def __repr__(self):
        return f"{self.inner._show_in(4)}.modulate({self.f!r})"


class Warped(Wrapper):
    """Warped kernel k(f(x), f(z)), for a function f of one point.

    Args:
        inner: The kernel k.
        f: JAX function from one point, shape (d,), to a number or a vector. It may be an equinox
            module, whose floating arrays are hyperparameters (a deep kernel).
    """

    takes_levels: ClassVar[bool] = False

    f: Callable = eqx.field(converter=as_module)

    def own_hyperparameters(self) -> list[tuple]:
        return [(name, ("f", *path), constraint) for name, path, constraint in warps.sites(self.f)]

    def resolve(self, columns: tuple[str, ...] | None) -> Warped:
        # The inner kernel is evaluated at the values of f, whose columns have no names.
        self._require_numbers(columns)
        return self

    def _map(self, X: jax.Array) -> jax.Array:
        return warps.values(self.f, X)

    def __repr__(self):
        return f"{self.inner._show_in(4)}.warp({warps.show(self.f)})"
