"""Least squares against NumPy and scikit-learn."""

import re
from itertools import product

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.linear_model import LinearRegression, Ridge

from bayeskern.course import least_squares

DIRECT = ["cholesky", "qr", "svd"]
DESCENT = ["lms", "sgd"]
# What each solver promises, relative to the length of the coefficients.
ACCURACY = {"cholesky": 1e-12, "qr": 1e-12, "svd": 1e-12, "lms": 1e-8, "sgd": 1e-3}


def data(n, d, k=None, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) + 1.0
    y = X @ rng.normal(size=(d, k or 1)) + 3.0 + 0.5 * rng.normal(size=(n, k or 1))
    return X, y if k else y[:, 0]


def with_singular_values(n, d, values, seed=0):
    rng = np.random.default_rng(seed)
    U, _ = np.linalg.qr(rng.normal(size=(n, len(values))))
    V, _ = np.linalg.qr(rng.normal(size=(d, len(values))))
    return (U * values) @ V.T, rng.normal(size=n)


def assert_near(result, expected, solver):
    error = np.linalg.norm(result.coefficients - expected, axis=0)
    assert np.all(error <= ACCURACY[solver] * np.linalg.norm(expected, axis=0))


@pytest.mark.parametrize("solver", DIRECT + DESCENT)
@pytest.mark.parametrize("k", [None, 3])
def test_least_squares_agrees_with_numpy(solver, k):
    X, y = data(60, 4, k)
    solution = least_squares(X, y, solver)
    expected, squares, rank, values = np.linalg.lstsq(X, y)
    assert_near(solution, expected, solver)
    assert solution.coefficients.shape == expected.shape
    assert (solution.rank, solution.solver, solution.remark) == (rank, solver, None)
    np.testing.assert_allclose(solution.condition_number, values[0] / values[-1], rtol=1e-12)
    rtol = 1e-4 if solver == "sgd" else 1e-12
    np.testing.assert_allclose(
        solution.residual_sum_of_squares, squares if k else squares[0], rtol=rtol
    )
    assert solution.intercept == pytest.approx(0.0, abs=0.0)
    assert solution.converged is (True if solver in DESCENT else None)


# "cholesky" refuses the one system that is singular.
SYSTEMS = list(product(DIRECT + DESCENT, [(60, 4), (6, 15)], [0.0, 7.0]))
SYSTEMS.remove(("cholesky", (6, 15), 0.0))


@pytest.mark.parametrize(("solver", "shape", "penalty"), SYSTEMS)
@pytest.mark.parametrize("intercept", [False, True])
def test_ridge_with_unpenalised_intercept_agrees_with_scikit_learn(
    solver, shape, intercept, penalty
):
    X, y = data(*shape, k=2)
    solution = least_squares(X, y, solver, penalty, intercept=intercept)
    ridge = Ridge(penalty, fit_intercept=intercept, solver="svd")
    reference = ridge if penalty else LinearRegression(fit_intercept=intercept)
    reference.fit(X, y)
    assert_near(solution, reference.coef_.T, solver)
    atol = ACCURACY[solver] * 10.0
    np.testing.assert_allclose(solution.intercept, reference.intercept_, atol=atol)
    assert solution.rank == min(len(X) - intercept, X.shape[1])


@pytest.mark.parametrize("shape", [(30, 8), (8, 30)], ids=["tall", "wide"])
@pytest.mark.parametrize("solver", ["qr", "svd", "lms"])
def test_minimum_norm_solution_of_rank_deficient_systems(solver, shape):
    X, y = with_singular_values(*shape, [3.0, 2.0, 1.0])
    solution = least_squares(X, y, solver)
    assert solution.rank == 3
    assert solution.condition_number > 1e14
    assert_near(solution, np.linalg.pinv(X, rcond=1e-10) @ y, solver)


def test_qr_remarks_on_its_switch_to_svd():
    X, y = with_singular_values(30, 8, [3.0, 2.0, 1.0])
    solution = least_squares(X, y, "qr")
    assert solution.solver == "svd"
    assert "rank 8" in solution.remark
    assert "rank 3" in solution.remark


