"""Change points of level and slope, given or found, against explicit features."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import bayeskern as bk
from bayeskern import kernels
from bayeskern.forecast.fit.changes import likeliest_change
from bayeskern.forecast.fit.modes import Fitted
from bayeskern.forecast.model.building import build_kernel_and_noise
from bayeskern.forecast.model.kernels import JUMP_VARIANCE
from bayeskern.forecast.model.structure import Structure
from bayeskern.forecast.model.transformation import Scale
from tests.forecast.tables import choices_for

N, AT = 60, 36
RNG = np.random.default_rng(8)
T = np.arange(N) / 12.0
LINE = 0.3 * T + 0.2 * RNG.standard_normal(N)
MONTHS = pd.date_range("2015-01-01", periods=N, freq="MS")


def jumped(size=3.0):
    return LINE + size * (np.arange(N) >= AT)


def test_bayes_factor_equals_ratio_of_two_processes():
    choices = choices_for(trends=("smooth",), step=1.0 / 12.0)
    fitted = Fitted.of(Structure("smooth", False), choices, T, jumped(0.8))
    at, log_factor = likeliest_change(fitted, unit=1.0)
    values = fitted.evidence.values(fitted.mode)
    K = np.asarray(fitted.model.at(values).kernel(T)) + float(values["noise"]) * np.eye(N)
    features = np.stack([at < T, np.where(at < T, T - at, 0.0)], axis=1).astype(float)
    with_change = K + np.exp(JUMP_VARIANCE) * features @ features.T
    y = fitted.evidence.y
    expected = [stats.multivariate_normal(np.zeros(N), C).logpdf(y) for C in (with_change, K)]
    np.testing.assert_allclose(log_factor, expected[0] - expected[1], rtol=1e-6)


def test_kernel_of_change_has_features_of_level_and_slope():
    choices, y, at = choices_for(step=1.0 / 12.0), jumped(), T[AT] - 1.0 / 24.0
    own = {"trend.level.variance": 1.0, "trend.drift.variance": 1.0}
    of_change = {
        "trend.changepoint.sum.constant.variance": 2.0,
        "trend.changepoint.sum.linear.variance": 3.0,
    }
    grams = []
    for changes, values in (((), own), ((at,), own | of_change)):
        structure = Structure("drift", False, changes)
        kernel, _ = build_kernel_and_noise(choices, structure, T, Scale.of(y, False), y)
        grams.append(np.asarray(kernel.at(values)(T)))
    features = np.stack([at < T, np.where(at < T, T - at, 0.0)], axis=1).astype(float)
    expected = features @ np.diag([2.0, 3.0]) @ features.T
    np.testing.assert_allclose(grams[1] - grams[0], expected, atol=1e-8)


def test_jump_is_located():
    values = pd.Series(jumped(), MONTHS)
    f = bk.forecast(values, 6, trend="smooth", model=bk.StructuralModel(changes="find"))
    np.testing.assert_array_equal(f.changes, [np.datetime64("2018-01-01")])
    assert "level and slope change at 2018-01-01" in f.structure
    assert np.all(np.abs(f.median - 3.0 - 0.3 * (T[-1] + 0.3)) < 1.0)


def test_no_change_is_found_in_a_line():
    f = bk.forecast(
        pd.Series(LINE, MONTHS), 6, trend="smooth", model=bk.StructuralModel(changes="find")
    )
    assert f.changes.size == 0


def test_given_change_is_used():
    values = pd.Series(jumped(0.1), MONTHS)
    f = bk.forecast(values, 6, trend="drift", model=bk.StructuralModel(changes=["2018-01-01"]))
    np.testing.assert_array_equal(f.changes, [np.datetime64("2018-01-01")])


@pytest.mark.parametrize("at", ["2015-01-01", "2030-01-01"])
def test_changes_outside_of_the_series_are_refused(at):
    with pytest.raises(ValueError, match="must lie after 2015-01-01 and not after 2019-12"):
        bk.forecast(pd.Series(LINE, MONTHS), 6, model=bk.StructuralModel(changes=[at]))


def test_changes_with_a_given_kernel_are_refused():
    with pytest.raises(ValueError, match="applies to the built-in structures"):
        bk.StructuralModel(changes="find", kernel=kernels.RBF())
