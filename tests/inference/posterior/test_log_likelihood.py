"""The log likelihood of single observations against SciPy and against refits."""

import dataclasses

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro import handlers
from scipy import stats

import bayeskern as bk
from bayeskern.core import batching
from bayeskern.kernels import RBF
from tests.inference.any_draws import AnyDraws
from tests.marks import slow

RNG = np.random.default_rng(0)
Y = RNG.normal(size=6)
W = RNG.normal(size=(6, 2))


def fit(model, *args, **kwargs):
    return bk.infer(model, *args, method=AnyDraws(50), progress=False, **kwargs)


def at(posterior, name):
    """The draws of a site, ready to be laid along the axes of the data."""
    return posterior.draws[name][0]


# -- observations --------------------------------------------------------------------------------


def test_log_likelihood_has_one_value_per_observation():
    def model(y):
        mu = numpyro.sample("mu", dist.Normal(0.0, 1.0))
        s = numpyro.sample("s", dist.HalfNormal(1.0))
        numpyro.sample("y", dist.StudentT(4.0, mu, s), obs=y)

    posterior = fit(model, Y)
    found = posterior.log_likelihood()
    assert list(found) == ["y"] and found["y"].shape == (1, 50, 6)
    truth = stats.t(4.0, at(posterior, "mu")[:, None], at(posterior, "s")[:, None]).logpdf(Y)
    np.testing.assert_allclose(found["y"][0], truth, rtol=1e-10)


def test_to_event_axes_are_separate_observations():
    def model(w, inside):
        mu = numpyro.sample("mu", dist.Normal(0.0, 1.0).expand([2]).to_event(1))
        if inside:
            with numpyro.plate("n", 6):
                numpyro.sample("w", dist.Normal(mu, 0.5).to_event(1), obs=w)
        else:
            numpyro.sample("w", dist.Normal(mu, 0.5).expand([6, 2]).to_event(2), obs=w)

    for inside in (True, False):
        posterior = fit(model, W, inside)
        found = posterior.log_likelihood()["w"]
        truth = stats.norm(at(posterior, "mu")[:, None, :], 0.5).logpdf(W)
        np.testing.assert_allclose(found[0], truth, rtol=1e-10)


def test_multivariate_event_is_one_observation():
    C = np.array([[1.0, 0.6], [0.6, 2.0]])

    def model(w):
        mu = numpyro.sample("mu", dist.Normal(0.0, 1.0).expand([2]).to_event(1))
        numpyro.sample("w", dist.MultivariateNormal(mu, C).expand([6]).to_event(1), obs=w)

    posterior = fit(model, W)
    truth = [stats.multivariate_normal(mu, C).logpdf(W) for mu in at(posterior, "mu")]
    np.testing.assert_allclose(posterior.log_likelihood()["w"][0], truth, rtol=1e-10)


def test_factors_are_not_observations():
    def model(y):
        mu = numpyro.sample("mu", dist.Normal(0.0, 1.0))
        numpyro.factor("f", -(mu**2))
        with numpyro.plate("n", 6), handlers.mask(mask=np.arange(6) > 0):
            numpyro.factor("g", -(mu**2) * np.ones(6))
        numpyro.sample("y", dist.Normal(mu, 1.0), obs=y)

    assert list(fit(model, Y).log_likelihood()) == ["y"]


KEEP = np.array([True, False, True, True, False, True])


def masked(y, by_handler=True):
    mu = numpyro.sample("mu", dist.Normal(0.0, 1.0))
    normal = dist.Normal(mu, 1.0)
    with numpyro.plate("n", 6), handlers.mask(mask=KEEP if by_handler else True):
        numpyro.sample("y", normal if by_handler else normal.mask(KEEP), obs=y)


@pytest.mark.parametrize("by_handler", [True, False])
def test_masked_observations_are_left_out(by_handler):
    posterior = fit(masked, np.where(KEEP, Y, 1e3), by_handler)
    truth = stats.norm(at(posterior, "mu")[:, None], 1.0).logpdf(Y[KEEP])
    np.testing.assert_allclose(posterior.log_likelihood()["y"][0], truth, rtol=1e-10)


@pytest.mark.parametrize("inside", [True, False])
def test_masks_inside_and_outside_of_events(inside):
    def model(w):
        mu = numpyro.sample("mu", dist.Normal(0.0, 1.0))
        base = dist.Normal(mu, 1.0).expand([6, 2])
        if inside:
            fn = base.mask(KEEP[:, None] & np.array([True, False])).to_event(1)
        else:
            fn = base.to_event(1).mask(KEEP)
        numpyro.sample("w", fn, obs=w)

    posterior = fit(model, W)
    kept = W[KEEP, 0] if inside else W[KEEP].ravel()
    truth = stats.norm(at(posterior, "mu")[:, None], 1.0).logpdf(kept)
    np.testing.assert_allclose(posterior.log_likelihood()["w"][0], truth, rtol=1e-10)


def test_fully_masked_site_is_left_out():
    def model(y):
        mu = numpyro.sample("mu", dist.Normal(0.0, 1.0))
        with handlers.mask(mask=False):
            numpyro.sample("no", dist.Normal(mu, 1.0), obs=y)
        with handlers.mask(mask=True):
            numpyro.sample("yes", dist.Normal(mu, 1.0), obs=y)

    found = fit(model, Y).log_likelihood()
    assert list(found) == ["yes"] and found["yes"].shape == (1, 50, 6)


