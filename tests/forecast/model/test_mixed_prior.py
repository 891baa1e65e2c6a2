"""Density and predictions of totals and days against a normal distribution on the grid of days."""

import numpy as np
import pytest
from scipy.optimize import approx_fprime
from scipy.stats import multivariate_normal, norm

from bayeskern.forecast.model.building import build_density, build_kernel_and_noise
from bayeskern.forecast.model.kernels import NOISE
from bayeskern.forecast.model.learned import learned
from bayeskern.forecast.model.processes.fine_steps import FineSteps
from bayeskern.forecast.model.structure import Structure, StructureChoices
from bayeskern.forecast.model.transformation import Scale
from bayeskern.forecast.model.trends import TRENDS

MONTHS, DAYS_SEEN = 16, 40


@pytest.fixture(scope="module")
def steps():
    edges = np.arange("2023-01", "2025-01", dtype="M8[M]").astype("M8[D]").astype(int)
    return FineSteps(1 / 12, edges, 30.4, {"season_weekly": 7.0}, learned("daily"))


class Dense:
    """Dense process on single days: y = A f, where each row of A is a mean over days."""

    def __init__(self, steps, kernel, values):
        first, end = steps.edges[[0, -1]]
        days = np.arange(first, end)
        month = np.searchsorted(steps.edges, days, side="right") - 1
        length = np.diff(steps.edges)[month]
        third = np.floor(3 * (days - steps.edges[month] + 0.5) / length)
        at = (month + (third + 0.5) / 3) / 12
        lag = np.abs(days[:, None] - days)
        ell = values["season_weekly.lengthscale"]
        wave = np.exp(-2 * np.sin(np.pi * lag / 7) ** 2 / ell**2)
        grid = np.arange(1000) / 1000
        average = np.mean(np.exp(-2 * np.sin(np.pi * grid) ** 2 / ell**2))
        weekly = values["season_weekly.variance"] * (wave - average) / (1 - average)
        short = np.exp(-lag / values["short_term.lengthscale"]) * values["short_term.variance"]
        noise = 30.4 * values[NOISE] * np.eye(len(days))
        self.first, self.days, self.month = first, days, month
        self.K = np.asarray(kernel(at[:, None], at[:, None])) + weekly + short + noise

    def of_month(self, m):
        return (self.month == m) / np.sum(self.month == m)

    def of_day(self, day):
        return (self.days == day).astype(float)


def example(steps, trend):
    """Log density of 16 months and 40 later days, its kernel, and A of the values."""
    rng = np.random.default_rng(0)
    x_months = np.arange(MONTHS) / 12
    days = steps.edges[MONTHS - 1] + 3 + np.arange(DAYS_SEEN)
    x = np.append(x_months, steps.positions(days))
    y = 100 + np.cumsum(rng.normal(size=len(x)))
    choices = StructureChoices((trend,), {"season": 1.0}, (False,), learned("monthly"), step=1 / 12,
                      fine_steps=steps)  # fmt: skip
    structure = Structure(trend, False)
    scale = Scale.from_values(y[:MONTHS], False)
    density = build_density(choices, structure, x, scale, y)
    z = density.middle + 0.3 * rng.normal(size=len(density.middle))
    kernel, _ = build_kernel_and_noise(choices, structure, x_months, scale, y[:MONTHS])
    values = {name: float(v) for name, v in density.values(z).items()}
    names = kernel.hyperparameters()
    kernel = kernel.at({name: v for name, v in values.items() if name in names})
    dense = Dense(steps, kernel, values)
    A = np.array([*map(dense.of_month, range(MONTHS)), *map(dense.of_day, days)])
    return density, z, dense, A, scale.forward(y)


@pytest.mark.parametrize("trend", TRENDS)
def test_the_density_is_that_of_sums_of_days(steps, trend):
    density, z, dense, A, y = example(steps, trend)
    prior = density.prior
    log_prior = sum(
        np.sum(norm.logpdf(part, p._location, p._scale))
        for part, p in zip(prior._split(z), (prior._slow, prior._fast), strict=True)
    )
    expected = multivariate_normal.logpdf(y, cov=A @ dense.K @ A.T, allow_singular=False)
    assert density.log_density(z) == pytest.approx(expected + log_prior, rel=1e-9)


@pytest.mark.parametrize("trend", TRENDS)
def test_the_gradient_is_that_of_the_density(steps, trend):
    density, z, *_ = example(steps, trend)
    ahead, behind = (approx_fprime(z, density.log_density, step) for step in (1e-5, -1e-5))
    expected = 0.5 * (ahead + behind)
    np.testing.assert_allclose(density.value_and_gradient(z)[1], expected, rtol=2e-4, atol=2e-4)


def test_predictions_are_those_of_the_days(steps):
    density, z, dense, A, y = example(steps, "reverting")
    x_new = np.append(np.arange(MONTHS - 1, MONTHS + 4) / 12, steps.positions(dense.days[-70:-60]))
    B = np.array(
        [
            *map(dense.of_month, range(MONTHS - 1, MONTHS + 4)),
            *map(dense.of_day, dense.days[-70:-60]),
        ]
    )
    weights = np.linalg.solve(A @ dense.K @ A.T, A @ dense.K @ B.T)
    mean, covariance = density.joint(z, x_new)
    np.testing.assert_allclose(mean, weights.T @ y, rtol=1e-7, atol=1e-9)
    expected = B @ dense.K @ B.T - weights.T @ A @ dense.K @ B.T
    np.testing.assert_allclose(covariance, expected, rtol=1e-6, atol=1e-8)
    means, variances = density.moments(z[None], x_new)
    np.testing.assert_allclose(means[0], mean)
    np.testing.assert_allclose(variances[0], np.diag(covariance), atol=1e-8)


def test_a_total_is_the_mean_of_its_days(steps):
    density, z, *_ = example(steps, "slope")
    # A month of which some days are seen, and a month ahead.
    for month in (MONTHS, MONTHS + 3):
        days = np.arange(*steps.edges[month : month + 2])
        mean, covariance = density.joint(z, steps.positions(days))
        total, variance = density.joint(z, np.array([month / 12]))
        assert total[0] == pytest.approx(mean.mean(), rel=1e-9)
        assert variance[0, 0] == pytest.approx(covariance.mean(), rel=1e-6)


def test_seen_days_are_certain(steps):
    density, z, dense, _, y = example(steps, "drift")
    x_seen = density.x[MONTHS:]
    mean, covariance = density.joint(z, x_seen)
    np.testing.assert_allclose(mean, y[MONTHS:], atol=1e-8)
    assert np.abs(covariance).max() < 1e-8 * np.diag(dense.K).max()


def test_days_alone_are_a_daily_series(steps):
    density, z, dense, A, y = example(steps, "smooth")
    days = density.given(density.x[MONTHS:], density.y[MONTHS:])
    log_prior = days.prior.log_density(z)
    cov = (A @ dense.K @ A.T)[MONTHS:, MONTHS:]
    expected = multivariate_normal.logpdf(y[MONTHS:], cov=cov) + log_prior
    assert days.log_density(z) == pytest.approx(expected, rel=1e-9)


def test_times_beyond_the_periods_are_refused(steps):
    with pytest.raises(ValueError, match="times must lie within the 23 periods"):
        steps.rows(np.array([5.0]))
