"""Base class of kernels, with the operators under which they are closed.

The operators return the kernels `Sum`, `Product`, `Scaled`, `Power`, `Exp`, `Modulated`, `Warped`,
`Select` and `Named`. Rasmussen and Williams (2006), section 4.2.4; Shawe-Taylor and Cristianini
(2004), proposition 3.22.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any, ClassVar, TypeGuard

import jax
import jax.numpy as jnp
import numpy as np
from numpyro.distributions import Distribution

from bayeskern.core.functions import as_module
from bayeskern.hyperparameters import Free
from bayeskern.kernels import registry, warps
from bayeskern.kernels.column_groups import Columns
from bayeskern.kernels.function import CovarianceFunction
from bayeskern.kernels.means import quadrature
from bayeskern.kernels.means.boxes import Boxes

# The operand c of `c * k` and `k + c`: a number, a prior of a number, or `Free`.
Scalar = float | np.ndarray | np.number | jax.Array | Distribution | Free


class Kernel(CovarianceFunction):
    """Covariance function k(x, z) of two points.

    `k(X, Z)` is the Gram matrix between two sets of points, `k(X)` the Gram matrix among the points
    themselves, `k.diag(X)` its diagonal. Kernels are closed under `k1 + k2`, `k1 * k2`, `c * k`,
    `k + c`, `k ** p`, `k.exp()`, `k.modulate(f)`, `k.warp(f)`, `k.on(columns)` and
    `k.named(name)`.

    To write a kernel, subclass it, declare its hyperparameters with `hyperparameter(default)`, and
    define `evaluate` and `evaluate_diag` on arrays of shape (n, d). Override `by_columns` too if it
    is a product over columns, and the methods of what it `offers`; docs/howto/write_a_kernel.md
    lists them.

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
        other = _made("Constant", other) if _is_scalar(other) else other
        return _joined("Sum", self, other) if isinstance(other, Kernel) else NotImplemented

    def __radd__(self, other: Scalar) -> Kernel:
        # sum([k1, k2]) starts from 0.
        if isinstance(other, int) and other == 0:
            return self
        return _made("Constant", other) + self if _is_scalar(other) else NotImplemented

    def __mul__(self, other: Kernel | Scalar) -> Kernel:
        if isinstance(other, Kernel):
            return _joined("Product", self, other)
        return _made("Scaled", self, other) if _is_scalar(other) else NotImplemented

    __rmul__ = __mul__

    def __pow__(self, power: int) -> Kernel:
        return _made("Power", self, power)

    def exp(self) -> Kernel:
        """Kernel exp(k(x, z))."""
        return _made("Exp", self)

    def warp(self, f: Callable, weights: Distribution | type[Free] | None = None) -> Kernel:
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
        return _made("Warped", self, warps.with_weights(as_module(f), weights))

    def modulate(self, f: Callable) -> Kernel:
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
        return _made("Modulated", self, f)

    def on(self, columns: int | str | Sequence[int | str]) -> Kernel:
        """Kernel on a subset of the columns of X.

        Args:
            columns: One column or several, each an index or, for data frames, a name:
                `k.on([0, 2])`, `k.on(["age"])`.

        Returns:
            The kernel on these columns.

        Raises:
            ValueError: `columns` is empty, or a column is repeated.
        """
        return _made("Select", self, columns)

    def named(self, name: str) -> Kernel:
        """Kernel with a name, which labels its hyperparameters and its component.

        Args:
            name: An identifier, such as "trend".

        Returns:
            The named kernel.

        Raises:
            ValueError: The name is not an identifier, or is "rest" or a Python keyword.
        """
        return _made("Named", self, name)

    def _show_in(self, precedence: int) -> str:
        return f"({self!r})" if self.precedence < precedence else repr(self)


def _made(kind: str, *arguments: Any) -> Kernel:
    """Kernel that an operator returns; its class is defined above this file."""
    return registry.KERNELS[kind](*arguments)


def _joined(kind: str, *kernels: Any) -> Kernel:
    """Sum or product of kernels; the terms of a sum in a sum are terms of the whole."""
    # `type(...) is`, not isinstance: a Named sum is one term and keeps its name.
    parts = [k.terms if type(k) is registry.KERNELS[kind] else (k,) for k in kernels]
    return _made(kind, sum(parts, ()))


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
