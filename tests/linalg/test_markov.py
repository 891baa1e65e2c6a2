"""The Kalman filter as a factor: against dense matrices, closed forms and exact arithmetic."""

from decimal import Decimal, localcontext

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import multivariate_normal, norm

import bayeskern as bk
from bayeskern import NotPositiveDefiniteError
from bayeskern.kernels import (
    Brownian,
    ChangePoint,
    Constant,
    Cosine,
    IntegratedBrownian,
    IntegratedOrnsteinUhlenbeck,
    Linear,
    MarkovRBF,
    Matern12,
    Matern32,
    Matern52,
    Periodic,
    White,
)
from bayeskern.kernels.families.harmonics import MAX_HARMONIC_ERROR
from bayeskern.linalg import Fits, NoisyGram
from bayeskern.linalg import log_density as dense_log_density
from bayeskern.linalg.dense import DenseSolver
from bayeskern.linalg.markov.factor import BLOCK_STEPS
from bayeskern.linalg.markov.solver import MarkovSolver
from tests.linalg.by_hand import check_derivatives, check_factor, masked
from tests.marks import few

KERNELS = {
    "matern12": Matern12(0.7, 1.3),
    "matern32": Matern32(0.7, 1.3),
    "matern52": Matern52(0.7, 1.3),
    "markov rbf": MarkovRBF(0.7, 1.3, order=6),
    "line": Linear(0.5, 0.4) + Constant(2.0),
    "local level": Brownian(0.3) + Constant(1.0),
    "damped slope": IntegratedOrnsteinUhlenbeck(3.0, 0.1) + Matern12(0.4),
    "season": Matern32(2.0, 1.3) * Cosine(1.5) + IntegratedBrownian(0.01),
    "white": Matern32(0.7, 1.3) + 0.5 * White(0.3),
    "growing season": (Matern32(2.0) * Cosine(1.5)).modulate(lambda t: 0.3 + 0.1 * t[0]) + 0.4,
    "change": ChangePoint(Matern12(0.7, 1.3), Linear(0.5, 4.0) + 1.0, location=6.0, width=0.5),
    "quasi-periodic": Periodic(1.5, 1.25, harmonics=9) * Matern32(2.0, 1.3) + Matern12(5.0),
}
every = pytest.mark.parametrize("name", few(KERNELS, "matern32", "damped slope"))
some = pytest.mark.parametrize("name", few(KERNELS, "damped slope"))
SOLVER, DENSE = MarkovSolver(), DenseSolver()


def case(n=BLOCK_STEPS + 60, seed=0):
    """Unsorted times with repeats; noise; mask of the observed values."""
    rng = np.random.default_rng(seed)
    t = rng.uniform(0.0, 12.0, n)
    t[:3] = t[5]
    return t[:, None], rng.uniform(0.05, 0.3, n), rng.random(n) < 0.9


@pytest.mark.slow
@some
@pytest.mark.parametrize("all_count", few([True, False], False))
def test_factor_against_numpy(name, all_count):
    X, noise, observed = case()
    observed = np.ones_like(observed) if all_count else observed
    K = masked(noise, observed, KERNELS[name], X)
    factor = SOLVER.factor(NoisyGram(KERNELS[name], X, noise, None if all_count else observed))
    # A few harmonics are not quite the kernel, of variance 1.3, and the sums of damped waves in the
    # Gram matrix of the Markov RBF are not exact to all digits.
    root_atol = 1.3 * MAX_HARMONIC_ERROR if name == "quasi-periodic" else 1e-12
    logdet_rtol = 1e-11 if name == "markov rbf" else 1e-12
    check_factor(factor, K, 1e-9, 1e-12, root_atol, logdet_rtol)


