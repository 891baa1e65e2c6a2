"""Plot of a kernel: curves, Gram matrix and labels."""

import matplotlib.pyplot as plt
import numpy as np
import numpyro.distributions as dist
import pandas as pd
import pytest
from scipy.stats import norm

from bayeskern.kernels import (
    RBF,
    ChangePoint,
    Constant,
    Cosine,
    Custom,
    Free,
    Kernel,
    Linear,
    Matern12,
    Periodic,
    White,
)


def panels(figure):
    """The panel of curves, the image of the Gram matrix, and the axes of its colours."""
    curves, image, _ = figure.axes
    return curves, image.images[0]


@pytest.mark.parametrize(
    ("kernel", "k"),
    [
        (RBF(0.7, 2.0), lambda t: 2.0 * np.exp(-0.5 * (t / 0.7) ** 2)),
        (Cosine(1.5), lambda t: np.cos(2 * np.pi * t / 1.5)),
        (Periodic(2.0) * Matern12(3.0) + 0.2, lambda t: 0.2 + np.exp(
            -2 * np.sin(np.pi * t / 2) ** 2 - np.abs(t) / 3
        )),
        (RBF().warp(lambda x: x + 5.0), lambda t: np.exp(-0.5 * t**2)),
        (Constant(0.3) + 0.5 * White(), lambda t: 0.3 + 0.5 * (t == 0.0)),
        (Constant(0.0), np.zeros_like),
    ],
    # The address of a function differs from one process to the next.
    ids=lambda value: str(value) if isinstance(value, Kernel) else "",
)  # fmt: skip
def test_stationary_kernels_are_drawn_against_the_lag(kernel, k):
    curves, image = panels(kernel.plot([2.0, 7.0]))
    assert curves.get_xlabel() == "lag"
    lag, drawn = curves.lines[0].get_data()
    assert lag[0] == 0.0 and lag[-1] == 5.0
    np.testing.assert_allclose(drawn, k(lag), rtol=1e-12, atol=1e-12)
    t = np.subtract.outer(lag, lag)
    np.testing.assert_allclose(image.get_array(), k(t), rtol=1e-9, atol=1e-12)
    assert image.get_extent() == [2.0, 7.0, 2.0, 7.0]


@pytest.mark.parametrize(
    "kernel",
    [
        Linear(),
        RBF().modulate(lambda x: x[0]),
        RBF().warp(lambda x: x**3),
        ChangePoint(RBF(), Matern12(), 0.5, 0.1),
        Linear() + 50.0 * RBF(),
    ],
    ids=str,
)
def test_other_kernels_are_drawn_from_three_points(kernel):
    curves, image = panels(kernel.plot())
    assert curves.get_xlabel() == "x"
    lines = [line for line in curves.lines if line.get_label().startswith("x₀")]
    for line, x0 in zip(lines, [-1.8, 0.0, 1.8], strict=True):
        assert line.get_label() == f"x₀ = {x0:g}"
        x, drawn = line.get_data()
        assert (x[0], x[-1]) == (-3.0, 3.0)
        np.testing.assert_allclose(drawn, kernel(x, [x0])[:, 0], atol=1e-10)
    np.testing.assert_allclose(image.get_array(), kernel(x), atol=1e-10)


def test_colour_scale_shows_the_sign():
    positive, both = (panels(k.plot())[1] for k in (RBF(), Linear()))
    assert positive.get_clim() == (0.0, 1.0)
    assert both.get_clim() == (-9.0, 9.0)


def test_priors_are_plotted_at_medians_and_free_values_at_inits():
    kernel = RBF(lengthscale=dist.LogNormal(0.7, 0.5), variance=Free(3.0)) + Linear(
        dist.HalfNormal(np.array([2.0]))
    )
    figure = kernel.plot([0.0, 1.0])
    title = figure.get_suptitle()
    assert title == "RBF(lengthscale=2.01, variance=3.0) + Linear(variance=[1.35], center=0.0)"
    x, lengthscale, slope = np.linspace(0.0, 1.0, 201), np.exp(0.7), 2.0 * norm.ppf(0.75)
    t = np.subtract.outer(x, x)
    expected = 3.0 * np.exp(-0.5 * (t / lengthscale) ** 2) + slope * np.outer(x, x)
    np.testing.assert_allclose(panels(figure)[1].get_array(), expected, rtol=1e-9)


def test_plot_in_a_given_figure():
    before = plt.get_fignums()
    assert RBF().plot()._repr_png_().startswith(b"\x89PNG")
    assert plt.get_fignums() == before
    figure = plt.figure()
    assert RBF().plot(figure=figure) is figure and len(figure.axes) == 3
    plt.close(figure)


def test_columns_are_found_by_name():
    frame = pd.DataFrame({"age $in$ years": [30.0, 20.0, 60.0]})
    curves, image = panels(Linear().on(["age $in$ years"]).plot(frame))
    assert curves.get_xlabel() == "age $in$ years"
    assert image.get_extent() == [20.0, 60.0, 20.0, 60.0]


@pytest.mark.parametrize(
    ("kernel", "X", "message"),
    [
        (RBF(), np.zeros((5, 2)), "X has 2 columns, but a curve needs one input"),
        (RBF(), [4.0, 4.0], "X has one value only, 4: give at least two"),
        (RBF(), [0.0, np.nan], "X has 1 value that is NaN"),
        (RBF([1.0, 2.0]), [0.0, 1.0], r"lengthscale has shape \(2,\) but the points have 1"),
        (RBF(dist.ImproperUniform(dist.constraints.positive, (), ())), [0.0, 1.0],
         "lengthscale has the prior ImproperUniform, which cannot be sampled"),
        (Custom(lambda x, z: np.nan), [0.0, 1.0], "is NaN or infinite at some of these points"),
    ],
)  # fmt: skip
def test_bad_input_is_refused(kernel, X, message):
    with pytest.raises(ValueError, match=message):
        kernel.plot(X)
