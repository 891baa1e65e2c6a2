"""Series that are short, constant or spoilt, arguments that cannot be, and what is remarked on."""

import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

import bayeskern as bk
from bayeskern import kernels
from bayeskern.forecast.model import configuration
from tests.forecast.examples import (
    HORIZON,
    ONE_STRUCTURE,
    N,
    consistent,
    months,
    seasonal,
    sound,
)
from tests.marks import slow


@pytest.mark.slow
@pytest.mark.parametrize("count", [3, slow(4)])
def test_very_short(count):
    f = bk.forecast([1.0, 2.0, 4.0, 3.0][:count], 2)
    sound(f)
    # Three values say little: the interval is wider than their range.
    lower, upper = f.interval(0.95)
    assert np.all(upper - lower > np.ptp(f.series.values))


# -- constant series -------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [5.0, 0.0, -2.5])
def test_a_constant_series(tmp_path, value):
    f = bk.forecast(pd.Series(np.full(12, value), months(12), name="flat"), HORIZON)
    for path in (f.median, f.mean, *f.interval(0.8), f.quantile(0.01), *f.sample(3)):
        np.testing.assert_array_equal(path, np.full(HORIZON, value))
    np.testing.assert_array_equal(f.sd, 0)
    assert f.remarks == (
        "the series is constant: the forecast is flat and its interval has no width",
    )
    assert f.trust.verdict == "not assessable" and "constant" in f.trust.advice
    y = np.full(HORIZON, value)
    y[0] += 1
    np.testing.assert_array_equal(f.log_density(y), [-np.inf] + [np.inf] * (HORIZON - 1))
    consistent(f)
    assert np.all(f.to_frame()["upper_95"] == value)
    assert "constant" in repr(f) and f.components == ()
    assert [path.name for path in f.export(tmp_path)] == ["forecast.csv", "forecast.png"]
    with pytest.raises(ValueError, match="constant series has no components"):
        f.decompose()


@pytest.mark.slow
def test_small_values_are_not_constant():
    f = bk.forecast(1e-15 * seasonal(), HORIZON, **ONE_STRUCTURE)
    sound(f)
    g = bk.forecast(seasonal(), HORIZON, **ONE_STRUCTURE)
    np.testing.assert_allclose(f.median, 1e-15 * g.median, rtol=1e-6)
    assert "e-1" in bk.summary(f)  # and they are written so that they can be read


# -- bad input -------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1e200, 1e-200])
def test_sizes_that_cannot_be_squared(size):
    with pytest.raises(ValueError, match="give them in another unit"):
        bk.forecast(size * seasonal(), HORIZON)


def test_other_bad_arguments(raw):
    with pytest.raises(ValueError, match="season must be"):
        bk.forecast("nile", 5, season=1)
    with pytest.raises(ValueError, match="'mpa' .* Did you mean 'map'"):
        bk.forecast("nile", 5, model=bk.StructuralModel(method="mpa"))
    for level in (0, 1, 95, "high"):
        with pytest.raises(ValueError, match="strictly between 0 and 1"):
            raw.interval(level)
    with pytest.raises(ValueError, match="q must lie strictly between 0 and 1"):
        raw.quantile([0.5, 1.0])
    with pytest.raises(ValueError, match="has 2 values"):
        raw.log_density([1.0, 2.0])
    with pytest.raises(ValueError, match="times must be dates"):
        raw.decompose(jnp.arange(3.0))


@pytest.mark.slow
@pytest.mark.parametrize("y", [np.arange(60.0), 5.0 + np.sin(2 * np.pi * np.arange(60.0) / 12)])
def test_a_series_without_noise_continues(y):
    f = bk.forecast(y[:48], 12, season=12)
    # Its intervals are wider than no noise at all would need.
    assert f.trust.verdict in ("good", "caution")
    np.testing.assert_allclose(f.median, y[48:], atol=0.01 * np.ptp(y))


def test_the_last_values_of_long_series_are_fitted(monkeypatch):
    monkeypatch.setattr(configuration, "DEFAULT_FITTED_VALUES", 40)
    monkeypatch.setattr(configuration, "MIN_PERIODS", 3)
    long, last = pd.Series(seasonal(), months()), pd.Series(seasonal()[20:], months()[20:])
    one, other = (bk.forecast(s, HORIZON, **ONE_STRUCTURE) for s in (long, last))
    np.testing.assert_array_equal(one.times, other.times)
    np.testing.assert_allclose(one.median, other.median, rtol=1e-9)
    assert one.remarks == ("only the last 40 of 60 values are fitted",)
    # A kernel of one's own sees all of them.
    own = bk.forecast(
        long, HORIZON, model=bk.StructuralModel(kernel=kernels.RBF(0.3, 1.0), method="map")
    )
    assert len(own.leading.y) == N and own.remarks == ()


