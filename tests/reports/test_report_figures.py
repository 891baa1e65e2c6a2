"""The figures of the report: colours, size, names, and numbers."""

import base64
import io
import re
import time

import numpy as np
import pandas as pd
import pytest
from markupsafe import Markup
from PIL import Image
from scipy.stats import binom, binomtest

import bayeskern as bk
from bayeskern.reports import report, style
from bayeskern.reports.blocks import Block
from bayeskern.reports.document import Section, leave_out
from bayeskern.reports.sections import convergence, fit, parameters, process
from tests.reports.pages import page_of

rng = np.random.default_rng(0)
SALES = pd.Series(np.full(20, 3.0), name="sales")


def pixels(svg) -> np.ndarray:
    """Pixels (red, green, blue, opacity) of all raster images in a figure: (n, 4)."""
    found = re.findall(r"base64,\s*([^\"]*)", svg)
    images = [Image.open(io.BytesIO(base64.b64decode(data))).convert("RGBA") for data in found]
    return np.concatenate([np.asarray(i).reshape(-1, 4) for i in images] or [np.zeros((0, 4))])


def contrast(colour, paper) -> float:
    """Contrast of two colours by the Web Content Accessibility Guidelines 2.2."""

    def luminance(c):
        c = np.asarray(c, float) / 255.0
        linear = np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4)
        return linear @ (0.2126, 0.7152, 0.0722)

    dark, light = sorted((luminance(colour), luminance(paper)))
    return (light + 0.05) / (dark + 0.05)


def svg(*args) -> str:
    return style.as_svg(*args)


def quantile(q):
    return np.zeros(50)


def picture_of(count):
    x = np.linspace(0.0, 1.0, count)
    slices = [("x", np.linspace(0.0, 1.0, 50), quantile)]
    return svg(process.functions, slices, "y", (x, 5.0 + x))


def test_points_contrast_with_light_and_dark_paper():
    few = picture_of(30)
    assert not len(pixels(few)) and "currentColor" in few
    x = np.linspace(0.0, 1.0, 2000)
    cloud = svg(fit.residuals, x, np.sin(40.0 * x))
    assert len(pixels(cloud))
    seen = np.concatenate([pixels(picture_of(2000)), pixels(cloud)])
    for colour in np.unique(seen[seen[:, 3] > 170][:, :3], axis=0):
        assert contrast(colour, (255, 255, 255)) > 3.0
        assert contrast(colour, (0x15, 0x18, 0x1C)) > 3.0


def test_history_has_the_colour_of_the_page():
    f = bk.forecast(np.arange(20.0) % 5, 4, season=0, trend="drift")
    assert "stroke: currentColor" in svg(f.plot)


def test_names_in_a_figure_are_unchanged():
    name = 'id="q" x="#000000" url(#a)'
    picture = style.with_prefixed_ids(svg(parameters.forest, {name: rng.normal(size=50)}), "f1-")
    assert f">{name}</text>" in picture
    ids = re.findall(r'<[^>]*\bid="([^"]*)"', picture)
    assert all(i.startswith("f1-") for i in ids) and len(set(ids)) == len(ids)
    used = re.findall(r'<[^>]*(?:url\(#|href="#)([^")]*)', picture)
    assert used and set(used) <= set(ids)


def test_predictive_check_of_heavy_tailed_counts_is_fast():
    y = np.array([0, 0, 0, 1, 0, 0, 0, 50])
    replicates = np.floor(np.exp(rng.normal(0.0, 4.0, size=(400, 8))))
    assert np.quantile(replicates, 0.999) > 10_000
    start = time.perf_counter()
    picture = svg(fit.predictive_check, y, replicates, "count")
    assert time.perf_counter() - start < 5.0
    assert len(picture) < 100_000
    said = re.search(r"\((\S+) % of the simulated values lie outside\)", picture)
    # All of y is inside, and some of the simulated values are outside.
    assert 0.0 < float(said[1]) < 100.0 * np.mean(replicates > 50)


def test_bars_of_classes_match_numpy():
    y = rng.integers(0, 4, size=50)
    replicates = rng.integers(0, 4, size=(300, 50)).astype(float)
    axis = fit.predictive_check(y, replicates, "categorical").axes[0]
    (markers, *_) = axis.containers[1].lines
    heights = [bar.get_height() for bar in axis.containers[0]]
    assert sum(heights) == len(y) and list(markers.get_xdata()) == [0, 1, 2, 3]
    for v, height, middle in zip(range(4), heights, markers.get_ydata(), strict=True):
        assert height == np.sum(y == v)
        assert middle == np.median(np.sum(replicates == v, axis=1))


