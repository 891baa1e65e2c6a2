"""Gaussian processes against scikit-learn, closed forms in NumPy, NumPyro and simulation."""

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
from bayeskern.gp import process as gp_module
from bayeskern.kernels import (
    RBF,
    Constant,
    Linear,
    Matern32,
    Matern52,
    Multiquadric,
    Periodic,
    RationalQuadratic,
    White,
)
from bayeskern.linalg import DenseFactor

NOISE = 0.05


def data(n=30, d=1, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(0.0, 4.0, (n, d))
    return X, np.sin(2.0 * X[:, 0]) + 0.3 * X[:, -1] + 0.2 * rng.normal(size=n)


def rbf(X, Z, lengthscale=1.0, variance=1.0):
    difference = (X[:, None, :] - Z[None, :, :]) / lengthscale
    return variance * np.exp(-0.5 * np.sum(difference**2, axis=-1))


def posterior(K, cross, prior, r, noise):
    """Mean and covariance of f at new points, with plain linear solves."""
    K = K + np.diag(np.broadcast_to(noise, len(K)))
    return cross.T @ np.linalg.solve(K, r), prior - cross.T @ np.linalg.solve(K, cross)


# -- against scikit-learn ------------------------------------------------------------------------

# d, scikit-learn's kernel, and ours as a function of the same values in scikit-learn's order
CASES = {
    "ard": (
        2,
        sk.ConstantKernel(1.3) * sk.RBF([0.7, 1.9]),
        lambda p: RBF(lengthscale=p[1:3], variance=p[0]),
    ),
    "matern32": (
        3,
        sk.ConstantKernel(0.8) * sk.Matern(1.4, nu=1.5),
        lambda p: Matern32(lengthscale=p[1], variance=p[0]),
    ),
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


@pytest.fixture(params=CASES)
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


# -- a NumPyro distribution ----------------------------------------------------------------------


def test_site_in_a_model_against_numpyros_multivariate_normal():
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


def test_batch_of_values_as_in_any_numpyro_distribution():
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


def test_is_a_pytree():
    X, y = data(n=8)
    gp = bk.GaussianProcess(RBF(), X, NOISE, mean=lambda x: x[0], mask=np.arange(8) < 6)
    again = jax.tree.unflatten(*reversed(jax.tree.flatten(gp)))
    np.testing.assert_array_equal(again.log_prob(y), gp.log_prob(y))
    np.testing.assert_allclose(jax.jit(lambda g: g.log_prob(y))(gp), gp.log_prob(y), rtol=1e-12)


def test_sample_moments_by_simulation():
    X = np.array([0.0, 0.5, 2.0])
    gp = bk.GaussianProcess(RBF(), X, 0.1, mean=lambda x: 3.0 * x[0])
    N = 20_000
    draws = np.asarray(gp.sample(jax.random.key(1), (N,)))
    K = rbf(X[:, None], X[:, None]) + 0.1 * np.eye(3)
    # Five standard errors of a mean and of a covariance of Gaussian draws.
    np.testing.assert_array_less(np.abs(draws.mean(0) - 3 * X), 5 * np.sqrt(np.diag(K) / N))
    error = np.sqrt((np.outer(np.diag(K), np.diag(K)) + K**2) / N)
    np.testing.assert_array_less(np.abs(np.cov(draws.T) - K), 5 * error)


def test_under_numpyro_handlers():
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


def test_short_nuts_run():
    X, y = data(n=10)
    model = bk.GPRegression(
        RBF(lengthscale=dist.LogNormal(0.0, 1.0)), noise=bk.from_sd(dist.HalfNormal(0.5))
    )
    kernel = numpyro.infer.NUTS(model, max_tree_depth=4)
    mcmc = numpyro.infer.MCMC(kernel, num_warmup=20, num_samples=20, progress_bar=False)
    mcmc.run(jax.random.key(0), X, y)
    draws = mcmc.get_samples()
    assert set(draws) == {"lengthscale", "noise"}
    for values in draws.values():
        assert values.shape == (20,)
        assert np.all(np.isfinite(values))
        assert np.all(values > 0)
        assert np.ptp(values) > 0


# -- masks, noise, means, inputs -----------------------------------------------------------------


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


def test_mask_under_jit_and_gradient():
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


def test_noise_that_differs_from_point_to_point():
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
    with pytest.raises(ValueError, match=r"noise must be one number or one for each of 2 points"):
        gp.predict(X_new, noise=[0.1, 0.2, 0.3])


def test_mean_as_number_array_and_function():
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
            with pytest.raises(ValueError, match=r"give mean=.*function of one point"):
                gp.predict(X_new)


def test_data_frame_with_selected_columns():
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


def test_what_is_refused():
    X, y = data(n=5)
    with pytest.raises(ValueError, match=r"Multiquadric is not positive.*InverseMultiquadric"):
        bk.GaussianProcess(Multiquadric(), X, NOISE)
    with pytest.raises(ValueError, match=r"InverseMultiquadric"):
        bk.GPRegression((RBF() + Multiquadric()).named("a"), NOISE)
    with pytest.raises(TypeError, match=r"lengthscale of RBF.*no value yet.*sample"):
        bk.GaussianProcess(RBF(lengthscale=dist.LogNormal()), X, NOISE)
    with pytest.raises(TypeError, match=r"noise must be a number here.*GPRegression"):
        bk.GaussianProcess(RBF(), X, dist.HalfNormal())
    with pytest.raises(TypeError, match=r"must be a bayeskern kernel, got ufunc"):
        bk.GaussianProcess(np.sin, X, NOISE)
    with pytest.raises(ValueError, match=r"noise must be nonneg.*-0.1"):
        bk.GaussianProcess(RBF(), X, -0.1)
    with pytest.raises(ValueError, match=r"noise must be one number or one for each of 5 points"):
        bk.GaussianProcess(RBF(), X, np.ones(4))
    with pytest.raises(ValueError, match=r"y has 4 values but X has 5 points"):
        bk.GaussianProcess(RBF(), X, NOISE).condition(y[:4])
    with pytest.raises(ValueError, match=r"X_new has 2 columns .* conditioned on 1"):
        bk.GaussianProcess(RBF(), X, NOISE).condition(y).predict(np.ones((3, 2)))
    with pytest.raises(ValueError, match=r"the kernel has a hyperparameter called 'mean'"):
        bk.GPRegression(bk.kernels.Custom(lambda x, z, mean: mean, {"mean": 1.0}), NOISE)
    with pytest.raises(bk.NotPositiveDefiniteError, match="not positive definite"):
        # A distance is no covariance: its diagonal is 0.
        odd = bk.kernels.Custom(lambda x, z: jnp.abs(x - z).sum())
        bk.GaussianProcess(odd, X, 0.0).condition(y)


# -- what the one factor gives -------------------------------------------------------------------


def test_leave_one_out_equals_n_refits():
    X, y = data(n=12, d=2)
    noise, mean = np.linspace(0.05, 0.4, 12), 0.3
    loo = bk.GaussianProcess(Matern32(), X, noise, mean).condition(y).loo()
    for i in range(12):
        rest = np.arange(12) != i
        peer = GaussianProcessRegressor(sk.Matern(nu=1.5), alpha=noise[rest], optimizer=None)
        m, sd = peer.fit(X[rest], y[rest] - mean).predict(X[[i]], return_std=True)
        sd = np.sqrt(sd**2 + noise[i])
        np.testing.assert_allclose(loo.mean[i], m[0] + mean, atol=1e-8)
        np.testing.assert_allclose(loo.variance[i], sd[0] ** 2, atol=1e-8)
        density = norm(m[0] + mean, sd[0]).logpdf(y[i])
        np.testing.assert_allclose(loo.log_density[i], density, atol=1e-8)


def test_components_against_the_closed_form():
    X, y = data(n=25)
    X_new = np.linspace(-0.5, 5.0, 11)[:, None]
    kernel = (
        Linear(variance=0.3).named("trend")
        + 1.4 * (RBF(lengthscale=0.5).named("fast") + Matern32(lengthscale=2.0)).named("wave")
        + RBF(lengthscale=3.0, variance=0.2)
        + Constant(0.7)
    )

    def matern(A, B):
        s = np.sqrt(3.0) * np.abs(A - B.T) / 2.0
        return (1.0 + s) * np.exp(-s)

    parts = {
        "trend": lambda A, B: 0.3 * A @ B.T,
        "wave": lambda A, B: 1.4 * (rbf(A, B, 0.5) + matern(A, B)),
        "wave.fast": lambda A, B: 1.4 * rbf(A, B, 0.5),
        "rest": lambda A, B: rbf(A, B, 3.0, 0.2) + 0.7,
    }
    outer = ["trend", "wave", "rest"]
    K = sum(parts[name](X, X) for name in outer)
    prediction = bk.GaussianProcess(kernel, X, NOISE, mean=0.5).condition(y).predict(X_new)
    assert list(prediction.components) == outer
    for name, k in parts.items():
        found = prediction.component(name)
        mean, covariance = posterior(K, k(X, X_new), k(X_new, X_new), y - 0.5, NOISE)
        np.testing.assert_allclose(found.mean, mean, atol=1e-10)
        np.testing.assert_allclose(found.variance, np.diag(covariance), atol=1e-10)
    total = 0.5 + sum(prediction.component(name).mean for name in outer)
    np.testing.assert_allclose(total, prediction.mean, atol=1e-10)
    with pytest.raises(ValueError, match=r"component='wvae' is not known. Did you mean 'wave'"):
        prediction.component("wvae")


def test_joint_draws_have_the_moments_of_the_posterior():
    X, y = data(n=8)
    X_new = np.array([[0.1], [0.2], [3.0], [7.0]])
    mean, covariance = posterior(rbf(X, X), rbf(X, X_new), rbf(X_new, X_new), y, NOISE)
    gp, N = bk.GaussianProcess(RBF(), X, NOISE).condition(y), 20_000
    for prediction, K in [
        (gp.predict(X_new, latent=True), covariance),
        (gp.predict(X_new), covariance + NOISE * np.eye(4)),
    ]:
        draws = prediction.sample(N, seed=2)
        assert draws.shape == (N, 4)
        np.testing.assert_array_less(np.abs(draws.mean(0) - mean), 5 * np.sqrt(np.diag(K) / N))
        error = np.sqrt((np.outer(np.diag(K), np.diag(K)) + K**2) / N)
        np.testing.assert_array_less(np.abs(np.cov(draws.T) - K), 5 * error)
        np.testing.assert_array_equal(prediction.sample(3, seed=2), prediction.sample(3, seed=2))
        assert np.all(prediction.sample(3, seed=2) != prediction.sample(3, seed=3))


def test_draws_where_the_posterior_is_singular():
    # 60 points so close that their joint covariance has rank 3 or so, and a point of the data.
    X, y = np.array([0.0, 1.0]), np.array([0.0, 1.0])
    X_new = np.linspace(0.0, 0.1, 60)
    gp = bk.GaussianProcess(RBF(), X, 1e-10).condition(y)
    draws = gp.predict(X_new, latent=True).sample(50, seed=0)
    assert np.all(np.isfinite(draws))
    np.testing.assert_allclose(draws[:, 0], 0.0, atol=1e-4)


def test_variances_are_never_negative():
    # A straight line without noise: what remains of the variance is rounding error, and the plain
    # difference is negative at nearly every point.
    X, X_new = np.linspace(0.1, 1.0, 140), np.linspace(0.1, 1.0, 300)
    gp = bk.GaussianProcess(Linear(), X, 0.0).condition(2.0 * X)
    assert np.mean(np.diag(gp.covariance(X_new)) < 0.0) > 0.5
    prediction = gp.predict(X_new, latent=True)
    assert np.all(prediction.variance > 0.0)
    assert np.all(prediction.variance < 1e-12)
    assert np.all(np.isfinite(prediction.interval(0.95)))


def test_chunks_make_no_difference(monkeypatch):
    X, y = data(n=20)
    X_new = np.linspace(0, 5, 600)
    gp = bk.GaussianProcess(RBF() + Linear().named("trend"), X, NOISE).condition(y)
    whole = gp.predict(X_new)
    expected = whole.mean, whole.sd, whole.component("trend").sd
    sizes, original = [], gp_module.posterior_moments
    monkeypatch.setattr(gp_module, "CHUNK", 1)
    monkeypatch.setattr(
        gp_module,
        "_moments_jit",
        lambda g, k, x: sizes.append(len(x)) or original(g, k, x),
    )
    chunked = gp.predict(X_new)
    found = chunked.mean, chunked.sd, chunked.component("trend").sd
    assert sizes == 2 * [256, 256, 88]
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)


def test_the_mean_alone_does_no_variance_work(monkeypatch):
    X, y = data(n=21)  # sizes that no other test has compiled
    X_new = np.linspace(0, 1, 13)
    gp = bk.GaussianProcess(RBF(), X, NOISE).condition(y)
    model = bk.GPRegression(RBF(lengthscale=dist.LogNormal()), NOISE)
    mixed = model.predictive({"lengthscale": np.array([1.0, 1.0])}, model.prepare(X, y)[1], X_new)

    def whiten(self, B):
        raise AssertionError("variance work")

    monkeypatch.setattr(DenseFactor, "whiten", whiten)
    mean = rbf(X, X_new[:, None]).T @ np.linalg.solve(rbf(X, X) + NOISE * np.eye(21), y)
    np.testing.assert_allclose(gp.predict(X_new).mean, mean, atol=1e-10)
    np.testing.assert_allclose(mixed.mean, mean, atol=1e-10)
    for prediction in (gp.predict(X_new), mixed):
        with pytest.raises(AssertionError, match="variance work"):
            _ = prediction.sd


def test_white_noise_in_the_kernel_is_part_of_a_new_observation():
    X, y = data(n=10)
    gp = bk.GaussianProcess(RBF() + White(variance=0.3).named("white"), X, NOISE).condition(y)
    mean, covariance = posterior(rbf(X, X), rbf(X, X), rbf(X, X), y, NOISE + 0.3)
    found = gp.predict(X, latent=True)
    np.testing.assert_allclose(found.mean, mean, atol=1e-10)
    np.testing.assert_allclose(found.variance, np.diag(covariance) + 0.3, atol=1e-10)


def test_noise_free_interpolation_reports_its_jitter():
    X = np.linspace(0.0, 1.0, 60)
    gp = bk.GaussianProcess(RBF(lengthscale=0.3), X, 0.0).condition(np.sin(6 * X))
    # Relative to a diagonal of 1, at most 1e6 times n eps.
    assert 0.0 < gp.jitter <= 1e6 * 60 * np.finfo(float).eps
    np.testing.assert_allclose(gp.predict(X).mean, np.sin(6 * X), atol=1e-5)


# -- the regression model ------------------------------------------------------------------------

MODEL = bk.GPRegression(
    Linear(variance=dist.HalfNormal(1.0)).named("trend")
    + RBF(lengthscale=dist.LogNormal(0.0, 1.0), variance=bk.Free(1.2)).named("wave"),
    noise=bk.from_sd(dist.HalfNormal(0.5)),
    mean=dist.Normal(0.0, 2.0),
)
DRAWS = {
    "trend.variance": np.array([0.1, 0.5, 1.5]),
    "wave.lengthscale": np.array([0.3, 0.8, 2.0]),
    "wave.variance": np.array([0.5, 1.0, 3.0]),
    "noise": np.array([0.02, 0.1, 0.4]),
    "mean": np.array([-1.0, 0.0, 4.0]),
}


def by_hand(X, y, X_new, s):
    """Mean and covariance of the whole function and of its parts, for the s-th of DRAWS."""
    v, ell, w, noise, m = (values[s] for values in DRAWS.values())

    def trend(A, B):
        return v * A @ B.T

    def wave(A, B):
        return rbf(A, B, ell, w)

    def whole(A, B):
        return trend(A, B) + wave(A, B)

    K = whole(X, X)
    found = {}
    for name, k in {"": whole, "trend": trend, "wave": wave}.items():
        mean, covariance = posterior(K, k(X, X_new), k(X_new, X_new), y - m, noise)
        found[name] = mean if name else mean + m, covariance
    return found, noise


def test_sites_names_and_density_of_the_model():
    X, y = data(n=9)
    values = {name: draws[1] for name, draws in DRAWS.items()}
    trace = handlers.trace(handlers.substitute(MODEL, values)).get_trace(X, y)
    kinds = {name: (site["type"], site.get("is_observed")) for name, site in trace.items()}
    assert kinds == {
        "trend.variance": ("sample", False),
        "wave.lengthscale": ("sample", False),
        "wave.variance": ("param", None),
        "noise": ("sample", False),
        "mean": ("sample", False),
        "y": ("sample", True),
    }
    K = 0.5 * X @ X.T + rbf(X, X, 0.8, 1.0) + 0.1 * np.eye(9)
    expected = multivariate_normal(np.zeros(9), K).logpdf(y)
    np.testing.assert_allclose(trace["y"]["fn"].log_prob(y), expected, rtol=1e-10)
    assert set(handlers.trace(handlers.seed(MODEL, 0)).get_trace(X)) == set(kinds)
    # The prior of a variance whose root is HalfNormal(0.5): its density at 0.1 by substitution.
    at = 2 * norm(0, 0.5).pdf(np.sqrt(0.1)) / (2 * np.sqrt(0.1))
    np.testing.assert_allclose(trace["noise"]["fn"].log_prob(0.1), np.log(at), rtol=1e-10)


@pytest.mark.parametrize("latent", [False, True])
def test_prediction_over_draws_is_the_mixture(latent):
    X, y = data(n=9)
    X_new = np.linspace(-1, 6, 7)[:, None]
    _, prepared = MODEL.prepare(X, y)
    prediction = MODEL.predictive(DRAWS, prepared, X_new, latent=latent)
    each = [by_hand(X, y, X_new, s) for s in range(3)]
    for name in ("", "trend", "wave"):
        found = prediction.component(name) if name else prediction
        means = np.array([parts[name][0] for parts, _ in each])
        variances = np.array([np.diag(parts[name][1]) for parts, _ in each])
        if not name and not latent:
            variances = variances + np.array([noise for _, noise in each])[:, None]
        mean = means.mean(0)
        second_moment = (variances + means**2).mean(0)
        np.testing.assert_allclose(found.mean, mean, atol=1e-9)
        np.testing.assert_allclose(found.variance, second_moment - mean**2, atol=1e-9)
    assert prediction.components == ("trend", "wave")


def test_one_draw_is_the_single_process():
    X, y = data(n=9)
    X_new = np.linspace(-1, 6, 5)
    _, prepared = MODEL.prepare(X, y)
    one = MODEL.predictive({k: v[:1] for k, v in DRAWS.items()}, prepared, X_new)
    fixed = MODEL.at({k: v[0] for k, v in DRAWS.items()})
    parts, noise = by_hand(X, y, X_new[:, None], 0)
    for prediction in (one, fixed.condition(X, y).predict(X_new)):
        np.testing.assert_allclose(prediction.mean, parts[""][0], atol=1e-9)
        np.testing.assert_allclose(prediction.variance, np.diag(parts[""][1]) + noise, atol=1e-9)
    assert MODEL.kernel.hyperparameters()["wave.variance"].init == 1.2  # `at` made a copy


def test_mask_in_the_model():
    X, y = data(n=9)
    keep = np.arange(9) != 4
    _, prepared = MODEL.prepare(X, np.where(keep, y, 99.0), keep)
    found = MODEL.predictive(DRAWS, prepared, X)
    _, dropped = MODEL.prepare(X[keep], y[keep])
    expected = MODEL.predictive(DRAWS, dropped, X)
    np.testing.assert_allclose(found.mean, expected.mean, atol=1e-9)
    np.testing.assert_allclose(found.sd, expected.sd, atol=1e-9)


def test_at_most_two_hundred_draws_evenly_spaced_in_rank_are_averaged():
    X, y = data(n=4)
    model = bk.GPRegression(RBF(), noise=dist.HalfNormal(), mean=0.0)
    noises = np.random.default_rng(0).uniform(0.01, 1.0, 450)
    found = model.predictive({"noise": noises}, model.prepare(X, y)[1], [0.5, 1.5])
    K, cross = rbf(X, X), rbf(X, np.array([[0.5], [1.5]]))

    def average(noises):
        return np.mean([cross.T @ np.linalg.solve(K + s * np.eye(4), y) for s in noises], axis=0)

    used = np.sort(noises)[((np.arange(200) + 0.5) * 450 / 200).astype(int)]
    np.testing.assert_allclose(found.mean, average(used), atol=1e-10)
    # Which is closer to the average of all than as many draws in the order in which they came.
    by_order = noises[np.linspace(0, 449, 200).round().astype(int)]
    error = np.abs(average(used) - average(noises)).max()
    assert 1e-8 < error < 0.3 * np.abs(average(by_order) - average(noises)).max()


def test_draws_of_the_mixture():
    X, y = data(n=5)
    X_new = np.array([[0.3], [5.0]])
    _, prepared = MODEL.prepare(X, y)
    prediction = MODEL.predictive(DRAWS, prepared, X_new)
    N = 15_000
    draws = prediction.sample(N, seed=0)
    assert draws.shape == (N, 2)
    each = [by_hand(X, y, X_new, s) for s in range(3)]
    means = np.array([parts[""][0] for parts, _ in each])
    inside = np.mean([parts[""][1] + noise * np.eye(2) for parts, noise in each], axis=0)
    covariance = inside + np.cov(means.T, bias=True)
    scale = np.sqrt(np.diag(covariance))
    # Draws are stratified over the mixture, so these errors are upper bounds, but for the fourth
    # moments of the mixture: kurtosis 3 makes sqrt(2 / N), and six of those are allowed.
    np.testing.assert_array_less(np.abs(draws.mean(0) - means.mean(0)), 5 * scale / np.sqrt(N))
    bound = 6 * np.sqrt(2 / N) * np.outer(scale, scale)
    np.testing.assert_array_less(np.abs(np.cov(draws.T) - covariance), bound)
    wave = prediction.component("wave").sample(N, seed=0)
    means = np.array([parts["wave"][0] for parts, _ in each])
    inside = np.mean([np.diag(parts["wave"][1]) for parts, _ in each], axis=0)
    sd = np.sqrt(inside + means.var(0))
    np.testing.assert_array_less(np.abs(wave.mean(0) - means.mean(0)), 5 * sd / np.sqrt(N))


def test_few_draws_are_spread_over_all_hyperparameters():
    # Two chains that disagree: half of any number of draws must come from each.
    X, y = data(n=4)
    model = bk.GPRegression(RBF(variance=1e-6), noise=1e-2, mean=dist.Normal(0.0, 100.0))
    levels = np.repeat([-50.0, 50.0], 60)
    prediction = model.predictive({"mean": levels}, model.prepare(X, y)[1], [0.5])
    for n in (2, 20, 100, 301):
        draws = prediction.sample(n, seed=1)[:, 0]
        assert abs(np.sum(draws > 0) - n / 2) <= 1
    # In random order, so that the first few are from both as well (2 x 0.5^20 to fail).
    assert 0 < np.sum(prediction.sample(100, seed=1)[:20] > 0) < 20


def test_a_model_without_hyperparameters_to_draw():
    X, y = data(n=6)
    model = bk.GPRegression(RBF(), noise=NOISE)
    found = model.predictive({}, model.prepare(X, y)[1], [0.5, 9.0])
    X_new = np.array([[0.5], [9.0]])
    mean, covariance = posterior(rbf(X, X), rbf(X, X_new), rbf(X_new, X_new), y, NOISE)
    np.testing.assert_allclose(found.mean, mean, atol=1e-10)
    np.testing.assert_allclose(found.variance, np.diag(covariance) + NOISE, atol=1e-10)
    assert found.sample(3).shape == (3, 2)


def test_prediction_says_so_when_a_draw_cannot_be_factored():
    X = np.zeros(3)
    model = bk.GPRegression(RBF(), noise=dist.HalfNormal())
    prepared = model.prepare(X, np.arange(3.0))[1]
    broken = model.predictive({"noise": np.array([0.1, np.nan])}, prepared, [0.0])
    with pytest.raises(FloatingPointError, match="NaN.*posterior.trust"):
        _ = broken.sd


def test_noise_and_mean_by_point_are_unknown_at_new_points():
    # As many new points as old ones: the values at the old ones must not be taken for them.
    X, y = data(n=4)
    noisy = bk.GPRegression(RBF(), noise=dist.HalfNormal().expand([4]))
    prepared, draws = noisy.prepare(X, y)[1], {"noise": np.full((2, 4), 0.1)}
    with pytest.raises(ValueError, match="training noise differs from point to point"):
        _ = noisy.predictive(draws, prepared, X + 1.0).sd
    K, cross = rbf(X, X) + 0.1 * np.eye(4), rbf(X, X + 1.0)
    found = noisy.predictive(draws, prepared, X + 1.0, latent=True).mean
    np.testing.assert_allclose(found, cross.T @ np.linalg.solve(K, y), atol=1e-10)
    shifted = bk.GPRegression(RBF(), noise=dist.HalfNormal(), mean=np.arange(4.0))
    with pytest.raises(ValueError, match="prior mean was given as an array"):
        _ = shifted.predictive({"noise": np.ones(2)}, prepared, X + 1.0).mean
