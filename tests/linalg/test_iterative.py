"""Conjugate gradients against dense solutions, and the status without convergence."""

import numpy as np
import pytest
from scipy.linalg import cho_factor, cho_solve

from bayeskern.core import validation
from bayeskern.kernels import RBF, Linear, Matern32, Multiquadric, White
from bayeskern.linalg import Status, conjugate_gradients
from bayeskern.linalg.iterative import conjugate_gradients as iterative
from bayeskern.linalg.iterative import tiled_gram
from bayeskern.linalg.iterative.tiled_gram import TILE_ROWS, TiledGram
from tests.marks import few

RNG = np.random.default_rng(3)
N = TILE_ROWS + 64
X = RNG.normal(size=(N, 3))
B = np.stack([np.sin(X.sum(axis=1)), RNG.normal(size=N), np.ones(N)], axis=1)
NOISE = RNG.uniform(0.01, 2.0, size=N)


def matrix(kernel, X, noise):
    return np.asarray(kernel(X)) + np.diag(np.broadcast_to(noise, len(X)))


def residual(kernel, X, noise, B, x):
    """The largest relative residual of the columns."""
    missed = B - matrix(kernel, X, noise) @ x
    return np.max(np.linalg.norm(missed, axis=0) / np.linalg.norm(B, axis=0))


# -- the product -----------------------------------------------------------------------------------


@pytest.mark.parametrize("n", few([1, 5, TILE_ROWS, TILE_ROWS + 1, N], 5, N))
@pytest.mark.parametrize("kernel", [Matern32(1.5), RBF().on([0]) * Linear() + White(0.3)], ids=repr)
def test_product_by_tiles_against_the_matrix(kernel, n):
    found = TiledGram(kernel, X[:n]) @ B[:n]
    np.testing.assert_allclose(found, np.asarray(kernel(X[:n])) @ B[:n], rtol=1e-12, atol=1e-12)


def test_similar_problems_are_not_compiled_again():
    before = tiled_gram._products._cached._cache_size()
    for n, kernel in ((9 * TILE_ROWS, RBF(1.0, 2.0)), (9 * TILE_ROWS + 5, RBF(0.3, 1.7))):
        TiledGram(kernel, np.resize(X, (n, 3))) @ np.ones((n, 1))
    assert tiled_gram._products._cached._cache_size() == before + 1


# -- solutions -------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("noise", [0.1, NOISE], ids=["one noise", "noise per point"])
@pytest.mark.parametrize("rank", few([1, 40, N], 40))
@pytest.mark.parametrize("kernel", few([RBF(1.5), Matern32(0.8) + White(0.1)], RBF(1.5)), ids=repr)
def test_solution_against_numpy(kernel, rank, noise):
    expected = np.linalg.solve(matrix(kernel, X, noise), B)
    solution = conjugate_gradients(kernel, X, noise, B, tol=1e-12, rank=rank)
    assert solution.converged and solution.residual <= 1e-12
    np.testing.assert_allclose(solution.x, expected, atol=1e-8 * np.abs(expected).max())
    single = conjugate_gradients(kernel, X, noise, B[:, 1], tol=1e-12, rank=rank)
    np.testing.assert_allclose(single.x, expected[:, 1], atol=1e-8 * np.abs(expected).max())


@pytest.mark.slow
def test_residual_against_the_matrix():
    solution = conjugate_gradients(RBF(1.5), X, 1e-3, B, tol=1e-6, rank=30)
    assert solution.converged and solution.residual <= 1e-6
    found = residual(RBF(1.5), X, 1e-3, B, solution.x)
    np.testing.assert_allclose(solution.residual, found, rtol=1e-4)


@pytest.mark.slow
def test_more_landmarks_need_fewer_steps():
    steps = [
        conjugate_gradients(Matern32(2.0), X, 0.01, B[:, 0], rank=rank).iterations
        for rank in (1, 50, 200, N)
    ]
    assert steps[0] > 2 * steps[1] > 2 * steps[2] > 2 * steps[3]
    assert steps[3] <= 3


