"""Structures weighed by their evidence: against quadrature and on series simulated from each."""

from dataclasses import replace

import jax
import numpy as np
import numpyro.distributions as dist
import pandas as pd
import pytest
import scipy.integrate
import scipy.stats

import bayeskern as bk
from bayeskern import kernels
from bayeskern.forecast.combine.average import near, weigh
from bayeskern.forecast.fit.modes import Fitted
from bayeskern.forecast.model import evidence
from bayeskern.forecast.model.evidence import CompiledEvidence, evidence_of
from bayeskern.forecast.model.kernels import default_noise
from bayeskern.forecast.model.structure import Choices, Structure
from bayeskern.gp.numpy_evidence import NumpyEvidence
from tests.marks import few

N = 60
T = np.arange(N) / 12.0
RNG = np.random.default_rng(5)
Y = np.sin(2.0 * np.pi * T) + 0.3 * T + 0.3 * RNG.standard_normal(N)
KERNEL = kernels.RBF(dist.LogNormal(0.0, 1.0), 1.0) + kernels.Periodic(1.0, 1.0, 1.0)


def choices(**options):
    known = {"trends": ("given",), "seasons": {}, "optional": False, "logs": (False,), "unit": 1.0}
    return Choices(**{**known, **options})


def given(kernel=KERNEL, y=Y):
    return Fitted.of(Structure("given", (), False), choices(kernels={"given": kernel}), T, y)


# -- one structure ---------------------------------------------------------------------------------


def test_evidence_and_moments_are_those_of_quadrature():
    """Two hyperparameters: the lengthscale and the noise, on a grid in their logarithms."""
    fitted = given().polished()
    sds = 1.0 / np.sqrt(np.diag(fitted.hessian))
    grids = [m + s * np.linspace(-7, 7, 61) for m, s in zip(fitted.mode, sds, strict=True)]
    log_p = np.array(
        [[fitted.evidence.log_density(np.array([a, b])) for b in grids[1]] for a in grids[0]]
    )
    p = np.exp(log_p - log_p.max())

    def integral(values):
        inner = scipy.integrate.simpson(values, x=grids[1], axis=1)
        return scipy.integrate.simpson(inner, x=grids[0])

    total = integral(p)
    draws = fitted.draws(2000, seed=1)
    estimate = draws.weights.log_evidence
    assert estimate.error < 0.05
    assert abs(estimate.value - np.log(total) - log_p.max()) < 4.0 * estimate.error + 1e-3
    np.testing.assert_allclose(draws.log_evidence, estimate.value - N * np.log(Y.std()), rtol=1e-10)
    mean = [integral(p * grids[0][:, None]) / total, integral(p * grids[1]) / total]
    weighted = draws.weights.normal @ draws.z
    np.testing.assert_allclose(weighted, mean, atol=4.0 * max(sds) / np.sqrt(draws.weights.ess))
    # Resampled, they are equally weighted.
    np.testing.assert_allclose(draws.resampled(4000, seed=2).mean(axis=0), weighted, atol=0.02)


@pytest.mark.slow
def test_the_mode_is_that_of_map():
    fitted = given().polished()
    posterior = bk.infer(
        fitted.model, T, fitted.scale.forward(Y), method=bk.MAP(starts=1, jacobian=True),
        progress=False,
    )  # fmt: skip
    np.testing.assert_allclose(fitted.mode, posterior.optimum.z, atol=1e-4)
    np.testing.assert_allclose(fitted.log_density, posterior.optimum.log_density, rtol=1e-9)
    assert fitted.optimum.converged
    at_mode = replace(fitted, curvature=None)
    np.testing.assert_allclose(at_mode.hessian, posterior.optimum.hessian, rtol=1e-3, atol=1e-3)
    # The curvature that it keeps is one of near by, of which the evidence is a logarithm.
    assert abs(fitted.optimum.log_evidence - posterior.optimum.log_evidence) < 0.02
    point = fitted.at_mode().posterior(0)
    assert point.method == "map" and point.trust.verdict == "not assessable"
    for name, value in posterior.point().items():
        np.testing.assert_allclose(point.point()[name], value, rtol=1e-4, err_msg=name)


