"""Predictions of numbers, classes and ordered classes."""

import numpy as np
import pandas as pd
import pytest

from bayeskern.prediction.response import ResponsePrediction

rng = np.random.default_rng(0)
CHANCES = np.array([[0.2, 0.5, 0.3], [0.7, 0.1, 0.2]])
DRAWS = np.column_stack([rng.choice(3, 2000, p=row) for row in CHANCES])
CLASSES = ("low", "mid", "top")


def classes(**options):
    return ResponsePrediction(DRAWS, CHANCES, CHANCES, CLASSES, **options)


def binary():
    chances = np.array([[0.9, 0.1], [0.4, 0.6]])
    draws = rng.random((2000, 2)) < chances[:, 1]
    return ResponsePrediction(draws.astype(int), chances[:, 1], chances, (False, True))


def test_numbers_have_given_mean_and_variance_of_draws():
    draws = rng.poisson(3.0, (5000, 2))
    prediction = ResponsePrediction(draws, [3.0, 3.0])
    np.testing.assert_array_equal(prediction.mean, [3.0, 3.0])
    np.testing.assert_array_equal(prediction.variance, draws.var(axis=0))
    lower, upper = prediction.interval(0.8)
    np.testing.assert_array_equal([lower, upper], [[1, 1], [5, 5]])
    assert list(prediction.to_frame()) == ["mean", "sd", "median", "lower", "upper"]
    with pytest.raises(ValueError, match="y is a number: use median"):
        _ = prediction.most_likely


def test_classes_have_probabilities_and_most_likely_label():
    prediction = classes()
    np.testing.assert_array_equal(prediction.most_likely, ["mid", "low"])
    frame = prediction.to_frame()
    pd.testing.assert_frame_equal(frame, pd.DataFrame(CHANCES, columns=list(CLASSES)))
    assert set(np.unique(prediction.sample(100))) == {0, 1, 2}
    assert "classes 'low', 'mid', 'top'" in repr(prediction)


def test_moments_of_classes_equal_moments_of_indicators():
    prediction = classes()
    np.testing.assert_array_equal(prediction.mean, CHANCES)
    indicators = (DRAWS[..., None] == np.arange(3)).astype(float)
    np.testing.assert_allclose(prediction.variance, indicators.var(axis=0), atol=0.02)
    np.testing.assert_allclose(prediction.sd**2, CHANCES * (1.0 - CHANCES))


@pytest.mark.parametrize("ask", ["median", "interval", "quantile"])
def test_quantiles_of_unordered_classes_are_refused(ask):
    prediction = classes()
    with pytest.raises(ValueError, match="3 classes without an order have no quantiles"):
        _ = prediction.median if ask == "median" else getattr(prediction, ask)(0.9)


def test_quantiles_of_ordered_classes_are_indices():
    prediction = classes(ordered=True)
    np.testing.assert_array_equal(prediction.median, [1, 0])
    np.testing.assert_array_equal(prediction.quantile([0.1, 0.9]), [[0, 0], [2, 2]])


def test_two_classes_have_moments_of_zero_or_one():
    prediction = binary()
    np.testing.assert_array_equal(prediction.mean, [0.1, 0.6])
    np.testing.assert_allclose(prediction.variance, [0.09, 0.24])
    np.testing.assert_array_equal(prediction.median, [0, 1])
    np.testing.assert_array_equal(prediction.most_likely, [False, True])
    assert list(prediction.to_frame()) == [False, True]
