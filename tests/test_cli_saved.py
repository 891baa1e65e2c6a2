"""Commands on saved forecasts: update and report."""

import numpy as np
import pandas as pd
import pytest

import bayeskern as bk
from bayeskern import cli

MONTHS = pd.date_range("2019-01-01", periods=40, freq="MS")
VALUES = 50.0 + np.cumsum(np.random.default_rng(0).normal(size=40))
TABLE = pd.DataFrame({"month": MONTHS, "units": VALUES})
OPTIONS = ("--trend", "drift", "--season", "0", "--no-log", "--no-report")


@pytest.fixture
def here(monkeypatch, capsys, tmp_path):
    """Run a command in this process, in a folder with files of 36 months and of all 40."""
    monkeypatch.chdir(tmp_path)
    TABLE[:36].to_csv("old.csv", index=False)
    TABLE.to_csv("new.csv", index=False)

    def call(*arguments):
        with pytest.raises(SystemExit) as info:
            cli.main([str(argument) for argument in arguments])
        return info.value.code, *capsys.readouterr()

    return call


@pytest.mark.slow
def test_update_of_a_saved_forecast(here, tmp_path):
    status, out, _ = here("forecast", "old.csv", "--horizon", 4, "--save", "units.nc", *OPTIONS)
    assert status == 0 and "units.nc" in out
    f = bk.load("units.nc")
    status, out, _ = here("update", "units.nc", "new.csv", "--no-report")
    assert status == 0 and "40 values of units" in out
    expected = f.update(VALUES[36:])
    table = pd.read_csv(tmp_path / "out" / "forecast.csv")
    np.testing.assert_allclose(table["median"], expected.median, rtol=1e-9)
    np.testing.assert_allclose(bk.load("units.nc").median, expected.median, rtol=1e-12)
    # The same file again has no new value, and changes nothing.
    before = (tmp_path / "units.nc").read_bytes()
    status, _, err = here("update", "units.nc", "new.csv", "--no-report")
    assert status == 2 and "no value of units after 2022-04-01" in err
    assert (tmp_path / "units.nc").read_bytes() == before


@pytest.mark.slow
def test_failed_update_keeps_the_saved_forecast(here, tmp_path, monkeypatch):
    here("forecast", "old.csv", "--horizon", 4, "--save", "units.nc", "--output", "a", *OPTIONS)
    before = (tmp_path / "units.nc").read_bytes()

    def fails(*_):
        raise OSError("no space")

    monkeypatch.setattr(cli.saved, "write_report", fails)
    status, _, err = here("update", "units.nc", "new.csv", "--output", "b")
    assert status == 2 and "no space" in err
    assert ((tmp_path / "units.nc").read_bytes() == before and not (tmp_path / "b").exists()) or (
        list((tmp_path / "b").iterdir()) == []
    )


@pytest.mark.slow
def test_folder_of_forecasts(here, tmp_path):
    stores = [TABLE.assign(store=name, units=VALUES + i) for i, name in enumerate("ab")]
    pd.concat(stores).to_csv("stores.csv", index=False)
    pd.concat(s[:36] for s in stores).to_csv("old_stores.csv", index=False)
    many = ("forecast-many", "old_stores.csv", "--id", "store", "--horizon", 3, "--folder", "f")
    options = (*OPTIONS[:-1], "--workers", 1)
    assert here(*many, *options)[0] == 0
    status, _, err = here(*many, *options)
    assert status == 2 and "--resume" in err
    assert here(*many, *options, "--resume")[0] == 0
    status, out, _ = here("update", "f", "stores.csv")
    assert status == 0 and "forecasts of 2 of 2 series" in out
    assert {p.name for p in (tmp_path / "out").iterdir()} == {"forecasts.csv", "report.html"}
    assert len(bk.load("f")["b"].series.values) == 40
    status, _, _ = here("report", "f")
    assert status == 0 and "Forecasts of 2 series" in (tmp_path / "report.html").read_text()


def test_bad_files_are_refused(here):
    status, _, err = here("update", "new.csv", "old.csv")
    assert status == 2 and "not a netCDF file" in err
    status, _, err = here("update", "none.nc", "new.csv")
    assert status == 2 and "there is no file" in err
    bk.infer(bk.BetaBernoulli(1.0, 1.0), [0, 1, 1], progress=False).save("posterior.nc")
    status, _, err = here("update", "posterior.nc", "new.csv")
    assert status == 2 and "is a posterior" in err
