"""The dense factor and the log density, against NumPy, SciPy and plain autodiff."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy.linalg import solve_triangular
from scipy.stats import multivariate_normal

from bayeskern import NotPositiveDefiniteError
from bayeskern.linalg import DenseFactor, dense, lapack, log_density
from tests.marks import few, slow

BELOW, ABOVE = 12, lapack.MIN_CALLBACK_SIZE + 5
both_paths = pytest.mark.parametrize("n", [BELOW, ABOVE])
most_slow = pytest.mark.parametrize("n", few([BELOW, ABOVE], ABOVE))


def spd(n, seed=0):
    """A well conditioned covariance (eigenvalues in about [1, 5]) and a vector."""
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(n, n))
    return A @ A.T / n + np.eye(n), rng.normal(size=n)


def indefinite(n):
    K, r = spd(n)
    K[n // 2, n // 2] = -3.0
    return K, r


def gaussian_gram(theta, X, xp=jnp):
    """exp(theta) = (variance, lengthscale, noise): the covariance of an RBF process, by hand."""
    v, ell, s = xp.exp(theta)
    return v * xp.exp(-0.5 * (X[:, None] - X[None, :]) ** 2 / ell**2) + s * xp.eye(len(X))


def plain(K, r):
    """The log density by differentiating through JAX's own Cholesky factorisation."""
    L = jnp.linalg.cholesky(K)
    z = solve_triangular(L, r, lower=True)
    logdet = 2.0 * jnp.sum(jnp.log(jnp.diag(L)))
    return -0.5 * (z @ z + logdet + len(r) * np.log(2.0 * np.pi))


# -- the factor --------------------------------------------------------------------------------


@pytest.mark.parametrize("n", few([1, 2, 30], 30))
def test_factor_against_numpy(n):
    K, r = spd(n)
    B = np.random.default_rng(1).normal(size=(n, 3))
    factor, L = DenseFactor.compute(K), np.linalg.cholesky(K)
    # The jitter, n eps, and a condition number of about 5 leave 1e-12.
    for right in (r, B):
        np.testing.assert_allclose(factor.solve(right), np.linalg.solve(K, right), atol=1e-12)
        np.testing.assert_allclose(factor.whiten(right), np.linalg.solve(L, right), atol=1e-12)
        np.testing.assert_allclose(factor.sqrt_mul(right), L @ right, atol=1e-12)
    np.testing.assert_allclose(factor.logdet(), np.linalg.slogdet(K)[1], atol=1e-11)
    np.testing.assert_allclose(factor.inv_diag(), np.diag(np.linalg.inv(K)), atol=1e-12)


def test_no_jitter_unless_it_is_needed():
    K, _ = spd(20)
    assert DenseFactor.compute(K).jitter == 0.0
    # A pivot of 1e-17 is a rounding error, although the factorization succeeds.
    singular = np.array([[1.0, 1.0], [1.0, np.nextafter(1.0, 2.0)]])
    assert DenseFactor.compute(singular).jitter == pytest.approx(2 * np.finfo(float).eps)


def test_jitter_is_relative_to_each_diagonal_entry():
    X = np.linspace(0.0, 1.0, 30)
    K = np.exp(-0.5 * (X[:, None] - X[None, :]) ** 2)
    scales = 10.0 ** np.linspace(-12.0, 12.0, 30)
    jitter = float(DenseFactor.compute(K).jitter)
    factor = DenseFactor.compute(K * np.outer(scales, scales))
    assert float(factor.jitter) == pytest.approx(jitter)
    assert jitter >= 30 * np.finfo(float).eps
    L = np.asarray(factor.L) / scales[:, None]
    np.testing.assert_allclose(L @ L.T, K + jitter * np.eye(30), atol=1e-14)


def test_a_row_without_variance_is_no_obstacle_to_the_others():
    K = np.diag([1e-8, 0.0, 1e8])
    factor = DenseFactor.compute(K)
    np.testing.assert_allclose(factor.solve(np.diag(K)), [1.0, 0.0, 1.0], rtol=1e-12)


