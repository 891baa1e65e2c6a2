"""Kernels, and the operations under which they are closed.

A kernel is a function of two points that can be evaluated, added, multiplied, transformed and
named. The operators return the kernels `Sum`, `Product`, `Scaled`, `Power`, `Exp`, `Modulated`,
`Warped`, `Select` and `Named`. Rasmussen and Williams (2006), section 4.2.4; Shawe-Taylor and
Cristianini (2004), proposition 3.22.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import partial, reduce
from typing import ClassVar, TypeGuard

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from numpyro.distributions import Distribution, constraints

from bayeskern import hyperparameters as hyper
from bayeskern.core import validation
from bayeskern.core.functions import as_module, one_number
from bayeskern.hyperparameters import Free, Hyperparameter, hyperparameter
from bayeskern.kernels import column_groups, feature_maps, spectral_density, warps
from bayeskern.kernels.column_groups import Columns
from bayeskern.kernels.function import CovarianceFunction
from bayeskern.kernels.state_space.space import NoStateSpaceError, StateSpace
from bayeskern.kernels.state_space.terms import PolynomialTerm

# A number, or the prior of one, beside a kernel.
Scalar = float | np.ndarray | np.number | jax.Array | Distribution | Free


class Kernel(CovarianceFunction):
    """A covariance function k(x, z) of two points.

    `k(X, Z)` is the Gram matrix between two sets of points, `k(X)` the Gram matrix among the points
    themselves, `k.diag(X)` its diagonal. Kernels are closed under `k1 + k2`, `k1 * k2`, `c * k`,
    `k + c`, `k ** p`, `k.exp()`, `k.modulate(f)`, `k.warp(f)`, `k.on(columns)` and
    `k.named(name)`.

    To write a kernel, subclass it, declare its hyperparameters with `hyperparameter(default)`, and
    define `evaluate` and `evaluate_diag` on arrays of shape (n, d). Override `frequencies` too if
    it has a spectral density, `features` if it has finitely many features, `state_space` if it has
    a state-space model, and `by_columns` if it is a product over columns.

    Attributes:
        positive_definite: False for a function that is no covariance function. Gaussian processes
            refuse it.
        features_are_a_series: True if `features` is a series that has to be cut at a degree.
        is_a_function: False for white noise, whose k(x, z) does not follow from x and z alone.

    Examples:
        >>> import jax
        >>> import jax.numpy as jnp
        >>> from bayeskern.kernels import Kernel, hyperparameter
        >>> class Laplacian(Kernel):
        ...     lengthscale: jax.Array = hyperparameter(1.0)
        ...     def evaluate(self, X, Z=None):
        ...         Z = X if Z is None else Z
        ...         distances = jnp.abs(X[:, None] - Z[None]).sum(axis=-1)
        ...         return jnp.exp(-distances / self.lengthscale)
        ...     def evaluate_diag(self, X):
        ...         return jnp.ones(X.shape[0])
        >>> kernel = 2.0 * Laplacian(lengthscale=3.0)
        >>> kernel
        2.0 * Laplacian(lengthscale=3.0)
        >>> print(kernel([0.0, 3.0]).round(3))
        [[2.    0.736]
         [0.736 2.   ]]
    """

    # NumPy scalars and arrays on the left leave the operator to __rmul__ and __radd__.
    __array_ufunc__: ClassVar[None] = None
    # Binding strength of the printed expression: sum 1, product 2, power 3, call 4.
    precedence: ClassVar[int] = 4

    def by_columns(self, d: int) -> dict[Columns, Kernel]:
        """Factors of the kernel that depend on disjoint sets of columns.

        Args:
            d: Number of columns.

        Returns:
            The factors, kernels of all columns, by the columns that they depend on; () for a
            number. By default the kernel is its own only factor.
        """
        return {tuple(range(d)): self}

    def terms_of_sum(self) -> list[tuple[tuple[str, ...], Kernel]]:
        """The additive terms as (names, kernel), reached through Sum, Scaled and Named."""
        return [((), self)]

    # -- operators ----------------------------------------------------------------------------

    def __add__(self, other: Kernel | Scalar) -> Kernel:
        other = Constant(other) if _is_scalar(other) else other
        if not isinstance(other, Kernel):
            return NotImplemented
        return Sum(_flat(Sum, self) + _flat(Sum, other))

    def __radd__(self, other: Scalar) -> Kernel:
        # sum([k1, k2]) starts from 0.
        if isinstance(other, int) and other == 0:
            return self
        return Constant(other) + self if _is_scalar(other) else NotImplemented

    def __mul__(self, other: Kernel | Scalar) -> Kernel:
        if isinstance(other, Kernel):
            return Product(_flat(Product, self) + _flat(Product, other))
        return Scaled(self, other) if _is_scalar(other) else NotImplemented

    __rmul__ = __mul__

    def __pow__(self, power: int) -> Power:
        return Power(self, power)

    def exp(self) -> Exp:
        """The kernel exp(k(x, z))."""
        return Exp(self)

    def warp(self, f: Callable, weights: Distribution | type[Free] | None = None) -> Warped:
        """The kernel k(f(x), f(z)); a deep kernel where f is a network.

        The floating arrays of an equinox module are hyperparameters, "warp.layers.0.weight" and
        so on. Like any number they are fixed, unless `weights` is given or a distribution or
        `Free` replaces an array.

        A trained network with many weights has intervals that are too narrow, since the marginal
        likelihood does not protect against overfitting then. See Ober, Rasmussen and van der Wilk
        (2021), "The promises and pitfalls of deep kernel learning".

        Args:
            f: A function of one point, shape (d,), to a number or a vector, in the operations of
                JAX; it may be an equinox module with weights of its own.
            weights: Prior of every array of the module, a distribution of one number such as
                `dist.Normal(0, 1)`; or the class `Free`, to train the arrays from their values
                without a prior. None keeps them fixed.

        Returns:
            The warped kernel.

        Raises:
            TypeError: f is not a function, or weights is neither a distribution nor `Free`.
            ValueError: f has nothing to train. When the kernel is evaluated: f returns neither a
                number nor a vector, or one whose shape depends on the values in a point.

        Examples:
            >>> import equinox as eqx
            >>> import jax
            >>> import numpyro.distributions as dist
            >>> from bayeskern.kernels import RBF
            >>> network = eqx.nn.MLP(1, 1, 8, 1, activation=jax.nn.tanh, key=jax.random.key(0))
            >>> kernel = RBF().warp(network, weights=dist.Normal(0.0, 1.0))
            >>> kernel
            RBF(lengthscale=1.0, variance=1.0).warp(MLP(25 weights ~ Normal(0.0, 1.0)))
            >>> list(kernel.hyperparameters())[:2]
            ['warp.layers.0.weight', 'warp.layers.0.bias']
        """
        return Warped(self, warps.with_weights(as_module(f), weights))

    def modulate(self, f: Callable) -> Modulated:
        """The kernel f(x) k(x, z) f(z), of the process f g for a process g with kernel k.

        f is an amplitude that changes from point to point. The kernel is positive semi-definite
        for any f.

        Args:
            f: A function of one point, shape (d,), to a number, in the operations of JAX; it may be
                an equinox module, whose weights are fixed.

        Returns:
            The modulated kernel.

        Raises:
            TypeError: f is not a function.
            ValueError: f returns more than one number for a point (raised on evaluation).

        Examples:
            A season whose amplitude grows with time.

            >>> from bayeskern.kernels import Periodic
            >>> kernel = Periodic(period=1.0).modulate(lambda x: 1.0 + x[0])
            >>> print(kernel([0.0, 1.0, 2.0]))
            [[1. 2. 3.]
             [2. 4. 6.]
             [3. 6. 9.]]
        """
        return Modulated(self, f)

    def on(self, columns: int | str | Sequence[int | str]) -> Select:
        """The kernel on some columns of X only.

        Args:
            columns: One column or several, each an index or, for data frames, a name:
                `k.on([0, 2])`, `k.on(["age"])`.

        Returns:
            The kernel on these columns.

        Raises:
            ValueError: There is no column, or a column is repeated.
        """
        return Select(self, columns)

    def named(self, name: str) -> Named:
        """The kernel with a name, for its hyperparameters and its component.

        Args:
            name: An identifier, such as "trend".

        Returns:
            The named kernel.

        Raises:
            ValueError: The name is no identifier, or is "rest" or a keyword of Python.
        """
        return Named(self.inner if isinstance(self, Named) else self, name)

    def _show_in(self, precedence: int) -> str:
        return f"({self!r})" if self.precedence < precedence else repr(self)


class Constant(Kernel):
    """Constant kernel, k(x, z) = variance: a level that all points share.

    `k + c` adds Constant(c).

    Args:
        variance: Prior variance of the level, in the squared units of the output; 0 or more.
    """

    variance: Hyperparameter = hyperparameter(1.0, constraints.nonnegative)

    def evaluate(self, X: jax.Array, Z: jax.Array | None = None) -> jax.Array:
        return jnp.full((X.shape[0], (X if Z is None else Z).shape[0]), self.variance)

    def evaluate_diag(self, X: jax.Array) -> jax.Array:
        return jnp.broadcast_to(self.variance, X.shape[:1])

    def state_space(self) -> StateSpace:
        return StateSpace((PolynomialTerm(0, self.variance[None], jnp.zeros(())),))

    def features(self, X: jax.Array, degree: int | None) -> jax.Array:
        return jnp.full((len(X), 1), jnp.sqrt(self.variance))

    def by_columns(self, d: int) -> dict[Columns, Kernel]:
        return {(): self}


# -- several kernels combined -----------------------------------------------------------------


class CompoundKernel(Kernel):
    """Base of the kernels that combine several, by one operation on Gram matrices.

    Args:
        terms: The kernels, as a tuple.
    """

    terms: tuple[Kernel, ...]

    branches: ClassVar[bool] = True
    operation: ClassVar[Callable]

    def children(self) -> list[tuple[tuple, Kernel]]:
        return [(("terms", i), term) for i, term in enumerate(self.terms)]

    def evaluate(self, X: jax.Array, Z: jax.Array | None = None) -> jax.Array:
        return reduce(self.operation, (k.evaluate(X, Z) for k in self.terms))

    def evaluate_diag(self, X: jax.Array) -> jax.Array:
        return reduce(self.operation, (k.evaluate_diag(X) for k in self.terms))

    def _frequencies_of_terms(self, key, n, d, orthogonal):
        keys = jax.random.split(key, len(self.terms))
        return [
            k.frequencies(key, n, d, orthogonal) for k, key in zip(self.terms, keys, strict=True)
        ]


class Sum(CompoundKernel):
    """Sum k1(x, z) + k2(x, z) + ..., of independent functions; flattened.

    Args:
        terms: The kernels, as a tuple.
    """

    precedence: ClassVar[int] = 1
    operation = staticmethod(operator.add)

    def frequencies(self, key: jax.Array, n: int, d: int, orthogonal: bool = False) -> jax.Array:
        # A mixture: each row comes from one term, with probabilities proportional to variances.
        key, key_choice = jax.random.split(key)
        variances = jnp.stack([spectral_density.variance(k, d) for k in self.terms])
        choice = jax.random.categorical(key_choice, jnp.log(variances), shape=(n,))
        frequencies = jnp.stack(self._frequencies_of_terms(key, n, d, orthogonal))
        return frequencies[choice, jnp.arange(n)]

    def state_space(self) -> StateSpace:
        return reduce(operator.add, (term.state_space() for term in self.terms))

    def features(self, X: jax.Array, degree: int | None) -> jax.Array:
        return jnp.concatenate([term.features(X, degree) for term in self.terms], axis=1)

    def by_columns(self, d: int) -> dict[Columns, Kernel]:
        of_terms = [column_groups.joined(term.by_columns(d)) for term in self.terms]
        return {column_groups.joined(of_terms): self}

    def terms_of_sum(self) -> list[tuple[tuple[str, ...], Kernel]]:
        return [item for term in self.terms for item in term.terms_of_sum()]

    def __repr__(self):
        return " + ".join(term._show_in(2) for term in self.terms)


class Product(CompoundKernel):
    """Product k1(x, z) k2(x, z) ..., elementwise. Nested products are flattened.

    Args:
        terms: The kernels, as a tuple.
    """

    precedence: ClassVar[int] = 2
    operation = staticmethod(operator.mul)

    def frequencies(self, key: jax.Array, n: int, d: int, orthogonal: bool = False) -> jax.Array:
        return reduce(operator.add, self._frequencies_of_terms(key, n, d, orthogonal))

    def state_space(self) -> StateSpace:
        return reduce(operator.mul, (term.state_space() for term in self.terms))

    def features(self, X: jax.Array, degree: int | None) -> jax.Array:
        return feature_maps.pairwise_products(self, [k.features(X, degree) for k in self.terms])

    def by_columns(self, d: int) -> dict[Columns, Kernel]:
        of_terms = (factor for term in self.terms for factor in term.by_columns(d).items())
        return column_groups.multiplied(of_terms)

    def __repr__(self):
        return " * ".join(term._show_in(3) for term in self.terms)


# -- one kernel transformed -------------------------------------------------------------------


class Wrapper(Kernel):
    """Base of the kernels that transform one kernel, and keep its name.

    A subclass maps points (`_map`), or entries of the Gram matrix (`_transform`), or both.

    Args:
        inner: The kernel k.
    """

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
        """Points of the kernel inside."""
        return X

    def _transform(self, K: jax.Array) -> jax.Array:
        """Covariances, from those of the kernel inside."""
        return K


class Scaled(Wrapper):
    """Multiple scale * k(x, z).

    Args:
        inner: The kernel k.
        scale: Factor of the variance, 0 or more.
    """

    scale: Hyperparameter = hyperparameter(1.0, constraints.nonnegative)

    precedence: ClassVar[int] = 2

    def _transform(self, K: jax.Array) -> jax.Array:
        return self.scale * K

    def frequencies(self, key: jax.Array, n: int, d: int, orthogonal: bool = False) -> jax.Array:
        return self.inner.frequencies(key, n, d, orthogonal)

    def state_space(self) -> StateSpace:
        return self.inner.state_space().scaled(self.scale)

    def features(self, X: jax.Array, degree: int | None) -> jax.Array:
        return jnp.sqrt(self.scale) * self.inner.features(X, degree)

    def by_columns(self, d: int) -> dict[Columns, Kernel]:
        scale = hyper.replace(Constant(), [("variance",)], [self.scale])
        return column_groups.multiplied([((), scale), *self.inner.by_columns(d).items()])

    def terms_of_sum(self) -> list[tuple[tuple[str, ...], Kernel]]:
        return [(names, Scaled(k, self.scale)) for names, k in self.inner.terms_of_sum()]

    def __repr__(self):
        return f"{hyper.show(self.scale)} * {self.inner._show_in(3)}"


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

    def _transform(self, K: jax.Array) -> jax.Array:
        return jnp.exp(K)

    def features(self, X: jax.Array, degree: int | None) -> jax.Array:
        return Kernel.features(self, X, degree)

    def by_columns(self, d: int) -> dict[Columns, Kernel]:
        return {column_groups.joined(self.inner.by_columns(d)): self}

    def __repr__(self):
        return f"{self.inner._show_in(4)}.exp()"


class Modulated(Wrapper):
    """Modulated kernel f(x) k(x, z) f(z), for a function f of one point.

    Args:
        inner: The kernel k.
        f: A function of a point, shape (d,), to a number, in the operations of JAX. It may be an
            equinox module, whose weights are fixed.
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

    def __repr__(self):
        return f"{self.inner._show_in(4)}.modulate({self.f!r})"