def test_too_many_values_are_refused():
    with pytest.raises(ValueError, match="at most 10000 values; got 10001"):
        bk.forecast(np.arange(10_001.0), 12, model=bk.StructuralModel(kernel=kernels.RBF()))


@pytest.mark.slow
def test_the_last_of_a_hundred_thousand_hours_are_fitted():
    hours = pd.date_range("2012-01-01", periods=100_000, freq="h")
    noise = np.random.default_rng(0).normal(0.0, 0.5, len(hours))
    day = 10.0 + 3.0 * np.sin(2.0 * np.pi * np.arange(len(hours)) / 24.0)
    f = bk.forecast(pd.Series(day + noise, hours), 24, **(ONE_STRUCTURE | {"season": 24}))
    np.testing.assert_allclose(f.median, day[16:40], atol=0.6)
    assert any("only the last 600 of 100,000 values" in remark for remark in f.remarks)


@pytest.mark.parametrize(
    ("count", "horizon", "most"), [(60, 10_000_000, 100_000), (10_000, 10_001, 10_000)]
)
def test_too_many_steps_are_refused(count, horizon, most):
    with pytest.raises(ValueError, match=f"at most {most} steps from {count} values"):
        bk.forecast(
            np.arange(float(count)), horizon, model=bk.StructuralModel(kernel=kernels.RBF())
        )


def test_steps_beyond_the_last_year_of_a_date_are_refused():
    values = pd.Series(np.full(60, 2.0), months())
    last = 12 * (9998 - 2019)
    assert str(bk.forecast(values, last).times[-1]) == "9998-12-01T00:00:00"
    with pytest.raises(ValueError, match="95761 steps go beyond the year 9999"):
        bk.forecast(values, last + 13)


# -- remarks ---------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("lowest", "advice"), [(0.0, "StructuralModel(lower=0)"), (0.01, "StructuralModel(log=True)")]
)
def test_intervals_below_zero_of_positive_values_are_remarked_on(lowest, advice):
    values = seasonal(noise=0.1)
    values += lowest - values.min()
    # A trend down to its lowest value, so that half of what comes is below.
    values = np.sort(values)[::-1]
    f = bk.forecast(values, HORIZON)
    (remark,) = f.remarks
    assert f.interval()[0].min() < 0
    assert remark.startswith("no value is negative, but the 95 % interval") and advice in remark
    assert remark in " ".join(bk.summary(f).split())


@pytest.mark.slow
def test_intervals_above_zero_have_no_remark(log):
    assert log.remarks == ()
    assert bk.forecast(100 + seasonal(), HORIZON).remarks == ()


def test_few_values_are_remarked_on():
    model = bk.StructuralModel(method="map")
    (remark,) = bk.forecast(seasonal(count=9), HORIZON, model=model).remarks
    assert remark.startswith("with 9 values, intervals built on a point estimate may be much too")
    assert bk.forecast(seasonal(count=11), HORIZON, model=model).remarks == ()
    (remark,) = bk.forecast(seasonal(count=9), HORIZON).remarks
    assert remark == "with 9 values, the intervals rest on the priors more than on the series"


def missing_mostly():
    values = 5.0 + seasonal()
    values[np.random.default_rng(1).permutation(N - 1)[:45]] = np.nan
    return values


def changed(place, value):
    values = 5.0 + seasonal()
    values[place] = value
    return values


def without_a_year():
    values = 5.0 + seasonal()
    values[24:36] = np.nan
    return values


def stopped(last=15):
    values = 50.0 + 5.0 * seasonal()
    values[-last:] = 0.0
    return values


def intermittent():
    """Demand at about a third of the times, of one to eight units."""
    rng = np.random.default_rng(3)
    return (rng.random(N) < 0.35) * rng.integers(1, 9, N).astype(float)


