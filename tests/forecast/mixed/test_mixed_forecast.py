"""Forecasts of monthly totals with daily values: nowcasts, coherence, coverage, errors."""

import numpy as np
import pandas as pd
import pytest

import bayeskern as bk
from bayeskern import cli

WEEK = np.array([12.0, 6.0, 0.0, -3.0, 9.0, -9.0, -15.0])


def simulate(seed, end="2026-02-28"):
    """Daily values: a random walk with a trend, a year, a week, short memory and noise."""
    rng = np.random.default_rng(seed)
    days = pd.date_range("2020-01-01", end)
    t = np.arange(len(days)) / 365.25
    short, shocks = np.zeros(len(days)), rng.normal(0.0, 3.0, len(days))
    for i in range(1, len(days)):
        short[i] = 0.6 * short[i - 1] + shocks[i]
    level = 100.0 + 8.0 * t + np.cumsum(rng.normal(0.0, 0.35, len(days)))
    year = 12.0 * np.sin(2 * np.pi * (t - 0.3)) + 5.0 * np.cos(4 * np.pi * t)
    noise = rng.normal(0.0, 6.0, len(days))
    return pd.Series(level + year + WEEK[days.dayofweek] + short + noise, days, name="sales")


DAILY = simulate(1)
TOTALS = DAILY.resample("MS").sum()
MONTHLY, RECENT = TOTALS[:"2025-10"], DAILY["2025-09-15":"2025-11-18"]


@pytest.fixture(scope="module")
def mixed():
    return bk.forecast_mixed(MONTHLY, RECENT, 3)


def test_the_first_step_is_the_nowcast(mixed):
    nowcast = mixed.nowcast
    assert nowcast.period == "November 2025"
    assert (nowcast.observed_count, nowcast.count, nowcast.units) == (18, 30, "30 days")
    assert nowcast.observed == pytest.approx(RECENT["2025-11"].sum())
    assert nowcast.share == pytest.approx(0.6)
    assert nowcast.mean == pytest.approx(mixed.mean[0])
    np.testing.assert_allclose(nowcast.interval(0.8), [side[0] for side in mixed.interval(0.8)])
    lower, upper = nowcast.interval(0.95)
    assert nowcast.observed < lower < TOTALS["2025-11-01"] < upper
    assert "18 of 30 days" in str(nowcast)
    (row,) = nowcast.to_frame().to_dict("records")
    values = map(float, (nowcast.mean, nowcast.sd, nowcast.median, lower, upper))
    assert row == pytest.approx(dict(zip(row, values, strict=True)))
    assert list(row) == ["mean", "sd", "median", "lower", "upper"]


def test_the_nowcast_is_the_sum_seen_and_the_rest(mixed):
    nowcast = mixed.nowcast
    assert nowcast.observed + nowcast.rest.mean.sum() == pytest.approx(nowcast.mean, rel=1e-9)
    paths = nowcast.sample(4_000, seed=1)
    np.testing.assert_allclose(paths[0, :18], np.cumsum(RECENT["2025-11"]))
    error = 4.0 * nowcast.sd / np.sqrt(4_000)
    assert paths[:, -1].mean() == pytest.approx(nowcast.mean, abs=error)
    assert paths[:, -1].std() == pytest.approx(nowcast.sd, rel=0.1)


def test_a_forecast_with_days_is_a_forecast_of_the_totals(mixed):
    table = mixed.to_frame(0.8)
    assert [str(day.date()) for day in table.index] == ["2025-11-01", "2025-12-01", "2026-01-01"]
    assert mixed.trust.verdict in ("good", "caution")
    assert any("totals alone" in remark for remark in mixed.remarks)
    sums = mixed.totals("quarter", 0.8)
    assert sums["mean"].iloc[0] == pytest.approx(
        TOTALS["2025-10-01"] + mixed.mean[0] + mixed.mean[1]
    )
    assert {"trend", "season", "season_weekly", "short_term"} == {*mixed.components}
    assert "November 2025" in mixed.explain()


