"""Bayesian linear regression in use: updates, data frames, draws, files and speed."""

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pandas as pd
import polars as pl
import pytest
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

import bayeskern as bk
from bayeskern import priors
from tests.compilations import compilations
from tests.inference.any_draws import AnyDraws
from tests.linear.regression_data import (
    INFERRED,
    KNOWN,
    NEW,
    SCALES,
    TRUE,
    N,
    X,
    Y,
    blr,
    fit,
    plain,
)
from tests.marks import slow

# -- sequential ------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    "options", [{}, KNOWN, {"prior_sd": 1.0, "noise_variance": 0.5, "intercept": False}]
)
def test_ten_updates_equal_one_fit(options):
    options = {"noise_variance": 0.8, **options}
    once = fit(blr(**options))
    model = blr(**options).stream(zip(np.array_split(X, 10), np.array_split(Y, 10), strict=True))
    after = bk.infer(model, method="exact", progress=False)
    np.testing.assert_allclose(after.log_evidence.value, once.log_evidence.value, rtol=1e-10)
    np.testing.assert_allclose(after.predict(NEW).mean, once.predict(NEW).mean, rtol=1e-10)
    np.testing.assert_allclose(after.predict(NEW).sd, once.predict(NEW).sd, rtol=1e-10)
    # Some before, some now.
    mixed = fit(blr(**options).update(X[:20], Y[:20]), X[20:], Y[20:])
    np.testing.assert_allclose(mixed.predict(NEW).mean, once.predict(NEW).mean, rtol=1e-10)
    np.testing.assert_allclose(mixed.predict(NEW).sd, once.predict(NEW).sd, rtol=1e-10)


def test_first_rows_of_an_update_can_be_constant():
    # One row, then two of the same y: no scale for a default noise until more has been seen.
    y = np.append(np.full(3, 2.0), Y[3:])
    rows = [slice(0, 1), slice(1, 3), slice(3, N)]
    model = blr().stream((X[chunk], y[chunk]) for chunk in rows)
    after, data = model.prepare()
    once, rest = blr().prepare(X, y)
    at = {"noise": 0.7, "weights": jnp.asarray(TRUE), "intercept": 1.5}
    found = numpyro.infer.util.log_density(after, data, {}, at)[0]
    expected = numpyro.infer.util.log_density(once, rest, {}, at)[0]
    np.testing.assert_allclose(found, expected, rtol=1e-10)


def test_fitted_model_can_be_updated():
    first = fit(blr(**KNOWN), X[:30], Y[:30])
    then = bk.infer(first.target.model.update(X[30:], Y[30:]), method="exact", progress=False)
    np.testing.assert_allclose(
        then.predict(NEW).mean, fit(blr(**KNOWN)).predict(NEW).mean, rtol=1e-10
    )


@pytest.mark.slow
def test_posterior_of_updates_is_saved_and_compared(tmp_path):
    posterior = bk.infer(blr(noise_variance=0.8).update(X, Y), method="exact", progress=False)
    assert {"weights", "intercept"} == set(posterior.to_arviz().posterior.data_vars)
    assert posterior.log_likelihood() == {}
    posterior.save(tmp_path / "seen.nc")
    loaded = bk.load(tmp_path / "seen.nc")
    np.testing.assert_array_equal(loaded.draws["weights"], posterior.draws["weights"])
    assert "exact" in repr(bk.compare({"a": posterior, "b": posterior}))


def test_updates_enter_the_log_density():
    seen = blr(prior=priors.Gaussian(SCALES), **INFERRED).update(X[:40], Y[:40])
    model, data = seen.prepare(X[40:], Y[40:])
    at = {"noise": jnp.asarray(0.7), "weights": jnp.asarray(TRUE), "intercept": jnp.asarray(1.5)}
    mine = numpyro.infer.util.log_density(model, data, {}, at)[0]
    theirs = numpyro.infer.util.log_density(plain, (X, Y), {}, at)[0]
    np.testing.assert_allclose(mine, theirs, rtol=1e-12)


# -- data as people have them ----------------------------------------------------------------------


@pytest.mark.parametrize("frame", [pd.DataFrame, slow(pl.DataFrame)])
def test_data_frames_keep_their_names(frame):
    data = frame({"age": X[:, 0], "height": X[:, 1], "dose": X[:, 2]})
    posterior = fit(blr(**KNOWN), data, Y)
    tree = posterior.to_arviz()
    assert list(tree.posterior.coords["feature"].values) == ["age", "height", "dose"]
    assert tree.posterior["weights"].dims == ("chain", "draw", "feature")
    new = frame({"dose": NEW[:, 2], "age": NEW[:, 0], "height": NEW[:, 1]})
    np.testing.assert_allclose(
        posterior.predict(new).mean, fit(blr(**KNOWN)).predict(NEW).mean, rtol=1e-12
    )
    with pytest.raises(ValueError, match="'dose'"):
        posterior.predict(frame({"age": [1.0], "height": [1.0]}))


@pytest.mark.slow
def test_transformers_compute_the_features():
    posterior = fit(blr(features=PolynomialFeatures(2, include_bias=False)), X, Y, method="map")
    assert posterior.draws["weights"].shape == (1, 1, 9)
    assert posterior.coords["feature"][3] == "x0^2"
    other = fit(blr(), PolynomialFeatures(2, include_bias=False).fit_transform(X), Y, method="map")
    np.testing.assert_allclose(
        posterior.predict(NEW).mean,
        other.predict(PolynomialFeatures(2, include_bias=False).fit_transform(NEW)).mean,
        rtol=1e-10,
    )


