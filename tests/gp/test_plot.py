"""Plots of samples of a Gaussian process, against its prior and posterior."""

import numpy as np
import pandas as pd
import pytest

import bayeskern as bk
from bayeskern.core.plotting import figure
from bayeskern.kernels import RBF, Matern32

X = np.array([3.0, 1.0, 2.0, 6.0, 4.0])
Y = np.array([0.3, -0.5, 0.1, 1.4, 0.2])


def drawn(made):
    """The lines by what they are, and the ends of the band: x, lower, upper."""
    (ax,) = made.axes
    lines = {name: [] for name in ("median", "observed", "draws")}
    for line in ax.lines:
        lines[line.get_label() if line.get_label() in lines else "draws"].append(line.get_data())
    outline = ax.collections[0].get_paths()[0].vertices
    x = lines["median"][0][0]
    ends = [[outline[np.isclose(outline[:, 0], at), 1] for at in x]]
    lower, upper = (np.array([extreme(values) for values in ends[0]]) for extreme in (min, max))
    return lines, x, lower, upper


def test_prior_samples_lie_over_the_band_of_the_prior():
    process = bk.GaussianProcess(2.0 * Matern32(1.5), X, noise=0.3, mean=lambda x: 1.0 + x[0])
    lines, x, lower, upper = drawn(process.plot_samples([0.0, 8.0], n=3, level=0.8, seed=4))
    assert (x[0], x[-1], len(lines["draws"]), lines["observed"]) == (0.0, 8.0, 3, [])
    np.testing.assert_allclose(lines["median"][0][1], 1.0 + x, rtol=1e-9)
    # The function, without the noise.
    np.testing.assert_allclose(upper, 1.0 + x + 1.2815515655 * 2.0**0.5, rtol=1e-7)
    np.testing.assert_allclose(lower, 1.0 + x - 1.2815515655 * 2.0**0.5, rtol=1e-7, atol=1e-7)


def test_posterior_samples_equal_those_of_predict():
    gp = bk.GaussianProcess(RBF(1.2), X, noise=0.01).condition(Y)
    lines, x, lower, upper = drawn(gp.plot_samples([0.0, 7.0], n=4, seed=7))
    prediction = gp.predict(x, latent=True)
    np.testing.assert_allclose(lines["median"][0][1], prediction.mean, atol=1e-9)
    np.testing.assert_allclose([lower, upper], prediction.interval(0.95), atol=1e-9)
    np.testing.assert_allclose(
        [y for _, y in lines["draws"]], prediction.sample(4, seed=7), atol=1e-9
    )
    np.testing.assert_array_equal(lines["observed"][0], [X, Y])


def test_default_range_is_that_of_the_observed_data():
    mask = np.array([True, True, False, True, True])
    process = bk.GaussianProcess(RBF(), pd.DataFrame({"age": X}), 0.1, mask=mask)
    made = process.condition(Y).plot_samples()
    lines, x, *_ = drawn(made)
    assert (x[0], x[-1], len(lines["draws"])) == (1.0, 6.0, 5)
    np.testing.assert_array_equal(lines["observed"][0], [X[mask], Y[mask]])
    assert made.axes[0].get_xlabel() == "age"


def test_plots_into_given_axes():
    fig = figure()
    left, right = fig.subplots(1, 2)
    process = bk.GaussianProcess(RBF(), X, 0.1)
    assert process.plot_samples(ax=left) is fig
    assert process.condition(Y).plot_samples(ax=right) is fig
    assert len(left.lines) == 6 and len(right.lines) == 7


@pytest.mark.parametrize(
    ("process", "options", "message"),
    [
        (bk.GaussianProcess(RBF(), X, 0.1), {"X_new": np.ones((3, 2))}, "X_new has 2 columns but"),
        (bk.GaussianProcess(RBF(), X, 0.1), {"X_new": [2.0]}, "X_new has one value only, 2"),
        (bk.GaussianProcess(RBF(), X, 0.1), {"n": 0}, "n must be a whole number of at least 1"),
        (bk.GaussianProcess(RBF(), X, 0.1), {"level": 95}, "level must be a probability"),
        (bk.GaussianProcess(RBF(), X, 0.1), {"seed": -1}, "seed must be"),
        (bk.GaussianProcess(RBF(), X, 0.1, mean=Y), {}, "the prior mean was given as an array"),
        (bk.GaussianProcess(RBF(), np.stack([X, Y], 1), 0.1), {}, "X has 2 columns, but a curve"),
    ],
)
def test_bad_input_is_refused(process, options, message):
    for gp in (process, process.condition(Y)):
        with pytest.raises(ValueError, match=message):
            gp.plot_samples(**options)