def test_days_sharpen_the_unfinished_month(mixed):
    plain = bk.forecast(MONTHLY, 3, model=bk.StructuralModel(log=False))
    assert mixed.sd[0] < 0.6 * plain.sd[0]
    assert mixed.sd[1] < plain.sd[1]


def test_totals_at_the_end_of_months_are_the_same(mixed):
    ends = MONTHLY.set_axis(MONTHLY.index + pd.offsets.MonthEnd(0))
    other = bk.forecast_mixed(ends, RECENT, 3)
    np.testing.assert_allclose(other.mean, mixed.mean, rtol=1e-9)


def test_the_plot_has_both_frequencies(mixed):
    totals, days = mixed.plot().axes
    assert "November 2025" in days.get_title(loc="left")
    assert totals.get_ylabel() == days.get_ylabel() == "sales"
    assert len(mixed.nowcast.plot().axes) == 1


def test_an_unfinished_total_is_left_out(mixed):
    so_far = pd.concat([MONTHLY, RECENT["2025-11"].resample("MS").sum()])
    other = bk.forecast_mixed(so_far, RECENT, 3)
    assert any("is the sum so far" in remark for remark in other.remarks)
    np.testing.assert_allclose(other.mean, mixed.mean, rtol=1e-9)


def test_a_finished_month_without_total_is_the_sum_of_its_days():
    f = bk.forecast_mixed(MONTHLY, DAILY["2025-09-15":"2025-12-05"], 2)
    assert f.series.values[-1] == pytest.approx(TOTALS["2025-11-01"])
    assert f.nowcast.period == "December 2025"
    assert any("1 total (2025-11-01) taken from" in remark for remark in f.remarks)


def test_days_that_end_with_the_totals_have_no_nowcast():
    f = bk.forecast_mixed(MONTHLY, DAILY["2025-09-15":"2025-10-31"], 2)
    assert f.nowcast is None
    assert f.plot().axes[0].get_title(loc="left").startswith("sales")


@pytest.mark.slow
def test_a_level_shift_is_not_searched_with_days():
    """The model of two frequencies has no change points."""
    totals = MONTHLY[-30:] - 1e6 * (np.arange(30) < 15)
    assert bk.forecast(totals, 3).changes.size
    f = bk.forecast_mixed(totals, RECENT, 3)
    assert not f.changes.size


def test_quarters_and_months():
    quarterly = TOTALS[:"2025-09"].resample("QS").sum()
    f = bk.forecast_mixed(quarterly, TOTALS["2025-01":"2025-11"], 2)
    assert (f.nowcast.units, f.nowcast.observed_count) == ("3 months", 2)
    truth = TOTALS["2025-10":"2025-12"].sum()
    lower, upper = f.nowcast.interval(0.99)
    assert lower < truth < upper


def test_business_days():
    days = DAILY[DAILY.index.dayofweek < 5]
    totals = days.resample("MS").sum()
    f = bk.forecast_mixed(totals[:"2025-10"], days["2025-10-06":"2025-11-14"], 1)
    assert f.nowcast.units == "20 business days"
    lower, upper = f.nowcast.interval(0.99)
    assert lower < totals["2025-11-01"] < upper


@pytest.mark.slow
def test_long_daily_series_are_cut_at_the_start_of_a_month():
    f = bk.forecast_mixed(MONTHLY, DAILY["2023-01-01":"2025-11-10"], 1)
    assert "recent: only the last 375 of 1,045 values are used" in f.remarks


def doubled(day):
    days = RECENT.copy()
    days[day] = 2.0 * days[day] + 100.0
    return days


