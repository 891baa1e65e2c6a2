"""What every kernel is: a function of two points that can be added, multiplied and named."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpyro.distributions import Distribution

from bayeskern import hyperparameters as hyper
from bayeskern.core import validation
from bayeskern.hyperparameters import Free
from bayeskern.hyperparameters.parametrised import Parametrised
from bayeskern.kernels import spectral_density


class Kernel(Parametrised):
    """A covariance function k(x, z).

    `k(X, Z)` is the Gram matrix between two sets of points, `k(X)` the one among the points
    themselves, `k.diag(X)` its diagonal. A subclass writes `evaluate` and `evaluate_diag` on
    arrays of shape (n, d) and declares its hyperparameters with `hyperparameter(default)`.
    """

    positive_definite: ClassVar[bool] = True
    # NumPy scalars and arrays on the left leave the operator to __rmul__ and __radd__.
    __array_ufunc__: ClassVar[None] = None

    @abstractmethod
    def evaluate(
        self, X: Float[Array, "n d"], Z: Float[Array, "m d"] | None = None
    ) -> Float[Array, "n m"]:
        """The Gram matrix between X and Z, or among X when Z is None."""

    @abstractmethod
    def evaluate_diag(self, X: Float[Array, "n d"]) -> Float[Array, " n"]:
        """The diagonal of the Gram matrix among X."""

    def frequencies(self, key, n: int, d: int, orthogonal: bool = False) -> Float[Array, "n d"]:
        """Draws of w from the spectral density: k(x, z) = k(0) E cos(w'(x - z)).

        Each row has that density, which is symmetric; rows are independent unless orthogonal,
        which asks for right angles where Gaussian directions are drawn. Raises ValueError where
        the kernel has no spectral density.
        """
        return spectral_density.refuse(self)

    # -- the public calls ---------------------------------------------------------------------

    def __call__(self, X, Z=None) -> Float[Array, "n m"]:
        """Gram matrix. X: (n,), (n, d) or a data frame; Z likewise, or None for k(X, X).

        Raises TypeError if a hyperparameter is still a distribution or free, ValueError if X and
        Z do not fit each other or the kernel.
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
        """The diagonal of k(X): (n,), without the matrix."""
        X, columns = validation.inputs(X, "X")
        return self.resolve(columns).require_concrete().evaluate_diag(X)

    def feature_map(self, X, degree: int | None = None) -> Float[Array, "n m"]:
        """Features phi(X) with phi(X) phi(Z)' = k(X, Z): (n, m) for points X: (n, d).

        Polynomial has C(d + p, p) of them, AllSubsets 2^d, Linear d, Constant 1 and Cosine 2. A sum
        lines up those of its terms, and a product has one for each choice from its factors.

        The RBF's are infinitely many, and degree says where their series is cut. Its C(d + degree,
        degree) features exp(-|x|^2 / 2) x^a / sqrt(a!), x in units of the lengthscale and
        |a| <= degree, miss k(x, z) by at most v (|x| |z|)^(degree + 1) / (degree + 1)!, which is
        small near the origin only: centre the points first. Cotter, Keshet and Srebro (2011).

        Raises ValueError where there are no such features, naming the part that has none, or too
        many, and TypeError if a hyperparameter is still a distribution or free.
        """
        from bayeskern.kernels import feature_maps

        X, columns = validation.inputs(X, "X")
        kernel = self.resolve(columns).require_concrete()
        feature_maps.check_degree(kernel, degree)
        if degree is not None:
            degree = validation.positive_integer(degree, "degree")
        return feature_maps.features(kernel, X, degree)

    # -- the tree -----------------------------------------------------------------------------

    def label(self) -> str:
        """What an unnamed kernel is called inside a sum or a product."""
        return type(self).__name__.lower()

    def terms_of_sum(self) -> list[tuple[tuple[str, ...], Kernel]]:
        """The additive terms as (names, kernel), reached through Sum, Scaled and Named."""
        return [((), self)]

    def resolve(self, columns) -> Kernel:
        """A copy whose column names are turned into column indices."""
        paths = [path for path, _ in self.children()]
        resolved = [child.resolve(columns) for _, child in self.children()]
        changed = any(
            new is not old for new, (_, old) in zip(resolved, self.children(), strict=True)
        )
        return hyper.replace(self, paths, resolved) if changed else self

    # -- the algebra: implemented in algebra.py, which imports this module ------------------------

    def __add__(self, other):
        return _algebra().add(self, other)

    def __radd__(self, other):
        return _algebra().add(other, self)

    def __mul__(self, other):
        return _algebra().multiply(self, other)

    __rmul__ = __mul__

    def __pow__(self, power: int):
        return _algebra().Power(self, power)

    def exp(self):
        """exp(k(x, z)), again a kernel."""
        return _algebra().Exp(self)

    def warp(self, f):
        """k(f(x), f(z)) for a function f of one point, shape (d,), to a number or a vector."""
        return _algebra().warp(self, f)

    def on(self, columns):
        """k on some columns only, given by index or by name: `k.on([0, 2])`, `k.on(["age"])`."""
        return _algebra().Select(self, columns)

    def named(self, name: str):
        """The same kernel with a name, used for its hyperparameters and as a component."""
        return _algebra().name(self, name)

    # -- reading ------------------------------------------------------------------------------

    # How tightly the expression binds when it is printed: sum 1, product 2, power 3, call 4.
    precedence: ClassVar[int] = 4

    def _show_in(self, precedence: int) -> str:
        return f"({self!r})" if self.precedence < precedence else repr(self)


def _algebra():
    from bayeskern.kernels import algebra

    return algebra


def is_scalar(value) -> bool:
    """True for what may stand beside a kernel in `c * k` and `k + c`."""
    if isinstance(value, Distribution | Free):
        return True
    return isinstance(value, int | float | np.ndarray | np.number | jax.Array) and (
        jnp.ndim(value) == 0
    )
