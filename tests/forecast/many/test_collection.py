"""Forecasts of many series: a mapping, its folder, and runs that are stopped."""

import importlib
import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import bayeskern as bk
from bayeskern.core.files import _prefix
from bayeskern.forecast.saved.folder import INDEX

# `bayeskern.forecast` is the function, not the package.
FORECAST_MANY = importlib.import_module("bayeskern.forecast.many.forecast_many")
MONTHS = pd.date_range("2020-01-01", periods=30, freq="MS")
ONE = {"season": 0, "trend": "drift", "model": bk.StructuralModel(log=False, method="map")}
STORES = ("store 12", "a/b", "../../x", "", "n" * 300)


def walk(seed):
    return 50.0 + np.cumsum(np.random.default_rng(seed).normal(size=len(MONTHS)))


def long_frame(names=STORES):
    frames = [
        pd.DataFrame({"store": name, "month": MONTHS, "units": walk(seed)})
        for seed, name in enumerate(names)
    ]
    frames.append(pd.DataFrame({"store": ["new"], "month": MONTHS[:1], "units": [3.0]}))
    return pd.concat(frames, ignore_index=True)


def many(frame, **options):
    given = {"id": "store", "value": "units", "progress": False, "workers": 1} | ONE | options
    return bk.forecast_many(frame, 4, **given)


@pytest.fixture(scope="module")
def forecasts():
    return many(long_frame())


def assert_same(forecasts, others):
    assert list(forecasts) == list(others)
    pd.testing.assert_frame_equal(forecasts.to_frame(), others.to_frame())
    pd.testing.assert_frame_equal(forecasts.scores, others.scores)
    for name, f in forecasts.items():
        np.testing.assert_allclose(others[name].median, f.median, rtol=1e-12)


def test_forecasts_are_a_mapping_of_forecasts(forecasts):
    assert list(forecasts) == list(STORES) and len(forecasts) == 5 and "new" not in forecasts
    alone = bk.forecast(pd.Series(walk(0), MONTHS, name="units"), 4, **ONE)
    f = forecasts["store 12"]
    np.testing.assert_allclose(f.quantile([0.1, 0.9]), alone.quantile([0.1, 0.9]), rtol=1e-12)
    assert f.trust == alone.trust and f.series.name == "store 12"
    # Updates are those of the single forecast.
    np.testing.assert_allclose(f.update(51.0).median, alone.update(51.0).median, rtol=1e-12)
    with pytest.raises(KeyError, match="at least 3 values"):
        forecasts["new"]
    with pytest.raises(KeyError, match="Did you mean 'store 12'"):
        forecasts["store 11"]


def test_collections_do_not_share_forecasts(forecasts):
    """A collection may get the place in memory of one that is gone."""
    for i in [0, 1] * 5:
        results, sources = forecasts.results[i : i + 1], forecasts.sources[i : i + 1]
        other = replace(forecasts, ids=("x",), results=results, sources=sources)
        np.testing.assert_array_equal(other["x"].series.values, walk(i))
        del other


def test_scores_are_those_of_each_forecast(forecasts):
    scores = forecasts.scores
    assert list(scores.index) == list(STORES)
    past = forecasts["a/b"].past_scores
    row = scores.loc["a/b"]
    assert row["verdict"] == forecasts["a/b"].trust.verdict
    assert row["error_ratio"] == past.error_ratio and row["coverage_80"] == past.coverage(0.8)


def test_notebook_page_has_empty_cells_for_missing_numbers(forecasts):
    page = forecasts._repr_html_()
    assert "at least 3 values" in page and ">nan<" not in page and "NaT" not in page


def test_plain_values_of_all_series(forecasts):
    record = json.loads(json.dumps(forecasts.to_dict(0.8), allow_nan=False))
    assert list(record) == [*STORES, "new"]
    assert record["a/b"] == forecasts["a/b"].to_dict(0.8)
    assert record["a/b"]["forecast"]["upper_80"] == forecasts["a/b"].interval(0.8)[1].tolist()
    assert record["new"] == {"problem": forecasts.failed["new"]}


