"""Fits and forecasts in NumPy against the same model fitted and forecast by JAX."""

import jax
import numpy as np
import numpyro.distributions as dist
import pytest

import bayeskern as bk
from bayeskern.forecast import uncompiled
from bayeskern.forecast.model import default_kernel, default_noise
from bayeskern.kernels import Matern32
from tests.marks import few

RNG = np.random.default_rng(12)
T = np.arange(48) / 12.0
Z = 0.4 * T + np.sin(2 * np.pi * T) + 0.2 * RNG.normal(size=48)
Z = (Z - Z.mean()) / Z.std()
MASK = np.arange(48) % 7 != 3
MODEL = bk.GPRegression(default_kernel({"season": 1.0}, 1.0, 2.0), default_noise())
NEW = np.arange(48, 54) / 12.0


def fit(method, model=MODEL):
    return bk.infer(model, T, Z, MASK, method=method, progress=False)


@pytest.fixture(scope="module")
def mode():
    return fit(uncompiled.Mode())


@pytest.mark.slow
def test_the_mode_is_that_of_map(mode):
    expected = fit(bk.MAP(starts=1, jacobian=True))
    assert mode.method == "map"
    np.testing.assert_allclose(mode.optimum.log_density, expected.optimum.log_density, rtol=1e-8)
    np.testing.assert_allclose(mode.optimum.hessian, expected.optimum.hessian, atol=1e-2, rtol=1e-2)
    for name, value in expected.point().items():
        np.testing.assert_allclose(mode.point()[name], value, rtol=1e-2, err_msg=name)
    assert mode.trust.verdict == expected.trust.verdict == "not assessable"
    ours, theirs = uncompiled.predict(mode, NEW), expected.predict(NEW)
    np.testing.assert_allclose(ours.mean, theirs.mean, atol=1e-4)
    np.testing.assert_allclose(ours.sd, theirs.sd, rtol=1e-4)


@pytest.mark.parametrize("method", few(["mode", "laplace"], "mode"))
def test_the_forecast_is_the_prediction_of_the_posterior(method, mode):
    posterior = mode if method == "mode" else fit(bk.Laplace(draws=30))
    ours, theirs = uncompiled.predict(posterior, NEW), posterior.predict(NEW)
    for ours_part, their_part in zip(ours.parts, theirs.parts, strict=True):
        np.testing.assert_allclose(ours_part, their_part, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(ours.quantile([0.1, 0.9]), theirs.quantile([0.1, 0.9]), rtol=1e-6)


def test_paths_have_the_moments_of_the_prediction(mode):
    prediction = uncompiled.predict(mode, NEW)
    paths = prediction.sample(4000, seed=3)
    assert paths.shape == (4000, 6)
    error = prediction.sd / np.sqrt(4000)
    assert np.all(np.abs(paths.mean(axis=0) - prediction.mean) < 4.5 * error)
    assert np.all(np.abs(paths.std(axis=0) / prediction.sd - 1.0) < 4.5 / np.sqrt(8000))
    # Neighbours in time are correlated as the process is.
    process = MODEL.at(mode.point()).condition(T, Z, MASK)
    covariance = process.covariance(NEW) + float(mode.point()["noise"]) * np.eye(6)
    size = np.sqrt(np.outer(np.diag(covariance), np.diag(covariance)))
    np.testing.assert_allclose(np.cov(paths.T) / size, covariance / size, atol=0.1)
    np.testing.assert_array_equal(paths, uncompiled.predict(mode, NEW).sample(4000, seed=3))


def test_a_second_length_compiles_nothing():
    programs = []

    def count(event, duration, fun_name="", **_):
        if event.endswith("backend_compile_duration"):
            programs.append(fun_name)

    bk.forecast(Z[:41], 3, season=7, progress=False).interval(0.8)
    jax.monitoring.register_event_duration_secs_listener(count)
    try:
        f = bk.forecast(Z, 5, season=7, progress=False)
        assert f.interval(0.8)[0].shape == (5,)
        assert f.trust.verdict == "not assessable"
    finally:
        jax.monitoring.unregister_event_duration_listener(count)
    assert programs == []


@pytest.mark.parametrize(
    "model",
    [
        bk.GPRegression(Matern32(dist.LogNormal()), default_noise()),
        bk.GPRegression(MODEL.kernel, dist.HalfNormal(1.0)),
    ],
    ids=["kernel", "prior"],
)
def test_other_models_are_left_to_jax(model):
    posterior = fit(uncompiled.Mode(), model)
    assert uncompiled.evidence_of(posterior.target) is None
    expected = fit(bk.MAP(starts=1, jacobian=True), model)
    np.testing.assert_array_equal(posterior.z, expected.z)
    np.testing.assert_array_equal(
        uncompiled.predict(posterior, NEW).mean, expected.predict(NEW).mean
    )


def test_long_series_are_left_to_jax(monkeypatch, mode):
    monkeypatch.setattr(uncompiled, "MOST_VALUES", int(MASK.sum()))
    assert uncompiled.evidence_of(mode.target) is not None
    monkeypatch.setattr(uncompiled, "MOST_VALUES", int(MASK.sum()) - 1)
    assert uncompiled.evidence_of(mode.target) is None
