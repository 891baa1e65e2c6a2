"""State-space forms against their kernels, SciPy and the definition of a state."""

import math
from decimal import Decimal, localcontext

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import quad_vec
from scipy.linalg import block_diag
from scipy.special import gammainc

from bayeskern import Free
from bayeskern.kernels import (
    RBF,
    Brownian,
    ChangePoint,
    Constant,
    Cosine,
    IntegratedBrownian,
    Linear,
    MarkovRBF,
    Matern12,
    Matern32,
    Matern52,
    Periodic,
    Seasonal,
    White,
)
from bayeskern.kernels.families.harmonics import MAX_HARMONIC_ERROR, coefficients
from bayeskern.kernels.state_space.blocks import Repeated, Weighted
from bayeskern.kernels.state_space.space import NoStateSpaceError
from bayeskern.kernels.state_space.terms import lower_gammas
from bayeskern.kernels.truncation import harmonics_of, with_harmonics
from tests.kernels import cases
from tests.marks import few

KERNELS = {
    **cases.offering("state_space", "matern", "white"),
    "sum": Matern12() + Linear() + 0.3,
    "product": Matern32(2.0) * Cosine(0.8) * Linear(),
    "scaled and named": (2.5 * Matern52()).named("a") + Brownian().on([0]),
    "power": (Matern12() + 0.5) ** 3,
    "product of sums": (Matern12() + Linear()) * (IntegratedBrownian(0.2) + Cosine(3.0)),
    "drifting season": (Constant(0.5) + Brownian(0.2)) * Seasonal(0.9, 0.6),
    "modulated": (Matern32(3.0) * Cosine(0.9) + 0.3).modulate(lambda t: 1.0 + 0.4 * t[0]),
    "change point": ChangePoint(Matern12() + 0.5, Linear(), location=1.0, width=0.4),
    "quasi-periodic": 0.5 * (Matern32(3.0) * Periodic(0.9, 2.0, harmonics=7) * Matern12()) + 0.2,
}


def tolerance(kernel):
    """Truncated harmonics have a stated error; sums of many damped waves lose digits."""
    kinds = {type(node) for node in kernel.nodes()}
    if kinds & {Periodic, Seasonal}:
        return 1.5 * MAX_HARMONIC_ERROR
    return 1e-11 if MarkovRBF in kinds else 1e-13


most_slow = pytest.mark.parametrize("name", few(KERNELS, "sum", "modulated"))
TIMES = jnp.array([cases.START, 0.9, 1.0, 1.0, 5.0])
STEPS = (0.0, 1e-9, 1e-3, 0.5, 3.0, 70.0)


@most_slow
def test_state_space_covariances_match_the_kernel(name):
    space = KERNELS[name].state_space()
    assert space.size == len(space.h(TIMES[0]))
    for i, s in enumerate(TIMES):
        for t in TIMES[i:]:
            A, _ = space.step(s, t - s)
            np.testing.assert_allclose(
                space.h(t) @ (A @ (space.covariance(s) @ space.h(s))),
                float(KERNELS[name](s[None], t[None])[0, 0]),
                rtol=1e-12,
                atol=tolerance(KERNELS[name]),
            )


@most_slow
def test_transition_propagates_the_prior_covariance(name):
    space, t = KERNELS[name].state_space(), jnp.asarray(0.8)
    for d in STEPS:
        A, Q = space.step(t, jnp.asarray(d))
        Q, later = Q.dense(), space.covariance(t + d)
        error = np.abs(A @ space.covariance(t) @ A.T + Q - later).max()
        assert error < 1e-13 * np.abs(later).max()
        assert np.all(np.linalg.eigvalsh(Q) >= -1e-14 * np.abs(Q).max())


@pytest.mark.parametrize("d", STEPS[1:])
def test_transition_noise_of_short_steps_against_quadrature(d):
    # In terms of f, f' / rate, ... it is the integral of the square of the response to an impulse.
    Q = Matern52(lengthscale=0.7).state_space().step(jnp.zeros(()), jnp.asarray(d))[1].dense()

    def integral(end):
        # Over (0, 1), so that quadrature is as exact for the shortest step.
        def integrand(w):
            u = end * w
            response = np.array([u * u / 2.0, u * (1.0 - u / 2.0), 1.0 - 2.0 * u + u * u / 2.0])
            return end * math.exp(-2.0 * u) * np.outer(response, response)

        return quad_vec(integrand, 0.0, 1.0, epsabs=0.0, epsrel=1e-12)[0]

    expected = integral(min(d * math.sqrt(5.0) / 0.7, 60.0)) / integral(60.0)[0, 0]
    np.testing.assert_allclose(Q, expected, rtol=1e-9, atol=1e-13 * Q[0, 0])


@pytest.mark.parametrize("highest", [4, 16])
@pytest.mark.parametrize("x", [1e-9, 1e-3, 0.5, 1.999, 2.001, 10.0, 13.9, 14.1, 800.0])
def test_incomplete_gammas_against_scipy(x, highest):
    expected = [gammainc(m + 1, x) * math.factorial(m) for m in range(highest + 1)]
    np.testing.assert_allclose(lower_gammas(jnp.asarray(x), highest), expected, rtol=1e-13)