def test_plot_has_a_panel_for_each_series(forecasts):
    fig = forecasts.plot(["store 12", "a/b"], columns=2)
    assert [ax.get_title(loc="left") for ax in fig.axes] == ["store 12", "a/b"]
    with pytest.raises(ValueError, match="no forecast to plot"):
        forecasts.plot([])


def test_folder_keeps_all_forecasts(forecasts, tmp_path):
    forecasts.save(tmp_path / "stores")
    files = {path.name for path in (tmp_path / "stores").iterdir()}
    # Names of series are no paths.
    assert len(files) == 6 and INDEX in files and all("/" not in name for name in files)
    loaded = bk.load(tmp_path / "stores")
    assert_same(forecasts, loaded)
    assert loaded.remarks == forecasts.remarks
    assert loaded.failed == forecasts.failed
    updated = bk.Forecasts.of({name: f.update(51.0) for name, f in loaded.items()}, "store")
    updated.save(tmp_path / "stores")
    assert_same(updated, bk.load(tmp_path / "stores"))
    assert len(list((tmp_path / "stores").iterdir())) == 6


def test_update_continues_each_series(forecasts):
    months = pd.date_range(MONTHS[-1], periods=3, freq="MS")
    new = pd.DataFrame({"store": "a/b", "month": months, "units": [49.0, 50.0, 51.0]})
    others = new.assign(store=["north", "", ""], month=[*months[:2], months[0]])
    updated = forecasts.update(pd.concat([new, others]), progress=False)
    assert list(updated) == list(forecasts) and updated.failed == forecasts.failed
    alone = forecasts["a/b"].update([50.0, 51.0])
    np.testing.assert_allclose(updated["a/b"].median, alone.median, rtol=1e-12)
    np.testing.assert_allclose(updated[""].median, forecasts[""].update(50.0).median, rtol=1e-12)
    assert updated["store 12"] is not None and len(updated["store 12"].series.values) == 30
    assert "such as north: use forecast_many" in updated.update_remarks[-1]
    # Earlier values that have changed since the fit are reported by the series.
    revised = new.assign(units=[48.0, 50.0, 51.0])
    (again,) = forecasts.update(revised, progress=False)["a/b"].series.remarks[-1:]
    assert again.startswith("1 earlier value differs")


@pytest.mark.slow
def test_stopped_run_is_resumed(tmp_path, monkeypatch):
    folder = tmp_path / "stores"
    calls = []

    def stops(work, reads, receive, **processes):
        results = []
        for i, read in enumerate(reads):
            calls.append(i)
            if len(calls) == 3:
                raise KeyboardInterrupt
            results.append(receive(i, work(read())) if i < 5 else receive(i, "too short"))
        return results

    with monkeypatch.context() as patch:
        patch.setattr(FORECAST_MANY, "run_all", stops)
        with pytest.raises(KeyboardInterrupt):
            many(long_frame(), folder=folder)
    assert list(bk.load(folder)) == list(STORES[:2])
    with pytest.raises(ValueError, match="resume=True"):
        many(long_frame(), folder=folder)
    with pytest.raises(ValueError, match="another horizon"):
        many(long_frame(), folder=folder, resume=True, level=0.5)
    # The second series has changed since.
    frame = long_frame()
    frame.loc[frame["store"] == "a/b", "units"] += 1.0
    with (folder / INDEX).open("ab") as file:
        file.write(b'{"record": {"na')
    calls.clear()
    with monkeypatch.context() as patch:
        patch.setattr(FORECAST_MANY, "run_all", stops)
        with pytest.raises(KeyboardInterrupt):
            many(frame, folder=folder, resume=True)
    # Fitted again: the changed series and the third one, before the stop at the fourth.
    partial = bk.load(folder)
    assert len(calls) == 3 and list(partial) == list(STORES[:3])
    np.testing.assert_array_equal(partial["a/b"].series.values, walk(1) + 1.0)
    assert partial.remarks[-1].startswith("the run was stopped with 3 of 6 series")
    resumed = many(frame, folder=folder, resume=True)
    assert_same(resumed, many(frame))
    assert_same(resumed, bk.load(folder))