@pytest.mark.slow
def test_noise_over_ten_orders_of_magnitude():
    noise = 10.0 ** RNG.uniform(-6.0, 4.0, N)
    solution = conjugate_gradients(Matern32(2.0), X, noise, B[:, 1], tol=1e-10)
    assert solution.converged
    expected = cho_solve(cho_factor(matrix(Matern32(2.0), X, noise)), B[:, 1])
    np.testing.assert_allclose(solution.x, expected, atol=1e-6 * np.abs(expected).max())


def test_repeated_inputs():
    again = np.repeat(X[:60], 5, axis=0)
    solution = conjugate_gradients(RBF(1.5), again, 0.1, B[:300], tol=1e-12)
    expected = np.linalg.solve(matrix(RBF(1.5), again, 0.1), B[:300])
    assert solution.converged
    np.testing.assert_allclose(solution.x, expected, atol=1e-8 * np.abs(expected).max())
    same = conjugate_gradients(RBF(), np.ones((7, 2)), 0.5, np.arange(7.0), tol=1e-12)
    # (11' + I / 2)^-1 b = 2 (b - 1 (1'b) / (n + 1 / 2))
    np.testing.assert_allclose(same.x, 2.0 * (np.arange(7.0) - 21.0 / 7.5), rtol=1e-10)
    single = conjugate_gradients(RBF(variance=3.0), [[2.0, 1.0]], 0.5, np.array([7.0]))
    np.testing.assert_allclose(single.x, [2.0], rtol=1e-12)


def test_diagonal_matrices():
    solution = conjugate_gradients(White(0.5), X, NOISE, B, tol=1e-14)
    np.testing.assert_allclose(solution.x, B / (0.5 + NOISE)[:, None], rtol=1e-12)
    solution = conjugate_gradients(Linear(), np.zeros((9, 2)), 0.5, B[:9], tol=1e-14)
    np.testing.assert_allclose(solution.x, 2.0 * B[:9], rtol=1e-12)


def test_right_hand_sides_of_zero():
    both = np.stack([np.zeros(N), B[:, 1]], axis=1)
    solution = conjugate_gradients(RBF(), X, 0.1, both, tol=1e-10)
    assert solution.converged
    np.testing.assert_array_equal(solution.x[:, 0], 0.0)
    nothing = conjugate_gradients(RBF(), X, 0.1, np.zeros(N))
    assert nothing.converged and nothing.iterations == 0 and nothing.residual == 0.0


def test_solution_does_not_depend_on_units():
    one = conjugate_gradients(RBF(1.5, 2.0), X, 0.1, B[:, 1], tol=1e-10)
    tiny = conjugate_gradients(RBF(1.5, 2e-40), X, 1e-41, 1e-20 * B[:, 1], tol=1e-10)
    assert tiny.converged and tiny.iterations == one.iterations
    np.testing.assert_allclose(tiny.x, 1e20 * one.x, rtol=1e-6)