@pytest.mark.slow
@pytest.mark.parametrize("name", few(KERNELS, "sum"))
def test_derivatives_of_a_transition_are_finite(name):
    def total(kernel, d):
        space, t = kernel.state_space(), jnp.asarray(0.8)
        numbers = (space.step(t, d), space.covariance(t + d), space.h(t + d))
        return sum(jnp.sum(x) for x in jax.tree.leaves(numbers))

    # The number of harmonics cannot follow from traced lengthscales.
    kernel = with_harmonics(KERNELS[name], harmonics_of(KERNELS[name]))
    for d in (0.0, 1e-9, 2.0):
        first = jax.jit(jax.grad(total, argnums=(0, 1)))(kernel, d)
        second = jax.jit(jax.hessian(total))(kernel, d)
        assert all(np.all(np.isfinite(x)) for x in jax.tree.leaves((first, second)))


@pytest.mark.parametrize(
    ("kernel", "part"),
    [
        (RBF(), "RBF"),
        (
            Matern12() + Periodic(lengthscale=Free(1.0)),
            "Periodic(period=1.0, lengthscale=Free(1.0)",
        ),
        (Periodic(lengthscale=1e-3), "too small"),
        (Seasonal(lengthscale=1e-3), "Seasonal(period=1.0, lengthscale=0.001"),
        (Matern12() * White(0.2), "White"),
        ((Matern12() + White(0.2)).modulate(jnp.sum), "White"),
        (RBF().modulate(jnp.sum), "RBF"),
        (Matern32(lengthscale=[1.0, 2.0]), "each of several columns"),
        (Matern32().on([1]), "other columns"),
        (Matern32().exp(), "exp()"),
        (Matern32().warp(jnp.tanh), "warp"),
    ],
    ids=repr,
)
def test_kernels_without_a_state_space_form_are_refused(kernel, part):
    with pytest.raises(NoStateSpaceError) as refusal:
        kernel.state_space()
    assert part in str(refusal.value)


@pytest.mark.parametrize("d", [0.0, 0.4, 1e6])
def test_periodic_process_is_the_sum_of_its_harmonics(d):
    # The series, near time 0 and far from it.
    space = Periodic(0.7, 2.0, 1.5, harmonics=3).state_space()
    j, w = np.arange(4), np.asarray(coefficients(2.0, 3))
    with localcontext(prec=40):
        turns = float(Decimal(d) / Decimal.from_float(0.7) % 1)
    expected = 1.5 * np.sum(w * np.cos(2.0 * np.pi * j * turns))
    found = space.h(jnp.asarray(d)) @ space.covariance(0.0) @ space.h(jnp.asarray(0.0))
    np.testing.assert_allclose(found, expected, rtol=1e-13)


@pytest.mark.parametrize("lengthscale", few([0.05, 1.0, 1.001, 1e6], 1.001))
def test_seasonal_error_is_relative_to_its_variance(lengthscale):
    # For a large lengthscale nearly all of Periodic is its constant part.
    kernel = Seasonal(0.7, lengthscale, 1.5)
    space, start = kernel.state_space(), jnp.asarray(0.0)
    for d in np.linspace(0.0, 0.7, 6):
        found = space.h(jnp.asarray(d)) @ (space.covariance(0.0) @ space.h(start))
        np.testing.assert_allclose(
            found, kernel([d], [0.0])[0, 0], rtol=0.0, atol=1.5 * MAX_HARMONIC_ERROR
        )


def test_white_noise_is_not_part_of_the_state():
    space = (Matern32() + 2.0 * White(0.3)).state_space()
    assert space.size == 2
    assert [float(v) for v in space.white] == [0.6]


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [((2, 1),), ((1, 5), (3, 1)), ((2, 3), (1, 1), (2, 4))])
def test_block_matrix_products_against_numpy(sizes):
    rng = np.random.default_rng(0)
    blocks = tuple(jnp.asarray(rng.normal(size=(b, b))) for b, _ in sizes)
    copies = tuple(m for _, m in sizes)
    A = Repeated(blocks, copies)
    dense = block_diag(*(np.kron(B, np.eye(m)) for B, m in zip(blocks, copies, strict=True)))
    X = jnp.asarray(rng.normal(size=(len(dense), 4)))
    np.testing.assert_allclose(A @ X, dense @ X, rtol=1e-12)
    np.testing.assert_allclose(A @ X[:, 0], dense @ X[:, 0], rtol=1e-12)
    np.testing.assert_allclose(A.T @ X, dense.T @ X, rtol=1e-12)
    np.testing.assert_allclose(X.T @ A, X.T @ dense, rtol=1e-12)
    C = jnp.asarray(rng.normal(size=X.shape))
    expected = jax.grad(lambda A: jnp.sum(C * (A @ X)))(A)
    for found, slope in zip(A.slope(C, X).blocks, expected.blocks, strict=True):
        np.testing.assert_allclose(found, slope, rtol=1e-10)
    weights = tuple(jnp.asarray(rng.random(m)) for m in copies)
    weighted = block_diag(*(np.kron(B, np.diag(w)) for B, w in zip(blocks, weights, strict=True)))
    np.testing.assert_allclose(Weighted(blocks, weights).dense(), weighted)
