"""Integrals and derivatives of state-space processes: against the kernel and by quadrature."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bayeskern.kernels import (
    Brownian,
    Cosine,
    Matern12,
    Matern32,
)
from bayeskern.kernels.state_space.space import NoStateSpaceError
from bayeskern.kernels.state_space.terms import Term
from tests.kernels import cases
from tests.marks import few

KERNELS = {
    **cases.offering("state_space", "matern", "white"),
    "scaled sum": 2.0 * (Matern32(1.4, 1.3) + Cosine(1.7)),
    "wave": Matern32(1.4) * Cosine(1.7),
    "modulated": Matern32(1.4).modulate(lambda t: 1.0 + 0.3 * t[0]),
}
SMOOTH = {name: kernel for name, kernel in KERNELS.items() if not kernel.rough_parts(0, 1)}

# Kernels whose integrals are by quadrature, which is not exact over long steps.
QUADRATURE_NAMES = ("wave", "modulated")
CLOSED_FORM_NAMES = [name for name in KERNELS if name not in QUADRATURE_NAMES]

# Enough for ten sine waves over three periods.
NODES = 64


@pytest.mark.parametrize("name", few(KERNELS, "matern32 ard", "integrated ornstein-uhlenbeck"))
@pytest.mark.parametrize("length", [1e-4, 0.3, 4.0])
def test_moments_against_integrals_of_the_kernel(name, length):
    kernel, t, d = KERNELS[name], jnp.array(0.4), jnp.array(length)
    space = kernel.state_space()
    a, q, v = space.integral(t, d, NODES)
    A, P = space.step(t, d)[0], space.covariance(t)
    u, w = np.polynomial.legendre.leggauss(NODES)
    u, w = 0.5 * (u + 1.0), 0.5 * w
    s = 0.4 + length * u
    # Means of the kernel in one argument and in both, on each side of the kink.
    with_start, with_end = np.asarray(kernel([0.4, 0.4 + length], s)) @ w
    below, above = 0.4 + length * u[:, None] * u, s[:, None] + length * (1.0 - u[:, None]) * u
    k = [np.asarray(kernel(s, r.ravel())).reshape(NODES, NODES, NODES) for r in (below, above)]
    means = [np.einsum("iij,j->i", matrix, w) for matrix in k]
    variance = w @ (u * means[0] + (1.0 - u) * means[1])
    np.testing.assert_allclose(a @ P @ space.h(t) / length, with_start, rtol=1e-9)
    at_end = (A @ (P @ a) + q) @ space.h(t + d)
    np.testing.assert_allclose(at_end / length, with_end, rtol=1e-9)
    np.testing.assert_allclose((a @ P @ a + v) / length**2, variance, rtol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("length", [1e-6, 1e-3, 0.3, 0.69, 0.71, 1.5, 4.0])
def test_noise_of_the_integral_by_quadrature(name, length):
    t, d = jnp.array(0.4), jnp.array(length)
    for term in KERNELS[name].state_space().terms:
        found, expected = term.integral(t, d, NODES), Term.integral(term, t, d, NODES)
        sds = np.repeat(
            np.sqrt(np.maximum(np.diag(term.transition(t, d)[1]), 0.0)), len(term.weights)
        )
        # The noise of a Markov RBF in short steps is below the rounding error of its state, and its
        # variance by quadrature may be negative.
        sd = np.sqrt(np.maximum(expected.variance, 0.0))
        scale = sd * sds * np.sqrt(np.max(term.weights)) + 1e-300
        rtol = 1e-13 if "rbf" not in name else 1e-4
        atol = 0.0 if "rbf" not in name else 1e-16
        np.testing.assert_allclose(found.coefficients, expected.coefficients, atol=1e-11 * length)
        np.testing.assert_array_less(
            np.abs(found.covariance - expected.covariance), rtol * scale + atol + 1e-300
        )
        np.testing.assert_allclose(found.variance, expected.variance, rtol=10 * rtol, atol=atol)


@pytest.mark.parametrize(
    "name", few(CLOSED_FORM_NAMES, "matern32 ard", "integrated ornstein-uhlenbeck")
)
def test_two_steps_make_one(name):
    # The integral over 30 lengthscales, in one step and in two.
    space, t = KERNELS[name].state_space(), jnp.array(0.4)
    for d, e in ((1e-6, 40.0), (40.0, 1e-3), (0.7, 0.9), (15.0, 25.0)):
        d, e = jnp.array(d), jnp.array(e)
        (A, Q), B = space.step(t, d), space.step(t + d, e)[0]
        one = space.integral(t, d + e, 0)
        first, then = space.integral(t, d, 0), space.integral(t + d, e, 0)
        b = then.coefficients
        a = first.coefficients + A.T @ b
        q = B @ first.covariance + B @ Q.times(b) + then.covariance
        v = first.variance + 2.0 * b @ first.covariance + b @ Q.times(b) + then.variance
        for found, expected in zip((a, q, v), one, strict=True):
            # Relative to the whole integral: the noise of a Markov RBF is a small part of it. Its
            # eigenvectors of order 10 have condition number 2e6, so that six digits are lost.
            size = np.max(np.abs(expected)) if found.ndim else a @ a + v
            rounding = 1e-9 if name == "markov rbf 10" else 1e-11
            np.testing.assert_allclose(found, expected, rtol=1e-10, atol=rounding * size)


@pytest.mark.parametrize("name", few(SMOOTH, "matern32 ard", "cosine"))
def test_slope_against_derivatives_of_the_kernel(name):
    space, t, other = SMOOTH[name].state_space(), jnp.array(0.4), jnp.array(2.3)

    def k(s, r):
        return SMOOTH[name].evaluate(s.reshape(1, 1), r.reshape(1, 1))[0, 0]

    A, _ = space.step(t, other - t)
    P, h = space.covariance(t), space.h(other)
    # Cov(f'(t), f(other)), and the variance of the slope by the slope at another time.
    rtol = 1e-7 if "rbf" in name else 1e-9
    np.testing.assert_allclose(
        h @ (A @ (P @ space.slope(t))), jax.grad(k)(t, other), rtol=rtol, atol=1e-9
    )
    np.testing.assert_allclose(
        space.slope(other) @ (A @ (P @ space.slope(t))),
        jax.grad(jax.grad(k), 1)(t, other),
        rtol=rtol,
        atol=1e-9,
    )


@pytest.mark.parametrize("kernel", [Matern12(), Brownian(), Matern12() * Cosine()])
def test_rough_processes_have_no_slope(kernel):
    with pytest.raises(NoStateSpaceError, match="derivative"):
        kernel.state_space().slope(jnp.array(1.0))