@pytest.mark.slow
def test_solution_is_reproducible_by_seed():
    first, second, other = (
        conjugate_gradients(RBF(), X, 0.1, B, rank=50, seed=seed) for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(first.x, second.x)
    assert np.any(first.x != other.x)


# -- what does not converge ------------------------------------------------------------------------


def test_status_after_too_few_iterations():
    solution = conjugate_gradients(Matern32(), X, 1e-3, B, rank=5, max_iterations=4)
    assert solution.status is Status.EXHAUSTED and not solution.converged
    assert solution.iterations == 4 and solution.residual > 1e-6
    found = residual(Matern32(), X, 1e-3, B, solution.x)
    np.testing.assert_allclose(solution.residual, found, rtol=1e-6)


@pytest.mark.parametrize("noise", [1e-10, 0.0])
def test_ill_conditioned_matrix_does_not_converge(noise):
    # Condition numbers from 1e12 on: the residual of white noise cannot become small.
    solution = conjugate_gradients(RBF(50.0), X, noise, B[:, 1], max_iterations=100)
    assert not solution.converged
    assert solution.residual > 1e-6
    assert residual(RBF(50.0), X, noise, B[:, 1], solution.x) > 1e-6


def test_status_where_rounding_stalls_the_residual():
    solution = conjugate_gradients(RBF(50.0), X, 1e-9, B[:, 1], tol=1e-13)
    assert solution.status is Status.STALLED
    assert 1e-13 < solution.residual < 1e-2


def test_restart_from_the_true_residual(monkeypatch):
    # Steps by products that are good for 7 digits only.
    A = matrix(Matern32(), X, 0.1).astype(np.float32)
    descend, runs = iterative._descend, []

    def rounded(multiply, *arguments):
        runs.append(1)
        return descend(lambda V: (A @ V.astype(np.float32)).astype(float), *arguments)

    monkeypatch.setattr(iterative, "_descend", rounded)
    solution = conjugate_gradients(Matern32(), X, 0.1, B, tol=1e-12)
    assert solution.converged and len(runs) > 1
    assert residual(Matern32(), X, 0.1, B, solution.x) < 2e-12


def test_status_of_an_indefinite_matrix(monkeypatch):
    plain = iterative.TiledGram.__matmul__
    monkeypatch.setattr(iterative.TiledGram, "__matmul__", lambda K, V: plain(K, V) - 0.5 * V)
    solution = conjugate_gradients(Matern32(0.1), X, 0.1, B[:, 1])
    assert solution.status is Status.INDEFINITE


def test_status_of_nan_products(monkeypatch):
    monkeypatch.setattr(iterative.TiledGram, "__matmul__", lambda K, V: np.full_like(V, np.nan))
    solution = conjugate_gradients(Matern32(), X, 0.1, B)
    assert solution.status is Status.NOT_FINITE
    assert np.all(np.isfinite(solution.x)) and not solution.residual <= 1.0


def test_default_rank_depends_on_memory(monkeypatch):
    assert iterative._default_rank(10_000) == 1000
    monkeypatch.setattr(validation, "machine_memory", lambda: 8e9)
    assert iterative._default_rank(1_000_000) == 125


# -- bad input -------------------------------------------------------------------------------------

BAD = {
    "B of another length": ({"B": B[:5]}, rf"B has shape \(5, 3\); .* X has {N} rows"),
    "B with NaN": ({"B": np.where(B > 2.0, np.nan, B)}, "B has .* NaN or infinite"),
    "no columns": ({"B": B[:, :0]}, "B has shape"),
    "noise of another length": ({"noise": NOISE[:4]}, r"noise must be .* got shape \(4,\)"),
    "negative noise": ({"noise": -0.1}, "noise must be finite and at least 0"),
    "noise NaN": ({"noise": np.nan}, "noise must be finite"),
    "X with NaN": ({"X": np.where(X > 2.0, np.nan, X)}, "X has .* NaN or infinite"),
    "tol": ({"tol": 0.0}, "tol must be a positive number"),
    "rank": ({"rank": 0}, "rank must be a whole number"),
    "iterations": ({"max_iterations": 0}, "max_iterations must be a whole number"),
    "seed": ({"seed": -1}, "seed must be"),
    "not positive definite": (
        {"kernel": Multiquadric()},
        "Multiquadric.* is not positive definite",
    ),
    "overflow": ({"kernel": Linear(1e5).exp()}, "is NaN or infinite at some of these points"),
}


@pytest.mark.parametrize(("changed", "message"), BAD.values(), ids=BAD)
def test_bad_arguments_are_refused(changed, message):
    good = {"kernel": RBF(), "X": X, "noise": 0.1, "B": B}
    with pytest.raises(ValueError, match=message):
        conjugate_gradients(**(good | changed))