def test_rootogram_matches_numpy():
    y = rng.poisson(3.0, size=50)
    replicates = rng.poisson(3.0, size=(300, 50)).astype(float)
    made = fit.predictive_check(y, replicates, "count")
    (axis,) = made.axes
    model, observed = (
        np.ma.getdata(c.get_offsets()) for c in axis.collections[:1] + axis.collections[-1:]
    )
    assert axis.get_yscale() == "function" or axis.get_yscale() == "sqrt"
    for v, height in observed:
        assert height == np.sum(y == v)
    for v, height in model[:5]:
        assert height == pytest.approx(np.mean(np.sum(replicates == v, axis=1)))


def test_heavy_tails_do_not_hide_the_observed_values():
    y = rng.normal(size=40)
    made = fit.predictive_check(y, rng.standard_cauchy(size=(200, 40)), "continuous")
    (axis,) = made.axes
    low, high = axis.get_xlim()
    assert low <= y.min() and y.max() <= high
    assert np.ptp(y) > 0.15 * (high - low)
    assert "of the simulated values lie outside" in axis.get_xlabel()


def test_constant_observations_are_drawn():
    assert "</svg>" in svg(fit.predictive_check, np.full(5, 2.0), np.full((9, 5), 2.0), "count")


def test_panels_have_labelled_axes():
    draws = {name: rng.normal(size=(2, 50)) for name in "abcd"}
    axes = convergence.ranks(draws).axes
    # With four panels in rows of three, the second and third have nothing below them.
    for i, (column, last) in enumerate([(0, False), (1, True), (2, True), (0, True)]):
        assert bool(axes[i].get_xlabel()) is last
        assert axes[i].xaxis.get_tick_params()["labelbottom"] is last
        assert bool(axes[i].get_ylabel()) is (column == 0)
    parts = {name: (np.arange(50), quantile) for name in "ab"}
    labels = [a.get_xlabel() for a in process.components(parts, x_label="year").axes]
    assert labels == ["", "year"]


def test_series_without_a_name(tmp_path):
    for series, title in ((np.full(20, 3.0), "Forecast of a series"), (SALES, "Forecast of sales")):
        found = bk.forecast(series, 4, season=0)
        text = report(found, tmp_path / "report.html").read_text(encoding="utf-8")
        assert f"<h1>{title}</h1>" in text and "of value" not in text


def test_long_names_leave_room_for_the_axes():
    name, x = "N" * 200, np.arange(50)
    parts = {name: (x, quantile), "b": (x, quantile)}
    made = (
        process.functions([(name, x, quantile), ("b", x, quantile)], name),
        process.components(parts, x_label=name),
        parameters.forest({name: rng.normal(size=50)}),
    )
    for one in made:
        one.canvas.draw()
        for axis in one.axes:
            width = axis.get_window_extent().width / one.bbox.width
            assert width > (0.3 if one is made[0] else 0.5)
            for label in (axis.title, axis.xaxis.label, axis.yaxis.label):
                if label.get_text():
                    box = label.get_window_extent()
                    assert one.bbox.x0 - 1 <= box.x0 and box.x1 <= one.bbox.x1 + 1


def test_largest_figures_are_left_out_first():
    sizes = (100_000, 900_000, 400_000, 50_000)
    blocks = [Block("convergence", "elbo", figure=Markup("x" * n)) for n in sizes]
    sections = [Section("a", "A", blocks[:2]), Section("b", "B", blocks[2:])]
    remark = leave_out(sections, 1_000_000)
    assert [block.has_figure for block in blocks] == [True, False, False, True]
    page = page_of(blocks)
    assert page.count("figure") == 2
    assert "to keep the file small: The ELBO during the fit of the approximation." in page.words
    assert "2 of the 4 figures" in remark


@pytest.mark.parametrize(("trials", "bins"), [(1, 5), (30, 5), (133, 13), (5000, 20)])
def test_band_of_a_uniform_histogram(trials, bins):
    expected = binom.interval(0.95, trials, 1.0 / bins)
    np.testing.assert_array_equal(fit.binomial_interval(trials, 1.0 / bins), expected)


@pytest.mark.parametrize("trials", [1, 7, 60])
def test_shares_have_exact_intervals(trials):
    for successes in {0, 1, trials // 2, trials}:
        expected = binomtest(successes, trials).proportion_ci(0.95)
        np.testing.assert_allclose(fit.clopper_pearson(successes, trials), expected, atol=1e-9)
