"""The Kalman filter for means, integrals and derivatives: against the dense solver."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import multivariate_normal, norm

from bayeskern.gp import GaussianProcess
from bayeskern.kernels import (
    Brownian,
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
    Polynomial,
    Seasonal,
    White,
)
from bayeskern.kernels.measured.kernel import RowKinds, measured
from bayeskern.kernels.measured.rows import Derivative, Interval, Rows
from bayeskern.linalg import Fits, NoisyGram, Refused
from bayeskern.linalg.dense import DenseSolver
from bayeskern.linalg.markov.schedule import Schedule
from bayeskern.linalg.markov.solver import MarkovSolver
from bayeskern.linalg.select import choose
from tests.linalg.by_hand import check_factor, flat

SOLVER, DENSE = MarkovSolver(), DenseSolver()
KERNELS = {
    "matern12": Matern12(0.7, 1.3),
    "matern32": Matern32(0.7, 1.3),
    "matern52": Matern52(0.7, 1.3),
    "markov rbf": MarkovRBF(0.7, 1.3, order=6),
    "local level": Brownian(0.3) + 1.0,
    "local slope": IntegratedBrownian(0.1) + Linear(0.5, 0.4) + 2.0,
    "damped slope": IntegratedOrnsteinUhlenbeck(3.0, 0.1) + Matern32(0.4),
    "parabola": Polynomial(degree=2, variance=0.1, offset=0.4) + Matern32(0.4),
    "season": Seasonal(3.0, 1.0, harmonics=12) + 0.5 * Cosine(2.0) + Matern32(9.0),
    "times a constant": (0.5 * Constant(2.0)) * Constant(1.5) * Matern32(0.1),
    "sum": 2.0 * Matern32(2.0) + Matern52(0.3, 0.5).named("fast"),
}
PRODUCTS = {
    "damped wave": Matern52(2.0, 1.3) * Cosine(1.5) + 0.1,
    "growing wave": Matern32(3.0).modulate(lambda t: 0.3 + 0.1 * t[0]) + 0.1,
    "quasi-periodic": Periodic(1.5, 1.25, harmonics=14) * Matern52(4.0, 1.3),
}
ROUGH = ("matern12", "local level")


def rows(n, has_derivatives=True, seed=0):
    """Values, derivatives, and means and integrals over intervals, about n / 4 of each.

    Intervals overlap, lie inside others, are repeated, follow each other, and are of length 0.
    """
    rng, m = np.random.default_rng(seed), n // 4
    start, length = rng.uniform(0.0, 12.0, m), 10.0 ** rng.uniform(-3.0, 0.3, m)
    start[:3], length[:2] = start[4], length[4]
    edges = np.sort(rng.uniform(0.0, 12.0, m + 1))
    values = np.append(rng.uniform(0.0, 14.0, m - 3), [start[0], edges[3], start[0] + length[0]])
    parts = [
        values,
        Interval(start, start + length),
        Interval(edges[:-1], edges[1:], kind="sum"),
        Interval([1.0, 2.0], [1.0, 8.0]),
    ]
    if has_derivatives:
        parts.append(Derivative(rng.uniform(0.0, 14.0, m)))
    return Rows.read(parts).X


def case(name, n=60):
    """Covariance matrix of noisy rows, some of them unobserved, and residuals."""
    X, rng = rows(n, name not in ROUGH), np.random.default_rng(1)
    kernel = measured((KERNELS | PRODUCTS)[name], RowKinds.of(X) | RowKinds((), False, 64))
    noise, observed = rng.uniform(0.05, 0.3, len(X)), rng.random(len(X)) < 0.9
    C = NoisyGram(kernel, X, jnp.asarray(noise), jnp.asarray(observed))
    return C, jnp.asarray(rng.normal(size=len(X)) * observed)


def check_density(C, r, rtol=1e-10):
    """Log density of the observed rows, and its gradient in the kernel, the noise and r."""
    observed = np.asarray(C.observed)
    K = np.asarray(C.dense())[np.ix_(observed, observed)]
    found = SOLVER.log_density(C, r)
    expected = multivariate_normal(cov=K).logpdf(np.asarray(r)[observed])
    np.testing.assert_allclose(found, expected, rtol=rtol)

    def gradient(solver):
        def density(arguments):
            kernel, noise, r = arguments
            return solver.log_density(C._replace(kernel=kernel, noise=noise), r)

        return flat(jax.jit(jax.grad(density))((C.kernel, C.noise, r)))

    found, expected = gradient(SOLVER), gradient(DENSE)
    np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-9 * np.abs(expected).max())


@pytest.mark.slow
@pytest.mark.parametrize("name", KERNELS)
def test_density_and_gradient_against_the_dense_solver(name):
    check_density(*case(name))


@pytest.mark.slow
@pytest.mark.parametrize("name", PRODUCTS)
def test_products_by_quadrature_against_the_dense_solver(name):
    C, r = case(name, 40)
    check_density(C, r)
    check_factor(SOLVER.factor(C), np.asarray(C.dense()), 1e-8, 1e-8, 1e-8, 1e-8)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["damped wave", "quasi-periodic"])
def test_stated_quadrature_error(name):
    C, _ = case(name, 40)
    n = len(C.X)
    expected = np.asarray(C.kernel.evaluate(C.X))
    kernel = measured(PRODUCTS[name], RowKinds(C.kernel.kinds.columns, True, 8))
    coarse = C._replace(kernel=kernel, noise=jnp.zeros(n), observed=None)
    K = np.asarray(jax.vmap(lambda b: SOLVER.multiply(coarse, b))(jnp.eye(n)))
    error = np.max(np.abs(K - expected)) / np.max(np.diagonal(expected))
    assert 1e-12 < error <= kernel.quadrature_error(C.X)


@pytest.mark.slow
def test_errors_of_harmonics_and_quadrature_are_both_stated():
    rows = Interval([0.0, 1.0, 2.0], [1.0, 2.0, 3.0])
    process = GaussianProcess(PRODUCTS["quasi-periodic"], rows, 0.1, solver="markov")
    error = str(process.explain().error)
    assert "harmonics" in error and "by quadrature" in error


def test_long_series_of_products_take_the_filter():
    edges = np.arange(30_001.0)
    X = Rows.read(Interval(edges[:-1], edges[1:])).X
    choice = choose(measured(PRODUCTS["damped wave"], RowKinds.of(X)), X, noise=0.1)
    assert choice.solver == "markov"


@pytest.mark.slow
@pytest.mark.parametrize("name", KERNELS)
def test_factor_against_numpy(name):
    C, r = case(name)
    K = np.asarray(C.dense())
    check_factor(SOLVER.factor(C), K, 1e-9, 1e-10, 1e-11, 1e-10)
    np.testing.assert_allclose(SOLVER.multiply(C, r), K @ r, rtol=1e-9, atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("name", KERNELS)
def test_two_thousand_rows_against_the_dense_solver(name):
    C, r = case(name, 2_000)
    K = np.asarray(C.dense())
    observed = np.asarray(C.observed)
    expected = multivariate_normal(cov=K[np.ix_(observed, observed)]).logpdf(r[observed])
    np.testing.assert_allclose(SOLVER.log_density(C, r), expected, rtol=1e-8)
    factor = SOLVER.factor(C)
    np.testing.assert_allclose(factor.solve(r), np.linalg.solve(K, r), rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(SOLVER.multiply(C, r), K @ r, rtol=1e-8, atol=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["matern12", "matern52", "damped slope"])
def test_steps_of_all_lengths(name):
    """Intervals and gaps from 1e-6 to 100 lengthscales."""
    rng = np.random.default_rng(0)
    edges = np.cumsum(10.0 ** rng.uniform(-6.0, 2.0, 60))
    X = Rows.read([Interval(edges[:-1:2], edges[1::2]), Interval(edges[1:31], edges[5:35])]).X
    r = rng.normal(size=len(X))

    def density(step, solver):
        kernel = jax.tree.map(lambda x: x * (1.0 + step), KERNELS[name])
        return solver.log_density(NoisyGram(measured(kernel, RowKinds.of(X)), X, 0.01), r)

    np.testing.assert_allclose(density(0.0, SOLVER), density(0.0, DENSE), rtol=1e-8)
    prepared = SOLVER.prepare(measured(KERNELS[name], RowKinds.of(X)), X)
    at = jax.jit(lambda step: density(step, prepared))
    d = 1e-3
    values = [at(k * d) for k in (-3, -2, -1, 1, 2, 3)]
    slope = np.array([-1.0, 9.0, -45.0, 45.0, -9.0, 1.0]) @ values / (60.0 * d)
    np.testing.assert_allclose(jax.jit(jax.grad(at))(0.0), slope, rtol=1e-7)
    if name != "damped slope":
        # Its covariances grow with time, and the dense solver rounds their small differences.
        dense = jax.jit(jax.grad(lambda step: density(step, DENSE)))(0.0)
        np.testing.assert_allclose(dense, slope, rtol=1e-7)


@pytest.mark.slow
def test_hessian_and_slope_in_the_times():
    C, r = case("matern32", 24)

    def density(solver):
        def f(kernel):
            return solver.log_density(C._replace(kernel=kernel), r)

        return flat(jax.jit(jax.hessian(f))(C.kernel))

    found, expected = density(SOLVER), density(DENSE)
    np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-8 * np.abs(expected).max())
    prepared = SOLVER.prepare(C.kernel, C.X)
    # Along a change of all times, in which equal times remain equal.
    start, side = np.asarray(C.X)[:, :, 0].T
    direction = np.zeros(C.X.shape)
    direction[:, 0, 0] = np.sin(start)
    direction[:, 1, 0] = np.sin(start + side) - np.sin(start)

    def along(solver):
        return jax.jvp(
            lambda X: solver.log_density(C._replace(X=X), r), (C.X,), (jnp.asarray(direction),)
        )[1]

    np.testing.assert_allclose(along(prepared), along(DENSE), rtol=1e-8)


def test_contiguous_sums_of_brownian_motion():
    # The covariance of two integrals is the integral of 0.7 min(s, t) over both.
    edges = np.array([0.0, 1.0, 3.0, 3.5, 6.0])
    a, h = edges[:-1], np.diff(edges)
    K = np.tril(np.outer(h, a * h + 0.5 * h**2), -1)
    K = 0.7 * (K.T + K + np.diag(a * h**2 + h**3 / 3.0))
    X = Rows.read(Interval(edges[:-1], edges[1:], kind="sum")).X
    y = np.array([1.0, -2.0, 0.5, 3.0])
    found = SOLVER.log_density(NoisyGram(measured(Brownian(0.7), RowKinds.of(X)), X, 0.2), y)
    expected = multivariate_normal(cov=K + 0.2 * np.eye(4)).logpdf(y)
    np.testing.assert_allclose(found, expected, rtol=1e-13)


@pytest.mark.slow
def test_one_interval_and_repeated_intervals():
    X = Rows.read(Interval([1.0, 1.0, 1.0], [3.0, 3.0, 3.0])).X
    kernel = measured(Matern12(2.0, 1.5), RowKinds.of(X))
    # Mean of an Ornstein-Uhlenbeck process over one lengthscale.
    variance = 1.5 * 2.0 * np.exp(-1.0)
    one = SOLVER.log_density(NoisyGram(kernel, X[:1], 0.5), np.array([0.8]))
    np.testing.assert_allclose(one, norm(0.0, np.sqrt(variance + 0.5)).logpdf(0.8), rtol=1e-13)
    y = np.array([1.0, 2.0, 4.0])
    again = SOLVER.log_density(NoisyGram(kernel, X, 0.5), y)
    expected = multivariate_normal(cov=variance + 0.5 * np.eye(3)).logpdf(y)
    np.testing.assert_allclose(again, expected, rtol=1e-13)


@pytest.mark.parametrize(
    ("parts", "n_steps", "n_slots"),
    [
        ([Interval([0.0, 1.0, 2.5], [1.0, 2.0, 3.0])], 4, 1),
        ([Interval(np.arange(10) * 0.1, np.arange(1, 11) * 0.1)], 11, 1),
        ([Interval([0.0, 0.0, 0.0], [3.0, 2.0, 2.0])], 4, 3),
        ([Interval([0.0, 1.0], [4.0, 3.0])], 4, 2),
        ([Interval([0.0, 1.0], [4.0, 3.0]), [0.5]], 4, 2),
        ([Interval([1.0], [1.0]), [0.5]], 2, 0),
        ([Interval([1e6], [1e6 + 1e-10]), [0.5]], 2, 0),
    ],
)
def test_schedule(parts, n_steps, n_slots):
    X = Rows.read(parts).X
    schedule = Schedule.of(X)
    assert schedule.slots.shape == (n_steps, n_slots)
    observed = np.asarray(schedule.order)[np.asarray(schedule.observing)]
    np.testing.assert_array_equal(np.sort(observed), np.arange(len(X)))
    ends = np.asarray(X[:, 0, 0] + X[:, 1, 0])[observed]
    assert np.all(np.diff(ends) >= 0.0)


@pytest.mark.slow
def test_short_intervals_at_late_times():
    # Exposures of a minute, in Julian dates, keep the digits of their lengths: the log density is
    # that of times from 0, of which the subtraction is exact.
    edges = 2_450_000.0 + np.arange(9) / 1440.0
    late = Rows.read(Interval(edges[:-1], edges[1:])).X
    early = late.at[:, 0, 0].add(-edges[0])
    kernel = measured(Matern32(1e-3, 1.0), RowKinds.of(late))
    assert Schedule.of(late).n_slots == 1
    found = SOLVER.log_density(NoisyGram(kernel, late, 1e-4), jnp.ones(8))
    expected = DENSE.log_density(NoisyGram(kernel, early, 1e-4), jnp.ones(8))
    np.testing.assert_allclose(found, expected, rtol=1e-11)


def test_applicability():
    X = Rows.read([Interval([0.0, 1.0], [2.0, 3.0]), [1.5]]).X
    kernel = measured(Matern32(0.7), RowKinds.of(X))
    assert isinstance(SOLVER.applicability(kernel, X), Fits)
    prepared = SOLVER.prepare(kernel, X)
    assert isinstance(prepared.applicability(kernel, X.at[:, 0, 0].add(1.0)), Fits)
    for other in (X[:2], X[::-1]):
        assert prepared.applicability(kernel, other).reason == (
            "the solver is prepared for other times"
        )
    many = Rows.read(Interval(np.zeros(300), np.arange(1.0, 301.0))).X
    refused = SOLVER.applicability(kernel, many)
    assert refused == Refused(
        "its state has 302 numbers, for 300 intervals that overlap, and the maximum is 200"
    )
    noisy = measured(Matern32(0.7) + White(0.1), RowKinds.of(X))
    assert "White has no means" in SOLVER.applicability(noisy, X).reason
    late = measured(Brownian(start=0.5), RowKinds.of(X))
    assert "starts at 0.5, after the first time" in SOLVER.applicability(late, X).reason
    slopes = Rows.read(Derivative([0.0, 1.0])).X
    rough = measured(Matern12(0.7), RowKinds.of(slopes))
    assert "derivative" in SOLVER.applicability(rough, slopes).reason
    boxes = Rows.read(Interval([[0.0, 1.0]], [[1.0, 1.0]])).X
    assert (
        "2 inputs" in SOLVER.applicability(measured(Matern32(), RowKinds.of(boxes)), boxes).reason
    )

    @jax.jit
    def traced(X):
        assert "while JAX traces" in SOLVER.applicability(kernel, X).reason
        assert isinstance(prepared.applicability(kernel, X), Fits)
        return prepared.log_density(NoisyGram(kernel, X, 0.1), jnp.ones(3))

    expected = DENSE.log_density(NoisyGram(kernel, X, 0.1), jnp.ones(3))
    np.testing.assert_allclose(traced(X), expected, rtol=1e-12)


def test_white_noise_of_values():
    X = Rows.read([[0.0, 1.0], Interval([2.0], [2.0])]).X
    kernel = measured(Matern32(0.7) + White(0.1), RowKinds.of(X))
    found = SOLVER.log_density(NoisyGram(kernel, X, 0.2), np.arange(3.0))
    K = np.asarray(Matern32(0.7)(np.arange(3.0))) + 0.3 * np.eye(3)
    np.testing.assert_allclose(found, multivariate_normal(cov=K).logpdf(np.arange(3.0)), rtol=1e-12)


@pytest.mark.slow
def test_predictions_against_the_dense_solver():
    C, r = case("sum", 24)
    new = Rows.read([[0.5, 3.0, 20.0], Interval([2.0], [4.0]), Derivative([5.0])]).X
    ours, theirs = (solver.factor(C) for solver in (SOLVER, DENSE))
    weights = ours.solve(r)
    for part in (None, "fast"):
        expected = DENSE.mean(C, part, theirs, r, theirs.solve(r), new)
        np.testing.assert_allclose(SOLVER.mean(C, part, None, r, weights, new), expected, atol=1e-9)
        expected = DENSE.variance(C, part, theirs, new)
        np.testing.assert_allclose(SOLVER.variance(C, part, ours, new), expected, atol=1e-9)
