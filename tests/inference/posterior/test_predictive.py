"""Predictions of any model: closed forms of conjugate models, and plain linear algebra."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro import handlers
from scipy.stats import norm, poisson

import bayeskern as bk
from bayeskern.core import batching
from bayeskern.inference import Laplace
from bayeskern.kernels import RBF
from bayeskern.prediction.empirical import Predictions, SampledPrediction
from tests.compilations import compilations
from tests.inference.any_draws import AnyDraws


def fit(model, *args, method=None, **kwargs):
    method = Laplace(draws=2000) if method is None else method
    return bk.infer(model, *args, method=method, progress=False, **kwargs)


def normal_model(y=None, n=1, sd=0.5):
    mu = numpyro.sample("mu", dist.Normal(1.0, 2.0))
    with numpyro.plate("n", n if y is None else len(y)):
        numpyro.sample("y", dist.Normal(mu, sd), obs=y)


Y = np.array([0.3, -1.2, 2.0, 0.7, 1.1])


def conjugate():
    """Mean and variance of mu given Y."""
    precision = 1 / 4 + 5 / 0.25
    return (1 / 4 + Y.sum() / 0.25) / precision, 1 / precision


# -- draws ---------------------------------------------------------------------------------------


def test_posterior_predictive_of_a_conjugate_normal():
    posterior = fit(normal_model, Y, method=Laplace(draws=20_000))
    mean, variance = conjugate()
    truth = norm(mean, np.sqrt(variance + 0.25))
    new = posterior.predict(n=2)
    assert new.draws.shape == (20_000, 2)
    # Five standard errors.
    np.testing.assert_allclose(new.mean, truth.mean(), atol=5 * truth.std() / np.sqrt(20_000))
    np.testing.assert_allclose(new.sd, truth.std(), rtol=5 / np.sqrt(2 * 20_000))
    np.testing.assert_allclose(new.variance, new.sd**2)
    for p in (0.025, 0.3, 0.975):
        error = np.sqrt(p * (1 - p) / 20_000) / truth.pdf(truth.ppf(p))
        np.testing.assert_allclose(new.quantile(p), truth.ppf(p), atol=5 * error)
    # Two new observations share mu, and nothing else.
    correlation = np.corrcoef(new.draws.T)[0, 1]
    np.testing.assert_allclose(correlation, variance / truth.var(), atol=0.04)


def test_interval_quantile_frame_and_sample_agree():
    posterior = fit(normal_model, Y)
    new, same, other = (posterior.predict(n=3, seed=seed) for seed in (3, 3, 4))
    np.testing.assert_array_equal(new.draws, same.draws)
    assert not np.any(new.draws == other.draws)
    lower, upper = new.interval(0.9)
    truth = np.quantile(new.draws, [0.05, 0.5, 0.95], axis=0)
    np.testing.assert_allclose([lower, new.median, upper], truth, rtol=1e-12)
    np.testing.assert_allclose(new.quantile([0.05, 0.5, 0.95]), truth, rtol=1e-12)
    frame = new.to_frame(0.9)
    assert list(frame.columns) == ["mean", "sd", "median", "lower", "upper"] and len(frame) == 3
    np.testing.assert_array_equal(frame["upper"], upper)
    assert new.sample(7, seed=1).shape == (7, 3) and new.sample(5000).shape == (5000, 3)
    np.testing.assert_array_equal(new.sample(7, seed=1), new.sample(7, seed=1))
    assert not np.array_equal(new.sample(7, seed=1), new.sample(7, seed=2))
    # All of the draws, before any comes twice.
    np.testing.assert_array_equal(np.sort(new.sample(2000), axis=0), np.sort(new.draws, axis=0))
    with pytest.raises(ValueError, match="strictly between 0 and 1"):
        new.interval(95)


@pytest.mark.slow
def test_quantiles_of_counts_are_integers():
    def model(y=None):
        rate = numpyro.sample("rate", dist.Gamma(400.0, 100.0))
        numpyro.sample("y", dist.Poisson(rate), obs=y)

    new = fit(model, np.array([4])).predict()
    assert new.draws.dtype.kind == "i" and new.quantile([0.1, 0.5, 0.9]).dtype.kind == "i"
    # The rate is all but known.
    assert abs(int(new.median) - poisson(4.0).ppf(0.5)) <= 1
    np.testing.assert_allclose(new.mean, 4.0, atol=0.3)


def test_frame_of_a_site_with_several_axes():
    draws = np.arange(24.0).reshape(4, 2, 3)
    frame = SampledPrediction("y", draws).to_frame()
    assert list(frame.index) == [(i, j) for i in range(2) for j in range(3)]
    np.testing.assert_array_equal(frame["mean"], draws.mean(axis=0).ravel())


def test_nan_prediction_is_an_error():
    with pytest.raises(FloatingPointError, match="prediction of 'y' is NaN"):
        SampledPrediction("y", [1.0, np.nan])


def test_several_sites_are_returned_by_name():
    def model(y=None, k=None):
        mu = numpyro.sample("mu", dist.Normal(0.0, 1.0))
        numpyro.factor("penalty", -0.5 * mu**2)
        numpyro.sample("y", dist.Normal(mu, 1.0), obs=y)
        numpyro.sample("k", dist.Bernoulli(logits=mu), obs=k)

    new = fit(model, np.array([0.2]), np.array([1]), method=AnyDraws(2000)).predict()
    assert isinstance(new, Predictions) and list(new) == ["y", "k"]
    assert set(np.unique(new["k"].draws)) == {0, 1}
    with pytest.raises(AttributeError, match=r"'y', 'k'.*predictions\['y'\].mean"):
        _ = new.mean


def test_data_among_the_arguments_are_ignored():
    def bare(y, scale=1.0):
        mu = numpyro.sample("mu", dist.Normal(0.0, 1.0))
        # Neither a plate nor a shape of its own.
        numpyro.sample("y", dist.Normal(mu, scale), obs=y)

    posterior = fit(bare, Y, scale=0.1)
    new = posterior.predict(Y, scale=0.1)
    assert new.draws.shape == (2000, 5)
    np.testing.assert_allclose(new.sd, np.hypot(posterior.flat["mu"].std(), 0.1), rtol=0.1)
    # The noise of each observation is its own.
    assert abs(np.corrcoef((new.draws - posterior.flat["mu"][:, None]).T)[0, 1]) < 0.1


def test_masked_multivariate_site_keeps_its_shape():
    keep = np.array([True, False, True])

    def model(y=None):
        mu = numpyro.sample("mu", dist.Normal(0.0, 1.0).expand([2]).to_event(1))
        with numpyro.plate("n", 3), handlers.mask(mask=keep):
            numpyro.sample("y", dist.Normal(mu, 1.0).to_event(1), obs=y)

    posterior = fit(model, np.zeros((3, 2)), method=AnyDraws(2000))
    assert posterior.predict().draws.shape == (2000, 3, 2)
    assert posterior.predict(np.zeros((3, 2))).draws.shape == (2000, 3, 2)


def test_point_estimate_draws_observations_at_its_point():
    posterior = fit(normal_model, Y, method="map")
    new = posterior.predict(n=2)
    assert new.draws.shape == (1000, 2)
    np.testing.assert_allclose(new.mean, conjugate()[0], atol=5 * 0.5 / np.sqrt(1000))
    np.testing.assert_allclose(new.sd, 0.5, rtol=0.12)


@pytest.mark.slow
def test_subsampled_plates_are_predicted_in_full():
    def model(X, y=None):
        b = numpyro.sample("b", dist.Normal(0.0, 1.0))
        with numpyro.plate("rows", len(X), subsample_size=2) as rows:
            batch = None if y is None else y[rows]
            numpyro.sample("y", dist.Normal(b * X[rows], 0.01), obs=batch)

    X = jnp.arange(6.0)
    posterior = fit(model, X, 2.0 * X)
    np.testing.assert_allclose(posterior.predict(X).mean, 2.0 * X, atol=0.02)
    np.testing.assert_allclose(posterior.predict(X, 2.0 * X).mean, 2.0 * X, atol=0.02)
    assert posterior.predict(jnp.arange(8.0)).mean.shape == (8,)


def test_latent_of_another_shape_is_named():
    def model(groups, y=None):
        with numpyro.plate("group", groups):
            a = numpyro.sample("a", dist.Normal(0.0, 1.0))
            numpyro.sample("y", dist.Normal(a, 1.0), obs=y)

    posterior = fit(model, 3, np.zeros(3), method=AnyDraws(2000))
    assert posterior.predict(3).mean.shape == (3,)
    with pytest.raises(ValueError, match=r"'a' has shape \(4,\)"):
        posterior.predict(4)


@pytest.mark.slow
def test_deterministics_at_new_arguments(tmp_path):
    """Computed from the draws by NumPy; of another shape than in the fit."""

    def model(X, y=None):
        a = numpyro.sample("a", dist.Normal(0.0, 1.0))
        b = numpyro.sample("b", dist.Normal(0.0, 1.0).expand([2]).to_event(1))
        mu = numpyro.deterministic("mu", a + X @ b)
        numpyro.deterministic("odds", jnp.exp(mu[0]))
        numpyro.sample("y", dist.Normal(mu, 1.0), obs=y)

    rng = np.random.default_rng(3)
    X, X_new = rng.normal(size=(6, 2)), rng.normal(size=(4, 2))
    posterior = fit(model, X, X[:, 0])
    found, flat = posterior.deterministics(X_new), posterior.flat
    mu = flat["a"][:, None] + flat["b"] @ X_new.T
    assert set(found) == {"mu", "odds"}
    np.testing.assert_allclose(found["mu"], mu, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(found["odds"], np.exp(mu[:, 0]), rtol=1e-12)
    posterior.save(tmp_path / "fit.nc")
    loaded = bk.load(tmp_path / "fit.nc", model=model)
    np.testing.assert_allclose(loaded.deterministics(X_new)["mu"], mu, rtol=1e-12, atol=1e-12)
    with pytest.raises(ValueError, match="needs the model"):
        bk.load(tmp_path / "fit.nc").deterministics(X_new)


class Closed(eqx.Module):
    """A normal mean, with predictions of its own."""

    has_deterministics: bool

    def __call__(self, y):
        mu = numpyro.sample("mu", dist.Normal(0.0, 1.0))
        if self.has_deterministics:
            numpyro.deterministic("twice", 2.0 * mu)
        numpyro.sample("y", dist.Normal(mu, 1.0), obs=y)

    def predictive(self, draws, args, *new_args, seed=0, **new_kwargs):
        raise NotImplementedError


def test_models_without_new_deterministics():
    assert fit(normal_model, Y, method=AnyDraws(10)).deterministics(n=2) == {}
    assert fit(Closed(False), Y, method=AnyDraws(10)).deterministics(3) == {}
    with pytest.raises(ValueError, match="Closed predicts in closed form"):
        fit(Closed(True), Y, method=AnyDraws(10)).deterministics(3)


def test_chunks_do_not_change_the_draws(monkeypatch):
    posterior = fit(normal_model, Y)
    whole = posterior.predict(n=3).draws
    sizes = []
    monkeypatch.setattr(batching, "CHUNK", 3 * 100)
    original = jax.device_get
    monkeypatch.setattr(
        jax, "device_get", lambda x: sizes.extend(v.size for v in jax.tree.leaves(x)) or original(x)
    )
    np.testing.assert_array_equal(posterior.predict(n=3).draws, whole)
    # Sixteen parts of at most 128 draws, all of one shape.
    assert sizes == [3 * 128] * 16


@pytest.mark.slow
def test_second_prediction_does_not_recompile():
    def model(X, y=None):
        b = numpyro.sample("b", dist.Normal(0.0, 1.0))
        numpyro.sample("y", dist.Normal(numpyro.deterministic("mu", b * X), 1.0), obs=y)

    X = np.arange(5.0)
    first = fit(model, X, X)
    first.predict(X + 1.0)
    first.deterministics(X + 1.0)
    again = fit(model, X, X - 1.0)
    before = len(compilations)
    again.predict(X + 2.0, seed=1)
    again.deterministics(X + 2.0, seed=1)
    assert len(compilations) == before


# -- Gaussian processes --------------------------------------------------------------------------

KERNEL = RBF(lengthscale=dist.LogNormal(0.0, 0.5), variance=dist.HalfNormal(1.0))


def regression():
    return bk.GPRegression(KERNEL, noise=dist.LogNormal(-3.0, 0.5), mean=dist.Normal(0.0, 1.0))


def by_hand(X, y=None, mask=None):
    kernel = bk.sample(KERNEL)
    noise = numpyro.sample("noise", dist.LogNormal(-3.0, 0.5))
    mean = numpyro.sample("mean", dist.Normal(0.0, 1.0))
    numpyro.sample("y", bk.GaussianProcess(kernel, X, noise, mean, mask), obs=y)


def series(n=25):
    rng = np.random.default_rng(0)
    X = np.sort(rng.uniform(0.0, 5.0, n))
    return X, np.sin(X) + 0.2 * rng.normal(size=n)


def condition(draw, X, y, X_new):
    """Mean and covariance of new observations, by plain linear solves."""

    def k(a, b):
        r = (a[:, None] - b[None, :]) / draw["lengthscale"]
        return draw["variance"] * np.exp(-0.5 * r**2)

    K, cross = k(X, X) + draw["noise"] * np.eye(len(X)), k(X, X_new)
    mean = draw["mean"] + cross.T @ np.linalg.solve(K, y - draw["mean"])
    covariance = k(X_new, X_new) - cross.T @ np.linalg.solve(K, cross)
    return mean, covariance + draw["noise"] * np.eye(len(X_new))


@pytest.mark.slow
def test_handwritten_process_is_conditioned_on_its_data():
    X, y = series()
    X_new = np.linspace(-1.0, 6.0, 9)
    posterior = fit(by_hand, X, y, method="map")
    new = posterior.predict(X_new)
    mean, covariance = condition({k: v[0] for k, v in posterior.flat.items()}, X, y, X_new)
    np.testing.assert_allclose(new.mean, mean, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(new.variance, np.diag(covariance), rtol=1e-8)
    np.testing.assert_allclose(np.cov(new.sample(20_000, seed=0).T), covariance, atol=0.02)
    # New data among the arguments change nothing.
    np.testing.assert_array_equal(posterior.predict(X_new, np.ones(9)).mean, new.mean)


@pytest.mark.slow
def test_prediction_is_a_mixture_over_hyperparameter_draws():
    X, y = series()
    X_new = np.linspace(-1.0, 6.0, 5)
    posterior = fit(by_hand, X, y, method=Laplace(draws=150))
    new = posterior.predict(X_new)
    parts = [
        condition({k: v[i] for k, v in posterior.flat.items()}, X, y, X_new) for i in range(150)
    ]
    means, variances = (np.array(a) for a in zip(*((m, np.diag(C)) for m, C in parts), strict=True))
    np.testing.assert_allclose(new.mean, means.mean(axis=0), rtol=1e-8, atol=1e-10)
    truth = variances.mean(axis=0) + means.var(axis=0)
    np.testing.assert_allclose(new.variance, truth, rtol=1e-8)
    np.testing.assert_allclose(np.var(new.sample(20_000), axis=0), truth, rtol=0.08)


@pytest.mark.slow
@pytest.mark.parametrize("masked", [False, True])
def test_gp_regression_equals_the_handwritten_model(masked):
    X, y = series()
    mask = (np.arange(len(X)) % 4 > 0) if masked else None
    data = (X, y) if mask is None else (X, y, mask)
    ours = fit(regression(), *data, method=AnyDraws(2000))
    hand = fit(by_hand, *data, method=AnyDraws(1))
    hand = dataclasses.replace(hand, draws={k: ours.draws[k] for k in hand.draws})
    X_new = np.linspace(-1.0, 6.0, 300)
    a, b = ours.predict(X_new), hand.predict(X_new)
    np.testing.assert_allclose(a.mean, b.mean, rtol=0, atol=1e-8)
    np.testing.assert_allclose(a.variance, b.variance, rtol=0, atol=1e-8)
    np.testing.assert_allclose(a.interval(0.9), b.interval(0.9), rtol=0, atol=1e-8)
    # Draws of other sites are ignored.
    with_f = {**ours.draws, "f": np.zeros((1, 2000, len(X)))}
    more = dataclasses.replace(ours, draws=with_f)
    np.testing.assert_array_equal(more.predict(X_new).mean, a.mean)


@pytest.mark.slow
def test_process_and_other_sites_are_predicted_together():
    def model(X, y=None, k=None):
        scale = numpyro.sample("scale", dist.LogNormal(0.0, 0.5))
        numpyro.sample("y", bk.GaussianProcess(RBF(lengthscale=scale), X, 0.1), obs=y)
        numpyro.sample("k", dist.Poisson(scale), obs=k)

    X, y = series(10)
    posterior = fit(model, X, y, np.array([2, 1]), method=AnyDraws(2000))
    new = posterior.predict(X[:4], None, np.array([0]))
    assert list(new) == ["y", "k"]
    assert isinstance(new["y"], bk.Prediction) and new["y"].mean.shape == (4,)
    assert new["k"].draws.shape == (2000, 1)


@pytest.mark.slow
def test_process_under_a_plate_is_refused():
    def model(X, y=None):
        scale = numpyro.sample("scale", dist.LogNormal(0.0, 0.5))
        with numpyro.plate("series", 2):
            numpyro.sample("y", bk.GaussianProcess(RBF(lengthscale=scale), X, 0.1), obs=y)

    X, y = series(10)
    posterior = fit(model, X, np.stack([y, -y]), method=AnyDraws(1))
    with pytest.raises(ValueError, match="'y' is a GaussianProcess under a plate"):
        posterior.predict(X)