def test_unknown_categories_are_refused():
    from sklearn.compose import make_column_transformer
    from sklearn.preprocessing import OneHotEncoder

    frame = pd.DataFrame({"x": X[:, 0], "kind": np.where(X[:, 1] > 50, "a", "b")})
    encode = make_column_transformer(
        (OneHotEncoder(drop="first"), ["kind"]), remainder="passthrough"
    )
    posterior = fit(blr(features=encode, noise_variance=1.0), frame, Y)
    assert len(posterior.coords["feature"]) == 2
    with pytest.raises(ValueError, match="unknown categories"):
        posterior.predict(pd.DataFrame({"x": [0.0], "kind": ["c"]}))
    with pytest.raises(ValueError, match="kind"):
        posterior.predict(pd.DataFrame({"x": [0.0]}))


@pytest.mark.slow
def test_default_priors_scale_with_the_data():
    model, _ = blr().prepare(X, Y)
    np.testing.assert_allclose(model.prior.scale, 2.5 * Y.std() / X.std(axis=0), rtol=1e-10)
    np.testing.assert_allclose(model.intercept.loc, Y.mean())
    np.testing.assert_allclose(model.intercept.center, X.mean(axis=0))
    # In other units the predictions are the same, in those units.
    first = fit(blr(), method="laplace").predict(NEW)
    other = fit(blr(), X * 1000.0 + 5.0, Y / 100.0, method="laplace").predict(NEW * 1000.0 + 5.0)
    np.testing.assert_allclose(other.mean * 100.0, first.mean, rtol=1e-3)
    np.testing.assert_allclose(other.sd * 100.0, first.sd, rtol=0.02)


@pytest.mark.slow
def test_prior_predictive_has_prior_moments():
    draws = blr(**KNOWN).prior_predictive(X, draws=20_000, seed=1).draws
    Z, sd = np.column_stack([np.ones(N), X]), np.append(5.0, SCALES)
    expected = np.sqrt(np.sum((Z * sd) ** 2, axis=1) + 0.8)
    np.testing.assert_allclose(draws.std(axis=0), expected, rtol=0.04)
    assert blr().prior_predictive(X, Y).draws.shape == (1000, N)


# -- trust, storage, speed -------------------------------------------------------------------------


@pytest.mark.slow
def test_predictions_at_many_points_take_fewer_draws(monkeypatch):
    model = blr(prior=priors.Laplace(0.5), noise_variance=0.8)
    posterior = fit(model, method=bk.NUTS(warmup=200, draws=300, chains=2))
    whole = posterior.predict(NEW)
    assert len(whole.parts[0]) == 600
    monkeypatch.setattr("bayeskern.linear.prediction.MOST_NUMBERS", 300 * len(NEW))
    fewer = posterior.predict(NEW)
    assert len(fewer.parts[0]) == 300
    off = np.abs(fewer.mean - whole.mean) / np.sqrt(whole.variance - 0.8)
    assert np.all(off < 5.0 / np.sqrt(300))


def test_log_likelihood_is_pointwise():
    posterior = fit(blr(prior=priors.Gaussian(SCALES), **INFERRED), method=AnyDraws(20))
    found = posterior.log_likelihood()["y"]
    draws = posterior.draws
    mean = draws["intercept"][0, 7] + X @ draws["weights"][0, 7]
    expected = dist.Normal(mean, np.sqrt(draws["noise"][0, 7])).log_prob(Y)
    np.testing.assert_allclose(found[0, 7], expected, rtol=1e-10)


@pytest.mark.parametrize("method", ["map", slow("laplace"), slow("nuts")])
def test_second_fit_does_not_recompile(method):
    model = blr(prior=priors.Gaussian(dist.HalfNormal(3.0)))
    run = bk.NUTS(warmup=50, draws=50) if method == "nuts" else method
    fit(model, method=run)
    before = len(compilations)
    fit(blr(prior=priors.Gaussian(dist.HalfNormal(4.0))), X + 1.0, 2.0 * Y, method=run)
    assert len(compilations) == before > 0


@pytest.mark.slow
def test_posterior_is_saved_and_loaded(tmp_path):
    frame = pd.DataFrame(X, columns=["age", "height", "dose"])
    posterior = fit(blr(**KNOWN), frame, Y)
    posterior.save(tmp_path / "fit.nc")
    loaded = bk.load(tmp_path / "fit.nc", model=blr(**KNOWN))
    # In another order, which is set right by name.
    new = frame[["dose", "age", "height"]].iloc[:4]
    np.testing.assert_array_equal(loaded.draws["weights"], posterior.draws["weights"])
    np.testing.assert_allclose(loaded.predict(new).mean, posterior.predict(new).mean, rtol=1e-12)
    assert loaded.to_arviz().posterior["weights"].coords["feature"].values[0] == "age"


@pytest.mark.slow
def test_loading_learnt_features_needs_the_fitted_model(tmp_path):
    model = blr(features=StandardScaler(), noise_variance=1.0)
    posterior = fit(model)
    posterior.save(tmp_path / "fit.nc")
    with pytest.raises(ValueError, match="load the file with model="):
        bk.load(tmp_path / "fit.nc", model=model).predict(NEW)
    loaded = bk.load(tmp_path / "fit.nc", model=posterior.target.model)
    np.testing.assert_allclose(loaded.predict(NEW).mean, posterior.predict(NEW).mean, rtol=1e-12)
