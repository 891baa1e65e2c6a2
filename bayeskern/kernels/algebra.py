"""Operations under which kernels are closed: k1 + k2, k1 k2, c k, k^p, exp k, k(f(x), f(z)).

Rasmussen and Williams (2006), section 4.2.4; Shawe-Taylor and Cristianini (2004), proposition 3.22.
"""

from __future__ import annotations

import keyword
from collections.abc import Callable
from functools import reduce
from operator import add as plus
from operator import mul as times
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from numpyro.distributions import constraints

from bayeskern.core import validation
from bayeskern.hyperparameters import hyperparameter, show
from bayeskern.kernels import spectral_density
from bayeskern.kernels.base import Kernel, is_scalar
from bayeskern.kernels.dot_product import Constant


class _Branch(Kernel):
    """Several kernels joined by one operation."""

    terms: tuple[Kernel, ...]

    branches: ClassVar[bool] = True

    def children(self):
        return [(("terms", i), term) for i, term in enumerate(self.terms)]

    def _each(self, key, n, d, orthogonal):
        keys = jax.random.split(key, len(self.terms))
        return [
            k.frequencies(key, n, d, orthogonal) for k, key in zip(self.terms, keys, strict=True)
        ]


class Sum(_Branch):
    """k1 + k2 + ..., kept flat."""

    precedence: ClassVar[int] = 1

    def evaluate(self, X, Z=None):
        return reduce(plus, (k.evaluate(X, Z) for k in self.terms))

    def evaluate_diag(self, X):
        return reduce(plus, (k.evaluate_diag(X) for k in self.terms))

    def frequencies(self, key, n, d, orthogonal=False):
        # A mixture: each row comes from one of the terms, in proportion to their variances.
        key, for_choice = jax.random.split(key)
        variances = jnp.stack([spectral_density.variance(k, d) for k in self.terms])
        choice = jax.random.categorical(for_choice, jnp.log(variances), shape=(n,))
        return jnp.stack(self._each(key, n, d, orthogonal))[choice, jnp.arange(n)]

    def terms_of_sum(self):
        return [item for term in self.terms for item in term.terms_of_sum()]

    def __repr__(self):
        return " + ".join(term._show_in(2) for term in self.terms)


class Product(_Branch):
    """k1 k2 ..., elementwise, kept flat."""

    precedence: ClassVar[int] = 2

    def evaluate(self, X, Z=None):
        return reduce(times, (k.evaluate(X, Z) for k in self.terms))

    def evaluate_diag(self, X):
        return reduce(times, (k.evaluate_diag(X) for k in self.terms))

    def frequencies(self, key, n, d, orthogonal=False):
        return reduce(plus, self._each(key, n, d, orthogonal))

    def __repr__(self):
        return " * ".join(term._show_in(3) for term in self.terms)


class _Wrapper(Kernel):
    """One kernel, changed. Its names are those of the kernel inside."""

    inner: Kernel

    def children(self):
        return [(("inner",), self.inner)]

    def own_name(self):
        return self.inner.own_name()

    def label(self):
        return self.inner.label()


class Scaled(_Wrapper):
    """c k, with scale c >= 0."""

    scale: jax.Array = hyperparameter(1.0, constraints.nonnegative)

    precedence: ClassVar[int] = 2

    def evaluate(self, X, Z=None):
        return self.scale * self.inner.evaluate(X, Z)

    def evaluate_diag(self, X):
        return self.scale * self.inner.evaluate_diag(X)

    def frequencies(self, key, n, d, orthogonal=False):
        return self.inner.frequencies(key, n, d, orthogonal)

    def terms_of_sum(self):
        return [(names, Scaled(k, self.scale)) for names, k in self.inner.terms_of_sum()]

    def __repr__(self):
        return f"{show(self.scale)} * {self.inner._show_in(3)}"


class Power(_Wrapper):
    """k^p for a whole number p >= 1, which is static: a traced power has no safe derivative."""

    power: int = eqx.field(
        static=True, converter=lambda p: validation.positive_integer(p, "the power of a kernel")
    )

    precedence: ClassVar[int] = 3

    def evaluate(self, X, Z=None):
        return self.inner.evaluate(X, Z) ** self.power

    def evaluate_diag(self, X):
        return self.inner.evaluate_diag(X) ** self.power

    def frequencies(self, key, n, d, orthogonal=False):
        keys = jax.random.split(key, self.power)
        return reduce(plus, (self.inner.frequencies(key, n, d, orthogonal) for key in keys))

    def __repr__(self):
        return f"{self.inner._show_in(4)} ** {self.power}"


class Exp(_Wrapper):
    """exp(k)."""

    def evaluate(self, X, Z=None):
        return jnp.exp(self.inner.evaluate(X, Z))

    def evaluate_diag(self, X):
        return jnp.exp(self.inner.evaluate_diag(X))

    def __repr__(self):
        return f"{self.inner._show_in(4)}.exp()"


class Warped(_Wrapper):
    """k(f(x), f(z)), for a function f of one point x, shape (d,).

    f may be an equinox module with parameters of its own (a deep kernel).
    """

    f: Callable

    def evaluate(self, X, Z=None):
        return self.inner.evaluate(self._map(X), None if Z is None else self._map(Z))

    def evaluate_diag(self, X):
        return self.inner.evaluate_diag(self._map(X))

    def resolve(self, columns):
        # The kernel inside sees what f returns, whose columns have no names.
        return self

    def _map(self, X):
        features = jax.vmap(self.f)(X)
        return features.reshape(X.shape[0], -1)

    def __repr__(self):
        return f"{self.inner._show_in(4)}.warp({self.f!r})"


