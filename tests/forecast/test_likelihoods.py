"""Forecasts of counts and shares, through likelihoods."""

import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

import bayeskern as bk
from bayeskern import cli
from bayeskern.likelihoods.analytic import Analytic
from tests.marks import few

LIKELIHOODS = Analytic.by_name()
NAMES = list(LIKELIHOODS)
N, H = 80, 6


def simulated(name, seed, n=N + H):
    rng = np.random.default_rng(seed)
    t = np.arange(n)
    f = rng.normal(1.0, 0.6) + 0.5 * np.sin(2.0 * np.pi * t / 12.0)
    f += np.cumsum(rng.normal(0.0, 0.05, n))
    theta = {"poisson": [], "negative_binomial": [1.2], "zero_inflated": [3.0, -0.6], "beta": [2.3]}
    return LIKELIHOODS[name].draw(rng, f, np.array(theta[name]))


def fitted(name, seed=0, **options):
    return bk.forecast(simulated(name, seed)[:N], H, season=12, likelihood=name, **options)


@pytest.fixture(scope="module", params=few(NAMES, "negative_binomial"))
def found(request):
    return request.param, fitted(request.param)


def test_draws_quantiles_moments_and_densities_agree(found):
    name, f = found
    draws = f.sample(40_000, seed=1)
    likelihood = LIKELIHOODS[name]
    for level in (0.1, 0.5, 0.9):
        at = f.quantile(level)
        if likelihood.whole:
            # The least whole number that is reached with this probability.
            assert np.array_equal(at, np.round(at))
            assert np.all(np.mean(draws <= at, axis=0) > level - 0.015)
            assert np.all(np.mean(draws <= at - 1.0, axis=0) < level + 0.015)
        else:
            np.testing.assert_allclose(np.mean(draws <= at, axis=0), level, atol=0.015)
    np.testing.assert_allclose(np.median(draws, axis=0), f.median, atol=1.0, rtol=0.03)
    mean, sd = draws.mean(axis=0), draws.std(axis=0)
    kurtosis = np.mean((draws - mean) ** 4, axis=0) / sd**4
    assert np.all(np.abs(f.mean - mean) < 4.5 * sd / np.sqrt(len(draws)))
    assert np.all(np.abs(f.sd / sd - 1.0) < 4.5 * np.sqrt((kurtosis - 1.0) / (4.0 * len(draws))))
    # As of every forecast.
    lower, upper = f.interval(0.98)
    assert np.all((lower <= f.mean) & (f.mean <= upper))
    if likelihood.whole:
        total = sum(np.exp(f.log_density(np.full(H, float(y)))) for y in range(600))
        np.testing.assert_allclose(total, 1.0, atol=5e-3)
        assert np.all(f.log_density(np.full(H, 0.5)) == -np.inf)
    else:
        y = np.linspace(0.0, 1.0, 2001)[1:-1]
        total = np.mean([np.exp(f.log_density(np.full(H, at))) for at in y], axis=0)
        np.testing.assert_allclose(total, 1.0, atol=5e-3)
    assert np.all(f.log_density(np.full(H, -1.0)) == -np.inf)


def test_several_quantiles_match_single_ones(found):
    _, f = found
    q = np.array([0.01, 0.2, 0.5, 0.8, 0.99])
    one_by_one = np.stack([f.quantile(p) for p in q])
    np.testing.assert_allclose(f.quantile(q), one_by_one, atol=2e-3)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_intervals_are_calibrated(name):
    """The probability of less than what came, spread over that of it, is uniform.

    Czado, Gneiting and Held (2009), "Predictive model assessment for count data", section 2.
    """
    rng, ranks = np.random.default_rng(0), []
    for seed in range(40):
        f = fitted(name, seed)
        came = simulated(name, seed)[N:]
        # The forecast's own draws, of which ties are broken at random.
        draws = f.sample(2000, seed=seed)
        below, ties = np.mean(draws < came, axis=0), np.mean(draws == came, axis=0)
        ranks.append(below + ties * rng.random(H))
    ranks = np.array(ranks)
    for level in (0.5, 0.8, 0.95):
        share = np.mean(np.abs(ranks - 0.5) < 0.5 * level)
        # Of 40 series, whose steps go together in part.
        assert share == pytest.approx(level, abs=3.0 * np.sqrt(level * (1.0 - level) / 80.0))


