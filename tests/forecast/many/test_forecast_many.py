"""Many series at once: each as by itself, in the order given, and none lost."""

import os
import signal
import sys
from functools import partial

import numpy as np
import pandas as pd
import polars as pl
import pytest

import bayeskern as bk
from bayeskern.forecast.many.forecast_many import summarise
from bayeskern.forecast.many.workers import run_all

MONTHS = pd.date_range("2020-01-01", periods=30, freq="MS")
ONE = {"season": 0, "trend": "drift", "model": bk.StructuralModel(log=False, method="map")}


def walk(seed):
    return 50.0 + np.cumsum(np.random.default_rng(seed).normal(size=len(MONTHS)))


@pytest.fixture(scope="module")
def sales():
    """Three stores whose rows are mixed up, and one that has a single value."""
    frames = [
        pd.DataFrame({"store": name, "month": MONTHS, "units": walk(seed)})
        for seed, name in enumerate(("north", "south", "west"))
    ]
    frames.append(pd.DataFrame({"store": ["new"], "month": MONTHS[:1], "units": [3.0]}))
    return pd.concat(frames).sort_values(["month", "units"], ignore_index=True)


def by_itself(seed, horizon=4):
    series = pd.Series(walk(seed), MONTHS, name="units")
    return bk.forecast(series, horizon, **ONE)


def test_each_forecast_matches_a_single_one_and_failures_have_rows(sales):
    found = bk.forecast_many(sales, 4, id="store", value="units", **ONE)
    order = list(dict.fromkeys(sales["store"]))
    assert list(found.ids) == order and len(found.ids) == 4
    table = found.to_frame()
    assert list(table.columns) == [
        "store", "month", "median", "mean", "sd", "lower_80", "upper_80", "lower_95", "upper_95",
        "verdict", "remarks", "problem",
    ]  # fmt: skip
    assert list(dict.fromkeys(table["store"])) == order
    for seed, name in enumerate(("north", "south", "west")):
        alone, own = by_itself(seed), table[table["store"] == name]
        np.testing.assert_allclose(own["median"], alone.median, rtol=1e-8)
        np.testing.assert_allclose(own["upper_95"], alone.interval(0.95)[1], rtol=1e-8)
        np.testing.assert_array_equal(own["month"].to_numpy("M8[s]"), alone.times)
        assert set(own["verdict"]) == {alone.trust.verdict} and own["problem"].isna().all()
    (lost,) = table[table["store"] == "new"].to_dict("records")
    assert lost["problem"] == "units must have at least 3 values; got 1 value in 1 row."
    assert np.isnan(lost["median"]) and pd.isna(lost["month"])
    assert found.failed == {"new": lost["problem"]}
    said = str(found).splitlines()
    assert said[0] == "forecasts of 3 of 4 series" and "no forecast of new: units must" in said[-1]


def test_polars_frames_give_polars_frames(sales):
    table = bk.forecast_many(
        pl.from_pandas(sales), 2, id="store", value="units", verdict=False, **ONE
    ).to_frame()
    assert isinstance(table, pl.DataFrame) and len(table) == 3 * 2 + 1
    assert table["verdict"].null_count() == len(table)


def test_remarks_on_reading(tmp_path):
    path = tmp_path / "sales.csv"
    rows = [f"{shop},{1547337600 + 86400 * d},{d + 5} %" for shop in "ab" for d in range(8)]
    rows += [f"c,{1547337600 + 86400 * d},{'' if d == 3 else d + 5}{'' if d == 3 else ' %'}"
             for d in range(8)]  # fmt: skip
    path.write_text("# of the till\nshop,time,share\n" + "\n".join(rows) + "\n")
    found = bk.forecast_many(path, 1, id="shop", verdict=False, **ONE)
    assert found.remarks == (
        "1 comment line left out",
        "share is in per cent",
        "time is read as times since 1970, in seconds, UTC",
    )
    assert all(remark in str(found) for remark in found.remarks)
    remarks = found.to_frame().set_index("shop")["remarks"]
    assert "1 missing value left out of the fit" in remarks["c"]
    assert "missing" not in remarks["a"]


def test_mappings_and_lists():
    series = {"b": pd.Series(walk(1), MONTHS), "a": walk(0)}
    found = bk.forecast_many(series, 2, verdict=False, **ONE)
    assert found.ids == ("b", "a")
    # One has dates, the other has numbers: both as text.
    assert list(found.to_frame()["time"])[1:] == ["2022-08-01T00:00:00", "30", "31"]
    listed = bk.forecast_many([walk(0), [1.0, 2.0]], "2 steps", verdict=False, **ONE)
    assert listed.ids == (0, 1) and list(listed.failed) == [1]


def test_a_column_has_one_notation_for_all_series(tmp_path):
    """By itself the second series could be read in two ways."""
    rows = [f"a;{d:02}.01.2020;{d},5" for d in range(1, 14)]
    rows += [f"b;{d:02}.02.2020;{d}.234" for d in range(1, 9)]
    path = tmp_path / "sales.csv"
    path.write_text("store;day;units\n" + "\n".join(rows) + "\n")
    found = bk.forecast_many(path, 1, id="store", verdict=False, workers=1, **ONE)
    assert not found.failed
    medians = found.to_frame().set_index("store")["median"]
    assert medians["b"] > 1_000 > medians["a"]
    path.write_text(path.read_text().replace("5.01", "x").replace(",5", ""))
    with pytest.raises(ValueError, match="may be 1.234 or 1234"):
        bk.forecast_many(path, 1, id="store", **ONE)


