"""Mode and weighted draws of one structure against quadrature, MAP and NUTS."""

from dataclasses import replace

import numpy as np
import numpyro.distributions as dist
import pytest
import scipy.integrate
import scipy.stats

import bayeskern as bk
from bayeskern import kernels
from bayeskern.forecast.fit.draws import Draws
from bayeskern.forecast.fit.modes import FittedStructure
from bayeskern.forecast.model.building import build_density, build_scale
from bayeskern.forecast.model.priors import Priors
from bayeskern.forecast.model.structure import Structure
from bayeskern.forecast.model.trends import TRENDS
from tests.forecast.tables import choices_for
from tests.marks import few

N = 60
T = np.arange(N) / 12.0
RNG = np.random.default_rng(5)
Y = np.sin(2.0 * np.pi * T) + 0.3 * T + 0.3 * RNG.standard_normal(N)
KERNEL = kernels.RBF(dist.LogNormal(0.0, 1.0), 1.0) + kernels.Periodic(1.0, 1.0, 1.0)


def given(kernel=KERNEL, y=Y):
    choices = choices_for(trends=("given",), kernels={"given": kernel})
    return FittedStructure.from_values(Structure("given", False), choices, T, y)


def of_airline(trend, **options):
    y = bk.datasets.load("airline").values
    choices = choices_for(
        trends=(trend,), seasons={"season": 1.0}, logs=(True,), step=1.0 / 12.0, **options
    )
    return Structure(trend, True), choices, np.arange(len(y)) / 12.0, y


@pytest.mark.slow
def test_evidence_and_moments_equal_quadrature():
    """Lengthscale and noise on a grid of their logarithms."""
    fitted = given().polished()
    sds = 1.0 / np.sqrt(np.diag(fitted.hessian))
    grids = [m + s * np.linspace(-7, 7, 61) for m, s in zip(fitted.mode, sds, strict=True)]
    log_p = np.array(
        [[fitted.density.log_density(np.array([a, b])) for b in grids[1]] for a in grids[0]]
    )
    p = np.exp(log_p - log_p.max())

    def integral(values):
        inner = scipy.integrate.simpson(values, x=grids[1], axis=1)
        return scipy.integrate.simpson(inner, x=grids[0])

    total = integral(p)
    draws = Draws.from_laplace(fitted, 2000, seed=1)
    estimate = draws.weights.log_evidence
    assert estimate.error < 0.05
    truth = np.log(total) + log_p.max()
    assert abs(estimate.value - truth) < 4.0 * estimate.error + 1e-3
    np.testing.assert_allclose(draws.log_evidence, estimate.value - N * np.log(Y.std()), rtol=1e-10)
    mean = [integral(p * grids[0][:, None]) / total, integral(p * grids[1]) / total]
    weighted = draws.weights.normal @ draws.z
    np.testing.assert_allclose(weighted, mean, atol=4.0 * max(sds) / np.sqrt(draws.weights.ess))
    # Resampled, they are equally weighted.
    np.testing.assert_allclose(draws.resampled(4000, seed=2).mean(axis=0), weighted, atol=0.02)


def test_laplace_is_close_for_nearly_normal_density():
    """With a negligible kernel only the noise remains."""
    kernel = kernels.RBF(dist.LogNormal(0.3, 0.6), 1e-12)
    fitted = given(kernel)
    value = fitted.density.values(fitted.mode)["noise"]
    free = scipy.stats.norm(-1.5, 1.0)
    # Only the noise is left, as the marginal integral over its logarithm.
    z = np.linspace(-4.0, 2.0, 4001)
    sizes = np.exp(z) + 1e-8
    y = fitted.density.y
    log_p = -0.5 * (y @ y) / sizes - 0.5 * N * np.log(2.0 * np.pi * sizes) + free.logpdf(z)
    truth = scipy.special.logsumexp(log_p) + np.log(z[1] - z[0]) - N * np.log(Y.std())
    assert value == pytest.approx(np.exp(z[np.argmax(log_p)]), rel=5e-3)
    assert fitted.log_evidence == pytest.approx(truth, abs=5e-3)


@pytest.mark.slow
def test_mode_equals_map():
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
    # The Hessian comes from a point near the mode, and the evidence takes its logarithm.
    assert abs(fitted.optimum.log_evidence - posterior.optimum.log_evidence) < 0.02
    point = Draws.at_mode(fitted).posterior(0)
    assert point.method == "map" and point.trust.verdict == "not assessable"
    for name, value in posterior.point().items():
        np.testing.assert_allclose(point.point()[name], value, rtol=1e-4, err_msg=name)


@pytest.mark.parametrize("trend", few(TRENDS, "slope"))
@pytest.mark.slow
def test_random_starts_find_no_better_mode(trend):
    structure, choices, x, y = of_airline(trend)
    fitted = FittedStructure.from_values(structure, choices, x, y)
    rng = np.random.default_rng(1)
    for z in fitted.density.middle + rng.standard_normal((8, len(fitted.mode))):
        start = dict(zip(fitted.density.names, z, strict=True))
        other = FittedStructure.from_values(structure, choices, x, y, start)
        assert other.log_density < fitted.log_density + 0.01


