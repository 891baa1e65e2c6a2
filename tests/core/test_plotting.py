"""Figures are shown by notebooks and are unknown to pyplot; dates on an axis do not overlap."""

import itertools

import matplotlib.pyplot as plt
import numpy as np
import pytest

from bayeskern.core.plotting import concise_dates, figure


def test_figure_is_shown_by_notebooks():
    before = plt.get_fignums()
    made = figure()
    made.subplots().plot([0, 1])
    assert made._repr_png_().startswith(b"\x89PNG")
    assert plt.get_fignums() == before


@pytest.mark.parametrize(("start", "count"), [("2017-01-30T00", 7), ("2017-01", 10), ("2017", 72)])
def test_dates_on_an_axis_do_not_overlap(start, count):
    x = (np.datetime64(start) + np.arange(count)).astype("M8[s]")
    made = figure((5.2, 1.8))
    axis = made.subplots()
    axis.plot(x, np.zeros(count))
    concise_dates(axis, x)
    made.canvas.draw()
    boxes = [label.get_window_extent() for label in axis.get_xticklabels() if label.get_text()]
    assert len(boxes) >= 3
    # At least half a letter apart.
    assert all(a.x1 + 0.25 * a.height < b.x0 for a, b in itertools.pairwise(boxes))
