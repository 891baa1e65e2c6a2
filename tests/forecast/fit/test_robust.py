"""Student t noise against closed forms, and on series with outliers."""

import numpy as np
import pandas as pd
import pytest
from scipy import integrate, stats

import bayeskern as bk
from bayeskern.forecast.fit.density import StructureDensity, scale_and_density
from bayeskern.forecast.fit.robust import DEGREES, noise_factors
from bayeskern.forecast.model.structure import Structure
from tests.forecast.tables import choices_for

RNG = np.random.default_rng(2)


def test_bound_with_known_function_equals_student_t_density():
    """For known f, q(l) is exact and the bound is tight."""
    y, noise = 3.0 * RNG.standard_t(DEGREES, 50), 4.0
    factors, extra = noise_factors(np.square(y), noise)
    gaussian = stats.norm(0.0, np.sqrt(noise * factors)).logpdf(y).sum()
    expected = stats.t(DEGREES, scale=np.sqrt(noise)).logpdf(y).sum()
    np.testing.assert_allclose(gaussian + extra, expected, rtol=1e-12)


def test_bound_is_below_and_close_to_evidence():
    """A level f ~ N(0, 1) under t noise, integrated by quadrature."""
    y, noise = 0.5 + 0.4 * RNG.standard_t(DEGREES, 8), 0.16
    likelihood = stats.t(DEGREES, scale=np.sqrt(noise)).logpdf
    evidence = np.log(
        integrate.quad(
            lambda f: np.exp(likelihood(y - f).sum() + stats.norm.logpdf(f)), -3, 3, epsabs=1e-14
        )[0]
    )
    squares = np.square(y - y.mean())
    for _ in range(50):
        factors, extra = noise_factors(squares, noise)
        precision = 1.0 + np.sum(1.0 / (noise * factors))
        mean = np.sum(y / (noise * factors)) / precision
        squares = np.square(y - mean) + 1.0 / precision
    covariance = np.diag(noise * factors) + 1.0
    bound = stats.multivariate_normal(np.zeros(8), covariance).logpdf(y) + extra
    assert evidence - 0.3 < bound < evidence


def test_excess_noise_completes_the_variance_of_student_t():
    x, y = np.arange(20.0), RNG.standard_normal(20)
    structure, choices = Structure("drift", False), choices_for(robust=True)
    scale, evidence = scale_and_density(structure, choices, x, y)
    density = StructureDensity(structure, choices, scale, x, y, evidence)
    noise = float(evidence.values(evidence.middle)["noise"])
    expected = stats.t(DEGREES, scale=np.sqrt(noise)).var()
    assert noise + density.excess_noise(evidence.middle) == pytest.approx(expected, rel=1e-12)


def test_trusted_values_have_gaussian_noise():
    squares, trusted = np.array([0.5, 100.0, 9.0]), np.array([False, True, False])
    factors, extra = noise_factors(squares, 1.0, trusted)
    others, of_others = noise_factors(squares[~trusted], 1.0)
    assert factors[1] == 1.0 and extra == of_others
    np.testing.assert_array_equal(factors[~trusted], others)


@pytest.mark.slow
def test_holidays_are_not_treated_as_outliers():
    """Gaussian and robust fits agree on a holiday."""
    days = pd.date_range("2021-01-01", "2023-07-01", freq="D")
    rng = np.random.default_rng(4)
    y = 14.0 - 3.0 * (days.dayofweek >= 5) + 0.4 * rng.standard_normal(len(days))
    y = y - 8.0 * ((days.month == 7) & (days.day == 4))
    medians = []
    for robust in (False, True):
        model = bk.StructuralModel(robust=robust, log=False, method="map")
        f = bk.forecast(
            pd.Series(y, days), 7, season=7, trend="reverting", holidays="US", model=model
        )
        medians.append(f.to_frame().loc["2023-07-04", "median"])
    # Three values lie at the prior of N(0, 1) squared sds of the series, which shrinks them a bit.
    np.testing.assert_allclose(medians, 6.0, atol=1.0)
    np.testing.assert_allclose(medians[1], medians[0], atol=0.3)


def series(count=60):
    t = np.arange(count)
    return 10.0 + 0.05 * t + np.sin(2.0 * np.pi * t / 12) + 0.2 * RNG.standard_normal(count)


def test_outlier_has_little_influence():
    values = series()
    wild = values.copy()
    wild[40] = 1e6
    models = [bk.StructuralModel(log=False, robust=robust) for robust in (False, True)]
    options = {"season": 12, "trend": "smooth"}
    clean = bk.forecast(values, 6, model=models[0], **options)
    gaussian, robust = (bk.forecast(wild, 6, model=model, **options) for model in models)
    error = np.abs(robust.median - clean.median).max()
    assert error < 0.1 * np.abs(gaussian.median - clean.median).max()


def test_quantiles_agree_with_draws():
    f = bk.forecast(
        series(), 4, season=12, trend="drift", model=bk.StructuralModel(log=False, robust=True)
    )
    paths = f.sample(20_000, seed=1)
    for p in (0.05, 0.5, 0.95):
        assert np.all(np.abs(np.mean(paths < f.quantile(p), axis=0) - p) < 0.02)