HARD = {
    "shorter than a season": (5.0 + seasonal(count=8), 12, "the season of 12 steps is left out"),
    "ten values": (5.0 + seasonal(count=10), 0, "with 10 values, the intervals rest on the priors"),
    "mostly missing": (missing_mostly(), 12, "45 missing values left out of the fit"),
    "an outlier": (
        changed(20, 1e6),
        12,
        "at 20 is far from its leave-one-out prediction",
    ),
    "a shift at the end": (changed(-1, 60.0), 12, "60.00 at 59 is far from its leave-one-out"),
    "a tiny value": (changed(20, 5e-324), 12, "the value 4.94e-324 at 20 is taken for 0"),
    "a huge value": (changed(20, 1e300), 12, "the value 1e+300 at 20 is left out as an error"),
    "two huge values": (changed([20, 30], -1e300), 12, "-1e+300 at 20, and 1 more, is left out"),
    "a season longer than it": (5.0 + seasonal(), 80, "the season of 80 steps is left out"),
    "a year missing": (without_a_year(), 12, "12 missing values left out of the fit"),
}
# Values with a probability of their own, so that quantiles may be the same.
TIED = {
    "zeros at the end": (stopped(), 12, "the series is 0 at 15 of 60 times and never negative"),
    "zeros now and again": (intermittent(), 0, "fitted to the ranks of the values"),
    "zeros but for a few": (np.where(np.arange(N) % 9, 0.0, 3.0), 0, "of 60 values are 0"),
}


@pytest.mark.parametrize(("values", "season", "remark"), HARD.values(), ids=HARD)
def test_hard_series_are_forecast_with_a_remark(values, season, remark):
    f = bk.forecast(values, HORIZON, season=season)
    sound(f)
    consistent(f)
    assert any(remark in text for text in f.remarks), f.remarks
    # Nothing is forecast beyond what the series itself has ever done, more or less.
    observed = values[np.abs(values) < 1e100]
    for center in (f.median, f.mean):
        assert np.all(np.abs(center - np.median(observed)) < 3.0 * np.ptp(observed))


@pytest.mark.slow
@pytest.mark.parametrize(("values", "season", "remark"), TIED.values(), ids=TIED)
def test_series_with_zeros_stay_within_their_range(values, season, remark):
    f = bk.forecast(values, HORIZON, season=season)
    consistent(f)
    assert any(remark in text for text in f.remarks), f.remarks
    assert np.all(f.interval(0.98)[0] >= 0.0) and np.all(f.sample(100) >= 0.0)
    assert np.all(f.interval(0.98)[1] <= 2.0 * np.max(values))
    if "ranks" in remark:
        assert np.all(f.interval(0.999)[1] <= np.max(values))


def test_intermittent_demand_keeps_its_share_of_zeros():
    """Values that have nothing to do with one another: their distribution is the forecast."""
    f = bk.forecast(intermittent(), HORIZON, season=0, trend="reverting")
    values, draws = intermittent(), f.sample(20_000)
    assert np.all(np.abs(np.mean(draws == 0.0, axis=0) - np.mean(values == 0.0)) < 0.15)
    assert np.all(np.abs(f.mean - np.mean(values)) < 0.5 * np.std(values))
    # Zero has a probability of its own.
    share, chance = np.mean(draws == 0.0, axis=0), np.exp(f.log_density(np.zeros(HORIZON)))
    assert np.all(np.abs(share - chance) < 4.5 * np.sqrt(0.25 / len(draws)))
    assert f.trust.verdict in ("good", "caution") and "too wide" not in f.trust.advice


def test_impossible_values_do_not_change_the_forecast():
    """A huge value is a missing one, and a tiny one is a zero."""
    for value, other in ((1e300, np.nan), (5e-324, 0.0)):
        f, g = (bk.forecast(changed(20, v), HORIZON, season=12) for v in (value, other))
        np.testing.assert_array_equal(f.median, g.median)
        np.testing.assert_array_equal(f.sd, g.sd)


@pytest.mark.parametrize(("usual", "odd"), [(3.0, 1e300), (0.0, 1e300), (0.0, 5e-324)])
def test_a_constant_with_an_impossible_value_is_constant(usual, odd):
    values = np.full(20, usual)
    values[5] = odd
    f = bk.forecast(values, HORIZON)
    consistent(f)
    np.testing.assert_array_equal(f.median, np.full(HORIZON, usual))
    odd_one, constant = f.remarks
    assert odd_one.startswith("the value ") and constant.startswith("the series is constant")


def test_too_few_possible_values_are_refused():
    with pytest.raises(ValueError, match="below 1e.100 in absolute value; got 2"):
        bk.forecast([1.0, 2.0, 1e300], 2)


def test_negative_values_have_no_logarithm():
    model = bk.StructuralModel(log=True)
    with pytest.raises(ValueError, match="above zero; the value at 0 is -0"):
        bk.forecast(seasonal() - 0.2, HORIZON, model=model)


def test_growth_on_the_log_scale_has_finite_means():
    """Steps of sd 2 of the logarithm: a lognormal mean would soon be beyond every quantile."""
    y = np.exp(2.0 * np.cumsum(np.random.default_rng(0).standard_normal(N)))
    for model in (bk.StructuralModel(log=True), bk.StructuralModel()):
        consistent(bk.forecast(y, 4 * HORIZON, season=0, model=model))
