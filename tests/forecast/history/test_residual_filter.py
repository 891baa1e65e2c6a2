"""Recurrences and the filter of the residual process against dense matrices."""

import numpy as np
import pytest

from bayeskern.forecast.history.filtered_statistics import History
from bayeskern.forecast.history.residual_filter import (
    CHUNK_ROWS,
    InterpolationWeights,
    ResidualFilter,
    covariance_after,
    recurrence,
)

RNG = np.random.default_rng(3)
LENGTHSCALE = 0.3


@pytest.mark.parametrize("n", [1, 70])
def test_recurrences_equal_a_loop(n):
    c, rows, start = RNG.uniform(0.0, 1.0, n), RNG.standard_normal((n, 3)), np.ones(3)
    h, expected = start, []
    for i in range(n):
        h = c[i] * h + rows[i]
        expected.append(h)
    np.testing.assert_allclose(recurrence(c, rows.copy(), start), expected, rtol=1e-12)
    backward = recurrence(c[::-1], rows[::-1], start, reverse=True)
    np.testing.assert_allclose(backward, expected[::-1], rtol=1e-12)


@pytest.mark.parametrize("ratio", [1e-6, 1.0, 1e6])
def test_filter_equals_dense_solve(ratio):
    n = CHUNK_ROWS + 100
    x = np.sort(RNG.uniform(0.0, 30.0, n))
    B = RNG.standard_normal((n, 4))
    K = np.exp(-np.abs(x[:, None] - x) / LENGTHSCALE)
    T = np.eye(n) + ratio * K
    history = History(x, B)
    residual, known = history.residual(LENGTHSCALE, ratio), history.statistics(LENGTHSCALE, ratio)
    solved = np.linalg.solve(T, B)
    np.testing.assert_allclose(known.log_det, np.linalg.slogdet(T)[1], rtol=1e-9)
    scale = np.abs(B.T @ solved).max()
    np.testing.assert_allclose(known.gram, B.T @ solved, rtol=1e-8, atol=1e-8 * scale)
    out = np.empty_like(B)
    for rows, part in history.solved_chunks(residual):
        out[rows] = part
    np.testing.assert_allclose(out, solved, atol=1e-8 * np.abs(solved).max())
    np.testing.assert_allclose(residual.precision_diagonal, np.diag(np.linalg.inv(T)), rtol=1e-7)
    np.testing.assert_allclose(residual.averages, K.mean(axis=1), rtol=1e-10)
    x_new = np.array([-1.0, 0.5, x[10], 31.0])
    cross = np.exp(-np.abs(x_new[:, None] - x) / LENGTHSCALE)
    means, between = history.smoothed(residual, x_new)
    np.testing.assert_allclose(means, ratio * cross @ solved, rtol=1e-6, atol=1e-8)
    own = np.exp(-np.abs(x_new[:, None] - x_new) / LENGTHSCALE)
    expected = ratio * own - ratio**2 * cross @ np.linalg.solve(T, cross.T)
    atol = 1e-9 * ratio
    np.testing.assert_allclose(between.variance, np.diag(expected), rtol=1e-6, atol=atol)
    np.testing.assert_allclose(residual.covariance(x_new), expected, atol=atol)
    np.testing.assert_allclose(between.averages, cross.mean(axis=1), rtol=1e-10)


def test_slopes_equal_finite_differences():
    x, step = np.sort(RNG.uniform(0.0, 30.0, 1500)), 1e-5
    history = History(x, RNG.standard_normal((1500, 3)))
    slopes = history.slopes(LENGTHSCALE, 2.0)
    for i in range(2):
        factors = np.exp(step * (np.arange(2) == i))
        ahead = history.statistics(*(np.array([LENGTHSCALE, 2.0]) * factors))
        behind = history.statistics(*(np.array([LENGTHSCALE, 2.0]) / factors))
        expected = (ahead.gram - behind.gram) / (2.0 * step)
        np.testing.assert_allclose(slopes.gram[i], expected, rtol=1e-5, atol=1e-4)
        expected = (ahead.log_det - behind.log_det) / (2.0 * step)
        np.testing.assert_allclose(slopes.log_det[i], expected, rtol=1e-6)


def test_log_determinant_with_repeated_and_distant_times():
    x = np.concatenate([np.zeros(3), np.arange(1.0, 5000.0) * 1e3])
    residual = ResidualFilter(x, 1e-3, 4.0)
    # The first three values share one value of the process; all others are independent.
    expected = np.log(1.0 + 3.0 * 4.0) + (len(x) - 3) * np.log(5.0)
    np.testing.assert_allclose(np.log(residual.scales).sum(), expected)


def test_variances_of_a_vague_process_in_closed_form():
    # One value at 0, with the variance 1 of u + e given u, and u with variance q: given it, u has
    # the variance q / (q + 1) at 0, and q (1 - a^2) + a^2 q / (q + 1) at the decay a.
    q, gap = 1e12, 1e-13
    given, added = q / (q + 1.0), -q * np.expm1(-2.0 * gap)
    expected = added + np.exp(-2.0 * gap) * given
    residual = ResidualFilter(np.zeros(1), 1.0, q)
    between = InterpolationWeights(residual, np.array([-gap, gap]))
    np.testing.assert_allclose(between.variance, expected, rtol=1e-12)
    after = covariance_after(np.array([0.0, gap]), 1.0, q, given)
    np.testing.assert_allclose(after, [[given, given], [given, expected]], rtol=1e-12)
