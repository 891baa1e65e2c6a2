"""Pictures: what they show is read back from matplotlib's own objects."""

import builtins

import matplotlib.dates
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_rgb

import bayeskern as bk
from bayeskern.forecast import forecast_plot

N, HORIZON, LOST = 60, 6, [5, 6, 20, 40, 41]
DOLLARS = r"cost $x_1$ of $ & µ <b>, \frac{$"


def values():
    t = np.arange(N)
    rng = np.random.default_rng(0)
    return 4 + 0.03 * t + np.sin(2 * np.pi * t / 12) + 0.3 * rng.standard_normal(N)


@pytest.fixture(scope="module")
def series():
    """A year and more with two values missing and three rows not there at all."""
    complete = pd.Series(values(), pd.date_range("2015-01-01", periods=N, freq="MS"), name=DOLLARS)
    complete.iloc[LOST[:2]] = np.nan
    return complete.drop(complete.index[LOST[2:]])


@pytest.fixture(scope="module")
def f(series):
    return bk.forecast(series, HORIZON, trend="smooth")


@pytest.fixture(autouse=True)
def _no_windows_are_left():
    yield
    plt.close("all")


def line(ax, label):
    return next(item for item in ax.lines if item.get_label() == label)


def test_forecast(f):
    fig = f.plot(levels=[0.5, 0.9])
    (ax,) = fig.axes
    assert [text.get_text() for text in ax.get_legend().texts] == [
        "observed", "90 % interval", "50 % interval", "median",
    ]  # fmt: skip
    assert len(ax.collections) == 2 and ax.get_ylabel() == DOLLARS
    median = line(ax, "median")
    np.testing.assert_array_equal(median.get_ydata(), [f.series.values[-1], *f.median])
    np.testing.assert_array_equal(median.get_xdata()[1:], f.times)
    band = ax.collections[0].get_paths()[0].vertices[:, 1]
    lower, upper = f.interval(0.9)
    assert set(band) == {f.series.values[-1], *lower, *upper}
    # The wider band is the paler one.
    wide, narrow = (np.sum(c.get_facecolor()[0][:3]) for c in ax.collections)
    assert wide > narrow
    assert ax.get_title("left") == f"{DOLLARS}: 6 steps ahead"
    scale = "the logarithm of the values" if f.scale.log else "the values as given"
    assert ax.get_title("right") == f"monthly, at month start; fitted to {scale}"


def test_gaps_break_the_line(f):
    """Missing values and missing rows alike break the line."""
    drawn = line(f.plot().axes[0], "observed")
    shown = N - np.flatnonzero(pd.date_range("2015-01-01", periods=N, freq="MS")
                               == drawn.get_xdata()[0])[0]  # fmt: skip
    expected = values()
    expected[LOST] = np.nan
    np.testing.assert_array_equal(drawn.get_ydata(), expected[-shown:])
    assert shown == len(drawn.get_xdata())


@pytest.mark.slow
def test_values_between_gaps_are_drawn_in_long_series():
    every_third = np.flatnonzero((np.arange(400) % 3 == 0) | (np.arange(400) > 300))
    y = np.full(400, np.nan)
    y[every_third] = every_third % 7
    f = bk.forecast(y, 60, season=0)
    drawn = line(f.plot().axes[0], "observed")
    assert drawn.get_marker() == "o"
    np.testing.assert_array_equal(drawn.get_ydata(), y[-len(drawn.get_ydata()) :])


def test_the_legend_is_below_the_panel(f):
    fig = f.plot()
    fig.canvas.draw()
    ax = fig.axes[0]
    legend = ax.get_legend().get_window_extent()
    assert not legend.overlaps(ax.get_window_extent())
    assert fig.bbox.contains(legend.x0, legend.y0) and fig.bbox.contains(legend.x1, legend.y1)


def test_given_axes(f):
    fig, (left, right) = plt.subplots(1, 2)
    assert f.plot(ax=right) is fig
    assert not left.lines and right.lines