class PlainFunction(eqx.Module):
    """A Python function as a static part of a kernel, so that kernels stay pytrees of arrays."""

    f: Callable = eqx.field(static=True)

    def __call__(self, x):
        return self.f(x)

    def __repr__(self):
        return getattr(self.f, "__qualname__", repr(self.f))


class Select(_Wrapper):
    """k on some of the columns, given by index or, for data frames, by name."""

    columns: tuple[int | str, ...] = eqx.field(static=True, converter=lambda c: _columns(c))

    def resolve(self, columns):
        inner = self.inner
        if columns is not None:
            chosen = validation.column_indices(self.columns, columns)
            inner = inner.resolve([columns[i] for i in chosen])
            return Select(inner, chosen)
        return self

    def evaluate(self, X, Z=None):
        return self.inner.evaluate(self._take(X), None if Z is None else self._take(Z))

    def evaluate_diag(self, X):
        return self.inner.evaluate_diag(self._take(X))

    def frequencies(self, key, n, d, orthogonal=False):
        # Zero along the columns that are left out.
        chosen = self._take(jnp.eye(d))
        return self.inner.frequencies(key, n, chosen.shape[1], orthogonal) @ chosen.T

    def _take(self, X):
        names = [c for c in self.columns if isinstance(c, str)]
        if names:
            raise ValueError(
                f"columns {names} are names, but X is an array without names. "
                "Pass a data frame, or call kernel.resolve(columns) first."
            )
        # JAX clamps an index that is out of range instead of refusing it.
        if max(self.columns) >= X.shape[1] or min(self.columns) < -X.shape[1]:
            raise ValueError(
                f"columns {list(self.columns)} wanted, but X has {X.shape[1]} columns."
            )
        return X[:, np.array(self.columns)]

    def __repr__(self):
        return f"{self.inner._show_in(4)}.on({list(self.columns)})"


class Named(_Wrapper):
    """A kernel with a name."""

    name: str = eqx.field(static=True)

    is_name: ClassVar[bool] = True

    def __check_init__(self):
        if not isinstance(self.name, str) or not self.name.isidentifier():
            raise ValueError(
                f"a kernel's name must be an identifier such as 'trend', got {self.name!r}."
            )
        if self.name == "rest" or keyword.iskeyword(self.name):
            raise ValueError(f"{self.name!r} is reserved; choose another name for the kernel.")

    def own_name(self):
        return self.name

    def evaluate(self, X, Z=None):
        return self.inner.evaluate(X, Z)

    def evaluate_diag(self, X):
        return self.inner.evaluate_diag(X)

    def frequencies(self, key, n, d, orthogonal=False):
        return self.inner.frequencies(key, n, d, orthogonal)

    def terms_of_sum(self):
        return [((self.name, *names), kernel) for names, kernel in self.inner.terms_of_sum()]

    def __repr__(self):
        return f"{self.inner._show_in(4)}.named({self.name!r})"


def add(a, b) -> Kernel:
    if not isinstance(a, Kernel) and is_scalar(a):
        # sum([k1, k2]) starts from 0.
        return b if isinstance(a, int) and a == 0 else add(Constant(a), b)
    if not isinstance(b, Kernel):
        return add(a, Constant(b)) if is_scalar(b) else NotImplemented
    return Sum(_flat(Sum, a) + _flat(Sum, b)) if isinstance(a, Kernel) else NotImplemented


def multiply(a, b) -> Kernel:
    if isinstance(b, Kernel):
        return Product(_flat(Product, a) + _flat(Product, b))
    return Scaled(a, b) if is_scalar(b) else NotImplemented


def _flat(operation, kernel) -> tuple[Kernel, ...]:
    # `type(...) is`, not isinstance: a Named sum is one term and keeps its name.
    return kernel.terms if type(kernel) is operation else (kernel,)


def warp(kernel, f) -> Kernel:
    return Warped(kernel, f if isinstance(f, eqx.Module) else PlainFunction(f))


def name(kernel, name: str) -> Kernel:
    return Named(kernel.inner if kernel.is_name else kernel, name)


def components(kernel) -> dict[str, Kernel]:
    """The additive terms by their outermost name, in the order of the sum; the unnamed are `rest`.

    The components sum to the kernel.
    """
    return {name: component(kernel, name) for name in component_names(kernel)}


def component_names(kernel) -> list[str]:
    names = dict.fromkeys(names[0] if names else "rest" for names, _ in kernel.terms_of_sum())
    return [n for n in names if n != "rest"] + ["rest"] * ("rest" in names)


def component(kernel, name: str) -> Kernel:
    """One additive component, by its name or, for a name inside a named sum, its dotted path."""
    wanted = () if name == "rest" else tuple(name.split("."))
    terms = [
        k
        for names, k in kernel.terms_of_sum()
        if (names == () if name == "rest" else names[: len(wanted)] == wanted)
    ]
    if not terms:
        validation.one_of("component", name, component_names(kernel))
    return terms[0] if len(terms) == 1 else Sum(tuple(terms))


def _columns(columns) -> tuple[int | str, ...]:
    columns = [columns] if isinstance(columns, str | int) else list(columns)
    if not columns or not all(isinstance(c, str | int | np.integer) for c in columns):
        raise ValueError(f"columns must be indices or names, at least one, got {columns!r}.")
    if len(set(columns)) < len(columns):
        raise ValueError(f"columns {columns!r} name a column twice.")
    return tuple(c if isinstance(c, str) else int(c) for c in columns)