def test_an_unreadable_row_fails_its_series_only(tmp_path, sales):
    path = tmp_path / "sales.csv"
    text = sales.assign(units=sales["units"].map("{:.10g}".format)).to_csv(index=False)
    lines = text.splitlines()
    row = next(i for i, line in enumerate(lines) if line.startswith("south"))
    lines[row] = ",".join([*lines[row].split(",")[:2], "many"])
    path.write_text("\n".join(lines))
    found = bk.forecast_many(path, 2, id="store", value="units", verdict=False, **ONE)
    assert set(found.failed) == {"south", "new"} and "'many'" in found.failed["south"]
    written = found.export(tmp_path / "found.csv")
    assert len(pd.read_csv(written)) == 2 * 2 + 2
    pd.testing.assert_frame_equal(
        pd.read_parquet(found.export(tmp_path / "found.parquet")), found.to_frame()
    )


def test_each_series_has_its_own_regressors():
    frames = []
    for seed, effect in ((0, 8.0), (1, -8.0)):
        promo = (np.random.default_rng(seed).random(34) < 0.3).astype(float)
        y = np.append(walk(seed) + effect * promo[:30], [np.nan] * 4)
        months = pd.date_range("2020-01-01", periods=34, freq="MS")
        frames.append(pd.DataFrame({"shop": seed, "month": months, "promo": promo, "units": y}))
    given = {"value": "units", "regressors": ["promo"]}
    found = bk.forecast_many(pd.concat(frames), 4, id="shop", verdict=False, **given, **ONE)
    for frame, one in zip(frames, found.results, strict=True):
        alone = bk.forecast(bk.read_series(frame.drop(columns="shop"), **given), 4, **ONE)
        np.testing.assert_allclose(one.columns["median"], alone.median, rtol=1e-8)


@pytest.mark.slow
def test_workers_match_one_process(sales):
    given = {"id": "store", "value": "units", "verdict": False, **ONE}
    one, two = (bk.forecast_many(sales, 4, workers=n, **given).to_frame() for n in (1, 2))
    pd.testing.assert_frame_equal(one, two, rtol=1e-10)


def killed_once(seeds, marker):
    """Readers of series; the process that reads the second series first is killed by that."""

    def reader(seed):
        def read():
            if seed == seeds[1] and not marker.exists():
                marker.touch()
                os.kill(os.getpid(), signal.SIGKILL)
            return bk.read_series(walk(seed))

        return read

    return [reader(seed) for seed in seeds]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("scheduler", [None, "local"])
def test_a_killed_worker_loses_no_series(tmp_path, scheduler):
    seeds, marker = range(12), tmp_path / "killed"
    work = partial(summarise, horizon=3, levels=(0.95,), verdict=True, options=ONE)
    found = run_all(work, killed_once(seeds, marker), 2, scheduler, progress=False)
    assert marker.exists() and len(found) == len(seeds)
    for seed, one in zip(seeds, found, strict=True):
        alone = bk.forecast(walk(seed), 3, **ONE)
        assert one.summary.problem is None
        np.testing.assert_allclose(one.summary.columns["median"], alone.median, rtol=1e-8)


def test_forecasts_are_saved_beside_a_client_of_dask(tmp_path):
    from dask.distributed import Client  # slow to import

    f = bk.forecast(walk(0), 3, **ONE)
    with Client(n_workers=0, protocol="tcp", dashboard_address=None):
        f.save(tmp_path / "f.nc")
    np.testing.assert_array_equal(bk.load(tmp_path / "f.nc").median, f.median)


def test_bad_schedulers_are_refused(monkeypatch, tmp_path):
    series = [walk(0)]
    with pytest.raises(ValueError, match="'nowhere' does not answer"):
        bk.forecast_many(series, 3, scheduler="nowhere", progress=False)
    # xarray asks for the default client of Dask, which the failed one must not have become.
    bk.forecast(walk(0), 3, **ONE).save(tmp_path / "f.nc")
    with pytest.raises(ValueError, match="workers= is for this machine"):
        bk.forecast_many(series, 3, workers=2, scheduler="tcp://127.0.0.1:1", progress=False)
    monkeypatch.setitem(sys.modules, "dask.distributed", None)
    with pytest.raises(ImportError, match=r"bayeskern\[dask\]"):
        bk.forecast_many(series, 3, scheduler="local", progress=False)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "store does not hold numbers"),
        ({"id": "shop"}, "id='shop' is not known"),
        ({"id": "store", "value": "unit"}, "value='unit' .* Did you mean 'units'"),
        (
            {"id": "store", "horizon": "soon"},
            "no series .*3 of 4 series.*: .*must be a number of",
        ),
        ({"id": "store", "level": 95}, "level"),
        ({"id": "store", "workers": 0}, "workers must be"),
    ],
)
def test_bad_input(sales, options, message):
    with pytest.raises(ValueError, match=message):
        bk.forecast_many(sales, **{"horizon": 2, **ONE, **options})


def test_unknown_options_are_refused():
    with pytest.raises(TypeError, match="unexpected keyword argument 'sesaon'"):
        bk.forecast_many([[1.0, 2.0, 4.0]], 2, sesaon=12)


@pytest.mark.parametrize(
    ("series", "options", "message"),
    [
        ([[1.0, 2.0, 4.0]], {"id": "store"}, "name columns of a frame"),
        ([[1.0, 2.0, 4.0]], {"sheet": "a"}, "can only be used with files"),
        ([], {}, "there is no series to forecast"),
        (pd.DataFrame({"store": [], "t": [], "y": []}), {"id": "store"}, "there is no series"),
        (
            pd.DataFrame({"store": ["a", None], "t": [1, 2], "y": [1.0, 2.0]}),
            {"id": "store"},
            "store, row 2: the name",
        ),
    ],
)
def test_bad_sources(series, options, message):
    with pytest.raises(ValueError, match=message):
        bk.forecast_many(series, 2, **options)