@pytest.mark.parametrize("trend", few(["slope", "smooth", "level", "damped"], "slope"))
def test_no_other_search_finds_a_mode_with_more_evidence(trend):
    """From the median of the prior alone the modes of slope and smooth are 13 and 15 nats lower."""
    y = bk.datasets.load("airline").values
    of_airline = choices(trends=(trend,), seasons={"season": 1.0}, logs=(True,))
    structure, x = Structure(trend, ("season",), True), np.arange(len(y)) / 12.0
    fitted = Fitted.of(structure, of_airline, x, y)
    rng = np.random.default_rng(1)
    for z in fitted.evidence.middle + rng.standard_normal((8, len(fitted.mode))):
        start = dict(zip(fitted.evidence.names, z, strict=True))
        other = Fitted.of(structure, of_airline, x, y, start)
        assert other.log_evidence < fitted.log_evidence + 0.1


@pytest.mark.slow
def test_the_draws_agree_with_nuts():
    """The weighted draws of one structure of the Nile against long chains."""
    models = [
        bk.StructuralModel(log=False, method=method)
        for method in (bk.NUTS(warmup=300, draws=500), None)
    ]
    chain, few_draws = (
        bk.forecast("nile", 10, trend="level", season=0, model=model) for model in models
    )
    assert chain.posterior.trust.verdict == "good"
    np.testing.assert_allclose(few_draws.median, chain.median, rtol=0.02)
    for level in (0.8, 0.95):
        widths = [np.subtract(*f.interval(level)[::-1]) for f in (few_draws, chain)]
        np.testing.assert_allclose(widths[0], widths[1], rtol=0.1)


# -- in NumPy or compiled --------------------------------------------------------------------------


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
    paths = compiled.paths(z, new, 2000, seed=1)
    assert np.all(np.abs(paths.mean(axis=0) - in_numpy.moments(zs, new)[0][0]) < 0.2)
    ours, theirs = (e.components(zs, new, "trend") for e in (compiled, in_numpy))
    for name, (means, _) in theirs.items():
        np.testing.assert_allclose(ours[name][0], means, rtol=1e-6, atol=1e-8)
    for a, b in zip(compiled.loo(zs), in_numpy.loo(zs), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)
    ours, theirs = (e.changes(zs, "rest", T[[0, -1]]) for e in (compiled, in_numpy))
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5)


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


# -- several structures ----------------------------------------------------------------------------


def test_weights_are_proportional_to_evidence():
    fits = [given(), given(kernels.RBF(0.7, 1.0) + kernels.Periodic(1.0, 1.0, 1.0))]
    parts = weigh(fits, 200, seed=0)
    assert [part.structure for part in parts] == [fits[0].structure] * 2
    by_evidence = [part.draws.log_evidence for part in parts]
    odds = parts[0].weight / parts[1].weight
    assert odds > 1.0
    np.testing.assert_allclose(np.log(odds), 0.5 * (by_evidence[0] - by_evidence[1]), rtol=1e-9)
    np.testing.assert_allclose(sum(part.weight for part in parts), 1.0)


def test_the_average_is_that_of_its_parts():
    f = bk.forecast(pd.Series(np.exp(Y), pd.date_range("2015-01-01", periods=N, freq="MS")), 6)
    assert len(f.parts) > 1
    np.testing.assert_allclose(sum(part.weight for part in f.parts), 1.0)
    known = f.probabilities
    np.testing.assert_allclose(sum(known["trend"].values()), 1.0)
    assert known["present"]["season"] > 0.9
    assert all(0.0 <= share <= 1.0 + 1e-12 for share in known["present"].values())
    # The distribution function at a quantile is the weighted share of the paths of the parts.
    paths = f.sample(20_000, seed=4)
    for p in (0.1, 0.5, 0.9):
        assert np.all(np.abs(np.mean(paths < f.quantile(p), axis=0) - p) < 0.02)


