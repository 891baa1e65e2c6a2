"""Plots by plotly: the numbers they hold are those of the forecast."""

import builtins

import numpy as np
import pandas as pd
import pytest

import bayeskern as bk

NAME = "<b>cost</b> %{x}"
ONE = {"trend": "drift", "model": bk.StructuralModel(log=False, method="map")}


@pytest.fixture(scope="module")
def f():
    rng, n = np.random.default_rng(0), 60
    y = np.sin(2.0 * np.pi * np.arange(n) / 12.0) + 0.2 * rng.standard_normal(n)
    y[[4, 30]] = np.nan
    return bk.forecast(
        pd.Series(y, pd.date_range("2020-01-01", periods=n, freq="MS"), name=NAME), 6, **ONE
    )


def test_median_and_intervals(f):
    pytest.importorskip("plotly")
    figure = f.plot(levels=[0.5, 0.9], backend="plotly")
    traces = {trace.name: trace for trace in figure.data}
    np.testing.assert_array_equal(traces["median"].y, f.median)
    np.testing.assert_array_equal(np.asarray(traces["median"].x, "M8[D]"), f.times.astype("M8[D]"))
    np.testing.assert_array_equal(traces["observed"].y, f.series.on_grid())
    lower, upper = f.interval(0.9)
    band = np.asarray(traces["90 % interval"].y)
    np.testing.assert_array_equal(band, [*upper, *lower[::-1]])
    text = traces["median"].text[2]
    assert f"90 %: {lower[2]:.2f} to {upper[2]:.2f}" in text and text.startswith("median ")
    # The wide band is below the narrow one.
    assert [trace.name for trace in figure.data][:2] == ["90 % interval", "50 % interval"]


def test_names_are_text(f):
    pytest.importorskip("plotly")
    figure = f.plot(backend="plotly")
    assert "<b>" not in figure.layout.title.text and "&lt;b&gt;" in figure.layout.title.text
    assert "<b>" not in figure.layout.yaxis.title.text
    assert all(NAME not in str(trace.hovertemplate) for trace in figure.data)


def test_history_in_view(f):
    pytest.importorskip("plotly")
    recent, whole = (
        np.datetime64(f.plot(whole=whole, backend="plotly").layout.xaxis.range[0], "D")
        for whole in (False, True)
    )
    assert whole == f.series.times[0] < recent


def test_bad_input(f):
    with pytest.raises(ValueError, match="backend='bokeh' is not known"):
        f.plot(backend="bokeh")
    with pytest.raises(ValueError, match="ax belongs to matplotlib"):
        f.plot(object(), backend="plotly")


def test_missing_plotly_names_its_extra(f, monkeypatch):
    real = builtins.__import__

    def refusing(name, *args, **kwargs):
        if name.partition(".")[0] == "plotly":
            raise ModuleNotFoundError("No module named 'plotly'", name="plotly")
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", refusing)
    with pytest.raises(ImportError, match=r"plotly: pip install 'bayeskern\[plotly\]'"):
        f.plot(backend="plotly")