class Warped(Wrapper):
    """Warped kernel k(f(x), f(z)), for a function f of one point.

    Args:
        inner: The kernel k.
        f: A function of a point, shape (d,), to a number or a vector, in the operations of JAX.
            It may be an equinox module, whose floating arrays are hyperparameters (a deep kernel).
    """

    f: Callable = eqx.field(converter=as_module)

    def own_hyperparameters(self) -> list[tuple]:
        return [(name, ("f", *path), constraint) for name, path, constraint in warps.sites(self.f)]

    def resolve(self, columns: tuple[str, ...] | None) -> Warped:
        # The kernel inside gets the values of f, whose columns have no names.
        return self

    def _map(self, X: jax.Array) -> jax.Array:
        return warps.values(self.f, X)

    def __repr__(self):
        return f"{self.inner._show_in(4)}.warp({warps.show(self.f)})"


class Select(Wrapper):
    """Kernel on some of the columns of X.

    Args:
        inner: The kernel k.
        columns: One column or several, each an index or, for data frames, a name.
    """

    columns: tuple[int | str, ...] = eqx.field(static=True, converter=validation.columns)

    def resolve(self, columns: tuple[str, ...] | None) -> Select:
        if columns is None:
            return self
        indices = tuple(validation.column_indices(self.columns, len(columns), columns).tolist())
        return Select(self.inner.resolve(tuple(columns[i] for i in indices)), indices)

    def frequencies(self, key: jax.Array, n: int, d: int, orthogonal: bool = False) -> jax.Array:
        # Zero along the columns that are left out.
        unit_vectors = self._map(jnp.eye(d))
        return self.inner.frequencies(key, n, unit_vectors.shape[1], orthogonal) @ unit_vectors.T

    def state_space(self) -> StateSpace:
        if self.columns != (0,):
            raise NoStateSpaceError(f"{self!r} takes other columns than the one of time.")
        return self.inner.state_space()

    def by_columns(self, d: int) -> dict[Columns, Kernel]:
        taken = (validation.column_indices(self.columns, d) % d).tolist()
        return {
            tuple(sorted(taken[i] for i in columns)): Select(k, self.columns)
            for columns, k in self.inner.by_columns(len(taken)).items()
        }

    def _map(self, X: jax.Array) -> jax.Array:
        return X[:, validation.column_indices(self.columns, X.shape[1])]

    def __repr__(self):
        return f"{self.inner._show_in(4)}.on({list(self.columns)})"