def test_mask_that_depends_on_the_draw_is_refused():
    def model(y):
        mu = numpyro.sample("mu", dist.Normal(0.0, 1.0))
        with handlers.mask(mask=y > mu):
            numpyro.sample("y", dist.Normal(0.0, 1.0), obs=y)

    posterior = fit(masked, Y)
    changing = dataclasses.replace(
        posterior, target=bk.inference.Target.from_model(model, (Y,), {})
    )
    with pytest.raises(ValueError, match="observed site 'y' changes"):
        changing.log_likelihood()


def test_subsampled_plates_count_in_full_and_unscaled():
    def model(y, w):
        mu = numpyro.sample("mu", dist.Normal(0.0, 1.0))
        with numpyro.plate("n", 6, subsample_size=3) as rows:
            numpyro.sample("y", dist.Normal(mu, 1.0), obs=y[rows])
            # The plate is not the last axis of this one.
            numpyro.sample("w", dist.Normal(mu, 1.0).expand([2]).to_event(1), obs=w[rows])

    posterior = fit(model, jnp.asarray(Y), jnp.asarray(W))
    found, mu = posterior.log_likelihood(), at(posterior, "mu")
    np.testing.assert_allclose(found["y"][0], stats.norm(mu[:, None], 1.0).logpdf(Y), rtol=1e-10)
    np.testing.assert_allclose(
        found["w"][0], stats.norm(mu[:, None, None], 1.0).logpdf(W), rtol=1e-10
    )


def test_scale_handler_does_not_change_the_log_likelihood():
    posterior = fit(handlers.scale(simple, scale=10.0), Y)
    truth = stats.norm(at(posterior, "mu")[:, None], 1.0).logpdf(Y)
    np.testing.assert_allclose(posterior.log_likelihood()["y"][0], truth, rtol=1e-10)


# -- chains, chunks, models with `pointwise` -----------------------------------------------------


def simple(y):
    mu = numpyro.sample("mu", dist.Normal(0.0, 1.0))
    numpyro.sample("y", dist.Normal(mu, 1.0), obs=y)


def test_chains_are_kept_separate():
    posterior = fit(simple, Y)
    chains = {"mu": posterior.draws["mu"].reshape(2, 25)}
    found = dataclasses.replace(posterior, draws=chains).log_likelihood()["y"]
    truth = stats.norm(chains["mu"][..., None], 1.0).logpdf(Y)
    np.testing.assert_allclose(found, truth, rtol=1e-10)


def test_chunks_do_not_change_the_log_likelihood(monkeypatch):
    posterior = fit(simple, Y)
    whole = posterior.log_likelihood()["y"]
    monkeypatch.setattr(batching, "CHUNK", 42)
    np.testing.assert_array_equal(posterior.log_likelihood()["y"], whole)


def test_pointwise_of_the_model_is_used():
    class Own:
        def __call__(self, y):
            simple(y)

        def pointwise(self, draws, y):
            return -np.abs(draws["mu"][:, None] - y)

    posterior = fit(Own(), Y)
    truth = -np.abs(at(posterior, "mu")[:, None] - Y)
    np.testing.assert_array_equal(posterior.log_likelihood()["y"][0], truth)


# -- Gaussian processes --------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("mask", [slow(None), np.arange(12) % 5 > 0])
def test_process_predicts_each_value_from_the_others(mask):
    X, y = np.sort(RNG.uniform(0.0, 4.0, 12)), RNG.normal(size=12)

    def model(X, y, mask):
        scale = numpyro.sample("scale", dist.LogNormal(0.0, 0.3))
        noise = numpyro.sample("noise", dist.LogNormal(-2.0, 0.3))
        numpyro.sample("y", bk.GaussianProcess(RBF(lengthscale=scale), X, noise, 0.3, mask), obs=y)

    posterior = fit(model, X, y, mask)
    found = posterior.log_likelihood()["y"]
    kept = np.arange(12) if mask is None else np.flatnonzero(mask)
    assert found.shape == (1, 50, len(kept))
    for s in (0, 20, 49):
        scale, noise = at(posterior, "scale")[s], at(posterior, "noise")[s]
        for j, i in enumerate(kept):
            rest = kept[kept != i]
            refit = bk.GaussianProcess(RBF(lengthscale=scale), X[rest], noise, 0.3)
            new = refit.condition(y[rest]).predict(X[[i]])
            truth = stats.norm(new.mean[0], new.sd[0]).logpdf(y[i])
            np.testing.assert_allclose(found[0, s, j], truth, rtol=1e-7)


@pytest.mark.slow
def test_process_uses_evenly_thinned_draws():
    X, y = np.linspace(0.0, 4.0, 8), RNG.normal(size=8)
    model = bk.GPRegression(RBF(lengthscale=dist.LogNormal(0.0, 0.3)), noise=0.1)
    posterior = bk.infer(model, X, y, method=AnyDraws(900), progress=False)
    found = posterior.log_likelihood()["y"]
    assert found.shape == (1, 200, 8)
    few = dataclasses.replace(
        posterior, draws={k: v[:, [0, 899]] for k, v in posterior.draws.items()}
    )
    np.testing.assert_allclose(found[:, [0, -1]], few.log_likelihood()["y"], rtol=1e-10)