@pytest.mark.slow
@pytest.mark.parametrize("name", few(NAMES, "negative_binomial"))
def test_the_density_matches_a_latent_gp(name):
    f = fitted(name)
    fit, target = f.leading, f.leading.target
    assert tuple(target.coordinates) == fit.density.names
    if LIKELIHOODS[name].log_concave:
        truth = float(target.log_density(jnp.array(fit.mode)))
        assert fit.log_density == pytest.approx(truth, abs=1e-5)
    assert set(fit.density.names) <= set(f.posterior.summary().index)


def test_effects_are_factors_of_the_mean():
    rng = np.random.default_rng(5)
    on = (rng.random(120) < 0.2).astype(float)
    on[-3:] = [1.0, 0.0, 1.0]
    y = rng.poisson(4.0 * 2.5**on)
    days = pd.date_range("2024-01-01", periods=120)
    sold = np.append(y[:114].astype(float), np.full(6, np.nan))
    frame = pd.DataFrame({"day": days, "sold": sold, "promotion": on})
    f = bk.forecast(
        bk.read_series(frame, value="sold", regressors=["promotion"]),
        6,
        season=0,
        likelihood="poisson",
    )
    row = f.effects().loc["promotion"]
    assert row["lower"] < 2.5 < row["upper"] and row["lower"] > 1.7
    ahead = on[114:] == 1.0
    assert f.mean[ahead].min() > 1.5 * f.mean[~ahead].max()


@pytest.mark.slow
def test_updates_of_counts():
    y = simulated("negative_binomial", 0)
    f = fitted("negative_binomial")
    longer = f.update(y[N : N + 3])
    again = bk.forecast(y[: N + 3], H, season=12, likelihood="negative_binomial")
    np.testing.assert_allclose(longer.mean, again.mean, rtol=0.15)
    with pytest.raises(ValueError, match="must be whole numbers of at least 0"):
        f.update([3.0, -1.0])
    high = f.update(np.full(3, y[:N].max() * 5.0))
    assert np.all(high.mean > 1.3 * f.mean)


@pytest.mark.slow
def test_change_points_of_counts():
    rng = np.random.default_rng(2)
    y = rng.poisson(np.where(np.arange(80) < 60, 3.0, 12.0))
    f = bk.forecast(y, 4, season=0, likelihood="poisson", model=bk.StructuralModel(changes=[60]))
    assert np.all(abs(f.median - 12.0) < 3.0)


@pytest.mark.slow
def test_anomalies_of_counts():
    y = simulated("poisson", 3).copy()
    y[40] = 60.0
    found = bk.anomalies(y, season=12, likelihood="poisson")
    assert np.flatnonzero(found.outside).tolist() == [40]
    lower, upper = found.interval
    assert np.array_equal(upper, np.round(upper)) and np.all(lower >= 0)


def test_large_counts_match_a_model_of_the_logarithm():
    """Where the noise of counts is small beside how they vary, their likelihood says little."""
    rng = np.random.default_rng(4)
    y = np.round(np.exp(12.0 + np.cumsum(rng.normal(0.0, 0.05, 90))))
    options = {"season": 0, "trend": "drift"}
    counts = bk.forecast(y, 5, likelihood="negative_binomial", **options)
    logs = bk.forecast(y, 5, model=bk.StructuralModel(log=True), **options)
    np.testing.assert_allclose(counts.median, logs.median, rtol=0.02)
    # The logarithm is forecast with calibrated errors, too.
    np.testing.assert_allclose(counts.sd, logs.sd, rtol=0.5)


