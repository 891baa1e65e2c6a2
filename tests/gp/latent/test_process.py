"""The distribution of observations of latent processes: closed forms, scikit-learn, quadrature."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import pytest
from scipy.integrate import quad
from scipy.special import expit, logsumexp
from scipy.stats import multivariate_normal, norm, poisson
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process import kernels as sk

import bayeskern as bk
from bayeskern import likelihoods
from bayeskern.core.validation import NotPositiveDefiniteError
from bayeskern.gp import LatentProcess
from bayeskern.gp.latent.prior import LatentPoints
from bayeskern.kernels import RBF, Custom, Linear, Matern32, Multiquadric
from bayeskern.prediction.response import ResponsePrediction
from tests.compilations import compilations

BINARY = likelihoods.Bernoulli(classes=(0, 1))
KERNEL = RBF(lengthscale=0.8, variance=2.0)


def data(n=30, seed=0):
    rng = np.random.default_rng(seed)
    X = np.sort(rng.uniform(0.0, 4.0, n))
    return X, np.sin(2.0 * X), rng.normal(size=n)


def gram(X, Z, lengthscale=0.8, variance=2.0):
    return variance * np.exp(-0.5 * np.square(X[:, None] - Z[None, :]) / lengthscale**2)


# -- where Laplace's approximation is exact --------------------------------------------------------


@pytest.fixture(scope="module")
def gaussian():
    X, f, noise = data()
    y = f + 0.4 * noise
    kernel = RBF(lengthscale=0.8).named("short") + Linear(variance=0.3).named("trend")
    latent = LatentProcess(kernel, X, likelihoods.Gaussian(noise=0.2), mean=lambda x: 0.5 * x)
    return latent, bk.GaussianProcess(kernel, X, 0.2, mean=lambda x: 0.5 * x), y


def test_gaussian_likelihood_log_prob_equals_gaussian_process(gaussian):
    latent, exact, y = gaussian
    both = np.stack([y, y + 1.0])
    np.testing.assert_allclose(latent.log_prob(both), exact.log_prob(both), rtol=0, atol=1e-9)


@pytest.mark.slow
def test_gaussian_likelihood_predictions_equal_gaussian_process(gaussian):
    latent, exact, y = gaussian
    X_new = np.linspace(-1.0, 5.0, 9)
    mine = latent.condition(y).predict(X_new, latent=True)
    theirs = exact.condition(y).predict(X_new, latent=True)
    pairs = [(mine, theirs)] + [(mine.component(k), theirs.component(k)) for k in mine.components]
    assert mine.components == ("short", "trend")
    for a, b in pairs:
        np.testing.assert_allclose(a.mean, b.mean, rtol=0, atol=1e-9)
        np.testing.assert_allclose(a.sd, b.sd, rtol=0, atol=1e-9)
    drawn = mine.sample(20_000, seed=1)
    covariance = np.asarray(exact.condition(y).covariance(X_new))
    np.testing.assert_allclose(np.cov(drawn.T), covariance, atol=0.03 * np.max(covariance))


@pytest.mark.slow
def test_gaussian_likelihood_loo_equals_gaussian_process(gaussian):
    latent, exact, y = gaussian
    found, counted = latent.pointwise(y)
    np.testing.assert_allclose(found, exact.pointwise(y)[0], rtol=0, atol=1e-9)
    assert np.all(counted)


def test_gaussian_likelihood_importance_ratios_are_one(gaussian):
    latent, _, y = gaussian
    assert np.max(np.abs(latent.log_ratio(y, jax.random.key(0), 50)[1])) < 1e-8


# -- classes, against scikit-learn -----------------------------------------------------------------


@pytest.mark.slow
def test_classification_against_scikit_learn():
    X, f, noise = data(40)
    y = (f + noise > 0).astype(int)
    kernel = sk.ConstantKernel(2.0) * sk.RBF(0.8)
    peer = GaussianProcessClassifier(kernel, optimizer=None).fit(X[:, None], y)
    X_new = np.linspace(-1.0, 5.0, 11)
    given = LatentProcess(KERNEL, X, BINARY).condition(y)
    latent = given.predict(X_new, latent=True)
    mean, variance = peer.latent_mean_and_variance(X_new[:, None])
    np.testing.assert_allclose(latent.mean, mean, rtol=0, atol=1e-6)
    np.testing.assert_allclose(latent.variance, variance, rtol=0, atol=1e-6)
    found = given.predict(X_new)
    assert isinstance(found, ResponsePrediction)
    assert found.classes == (0, 1)
    # It approximates the logistic function by five error functions.
    np.testing.assert_allclose(
        found.probabilities, peer.predict_proba(X_new[:, None]), rtol=0, atol=2e-3
    )
    for m, v, p in zip(latent.mean, latent.variance, found.probabilities, strict=True):
        exact = quad(lambda z, m=m, v=v: expit(m + np.sqrt(v) * z) * norm.pdf(z), -12, 12)[0]
        np.testing.assert_allclose(p, [1.0 - exact, exact], rtol=0, atol=1e-8)
    np.testing.assert_allclose(found.mean, found.probabilities[:, 1], rtol=0, atol=1e-12)
    np.testing.assert_allclose(np.mean(found.draws, axis=0), found.mean, atol=5 * 0.5 / 1000**0.5)


# -- how good the approximation is -----------------------------------------------------------------


@pytest.mark.slow
def test_log_marginal_and_importance_ratios_against_integration():
    X, y = np.array([0.0, 0.7]), np.array([2, 5])
    process = LatentProcess(KERNEL, X, likelihoods.Poisson(), mean=0.5, extra={"exposure": 1.5})
    grid = np.linspace(-7.0, 8.0, 1201)
    f = np.stack(np.meshgrid(grid, grid, indexing="ij"), axis=-1)
    log_p = multivariate_normal([0.5, 0.5], gram(X, X)).logpdf(f)
    log_p = log_p + np.sum(poisson.logpmf(y, 1.5 * np.exp(f)), axis=-1)
    exact = logsumexp(log_p) + 2.0 * np.log(grid[1] - grid[0])
    approximate = float(process.log_prob(y))
    assert 1e-6 < abs(approximate - exact) < 0.05
    ratios = np.exp(process.log_ratio(y, jax.random.key(0), 50_000)[1])
    error = np.std(ratios) / np.sqrt(len(ratios))
    assert abs(np.mean(ratios) - np.exp(exact - approximate)) < 4.0 * error
    # Weighted by them, draws of f have the exact mean.
    drawn = np.asarray(process.log_ratio(y, jax.random.key(0), 50_000)[0])[:, 0]
    posterior = np.exp(log_p - logsumexp(log_p))
    mean = np.einsum("ij,ijk->k", posterior, f)
    np.testing.assert_allclose(ratios @ drawn / np.sum(ratios), mean, atol=0.02)
    # The error of the approximation is seen, not lost in that of the draws.
    assert abs(np.exp(exact - approximate) - 1.0) > 4.0 * error


@pytest.mark.slow
def test_importance_ratios_of_two_latent_functions():
    X, y = np.array([0.0]), np.array([0.8])
    kernels = (RBF(variance=1.5), RBF(variance=0.3))
    process = LatentProcess(kernels, X, likelihoods.Heteroscedastic(), mean=np.array([0.2, -0.5]))
    grid = np.linspace(-9.0, 9.0, 2001)
    a, b = np.meshgrid(grid, grid, indexing="ij")
    log_p = norm.logpdf(a, 0.2, 1.5**0.5) + norm.logpdf(b, -0.5, 0.3**0.5)
    exact = logsumexp(log_p + norm.logpdf(0.8, a, np.exp(b))) + 2.0 * np.log(grid[1] - grid[0])
    ratios = np.exp(process.log_ratio(y, jax.random.key(0), 50_000)[1])
    error = np.std(ratios) / np.sqrt(len(ratios))
    assert abs(np.mean(ratios) - np.exp(exact - process.log_prob(y))) < 4.0 * error


# -- leave-one-out ---------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("name", ["classes", "counts"])
def test_leave_one_out_against_refits(name):
    X, f, noise = data(12)
    y = np.round(2.0 * np.exp(f)) if name == "counts" else (f + noise > 0).astype(float)
    likelihood = likelihoods.Poisson() if name == "counts" else BINARY

    def log_p(y, f):
        return poisson.logpmf(y, np.exp(f)) if name == "counts" else np.log(expit((2 * y - 1) * f))

    refitted = []
    for i in range(12):
        others = np.arange(12) != i
        process = LatentProcess(KERNEL, X[others], likelihood)
        at = process.condition(y[others]).predict(X[i : i + 1], latent=True)
        m, s = at.mean[0], at.sd[0]

        def joint(f, y=y[i], m=m, s=s):
            return np.exp(log_p(y, f)) * norm.pdf(f, m, s)

        integral = quad(joint, m - 9 * s, m + 9 * s)
        refitted.append(np.log(integral[0]))
    found, _ = LatentProcess(KERNEL, X, likelihood).pointwise(y)
    alone = log_p(y, LatentProcess(KERNEL, X, likelihood).condition(y).approximation.mode.f[0])
    # The mode moves a little when an observation goes; without leaving out it is far off.
    np.testing.assert_allclose(found, refitted, rtol=0, atol=0.06)
    assert abs(np.sum(found) - np.sum(refitted)) < 0.15
    assert np.sum(alone) - np.sum(refitted) > 1.0


# -- sampling --------------------------------------------------------------------------------------


@pytest.mark.slow
def test_samples_have_log_normal_moments():
    X = np.array([0.0, 0.5])
    K = gram(X, X, variance=0.4)
    process = LatentProcess(
        RBF(lengthscale=0.8, variance=0.4),
        X,
        likelihoods.Poisson(),
        mean=0.3,
        extra={"exposure": np.array([1.0, 2.0])},
    )
    y = np.asarray(process.sample(jax.random.key(0), (200, 500))).reshape(-1, 2)
    rate = np.array([1.0, 2.0]) * np.exp(0.3 + 0.2)
    covariance = np.outer(rate, rate) * (np.exp(K) - 1.0) + np.diag(rate)
    np.testing.assert_allclose(y.mean(axis=0), rate, rtol=0.02)
    np.testing.assert_allclose(np.cov(y.T), covariance, rtol=0.06)


# -- several latent functions ----------------------------------------------------------------------


@pytest.mark.slow
def test_predictions_of_two_latent_functions_against_dense_algebra():
    X, f, noise = data(15)
    y = f + 0.3 * noise
    kernels = (RBF(lengthscale=0.8).named("level"), Matern32(lengthscale=2.0, variance=0.5))
    process = LatentProcess(kernels, X, likelihoods.Heteroscedastic(), mean=np.array([0.1, -1.0]))
    given = process.condition(y)
    X_new = np.array([-0.5, 1.1, 3.3])
    found = given.predict(X_new, latent=True)
    assert list(found) == ["level", "f1"]
    zero = np.zeros((15, 15))
    K = np.block([[kernels[0](X), zero], [zero, kernels[1](X)]]) + 1e-12 * np.eye(30)
    W = np.block([[np.diag(given.approximation.W[c, d]) for d in (0, 1)] for c in (0, 1)])
    R = np.linalg.solve(np.eye(30) + W @ K, W)
    gradient = np.concatenate(
        [
            (y - given.approximation.mode.f[0]) / np.exp(2 * given.approximation.mode.f[1]),
            ((y - given.approximation.mode.f[0]) / np.exp(given.approximation.mode.f[1])) ** 2 - 1,
        ]
    )
    zero = np.zeros((15, 3))
    cross = np.block([[kernels[0](X, X_new), zero], [zero, kernels[1](X, X_new)]])
    mean = np.repeat([0.1, -1.0], 3) + cross.T @ gradient
    covariance = np.diag(np.repeat([1.0, 0.5], 3)) - cross.T @ R @ cross
    np.testing.assert_allclose([p.mean for p in found.values()], mean.reshape(2, 3), atol=1e-8)
    variances = np.diagonal(covariance).reshape(2, 3)
    np.testing.assert_allclose([p.variance for p in found.values()], variances, atol=1e-8)
    both = given.moments(LatentPoints(jnp.asarray(X_new)[:, None]))[1]
    np.testing.assert_allclose(both[0, 1], np.diagonal(covariance[:3, 3:]), atol=1e-8)
    # E[y] is the first of them; var y has both in it.
    new = given.predict(X_new, draws=20_000)
    np.testing.assert_allclose(new.mean, mean[:3], atol=1e-8)
    spread = variances[0] + np.exp(2.0 * mean[3:] + 2.0 * variances[1])
    np.testing.assert_allclose(new.sd, np.sqrt(spread), rtol=0.1)


@pytest.mark.slow
def test_two_class_categorical_equals_bernoulli_of_twice_the_variance():
    # Only the difference of the two matters, and its prior has the kernel 2 k.
    X, f, noise = data(20)
    y = (f + noise > 0).astype(int)
    both = LatentProcess(KERNEL, X, likelihoods.Categorical(classes=("no", "yes")))
    one = LatentProcess(2.0 * KERNEL, X, BINARY)
    np.testing.assert_allclose(both.log_prob(y), one.log_prob(y), rtol=0, atol=1e-8)
    X_new = np.array([0.8, 2.4, 90.0])
    found = both.condition(y).predict(X_new)
    assert found.classes == ("no", "yes")
    wanted = one.condition(y).predict(X_new).probabilities
    np.testing.assert_allclose(found.probabilities, wanted, rtol=0, atol=1e-6)
    np.testing.assert_allclose(found.probabilities[2], 0.5, rtol=0, atol=1e-8)
    np.testing.assert_allclose(both.pointwise(y)[0], one.pointwise(y)[0], rtol=0, atol=1e-5)


# -- inside NumPyro --------------------------------------------------------------------------------


def test_new_data_of_the_same_shape_do_not_recompile():
    X, f, noise = data(10)

    @jax.jit
    def evidence(variance, X, y):
        return LatentProcess(RBF(variance=variance), X, BINARY).log_prob(y)

    before = len(compilations)
    first = evidence(1.0, X, (f > 0).astype(float))
    assert len(compilations) > before  # the listener listens
    before = len(compilations)
    second = evidence(2.0, X + 1.0, (noise > 0).astype(float))
    assert len(compilations) == before
    assert first != second


@pytest.mark.slow
def test_given_equals_predict():
    X, f, _ = data(25)
    y = np.round(3.0 * np.exp(f))
    process = LatentProcess(KERNEL, X, likelihoods.Poisson(), mean=1.0)
    X_new = np.array([0.8, 1.5, 2.4])
    new = LatentProcess(KERNEL, X_new, likelihoods.Poisson(), 1.0, {"exposure": [1.0, 5.0, 2.0]})
    found = process.given(y, new, np.array([0, 2]))
    wanted = process.condition(y).predict(X_new[[0, 2]], extra={"exposure": [1.0, 2.0]})
    np.testing.assert_allclose(found.mean(), wanted.mean, rtol=1e-10)
    drawn = np.asarray(found.sample(jax.random.key(0), 4000))
    assert np.all(drawn == np.round(drawn))
    error = wanted.sd / np.sqrt(4000)
    assert np.all(np.abs(drawn.mean(axis=0) - wanted.mean) < 4.0 * error)
    with pytest.raises(ValueError, match="not Gaussian"):
        found.moments()


def test_support_is_that_of_the_likelihood():
    X, _, _ = data(3)
    counts = LatentProcess(KERNEL, X, likelihoods.Poisson()).support
    assert bool(counts(np.array([0, 3, 1])))
    assert not bool(counts(np.array([0.5, 3, 1])))
    assert not bool(LatentProcess(KERNEL, X, BINARY).support(np.array([0, 2, 1])))
    shares = LatentProcess(KERNEL, X, likelihoods.Dirichlet(precision=2.0, parts=2))
    assert shares.event_shape == (3, 2)
    assert bool(shares.support(np.full((3, 2), 0.5)))


# -- what is refused -------------------------------------------------------------------------------


def test_a_kernel_that_is_not_positive_definite_is_refused():
    X, _, _ = data(8)
    with pytest.raises(ValueError, match="Multiquadric is not positive definite"):
        LatentProcess(Multiquadric(), X, BINARY)


@pytest.mark.slow
def test_indefinite_covariance_is_refused():
    X, f, _ = data(8)
    indefinite = Custom(lambda x, z: -9.0 * jnp.exp(-jnp.sum((x - z) ** 2)))
    process = LatentProcess(indefinite, X, BINARY)
    with pytest.raises(NotPositiveDefiniteError, match="no mode of the latent function"):
        process.condition((f > 0).astype(float))
    assert process.log_prob((f > 0).astype(float)) == -np.inf


def test_bad_input_is_refused():
    X, f, _ = data(8)
    process = LatentProcess(KERNEL, X, likelihoods.Laplace(scale=1.0))
    with pytest.raises(ValueError, match="Laplace has kinks"):
        process.log_prob(f)
    with pytest.raises(ValueError, match="tuple of 3, but Heteroscedastic has 2"):
        LatentProcess((KERNEL,) * 3, X, likelihoods.Heteroscedastic())
    with pytest.raises(TypeError, match=r"noise of Gaussian.* have no value"):
        LatentProcess(KERNEL, X, likelihoods.Gaussian(noise=numpyro.distributions.HalfNormal(1)))
    with pytest.raises(TypeError, match="likelihood must be one of"):
        LatentProcess(KERNEL, X, "poisson")
    with pytest.raises(ValueError, match="y must have shape"):
        LatentProcess(KERNEL, X, BINARY).condition(np.zeros(7))
    with pytest.raises(ValueError, match="mean must be one number or 8 numbers"):
        LatentProcess(KERNEL, X, BINARY, mean=np.zeros(3))
    given = LatentProcess(KERNEL, X, BINARY, mean=np.zeros(8)).condition((f > 0).astype(float))
    with pytest.raises(ValueError, match="its values at X_new are unknown"):
        given.predict(X)
