"""Kernels of one's own in forecasts: Gram matrices by JAX, the log density in NumPy."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

import bayeskern as bk
from bayeskern import kernels
from bayeskern.engine.log_marginal import DenseLogMarginal
from bayeskern.engine.prior import NumpyPrior
from bayeskern.forecast.model.kernels import default_noise
from bayeskern.forecast.model.processes.compiled_prior import CompiledPrior
from bayeskern.gp.components import centered_components
from bayeskern.inference.model.bound import BoundModel
from tests.marks import few

N = 60
T = np.arange(N) / 12.0
Y = np.sin(2.0 * np.pi * T) + 0.3 * T + 0.3 * np.random.default_rng(5).standard_normal(N)
NEW = T[-1] + np.arange(1, 4) / 12.0
NETWORK = eqx.nn.MLP(1, 1, 3, 1, activation=jnp.tanh, key=jax.random.key(0))
KERNELS = {
    "other kernel": kernels.Matern32(dist.LogNormal(), dist.LogNormal()),
    "other prior": kernels.RBF(dist.Gamma(2.0, 1.0)).named("a") + kernels.Linear(0.3).named("b"),
    "named twice": 2.0 * (kernels.RBF(dist.LogNormal()).named("a") + kernels.Constant().named("b")),
    "white noise": kernels.RBF(dist.HalfNormal()) + kernels.White(dist.LogNormal(-2.0, 1.0)),
    "network": kernels.RBF(1.0).warp(NETWORK, weights=dist.Normal()),
}


def density_and_target(kernel):
    model = bk.GPRegression(kernel, default_noise())
    target = BoundModel.from_model(model, (T, Y), {}).target()
    return DenseLogMarginal(CompiledPrior(model), T, Y), target


@pytest.mark.parametrize("name", few(KERNELS, "other kernel", "named twice"))
def test_density_and_gradient_match_the_model(name):
    density, target = density_and_target(KERNELS[name])
    assert density.names == tuple(target.coordinates)
    z = density.middle + 0.2 * np.random.default_rng(1).normal(size=target.size)
    expected, slope = jax.jit(jax.value_and_grad(target.log_density))(jnp.asarray(z))
    value, gradient = density.value_and_gradient(z)
    np.testing.assert_allclose(value, expected, rtol=1e-9)
    np.testing.assert_allclose(density.log_density(z), expected, rtol=1e-9)
    np.testing.assert_allclose(gradient, slope, rtol=1e-6, atol=1e-8 * abs(slope).max())


@pytest.mark.parametrize("name", ["other kernel", "white noise"])
def test_predictions_match_the_process(name):
    density, target = density_and_target(KERNELS[name])
    z = density.middle + 0.1
    model = target.model.at({k: v[0] for k, v in density.values(z[None]).items()})
    process = model.condition(T, Y)
    expected = process.predict(NEW, noise=model.noise)
    (mean,), (variance,) = density.moments(z[None], NEW)
    np.testing.assert_allclose(mean, expected.mean, rtol=1e-8)
    np.testing.assert_allclose(variance, expected.variance, rtol=1e-8)
    mean, covariance = density.joint(z, NEW)
    np.testing.assert_allclose(mean, expected.mean, rtol=1e-8)
    truth = np.asarray(process.covariance(NEW)) + float(model.noise) * np.eye(3)
    np.testing.assert_allclose(covariance, truth, rtol=1e-7, atol=1e-10)
    for ours, theirs in zip(density.loo(z[None]), process.loo(), strict=True):
        np.testing.assert_allclose(ours[0], theirs, rtol=1e-7)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["other prior", "named twice"])
def test_components_match_the_model(name):
    density, target = density_and_target(KERNELS[name])
    zs = density.middle + np.array([[0.1], [-0.2]])
    parts = density.components(zs, NEW, "a")
    expected = centered_components(target.model, density.values(zs), target.args, NEW[:, None], "a")
    assert list(parts) == list(expected) == ["a", "b"]
    for part, moments in parts.items():
        for ours, theirs in zip(moments, expected[part].parts, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-8)


def test_white_noise_is_known_at_its_own_points_only():
    """Its component at the times of the data, with the future beside and without."""
    kernel = kernels.RBF(1.0).named("a") + kernels.White(dist.LogNormal(-2.0, 1.0)).named("b")
    density, target = density_and_target(kernel)
    z = density.middle[None]
    expected = centered_components(target.model, density.values(z), target.args, T[:, None], "a")
    both = density.components(z, np.append(T, NEW), "a")
    for name, moments in density.components(z, T, "a").items():
        for ours, theirs, longer in zip(moments, expected[name].parts, both[name], strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-8)
            np.testing.assert_allclose(ours, longer[:, :N], rtol=1e-8, atol=1e-10)


def test_jax_matches_formulas_in_numpy():
    kernel = kernels.RBF(dist.LogNormal(0.0, 1.0), 1.0) + kernels.Periodic(1.0, 1.0, 1.0)
    by_jax, _ = density_and_target(kernel)
    in_numpy = DenseLogMarginal(NumpyPrior(kernel, default_noise()), T, Y)
    # The median of 64 draws from the prior, for the median itself.
    np.testing.assert_allclose(by_jax.middle, in_numpy.middle, atol=0.5)
    z = in_numpy.middle + 0.2
    for ours, theirs in zip(*(e.value_and_gradient(z) for e in (by_jax, in_numpy)), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-7)
    for name, value in in_numpy.values(z).items():
        np.testing.assert_allclose(by_jax.values(z)[name], value, rtol=1e-12)


@pytest.mark.slow
def test_joint_draws_of_a_kernel_by_jax():
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
