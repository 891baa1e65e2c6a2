"""Least mean squares with a kernel against closed forms, scikit-learn and the theory of descent."""

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.kernel_ridge import KernelRidge

from bayeskern.course import lms
from bayeskern.course.lms import KernelLMS
from bayeskern.kernels import RBF, Constant, Linear, Matern12, White, gram_matrix
from tests.marks import few

RNG = np.random.default_rng(19)
X = RNG.normal(size=(60, 2))
Y = np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] + 0.2 * RNG.normal(size=60)
NEW = RNG.normal(size=(20, 2))
KERNELS = {
    "RBF": RBF(0.8),
    "composite": Matern12() * RBF(2.0) + 0.3 * Linear() + Constant(),
    "white": RBF() + White(0.5),
}
batches = pytest.mark.parametrize("batch", few([None, 1, 7, 60], None, 7))


@batches
@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
def test_penalised_descent_converges_to_kernel_ridge(kernel, batch):
    K, alpha = np.asarray(kernel(X)), 0.5
    theirs = KernelRidge(alpha=alpha, kernel="precomputed").fit(K, Y)
    ours = KernelLMS(kernel, batch=batch, alpha=alpha, tol=1e-11).fit(X, Y)
    assert ours.converged_
    # The error of b is at most that of the residual over the smallest eigenvalue.
    bound = 1e-11 * np.linalg.norm(Y) / alpha
    assert np.linalg.norm(ours.dual_coef_ - theirs.dual_coef_) <= bound
    expected = theirs.predict(np.asarray(kernel(NEW, X)))
    np.testing.assert_allclose(ours.predict(NEW), expected, atol=1e-9)


@pytest.mark.parametrize("batch", [None, 7])
def test_unpenalised_descent_interpolates(batch):
    ours = KernelLMS(Matern12(), batch=batch, alpha=0.0, tol=1e-9, epochs=20_000).fit(X, Y)
    assert ours.converged_
    np.testing.assert_allclose(ours.predict(X), Y, atol=1e-8)
    expected = np.linalg.solve(np.asarray(Matern12()(X)), Y)
    np.testing.assert_allclose(
        ours.predict(NEW), np.asarray(Matern12()(NEW, X)) @ expected, atol=1e-6
    )


@pytest.mark.parametrize("alpha", [0.0, 0.3])
def test_early_stopping_has_a_closed_form(alpha):
    step, epochs = 0.02, 30
    ours = KernelLMS(RBF(), step, alpha=alpha, epochs=epochs, tol=None).fit(X, Y)
    # b_t = [1 - (1 - step A)^t] A^-1 y, along each eigenvector of A = K + alpha.
    values, U = np.linalg.eigh(np.asarray(RBF()(X)) + alpha * np.eye(60))
    shrunk = -np.expm1(epochs * np.log1p(-step * values)) / values
    np.testing.assert_allclose(ours.dual_coef_, U @ (shrunk * (U.T @ Y)), atol=1e-11)
    left = [np.linalg.norm((1 - step * values) ** t * (U.T @ Y)) for t in range(epochs + 1)]
    np.testing.assert_allclose(ours.residual_norms_, left, rtol=1e-11)
    assert (ours.n_iter_, ours.converged_, ours.step_) == (30, False, 0.02)


def test_batches_of_one_follow_the_online_rule():
    ours = KernelLMS(RBF(), 0.3, 1, alpha=0.0, epochs=2, tol=None, seed=5).fit(X, Y)
    K, b, order = np.asarray(RBF()(X)), np.zeros(60), np.random.default_rng(5)
    for _ in range(2):
        for i in order.permutation(60):
            b[i] += 0.3 * (Y[i] - K[i] @ b)
    np.testing.assert_allclose(ours.dual_coef_, b, atol=1e-12)


@batches
def test_default_step_is_below_the_largest_eigenvalue(batch):
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


def test_divergent_steps_raise():
    largest = np.linalg.eigvalsh(np.asarray(RBF()(X)))[-1] + 1.0
    short, long = 1.95 / largest, 2.05 / largest
    assert KernelLMS(RBF(), short).fit(X, Y).converged_
    with pytest.raises(ValueError, match="diverge with step=.* Use a shorter"):
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


def test_convergence_is_reported():
    with pytest.warns(ConvergenceWarning, match="after 5 epochs the residual is .* of"):
        ours = KernelLMS(RBF(), epochs=5).fit(X, Y)
    assert not ours.converged_
    assert ours.n_iter_ == 5
    ours = KernelLMS(RBF(), tol=1e-3).fit(X, Y)
    assert ours.converged_
    assert ours.residual_norms_[-1] <= 1e-3 * np.linalg.norm(Y) < ours.residual_norms_[-2]
    assert len(ours.residual_norms_) == ours.n_iter_ + 1


def test_several_targets():
    both = np.stack([Y, Y**2], axis=1)
    ours = KernelLMS(RBF(), tol=1e-11).fit(X, both)
    assert ours.dual_coef_.shape == (60, 2)
    for k in range(2):
        alone = KernelLMS(RBF(), tol=1e-11).fit(X, both[:, k])
        np.testing.assert_allclose(ours.predict(NEW)[:, k], alone.predict(NEW), atol=1e-9)


@pytest.mark.parametrize("batch", [None, 300])
def test_large_gram_matrices_are_computed_in_blocks(batch, monkeypatch):
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