def test_components(f):
    fig = f.plot_components(level=0.8)
    assert [ax.get_title("left").split()[0] for ax in fig.axes] == ["trend", "season"]
    assert "80 % intervals" in fig.get_suptitle() and DOLLARS in fig.get_suptitle()
    trend, season = fig.axes
    grid = pd.date_range("2015-01-01", periods=N + HORIZON, freq="MS")
    expected = forecast_plot.trend_with_cycles(f, grid, 0.8)["median"]
    np.testing.assert_array_equal(trend.lines[0].get_xdata(), grid)  # the gaps, too
    np.testing.assert_allclose(trend.lines[0].get_ydata(), expected, rtol=1e-9)
    alone = f.decompose(grid)["trend"]["median"]
    np.testing.assert_allclose(trend.lines[1].get_ydata(), alone, rtol=1e-9)
    assert "dashed: without" in trend.get_title("left") and trend.lines[1].get_linestyle() == "--"
    # One time axis, and the future is shaded.
    np.testing.assert_array_equal(season.lines[0].get_xdata(), grid)
    assert trend.get_xlim() == season.get_xlim()
    now = matplotlib.dates.date2num(grid[N - 1])
    shaded = season.patches[0].get_bbox()
    np.testing.assert_allclose([shaded.x0, shaded.x1], [now, matplotlib.dates.date2num(grid[-1])])
    middle = season.lines[1].get_ydata()
    assert list(middle) == ([1, 1] if f.scale.log else [0, 0])
    assert season.get_title("left") == ("season (factor)" if f.scale.log else "season")


@pytest.mark.slow
def test_short_seasons_limit_the_window():
    t = np.arange(400)
    y = pd.Series(np.sin(2 * np.pi * t / 7), pd.date_range("2023-01-01", periods=400), name="y")
    f = bk.forecast(y, 14, trend="drift", model=bk.StructuralModel(log=False, method="map"))
    drawn = [len(f.plot_components(whole=whole).axes[0].lines[0].get_xdata()) for whole in (0, 1)]
    assert drawn == [40 * 7 + 14, 414]


def test_trend_with_cycles_is_the_whole_process_without_seasons():
    """Trend and cycles add up to the process, whose moments need no components."""
    rng = np.random.default_rng(5)
    y = np.sin(np.arange(50) / 3.0) + 0.3 * rng.standard_normal(50)
    model = bk.StructuralModel(log=False, method="map")
    f = bk.forecast(y, 8, season=0, trend="smooth", model=model)
    total = forecast_plot.trend_with_cycles(f, f.times, 0.8)
    fitted = f.parts[0].fitted
    mean, variance = fitted.density.conditioned(fitted.mode).moments(f.times.astype(float))
    expected = fitted.scale.back(mean), fitted.scale.size * 1.2815516 * np.sqrt(variance)
    np.testing.assert_allclose(total["median"], expected[0], rtol=1e-6)
    np.testing.assert_allclose(total["upper"] - total["median"], expected[1], rtol=1e-6)
    # Apart, the two are less certain than together: they borrow from each other.
    apart = f.decompose(f.series.times.astype(float), 0.8)
    together = forecast_plot.trend_with_cycles(f, f.series.times, 0.8)
    widths = [np.mean(part["upper"] - part["lower"]) for part in (apart["trend"], together)]
    assert widths[1] < widths[0]


def test_backtest(series):
    result = bk.backtest(series, HORIZON, cutoffs=2)
    ax = result.plot(level=0.5).axes[0]
    assert [text.get_text() for text in ax.get_legend().texts] == [
        "observed", "median and 50 % interval", "seasonal naive",
    ]  # fmt: skip
    medians = [item for item in ax.lines if item.get_color() == forecast_plot.FORECAST_COLOR]
    for fold, drawn in zip(result.folds, medians, strict=True):
        np.testing.assert_array_equal(drawn.get_xdata(), fold.times)
        np.testing.assert_array_equal(drawn.get_ydata(), fold.forecast.median[fold.pick])
    cutoffs = [item.get_xdata()[0] for item in ax.lines if item.get_linestyle() == "--"]
    np.testing.assert_array_equal(cutoffs, [series.index[fold.count - 1] for fold in result.folds])
    ax.figure.canvas.draw()
    legend = ax.get_legend().get_window_extent()
    assert not legend.overlaps(ax.get_window_extent())


@pytest.mark.slow
def test_saving_leaves_no_state(f, tmp_path):
    plt.close("all")
    rc = dict(plt.rcParams)
    paths = f.export(tmp_path / "a" / "b", levels=[0.9])
    assert plt.get_fignums() == [] and dict(plt.rcParams) == rc
    assert [path.name for path in paths] == ["forecast.csv", "forecast.png", "components.png"]
    assert sorted(path.name for path in (tmp_path / "a" / "b").iterdir()) == sorted(
        path.name for path in paths
    )
    assert paths[0].read_text(encoding="utf-8") == f.to_csv([0.9])
    for path in paths[1:]:
        image = plt.imread(path)
        # Something is drawn, in the colour of the future, too.
        near = np.abs(image[..., :3] - to_rgb(forecast_plot.FORECAST_COLOR)).max(axis=-1) < 0.05
        assert image.shape[1] == 1170 and near.sum() > 500


