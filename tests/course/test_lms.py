"""Least mean squares with a kernel against closed forms, scikit-learn and the theory of descent."""

import pickle
import re

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.kernel_ridge import KernelRidge
from sklearn.utils.estimator_checks import parametrize_with_checks

from bayeskern.course import lms
from bayeskern.course.lms import KernelLMS
from bayeskern.kernels import RBF, Constant, Linear, Matern12, Multiquadric, White, gram_matrix

RNG = np.random.default_rng(19)
X = RNG.normal(size=(60, 2))
Y = np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] + 0.2 * RNG.normal(size=60)
NEW = RNG.normal(size=(20, 2))
KERNELS = {
    "RBF": RBF(0.8),
    "composite": Matern12() * RBF(2.0) + 0.3 * Linear() + Constant(),
    "white": RBF() + White(0.5),
}
batches = pytest.mark.parametrize("batch", [None, 1, 7, 60])


@batches
@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
def test_with_a_penalty_it_goes_to_kernel_ridge(kernel, batch):
    K, alpha = np.asarray(kernel(X)), 0.5
    theirs = KernelRidge(alpha=alpha, kernel="precomputed").fit(K, Y)
    ours = KernelLMS(kernel, batch=batch, alpha=alpha, tol=1e-11).fit(X, Y)
    assert ours.converged_
    # The error of b is at most that of the residual over the smallest eigenvalue.
    bound = 1e-11 * np.linalg.norm(Y) / alpha
    assert np.linalg.norm(ours.dual_coef_ - theirs.dual_coef_) <= bound
    expected = theirs.predict(np.asarray(kernel(NEW, X)))
    np.testing.assert_allclose(ours.predict(NEW), expected, atol=1e-9)


@batches
def test_without_a_penalty_it_goes_to_interpolation(batch):
    ours = KernelLMS(Matern12(), batch=batch, alpha=0.0, tol=1e-9, epochs=20_000).fit(X, Y)
    assert ours.converged_
    np.testing.assert_allclose(ours.predict(X), Y, atol=1e-8)
    expected = np.linalg.solve(np.asarray(Matern12()(X)), Y)
    np.testing.assert_allclose(
        ours.predict(NEW), np.asarray(Matern12()(NEW, X)) @ expected, atol=1e-6
    )


@pytest.mark.parametrize("alpha", [0.0, 0.3])
def test_stopped_early_it_is_the_closed_form_of_as_many_steps(alpha):
    step, epochs = 0.02, 30
    ours = KernelLMS(RBF(), step, alpha=alpha, epochs=epochs, tol=None).fit(X, Y)
    # b_t = [1 - (1 - step A)^t] A^-1 y, along each eigenvector of A = K + alpha.
    values, U = np.linalg.eigh(np.asarray(RBF()(X)) + alpha * np.eye(60))
    shrunk = -np.expm1(epochs * np.log1p(-step * values)) / values
    np.testing.assert_allclose(ours.dual_coef_, U @ (shrunk * (U.T @ Y)), atol=1e-11)
    left = [np.linalg.norm((1 - step * values) ** t * (U.T @ Y)) for t in range(epochs + 1)]
    np.testing.assert_allclose(ours.residual_norms_, left, rtol=1e-11)
    assert (ours.n_iter_, ours.converged_, ours.step_) == (30, False, 0.02)


def test_one_point_at_a_time_it_is_the_rule_of_the_notes():
    ours = KernelLMS(RBF(), 0.3, 1, alpha=0.0, epochs=2, tol=None, seed=5).fit(X, Y)
    K, b, order = np.asarray(RBF()(X)), np.zeros(60), np.random.default_rng(5)
    for _ in range(2):
        for i in order.permutation(60):
            b[i] += 0.3 * (Y[i] - K[i] @ b)
    np.testing.assert_allclose(ours.dual_coef_, b, atol=1e-12)


@pytest.mark.slow
def test_early_stopping_is_a_penalty():
    rng = np.random.default_rng(0)
    points, new = rng.uniform(-3, 3, size=(80, 1)), np.linspace(-3, 3, 200)[:, None]
    y = np.sin(2 * points[:, 0]) + 0.5 * rng.normal(size=80)

    def error(epochs):
        f = KernelLMS(RBF(0.3), alpha=0.0, epochs=epochs, tol=None).fit(points, y).predict(new)
        return np.mean((f - np.sin(2 * new[:, 0])) ** 2)

    errors = [error(epochs) for epochs in (1, 3, 3000)]
    assert errors[1] < 0.7 * min(errors[0], errors[2])


@batches
def test_the_step_it_picks_converges_for_any_kernel(batch):
    size = 60 if batch is None else batch
    for kernel in (RBF(), 100.0 * Linear(), RBF(0.1), Matern12() + Constant(50.0)):
        ours = KernelLMS(kernel, batch=batch, alpha=0.1, epochs=3, tol=None).fit(X, Y)
        A = np.asarray(kernel(X)) + 0.1 * np.eye(60)
        # 1 / the largest sum of so many absolute values, above every eigenvalue of a batch.
        rows = np.sort(np.abs(A), axis=1)[:, 60 - size :].sum(axis=1)
        assert ours.step_ == pytest.approx(1.0 / rows.max(), rel=1e-12)
        for _ in range(20):
            chosen = RNG.permutation(60)[:size]
            assert np.linalg.eigvalsh(A[np.ix_(chosen, chosen)])[-1] <= (1 + 1e-12) / ours.step_


