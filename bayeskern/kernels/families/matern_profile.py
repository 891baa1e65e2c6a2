"""The Matern correlation of any smoothness, with its derivatives.

For nu = p + 1/2 it is a polynomial times an exponential. For other nu, modified Bessel functions
of the second kind K_mu and K_(mu + 1) with |mu| <= 1/2 come from Temme's series for small
arguments and from an integral for large ones, and a recursion raises the order.
"""

from __future__ import annotations

import math
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import zeta

from bayeskern.kernels.state_space.terms import horner

# Arguments of K below this number use the series, others the integral. With these numbers of terms
# and nodes, the relative error of both is below 1e-14, apart from the rounding of exp(-s).
SERIES_MAX_ARGUMENT = 2.0
BESSEL_SERIES_TERMS = 16
INTEGRAL_NODES = 24


def half_integer_order(nu: float) -> int | None:
    """p if nu = p + 1/2 with a whole p, else None."""
    return int(nu) if nu % 1.0 == 0.5 else None


@partial(jax.custom_jvp, nondiff_argnums=(1,))
def matern_profile(u: jax.Array, nu: float) -> jax.Array:
    """Correlation 2^(1 - nu) / Gamma(nu) s^nu K_nu(s) at u = r^2, with s = sqrt(2 nu) r."""
    return _scaled_bessel(2.0 * nu * u, nu)


@matern_profile.defjvp
def _profile_jvp(nu, primals, tangents):
    # The profiles are not smooth functions of u at 0. The derivative of a profile is written in
    # terms of the profile of nu - 1, because (s^nu K_nu)' = -s^nu K_(nu - 1), so that derivatives
    # are correct where they exist. Others (the first derivative for nu <= 1, the second for
    # nu <= 2) multiply du = 0, and are set to 0.
    (u,), (du,) = primals, tangents
    value = matern_profile(u, nu)
    if nu > 1.0:
        ratio = nu / (nu - 1.0)
        return value, -0.5 * ratio * matern_profile(ratio * u, nu - 1.0) * du
    slope = -0.5 * _size_at_0(1.0 - nu) / _size_at_0(nu) * 2.0 * nu
    return value, slope * _negative_order(2.0 * nu * u, 1.0 - nu) * du


@partial(jax.custom_jvp, nondiff_argnums=(1,))
def _negative_order(w: jax.Array, nu: float) -> jax.Array:
    """`_scaled_bessel` times w^-nu, which is infinite at w = 0 and is set to 0 there."""
    # Points that differ by rounding are treated as equal: their du is rounding error, and would be
    # divided by a tiny r.
    is_apart = w > jnp.finfo(jnp.result_type(w, float)).eps
    apart = jnp.where(is_apart, w, 1.0)
    power = 1.0 / jnp.sqrt(apart) if nu == 0.5 else apart**-nu
    return jnp.where(is_apart, _scaled_bessel(w, nu) * power, 0.0)


@_negative_order.defjvp
def _negative_order_jvp(nu, primals, tangents):
    (w,), (dw,) = primals, tangents
    slope = -0.5 * _size_at_0(nu + 1.0) / _size_at_0(nu)
    return _negative_order(w, nu), slope * _negative_order(w, nu + 1.0) * dw


def _size_at_0(nu: float) -> float:
    """Limit of s^nu K_nu(s) at s = 0; 1 for nu = 0, where there is none."""
    return math.gamma(nu) * 2.0 ** (nu - 1.0) if nu > 0.0 else 1.0


def _scaled_bessel(w: jax.Array, nu: float) -> jax.Array:
    """s^nu K_nu(s) at w = s^2, divided by its value at 0; K_0 for nu = 0."""
    order = half_integer_order(nu)
    if order is None:
        return _by_recursion(w, nu)
    s = jnp.sqrt(w)
    if order > 2:
        # exp(-746) is 0, and a high power of a larger s may be infinite.
        s = jnp.minimum(s, 746.0)
    return horner(polynomial(order), s) * jnp.exp(-s)


