"""Coefficient paths against scikit-learn, closed forms and optimality conditions."""

import sys

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import Lasso, Ridge

from bayeskern.core.plotting import figure
from bayeskern.course import coefficient_path, least_squares

# The function has the name of its module.
module = sys.modules[coefficient_path.__module__]
both = pytest.mark.parametrize("intercept", [False, True])
shapes = pytest.mark.parametrize("shape", [(60, 5), (12, 20)], ids=["tall", "wide"])


def data(n, d, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) + 1.0
    return X, X @ rng.normal(size=d) + 3.0 + 0.5 * rng.normal(size=n)


def tied():
    """Small whole numbers, of which least angle regression takes several columns at once."""
    rng = np.random.default_rng(44)
    X, y = rng.integers(-1, 3, size=(12, 8)), rng.integers(0, 5, size=12)
    return X.astype(float), y.astype(float)


@both
@shapes
def test_ridge_agrees_with_scikit_learn(shape, intercept):
    X, y = data(*shape)
    penalties = [0.01, 1.0, 30.0, 2e3]
    path = coefficient_path(X, y, penalties, intercept=intercept)
    assert path.kind == "ridge" and path.coefficients.shape == (4, shape[1])
    for penalty, b, a in zip(penalties, path.coefficients, path.intercepts, strict=True):
        theirs = Ridge(penalty, fit_intercept=intercept, solver="svd").fit(X, y)
        np.testing.assert_allclose(b, theirs.coef_, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(a, theirs.intercept_, rtol=1e-9, atol=1e-12)


@both
@shapes
def test_lasso_agrees_with_scikit_learn(shape, intercept):
    X, y = data(*shape)
    penalties = [2.0, 10.0, 40.0]
    path = coefficient_path(X, y, penalties, "lasso", intercept=intercept)
    for penalty, b, a in zip(penalties, path.coefficients, path.intercepts, strict=True):
        theirs = Lasso(
            penalty / (2 * len(X)), fit_intercept=intercept, tol=1e-14, max_iter=100_000
        ).fit(X, y)
        np.testing.assert_allclose(b, theirs.coef_, atol=1e-6)
        np.testing.assert_allclose(a, theirs.intercept_, atol=1e-5)
        assert np.array_equal(b == 0.0, theirs.coef_ == 0.0)


def optimality(X, y, penalty, b):
    """How far the slopes of |y - X b|^2 are from the subgradient of -penalty |b|_1."""
    slopes = 2.0 * X.T @ (y - X @ b)
    inside = np.maximum(np.abs(slopes) - penalty, 0.0)
    return np.max(np.where(b == 0.0, inside, np.abs(slopes - penalty * np.sign(b))))


@pytest.mark.parametrize("case", [data(60, 5), data(12, 20), tied()], ids=["tall", "wide", "tied"])
def test_lasso_satisfies_its_optimality_conditions(case):
    X, y = case
    path = coefficient_path(X, y, kind="lasso")
    for penalty, b in zip(path.penalties, path.coefficients, strict=True):
        assert optimality(X, y, penalty, b) < 1e-5 * penalty


def test_coordinate_descent_corrects_least_angle_regression(monkeypatch):
    monkeypatch.setattr(module, "_by_angles", lambda X, y, p: np.ones((len(p), X.shape[1])))
    for X, y in (data(60, 5), tied()):
        penalties = [0.5, 5.0, 20.0]
        path = coefficient_path(X, y, penalties, "lasso")
        for penalty, b in zip(penalties, path.coefficients, strict=True):
            assert optimality(X, y, penalty, b) < 1e-5 * penalty


def test_orthogonal_columns_have_a_closed_form():
    rng = np.random.default_rng(1)
    X, y = np.linalg.qr(rng.normal(size=(30, 4)))[0] * [1.0, 2.0, 3.0, 4.0], rng.normal(size=30)
    penalties, sizes, c = np.array([0.3, 1.0, 4.0]), np.arange(1.0, 5.0) ** 2, X.T @ y
    ridge = coefficient_path(X, y, penalties).coefficients
    np.testing.assert_allclose(ridge, c / (sizes + penalties[:, None]), rtol=1e-10)
    lasso = coefficient_path(X, y, penalties, "lasso").coefficients
    soft = np.sign(c) * np.maximum(np.abs(c) - 0.5 * penalties[:, None], 0.0) / sizes
    np.testing.assert_allclose(lasso, soft, atol=1e-8)


@both
def test_zero_penalty_gives_minimum_norm_least_squares(intercept):
    for shape in [(60, 5), (12, 20)]:
        X, y = data(*shape)
        path = coefficient_path(X, y, [0.0, 1e-9], intercept=intercept)
        shortest = least_squares(X, y, "qr", intercept=intercept)
        for b, a in zip(path.coefficients, path.intercepts, strict=True):
            np.testing.assert_allclose(b, shortest.coefficients, rtol=1e-6)
            np.testing.assert_allclose(a, shortest.intercept, rtol=1e-6, atol=1e-9)


@both
def test_lasso_limits_are_least_squares_and_zero(intercept):
    X, y = data(60, 5)
    Xc, yc = (X - X.mean(0), y - y.mean()) if intercept else (X, y)
    nothing = 2.0 * np.max(np.abs(Xc.T @ yc))
    penalties = [1e-6, 0.999 * nothing, 1.001 * nothing, 1e6 * nothing]
    path = coefficient_path(X, y, penalties, "lasso", intercept=intercept)
    expected = least_squares(X, y, intercept=intercept).coefficients
    np.testing.assert_allclose(path.coefficients[0], expected, rtol=1e-6)
    assert np.sum(path.coefficients[1] != 0.0) == 1
    assert np.all(path.coefficients[2:] == 0.0)
    np.testing.assert_allclose(path.intercepts[2:], y.mean() if intercept else 0.0)


@pytest.mark.parametrize("kind", ["ridge", "lasso"])
def test_default_penalties_span_least_squares_to_zero(kind):
    X, y = data(80, 4)
    path = coefficient_path(X, y, kind=kind, intercept=True)
    ls = least_squares(X, y, intercept=True).coefficients
    assert path.penalties.shape == (100,) and np.all(np.diff(path.penalties) > 0.0)
    np.testing.assert_allclose(path.coefficients[0], ls, rtol=0.02)
    assert np.max(np.abs(path.coefficients[-1])) < 2e-3 * np.max(np.abs(ls))
    # They follow the scale of X and y.
    again = coefficient_path(1e3 * X, 1e-4 * y, kind=kind, intercept=True)
    np.testing.assert_allclose(again.coefficients, 1e-7 * path.coefficients, atol=1e-12)


@pytest.mark.parametrize("kind", ["ridge", "lasso"])
def test_constant_data_have_zero_coefficients(kind):
    X = np.column_stack([np.full(9, 0.1), np.arange(9.0)])
    for y in (np.full(9, 2.5), np.zeros(9)):
        path = coefficient_path(X, y, kind=kind, intercept=True)
        assert np.all(path.coefficients == 0.0)
        np.testing.assert_allclose(path.intercepts, y[0])
    none = coefficient_path(np.zeros((4, 2)), np.arange(4.0), kind=kind)
    assert np.all(none.coefficients == 0.0) and np.all(none.penalties > 0.0)


def test_penalties_are_sorted_and_unique():
    X, y = data(30, 3)
    for kind in ("ridge", "lasso"):
        path = coefficient_path(X, y, [5.0, 1.0, 5.0, 0.2], kind)
        np.testing.assert_array_equal(path.penalties, [0.2, 1.0, 5.0])
        for penalty, b in zip(path.penalties, path.coefficients, strict=True):
            alone = coefficient_path(X, y, penalty, kind).coefficients[0]
            np.testing.assert_allclose(b, alone, rtol=1e-6)


def test_plot_has_a_line_for_each_column():
    X, y = data(30, 3)
    frame = pd.DataFrame(X, columns=["age", "a $name$ that is much longer than others", "mass"])
    path = coefficient_path(frame, y, [0.0, 0.1, 1.0, 10.0])
    assert path.columns == tuple(frame.columns)
    (ax,) = path.plot().axes
    assert ax.get_xscale() == "log" and ax.get_xlabel() == "penalty"
    for line, b in zip(ax.lines, path.coefficients.T, strict=False):
        # The penalty 0 is left out.
        np.testing.assert_array_equal(line.get_data(), [path.penalties[1:], b[1:]])
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    assert labels[::2] == ["age", "mass"] and len(labels[1]) == 20


def test_plot_of_many_columns_has_no_legend():
    fig = figure()
    ax = fig.subplots()
    path = coefficient_path(*data(30, 17), kind="lasso")
    assert path.plot(ax) is fig and ax.get_legend() is None
    # And the line of 0.
    assert len(ax.lines) == 18
    assert path.columns[16] == "column 16"
    fewer = coefficient_path(*data(30, 16)).plot().axes[0]
    assert len(fewer.get_legend().get_texts()) == 16
    assert len({(line.get_color(), line.get_linestyle()) for line in fewer.lines[:16]}) == 16


def test_unconverged_lasso_warns(monkeypatch):
    for solver in ("_by_angles", "_by_descent"):
        monkeypatch.setattr(module, solver, lambda X, y, p: np.zeros((len(p), X.shape[1])))
    with pytest.warns(UserWarning, match="not converged at 2 of 3 .*0.1"):
        coefficient_path(*data(30, 5), [0.01, 0.1, 1e6], "lasso")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "laso"}, "Did you mean 'lasso'?"),
        ({"penalties": [1.0, -2.0]}, "penalties must be a finite penalty"),
        ({"penalties": [np.nan]}, "penalties must be a finite penalty"),
        ({"penalties": "loo"}, "penalties must be a finite penalty"),
        ({"penalties": []}, "penalties is empty: give at least one"),
        ({"penalties": [0.0, 1.0], "kind": "lasso"}, "penalties has a 0, at which the lasso"),
        ({"y": np.arange(4.0)}, "y has 4 values but X has 5 points"),
        ({"y": np.ones((5, 2))}, "y must be one number per point"),
        ({"X": [[1.0], [np.inf], [1.0], [1.0], [1.0]]}, "X has 1 value that is NaN or infinite"),
    ],
)
def test_bad_input_is_refused(change, message):
    arguments = {"X": np.arange(5.0)[:, None], "y": np.arange(5.0), **change}
    with pytest.raises(ValueError, match=message.replace("?", r"\?")):
        coefficient_path(**arguments)


def test_plot_needs_two_positive_penalties():
    with pytest.raises(ValueError, match="at least two penalties above 0; got 1"):
        coefficient_path(*data(9, 2), [0.0, 3.0]).plot()
