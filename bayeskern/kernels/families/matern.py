"""Matern kernels of any smoothness.

Rasmussen and Williams (2006), section 4.2.1; Stein (1999), "Interpolation of spatial data".
"""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp

from bayeskern.core import validation
from bayeskern.kernels.families.matern_profile import half_integer_order, matern_profile
from bayeskern.kernels.families.profiles import MaternLags
from bayeskern.kernels.families.stationary import Stationary
from bayeskern.kernels.function import CovarianceFunction
from bayeskern.kernels.means.lags import LagFunction
from bayeskern.kernels.state_space.space import NoStateSpaceError, StateSpace, number
from bayeskern.kernels.state_space.terms import MaternTerm


class MaternFamily(Stationary):
    """Base of the Matern kernels.

    For nu = p + 1/2 with a whole p, the kernel is a polynomial times an exponential, and in one
    dimension the process has a state of p + 1 numbers.
    """

    has_spectrum: ClassVar[bool] = True

    @property
    @abstractmethod
    def nu(self) -> float:
        """Smoothness: functions drawn from the kernel have k derivatives for k < nu."""

    def rough_parts(self, column: int, d: int) -> list[CovarianceFunction]:
        return [] if self.nu > 1.0 else [self]

    def state_space(self) -> StateSpace:
        order = half_integer_order(self.nu)
        # The state of order 7 has an error of 1e-12 of its variance, that of order 10, 1e-10.
        if order is None or order > 7:
            raise NoStateSpaceError(
                f"{self!r} has no state-space form: its nu is not one of 1/2, 3/2, ..., 15/2."
            )
        rate = math.sqrt(2.0 * self.nu) / number(self, "lengthscale")
        return StateSpace((MaternTerm(order, rate, self.variance),))

    def profile(self, u: jax.Array) -> jax.Array:
        return matern_profile(u, self.nu)

    def lag_function(self) -> LagFunction | None:
        order = half_integer_order(self.nu)
        return MaternLags(order) if order in MaternLags.ORDERS else None

    def mixing(self, key: jax.Array, n: int) -> jax.Array:
        # The spectral density is a multivariate Student t with 2 nu degrees of freedom: a Gaussian
        # whose precision has a gamma distribution of mean 1.
        return self.nu / jax.random.gamma(key, self.nu, (n,))

    def spectrum(self, u: jax.Array, d: int) -> jax.Array:
        # Rasmussen and Williams (2006), equation 4.15, with frequencies in radians.
        power = self.nu + 0.5 * d
        ratio = math.exp(math.lgamma(power) - math.lgamma(self.nu))
        factor = ratio * (2.0 * math.pi / self.nu) ** (0.5 * d)
        return factor * jnp.exp(-power * jnp.log1p(u / (2.0 * self.nu)))


class Matern(MaternFamily):
    """Matern kernel of any smoothness nu.

    k(x, z) = variance * 2^(1 - nu) / Gamma(nu) * s^nu K_nu(s) with s = sqrt(2 nu) r, where K_nu is
    the modified Bessel function of the second kind. Functions drawn from it have k mean-square
    derivatives for k < nu; for a large nu the kernel approaches `RBF`. For nu = p + 1/2 with a
    whole p it is a polynomial times exp(-s), and `Matern12`, `Matern32` and `Matern52` are the
    first three; other nu take up to a hundred times as long and have no state-space form.

    Args:
        lengthscale: Distance over which the function changes, in the units of the inputs: a
            number, a vector (d,), or a lower triangular matrix (d, d), as for `RBF`.
        variance: Prior variance k(x, x), in the squared units of the output.
        nu: Smoothness, a number above 0, at most 100; static.

    Raises:
        ValueError: nu is not such a number.

    References:
        Rasmussen and Williams (2006), equation 4.14.

    Examples:
        >>> from bayeskern.kernels import Matern
        >>> print(Matern(lengthscale=2.0, nu=0.8)([0.0, 2.0]).round(3))
        [[1.    0.421]
         [0.421 1.   ]]
    """

    nu: float = eqx.field(
        static=True, default=1.5, converter=lambda nu: validation.positive(nu, "nu")
    )

    def __check_init__(self):
        if self.nu > 100.0:
            raise ValueError(
                f"nu must be at most 100, got {self.nu:g}. Use RBF, which is the limit of a large "
                "nu."
            )


class Matern12(MaternFamily):
    """Matern kernel of order 1/2, or exponential kernel, k(x, z) = variance * exp(-r).

    Functions drawn from it are continuous and nowhere differentiable; in one dimension they are
    Ornstein-Uhlenbeck processes.

    Args:
        lengthscale: Distance over which the function changes, in the units of the inputs: a
            number, a vector (d,), or a lower triangular matrix (d, d), as for `RBF`.
        variance: Prior variance k(x, x), in the squared units of the output.

    References:
        Rasmussen and Williams (2006), section 4.2.1.

    Examples:
        >>> from bayeskern.kernels import Matern12
        >>> print(Matern12(lengthscale=2.0)([0.0, 2.0]).round(3))
        [[1.    0.368]
         [0.368 1.   ]]
    """

    nu: ClassVar[float] = 0.5


class Matern32(MaternFamily):
    """Matern kernel of order 3/2, k(x, z) = variance * (1 + s) exp(-s) with s = sqrt(3) r.

    Functions drawn from it are once differentiable.

    Args:
        lengthscale: Distance over which the function changes, in the units of the inputs: a
            number, a vector (d,), or a lower triangular matrix (d, d), as for `RBF`.
        variance: Prior variance k(x, x), in the squared units of the output.

    References:
        Rasmussen and Williams (2006), equation 4.17.

    Examples:
        >>> from bayeskern.kernels import Matern32
        >>> print(Matern32(lengthscale=2.0)([0.0, 2.0]).round(3))
        [[1.    0.483]
         [0.483 1.   ]]
    """

    nu: ClassVar[float] = 1.5


class Matern52(MaternFamily):
    """Matern kernel of order 5/2, variance * (1 + s + s^2 / 3) exp(-s) with s = sqrt(5) r.

    Functions drawn from it are twice differentiable.

    Args:
        lengthscale: Distance over which the function changes, in the units of the inputs: a
            number, a vector (d,), or a lower triangular matrix (d, d), as for `RBF`.
        variance: Prior variance k(x, x), in the squared units of the output.

    References:
        Rasmussen and Williams (2006), equation 4.17.

    Examples:
        >>> from bayeskern.kernels import Matern52
        >>> print(Matern52(lengthscale=2.0)([0.0, 2.0]).round(3))
        [[1.    0.524]
         [0.524 1.   ]]
    """

    nu: ClassVar[float] = 2.5
