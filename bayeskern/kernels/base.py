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
from bayeskern.kernels.means import quadrature
from bayeskern.kernels.means.boxes import Boxes
from bayeskern.kernels.state_space.space import NoStateSpaceError, StateSpace
from bayeskern.kernels.state_space.terms import PolynomialTerm

# The operand c of `c * k` and `k + c`: a number, a prior of a number, or `Free`.
Scalar = float | np.ndarray | np.number | jax.Array | Distribution | Free


class Kernel(CovarianceFunction):
    """Covariance function k(x, z) of two points.

    `k(X, Z)` is the Gram matrix between two sets of points, `k(X)` the Gram matrix among the points
    themselves, `k.diag(X)` its diagonal. Kernels are closed under `k1 + k2`, `k1 * k2`, `c * k`,
    `k + c`, `k ** p`, `k.exp()`, `k.modulate(f)`, `k.warp(f)`, `k.on(columns)` and
    `k.named(name)`.

    To write a kernel, subclass it, declare its hyperparameters with `hyperparameter(default)`, and
    define `evaluate` and `evaluate_diag` on arrays of shape (n, d). Override `frequencies` too if
    it has a spectral density, `features` if it has finitely many features, `state_space` if it has
    a state-space model, and `by_columns` if it is a product over columns.

    Attributes:
        positive_definite: False if k is not positive definite; Gaussian processes refuse it.
        features_are_a_series: True if `features` is an infinite series, truncated at a degree.
        is_a_function: False for white noise, whose k(x, z) is not a function of x and z alone.
        depends_on_lag: True if k(x, z) is a function of x - z, given that its parts are: means
            over intervals are then computed faster.
        is_differentiable: False if functions drawn from it have no mean-square derivative;
            derivatives as rows are then refused.

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

    #: False for kernels of measured rows, which are means and derivatives, not points
    is_of_points: ClassVar[bool] = True
    # Makes NumPy scalars and arrays on the left defer to __rmul__ and __radd__.
    __array_ufunc__: ClassVar[None] = None
    # Binding strength of the printed expression: sum 1, product 2, power 3, call 4.
    precedence: ClassVar[int] = 4

    def by_columns(self, d: int) -> dict[Columns, Kernel]:
        """Factors of the kernel that depend on disjoint sets of columns.

        Args:
            d: Number of columns.

        Returns:
            Dictionary from the columns of a factor to the factor, a kernel of points with all d
            columns; a constant factor has the columns (). By default, one factor: the kernel.
        """
        return {tuple(range(d)): self}

    def terms_of_sum(self) -> list[tuple[tuple[str, ...], Kernel]]:
        """Additive terms as (names, kernel): expands Sum, Scaled, Modulated and Named."""
        return [((), self)]

    def evaluate_means(self, X: Boxes, Z: Boxes) -> jax.Array:
        """Covariances of the means of a process over boxes: (n, m).

        By default: a product over columns if the kernel is one, or else quadrature.

        Args:
            X: n boxes.
            Z: m boxes, with the same `columns`.

        Returns:
            The covariances, shape (n, m).

        Raises:
            ValueError: The kernel has no such means.
        """
        if not X.columns:
            return self.evaluate(X.lower, Z.lower)
        if self.means_from_features:
            return self.features_of_means(X) @ self.features_of_means(Z).T
        factors = self.by_columns(X.d)
        if len(factors) > 1:
            return reduce(operator.mul, (k.evaluate_means(X, Z) for k in factors.values()))
        return quadrature.mean_of_kernel(self, X, Z)

    def quadrature_error(self, X: jax.Array) -> float:
        """Error of covariances by quadrature, relative to the largest variance; 0 for points."""
        return 0.0

    def features_of_means(self, X: Boxes) -> jax.Array:
        """Means of the features over boxes, by quadrature unless overridden: (n, m)."""
        return quadrature.mean_of_features(self, X)

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
        """Kernel exp(k(x, z))."""
        return Exp(self)

    def warp(self, f: Callable, weights: Distribution | type[Free] | None = None) -> Warped:
        """Kernel k(f(x), f(z)); a deep kernel if f is a network.

        The floating arrays of an equinox module are hyperparameters, named such as
        "warp.layers.0.weight". They are fixed, unless `weights` is given or a distribution or
        `Free` replaces an array.

        Training many weights gives intervals that are too narrow: the marginal likelihood does
        not protect against overfitting them. See Ober, Rasmussen and van der Wilk (2021), "The
        promises and pitfalls of deep kernel learning".

        Args:
            f: JAX function from one point, shape (d,), to a number or a vector; it may be an
                equinox module with weights of its own.
            weights: Prior of every array of the module, a distribution of one number such as
                `dist.Normal(0, 1)`; or the class `Free`, to train the arrays from their values
                without a prior. None keeps them fixed.

        Returns:
            The warped kernel.

        Raises:
            TypeError: f is not a function, or weights is neither a distribution nor `Free`.
            ValueError: `weights` is given, but is a distribution of several numbers, or f has no
                floating arrays. On evaluation: f returns neither a number nor a vector, or its
                shape depends on the values of the point.

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
        """Kernel f(x) k(x, z) f(z) of the process f g, where g has the kernel k.

        f is an amplitude that changes from point to point. The kernel is positive semi-definite
        for any f.

        Args:
            f: JAX function from one point, shape (d,), to a number; it may be an equinox module,
                whose weights are fixed.

        Returns:
            The modulated kernel.

        Raises:
            TypeError: f is not a function.
            ValueError: f does not return exactly one number for a point (raised on evaluation).

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
        """Kernel on a subset of the columns of X.

        Args:
            columns: One column or several, each an index or, for data frames, a name:
                `k.on([0, 2])`, `k.on(["age"])`.

        Returns:
            The kernel on these columns.

        Raises:
            ValueError: `columns` is empty, or a column is repeated.
        """
        return Select(self, columns)

    def named(self, name: str) -> Named:
        """Kernel with a name, which labels its hyperparameters and its component.

        Args:
            name: An identifier, such as "trend".

        Returns:
            The named kernel.

        Raises:
            ValueError: The name is not an identifier, or is "rest" or a Python keyword.
        """
        return Named(self.inner if isinstance(self, Named) else self, name)

    def _show_in(self, precedence: int) -> str:
        return f"({self!r})" if self.precedence < precedence else repr(self)


class Constant(Kernel):
    """Constant kernel, k(x, z) = variance: a level shared by all points.

    `k + c` adds Constant(c).

    Args:
        variance: Prior variance of the level, in the squared units of the output; 0 or more.
    """

    depends_on_lag: ClassVar[bool] = True
    takes_levels: ClassVar[bool] = True

    variance: Hyperparameter = hyperparameter(1.0, constraints.nonnegative)

    def evaluate(self, X: jax.Array, Z: jax.Array | None = None) -> jax.Array:
        return jnp.full((X.shape[0], (X if Z is None else Z).shape[0]), self.variance)

    def evaluate_diag(self, X: jax.Array) -> jax.Array:
        return jnp.broadcast_to(self.variance, X.shape[:1])

    def state_space(self) -> StateSpace:
        return StateSpace((PolynomialTerm(0, self.variance[None]),))

    def features(self, X: jax.Array, degree: int | None) -> jax.Array:
        return jnp.full((len(X), 1), jnp.sqrt(self.variance))

    def evaluate_means(self, X: Boxes, Z: Boxes) -> jax.Array:
        return self.evaluate(X.lower, Z.lower)

    def features_of_means(self, X: Boxes) -> jax.Array:
        return self.features(X.lower, None)

    def by_columns(self, d: int) -> dict[Columns, Kernel]:
        return {(): self}


# -- several kernels combined -----------------------------------------------------------------


class CompoundKernel(Kernel):
    """Base of kernels that combine several kernels by an operation on Gram matrices.

    Args:
        terms: The kernels, as a tuple.
    """

    terms: tuple[Kernel, ...]

    branches: ClassVar[bool] = True
    takes_levels: ClassVar[bool] = True
    depends_on_lag: ClassVar[bool] = True
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
    """Sum k1(x, z) + k2(x, z) + ... Nested sums are flattened.

    Args:
        terms: The kernels, as a tuple.
    """

    precedence: ClassVar[int] = 1
    operation = staticmethod(operator.add)

    def frequencies(self, key: jax.Array, n: int, d: int, orthogonal: bool = False) -> jax.Array:
        # A mixture: each row comes from a random term, with probability proportional to variance.
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
        columns = [column_groups.joined(term.by_columns(d)) for term in self.terms]
        return {column_groups.joined(columns): self}

    def evaluate_means(self, X: Boxes, Z: Boxes) -> jax.Array:
        return reduce(operator.add, (term.evaluate_means(X, Z) for term in self.terms))

    def features_of_means(self, X: Boxes) -> jax.Array:
        return jnp.concatenate([term.features_of_means(X) for term in self.terms], axis=1)

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
        factors = (factor for term in self.terms for factor in term.by_columns(d).items())
        return column_groups.merge_overlapping(factors)

    def __repr__(self):
        return " * ".join(term._show_in(3) for term in self.terms)


# -- one kernel transformed -------------------------------------------------------------------


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


class Scaled(Wrapper):
    """Scaled kernel scale * k(x, z).

    Args:
        inner: The kernel k.
        scale: Factor of the variance, 0 or more.
    """

    scale: Hyperparameter = hyperparameter(1.0, constraints.nonnegative)

    precedence: ClassVar[int] = 2
    depends_on_lag: ClassVar[bool] = True

    def _transform(self, K: jax.Array) -> jax.Array:
        return self.scale * K

    def evaluate_means(self, X: Boxes, Z: Boxes) -> jax.Array:
        return self.scale * self.inner.evaluate_means(X, Z)

    def features_of_means(self, X: Boxes) -> jax.Array:
        return jnp.sqrt(self.scale) * self.inner.features_of_means(X)

    def frequencies(self, key: jax.Array, n: int, d: int, orthogonal: bool = False) -> jax.Array:
        return self.inner.frequencies(key, n, d, orthogonal)

    def state_space(self) -> StateSpace:
        return self.inner.state_space().scaled(self.scale)

    def features(self, X: jax.Array, degree: int | None) -> jax.Array:
        return jnp.sqrt(self.scale) * self.inner.features(X, degree)

    def by_columns(self, d: int) -> dict[Columns, Kernel]:
        scale = hyper.replace(Constant(), [("variance",)], [self.scale])
        return column_groups.merge_overlapping([((), scale), *self.inner.by_columns(d).items()])

    def terms_of_sum(self) -> list[tuple[tuple[str, ...], Kernel]]:
        # Not `Scaled(k, self.scale)`: the scale may hold a value for each draw.
        terms = self.inner.terms_of_sum()
        return [(names, hyper.replace(self, [("inner",)], [k])) for names, k in terms]

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

    def __repr__(self):
        return f"{self.inner._show_in(4)}.on({list(self.columns)})"


class Named(Wrapper):
    """Kernel with a name, which labels its hyperparameters and its component.

    Args:
        inner: The kernel.
        name: An identifier, such as "trend"; "rest" is reserved for the unnamed terms.
    """

    name: str = eqx.field(static=True)

    is_name: ClassVar[bool] = True
    depends_on_lag: ClassVar[bool] = True

    def __check_init__(self):
        validation.kernel_name(self.name)

    def own_name(self) -> str | None:
        return self.name

    def evaluate_means(self, X: Boxes, Z: Boxes) -> jax.Array:
        return self.inner.evaluate_means(X, Z)

    def features_of_means(self, X: Boxes) -> jax.Array:
        return self.inner.features_of_means(X)

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
    """True for an operand c of `c * k` and `k + c`: a number, a prior or `Free`.

    Raises TypeError for an array of several numbers.
    """
    if isinstance(value, Distribution | Free):
        return True
    if shape := getattr(value, "shape", ()):
        raise TypeError(
            f"c * kernel and kernel + c take one number c, got an array of shape {shape}. For an "
            "amplitude that varies from point to point, take kernel.modulate(f), which is "
            "f(x) k(x, z) f(z). A noise variance for each row is the argument noise of a process, "
            "and a lengthscale for each column is RBF(lengthscale=[...])."
        )
    return isinstance(value, int | float | np.ndarray | np.number | jax.Array) and (
        jnp.ndim(value) == 0
    )
