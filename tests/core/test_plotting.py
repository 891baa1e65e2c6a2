"""Figures are shown by notebooks and are unknown to pyplot."""

import matplotlib.pyplot as plt

from bayeskern.core.plotting import figure


def test_figure_is_shown_by_notebooks():
    before = plt.get_fignums()
    made = figure()
    made.subplots().plot([0, 1])
    assert made._repr_png_().startswith(b"\x89PNG")
    assert plt.get_fignums() == before