@pytest.mark.parametrize("dtype", few([np.float32, np.float64], np.float64))
def test_near_singular_matrix_gets_a_larger_jitter(dtype):
    # The number that GPJax's absolute 1e-6 fails on: 500 points, lengthscale 0.3, float32.
    X = np.linspace(0.0, 1.0, 500)
    K = np.exp(-0.5 * ((X[:, None] - X[None, :]) / 0.3) ** 2).astype(dtype)
    factor = DenseFactor.compute(jnp.asarray(K))
    eps, jitter = np.finfo(dtype).eps, float(factor.jitter)
    assert factor.L.dtype == dtype
    # At least the size of rounding errors, and never so large as to be taken for noise.
    assert 500 * eps * 0.999 <= jitter <= 1e3 * 500 * eps
    L = np.asarray(factor.L, float)
    np.testing.assert_allclose(L @ L.T, K + jitter * np.eye(500), atol=500 * eps)


def test_error_reports_eigenvalues_and_jitter():
    with pytest.raises(NotPositiveDefiniteError, match=r"from -1 to 3.*jitter") as caught:
        DenseFactor.compute(np.array([[1.0, 2.0], [2.0, 1.0]]))
    assert isinstance(caught.value, np.linalg.LinAlgError)
    with pytest.raises(NotPositiveDefiniteError, match="NaN or infinite"):
        DenseFactor.compute(np.array([[1.0, np.nan], [np.nan, 1.0]]))


def test_factor_of_an_indefinite_matrix_is_nan_under_jit():
    factor = jax.jit(DenseFactor.compute)(np.array([[1.0, 2.0], [2.0, 1.0]]))
    assert np.isnan(factor.logdet())
    good = jax.jit(DenseFactor.compute)(np.eye(2))
    np.testing.assert_allclose(good.L, np.eye(2), atol=1e-15)


def test_factor_can_be_differentiated():
    # d/dt of the Cholesky factor of K + t V, by central differences of NumPy's factor.
    K, _ = spd(6)
    V = spd(6, seed=3)[0]
    _, dL = jax.jvp(lambda K: DenseFactor.compute(K).L, (jnp.asarray(K),), (jnp.asarray(V),))
    h = 1e-5
    numeric = (np.linalg.cholesky(K + h * V) - np.linalg.cholesky(K - h * V)) / (2 * h)
    np.testing.assert_allclose(dL, numeric, atol=1e-8)  # h^2 and eps / h


# -- the log density ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "n", [slow(1), slow(lapack.MIN_CALLBACK_SIZE - 1), lapack.MIN_CALLBACK_SIZE]
)
def test_log_density_against_scipy(n):
    K, r = spd(n)
    expected = multivariate_normal(np.zeros(n), K).logpdf(r)
    np.testing.assert_allclose(log_density(K, r), expected, rtol=1e-12)
    # The value that comes with a gradient takes another way, LAPACK's from a certain size on.
    value, (dK, dr) = jax.value_and_grad(log_density, argnums=(0, 1))(K, r)
    inverse = np.linalg.inv(K)
    a = inverse @ r
    np.testing.assert_allclose(value, expected, rtol=1e-12)
    np.testing.assert_allclose(dr, -a, atol=1e-11)
    np.testing.assert_allclose(dK, 0.5 * (np.outer(a, a) - inverse), atol=1e-11)


@pytest.mark.skipif(jax.default_backend() != "cpu", reason="the callback is for CPUs only")
def test_large_matrices_go_through_lapack(monkeypatch):
    calls, original = [], dense._by_lapack
    monkeypatch.setattr(dense, "_by_lapack", lambda K, r: calls.append(len(r)) or original(K, r))
    for n in (lapack.MIN_CALLBACK_SIZE - 1, lapack.MIN_CALLBACK_SIZE):
        jax.block_until_ready(jax.grad(log_density)(*spd(n)))
    assert calls == [lapack.MIN_CALLBACK_SIZE]


@most_slow
def test_gradient_and_hessian_in_hyperparameters(n):
    X = np.sort(np.random.default_rng(2).uniform(0, 5, n))
    r = np.sin(2 * X) + 0.1 * np.random.default_rng(3).normal(size=n)
    theta = jnp.log(jnp.array([1.3, 0.6, 0.05]))

    def through(density):
        return lambda theta: density(gaussian_gram(theta, X), r)

    # Condition number about n / 0.05 = 3e3: autodiff through the factor itself is good to 1e-10.
    for derivative in (jax.grad, jax.hessian):
        ours, theirs = (jax.jit(derivative(through(f)))(theta) for f in (log_density, plain))
        np.testing.assert_allclose(ours, theirs, rtol=1e-8, atol=1e-8)