@pytest.mark.parametrize("solver", ["qr", "svd"])
@pytest.mark.parametrize("shape", [(30, 5), (5, 30)], ids=["tall", "wide"])
def test_rank_tolerance_cuts_small_singular_values(solver, shape):
    X, y = with_singular_values(*shape, [1.0, 0.5, 0.1, 1e-5, 1e-6])
    kept = least_squares(X, y, solver)
    cut = least_squares(X, y, solver, rank_tolerance=1e-3)
    assert (kept.rank, cut.rank) == (5, 3)
    np.testing.assert_allclose(kept.condition_number, 1e6, rtol=1e-9)
    np.testing.assert_allclose(cut.coefficients, np.linalg.pinv(X, rcond=1e-3) @ y, atol=1e-11)
    np.testing.assert_allclose(kept.coefficients, np.linalg.pinv(X) @ y, rtol=1e-7)


def test_qr_is_more_accurate_than_cholesky_when_ill_conditioned():
    # Exact coefficients of 1, up to the rounding of y.
    X = with_singular_values(60, 6, np.geomspace(1.0, 1e-6, 6))[0]
    y = X @ np.ones(6)
    errors = {s: np.abs(least_squares(X, y, s).coefficients - 1.0).max() for s in DIRECT}
    assert errors["qr"] < 1e-8
    assert errors["svd"] < 1e-8
    assert errors["cholesky"] > 10.0 * errors["qr"]
    assert errors["cholesky"] < 1e-3


def test_badly_scaled_columns_keep_accuracy():
    X, _ = data(50, 4)
    scales = 10.0 ** np.array([-6, 0, 5, 2])
    solution = least_squares(X * scales, X @ np.ones(4), "qr")
    np.testing.assert_allclose(solution.coefficients * scales, 1.0, rtol=1e-10)


@pytest.mark.parametrize("shape", [(6, 20), (30, 8)], ids=["wide", "rank deficient"])
def test_cholesky_refuses_singular_systems(shape):
    X, y = with_singular_values(*shape, [3.0, 2.0, 1.0])
    with pytest.raises(np.linalg.LinAlgError, match=re.escape('solver="svd"')):
        least_squares(X, y, "cholesky")
    solution = least_squares(X, y, "cholesky", penalty=0.5)
    assert solution.rank == 3
    expected = np.linalg.solve(X.T @ X + 0.5 * np.eye(shape[1]), X.T @ y)
    np.testing.assert_allclose(solution.coefficients, expected, atol=1e-12)


def test_ridge_shrinks_along_singular_vectors():
    X, y = with_singular_values(40, 5, [5.0, 3.0, 1.0, 0.3, 0.1])
    U, s, Vt = np.linalg.svd(X, full_matrices=False)
    for penalty in (1e-3, 1.0, 1e3):
        expected = Vt.T @ (s / (s**2 + penalty) * (U.T @ y))
        for solver in DIRECT:
            assert_near(least_squares(X, y, solver, penalty), expected, solver)


@pytest.mark.parametrize("solver", ["qr", "svd", "lms", "sgd"])
def test_zero_columns_have_zero_coefficients(solver):
    solution = least_squares(np.zeros((5, 2)), np.arange(5.0), solver)
    assert solution.coefficients.tolist() == [0.0, 0.0]
    assert (solution.rank, solution.condition_number) == (0, np.inf)
    assert solution.residual_sum_of_squares == pytest.approx(30.0)


# -- descent --------------------------------------------------------------------------------------


def test_lms_steps_follow_the_formula():
    X, y = data(20, 3)
    solution = least_squares(X, y, "lms", penalty=2.0, step=1e-3, epochs=2)
    b = np.zeros(3)
    for _ in range(2):
        b = b + 1e-3 * (X.T @ (y - X @ b) - 2.0 * b)
    np.testing.assert_allclose(solution.coefficients, b, rtol=1e-13)
    assert (solution.iterations, solution.converged) == (2, False)


@pytest.mark.parametrize("solver", DESCENT)
def test_converged_solutions_are_within_tolerance(solver):
    claims = []
    for condition in (2.0, 20.0, 200.0):
        values = 10.0 * np.geomspace(1.0, 1.0 / condition, 4)
        X, y = with_singular_values(50, 4, values)
        solution = least_squares(X, y, solver, epochs=5_000)
        exact = np.linalg.lstsq(X, y)[0]
        error = np.linalg.norm(solution.coefficients - exact) / np.linalg.norm(exact)
        # The error is measured against the coefficients found, those of the claim.
        assert solution.converged is False or error <= 1.01 * ACCURACY[solver]
        claims.append(solution.converged)
    assert claims[0] is True
    assert claims[-1] is False


