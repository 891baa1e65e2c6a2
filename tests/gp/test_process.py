"""Gaussian processes as distributions: against scikit-learn, closed forms and simulation."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pandas as pd
import pytest
from numpyro import handlers
from scipy.stats import multivariate_normal, norm
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process import kernels as sk

import bayeskern as bk
from bayeskern.kernels import (
    RBF,
    Constant,
    Linear,
    Matern32,
    Matern52,
    Multiquadric,
    Periodic,
    RationalQuadratic,
)
from tests.compilations import compilations
from tests.gp.gp_by_hand import NOISE, data, posterior, rbf
from tests.marks import few

# -- against scikit-learn --------------------------------------------------------------------------

# d, scikit-learn's kernel, and ours as a function of the same values in scikit-learn's order
CASES = {
    "matern52_ard_plus_rational_quadratic": (
        2,
        sk.ConstantKernel(0.8) * sk.Matern([0.9, 2.1], nu=2.5)
        + sk.RationalQuadratic(alpha=0.6, length_scale=1.7),
        lambda p: (
            Matern52(lengthscale=p[1:3], variance=p[0])
            + RationalQuadratic(alpha=p[3], lengthscale=p[4])
        ),
    ),
    "season_times_decay_plus_trend": (
        1,
        sk.ConstantKernel(0.9) * sk.ExpSineSquared(1.2, 1.5) * sk.RBF(2.5)
        + sk.ConstantKernel(0.2) * sk.DotProduct(0.7),
        lambda p: (
            (p[0] * Periodic(lengthscale=p[1], period=p[2]) * RBF(lengthscale=p[3])).named("season")
            + p[4] * (Linear() + Constant(p[5] ** 2)).named("trend")
        ),
    ),
}


@pytest.fixture(params=few(CASES, "matern52_ard_plus_rational_quadratic"))
def case(request):
    d, peer, ours = CASES[request.param]
    X, y = data(d=d)
    fitted = GaussianProcessRegressor(peer, alpha=NOISE, optimizer=None).fit(X, y)
    return X, y, fitted, ours


def test_log_marginal_likelihood_and_gradient_against_scikit_learn(case):
    X, y, peer, ours = case
    theta = peer.kernel_.theta
    value, gradient = peer.log_marginal_likelihood(theta, eval_gradient=True)

    @jax.jit
    @jax.value_and_grad
    def evidence(theta):
        return bk.GaussianProcess(ours(jnp.exp(theta)), X, NOISE).log_prob(y)

    found = evidence(jnp.asarray(theta))
    np.testing.assert_allclose(found[0], value, rtol=0, atol=1e-8)
    np.testing.assert_allclose(found[1], gradient, rtol=0, atol=1e-8)


def test_prediction_against_scikit_learn(case):
    X, y, peer, ours = case
    X_new = data(n=17, d=X.shape[1], seed=1)[0]
    gp = bk.GaussianProcess(ours(np.exp(peer.kernel_.theta)), X, NOISE).condition(y)
    mean, sd = peer.predict(X_new, return_std=True)
    function, observation = gp.predict(X_new, latent=True), gp.predict(X_new)
    np.testing.assert_allclose(function.mean, mean, rtol=0, atol=1e-8)
    np.testing.assert_allclose(function.sd, sd, rtol=0, atol=1e-8)
    np.testing.assert_allclose(observation.mean, mean, rtol=0, atol=1e-8)
    np.testing.assert_allclose(observation.sd, np.sqrt(sd**2 + NOISE), rtol=0, atol=1e-8)
    lower, upper = observation.interval(0.9)
    half = norm.ppf(0.95) * np.sqrt(sd**2 + NOISE)
    np.testing.assert_allclose(lower, mean - half, rtol=0, atol=1e-8)
    np.testing.assert_allclose(upper, mean + half, rtol=0, atol=1e-8)
    _, covariance = peer.predict(X_new, return_cov=True)
    np.testing.assert_allclose(gp.covariance(X_new), covariance, rtol=0, atol=1e-8)


# -- a NumPyro distribution ------------------------------------------------------------------------


@pytest.mark.slow
def test_site_equals_numpyro_multivariate_normal():
    X, y = data()
    K = rbf(X, X, 0.8, 1.5) + NOISE * np.eye(30)

    def model(y=None):
        kernel = RBF(lengthscale=0.8, variance=1.5)
        return numpyro.sample("y", bk.GaussianProcess(kernel, X, NOISE, mean=0.4), obs=y)

    site = handlers.trace(model).get_trace(y)["y"]
    expected = dist.MultivariateNormal(0.4, K).log_prob(y)
    np.testing.assert_allclose(site["fn"].log_prob(site["value"]), expected, rtol=1e-10)
    assert site["fn"].event_shape == (30,)
    assert site["fn"].batch_shape == ()
    np.testing.assert_allclose(site["fn"].mean, np.full(30, 0.4))
    np.testing.assert_allclose(site["fn"].variance, np.diag(K), rtol=1e-12)
    np.testing.assert_allclose(site["fn"].covariance_matrix, K, atol=1e-12)


@pytest.mark.slow
def test_log_prob_takes_batches_of_values():
    X, _ = data(n=6)
    gp = bk.GaussianProcess(RBF(), X, NOISE)
    values = np.random.default_rng(0).normal(size=(2, 3, 6))
    expected = multivariate_normal(np.zeros(6), rbf(X, X) + NOISE * np.eye(6)).logpdf(values)
    np.testing.assert_allclose(gp.log_prob(values), expected, rtol=1e-10)
    assert gp.sample(jax.random.key(0), (2, 3)).shape == (2, 3, 6)

    def model():
        with numpyro.plate("series", 2):
            numpyro.sample("y", gp, obs=values[:, 0])

    found, _ = numpyro.infer.util.log_density(model, (), {}, {})
    np.testing.assert_allclose(found, expected[:, 0].sum(), rtol=1e-10)


def test_process_is_a_pytree():
    X, y = data(n=8)
    gp = bk.GaussianProcess(RBF(), X, NOISE, mean=lambda x: x[0], mask=np.arange(8) < 6)
    again = jax.tree.unflatten(*reversed(jax.tree.flatten(gp)))
    np.testing.assert_array_equal(again.log_prob(y), gp.log_prob(y))
    np.testing.assert_allclose(jax.jit(lambda g: g.log_prob(y))(gp), gp.log_prob(y), rtol=1e-12)


def test_samples_have_prior_moments():
    X = np.array([0.0, 0.5, 2.0])
    gp = bk.GaussianProcess(RBF(), X, 0.1, mean=lambda x: 3.0 * x[0])
    N = 20_000
    draws = np.asarray(gp.sample(jax.random.key(1), (N,)))
    K = rbf(X[:, None], X[:, None]) + 0.1 * np.eye(3)
    # Five standard errors of a mean and of a covariance of Gaussian draws.
    np.testing.assert_array_less(np.abs(draws.mean(0) - 3 * X), 5 * np.sqrt(np.diag(K) / N))
    error = np.sqrt((np.outer(np.diag(K), np.diag(K)) + K**2) / N)
    np.testing.assert_array_less(np.abs(np.cov(draws.T) - K), 5 * error)


def test_numpyro_handlers_apply():
    X, y = data(n=7)
    exact = multivariate_normal(np.zeros(7), rbf(X, X) + NOISE * np.eye(7)).logpdf(y)

    def model():
        return numpyro.sample("y", bk.GaussianProcess(RBF(), X, NOISE))

    def density(handled):
        return numpyro.infer.util.log_density(handled, (), {}, {})[0]

    np.testing.assert_allclose(density(handlers.condition(model, {"y": y})), exact, rtol=1e-10)
    np.testing.assert_allclose(density(handlers.substitute(model, {"y": y})), exact, rtol=1e-10)
    scaled = handlers.scale(handlers.condition(model, {"y": y}), scale=0.5)
    np.testing.assert_allclose(density(scaled), 0.5 * exact, rtol=1e-10)
    hidden = handlers.mask(handlers.condition(model, {"y": y}), mask=False)
    assert density(hidden) == 0.0
    first, again, other = (handlers.seed(model, k)() for k in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert np.all(first != other)
    drawn = numpyro.infer.Predictive(model, num_samples=3)(jax.random.key(0))["y"]
    assert drawn.shape == (3, 7)
    assert np.all(np.isfinite(drawn))


# -- masks, noise, means, inputs -------------------------------------------------------------------


@pytest.mark.slow
def test_mask_equals_dropping_the_rows():
    X, y = data(n=20, d=2)
    keep = np.random.default_rng(3).uniform(size=20) < 0.7
    noise = np.linspace(0.02, 0.3, 20)
    mean = np.linspace(-1.0, 1.0, 20)
    whole = bk.GaussianProcess(Matern52(), X, noise, mean, mask=keep)
    part = bk.GaussianProcess(Matern52(), X[keep], noise[keep], mean[keep])
    # What stands in the rows left out must not matter, however large.
    spoilt = np.where(keep, y, 1e6)
    np.testing.assert_allclose(whole.log_prob(spoilt), part.log_prob(y[keep]), rtol=1e-10)
    X_new = data(n=9, d=2, seed=1)[0]
    masked, dropped = whole.condition(spoilt), part.condition(y[keep])
    a = masked.predict(X_new, noise=0.1, mean=0.5)
    b = dropped.predict(X_new, noise=0.1, mean=0.5)
    np.testing.assert_allclose(a.mean, b.mean, atol=1e-10)
    np.testing.assert_allclose(a.variance, b.variance, atol=1e-10)
    np.testing.assert_allclose(masked.covariance(X_new), dropped.covariance(X_new), atol=1e-10)
    for ours, theirs in zip(masked.loo(), dropped.loo(), strict=True):
        np.testing.assert_allclose(ours[keep], theirs, atol=1e-10)
        assert np.all(np.isnan(ours[~keep]))


@pytest.mark.slow
def test_gradient_with_a_mask_under_jit():
    X, y = data(n=12)
    keep = np.arange(12) % 3 > 0

    @jax.jit
    def evidence(lengthscale, mask):
        return bk.GaussianProcess(RBF(lengthscale), X, NOISE, mask=mask).log_prob(y)

    def dropped(lengthscale):
        K = rbf(X[keep], X[keep], lengthscale) + NOISE * np.eye(keep.sum())
        return multivariate_normal(np.zeros(keep.sum()), K).logpdf(y[keep])

    np.testing.assert_allclose(evidence(0.9, keep), dropped(0.9), rtol=1e-10)
    h = 1e-5  # a central difference: h^2 and eps / h leave 1e-8 or so
    numeric = (dropped(0.9 + h) - dropped(0.9 - h)) / (2 * h)
    np.testing.assert_allclose(jax.grad(evidence)(0.9, keep), numeric, rtol=1e-6)


def test_repeated_and_unsorted_inputs():
    X = np.array([2.0, 0.5, 2.0, 1.0, 0.5, 2.0])[:, None]
    y = np.array([1.0, 0.2, 1.4, 0.6, -0.1, 0.9])
    X_new = np.array([2.0, -1.0, 0.7])[:, None]
    mean, covariance = posterior(rbf(X, X), rbf(X, X_new), rbf(X_new, X_new), y, NOISE)
    order = np.array([3, 1, 4, 0, 2, 5])
    for rows in (np.arange(6), order):
        found = bk.GaussianProcess(RBF(), X[rows], NOISE).condition(y[rows])
        np.testing.assert_allclose(found.predict(X_new).mean, mean, atol=1e-10)
        sd = found.predict(X_new, latent=True).sd
        np.testing.assert_allclose(sd**2, np.diag(covariance), atol=1e-10)


def test_heteroscedastic_noise_against_scikit_learn():
    X, y = data(n=15)
    noise = np.linspace(0.01, 0.5, 15)
    peer = GaussianProcessRegressor(sk.RBF(1.0), alpha=noise, optimizer=None).fit(X, y)
    process = bk.GaussianProcess(RBF(), X, noise)
    np.testing.assert_allclose(
        process.log_prob(y), peer.log_marginal_likelihood(), rtol=0, atol=1e-8
    )
    gp, X_new = process.condition(y), np.array([0.3, 2.5])
    mean, sd = peer.predict(X_new[:, None], return_std=True)
    np.testing.assert_allclose(gp.predict(X_new, latent=True).mean, mean, atol=1e-8)
    np.testing.assert_allclose(gp.predict(X_new, latent=True).sd, sd, atol=1e-8)
    one, each = gp.predict(X_new, noise=0.2), gp.predict(X_new, noise=[0.2, 0.7])
    np.testing.assert_allclose(one.variance, sd**2 + 0.2, atol=1e-8)
    np.testing.assert_allclose(each.variance, sd**2 + [0.2, 0.7], atol=1e-8)
    with pytest.raises(ValueError, match=r"give noise=.*latent=True"):
        gp.predict(X_new)
    with pytest.raises(ValueError, match="noise must be one number or 2 numbers"):
        gp.predict(X_new, noise=[0.1, 0.2, 0.3])


def test_prior_mean_as_number_array_and_function():
    X, y = data(n=15)
    X_new = np.array([[0.3], [2.5]])

    def line(x):
        return 1.0 - 0.5 * x[0]

    for given, at_X, at_new in [
        (1.7, np.full(15, 1.7), np.full(2, 1.7)),
        (line, 1.0 - 0.5 * X[:, 0], 1.0 - 0.5 * X_new[:, 0]),
        (1.0 - 0.5 * X[:, 0], 1.0 - 0.5 * X[:, 0], np.array([5.0, 6.0])),
    ]:
        peer = GaussianProcessRegressor(sk.RBF(1.0), alpha=NOISE, optimizer=None).fit(X, y - at_X)
        process = bk.GaussianProcess(RBF(), X, NOISE, mean=given)
        np.testing.assert_allclose(process.mean, at_X)
        np.testing.assert_allclose(process.log_prob(y), peer.log_marginal_likelihood(), atol=1e-8)
        gp = process.condition(y)
        stated = at_new if isinstance(given, np.ndarray) else None
        found = gp.predict(X_new, mean=stated)
        np.testing.assert_allclose(found.mean, peer.predict(X_new) + at_new, atol=1e-8)
        if stated is not None:
            with pytest.raises(ValueError, match="mean as a function of one point"):
                gp.predict(X_new)


def test_kernel_on_columns_of_a_data_frame():
    X, y = data(n=20, d=2)
    frame = pd.DataFrame(X, columns=["dose", "age"])
    peer = GaussianProcessRegressor(sk.RBF(0.7), alpha=NOISE, optimizer=None).fit(X[:, 1:], y)
    process = bk.GaussianProcess(RBF(lengthscale=0.7).on(["age"]), frame, NOISE)
    np.testing.assert_allclose(process.log_prob(y), peer.log_marginal_likelihood(), atol=1e-8)
    found = process.condition(y).predict(frame[:5], latent=True)
    mean, sd = peer.predict(X[:5, 1:], return_std=True)
    np.testing.assert_allclose(found.mean, mean, atol=1e-8)
    np.testing.assert_allclose(found.sd, sd, atol=1e-8)
    with pytest.raises(ValueError, match=r"'aeg' is not known. Did you mean 'age'"):
        bk.GaussianProcess(RBF().on(["aeg"]), frame, NOISE)
    model = bk.GPRegression(RBF(lengthscale=dist.LogNormal()).on(["age"]), NOISE)
    resolved, prepared = model.prepare(frame, y)
    draws = {"lengthscale": np.array([0.7])}
    np.testing.assert_allclose(
        resolved.predictive(draws, prepared, frame[:5]).mean, mean, atol=1e-8
    )


def test_bad_input_is_refused():
    X, y = data(n=5)
    with pytest.raises(ValueError, match="Multiquadric is not positive"):
        bk.GaussianProcess(Multiquadric(), X, NOISE)
    with pytest.raises(ValueError, match=r"InverseMultiquadric"):
        bk.GPRegression((RBF() + Multiquadric()).named("a"), NOISE)
    with pytest.raises(TypeError, match=r"lengthscale of RBF.*no value yet.*sample"):
        bk.GaussianProcess(RBF(lengthscale=dist.LogNormal()), X, NOISE)
    with pytest.raises(TypeError, match="noise must be a number here"):
        bk.GaussianProcess(RBF(), X, dist.HalfNormal())
    for wrong, shown in ((np.sin, "<ufunc 'sin'>"), (RBF, "<class '.*RBF'>")):
        with pytest.raises(TypeError, match=rf"must be a bayeskern kernel.*got {shown}"):
            bk.GaussianProcess(wrong, X, NOISE)
    # Not the layout of measured rows, whose factors are positive.
    for shape in ((4, 2, 2), (4, 2, 3), (4, 3, 2)):
        message = re.escape(f"X must have shape (n,) or (n, d), got shape {shape}")
        with pytest.raises(ValueError, match=message):
            bk.GaussianProcess(RBF(), np.zeros(shape), NOISE)
        with pytest.raises(ValueError, match=message):
            bk.infer(bk.GPRegression(RBF(), dist.HalfNormal()), np.zeros(shape), np.zeros(4))
    with pytest.raises(ValueError, match=r"noise must be nonneg.*-0.1"):
        bk.GaussianProcess(RBF(), X, -0.1)
    with pytest.raises(ValueError, match="noise must be one number or 5 numbers"):
        bk.GaussianProcess(RBF(), X, np.ones(4))
    with pytest.raises(ValueError, match=r"y has 4 values but X has 5 points"):
        bk.GaussianProcess(RBF(), X, NOISE).condition(y[:4])
    with pytest.raises(ValueError, match="X_new has 2 columns but X"):
        bk.GaussianProcess(RBF(), X, NOISE).condition(y).predict(np.ones((3, 2)))
    with pytest.raises(ValueError, match="hyperparameter called 'mean'"):
        bk.GPRegression(bk.kernels.Custom(lambda x, z, mean: mean, {"mean": 1.0}), NOISE)
    with pytest.raises(bk.NotPositiveDefiniteError, match="not positive definite"):
        # A distance is no covariance: its diagonal is 0.
        odd = bk.kernels.Custom(lambda x, z: jnp.abs(x - z).sum())
        bk.GaussianProcess(odd, X, 0.0).condition(y)


# -- solvers -------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("noise", [0.05, "each"])
def test_markov_solver_equals_dense_solver(noise):
    rng = np.random.default_rng(0)
    t, y = rng.uniform(0.0, 10.0, 300), rng.normal(size=300)
    noise = rng.uniform(0.02, 0.2, 300) if noise == "each" else noise
    kernel = (Matern32(0.8).named("short") + Linear(0.1).named("trend")) + 0.3
    mask = rng.random(300) < 0.9
    dense, markov = (
        bk.GaussianProcess(kernel, t, noise, 0.5, mask, solver) for solver in ("dense", "auto")
    )
    assert markov.explain().solver == "markov"
    np.testing.assert_allclose(markov.log_prob(y), dense.log_prob(y), rtol=1e-10)
    theirs, ours = dense.condition(y), markov.condition(y)
    assert ours.residual < 1e-10
    new = np.linspace(-1.0, 12.0, 30)
    for ask in (
        lambda gp: gp.predict(new, latent=True).mean,
        lambda gp: gp.predict(new, latent=True).sd,
        lambda gp: gp.predict(new, latent=True).component("trend").sd,
        lambda gp: gp.covariance(new),
        lambda gp: np.array(gp.loo())[:, mask],
    ):
        np.testing.assert_allclose(ask(ours), ask(theirs), rtol=1e-8, atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("solver", ["dense", "markov"])
def test_nothing_compiles_for_other_values(solver):
    def numbers(seed):
        rng = np.random.default_rng(seed)
        process = bk.GaussianProcess(
            Matern32(rng.uniform(1.0, 2.0)), np.sort(rng.normal(size=8)), 0.1, solver=solver
        )
        y = rng.normal(size=8)
        conditioned = process.condition(y)
        prediction = conditioned.predict([0.1, 0.2])
        conditioned.covariance([0.1, 0.2])
        return process.log_prob(y), conditioned.loo(), prediction.mean, prediction.sd

    numbers(0)
    before = len(compilations)
    numbers(1)
    assert len(compilations) == before
