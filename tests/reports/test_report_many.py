"""The report on many forecasts."""

import re

import numpy as np
import pandas as pd
import pytest

import bayeskern as bk
from bayeskern.reports import many

MONTHS = pd.date_range("2019-01-01", periods=40, freq="MS")
ONE = {"season": 0, "trend": "drift", "model": bk.StructuralModel(log=False, method="map")}


@pytest.fixture(scope="module")
def forecasts():
    rng = np.random.default_rng(0)
    named = {f"store {i}": pd.Series(50.0 + np.cumsum(rng.normal(size=40)), MONTHS) for i in "ab"}
    named["<script>x</script>"] = [1.0, 2.0]
    return bk.forecast_many(named, 4, progress=False, **ONE)


def test_table_has_the_worst_first_and_links_to_figures(forecasts, tmp_path):
    text = bk.report(forecasts, tmp_path / "r.html", progress=False).read_text()
    names = re.findall(r'<td class="name">(?:<a [^>]*>)?([^<]*)', text)
    ratios = forecasts.scores["error_ratio"].sort_values(ascending=False)
    assert names == ["&lt;script&gt;x&lt;/script&gt;", *ratios.index]
    assert "1 series has no forecast" in text and text.count("<svg") == 2
    for target in re.findall(r'href="#(\w+)"', text):
        assert f'id="{target}"' in text
    assert "<script>" not in text and "at least 3 values" in text


def test_figures_of_the_best_are_left_out_of_large_reports(forecasts, tmp_path, monkeypatch):
    monkeypatch.setattr(many, "MAX_FIGURE_BYTES", 10)
    text = bk.report(forecasts, tmp_path / "r.html", progress=False).read_text()
    assert text.count("<svg") == 1 and "store b" in text and "store a" in text


def test_reason_of_a_missing_figure_is_given(forecasts, tmp_path):
    forecasts.save(tmp_path / "f")
    for file in (tmp_path / "f").glob("store-a*.nc"):
        file.write_bytes(file.read_bytes()[:-200])
    loaded = bk.load(tmp_path / "f")
    text = bk.report(loaded, tmp_path / "r.html", progress=False).read_text()
    assert text.count("<svg") == 1 and "No figure of store a" in text