@most_slow
def test_under_jit_vmap_and_scan(n):
    X, r = np.linspace(0, 5, n), np.cos(np.linspace(0, 5, n))
    thetas = jnp.log(jnp.array([[1.0, 0.5, 0.1], [2.0, 0.7, 0.2], [0.5, 0.3, 0.3]]))
    expected = [
        multivariate_normal(np.zeros(n), gaussian_gram(np.asarray(t), X, np)).logpdf(r)
        for t in thetas
    ]
    slope = jax.jit(jax.grad(lambda t: plain(gaussian_gram(t, X), r)))
    slopes = [slope(t) for t in thetas]
    both = jax.value_and_grad(lambda t: log_density(gaussian_gram(t, X), r))

    def by_scan(thetas):
        return jax.lax.scan(lambda total, t: (total, both(t)), 0.0, thetas)[1]

    jitted = jax.jit(both)
    loop = [jitted(t) for t in thetas]
    ways = [
        (jnp.stack([v for v, _ in loop]), jnp.stack([g for _, g in loop])),
        jax.jit(jax.vmap(both))(thetas),
        jax.jit(by_scan)(thetas),
    ]
    for values, gradients in ways:
        np.testing.assert_allclose(values, expected, rtol=1e-10)
        np.testing.assert_allclose(gradients, slopes, rtol=1e-8, atol=1e-8)


@most_slow
def test_log_density_of_an_indefinite_matrix_is_minus_infinity(n):
    K, r = map(jnp.asarray, indefinite(n))
    assert np.linalg.eigvalsh(K)[0] < -1.0
    assert jax.jit(log_density)(K, r) == -np.inf
    value, gradients = jax.jit(jax.value_and_grad(log_density, argnums=(0, 1)))(K, r)
    assert value == -np.inf
    for gradient in gradients:
        np.testing.assert_array_equal(gradient, 0.0)
    # In a hyperparameter too, to second order, and beside a good matrix in the same batch.
    good = jnp.asarray(spd(n)[0])

    def scaled(t, K):
        return log_density(K + t * jnp.eye(n), r)

    batch = jnp.stack([K, good])
    values, slopes = jax.jit(jax.vmap(jax.value_and_grad(scaled), (None, 0)))(0.0, batch)
    assert values[0] == -np.inf
    assert np.isfinite(values[1])
    assert slopes[0] == 0.0
    expected = jax.jit(jax.grad(lambda t: plain(good + t * jnp.eye(n), r)))(0.0)
    np.testing.assert_allclose(slopes[1], expected, rtol=1e-10)
    assert np.isfinite(jax.jit(jax.hessian(scaled))(0.0, K))


@most_slow
def test_jitter_is_the_same_with_a_gradient(n):
    Q = np.linalg.qr(np.random.default_rng(0).normal(size=(n, n)))[0]
    K = Q @ np.diag(np.r_[-2e-10, np.linspace(1.0, 2.0, n - 1)]) @ Q.T
    K, r = 0.5 * (K + K.T), np.cos(np.arange(n))
    jitter = float(DenseFactor.compute(K).jitter)
    assert jitter > 2e-10
    mended = K + jitter * np.diag(np.diag(K))
    quadratic = r @ np.linalg.solve(mended, r)
    logdet = np.linalg.slogdet(mended)[1]
    expected = -0.5 * (quadratic + logdet + n * np.log(2 * np.pi))
    value, gradient = jax.jit(jax.value_and_grad(log_density))(K, r)
    # Rounding errors of 1e-14 or so beside a smallest eigenvalue of at least 1e-11.
    np.testing.assert_allclose(value, expected, rtol=1e-2)
    np.testing.assert_allclose(log_density(K, r), value, rtol=1e-2)
    assert np.all(np.isfinite(gradient))


@pytest.mark.slow
@both_paths
def test_single_precision_stays_single(n):
    K, r = spd(n)
    K32, r32 = jnp.asarray(K, jnp.float32), jnp.asarray(r, jnp.float32)
    value, gradient = jax.value_and_grad(log_density)(K32, r32)
    assert value.dtype == gradient.dtype == jnp.float32
    assert DenseFactor.compute(K32).inv_diag().dtype == jnp.float32
    exact = jax.value_and_grad(plain)(jnp.asarray(K), jnp.asarray(r))
    # n eps times a condition number of 5 is 1e-4 at n = 155, and the entries go up to 3.
    np.testing.assert_allclose(value, exact[0], rtol=1e-5)
    np.testing.assert_allclose(gradient, exact[1], atol=5e-4)