@pytest.mark.slow
def test_summary_and_csv_of_counts(tmp_path):
    f = fitted("negative_binomial")
    text = str(f)
    assert "the logarithm of the mean of negative binomial counts" in text
    assert "beyond chance" not in text
    written = f.export(tmp_path)
    table = pd.read_csv(written[0])
    assert np.array_equal(table["median"], np.round(table["median"]))
    assert "small counts" not in " ".join(f.remarks)


def test_small_counts_without_a_likelihood_are_remarked_on():
    f = bk.forecast(simulated("poisson", 0)[:N], H, season=12)
    assert any("--likelihood negative_binomial" in remark for remark in f.remarks)


def excluded(option):
    return rf"excludes StructuralModel\({option}=...\)"


@pytest.mark.parametrize(
    ("y", "options", "said"),
    [
        ([1, 2, 0, -1, 3, 4], {}, "whole numbers of at least 0; the value at 3 is -1"),
        ([1, 2, 0, 1.5, 3, 4], {}, "the value at 3 is 1.5"),
        ([0.1, 0.2, 1.0, 0.4], {"likelihood": "beta"}, "strictly between 0 and 1"),
        ([1, 2, 0, 1, 3], {"likelihood": "normal"}, "not known. Choose from poisson"),
        ([1, 2, 0, 1, 3], {"model": bk.StructuralModel(lower=0.0)}, excluded("lower")),
        ([1, 2, 0, 1, 3], {"model": bk.StructuralModel(log=True)}, excluded("log")),
        ([1, 2, 0, 1, 3], {"model": bk.StructuralModel(robust=True)}, excluded("robust")),
        ([1, 2, 0, 1, 3], {"model": bk.StructuralModel(method="nuts")}, excluded("method")),
    ],
)
def test_bad_input(y, options, said):
    with pytest.raises(ValueError, match=said):
        bk.forecast(y, 3, **{"likelihood": "poisson", **options})


@pytest.mark.parametrize("name", ["poisson", "zero_inflated"])
def test_counts_that_are_almost_all_zero(name):
    y = np.zeros(60)
    y[[10, 30, 45]] = 1.0
    f = bk.forecast(y, 4, season=0, likelihood=name)
    assert np.all(f.median == 0.0) and np.all(f.interval(0.8)[1] <= 1)
    assert f.interval(0.95)[1][0] <= 2
    assert np.all(np.isfinite(f.log_density(np.zeros(4))))
    # Of 3 in 60, and not of a tail that no value of the series speaks for.
    assert np.all(f.mean < 0.5)


def test_the_most_probable_structure_alone():
    f = fitted("poisson", model=bk.StructuralModel(method="map"))
    assert len(f.parts) == 1 and np.all(np.isfinite(f.mean))


def run(*arguments):
    with pytest.raises(SystemExit) as ended:
        cli.main(list(arguments))
    assert not ended.value.code


@pytest.mark.slow
def test_counts_and_holidays_on_the_command_line(tmp_path):
    days = pd.date_range("2024-11-01", periods=70)
    sold = np.random.default_rng(0).poisson(np.where(days.strftime("%m%d") == "1224", 30.0, 4.0))
    pd.DataFrame({"day": days, "sold": sold}).to_csv(tmp_path / "sold.csv", index=False)
    arguments = ["--likelihood", "poisson", "--season", "0", "--output", str(tmp_path)]
    window = ["--holidays", "DE", "--holiday-window", "1", "0"]
    sold = str(tmp_path / "sold.csv")
    run("forecast", sold, "--horizon", "4", *arguments, *window)
    table = pd.read_csv(tmp_path / "forecast.csv")
    assert (table.filter(regex="lower|upper|median") % 1 == 0).all(axis=None)
    run("anomalies", sold, *arguments)
    assert pd.read_csv(tmp_path / "anomalies.csv")["day"].tolist() == ["2024-12-24"]
