"""Terms of state-space models: Matern, integrated, polynomial, harmonic."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterable
from functools import partial, reduce
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from bayeskern.core.quadrature import unit_nodes
from bayeskern.kernels.state_space.integrals import Integral

# Number of terms of the power series below, accurate to rounding for arguments up to 2.
SERIES_TERMS = 28


class NoStateSpaceError(ValueError):
    """The kernel has no state-space form, or its state is too large."""


class Term(eqx.Module):
    """Process sum_k phi_k(t) g_k(t), with m independent copies g_k of one process.

    Each copy has its own variance and a state of b numbers; the first is the value g_k(t). The
    state of the term has s = b m numbers: the first numbers of all copies, then the second numbers
    of all copies, and so on.
    """

    @property
    @abstractmethod
    def b(self) -> int:
        """Size of the state of a copy."""

    @abstractmethod
    def prior(self, t: jax.Array) -> Float[Array, "b b"]:
        """Prior covariance P(t) of the state of a copy of variance 1."""

    @abstractmethod
    def transition(
        self, t: jax.Array, d: jax.Array
    ) -> tuple[Float[Array, "b b"], Float[Array, "b b"]]:
        """Transition matrix A and noise covariance Q from t to t + d.

        Q is the noise covariance of a copy of variance 1.
        """

    @property
    def weights(self) -> Float[Array, " m"]:
        """Variances of the copies."""
        return jnp.ones(1)

    @property
    def starts(self) -> tuple[jax.Array, ...]:
        """Start times; before them the term does not describe the process."""
        return ()

    def features(self, t: jax.Array) -> Float[Array, " m"]:
        """Coefficients phi(t) of the copies."""
        return jnp.ones(1)

    @property
    def copy_slope(self) -> Float[Array, " b"]:
        """Coefficients of the state of a copy in the derivative of its value.

        Raises:
            NoStateSpaceError: The process has no derivative.
        """
        raise NoStateSpaceError("its state does not contain the derivative")

    @property
    def constant_variance(self) -> jax.Array | None:
        """Variance of a process that is one number at all times; None for other processes."""
        return None

    @property
    def has_closed_integral(self) -> bool:
        """True if `integral` is in closed form; otherwise it is by quadrature."""
        return False

    def integral(self, t: jax.Array, d: jax.Array, nodes: int) -> Integral:
        """Integral of the process over (t, t + d), by Gauss-Legendre quadrature unless overridden.

        The noise of the state at t + s is w(s), of variance Q(s), and Cov(w(r), w(s)) = Q(r) A',
        with the transition A from t + r to t + s for r < s.

        Args:
            t: Start of the step.
            d: Length of the step.
            nodes: Number of nodes of a single integral; the variance, a double integral, has
                nodes^2. Integrals in closed form ignore it.
        """
        u, w = unit_nodes(nodes)

        def features(s):
            return jax.vmap(self.features)(t + s)

        def value_noise(s):
            # Covariance of w(s) and its first number, the noise of the value of a copy.
            return jax.vmap(lambda s: self.transition(t, s)[1][:, 0])(s)

        def transition(r, s):
            return jax.vmap(lambda r: self.transition(t + r, s - r)[0])(r)

        s, weights = d * u, self.weights
        from_start = jax.vmap(lambda s: self.transition(t, s)[0][0])(s)
        coefficients = jnp.einsum("k,kb,km->bm", d * w, from_start, features(s))
        to_end = jnp.einsum("kij,kj->ki", transition(s, d), value_noise(s))
        covariance = jnp.einsum("k,kb,km->bm", d * w, to_end, features(s)) * weights

        @jax.checkpoint
        def before(s):
            # Covariance of the noise of f at t + s and its integral over (t, t + s).
            r = s * u
            at_s = jnp.einsum("kb,kb->k", transition(r, s)[:, 0], value_noise(r))
            return s * jnp.einsum("k,km,m->", w * at_s, features(r), weights * self.features(t + s))

        variance = 2.0 * d * w @ jax.lax.map(before, s)
        return Integral(coefficients.ravel(), covariance.ravel(), variance)

    def value(self, t: jax.Array) -> Float[Array, " s"]:
        """Coefficients of the state in the process at t."""
        phi = self.features(t)
        return jnp.pad(phi, (0, self.size - len(phi)))

    def slope(self, t: jax.Array) -> Float[Array, " s"]:
        """Coefficients of the state in the derivative of the process at t."""
        phi, phi_slope = jax.jvp(self.features, (t,), (jnp.ones_like(t),))
        slopes = self.copy_slope[:, None] * phi
        return slopes.at[0].add(phi_slope).ravel()

    @property
    def size(self) -> int:
        """Size s of the state of all copies."""
        return self.b * len(self.weights)


class DerivativesTerm(Term):
    """Term whose state is the process and its first `order` derivatives."""

    order: eqx.AbstractVar[int]

    has_closed_integral: ClassVar[bool] = True

    @property
    def b(self) -> int:
        return self.order + 1

    @property
    def copy_slope(self) -> jax.Array:
        if self.order == 0:
            return super().copy_slope
        return jnp.eye(self.b)[1]


class PolynomialTerm(DerivativesTerm):
    """sum_j w_j t^j with independent w_j ~ N(0, variances_j): (order + 1,)."""

    order: int = eqx.field(static=True)
    variances: jax.Array

    def prior(self, t: jax.Array) -> jax.Array:
        p = self.order
        # Column j of the matrix: the derivatives 0, ..., p of t^j.
        factorials = np.array([math.factorial(j) for j in range(p + 1)])
        powers = taylor(t, p) * factorials
        return (powers * self.variances) @ powers.T

    def transition(self, t: jax.Array, d: jax.Array) -> tuple[jax.Array, jax.Array]:
        return taylor(d, self.order), jnp.zeros((self.order + 1, self.order + 1))

    @property
    def copy_slope(self) -> jax.Array:
        return jnp.eye(self.b, k=-1)[:, 0]

    @property
    def constant_variance(self) -> jax.Array | None:
        return self.variances[0] if self.order == 0 else None

    def integral(self, t: jax.Array, d: jax.Array, nodes: int) -> Integral:
        return Integral.without_noise(taylor(d, self.order + 1)[0, 1:])


class CoefficientsTerm(Term):
    """Term whose state consists of the coefficients of its features; they are constant."""

    b: ClassVar[int] = 1
    has_closed_integral: ClassVar[bool] = True

    @property
    def copy_slope(self) -> jax.Array:
        return jnp.zeros(1)

    def prior(self, t: jax.Array) -> jax.Array:
        return jnp.ones((1, 1))

    def transition(self, t: jax.Array, d: jax.Array) -> tuple[jax.Array, jax.Array]:
        return jnp.ones((1, 1)), jnp.zeros((1, 1))


@partial(jax.custom_jvp, nondiff_argnums=(1,))
def lower_gammas(x: jax.Array, highest: int) -> jax.Array:
    """Integrals of w^m exp(-w) over w from 0 to x, for m = 0, ..., highest.

    The integral for the highest m is m! (1 - exp(-x) sum_{j <= m} x^j / j!), or a series for x
    below 2 or below m - 2, where this cancels. The recursion to lower m adds positive numbers only:
    Abramowitz and Stegun (1964), 6.5.22.
    """
    m, decay, above = highest, jnp.exp(-x), max(highest - 4, 0)
    is_small, terms = x < 2.0 + above, SERIES_TERMS + 2 * above
    small, large = jnp.where(is_small, x, 0.0), jnp.where(is_small, 2.0 + above, x)
    rising = [math.factorial(m) / math.factorial(m + 1 + j) for j in reversed(range(terms))]
    series = small ** (m + 1) * decay * horner(rising, small)
    head = [1.0 / math.factorial(j) for j in reversed(range(m + 1))]
    closed = float(math.factorial(m)) * (1.0 - decay * horner(head, large))
    # The barrier keeps XLA from computing the integral and exp(-x) again for each m.
    highest_gamma, decay = jax.lax.optimization_barrier(
        (jnp.where(is_small, series, closed), decay)
    )
    gammas = [highest_gamma]
    for k in range(m, 0, -1):
        gammas.append((gammas[-1] + x**k * decay) / k)
    return jnp.stack(gammas[::-1])


@lower_gammas.defjvp
def _lower_gammas_jvp(highest, primals, tangents):
    (x,), (dx,) = primals, tangents
    integrands = jnp.stack([x**m for m in range(highest + 1)]) * jnp.exp(-x)
    return lower_gammas(x, highest), integrands * dx


def exponential_terms(F: np.ndarray, count: int) -> np.ndarray:
    """First terms F^k / k! of the series of exp(F), k = 0, 1, ...: (count, s, s)."""
    terms = [np.eye(len(F))]
    for k in range(1, count):
        terms.append(terms[-1] @ F / k)
    return np.array(terms)


def horner(coefficients: Iterable, x: jax.Array) -> jax.Array:
    """Polynomial in x; the coefficients are numbers or arrays, highest power first.

    Without a loop, unlike `jnp.polyval`, so that XLA fuses the operations.
    """
    return reduce(lambda total, c: x * total + c, coefficients)


def matrix(rows) -> jax.Array:
    return jnp.stack([jnp.stack(row) for row in rows])


def taylor(d, order: int) -> jax.Array:
    """Matrix from the derivatives of a polynomial at t to those at t + d."""
    zero = jnp.zeros_like(d)
    return matrix(
        [
            [d ** (j - i) / math.factorial(j - i) if j >= i else zero for j in range(order + 1)]
            for i in range(order + 1)
        ]
    )