@some
def test_product_against_numpy(name):
    X, noise, observed = case()
    b = np.random.default_rng(1).normal(size=len(X))
    product = SOLVER.multiply(NoisyGram(KERNELS[name], jnp.asarray(X), noise, observed), b)
    expected = masked(noise, observed, KERNELS[name], X) @ b
    np.testing.assert_allclose(product, expected, rtol=1e-10, atol=1e-10)


@every
def test_log_density_against_scipy(name):
    X, noise, observed = case()
    R = np.random.default_rng(1).normal(size=(2, len(X))) * observed
    K = masked(noise, np.ones_like(observed), KERNELS[name], X)[np.ix_(observed, observed)]
    expected = multivariate_normal(cov=K).logpdf(R[:, observed])
    found = SOLVER.log_density(NoisyGram(KERNELS[name], jnp.asarray(X), noise, observed), R)
    np.testing.assert_allclose(found, expected, rtol=1e-10)


@pytest.mark.parametrize("name", few(KERNELS, "matern32"))
def test_log_density_derivatives_match_the_dense_solver(name):
    X, noise, observed = case(90)
    X, r = jnp.asarray(X), np.random.default_rng(1).normal(size=len(X)) * observed

    def dense(kernel):
        return dense_log_density(NoisyGram(kernel, X, noise, observed).dense(), r)

    def markov(kernel):
        return SOLVER.log_density(NoisyGram(kernel, X, noise, observed), r)

    check_derivatives(markov, dense, KERNELS[name], atol=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize("name", KERNELS)
def test_data_derivatives_match_the_dense_solver(name):
    X, noise, observed = case(60)
    r = np.random.default_rng(1).normal(size=len(X)) * observed
    data = jnp.asarray(X + 0.01 * np.arange(len(X))[:, None]), jnp.asarray(noise), jnp.asarray(r)

    def slopes(solver):
        def density(data):
            X, noise, r = data
            return solver.log_density(NoisyGram(KERNELS[name], X, noise, observed), r)

        forward = jax.jvp(density, (data,), (data,))[1]
        return forward, jax.jit(jax.grad(density))(data)

    for found, expected in zip(
        *(jax.tree.leaves(slopes(solver)) for solver in (SOLVER, DENSE)), strict=True
    ):
        error = np.abs(found - expected).max()
        assert error < 1e-8 * np.abs(expected).max()


def test_noise_free_ornstein_uhlenbeck_is_a_markov_chain():
    # Steps from 1e-9 to 1e4, of a process that a dense matrix could not be factored for.
    rng = np.random.default_rng(0)
    t = np.concatenate([[0.0], np.cumsum(10.0 ** rng.uniform(-9.0, 4.0, 999))])
    d, y = np.diff(t), rng.normal(size=1000)
    A, sd = np.exp(-d / 2.0), np.sqrt(-1.3 * np.expm1(-d))
    for i in range(999):
        y[i + 1] = A[i] * y[i] + sd[i] * y[i + 1]
    steps = norm(A * y[:-1], sd).logpdf(y[1:])
    expected = norm(0.0, np.sqrt(1.3)).logpdf(y[0]) + steps.sum()
    found = SOLVER.log_density(NoisyGram(Matern12(2.0, 1.3), jnp.asarray(t[:, None]), 0.0), y)
    np.testing.assert_allclose(found, expected, rtol=1e-10)


def test_noise_free_random_walk_has_independent_steps():
    rng = np.random.default_rng(0)
    t = np.cumsum(rng.uniform(0.1, 2.0, 300))
    y = np.cumsum(rng.normal(size=300))
    expected = norm(0.0, np.sqrt(0.7 * np.diff(t, prepend=0.0))).logpdf(np.diff(y, prepend=0.0))
    found = SOLVER.log_density(NoisyGram(Brownian(0.7), jnp.asarray(t[:, None]), 0.0), y)
    np.testing.assert_allclose(found, expected.sum(), rtol=1e-12)


def log_density_to_fifty_digits(t, y, noise):
    """Of a Matern32 with lengthscale and variance 1, by Cholesky's method in decimals."""
    with localcontext(prec=50):
        t, y = ([Decimal(float(x)) for x in values] for values in (t, y))
        L, total = [], Decimal(0)
        for i in range(len(t)):
            row, w = [], y[i]
            for j in range(i + 1):
                s = Decimal(3).sqrt() * abs(t[i] - t[j])
                k = (1 + s) * (-s).exp() + (Decimal(noise) if i == j else 0)
                k -= sum(a * b for a, b in zip(row, L[j] if j < i else row, strict=False))
                row.append(k.sqrt() if i == j else k / L[j][j])
            L.append(row)
            # The innovations, by forward substitution, take the place of the values.
            y[i] = (w - sum(a * b for a, b in zip(row, y[:i], strict=False))) / row[i]
            total += y[i] ** 2 + 2 * row[i].ln()
        return float(-total / 2) - 0.5 * len(t) * np.log(2.0 * np.pi)


@pytest.mark.slow
@pytest.mark.parametrize("noise", [1e-2, 1e-12])
def test_little_noise_against_decimals(noise):
    rng = np.random.default_rng(0)
    t = np.sort(rng.uniform(0.0, 1.0, 60))
    K = np.asarray(Matern32()(t)) + noise * np.eye(60)
    y = np.linalg.cholesky(K + 1e-14 * np.eye(60)) @ rng.normal(size=60)
    exact = log_density_to_fifty_digits(t, y, noise)
    found = SOLVER.log_density(NoisyGram(Matern32(), jnp.asarray(t[:, None]), noise), y)
    np.testing.assert_allclose(found, exact, rtol=1e-11)
    # A dense matrix of condition 1e13 keeps fewer.
    assert abs(found - exact) < abs(dense_log_density(K, y) - exact)


def test_one_time_and_repeated_times():
    kernel = Matern32(2.0, 1.5)
    one = SOLVER.log_density(NoisyGram(kernel, jnp.zeros((1, 1)), 0.5), np.array([0.8]))
    np.testing.assert_allclose(one, norm(0.0, np.sqrt(2.0)).logpdf(0.8), rtol=1e-14)
    y = np.array([1.0, 2.0, 4.0])
    again = SOLVER.log_density(NoisyGram(kernel, jnp.zeros((3, 1)), 0.5), y)
    expected = multivariate_normal(cov=1.5 + 0.5 * np.eye(3)).logpdf(y)
    np.testing.assert_allclose(again, expected, rtol=1e-13)


def test_repeated_times_without_noise_are_refused():
    X = jnp.array([[0.0], [1.0], [1.0]])
    with pytest.raises(NotPositiveDefiniteError, match=r"time 1\.0 is .* solver='dense'"):
        SOLVER.factor(NoisyGram(Matern32(), X, 0.0))

    def density(kernel):
        return SOLVER.log_density(NoisyGram(kernel, X, 0.0), np.arange(3.0))

    value, slope = jax.jit(jax.value_and_grad(density))(Matern32())
    assert value == -np.inf
    assert all(np.all(x == 0.0) for x in jax.tree.leaves(slope))


def test_times_before_the_start_are_refused():
    X, kernel = jnp.array([[-1.0], [1.0]]), Brownian(start=0.0)
    assert "starts at 0" in SOLVER.applicability(kernel, X).reason
    assert SOLVER.log_density(NoisyGram(kernel, X, 0.1), np.ones(2)) == -np.inf
    slope = jax.grad(lambda v: SOLVER.log_density(NoisyGram(Brownian(v), X, 0.1), np.ones(2)))(0.5)
    assert slope == 0.0


@pytest.mark.slow
def test_integer_inputs_can_be_differentiated():
    X, y = jnp.arange(5)[:, None], jnp.arange(5)

    def density(lengthscale, one):
        kernel = Matern32(lengthscale, one) * Cosine(3 * one)
        return SOLVER.log_density(NoisyGram(kernel, X * one, one), y * one)

    found, expected = (jax.grad(density)(2.0, jnp.asarray(one)) for one in (1, 1.0))
    np.testing.assert_allclose(found, expected, rtol=1e-14)


@pytest.mark.slow
def test_lengthscales_that_need_more_harmonics_are_refused():
    X, y = jnp.linspace(0.0, 5.0, 40)[:, None], np.ones(40)

    def density(lengthscale):
        kernel = Matern32(2.0) * Periodic(1.0, lengthscale, harmonics=11)
        return SOLVER.log_density(NoisyGram(kernel, X, 0.1), y)

    compiled = jax.jit(jax.value_and_grad(density))
    for small in (0.87, 1e-3, 1e-200, 0.0):
        value, slope = compiled(small)
        assert value == -np.inf and slope == 0.0
    value, slope = compiled(0.89)
    expected = DENSE.log_density(NoisyGram(Matern32(2.0) * Periodic(1.0, 0.89), X, 0.1), y)
    np.testing.assert_allclose(value, expected, rtol=1e-9)
    assert np.isfinite(slope)
    with pytest.raises(ValueError, match=r"more harmonics.*11 harmonics.*at least 0\.884"):
        SOLVER.factor(NoisyGram(Periodic(1.0, 0.87, harmonics=11), X, 0.1))
    prepared = SOLVER.prepare(Periodic(1.0, 1.0), X)
    with pytest.raises(ValueError, match="more harmonics"):
        prepared.factor(NoisyGram(Periodic(1.0, 0.2), X, 0.1))


@pytest.mark.slow
def test_periodic_prediction_long_after_the_data():
    # A season that changes slowly, seen for 40 periods, and 10,000 periods later.
    kernel = Periodic(1.0, 1.0) + Periodic(7.3, 1.2) * Matern32(30.0)
    X = np.sort(np.random.default_rng(0).uniform(0.0, 40.0, 300))[:, None]
    new = np.concatenate([np.linspace(-50.0, 90.0, 8), [1e4 + 0.3]])[:, None]
    y = np.sin(2.0 * np.pi * X[:, 0]) ** 3
    K, cross = np.asarray(kernel(X)) + 0.1 * np.eye(300), np.asarray(kernel(X, new))
    factor = SOLVER.factor(NoisyGram(kernel, jnp.asarray(X), 0.1))
    mean = SOLVER.mean(NoisyGram(kernel, jnp.asarray(X), 0.1), None, None, y, factor.solve(y), new)
    np.testing.assert_allclose(mean, cross.T @ np.linalg.solve(K, y), rtol=0.0, atol=1e-8)
    left = 2.0 - np.sum(cross * np.linalg.solve(K, cross), axis=0)
    found = SOLVER.variance(NoisyGram(kernel, jnp.asarray(X), 0.1), None, factor, new)
    np.testing.assert_allclose(found, left, rtol=0.0, atol=1e-8)


@pytest.mark.slow
@some
@pytest.mark.parametrize("all_count", few([True, False], False))
def test_moments_at_other_times_against_numpy(name, all_count):
    # Before the first time and before the start of trends, between the others, at one of them, and
    # after the last.
    X, noise, observed = case()
    observed = np.ones_like(observed) if all_count else observed
    new = np.concatenate([[[-1.5], [0.0]], X[5:6], np.linspace(0.02, 14.0, 40)[:, None]])
    kernel = KERNELS[name]
    parts = {None: kernel}
    if name in ("season", "quasi-periodic"):
        first, last = kernel.terms
        kernel = first.named("season") + 2.0 * (last + White(0.1)).named("trend") + White(0.2)
        parts = {None: kernel, "season": kernel.terms[0], "trend": kernel.terms[1]}
        parts["rest"] = kernel.terms[2]
    K = masked(noise, observed, kernel, X)
    a = np.linalg.solve(K, np.random.default_rng(1).normal(size=len(X)) * observed)
    given = SOLVER.factor(NoisyGram(kernel, X, noise, None if all_count else observed))
    for part, of_part in parts.items():
        cross = np.asarray(of_part(X, new)) * observed[:, None]
        left = np.asarray(of_part.diag(new)) - np.sum(cross * np.linalg.solve(K, cross), axis=0)
        mean = SOLVER.mean(NoisyGram(kernel, jnp.asarray(X), noise), part, None, None, a, new)
        np.testing.assert_allclose(mean, a @ cross, rtol=1e-9, atol=1e-10)
        mask = None if all_count else observed
        variance = SOLVER.variance(NoisyGram(kernel, jnp.asarray(X), noise, mask), part, given, new)
        np.testing.assert_allclose(variance, left, rtol=1e-8, atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize(
    "part", [None, "white", *(pytest.param(p, marks=pytest.mark.long) for p in ("slow", "rest"))]
)
def test_joint_draws_have_the_posterior_covariance(part):
    kernel = (
        Matern32(2.0).named("slow") + White(0.3).named("white") + Cosine(3.0, 0.5) + Linear(0.1)
    )
    rng = np.random.default_rng(0)
    X, new = rng.uniform(0.0, 10.0, (40, 1)), jnp.array([[-1.0], [0.3], [5.0], [5.01], [12.0]])
    observed = jnp.asarray(rng.uniform(size=40) < 0.6)
    C = NoisyGram(kernel, jnp.asarray(X), 0.09, observed)
    factor = SOLVER.factor(C)
    dense = DENSE.factor(C)
    draws = SOLVER.deviations(C, part, factor, new, jax.random.key(0), 40_000)
    expected = DENSE.covariance(C, part, dense, new)
    # Five standard errors of a covariance: sqrt(2 / S) times its size.
    atol = 5.0 * np.sqrt(2.0 / 40_000) * np.max(expected)
    np.testing.assert_allclose(np.cov(draws.T), expected, atol=atol)
    np.testing.assert_allclose(
        draws.mean(axis=0), 0.0, atol=5.0 * np.sqrt(np.max(expected) / 40_000)
    )


def test_known_times_are_sorted_once():
    X = jnp.array([[2.0], [0.0], [1.0]])
    prepared = SOLVER.prepare(Matern32(), X)
    np.testing.assert_array_equal(prepared.order, [1, 2, 0])
    assert isinstance(prepared.applicability(Matern32(), X), Fits)
    for other in (X[::-1], X[:2]):
        refused = prepared.applicability(Matern32(), other)
        assert refused.reason == "the solver is prepared for other times"

    @jax.jit
    def of_known_times(lengthscale):
        # Closed over, the times are known though JAX traces the program.
        process = bk.GaussianProcess(Matern32(lengthscale), X, 0.1, solver="markov")
        assert process.solver.order is not None
        return process.log_prob(jnp.ones(3))

    expected = bk.GaussianProcess(Matern32(0.7), X, 0.1, solver="dense").log_prob(jnp.ones(3))
    np.testing.assert_allclose(of_known_times(0.7), expected, rtol=1e-12)


def test_draws_keep_the_scale_of_each_time():
    # Brownian motion has the variance t, and noise of 1e40 leaves the prior as it is.
    t, at = np.array([[1e-10]]), np.array([[1e-10], [1.0], [1e12]])
    C = NoisyGram(Brownian(), jnp.asarray(t), 1e40)
    factor = SOLVER.factor(C)
    draws = SOLVER.deviations(C, None, factor, jnp.asarray(at), jax.random.key(0), 4000)
    # The relative error of an sd from 4,000 draws is 1 / sqrt(8000).
    np.testing.assert_allclose(np.std(draws, axis=0), np.sqrt(at[:, 0]), rtol=0.05)