class Named(Wrapper):
    """Kernel with a name, for its hyperparameters and its component.

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

    def frequencies(self, key: jax.Array, n: int, d: int, orthogonal: bool = False) -> jax.Array:
        return self.inner.frequencies(key, n, d, orthogonal)

    def state_space(self) -> StateSpace:
        return self.inner.state_space()

    def by_columns(self, d: int) -> dict[Columns, Kernel]:
        return self.inner.by_columns(d)

    def terms_of_sum(self) -> list[tuple[tuple[str, ...], Kernel]]:
        return [((self.name, *names), kernel) for names, kernel in self.inner.terms_of_sum()]

    def __repr__(self):
        return f"{self.inner._show_in(4)}.named({self.name!r})"


def _flat(operation: type[CompoundKernel], kernel: Kernel) -> tuple[Kernel, ...]:
    # `type(...) is`, not isinstance: a Named sum is one term and keeps its name.
    return kernel.terms if type(kernel) is operation else (kernel,)


def _is_scalar(value: object) -> TypeGuard[Scalar]:
    """True for a number c, or a prior of one, in `c * k` and `k + c`."""
    if isinstance(value, Distribution | Free):
        return True
    return isinstance(value, int | float | np.ndarray | np.number | jax.Array) and (
        jnp.ndim(value) == 0
    )
