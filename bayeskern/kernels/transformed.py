"""Kernels that transform the points of one kernel: selected, warped, modulated."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp

from bayeskern.core import validation
from bayeskern.core.functions import as_module, one_number
from bayeskern.kernels import warps
from bayeskern.kernels.base import Kernel
from bayeskern.kernels.column_groups import Columns
from bayeskern.kernels.description import InputAxis
from bayeskern.kernels.function import CovarianceFunction
from bayeskern.kernels.means.boxes import Boxes
from bayeskern.kernels.state_space.space import NoStateSpaceError, StateSpace
from bayeskern.kernels.wrappers import Wrapper


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

    def describe(self, axis: InputAxis) -> str:
        return f"{self.inner.describe(axis)}, transformed"

    def __repr__(self):
        return f"{self.inner._show_in(4)}.warp({warps.show(self.f)})"
