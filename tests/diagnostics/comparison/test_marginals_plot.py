"""Layout of the plot of marginals with long names."""

import numpy as np
import pytest

from bayeskern.diagnostics.comparison import marginals_plot

rng = np.random.default_rng(0)


def drawn(names, parameter):
    made = marginals_plot.marginals(
        {n: {parameter: rng.normal(size=200)} for n in names}, [parameter]
    )
    made.canvas.draw()
    return made


@pytest.mark.parametrize("letters", [3, 60])
def test_long_names_leave_room_for_densities(letters):
    made = drawn(["N" * letters + end for end in "abcdefg"], "m" * letters)
    left, right = made.axes
    whole, densities = made.bbox, left.get_window_extent()
    labels = [label.get_window_extent() for label in right.get_yticklabels()]
    parameter = left.yaxis.label.get_window_extent()
    for box in (*labels, parameter):
        assert box.x0 >= whole.x0 and box.x1 <= whole.x1
    assert all(label.x0 > densities.x1 for label in labels)
    assert parameter.x1 < densities.x0
    # The axes keep most of the figure, whatever the names are.
    assert densities.width > 0.25 * whole.width


def test_names_that_differ_at_the_end_are_distinct():
    made = drawn(["a_long_name_of_one_model_" + end for end in ("first", "second")], "x")
    labels = [label.get_text() for label in made.axes[1].get_yticklabels()]
    assert len(set(labels)) == 2