def test_a_step_that_diverges_is_an_error():
    largest = np.linalg.eigvalsh(np.asarray(RBF()(X)))[-1] + 1.0
    short, long = 1.95 / largest, 2.05 / largest
    assert KernelLMS(RBF(), short).fit(X, Y).converged_
    with pytest.raises(ValueError, match="the steps diverge with step=.* Take a shorter one"):
        KernelLMS(RBF(), long).fit(X, Y)
    # A batch has smaller eigenvalues than the whole.
    assert KernelLMS(RBF(), long, batch=10).fit(X, Y).converged_
    with pytest.raises(ValueError, match="the steps diverge"):
        KernelLMS(RBF(), 2.05 / 2.0, batch=1).fit(X, Y)
    with pytest.raises(ValueError, match="the steps diverge"):
        KernelLMS(RBF(), 1e200).fit(X, Y)
    # It shows long before the numbers overflow.
    with pytest.raises(ValueError, match="the steps diverge"):
        KernelLMS(RBF(), 3.0 / largest, epochs=10, tol=None).fit(X, Y)


def test_it_says_whether_it_converged():
    with pytest.warns(ConvergenceWarning, match="after 5 epochs the residual is .* of"):
        ours = KernelLMS(RBF(), epochs=5).fit(X, Y)
    assert not ours.converged_
    assert ours.n_iter_ == 5
    ours = KernelLMS(RBF(), tol=1e-3).fit(X, Y)
    assert ours.converged_
    assert ours.residual_norms_[-1] <= 1e-3 * np.linalg.norm(Y) < ours.residual_norms_[-2]
    assert len(ours.residual_norms_) == ours.n_iter_ + 1


def test_several_targets_are_fitted_side_by_side():
    both = np.stack([Y, Y**2], axis=1)
    ours = KernelLMS(RBF(), tol=1e-11).fit(X, both)
    assert ours.dual_coef_.shape == (60, 2)
    for k in range(2):
        alone = KernelLMS(RBF(), tol=1e-11).fit(X, both[:, k])
        np.testing.assert_allclose(ours.predict(NEW)[:, k], alone.predict(NEW), atol=1e-9)


@pytest.mark.parametrize("batch", [None, 300])
def test_large_data_are_taken_in_blocks(batch, monkeypatch):
    points = RNG.normal(size=(600, 2))
    y = points[:, 0] + RNG.normal(size=600)
    kernel = RBF() * Linear() + White(0.5) * Linear() + White(0.1)

    def fitted():
        return KernelLMS(kernel, batch=batch, epochs=5, tol=None).fit(points, y)

    whole, shapes = fitted(), []
    held = gram_matrix._gram

    def watched(kernel, X, Z=None):
        K = held(kernel, X, Z)
        shapes.append(K.shape)
        return K

    monkeypatch.setattr(gram_matrix, "BLOCK_ENTRIES", 1)
    monkeypatch.setattr(lms, "MAX_ENTRIES", 1)
    monkeypatch.setattr(gram_matrix, "_gram", watched)
    parts = fitted()
    # No block is larger than 256 rows.
    assert max(shapes) == (256, 600)
    np.testing.assert_allclose(parts.step_, whole.step_, rtol=1e-12)
    np.testing.assert_allclose(parts.dual_coef_, whole.dual_coef_, atol=1e-11)
    np.testing.assert_allclose(parts.predict(NEW), whole.predict(NEW), atol=1e-11)


def test_it_follows_its_seed():
    def fitted(seed):
        return KernelLMS(RBF(), batch=4, epochs=3, tol=None, seed=seed).fit(X, Y).dual_coef_

    assert np.array_equal(fitted(1), fitted(1))
    assert not np.array_equal(fitted(1), fitted(2))


@parametrize_with_checks([KernelLMS()])
def test_it_is_an_estimator_as_scikit_learn_wants_it(estimator, check):
    check(estimator)


@pytest.mark.slow
@parametrize_with_checks([KernelLMS(batch=8, alpha=0.1)])
def test_with_other_options_it_is_an_estimator_too(estimator, check):
    check(estimator)


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_a_kernel_finds_its_columns_in_a_data_frame(frame):
    table = frame({"age": X[:, 0], "mass": X[:, 1]})
    by_name = KernelLMS(RBF().on(["mass"]) + Linear().on(["age"])).fit(table, Y)
    by_index = KernelLMS(RBF().on([1]) + Linear().on([0])).fit(X, Y)
    again = pickle.loads(pickle.dumps(by_name))
    assert np.array_equal(again.predict(table), by_index.predict(X))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"step": 0.0}, "step must be a positive number, got 0.0"),
        ({"step": "auto"}, "step must be a positive number, got 'auto'"),
        ({"alpha": -1.0}, "alpha must be a nonnegative number, got -1.0"),
        ({"batch": 0}, "batch must be a whole number of at least 1, got 0"),
        ({"epochs": 2.5}, "epochs must be a whole number of at least 1, got 2.5"),
        ({"tol": 0.0}, "tol must be a positive number, got 0.0"),
        ({"seed": None}, "seed must be a whole number"),
        ({"kernel": Multiquadric()}, "is not positive definite"),
    ],
)
def test_bad_arguments_are_refused_by_name(options, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        KernelLMS(**options).fit(X, Y)
