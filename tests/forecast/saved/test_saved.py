"""A loaded forecast equals the forecast that was saved."""

import json
from dataclasses import replace

import numpy as np
import numpyro.distributions as dist
import pandas as pd
import pytest
import xarray as xr

import bayeskern as bk
from bayeskern.core import netcdf
from bayeskern.core.json_arrays import pack, unpack
from bayeskern.forecast.result import forecast_in
from bayeskern.forecast.saved import file
from bayeskern.forecast.saved.kernels import from_plain, to_plain
from bayeskern.kernels import RBF, Linear, Periodic

MIXING = dist.Categorical(np.array([0.5, 0.5]))

RNG = np.random.default_rng(0)
N = 60
MONTHS = pd.date_range("2015-01-31", periods=N + 24, freq="ME")
YEAR = 5.0 * np.sin(np.arange(N) * 2.0 * np.pi / 12.0)
SALES = pd.Series(50.0 + 0.3 * np.arange(N) + YEAR + RNG.normal(size=N), MONTHS[:N], name="sales")
OUTLIER = SALES + 40.0 * (np.arange(N) == 30)
STEP = SALES - 25.0 * (np.arange(N) >= 30)
COUNTS = pd.Series(RNG.poisson(4.0, N), MONTHS[:N])
SHARES = pd.Series(RNG.beta(4.0, 6.0, N), MONTHS[:N])
RARE = pd.Series(np.where(RNG.random(N) < 0.5, 0.0, RNG.gamma(2.0, 3.0, N)).round(), MONTHS[:N])
PRICE = pd.DataFrame({"time": MONTHS, "price": RNG.normal(10.0, 1.0, N + 24)})
DAYS = pd.date_range("2024-01-01", periods=200)
DAILY = pd.Series(20.0 + 3.0 * (np.arange(200) % 7 == 0) + RNG.normal(size=200), DAYS)
LONG = pd.Series(
    10.0 + np.sin(np.arange(1100) * 2.0 * np.pi / 365.25) + 0.3 * RNG.normal(size=1100),
    pd.date_range("2015-01-01", periods=1100),
)
TRAINED = RBF(lengthscale=dist.LogNormal(0.0, 1.0), variance=bk.from_sd(dist.HalfNormal(1.0)))
USER = TRAINED + (Periodic(period=1.0) * Linear(variance=bk.Free(1.0))).named("season")


def structural(**options):
    return bk.StructuralModel(**options)


# Name -> forecast.
FORECASTS = {
    "seasons": lambda: bk.forecast(SALES, 12),
    "gaps": lambda: bk.forecast(SALES.mask(np.arange(N) % 9 == 0), 12),
    "numbers": lambda: bk.forecast(SALES.to_numpy(), 12, season=12),
    "constant": lambda: bk.forecast([3.0, 3.0, 3.0, 3.0], 2),
    "regressor": lambda: bk.forecast(bk.read_series(SALES, regressors=PRICE), 12),
    "events": lambda: bk.forecast(DAILY, 7, events={"fair": ["2024-02-03", "2024-07-20"]}),
    "ranks": lambda: bk.forecast(RARE, 6),
    "bounds": lambda: bk.forecast(SALES, 6, model=structural(lower=0, upper=90)),
    "changes": lambda: bk.forecast(STEP, 6, model=structural(changes=["2017-07-31"])),
    "map": lambda: bk.forecast(SALES, 6, model=structural(method="map")),
    "time zone": lambda: bk.forecast(DAILY.tz_localize("Europe/Berlin"), 6),
    "counts": lambda: bk.forecast(COUNTS, 6, likelihood="negative_binomial"),
    "shares": lambda: bk.forecast(SHARES, 6, likelihood="beta"),
    "robust": lambda: bk.forecast(OUTLIER, 6, model=structural(robust=True)),
    "searched changes": lambda: bk.forecast(STEP, 6, model=structural(changes="find")),
    "holidays": lambda: bk.forecast(DAILY, 14, holidays="DE"),
    "non-linear effect": lambda: bk.forecast(
        bk.read_series(SALES, regressors=PRICE),
        6,
        model=structural(effect_kernels={"price": RBF()}),
    ),
    "kernel": lambda: bk.forecast(SALES, 6, model=structural(kernel=USER)),
    "long": lambda: bk.forecast(LONG, 30),
}
# Kinds that the default tests need: others are like them, or take more than a second.
FAST = ("ranks",)
KINDS = [
    *FAST,
    *(pytest.param(name, marks=pytest.mark.slow) for name in FORECASTS if name not in FAST),
]
PROBABILITIES = np.linspace(0.01, 0.99, 9)


def saved_and_loaded(f, path):
    f.save(path)
    return bk.load(path)


def assert_same_predictions(a, b):
    for name in ("mean", "sd", "median"):
        np.testing.assert_allclose(getattr(b, name), getattr(a, name), rtol=1e-12, err_msg=name)
    np.testing.assert_allclose(b.quantile(PROBABILITIES), a.quantile(PROBABILITIES), rtol=1e-12)
    draws = a.sample(20, seed=3)
    np.testing.assert_allclose(b.sample(20, seed=3), draws, atol=1e-12 * np.max(np.abs(draws)))


