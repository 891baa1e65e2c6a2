"""Mode and log marginal likelihood by Laplace against scikit-learn, SciPy and differences."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import gammaln
from scipy.stats import multivariate_normal
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process import kernels as sk

from bayeskern import likelihoods
from bayeskern.gp.latent import laplace
from bayeskern.gp.latent.laplace_factor import DenseCovariance, dense_inverse
from bayeskern.gp.latent.log_likelihood import LogLikelihood
from bayeskern.kernels import RBF
from bayeskern.linalg import lapack
from tests.marks import slow

rng = np.random.default_rng(0)


def points(n, seed=0):
    return np.random.default_rng(seed).uniform(0.0, 4.0, n)[:, None]


def wave(X, seed=1):
    noise = np.random.default_rng(seed).normal(size=len(X))
    return np.sin(2.0 * X[:, 0]), noise


def gram(X, lengthscale=1.0, variance=1.0):
    return variance * np.exp(-0.5 * np.square(X - X.T) / lengthscale**2)


def observed(likelihood, y, **extra):
    return LogLikelihood.of(likelihood, y, extra)


find_mode = jax.jit(lambda K, *rest: laplace.find_mode(DenseCovariance(K), *rest))


def log_marginal(K, m, log_likelihood):
    return laplace.log_marginal(DenseCovariance(K), m, log_likelihood)


log_marginal_jit = jax.jit(log_marginal)
value_and_grads = jax.jit(jax.value_and_grad(log_marginal, argnums=(0, 1)))


# -- against scikit-learn --------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("n", [30, slow(lapack.MIN_CALLBACK_SIZE + 10)])
def test_binary_log_marginal_and_gradient_against_scikit_learn(n):
    X = points(n)
    f, noise = wave(X)
    y = (f + noise > 0).astype(float)
    kernel = sk.ConstantKernel(1.0) * sk.RBF(1.0)
    peer = GaussianProcessClassifier(kernel, optimizer=None).fit(X, y).base_estimator_
    data = observed(likelihoods.Bernoulli(classes=(0, 1)), y)

    @jax.jit
    @jax.value_and_grad
    def log_density(theta):
        kernel = RBF(variance=jnp.exp(theta[0]), lengthscale=jnp.exp(theta[1]))
        return log_marginal(kernel.evaluate(jnp.asarray(X))[None], jnp.zeros((1, n)), data)

    for theta in np.log([[2.0, 0.8], [50.0, 0.4], [0.2, 3.0]]):
        value, gradient = peer.log_marginal_likelihood(theta, eval_gradient=True)
        found = log_density(jnp.asarray(theta))
        # It stops when a step gains less than 1e-10, we when nothing is left to gain.
        np.testing.assert_allclose(found[0], value, rtol=0, atol=2e-9)
        np.testing.assert_allclose(found[1], gradient, rtol=0, atol=2e-8)


# -- the mode --------------------------------------------------------------------------------------


def test_mode_of_counts_against_scipy():
    X = points(15)
    f, _ = wave(X)
    exposure = np.linspace(0.5, 3.0, 15)
    y = np.random.default_rng(2).poisson(exposure * np.exp(f))
    K, m = gram(X, variance=1.5) + 0.1 * np.eye(15), 0.4

    def negative(f):
        rate = exposure * np.exp(f)
        r = np.linalg.solve(K, f - m)
        value = np.sum(y * np.log(rate) - rate - gammaln(y + 1.0)) - 0.5 * (f - m) @ r
        return -value, rate - y + r

    wanted = minimize(negative, np.zeros(15), jac=True, method="BFGS", options={"gtol": 1e-9})
    data = observed(likelihoods.Poisson(), y, exposure=exposure)
    mode = find_mode(jnp.asarray(K)[None], jnp.full((1, 15), m), data)
    np.testing.assert_allclose(mode.f[0], wanted.x, rtol=0, atol=1e-7)
    np.testing.assert_allclose(mode.value, -wanted.fun, rtol=0, atol=1e-10)
    np.testing.assert_allclose(mode.weights[0], np.linalg.solve(K, mode.f[0] - m), atol=1e-10)
    assert mode.decrement < 1e-16
    assert mode.factors < 10


def test_gaussian_likelihood_takes_one_step_and_is_exact():
    X = points(20)
    f, noise = wave(X)
    y, K = f + 0.4 * noise, gram(X)
    data = observed(likelihoods.Gaussian(noise=0.2), y)
    mode = find_mode(jnp.asarray(K)[None], jnp.full((1, 20), 0.3), data)
    assert mode.steps == 1
    exact = 0.3 + K @ np.linalg.solve(K + 0.2 * np.eye(20), y - 0.3)
    np.testing.assert_allclose(mode.f[0], exact, rtol=0, atol=1e-10)
    wanted = multivariate_normal(np.full(20, 0.3), K + 0.2 * np.eye(20)).logpdf(y)
    found = log_marginal_jit(jnp.asarray(K)[None], jnp.full((1, 20), 0.3), data)
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-10)


@pytest.mark.slow
def test_student_t_ends_at_a_maximum_with_negative_curvature_kept():
    X = points(25)
    f, noise = wave(X)
    # Outliers have negative curvature.
    y = f + 0.1 * noise + np.where(np.arange(25) % 8 == 3, 4.0, 0.0)
    K, data = gram(X) + 1e-6 * np.eye(25), observed(likelihoods.StudentT(df=4.0, scale=0.2), y)
    mode = find_mode(jnp.asarray(K)[None], jnp.zeros((1, 25)), data)
    r = (y - mode.f[0]) / 0.2
    W = (4.0 + 1.0) * (4.0 - r**2) / (0.2 * (4.0 + r**2)) ** 2
    assert np.min(W) < 0.0
    np.testing.assert_allclose(data.curvature(mode.f)[0, 0], W, rtol=1e-10, atol=1e-10)
    assert np.linalg.eigvalsh(np.linalg.inv(K) + np.diag(W))[0] > 0.0
    assert mode.decrement < 1e-14
    wanted = mode.value - 0.5 * np.linalg.slogdet(np.eye(25) + K * W)[1]
    found = log_marginal_jit(jnp.asarray(K)[None], jnp.zeros((1, 25)), data)
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-8)


def test_overshooting_step_is_shortened():
    # Newton's first step from f = 0 goes to about 2,000, where exp(f) is infinite.
    K, data = jnp.full((1, 1, 1), 1e4), observed(likelihoods.Poisson(), [2000.0], exposure=[1.0])
    mode = find_mode(K, jnp.zeros((1, 1)), data)
    f = float(mode.f[0, 0])
    np.testing.assert_allclose(2000.0 - np.exp(f) - f / 1e4, 0.0, atol=1e-8)


@pytest.mark.slow
def test_two_latent_functions_against_scipy():
    X = points(12)
    f, noise = wave(X)
    y = f + 0.3 * noise
    K = np.stack([gram(X, 1.0) + 0.01 * np.eye(12), gram(X, 2.0, 0.5) + 0.01 * np.eye(12)])

    def negative(z):
        g = z.reshape(2, 12)
        log_p = -g[1] - 0.5 * np.square((y - g[0]) * np.exp(-g[1])) - 0.5 * np.log(2.0 * np.pi)
        return -np.sum(log_p) + 0.5 * sum(a @ np.linalg.solve(k, a) for a, k in zip(g, K, strict=1))

    wanted = minimize(negative, np.zeros(24), method="BFGS", options={"gtol": 1e-6})
    data = observed(likelihoods.Heteroscedastic(), y)
    mode = find_mode(jnp.asarray(K), jnp.zeros((2, 12)), data)
    np.testing.assert_allclose(mode.value, -wanted.fun, rtol=0, atol=1e-8)
    np.testing.assert_allclose(mode.f.ravel(), wanted.x, rtol=0, atol=1e-4)
    W = np.asarray(data.curvature(mode.f))
    joined = np.block([[np.diag(W[c, d]) for d in range(2)] for c in range(2)])
    zero = np.zeros((12, 12))
    whole = np.block([[K[0], zero], [zero, K[1]]])
    logdet = np.linalg.slogdet(np.eye(24) + whole @ joined)[1]
    found = log_marginal_jit(jnp.asarray(K), jnp.zeros((2, 12)), data)
    np.testing.assert_allclose(found, mode.value - 0.5 * logdet, rtol=0, atol=1e-9)


# -- derivatives -----------------------------------------------------------------------------------

# A likelihood at its hyperparameters (logarithms), their values, y from a wave and noise, and what
# it needs beside it.
CASES = {
    "bernoulli": (
        lambda p: likelihoods.Bernoulli(classes=(0, 1), link="probit"),
        [],
        lambda f, e: (f + e > 0).astype(float),
        {},
    ),
    "poisson": (
        lambda p: likelihoods.Poisson(),
        [],
        lambda f, e: np.floor(np.exp(f + 0.5 * e)),
        {"exposure": np.linspace(0.5, 2.0, 14)},
    ),
    "student_t": (
        lambda p: likelihoods.StudentT(df=jnp.exp(p[0]), scale=jnp.exp(p[1])),
        np.log([4.0, 0.3]),
        lambda f, e: np.where(np.arange(len(f)) == 5, f + 3.0, f + 0.2 * e),
        {},
    ),
    "heteroscedastic": (
        lambda p: likelihoods.Heteroscedastic(),
        [],
        lambda f, e: f + 0.4 * e,
        {},
    ),
    "categorical": (
        lambda p: likelihoods.Categorical(classes=("a", "b", "c")),
        [],
        lambda f, e: np.digitize(f + 0.3 * e, [-0.5, 0.5]),
        {},
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", [n if n == "poisson" else slow(n) for n in CASES])
def test_gradient_and_hessian_against_finite_differences(name):
    make, values, draw, extra = CASES[name]
    X = points(14)
    y = draw(*wave(X))
    C = make(values).outputs or 1

    def log_density(theta):
        each = [
            RBF(variance=jnp.exp(theta[0]), lengthscale=jnp.exp(theta[1] + c / 2)) for c in (0, 1)
        ]
        K = jnp.stack([k.evaluate(jnp.asarray(X)) for k in each[:C]])
        # One kernel for three classes.
        K = K if len(K) == C else jnp.broadcast_to(K[:1], (C, *K.shape[1:]))
        mean = jnp.arange(1.0, C + 1.0)[:, None] * theta[2] * jnp.ones((C, len(X)))
        return log_marginal(K, mean, LogLikelihood.of(make(theta[3:]), y, extra))

    theta = jnp.asarray([0.3, -0.2, 0.15, *values])

    @jax.jit
    def derivatives(theta):
        # As the Laplace backend takes them.
        (value, gradient), push = jax.linearize(jax.value_and_grad(log_density), theta)
        return value, gradient, jax.vmap(push)(jnp.eye(len(theta)))[1]

    value, gradient, hessian = derivatives(theta)

    def difference(i, what, h=2e-3):
        def central(h):
            up, down = derivatives(theta.at[i].add(h)), derivatives(theta.at[i].add(-h))
            return (up[what] - down[what]) / (2.0 * h)

        return (4.0 * central(h) - central(2.0 * h)) / 3.0

    for i in range(len(theta)):
        np.testing.assert_allclose(gradient[i], difference(i, 0), rtol=1e-6, atol=1e-7)
        np.testing.assert_allclose(hessian[i], difference(i, 1), rtol=1e-5, atol=1e-6)
    assert np.isfinite(value)


@pytest.mark.parametrize("K", [-5.0 * np.eye(6), np.full((6, 6), np.nan)])
@pytest.mark.parametrize(
    "likelihood",
    [likelihoods.Bernoulli(classes=(0, 1)), slow(likelihoods.StudentT(df=4.0, scale=0.3))],
)
def test_without_a_mode_log_marginal_is_minus_infinity(K, likelihood):
    data = observed(likelihood, [0.0, 1.0, 1.0, 0.0, 0.0, 1.0])
    value, gradients = value_and_grads(jnp.asarray(K)[None], jnp.zeros((1, 6)), data)
    assert value == -np.inf
    assert all(np.all(np.asarray(g) == 0.0) for g in gradients)


@pytest.mark.parametrize(
    ("n", "likelihood"),
    [
        (lapack.MIN_CALLBACK_SIZE + 10, likelihoods.Bernoulli(classes=(0, 1))),
        slow(20, likelihoods.StudentT(df=4.0, scale=0.5)),
    ],
)
def test_inverse_and_logdet_against_dense_algebra(n, likelihood):
    X = points(n)
    y = (np.add(*wave(X)) > 0).astype(float)
    K, data = gram(X) + 0.05 * np.eye(n), observed(likelihood, y)
    mode = find_mode(jnp.asarray(K)[None], jnp.zeros((1, n)), data)
    inverse = jax.jit(dense_inverse, static_argnums=2)
    R, S = inverse(jnp.asarray(K)[None], data.curvature(mode.f), data.concave)
    W = np.asarray(data.curvature(mode.f))[0, 0]
    inner = np.eye(n) + W[:, None] * K
    np.testing.assert_allclose(R, np.linalg.solve(inner, np.diag(W)), rtol=0, atol=1e-10)
    covariance = np.linalg.inv(np.linalg.inv(K) + np.diag(W))
    np.testing.assert_allclose(S[0, 0], np.diagonal(covariance), rtol=0, atol=1e-10)
    factor = DenseCovariance(jnp.asarray(K)[None]).factorizer(data.concave)(data.curvature(mode.f))
    np.testing.assert_allclose(factor.logdet(), np.linalg.slogdet(inner)[1], rtol=0, atol=1e-9)