def polynomial(order: int) -> list[float]:
    """Coefficients of the correlation exp(s) k(s) for nu = order + 1/2, highest power first.

    Rasmussen and Williams (2006), equation 4.16.
    """
    ratios = [1.0]
    for k in range(order):
        # From the coefficient of s^k to that of s^(k + 1).
        ratios.append(ratios[-1] * 2.0 * (order - k) / ((2 * order - k) * (k + 1)))
    return ratios[::-1]


def _by_recursion(w: jax.Array, nu: float) -> jax.Array:
    """`_scaled_bessel` for any nu.

    With b_m = s^m K_m, b_(m + 1) = w b_(m - 1) + 2 m b_m adds positive numbers only.
    """
    steps = math.floor(nu + 0.5)
    mu, is_apart = nu - steps, w > 0.0
    s = jnp.sqrt(jnp.where(is_apart, w, 1.0))
    is_small = s < SERIES_MAX_ARGUMENT
    lower, upper = (
        jnp.where(is_small, small, large)
        for small, large in zip(
            _series(jnp.where(is_small, s, 1.0), mu),
            _integral(jnp.where(is_small, SERIES_MAX_ARGUMENT, s), mu),
            strict=True,
        )
    )
    if steps == 0:
        return jnp.where(is_apart, s**mu * lower / _size_at_0(mu), 1.0)
    size = _size_at_0(mu + 1.0)
    lower, upper = s**mu * lower / size, s ** (mu + 1.0) * upper / size
    for k in range(1, steps):
        # Both are divided by their values at 0; only the first `lower` is not.
        m = mu + k
        lower, upper = upper, upper + w * lower / (2.0 * m * (1.0 if k == 1 else 2.0 * (m - 1.0)))
    return jnp.where(is_apart, upper, 1.0)


def _series(s: jax.Array, mu: float) -> tuple[jax.Array, jax.Array]:
    """K_mu(s) and K_(mu + 1)(s) for s below 2 and |mu| <= 1/2.

    Temme (1975), "On the numerical evaluation of the modified Bessel function of the third kind".
    """
    # log(Gamma(1 + mu) / Gamma(1 - mu)) / (2 mu), of which the limit at 0 is Euler's constant.
    powers = range(3, 61, 2)
    shift = -np.euler_gamma - sum(zeta(k) * mu ** (k - 1) / k for k in powers)
    log, size = jnp.log(2.0 / s) + shift, math.sqrt(np.sinc(mu))
    p, q = jnp.exp(mu * log) / (2.0 * size), jnp.exp(-mu * log) / (2.0 * size)
    f = jnp.sinh(mu * log) / (mu * size) if mu else log
    lower, upper, factor = f, p, 1.0
    for k in range(1, BESSEL_SERIES_TERMS + 1):
        f = (k * f + p + q) / (k * k - mu * mu)
        p, q, factor = p / (k - mu), q / (k + mu), factor * 0.25 * s * s / k
        lower, upper = lower + factor * f, upper + factor * (p - k * f)
    return lower, 2.0 / s * upper


def _integral(s: jax.Array, mu: float) -> tuple[jax.Array, jax.Array]:
    """K_mu(s) and K_(mu + 1)(s) for s of at least 2 and |mu| <= 1/2.

    K_mu(s) is the integral of exp(-s cosh t) cosh(mu t) over t > 0. The trapezoidal rule converges
    exponentially: Trefethen and Weideman (2014), section 5. It ends where the integrand is
    exp(-40) of its value at 0.
    """
    step = jnp.arccosh(1.0 + 40.0 / s) / INTEGRAL_NODES
    # cosh(a (t + step)) = 2 cosh(a step) cosh(a t) - cosh(a (t - step))
    doubled = [2.0 * jnp.cosh(a * step) for a in (1.0, mu, mu + 1.0)]
    before, at = [jnp.ones_like(s)] * 3, [0.5 * c for c in doubled]
    lower = upper = 0.5 * jnp.ones_like(s)
    for _ in range(INTEGRAL_NODES):
        weight = jnp.exp(-s * (at[0] - 1.0))
        lower, upper = lower + weight * at[1], upper + weight * at[2]
        before, at = at, [c * a - b for c, a, b in zip(doubled, at, before, strict=True)]
    decay = step * jnp.exp(-s)
    return decay * lower, decay * upper