@pytest.mark.parametrize(
    ("totals", "recent", "options", "message"),
    [
        (RECENT, MONTHLY, {}, "totals must be a series over months.*is daily"),
        (MONTHLY, TOTALS[:"2025-11"], {}, "recent must have a finer frequency.*is monthly"),
        (MONTHLY.to_numpy(), RECENT, {}, "totals must be a series over months"),
        (MONTHLY, RECENT.to_numpy(), {}, "recent must have a finer frequency"),
        (MONTHLY, RECENT.drop(pd.Timestamp("2025-10-02")), {}, "1 time without.*2025-10-02"),
        (MONTHLY, doubled("2025-10-20"), {}, "the 31 values of 2025-10-01 add up to"),
        (MONTHLY / [*MONTHLY.index.days_in_month], RECENT, {}, "It is their mean"),
        (MONTHLY, DAILY["2025-11-03":"2025-11-20"], {}, "recent must begin right after"),
        (MONTHLY, DAILY["2025-09-03":"2025-10-20"], {}, "recent must reach the end"),
        (MONTHLY, RECENT, {"model": bk.StructuralModel(log=True)}, "logarithm of a sum"),
        (MONTHLY, RECENT, {"model": bk.StructuralModel(robust=True)}, "excludes Struct.*robust"),
        (MONTHLY, RECENT, {"model": bk.StructuralModel(lower=9)}, r"lower=...\) other than 0"),
    ],
)  # fmt: skip
def test_bad_input_is_named(totals, recent, options, message):
    with pytest.raises(ValueError, match=message):
        bk.forecast_mixed(totals, recent, 3, **options)


def test_regressors_are_refused():
    table = pd.DataFrame({"month": MONTHLY.index, "sales": MONTHLY.to_numpy(), "price": 1.0})
    totals = bk.read_series(table, time="month", value="sales", regressors="price")
    with pytest.raises(ValueError, match="forecast_mixed excludes regressors"):
        bk.forecast_mixed(totals, RECENT, 3)


def test_options_of_another_type_are_refused():
    with pytest.raises(TypeError, match=r"StructuralModel\(log=True\); got a dict"):
        bk.forecast_mixed(MONTHLY, RECENT, 3, model={"last": 60})


@pytest.mark.parametrize("name", ["save", "update", "scenario"])
def test_what_is_missing_is_named(mixed, name):
    with pytest.raises(ValueError, match=f"{name} is not available for a mixed forecast"):
        getattr(mixed, name)({})


def test_a_report_has_the_nowcast(mixed, tmp_path):
    text = bk.report(mixed, tmp_path / "report.html").read_text()
    assert "nowcast of November 2025" in text
    assert "could not be" not in text


@pytest.mark.slow
def test_the_command_line_takes_both_files(tmp_path, capsys):
    MONTHLY.rename_axis("month").to_csv(tmp_path / "monthly.csv")
    RECENT.rename_axis("day").to_csv(tmp_path / "daily.csv")
    files = tmp_path / "monthly.csv", "--recent", tmp_path / "daily.csv"
    options = "--horizon", 2, "--no-report", "--output", tmp_path / "out"
    with pytest.raises(SystemExit) as end:
        cli.main([str(word) for word in ("forecast", *files, *options)])
    assert end.value.code == 0
    assert "nowcast of November 2025" in " ".join(capsys.readouterr().out.split())
    table = pd.read_csv(tmp_path / "out" / "forecast.csv")
    assert table["month"].tolist() == ["2025-11-01", "2025-12-01"]
    for name, value in (("--backtest", 2), ("--holidays", "DE"), ("--likelihood", "poisson")):
        with pytest.raises(SystemExit):
            cli.main([str(word) for word in ("forecast", *files, *options, name, value)])
        assert f"--recent excludes {name}" in capsys.readouterr().err


@pytest.mark.slow
def test_nowcasts_are_sharper_and_calibrated():
    inside, errors = [], []
    for seed in range(100):
        days = simulate(100 + seed)
        totals = days.resample("MS").sum()
        last = np.random.default_rng(seed).integers(3, 28)
        recent = days["2025-09-10" : f"2025-11-{last:02d}"]
        truth = totals["2025-11-01"]
        f = bk.forecast_mixed(totals[:"2025-10"], recent, 1)
        plain = bk.forecast(totals[:"2025-10"], 1)
        lower, upper = f.nowcast.interval(0.8)
        inside.append(lower <= truth <= upper)
        errors.append([abs(f.median[0] - truth), abs(plain.median[0] - truth)])
    # Three standard errors of a share of 0.8 among 100: 0.12.
    assert 0.68 <= np.mean(inside) <= 0.92
    ours, theirs = np.mean(errors, axis=0)
    assert ours < 0.6 * theirs