def test_run_that_was_killed_before_its_index(tmp_path):
    # No process has this number.
    (tmp_path / f"{_prefix()}999999999-x").touch()
    assert list(many(long_frame(STORES[:1]), folder=tmp_path)) == ["store 12"]


def test_damaged_index_is_refused(forecasts, tmp_path):
    forecasts.save(tmp_path)
    content = (tmp_path / INDEX).read_bytes()
    (tmp_path / INDEX).write_bytes(content.replace(b"units", b"units", 1).replace(b"4", b"5", 1))
    with pytest.raises(ValueError, match="checksum"):
        bk.load(tmp_path)


def test_folders_that_cannot_be_used(forecasts, tmp_path):
    (tmp_path / "letter.txt").write_text("dear")
    with pytest.raises(OSError, match="holds other files"):
        forecasts.save(tmp_path)
    with pytest.raises(FileNotFoundError, match="not a folder of forecasts"):
        bk.load(tmp_path)
    with pytest.raises(ValueError, match="export"):
        forecasts.save(tmp_path / "table.csv")
    with pytest.raises(ValueError, match="give folder="):
        many(long_frame(), resume=True)


@pytest.mark.parametrize("indexed", [True, False])
def test_wide_frame_has_a_series_in_each_column(indexed):
    wide = pd.DataFrame({"north": walk(0), "south": walk(1)}, MONTHS.rename("month"))
    options = {"progress": False, "verdict": False, **ONE}
    forecasts = bk.forecast_many(wide if indexed else wide.reset_index(), 4, **options)
    assert list(forecasts) == ["north", "south"] and forecasts.time_name == "month"
    alone = bk.forecast(wide["south"], 4, **ONE)
    np.testing.assert_allclose(forecasts["south"].median, alone.median, rtol=1e-12)
    np.testing.assert_array_equal(forecasts["south"].times, alone.times)
    with pytest.raises(ValueError, match="store does not hold numbers"):
        bk.forecast_many(wide.assign(store="x"), 4, **options)


STOPPED = """
    import sys
    import numpy as np
    import bayeskern as bk

    rngs = map(np.random.default_rng, range(400))
    walks = {f"s{i}": 50.0 + np.cumsum(rng.normal(size=60)) for i, rng in enumerate(rngs)}
    model = bk.StructuralModel(log=False, method="map")
    bk.forecast_many(
        walks, 4, season=0, model=model, folder=sys.argv[1], workers=2, resume=True, progress=False
    )
"""


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="needs signals of POSIX")
@pytest.mark.parametrize("stop", [signal.SIGTERM, signal.SIGKILL, signal.SIGINT])
def test_stopped_process_loses_nothing_and_leaves_no_worker(tmp_path, stop):
    folder = tmp_path / "walks"
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(STOPPED), str(folder)], start_new_session=True
    )
    deadline = time.monotonic() + 240
    while time.monotonic() < deadline:
        if folder.is_dir() and len(list(folder.glob("*.nc"))) >= 5:
            break
        time.sleep(0.1)
    process.send_signal(stop)
    process.wait(60)
    time.sleep(3.0)
    # All processes of the session have ended.
    with pytest.raises(ProcessLookupError):
        os.killpg(process.pid, 0)
    stopped = bk.load(folder)
    assert 5 <= len(stopped) < 400
    alone = bk.forecast(
        50.0 + np.cumsum(np.random.default_rng(int(next(iter(stopped))[1:])).normal(size=60)),
        4,
        season=0,
        model=bk.StructuralModel(log=False, method="map"),
    )
    np.testing.assert_allclose(next(iter(stopped.values())).median, alone.median, rtol=1e-12)
