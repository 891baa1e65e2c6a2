"""Latent Gaussian processes with priors: sites, predictions, and both forms of the model."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pandas as pd
import pytest
from numpyro import handlers
from scipy.special import gammaln

import bayeskern as bk
from bayeskern import likelihoods
from bayeskern.gp import LatentGP, LatentProcess
from bayeskern.kernels import RBF, Linear, Matern32, Multiquadric
from tests.marks import few

PRIOR = dist.LogNormal(0.0, 0.5)


def data(n=20, seed=0):
    rng = np.random.default_rng(seed)
    X = np.sort(rng.uniform(0.0, 4.0, n))
    return X, np.sin(2.0 * X), rng.normal(size=n)


def trace(model, *args, **kwargs):
    return handlers.trace(handlers.seed(model, 0)).get_trace(*args, **kwargs)


def names(model, *args, **kwargs):
    return [k for k, site in trace(model, *args, **kwargs).items() if site["type"] != "plate"]


# -- the sites -------------------------------------------------------------------------------------


def test_sites_of_kernel_likelihood_and_mean():
    X, f, noise = data()
    model = LatentGP(
        RBF(lengthscale=PRIOR).named("short") + Linear(variance=PRIOR).named("trend"),
        likelihoods.StudentT(df=4.0, scale=PRIOR),
        mean=dist.Normal(),
    )
    hyper = ["likelihood.scale", "short.lengthscale", "trend.variance", "mean"]
    integrated = dataclasses.replace(model, integrate=True)
    assert names(integrated, X, f + noise) == [*hyper, "y"]
    kept = trace(model, X, f + noise)
    assert [k for k in kept] == [*hyper, "white", "f", "y"]
    assert kept["white"]["value"].shape == kept["f"]["value"].shape == (20,)


def test_kernels_of_several_outputs_are_named_or_numbered():
    X, f, _ = data()
    kernels = (RBF(variance=PRIOR), Matern32(variance=PRIOR).named("spread"))
    model = LatentGP(kernels, likelihoods.Heteroscedastic())
    found = trace(model, X, f)
    assert list(found) == ["f0.variance", "spread.variance", "white", "f", "y"]
    assert found["f"]["value"].shape == (2, 20)
    at = model.at({"f0.variance": 2.0, "spread.variance": 3.0})
    assert (float(at.kernel[0].variance), float(at.kernel[1].inner.variance)) == (2.0, 3.0)


def test_f_is_mean_plus_cholesky_factor_times_white():
    X, f, _ = data(6)
    kernels = (RBF(variance=1.5), Matern32(lengthscale=2.0))
    model = LatentGP(kernels, likelihoods.Heteroscedastic(), mean=jnp.array([1.0, -1.0]))
    found = trace(model, X, f)
    white = np.asarray(found["white"]["value"])
    for c, kernel in enumerate(kernels):
        L = np.linalg.cholesky(np.asarray(kernel(X)) + 1e-13 * np.eye(6))
        np.testing.assert_allclose(
            found["f"]["value"][c], [1.0, -1.0][c] + L @ white[c], rtol=0, atol=1e-6
        )


def test_exposure_is_given_by_name():
    X, f, _ = data(6)
    y = np.round(np.exp(f))
    model = LatentGP(RBF(), likelihoods.Poisson(), integrate=True)
    exposure = np.linspace(1.0, 2.0, 6)
    found = trace(model, X, y, exposure=exposure)["y"]["fn"].log_prob(y)
    wanted = LatentProcess(RBF(), X, likelihoods.Poisson(), extra={"exposure": exposure})
    np.testing.assert_allclose(found, wanted.log_prob(y), rtol=1e-12)
    prepared, arguments = model.prepare(X, y, exposure=exposure)
    np.testing.assert_allclose(trace(prepared, *arguments)["y"]["fn"].log_prob(y), found)


def test_repeated_names_are_refused():
    with pytest.raises(ValueError, match=r"'level.lengthscale' stands for several"):
        LatentGP((RBF().named("level"), RBF().named("level")), likelihoods.Heteroscedastic())


def test_bad_arguments_are_refused():
    X, _, _ = data(6)
    with pytest.raises(ValueError, match="Multiquadric is not positive definite"):
        LatentGP(Multiquadric(), likelihoods.Poisson())
    with pytest.raises(TypeError, match="likelihood must be one of"):
        LatentGP(RBF(), "poisson")
    with pytest.raises(ValueError, match="outside the support of Poisson"):
        LatentGP(RBF(), likelihoods.Poisson()).prepare(X, [1, -1, 0, 0, 0, 0])
    with pytest.raises(ValueError, match="Poisson takes no trials"):
        LatentGP(RBF(), likelihoods.Poisson()).prepare(X, np.ones(6), trials=3)


# -- the form -------------------------------------------------------------------------------------


def test_inference_method_decides_whether_f_is_integrated_out():
    model = LatentGP(RBF(dist.LogNormal(0.0, 1.0)), likelihoods.Poisson())
    # A method that cannot sample n or more coordinates must not be given f.
    for name, method in bk.inference.METHODS.items():
        samples_f = name in ("nuts", "svi", "pathfinder")
        assert method.samples_latents is samples_f
        assert model.for_method(name, method.samples_latents, True).integrate is not samples_f
    given = dataclasses.replace(model, integrate=True)
    assert given.for_method("nuts", True, True).integrate is True
    kinked = LatentGP(RBF(dist.LogNormal(0.0, 1.0)), likelihoods.Laplace(scale=1.0))
    known = LatentGP(RBF(0.8), likelihoods.Poisson())
    for other in (kinked, known):
        assert other.for_method("laplace", False, True).integrate is False


@pytest.mark.slow
def test_nuts_on_f_against_importance_sampling():
    X = np.array([0.0, 0.5, 1.0, 3.0])
    y = np.array([3, 1, 0, 6])
    model = LatentGP(RBF(lengthscale=0.8, variance=1.5), likelihoods.Poisson(), 0.2, False)
    posterior = bk.infer(
        model, X, y, exposure=2.0, method=bk.NUTS(chains=2, warmup=300, draws=1000), progress=False
    )
    # Importance sampling from the prior, in NumPy.
    K = 1.5 * np.exp(-0.5 * np.square(X[:, None] - X) / 0.64)
    f = np.random.default_rng(0).multivariate_normal(np.full(4, 0.2), K, 400_000)
    log_w = np.sum(y * (np.log(2.0) + f) - 2.0 * np.exp(f) - gammaln(y + 1.0), axis=1)
    w = np.exp(log_w - np.max(log_w))
    w = w / np.sum(w)
    mean, sd = w @ f, np.sqrt(w @ f**2 - (w @ f) ** 2)
    drawn = posterior.flat["f"]
    np.testing.assert_allclose(drawn.mean(axis=0), mean, atol=np.max(5.0 * sd / np.sqrt(600)))
    np.testing.assert_allclose(drawn.std(axis=0), sd, rtol=0.15)
    # At the points themselves a prediction is what was drawn there.
    latent = posterior.predict(X, latent=True)
    thinned = drawn[np.linspace(0, len(drawn) - 1, 200).round().astype(int)]
    np.testing.assert_allclose(latent.mean, thinned.mean(axis=0), rtol=0, atol=1e-6)
    np.testing.assert_allclose(latent.sd, thinned.std(axis=0), rtol=0, atol=1e-5)
    new = posterior.predict(X, exposure=np.full(4, 2.0))
    np.testing.assert_allclose(new.mean, 2.0 * np.exp(thinned).mean(axis=0), rtol=1e-5)
    assert posterior.log_likelihood()["y"].shape == (2, 1000, 4)
    assert posterior.to_arviz()["posterior"]["f"].shape == (2, 1000, 4)


@pytest.mark.slow
def test_map_maximizes_the_laplace_log_marginal():
    X, f, noise = data(25)
    y = np.where(f + 0.5 * noise > 0.0, "yes", "no")
    kernel = RBF(lengthscale=dist.LogNormal(0.0, 0.5))
    model = LatentGP(kernel, likelihoods.Bernoulli(), integrate=True)
    frame = pd.DataFrame({"unused": noise, "x": X})
    columns = dataclasses.replace(model, kernel=kernel.on(["x"]))
    posterior = bk.infer(columns, frame, y, method="map", progress=False)
    found = float(posterior.draws["lengthscale"][0, 0])

    @jax.jit
    def log_posterior(lengthscale):
        process = LatentProcess(
            RBF(lengthscale=lengthscale), X, likelihoods.Bernoulli(classes=("no", "yes"))
        )
        prior = dist.LogNormal(0.0, 0.5).log_prob(lengthscale)
        return process.log_prob((y == "yes").astype(float)) + prior

    grid = np.linspace(0.9 * found, 1.1 * found, 41)
    assert np.argmax([log_posterior(v) for v in grid]) == 20
    new = posterior.predict(frame[:3])
    assert new.classes == ("no", "yes")
    at = LatentProcess(RBF(lengthscale=found), X, likelihoods.Bernoulli(classes=("no", "yes")))
    wanted = at.condition((y == "yes").astype(float)).predict(X[:3])
    np.testing.assert_allclose(new.probabilities, wanted.probabilities, rtol=0, atol=1e-9)


# -- predictions from draws ------------------------------------------------------------------------


@pytest.mark.slow
def test_prediction_is_the_mixture_over_draws():
    X, f, _ = data(15)
    y = np.round(2.0 * np.exp(f))
    kernel = RBF(lengthscale=PRIOR).named("short") + Linear(variance=0.2).named("trend")
    model, arguments = LatentGP(kernel, likelihoods.Poisson(), integrate=True).prepare(X, y)
    draws = {"short.lengthscale": np.array([0.5, 0.8, 1.3]), "other": np.zeros(3)}
    X_new = np.array([-0.5, 1.0, 2.2, 6.0])
    mixed = model.predictive(draws, arguments, X_new, latent=True)
    alone = [model.at({"short.lengthscale": v}).condition(X, y) for v in draws["short.lengthscale"]]
    parts = [given.predict(X_new, latent=True) for given in alone]
    np.testing.assert_allclose(mixed.parts[0], [p.mean for p in parts], rtol=0, atol=1e-9)
    np.testing.assert_allclose(mixed.parts[1], [p.variance for p in parts], rtol=0, atol=1e-9)
    # The components add up to the whole, the prior mean being 0.
    together = mixed.component("short").mean + mixed.component("trend").mean
    np.testing.assert_allclose(together, mixed.mean, rtol=0, atol=1e-9)
    new = model.predictive(draws, arguments, X_new, exposure=2.0)
    # The mean of a log-normal rate.
    wanted = 2.0 * np.exp(mixed.parts[0] + 0.5 * mixed.parts[1]).mean(axis=0)
    np.testing.assert_allclose(new.mean, wanted, rtol=1e-9)
    assert new.draws.shape == (1000, 4)
    error = np.std(new.draws[:, :3], axis=0) / np.sqrt(1000)
    assert np.all(np.abs(new.draws.mean(axis=0) - new.mean)[:3] < 5.0 * error)


@pytest.mark.slow
@pytest.mark.parametrize("integrate", few([True, False], True))
def test_prior_predictive_has_log_normal_moments(integrate):
    X, _, _ = data(4)
    model = LatentGP(RBF(variance=0.3), likelihoods.Poisson(), mean=0.5, integrate=integrate)
    draws = model.prior_predictive(X, draws=40_000, seed=1, exposure=2.0).draws
    # E[y] = 2 exp(m + v / 2), and Var[y] = E[y] + (e^v - 1) E[y]^2.
    mean = 2.0 * np.exp(0.65)
    variance = mean + (np.exp(0.3) - 1.0) * mean**2
    assert draws.shape == (40_000, 4)
    assert np.abs(draws.mean(axis=0) - mean).max() < 5.0 * np.sqrt(variance / 40_000)
    np.testing.assert_allclose(draws.var(axis=0), variance, rtol=0.08)
    # Neighbours rise and fall together: Cov = E[y]^2 (e^k - 1).
    k = 0.3 * np.exp(-0.5 * (X[0] - X[1]) ** 2)
    wanted = mean**2 * np.expm1(k)
    np.testing.assert_allclose(np.cov(draws[:, :2].T)[0, 1], wanted, rtol=0.1)


@pytest.mark.slow
def test_prior_predictive_needs_priors():
    X, f, noise = data()
    model = LatentGP(RBF(variance=PRIOR), likelihoods.StudentT())
    frame = pd.DataFrame({"x": X})
    with pytest.raises(ValueError, match="default prior from the data"):
        model.prior_predictive(frame)
    one = model.prior_predictive(frame, f + noise, draws=50, seed=3).draws
    fitted = model.prepare(frame, f + noise)[0]
    np.testing.assert_array_equal(one, fitted.prior_predictive(frame, draws=50, seed=3).draws)
    with pytest.raises(ValueError, match=r"'variance' has no prior \(Free\)"):
        LatentGP(RBF(variance=bk.Free(1.0)), likelihoods.Poisson()).prior_predictive(X)


def test_prediction_given_f_against_closed_form():
    X, _, _ = data(5)
    X = X + np.arange(5)
    kernel = RBF(lengthscale=PRIOR, variance=1.3)
    model, arguments = LatentGP(kernel, likelihoods.Poisson(), 0.4, False).prepare(X, np.ones(5))
    white = np.random.default_rng(0).normal(size=(1, 5))
    X_new = np.array([0.3, 2.0, 9.0])
    draws = {"lengthscale": np.array([0.9]), "white": white}
    found = model.predictive(draws, arguments, X_new, latent=True)
    k = RBF(lengthscale=0.9, variance=1.3)
    K, cross = np.asarray(k(X)), np.asarray(k(X, X_new))
    f = np.linalg.cholesky(K) @ white[0]
    np.testing.assert_allclose(found.mean, 0.4 + cross.T @ np.linalg.solve(K, f), atol=1e-9)
    variance = 1.3 - np.sum(cross * np.linalg.solve(K, cross), axis=0)
    np.testing.assert_allclose(found.variance, variance, rtol=0, atol=1e-9)