def test_titles_of_long_names_fit():
    name = "the number of " + "very " * 30 + "long names"
    flat = bk.forecast(pd.Series(np.full(20, 2.0), name=name), HORIZON)
    fig = flat.plot()
    fig.canvas.draw()
    ax = fig.axes[0]
    left, right = ax._left_title.get_window_extent(), ax._right_title.get_window_extent()
    assert not left.overlaps(right) and left.x1 < fig.bbox.x1
    label = ax.yaxis.label.get_window_extent()
    assert label.y0 > 0 and label.y1 < fig.bbox.y1


def test_large_numbers_are_written_in_full():
    fig = bk.forecast(np.arange(30) * 1e5, 3, season=0, trend="drift").plot()
    fig.canvas.draw()
    labels = [text.get_text() for text in fig.axes[0].get_yticklabels()]
    assert "2,000,000" in labels and fig.axes[0].yaxis.get_offset_text().get_text() == ""


def test_times_are_in_the_zone_of_the_series():
    index = pd.date_range("2024-01-01", periods=20, freq="D", tz="Asia/Tokyo")
    ax = bk.forecast(pd.Series(np.full(20, 2.0), index), HORIZON).plot().axes[0]
    np.testing.assert_array_equal(line(ax, "observed").get_xdata(), index.tz_localize(None))


# -- plotly ----------------------------------------------------------------------------------------

TAGS = "<b>cost</b> %{x}"


@pytest.fixture(scope="module")
def tagged():
    rng, n = np.random.default_rng(0), 60
    y = np.sin(2.0 * np.pi * np.arange(n) / 12.0) + 0.2 * rng.standard_normal(n)
    y[[4, 30]] = np.nan
    return bk.forecast(
        pd.Series(y, pd.date_range("2020-01-01", periods=n, freq="MS"), name=TAGS),
        6,
        trend="drift",
        model=bk.StructuralModel(log=False, method="map"),
    )


def test_plotly_shows_median_and_intervals(tagged):
    pytest.importorskip("plotly")
    figure = tagged.plot(levels=[0.5, 0.9], backend="plotly")
    traces = {trace.name: trace for trace in figure.data}
    np.testing.assert_array_equal(traces["median"].y, tagged.median)
    np.testing.assert_array_equal(
        np.asarray(traces["median"].x, "M8[D]"), tagged.times.astype("M8[D]")
    )
    np.testing.assert_array_equal(traces["observed"].y, tagged.series.on_grid())
    lower, upper = tagged.interval(0.9)
    band = np.asarray(traces["90 % interval"].y)
    np.testing.assert_array_equal(band, [*upper, *lower[::-1]])
    text = traces["median"].text[2]
    assert f"90 %: {lower[2]:.2f} to {upper[2]:.2f}" in text and text.startswith("median ")
    # The wide band is below the narrow one.
    assert [trace.name for trace in figure.data][:2] == ["90 % interval", "50 % interval"]


def test_plotly_takes_names_as_text(tagged):
    pytest.importorskip("plotly")
    figure = tagged.plot(backend="plotly")
    assert "<b>" not in figure.layout.title.text and "&lt;b&gt;" in figure.layout.title.text
    assert "<b>" not in figure.layout.yaxis.title.text
    assert all(TAGS not in str(trace.hovertemplate) for trace in figure.data)


def test_history_in_view_of_plotly(tagged):
    pytest.importorskip("plotly")
    recent, whole = (
        np.datetime64(tagged.plot(whole=whole, backend="plotly").layout.xaxis.range[0], "D")
        for whole in (False, True)
    )
    assert whole == tagged.series.times[0] < recent


def test_bad_backends(tagged):
    with pytest.raises(ValueError, match="backend='bokeh' is not known"):
        tagged.plot(backend="bokeh")
    with pytest.raises(ValueError, match="ax belongs to matplotlib"):
        tagged.plot(object(), backend="plotly")


def test_missing_plotly_names_its_extra(tagged, monkeypatch):
    real = builtins.__import__

    def refusing(name, *args, **kwargs):
        if name.partition(".")[0] == "plotly":
            raise ModuleNotFoundError("No module named 'plotly'", name="plotly")
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", refusing)
    with pytest.raises(ImportError, match=r"plotly: pip install 'bayeskern\[plotly\]'"):
        tagged.plot(backend="plotly")