def test_lms_refuses_divergent_steps():
    X, y = data(20, 3)
    longest = 2.0 / np.linalg.norm(X, 2) ** 2
    with pytest.raises(ValueError, match="diverges unless step < 2 / L"):
        least_squares(X, y, "lms", step=1.001 * longest)
    assert np.all(np.isfinite(least_squares(X, y, "lms", step=0.99 * longest).coefficients))


@pytest.mark.parametrize("step", [10.0, 1e200])
def test_sgd_reports_divergence(step):
    X, y = data(40, 3)
    with pytest.raises(ValueError, match="sgd diverged with step=1"):
        least_squares(X, y, "sgd", step=step, epochs=5)


def test_sgd_follows_its_seed():
    X, y = data(40, 3)
    single, again, other = (least_squares(X, y, "sgd", seed=s).coefficients for s in (1, 1, 2))
    assert np.array_equal(single, again)
    assert not np.array_equal(single, other)


@pytest.mark.parametrize("batch", [1, 7, 39, 40, 500])
@pytest.mark.parametrize("penalty", [0.0, 20.0])
def test_sgd_converges_for_all_batch_sizes(batch, penalty):
    X, y = data(40, 2)
    solution = least_squares(X, y, "sgd", penalty, batch=batch)
    assert solution.converged
    expected = np.linalg.solve(X.T @ X + penalty * np.eye(2), X.T @ y)
    assert_near(solution, expected, "sgd")


# -- bad input ------------------------------------------------------------------------------------


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_data_frames_are_read(frame):
    X, y = data(30, 2)
    table = frame({"a": X[:, 0], "b": X[:, 1]})
    assert_near(least_squares(table, y), np.linalg.lstsq(X, y)[0], "qr")
    solution = least_squares(table, frame({"y": y}))
    assert solution.coefficients.shape == (2, 1)


def test_vector_input_is_one_column():
    x, y = np.arange(5.0), 2.0 * np.arange(5.0) + 1.0
    solution = least_squares(x, y, intercept=True)
    np.testing.assert_allclose([*solution.coefficients, solution.intercept], [2.0, 1.0], rtol=1e-12)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"solver": "cholesk"}, "Did you mean 'cholesky'"),
        ({"penalty": -1.0}, "penalty must be a nonnegative number"),
        ({"penalty": "much"}, "penalty must be a nonnegative number"),
        ({"rank_tolerance": np.nan}, "rank_tolerance must be"),
        ({"solver": "lms", "step": 0.0}, "step must be a positive number"),
        ({"solver": "lms", "epochs": 0}, "epochs must be a whole number of at least 1"),
        ({"solver": "sgd", "batch": 2.5}, "batch must be a whole number of at least 1"),
        ({"solver": "sgd", "seed": -1}, "seed must be"),
        ({"y": np.arange(4.0)}, "y has 4 values but X has 5 points"),
        ({"y": [1.0, 2.0, np.nan, 4.0, 5.0]}, "y has 1 value that is NaN"),
        ({"X": [[1.0], [np.inf], [1.0], [1.0], [1.0]]}, "X has 1 value that is NaN or infinite"),
        ({"X": np.zeros((0, 2))}, "X is empty"),
    ],
)
def test_bad_input_is_refused(change, message):
    arguments = {"X": np.arange(5.0)[:, None], "y": np.arange(5.0), **change}
    with pytest.raises(ValueError, match=re.escape(message)):
        least_squares(**arguments)


@pytest.mark.parametrize("solver", ["qr", "svd"])
@pytest.mark.parametrize("value", [0.1, 0.7, 1e6 + 0.1])
def test_constant_column_with_intercept_has_zero_coefficient(solver, value):
    y = np.random.default_rng(0).normal(size=3)
    solution = least_squares(np.full((3, 1), value), y, solver=solver, intercept=True)
    assert solution.coefficients[0] == 0.0 and solution.rank == 0
    np.testing.assert_allclose(solution.intercept, y.mean())
