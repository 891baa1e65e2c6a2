"""What every kernel is, and the operations under which kernels are closed.

A kernel is a function of two points that can be evaluated, added, multiplied, transformed and
named. The operators return the kernels `Sum`, `Product`, `Scaled`, `Power`, `Exp`, `Modulated`,
`Warped`, `Select` and `Named`. Rasmussen and Williams (2006), section 4.2.4; Shawe-Taylor and
Cristianini (2004), proposition 3.22.
"""

from __future__ import annotations

import operator
from abc import abstractmethod
from collections.abc import Callable
from functools import partial, reduce
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpyro.distributions import Distribution, constraints

from bayeskern import hyperparameters as hyper
from bayeskern.core import validation
from bayeskern.core.functions import as_module, one_number
from bayeskern.hyperparameters import Free, Hyperparameter, Parametrized, hyperparameter
from bayeskern.kernels import column_groups, feature_maps, plot, spectral_density, warps
from bayeskern.kernels.state_space.algebra import (
    ModulatedSpace,
    ProductSpace,
    ScaledSpace,
    SumSpace,
)
from bayeskern.kernels.state_space.processes import NoStateSpaceError, PolynomialSpace, StateSpace


class Kernel(Parametrized):
    """A covariance function k(x, z) of two points.

    `k(X, Z)` is the Gram matrix between two sets of points, `k(X)` the one among the points
    themselves, `k.diag(X)` its diagonal. Kernels are closed under `k1 + k2`, `k1 * k2`, `c * k`,
    `k + c`, `k ** p`, `k.exp()`, `k.modulate(f)`, `k.warp(f)`, `k.on(columns)` and
    `k.named(name)`.

    To write a kernel, subclass it, declare its hyperparameters with `hyperparameter(default)`, and
    define `evaluate` and `evaluate_diag` on arrays of shape (n, d). Override `frequencies` too if
    it has a spectral density, `features` if it has finitely many features, and `by_columns` if it
    is a product over columns.

    Attributes:
        positive_definite: False for a function that is no covariance function, which Gaussian
            processes refuse.
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

    positive_definite: ClassVar[bool] = True
    features_are_a_series: ClassVar[bool] = False
    is_a_function: ClassVar[bool] = True
    # NumPy scalars and arrays on the left leave the operator to __rmul__ and __radd__.
    __array_ufunc__: ClassVar[None] = None

    # -- what a kernel writes -----------------------------------------------------------------

    @abstractmethod
    def evaluate(
        self, X: Float[Array, "n d"], Z: Float[Array, "m d"] | None = None
    ) -> Float[Array, "n m"]:
        """The Gram matrix between X and Z, or among X when Z is None."""

    @abstractmethod
    def evaluate_diag(self, X: Float[Array, "n d"]) -> Float[Array, " n"]:
        """The diagonal of the Gram matrix among X."""

    def frequencies(self, key, n: int, d: int, orthogonal: bool = False) -> Float[Array, "n d"]:
        """Draw frequencies w from the spectral density: k(x, z) = k(0) E cos(w'(x - z)).

        Args:
            key: A JAX random key.
            n: How many frequencies to draw.
            d: The dimension of the points.
            orthogonal: Draw Gaussian directions at right angles to one another; otherwise the
                rows are independent.

        Returns:
            Array of shape (n, d), in radians per unit of the inputs. Each row has the spectral
            density, which is symmetric.

        Raises:
            ValueError: The kernel has no spectral density.
        """
        return spectral_density.refuse(self)

    def features(self, X: Float[Array, "n d"], degree: int | None) -> Float[Array, "n m"]:
        """Explicit features phi(X) of a concrete kernel, with phi(x)'phi(z) = k(x, z).

        `feature_map` reads its input and then calls this method.

        Args:
            X: Points, shape (n, d).
            degree: Where to cut the series of an RBF; other kernels take no notice of it.

        Raises:
            ValueError: The kernel has no finite features, or too many of them.
        """
        return feature_maps.refuse(self)

    def series(self) -> list[Kernel]:
        """The parts of the kernel whose features are a series that has to be cut at a degree."""
        below = [part for _, child in self.children() for part in child.series()]
        return [self, *below] if self.features_are_a_series else below

    def by_columns(self, d: int) -> dict[column_groups.Columns, Kernel]:
        """The factors of the kernel, each of which looks at some of the columns, and no two at one.

        Args:
            d: How many columns there are.

        Returns:
            The factors, kernels of all columns, by the columns that they look at; () for a number.
            The kernel is its own only factor by default.
        """
        return {tuple(range(d)): self}

    # -- the public calls ---------------------------------------------------------------------

    def state_space(self) -> StateSpace:
        """The process as one in time, one column, with a state that sums up its past.

        Raises:
            NoStateSpaceError: If a part of the kernel has none, naming it.
        """
        raise NoStateSpaceError(f"{self!r} has no state-space form.")

    def __call__(self, X, Z=None) -> Float[Array, "n m"]:
        """Gram matrix k(X, Z), or k(X) among the points themselves.

        Args:
            X: Points, shape (n, d) or (n,), or a data frame.
            Z: Further points in the same columns; None for k(X, X).

        Returns:
            Array of shape (n, m), or (n, n) without Z.

        Raises:
            TypeError: A hyperparameter is still a distribution or free.
            ValueError: X and Z do not fit each other or the kernel.
        """
        X, columns = validation.inputs(X, "X")
        kernel = self.resolve(columns).require_concrete()
        if Z is None:
            return kernel.evaluate(X)
        Z, z_columns = validation.inputs(Z, "Z")
        if X.shape[1] != Z.shape[1] or (columns and z_columns and columns != z_columns):
            raise ValueError(
                f"X has columns {columns or X.shape[1]} and Z has {z_columns or Z.shape[1]}; "
                "give both the same columns in the same order."
            )
        return kernel.evaluate(X, Z)

    def diag(self, X) -> Float[Array, " n"]:
        """The diagonal of k(X), computed without the matrix.

        Args:
            X: Points, shape (n, d) or (n,), or a data frame.

        Returns:
            Array of shape (n,).

        Raises:
            TypeError: A hyperparameter is still a distribution or free.
            ValueError: X does not fit the kernel.
        """
        X, columns = validation.inputs(X, "X")
        return self.resolve(columns).require_concrete().evaluate_diag(X)

    def feature_map(self, X, degree: int | None = None) -> Float[Array, "n m"]:
        """Explicit features phi(X) with phi(X) phi(Z)' = k(X, Z).

        Polynomial has C(d + p, p) features, AllSubsets 2^d, Linear d, Constant 1 and Cosine 2. A
        sum has the features of all its terms, side by side; a product has one feature for each
        choice of one feature from every factor.

        The RBF has infinitely many features, and `degree` says where their series is cut. The
        C(d + degree, degree) features exp(-|x|^2 / 2) x^a / sqrt(a!), with x in units of the
        lengthscale and |a| <= degree, miss k(x, z) by at most
        v (|x| |z|)^(degree + 1) / (degree + 1)!. That is small near the origin only, so centre the
        points first. Cotter, Keshet and Srebro (2011).

        Args:
            X: Points, shape (n, d) or (n,), or a data frame.
            degree: The degree of the series of an RBF. It is needed if there is an RBF in the
                kernel, and refused if there is none.

        Returns:
            Array of shape (n, m).

        Raises:
            TypeError: A hyperparameter is still a distribution or free.
            ValueError: A part of the kernel, which the message names, has no finite features, or
                too many.

        Examples:
            >>> from bayeskern.kernels import Polynomial
            >>> print(Polynomial(degree=2, offset=1.0).feature_map([2.0]).round(3))
            [[1.    2.828 4.   ]]
        """
        X, columns = validation.inputs(X, "X")
        kernel = self.resolve(columns).require_concrete()
        feature_maps.check_degree(kernel, degree)
        if degree is not None:
            degree = validation.positive_integer(degree, "degree")
        return kernel.features(X, degree)

    def plot(self, X=None, figure=None):
        """Draw the covariances with single points, and the Gram matrix, along one input.

        The first panel has k against the lag where it depends on nothing else, and otherwise
        k(x, x0) for three points x0. The second has the Gram matrix of 201 points. A
        hyperparameter that is a distribution is taken at its median, and one that is free at its
        init.

        Args:
            X: Points of one column, shape (n,) or (n, 1), or a data frame: the picture reaches from
                the least to the greatest. From -3 to 3 by default.
            figure: The figure to draw in; a new one if None.

        Returns:
            The figure.

        Raises:
            ValueError: X has several columns, or one point only; or a prior cannot be drawn from.

        Examples:
            >>> from bayeskern.kernels import Periodic, RBF
            >>> figure = (Periodic(period=1.0) * RBF(lengthscale=2.0)).plot([0.0, 5.0])
        """
        return plot.kernel(self, X, figure)

    # -- the operators ------------------------------------------------------------------------

    def __add__(self, other):
        other = Constant(other) if _is_scalar(other) else other
        if not isinstance(other, Kernel):
            return NotImplemented
        return Sum(_flat(Sum, self) + _flat(Sum, other))

    def __radd__(self, other):
        # sum([k1, k2]) starts from 0.
        if isinstance(other, int) and other == 0:
            return self
        return Constant(other) + self if _is_scalar(other) else NotImplemented

    def __mul__(self, other):
        if isinstance(other, Kernel):
            return Product(_flat(Product, self) + _flat(Product, other))
        return Scaled(self, other) if _is_scalar(other) else NotImplemented

    __rmul__ = __mul__

    def __pow__(self, power: int):
        return Power(self, power)

    def exp(self) -> Exp:
        """The kernel exp(k(x, z))."""
        return Exp(self)

    def warp(self, f: Callable, weights: Distribution | type[Free] | None = None) -> Warped:
        """The kernel k(f(x), f(z)); a deep kernel where f is a network.

        The floating arrays of an equinox module are hyperparameters, "warp.layers.0.weight" and
        so on. Like any number they stay as they are, unless `weights` says otherwise or a
        distribution or `Free` stands in the place of an array.

        The intervals of a network that is trained are too narrow where it has many weights: the
        evidence is no guard against overfitting then. See Ober, Rasmussen and van der Wilk (2021),
        "The promises and pitfalls of deep kernel learning".

        Args:
            f: A function of one point, shape (d,), to a number or a vector, in the operations of
                JAX; it may be an equinox module with weights of its own.
            weights: For every array of the module: its prior, a distribution of one number, such
                as `dist.Normal(0, 1)`; or the class `Free`, to train them from the values that
                they have, without a prior. None leaves them as they are.

        Raises:
            TypeError: f is not a function, or weights is neither a distribution nor `Free`.
            ValueError: There is nothing to train in f. When the kernel is evaluated: f returns
                no number and no vector, or one whose shape depends on the values in a point.

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
        """The kernel f(x) k(x, z) f(z), that of f(x) g(x) for a function g with the kernel k.

        It is positive semi-definite whatever f is: an amplitude that changes from point to point.

        Args:
            f: A function of one point, shape (d,), to a number, in the operations of JAX; it may be
                an equinox module, whose weights stay as they are.

        Raises:
            TypeError: f is not a function.
            ValueError: f returns more than one number for a point; when the kernel is evaluated.

        Examples:
            A season that grows with time.

            >>> from bayeskern.kernels import Periodic
            >>> kernel = Periodic(period=1.0).modulate(lambda x: 1.0 + x[0])
            >>> print(kernel([0.0, 1.0, 2.0]))
            [[1. 2. 3.]
             [2. 4. 6.]
             [3. 6. 9.]]
        """
        return Modulated(self, f)

    def on(self, columns) -> Select:
        """The kernel on some columns of X only.

        Args:
            columns: One column or several, each an index or, for data frames, a name:
                `k.on([0, 2])`, `k.on(["age"])`.

        Raises:
            ValueError: There is no column, or one stands twice.
        """
        return Select(self, columns)

    def named(self, name: str) -> Named:
        """The same kernel with a name, which its hyperparameters and its component then have.

        Args:
            name: An identifier, such as "trend".

        Raises:
            ValueError: The name is no identifier, or is "rest" or a keyword of Python.
        """
        return Named(self.inner if isinstance(self, Named) else self, name)

    # -- the tree -----------------------------------------------------------------------------

    def terms_of_sum(self) -> list[tuple[tuple[str, ...], Kernel]]:
        """The additive terms as (names, kernel), reached through Sum, Scaled and Named."""
        return [((), self)]

    def resolve(self, columns) -> Kernel:
        """A copy whose column names are turned into column indices.

        Args:
            columns: The names of the columns of X in their order, or None if they have none.

        Raises:
            ValueError: The kernel selects a column that is not among them.
        """
        paths = [path for path, _ in self.children()]
        resolved = [child.resolve(columns) for _, child in self.children()]
        changed = any(
            new is not old for new, (_, old) in zip(resolved, self.children(), strict=True)
        )
        return hyper.replace(self, paths, resolved) if changed else self

    # How tightly the expression binds when it is printed: sum 1, product 2, power 3, call 4.
    precedence: ClassVar[int] = 4

    def _show_in(self, precedence: int) -> str:
        return f"({self!r})" if self.precedence < precedence else repr(self)


class Constant(Kernel):
    """k(x, z) = variance: a level that all points share. `k + c` adds Constant(c).

    Args:
        variance: The prior variance of the level, in the squared units of the output; 0 or more.
    """

    variance: Hyperparameter = hyperparameter(1.0, constraints.nonnegative)

    def evaluate(self, X, Z=None):
        return jnp.full((X.shape[0], (X if Z is None else Z).shape[0]), self.variance)

    def evaluate_diag(self, X):
        return jnp.broadcast_to(self.variance, X.shape[:1])

    def state_space(self):
        return PolynomialSpace(0, self.variance[None], jnp.zeros(()))

    def features(self, X, degree):
        return jnp.full((len(X), 1), jnp.sqrt(self.variance))

    def by_columns(self, d):
        return {(): self}


# -- several kernels joined -------------------------------------------------------------------


class CompoundKernel(Kernel):
    """Several kernels joined by one operation on their Gram matrices."""

    terms: tuple[Kernel, ...]

    branches: ClassVar[bool] = True
    operation: ClassVar[Callable]

    def children(self):
        return [(("terms", i), term) for i, term in enumerate(self.terms)]

    def evaluate(self, X, Z=None):
        return reduce(self.operation, (k.evaluate(X, Z) for k in self.terms))

    def evaluate_diag(self, X):
        return reduce(self.operation, (k.evaluate_diag(X) for k in self.terms))

    def _frequencies_of_terms(self, key, n, d, orthogonal):
        keys = jax.random.split(key, len(self.terms))
        return [
            k.frequencies(key, n, d, orthogonal) for k, key in zip(self.terms, keys, strict=True)
        ]


class Sum(CompoundKernel):
    """k1(x, z) + k2(x, z) + ..., a sum of independent functions. Nested sums are kept flat.

    Args:
        terms: The kernels, as a tuple.
    """

    precedence: ClassVar[int] = 1
    operation = staticmethod(operator.add)

    def frequencies(self, key, n, d, orthogonal=False):
        # A mixture: each row comes from one of the terms, in proportion to their variances.
        key, key_choice = jax.random.split(key)
        variances = jnp.stack([spectral_density.variance(k, d) for k in self.terms])
        choice = jax.random.categorical(key_choice, jnp.log(variances), shape=(n,))
        frequencies = jnp.stack(self._frequencies_of_terms(key, n, d, orthogonal))
        return frequencies[choice, jnp.arange(n)]

    def state_space(self):
        return SumSpace(tuple(term.state_space() for term in self.terms))

    def features(self, X, degree):
        return jnp.concatenate([term.features(X, degree) for term in self.terms], axis=1)

    def by_columns(self, d):
        of_terms = [column_groups.joined(term.by_columns(d)) for term in self.terms]
        return {column_groups.joined(of_terms): self}

    def terms_of_sum(self):
        return [item for term in self.terms for item in term.terms_of_sum()]

    def __repr__(self):
        return " + ".join(term._show_in(2) for term in self.terms)


class Product(CompoundKernel):
    """k1(x, z) k2(x, z) ..., elementwise. Nested products are kept flat.

    Args:
        terms: The kernels, as a tuple.
    """

    precedence: ClassVar[int] = 2
    operation = staticmethod(operator.mul)

    def frequencies(self, key, n, d, orthogonal=False):
        return reduce(operator.add, self._frequencies_of_terms(key, n, d, orthogonal))

    def state_space(self):
        return reduce(ProductSpace, (term.state_space() for term in self.terms))

    def features(self, X, degree):
        return feature_maps.pairwise_products(self, [k.features(X, degree) for k in self.terms])

    def by_columns(self, d):
        of_terms = (factor for term in self.terms for factor in term.by_columns(d).items())
        return column_groups.multiplied(of_terms)

    def __repr__(self):
        return " * ".join(term._show_in(3) for term in self.terms)


# -- one kernel changed -----------------------------------------------------------------------


class Wrapper(Kernel):
    """One kernel, changed. It has the names of the kernel inside."""

    inner: Kernel

    def children(self):
        return [(("inner",), self.inner)]

    def own_name(self):
        return self.inner.own_name()

    def label(self):
        return self.inner.label()


class Scaled(Wrapper):
    """scale * k(x, z).

    Args:
        inner: The kernel k.
        scale: A number of 0 or more, by which the variance of the function is multiplied.
    """

    scale: Hyperparameter = hyperparameter(1.0, constraints.nonnegative)

    precedence: ClassVar[int] = 2

    def evaluate(self, X, Z=None):
        return self.scale * self.inner.evaluate(X, Z)

    def evaluate_diag(self, X):
        return self.scale * self.inner.evaluate_diag(X)

    def frequencies(self, key, n, d, orthogonal=False):
        return self.inner.frequencies(key, n, d, orthogonal)

    def state_space(self):
        return ScaledSpace(self.inner.state_space(), self.scale)

    def features(self, X, degree):
        return jnp.sqrt(self.scale) * self.inner.features(X, degree)

    def by_columns(self, d):
        scale = hyper.replace(Constant(), [("variance",)], [self.scale])
        return column_groups.multiplied([((), scale), *self.inner.by_columns(d).items()])

    def terms_of_sum(self):
        return [(names, Scaled(k, self.scale)) for names, k in self.inner.terms_of_sum()]

    def __repr__(self):
        return f"{hyper.show(self.scale)} * {self.inner._show_in(3)}"


class Power(Wrapper):
    """k(x, z)^power.

    Args:
        inner: The kernel k.
        power: A whole number of at least 1. It is static, because a traced power has no safe
            derivative.
    """

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
        return reduce(operator.add, (self.inner.frequencies(k, n, d, orthogonal) for k in keys))

    def state_space(self):
        return reduce(ProductSpace, [self.inner.state_space()] * self.power)

    def features(self, X, degree):
        return feature_maps.multinomial(self, self.inner.features(X, degree), self.power)

    def by_columns(self, d):
        return {columns: k**self.power for columns, k in self.inner.by_columns(d).items()}

    def __repr__(self):
        return f"{self.inner._show_in(4)} ** {self.power}"


class Exp(Wrapper):
    """exp(k(x, z)).

    Args:
        inner: The kernel k.
    """

    def evaluate(self, X, Z=None):
        return jnp.exp(self.inner.evaluate(X, Z))

    def evaluate_diag(self, X):
        return jnp.exp(self.inner.evaluate_diag(X))

    def by_columns(self, d):
        return {column_groups.joined(self.inner.by_columns(d)): self}

    def __repr__(self):
        return f"{self.inner._show_in(4)}.exp()"


class Modulated(Wrapper):
    """f(x) k(x, z) f(z), for a function f of one point.

    Args:
        inner: The kernel k.
        f: A function of a point, shape (d,), to a number, in the operations of JAX. It may be an
            equinox module, whose weights stay as they are.
    """

    f: Callable = eqx.field(converter=as_module)

    def evaluate(self, X, Z=None):
        f_X = self._values(X)
        f_Z = f_X if Z is None else self._values(Z)
        return f_X[:, None] * self.inner.evaluate(X, Z) * f_Z

    def evaluate_diag(self, X):
        return jnp.square(self._values(X)) * self.inner.evaluate_diag(X)

    def state_space(self):
        return ModulatedSpace(self.inner.state_space(), self.f)

    def features(self, X, degree):
        return self._values(X)[:, None] * self.inner.features(X, degree)

    def terms_of_sum(self):
        return [(names, Modulated(k, self.f)) for names, k in self.inner.terms_of_sum()]

    def _values(self, X):
        return jax.vmap(partial(one_number, self.f))(X)

    def __repr__(self):
        return f"{self.inner._show_in(4)}.modulate({self.f!r})"


class Warped(Wrapper):
    """k(f(x), f(z)), for a function f of one point.

    Args:
        inner: The kernel k.
        f: A function of a point, shape (d,), to a number or a vector, in the operations of JAX.
            It may be an equinox module, whose floating arrays are hyperparameters (a deep kernel).
    """

    f: Callable = eqx.field(converter=as_module)

    def own_hyperparameters(self):
        return [(name, ("f", *path), constraint) for name, path, constraint in warps.sites(self.f)]

    def evaluate(self, X, Z=None):
        return self.inner.evaluate(self._map(X), None if Z is None else self._map(Z))

    def evaluate_diag(self, X):
        return self.inner.evaluate_diag(self._map(X))

    def features(self, X, degree):
        return self.inner.features(self._map(X), degree)

    def resolve(self, columns):
        # The kernel inside sees what f returns, whose columns have no names.
        return self

    def _map(self, X):
        return warps.values(self.f, X)

    def __repr__(self):
        return f"{self.inner._show_in(4)}.warp({warps.show(self.f)})"


class Select(Wrapper):
    """k on some of the columns of X.

    Args:
        inner: The kernel k.
        columns: One column or several, each an index or, for data frames, a name.
    """

    columns: tuple[int | str, ...] = eqx.field(static=True, converter=validation.columns)

    def resolve(self, columns):
        if columns is None:
            return self
        indices = validation.column_indices(self.columns, columns)
        return Select(self.inner.resolve([columns[i] for i in indices]), indices)

    def evaluate(self, X, Z=None):
        return self.inner.evaluate(self._take(X), None if Z is None else self._take(Z))

    def evaluate_diag(self, X):
        return self.inner.evaluate_diag(self._take(X))

    def frequencies(self, key, n, d, orthogonal=False):
        # Zero along the columns that are left out.
        unit_vectors = self._take(jnp.eye(d))
        return self.inner.frequencies(key, n, unit_vectors.shape[1], orthogonal) @ unit_vectors.T

    def state_space(self):
        if self.columns != (0,):
            raise NoStateSpaceError(f"{self!r} takes other columns than the one of time.")
        return self.inner.state_space()

    def features(self, X, degree):
        return self.inner.features(self._take(X), degree)

    def by_columns(self, d):
        taken = (validation.array_columns(self.columns, d) % d).tolist()
        return {
            tuple(sorted(taken[i] for i in columns)): Select(k, self.columns)
            for columns, k in self.inner.by_columns(len(taken)).items()
        }

    def _take(self, X):
        return X[:, validation.array_columns(self.columns, X.shape[1])]

    def __repr__(self):
        return f"{self.inner._show_in(4)}.on({list(self.columns)})"


class Named(Wrapper):
    """A kernel with a name, by which its hyperparameters and its component are found.

    Args:
        inner: The kernel.
        name: An identifier, such as "trend"; "rest" is reserved for the unnamed terms.
    """

    name: str = eqx.field(static=True)

    is_name: ClassVar[bool] = True

    def __check_init__(self):
        validation.kernel_name(self.name)

    def own_name(self):
        return self.name

    def evaluate(self, X, Z=None):
        return self.inner.evaluate(X, Z)

    def evaluate_diag(self, X):
        return self.inner.evaluate_diag(X)

    def frequencies(self, key, n, d, orthogonal=False):
        return self.inner.frequencies(key, n, d, orthogonal)

    def state_space(self):
        return self.inner.state_space()

    def features(self, X, degree):
        return self.inner.features(X, degree)

    def by_columns(self, d):
        return self.inner.by_columns(d)

    def terms_of_sum(self):
        return [((self.name, *names), kernel) for names, kernel in self.inner.terms_of_sum()]

    def __repr__(self):
        return f"{self.inner._show_in(4)}.named({self.name!r})"


def _flat(operation: type[CompoundKernel], kernel: Kernel) -> tuple[Kernel, ...]:
    # `type(...) is`, not isinstance: a Named sum is one term and keeps its name.
    return kernel.terms if type(kernel) is operation else (kernel,)


def _is_scalar(value) -> bool:
    """True for what may stand beside a kernel in `c * k` and `k + c`."""
    if isinstance(value, Distribution | Free):
        return True
    return isinstance(value, int | float | np.ndarray | np.number | jax.Array) and (
        jnp.ndim(value) == 0
    )