@pytest.mark.parametrize("trend", few(TRENDS, "drift"))
def test_density_is_invariant_to_units_of_time_and_values(trend):
    """Months as steps of 1 or of 1/12, and values in cents."""
    structure, choices, x, y = of_airline(trend)
    in_steps = replace(choices, seasons={"season": 12.0}, step=1.0)
    one = FittedStructure.from_values(structure, choices, x, y)
    other = build_density(
        choices, structure, x, build_scale(choices, structure, 100.0 * y), 100.0 * y
    )
    np.testing.assert_allclose(other.log_density(one.mode), one.log_density, rtol=1e-9)
    density = build_density(in_steps, structure, 12.0 * x, one.scale, y)
    assert density.names == one.density.names
    # The unit of a hyperparameter shifts its logarithm, and so the median of its prior.
    z = one.mode - one.density.middle + density.middle
    np.testing.assert_allclose(density.log_density(z), one.log_density, rtol=1e-9)


@pytest.mark.slow
def test_draws_agree_with_nuts():
    """Weighted draws of one structure of the Nile series."""
    # Priors with moments, so that the chains settle.
    values = {"trend.level.variance": (-2.0, 0.8), "noise": (-1.0, 0.8)}
    priors = Priors(values | {"trend.drift.variance": (-4.0, 0.8)}, step=1.0)
    models = [
        bk.StructuralModel(log=False, priors=priors, method=method)
        for method in (bk.NUTS(warmup=300, draws=500), None)
    ]
    chain, few_draws = (
        bk.forecast("nile", 10, trend="drift", season=0, model=model) for model in models
    )
    assert chain.posterior.trust.verdict == "good"
    np.testing.assert_allclose(few_draws.median, chain.median, rtol=0.02)
    for level in (0.8, 0.95):
        widths = [np.subtract(*f.interval(level)[::-1]) for f in (few_draws, chain)]
        np.testing.assert_allclose(widths[0], widths[1], rtol=0.1)


# -- averages over draws ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def draws():
    return Draws.from_laplace(given(), 40, seed=3, x_new=T[-1] + np.arange(1, 4) / 12.0)


def test_moments_equal_mixture_of_draws(draws):
    """Law of total variance, with truncated weights: Ionides (2008)."""
    ratios = np.exp(draws.log_ratios - draws.log_ratios.max())
    weights = np.minimum(ratios / ratios.sum(), 40**-0.5)
    weights /= weights.sum()
    new = T[-1] + np.arange(1, 4) / 12.0
    means, variances = draws.fitted.density.moments(draws.z, new)
    mean, sd = draws.moments(new)
    np.testing.assert_allclose(mean, weights @ means, rtol=1e-7)
    square = weights @ (variances + means**2)
    np.testing.assert_allclose(sd, np.sqrt(square - (weights @ means) ** 2), rtol=1e-6)
    # Times that were not asked for before.
    others = new + 0.01
    means, _ = draws.fitted.density.moments(draws.z, others)
    np.testing.assert_allclose(draws.moments(others)[0], weights @ means, rtol=1e-7)


def test_correlation_equals_mixture_of_draws(draws):
    new = T[-1] + np.array([1.0, 2.0, 6.0]) / 12.0
    rng, paths = np.random.default_rng(0), []
    for z, count in zip(draws.z, rng.multinomial(200_000, draws.shares), strict=True):
        paths.append(rng.multivariate_normal(*draws.fitted.density.joint(z, new), count))
    expected = np.corrcoef(np.concatenate(paths).T)
    np.testing.assert_allclose(draws.correlation(new), expected, atol=0.01)


def test_leave_one_out_moments_equal_fit_without_the_value(draws):
    mean, sd = draws.loo_moments()
    kept = np.arange(N) != 30
    density = draws.fitted.density.given(T[kept], draws.fitted.density.y[kept])
    means, variances = density.moments(draws.z, T[[30]])
    np.testing.assert_allclose(mean[30], draws.shares @ means[:, 0], rtol=1e-7)
    square = draws.shares @ (variances + means**2)[:, 0]
    np.testing.assert_allclose(sd[30], np.sqrt(square - mean[30] ** 2), rtol=1e-7)


def test_draws_with_nan_moments_have_no_weight(draws):
    means, variances = np.array([[1.0, 2.0], [np.nan, 2.0], [3.0, 4.0]]), np.ones((3, 2))
    three = Draws(draws.fitted, draws.z[:3], np.zeros(3))
    mean, sd = three.averaged(means, variances)
    np.testing.assert_allclose(mean, [2.0, 3.0])
    np.testing.assert_allclose(sd, np.sqrt(2.0))
    with pytest.raises(FloatingPointError, match="could not be factored"):
        three.averaged(np.full((3, 2), np.nan), variances)


def test_single_draw_is_a_point():
    point = Draws.at_mode(given())
    assert point.is_point and point.shares.tolist() == [1.0] and point.ess == 1.0
