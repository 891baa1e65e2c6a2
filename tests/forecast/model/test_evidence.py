"""The evidence of a series in NumPy and compiled: both say the same."""

import jax
import numpy as np
import numpyro.distributions as dist
import pytest

import bayeskern as bk
from bayeskern import kernels
from bayeskern.forecast.model import evidence
from bayeskern.forecast.model.evidence import CompiledEvidence, evidence_of
from bayeskern.forecast.model.kernels import default_noise
from bayeskern.gp.numpy_evidence import NumpyEvidence

N = 60
T = np.arange(N) / 12.0
Y = np.sin(2.0 * np.pi * T) + 0.3 * T + 0.3 * np.random.default_rng(5).standard_normal(N)
KERNEL = kernels.RBF(dist.LogNormal(0.0, 1.0), 1.0) + kernels.Periodic(1.0, 1.0, 1.0)


@pytest.mark.slow
def test_both_forms_of_the_evidence_agree():
    model = bk.GPRegression(KERNEL, default_noise())
    in_numpy, compiled = evidence_of(model, T, Y), CompiledEvidence(evidence.bound(model, T, Y))
    assert isinstance(in_numpy, NumpyEvidence) and in_numpy.names == compiled.names
    # The median of 64 draws from the prior, for the median itself.
    np.testing.assert_allclose(compiled.middle, in_numpy.middle, atol=0.5)
    z = in_numpy.middle + 0.2
    np.testing.assert_allclose(compiled.log_density(z), in_numpy.log_density(z), rtol=1e-9)
    ours, theirs = compiled.value_and_gradient(z), in_numpy.value_and_gradient(z)
    np.testing.assert_allclose(ours[1], theirs[1], rtol=1e-6)
    new, zs = T[-1] + np.arange(1, 4) / 12.0, np.stack([z, z - 0.1])
    for a, b in zip(compiled.moments(zs, new), in_numpy.moments(zs, new), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)
    for name, value in in_numpy.values(zs).items():
        np.testing.assert_allclose(compiled.values(zs)[name], value, rtol=1e-9)
    for a, b in zip(compiled.joint(z, new), in_numpy.joint(z, new), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-9)
    ours, theirs = (e.components(zs, new, "trend") for e in (compiled, in_numpy))
    for name, (means, _) in theirs.items():
        np.testing.assert_allclose(ours[name][0], means, rtol=1e-6, atol=1e-8)
    for a, b in zip(compiled.loo(zs), in_numpy.loo(zs), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)
    ours, theirs = (e.changes(zs, "rest", T[[0, -1]]) for e in (compiled, in_numpy))
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5)


def test_a_kernel_without_a_formula_in_numpy_has_joint_draws():
    """Moments and the correlation of draws, by the conditional distribution by hand."""
    model = bk.StructuralModel(kernel=kernels.Matern32(0.8, 1.3), log=False, method="map")
    f = bk.forecast(Y, 4, season=0, model=model)
    x = np.arange(64.0)
    K = np.asarray(kernels.Matern32(0.8, 1.3)(x))
    noise = float(f.posterior.draws["noise"].ravel()[0])
    solved = np.linalg.solve(K[:N, :N] + noise * np.eye(N), K[:N, N:])
    expected = K[N:, N:] - K[N:, :N] @ solved + noise * np.eye(4)
    draws = f.sample(40_000, seed=0)
    size = f.scale.size**2 * np.diag(expected).max()
    np.testing.assert_allclose(np.cov(draws.T), f.scale.size**2 * expected, atol=0.02 * size)


def test_rolling_forecasts_of_both_forms_agree():
    model = bk.GPRegression(KERNEL, default_noise())
    in_numpy, compiled = evidence_of(model, T, Y), CompiledEvidence(evidence.bound(model, T, Y))
    z = in_numpy.middle + 0.2
    pairs = [form.rolling(z, [31, 40], [5, 2]) for form in (in_numpy, compiled)]
    for ours, theirs in zip(*pairs, strict=True):
        for a, b in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-6)


def test_robust_noise_has_no_compiled_form():
    compiled = CompiledEvidence(evidence.bound(bk.GPRegression(KERNEL, default_noise()), T, Y))
    with pytest.raises(NotImplementedError, match="robust noise has no compiled form"):
        compiled.joint(np.zeros(2), T[:2], np.array([1.0, 2.0]))


def test_long_series_and_other_kernels_are_left_to_jax(monkeypatch):
    model = bk.GPRegression(KERNEL, default_noise())
    monkeypatch.setattr(evidence, "MOST_VALUES", N)
    assert isinstance(evidence_of(model, T, Y), NumpyEvidence)
    monkeypatch.setattr(evidence, "MOST_VALUES", N - 1)
    assert isinstance(evidence_of(model, T, Y), CompiledEvidence)
    monkeypatch.undo()
    other = bk.GPRegression(kernels.Matern32(dist.LogNormal()), 0.1)
    assert isinstance(evidence_of(other, T, Y), CompiledEvidence)


def test_a_second_length_compiles_nothing():
    programs = []

    def count(event, duration, fun_name="", **_):
        if event.endswith("backend_compile_duration"):
            programs.append(fun_name)

    bk.forecast(Y[:41], 3, season=12).interval(0.8)
    jax.monitoring.register_event_duration_secs_listener(count)
    try:
        f = bk.forecast(Y, 5, season=12)
        assert f.interval(0.8)[0].shape == (5,)
        assert f.trust.verdict in ("good", "caution")
        assert set(f.decompose()) >= {"trend", "season"}
    finally:
        jax.monitoring.unregister_event_duration_listener(count)
    assert programs == []