@pytest.mark.parametrize("trend", few(["smooth", "level", "slope", "damped"], "level"))
def test_what_is_forced_is_there(trend):
    f = bk.forecast(np.exp(Y), 4, trend=trend, season=12, model=bk.StructuralModel(log=False))
    (part,) = f.parts
    assert part.structure == Structure(trend, ("season",), False)
    assert f.components[0] == "trend" and "season" in f.components


def test_options_that_contradict_each_other():
    with pytest.raises(ValueError, match=r"trend='slop' is not known.*Did you mean 'slope'"):
        bk.forecast(Y, 4, trend="slop")
    with pytest.raises(ValueError, match="replaces all trends; got trend='slope'"):
        bk.forecast(Y, 4, trend="slope", model=bk.StructuralModel(kernel=KERNEL))
    with pytest.raises(ValueError, match="above zero, but the value at"):
        bk.forecast(Y - 5.0, 4, model=bk.StructuralModel(log=True))


def test_a_kernel_without_a_density_is_an_error():
    hopeless = kernels.RBF(1e6, dist.LogNormal(200.0, 0.1))
    with pytest.raises(ValueError, match="the kernel gives these values no density"):
        bk.forecast(Y, 4, model=bk.StructuralModel(kernel=hopeless))


def test_those_far_behind_are_left_out():
    fits = [given(), given(kernels.RBF(1e-3, 1.0)), given(kernels.Constant(1.0))]
    ordered = near(fits)
    assert ordered[0] is max(fits, key=lambda fitted: fitted.log_joint)
    assert all(f.log_joint >= ordered[0].log_joint - 10.0 for f in ordered)


# -- series simulated from each structure ----------------------------------------------------------


def simulate(trend, rng, n=120):
    """A series of 120 months from each structure, in the units of its noise."""
    t, noise = np.arange(n), rng.standard_normal(n)
    if trend == "smooth":
        return 5.0 * np.sin(t / 20.0 + rng.uniform(0, 6)) + noise
    if trend == "level":
        return np.cumsum(rng.standard_normal(n)) * 2.0 + noise
    if trend == "slope":
        return np.cumsum(np.cumsum(0.5 * rng.standard_normal(n))) + noise
    slope = np.zeros(n)
    for i in range(1, n):
        slope[i] = 0.85 * slope[i - 1] + rng.standard_normal()
    return np.cumsum(slope) + noise


# A damped slope is a level or a slope at the ends of its lengthscale; a smooth trend of months is a
# slope that wanders with little noise.
EQUIVALENT = {
    "smooth": {"smooth", "slope", "damped"},
    "level": {"level", "damped"},
    "slope": {"slope", "damped"},
    "damped": {"damped"},
}


@pytest.mark.slow
@pytest.mark.parametrize("trend", EQUIVALENT)
def test_the_true_structure_has_the_most_weight(trend):
    rng, right = np.random.default_rng(11), 0
    for _ in range(20):
        f = bk.forecast(simulate(trend, rng), 12, season=0, model=bk.StructuralModel(log=False))
        weights = f.probabilities["trend"]
        equivalent = sum(w for name, w in weights.items() if name in EQUIVALENT[trend])
        right += equivalent > 0.5
    assert right >= 16


@pytest.mark.slow
def test_random_walks_have_no_season():
    rng, absent = np.random.default_rng(12), 0
    months = pd.date_range("2010-01-01", periods=120, freq="MS")
    for _ in range(10):
        walk = pd.Series(np.cumsum(rng.standard_normal(120)) + 50.0, months)
        absent += bk.forecast(walk, 12).probabilities["present"]["season"] < 0.5
    assert absent >= 9