@pytest.mark.parametrize("kind", KINDS)
def test_loaded_forecast_equals_the_saved_one(kind, tmp_path):
    f = FORECASTS[kind]()
    g = saved_and_loaded(f, tmp_path / "f.nc")
    assert_same_predictions(f, g)
    assert repr(g) == repr(f) and g.trust == f.trust and g.weights == f.weights
    assert g.to_csv() == f.to_csv()
    for name, part in f.decompose().items() if f.parts else ():
        np.testing.assert_allclose(g.component(name)["upper"], part["upper"], rtol=1e-12)
    if f.parts and f.choices.effects is None:
        value = float(np.round(f.median[0])) if f.choices.likelihood else float(f.median[0])
        if kind == "shares":
            value = 0.4
        updated = f.update(value)
        assert_same_predictions(updated, g.update(value))
        # The covariances of an updated forecast are computed at once, not in two steps.
        again = saved_and_loaded(updated, tmp_path / "g.nc")
        assert_same_predictions(updated, again)
        assert again.trust == updated.trust and again.past_scores.count == f.past_scores.count


@pytest.mark.slow
def test_scenarios_and_updates_with_regressors_are_kept(tmp_path):
    f = bk.forecast(bk.read_series(SALES, regressors=PRICE), 12)
    draws = 10.0 + np.random.default_rng(1).normal(size=(30, 12))
    for changed in (f.scenario(price=9.0), f.scenario(price=draws), f.update([70.0, 71.0])):
        g = saved_and_loaded(changed, tmp_path / "f.nc")
        assert_same_predictions(changed, g)
        assert g.remarks == changed.remarks
    loaded = saved_and_loaded(f, tmp_path / "f.nc")
    assert_same_predictions(f.scenario(price=9.0), loaded.scenario(price=9.0))
    assert_same_predictions(f.update([70.0, 71.0]), loaded.update([70.0, 71.0]))


@pytest.mark.slow
def test_forecast_by_a_method_keeps_its_posterior(tmp_path):
    model = structural(method=bk.Laplace(draws=200), log=False)
    f = bk.forecast(SALES, 6, trend="slope", model=model)
    g = saved_and_loaded(f, tmp_path / "f.nc")
    assert_same_predictions(f, g)
    assert g.posterior.trust == f.posterior.trust and g.posterior.method == "laplace"
    assert g.posterior.summary().equals(f.posterior.summary())


def test_other_programs_read_series_and_forecast(tmp_path):
    f = bk.forecast(SALES, 12)
    f.save(tmp_path / "f.nc")
    with xr.open_datatree(tmp_path / "f.nc", engine="h5netcdf") as tree:
        np.testing.assert_array_equal(tree["series"]["value"], SALES)
        assert tree["series"].attrs == {"time": "time", "value": "sales", "name": "sales"}
        np.testing.assert_array_equal(tree["forecast"]["upper_95"], f.interval(0.95)[1])
        np.testing.assert_array_equal(tree["forecast"]["time"], f.times)


def test_structure_of_another_version_is_refused(tmp_path, monkeypatch):
    f = bk.forecast(SALES, 3, trend="slope")
    f.save(tmp_path / "f.nc")
    # A later version in which time has another unit.
    monkeypatch.setattr(type(f.series.calendar), "positions", lambda self, t: np.arange(len(t)))
    with pytest.raises(ValueError, match="forecast the series again"):
        bk.load(tmp_path / "f.nc")


def test_kernel_with_a_function_cannot_be_saved():
    with pytest.raises(ValueError, match="without functions"):
        to_plain(RBF().warp(lambda x: 2.0 * x))
    with pytest.raises(ValueError, match="plain distributions"):
        to_plain(RBF(lengthscale=dist.MixtureSameFamily(MIXING, dist.Gamma(np.ones(2), 1.0))))
    with pytest.raises(ValueError, match="plain distributions"):
        to_plain(RBF(lengthscale=dist.TruncatedNormal(1.0, 2.0, low=0.0)))


def test_kernels_and_priors_are_kept():
    kernel = USER + 2.0 * RBF(lengthscale=dist.Gamma(1.0, 2.0))
    arrays = {}
    text = json.dumps(pack(to_plain(kernel), arrays))
    again = from_plain(unpack(json.loads(text), arrays))
    assert repr(again) == repr(kernel)
    for name, prior in kernel.hyperparameters().items():
        if isinstance(prior, dist.Distribution):
            loaded = again.hyperparameters()[name]
            assert loaded.log_prob(1.3) == prior.log_prob(1.3)


def test_kind_of_file_is_checked(tmp_path):
    f = bk.forecast(SALES, 3)
    with pytest.raises(ValueError, match=r"export\(folder\)"):
        f.save(tmp_path / "f.csv")
    f.save(tmp_path / "f.nc")
    with pytest.raises(ValueError, match="need no model"):
        bk.load(tmp_path / "f.nc", model=lambda: None)
    bk.infer(bk.BetaBernoulli(1.0, 1.0), [0, 1, 1], progress=False).save(tmp_path / "p.nc")
    with pytest.raises(ValueError, match="it is a bayeskern posterior"):
        forecast_in(netcdf.read(tmp_path / "p.nc"))
    with pytest.raises(FileNotFoundError):
        bk.load(tmp_path / "none.nc")


def test_file_of_a_newer_version_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(file, "FORMAT", replace(file.FORMAT, version=9))
    bk.forecast(SALES, 3).save(tmp_path / "f.nc")
    with pytest.raises(ValueError, match="newer version of bayeskern"):
        bk.load(tmp_path / "f.nc")
