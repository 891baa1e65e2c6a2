"""Kernels from Python functions: k(x, z), or features phi(x)."""

from __future__ import annotations

from collections.abc import Callable

import equinox as eqx
import jax
from numpyro.distributions import Distribution, constraints

from bayeskern.core import validation
from bayeskern.core.functions import as_module
from bayeskern.hyperparameters import Free, as_hyperparameter, show
from bayeskern.kernels.base import Kernel
from bayeskern.kernels.families.dot_product import Linear


class Custom(Kernel):
    """Kernel k(x, z) = f(x, z, **values) of a Python function; test it with `check_psd`.

    Args:
        f: JAX function from two points, shape (d,), and the hyperparameters as keyword arguments,
            to a number.
        values: Hyperparameters by name: numbers, NumPyro distributions or `Free`.
        constraints: NumPyro constraints by name; the default constraint is positive.

    Examples:
        >>> import jax.numpy as jnp
        >>> from bayeskern.kernels import Custom
        >>> kernel = Custom(lambda x, z, a: jnp.exp(-a * jnp.abs(x - z).sum()), {"a": 0.5})
        >>> print(kernel([0.0, 2.0]).round(3))
        [[1.    0.368]
         [0.368 1.   ]]
    """

    f: Callable = eqx.field(static=True)
    values: dict = eqx.field(
        default_factory=dict,
        converter=lambda values: {k: as_hyperparameter(v) for k, v in values.items()},
    )
    constraints: tuple = eqx.field(
        static=True, default=(), converter=lambda c: tuple(dict(c).items())
    )

    def own_hyperparameters(self) -> list[tuple]:
        declared = dict(self.constraints)
        for name in declared:
            validation.one_of("constraint for", name, self.values)
        return [
            (name, ("values", name), declared.get(name, constraints.positive))
            for name in self.values
        ]

    def evaluate(self, X: jax.Array, Z: jax.Array | None = None) -> jax.Array:
        Z = X if Z is None else Z
        return jax.vmap(lambda x: jax.vmap(lambda z: self.f(x, z, **self.values))(Z))(X)

    def evaluate_diag(self, X: jax.Array) -> jax.Array:
        return jax.vmap(lambda x: self.f(x, x, **self.values))(X)

    def label(self) -> str:
        name = getattr(self.f, "__name__", "")
        return name if name.isidentifier() else "custom"

    def __repr__(self):
        values = ", ".join(f"{name!r}: {show(value)}" for name, value in self.values.items())
        return f"Custom({self.label()}{f', {{{values}}}' if values else ''})"


def kernel_from_features(phi: Callable, weights: Distribution | type[Free] | None = None) -> Kernel:
    """Kernel k(x, z) = phi(x)'phi(z) of explicit features phi.

    Args:
        phi: JAX function from one point, shape (d,), to a number or a vector (m,); it may be an
            equinox module, as for `k.warp(phi)`.
        weights: Prior of the weights of the module, or the class `Free`, as for `warp`.

    Returns:
        The kernel.

    Raises:
        TypeError: phi is not a function, or weights is neither a distribution nor `Free`.
        ValueError: `weights` is given, but phi has no floating arrays.

    Examples:
        >>> import jax.numpy as jnp
        >>> from bayeskern.kernels import kernel_from_features
        >>> kernel = kernel_from_features(lambda x: jnp.array([1.0, x[0], x[0] * x[1]]))
        >>> print(kernel([[1.0, 2.0], [0.0, 1.0]]))
        [[6. 1.]
         [1. 1.]]
    """
    return Linear().warp(as_module(phi, "phi"), weights)
