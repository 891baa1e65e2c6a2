"""Least mean squares with a kernel against closed forms, scikit-learn and the theory of descent."""

import numpy as np
import pytest
from scipy.special import expit, softmax
from sklearn.exceptions import ConvergenceWarning
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LogisticRegression

from bayeskern.course import lms
from bayeskern.course.kernel_machine import KernelMachineClassifier, KernelMachineRegressor
from bayeskern.course.lms import KernelLMS, KernelLMSClassifier
from bayeskern.course.losses import Huber
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


# -- other losses ---------------------------------------------------------------------------------

TWO = np.where(Y > 0.0, "yes", "no")
LABELS = np.array(["low", "middle", "top"])[np.digitize(Y, [-0.4, 0.5])]
targets = pytest.mark.parametrize("target", [TWO, LABELS], ids=["two", "three"])


@pytest.mark.parametrize("batch", [None, 7])
def test_huber_descent_converges_to_the_kernel_machine(batch):
    loss, alpha = Huber(0.2), 0.3
    ours = KernelLMS(RBF(0.8), loss=loss, batch=batch, alpha=alpha, tol=1e-10).fit(X, Y)
    theirs = KernelMachineRegressor(RBF(0.8), loss, alpha).fit(X, Y)
    assert ours.converged_
    np.testing.assert_allclose(ours.dual_coef_, theirs.dual_coef_, atol=1e-7)
    # Several targets are fitted one by one.
    both = KernelLMS(RBF(0.8), loss=loss, alpha=alpha, tol=1e-10).fit(X, np.stack([Y, -Y], 1))
    np.testing.assert_allclose(both.dual_coef_ @ [[1.0], [1.0]], 0.0, atol=1e-7)


def test_unpenalised_descent_minimises_huber_loss_in_the_weights():
    # Gradient descent on w in plain NumPy, step by step, and its limit.
    loss, step, w = Huber(0.3), 0.01, np.zeros(2)
    for t in range(1, 31):
        w = w - step * X.T @ np.clip(X @ w - Y, -0.3, 0.3)
        if t in (1, 7, 30):
            ours = KernelLMS(Linear(), step, loss=loss, alpha=0.0, epochs=t, tol=None).fit(X, Y)
            np.testing.assert_allclose(X.T @ ours.dual_coef_, w, rtol=1e-12)
    limit = KernelLMS(Linear(), loss=loss, alpha=0.0, epochs=2_000, tol=None).fit(X, Y)
    direct = KernelMachineRegressor(Linear(), loss, 0.0).fit(X, Y)
    np.testing.assert_allclose(X.T @ limit.dual_coef_, X.T @ direct.dual_coef_, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("loss", "slope"),
    [
        ("absolute", lambda r: np.sign(r)),
        ("epsilon_insensitive", lambda r: np.sign(r) * (np.abs(r) > 0.1)),
    ],
)
def test_subgradient_steps_follow_the_formula_and_end_near_the_minimum(loss, slope):
    step, alpha, b, K = 0.001, 1.0, np.zeros(60), np.asarray(RBF()(X))
    for _ in range(8000):
        b = b - step * (slope(K @ b - Y) + alpha * b)
    ours = KernelLMS(RBF(), step, loss=loss, alpha=alpha, epochs=8000, tol=None).fit(X, Y)
    np.testing.assert_allclose(ours.dual_coef_, b, atol=1e-9)
    machine = KernelMachineRegressor(RBF(), loss, alpha).fit(X, Y)
    excess = np.abs(K @ b - Y).clip(0.1 * (loss != "absolute")) - 0.1 * (loss != "absolute")
    objective = np.sum(excess) + 0.5 * alpha * b @ K @ b
    # Boyd, Xiao and Mutapcic (2003): the best objective is within step |subgradient|^2 / 2.
    bound = 0.5 * step * 60 * np.linalg.eigvalsh(K)[-1]
    assert machine.objective_ <= objective < machine.objective_ + bound
    assert bound < 0.1 * machine.objective_


@targets
@pytest.mark.parametrize("alpha", [0.0, 0.3])
def test_gradient_ascent_of_the_log_likelihood_step_by_step(target, alpha):
    classes = np.unique(target)
    indicators = (target[:, None] == classes).astype(float)
    y = indicators[:, 1:] if len(classes) == 2 else indicators
    w, step = np.zeros((2, y.shape[1])), 0.05
    for t in range(1, 26):
        p = expit(X @ w) if len(classes) == 2 else softmax(X @ w, axis=1)
        w = w + step * (X.T @ (y - p) - alpha * w)
        if t in (1, 2, 9, 25):
            ours = KernelLMSClassifier(Linear(), step, alpha=alpha, epochs=t, tol=None)
            ours.fit(X, target)
            weights = X.T @ ours.dual_coef_.reshape(60, -1)
            np.testing.assert_allclose(weights, w, rtol=1e-11, atol=1e-13)
            gradient = y - (expit(X @ w) if len(classes) == 2 else softmax(X @ w, axis=1))
            gradient = gradient - alpha * ours.dual_coef_.reshape(60, -1)
            assert ours.residual_norms_[-1] == pytest.approx(np.linalg.norm(gradient), rel=1e-10)


@targets
def test_gradient_ascent_converges_to_logistic_regression(target):
    for alpha, C in ((0.0, np.inf), (2.0, 0.5)):
        theirs = LogisticRegression(C=C, fit_intercept=False, tol=1e-12, max_iter=10_000)
        expected = theirs.fit(X, target).predict_proba(NEW)
        ours = KernelLMSClassifier(Linear(), alpha=alpha, epochs=1_500, tol=None).fit(X, target)
        np.testing.assert_allclose(ours.predict_proba(NEW), expected, atol=1e-6)
        assert np.array_equal(ours.predict(NEW), theirs.predict(NEW))


@targets
@pytest.mark.parametrize("batch", [None, 7])
def test_kernel_form_converges_to_kernel_logistic_regression(target, batch):
    ours = KernelLMSClassifier(RBF(0.8), batch=batch, alpha=0.2, tol=1e-9).fit(X, target)
    theirs = KernelMachineClassifier(RBF(0.8), "logistic", 0.2).fit(X, target)
    assert ours.converged_
    np.testing.assert_allclose(ours.dual_coef_, theirs.dual_coef_, atol=1e-6)


@pytest.mark.slow
def test_hinge_steps_end_near_the_support_vector_machine():
    step, alpha, b, K = 0.001, 1.0, np.zeros(60), np.asarray(RBF()(X))
    y = np.where(TWO == "yes", 1.0, -1.0)
    for _ in range(8000):
        b = b + step * (y * (y * (K @ b) < 1.0) - alpha * b)
    ours = KernelLMSClassifier(RBF(), step, loss="hinge", alpha=alpha, epochs=8000, tol=None)
    np.testing.assert_allclose(ours.fit(X, TWO).dual_coef_, b, atol=1e-9)
    machine = KernelMachineClassifier(RBF(), "hinge", alpha).fit(X, TWO)
    objective = np.sum(np.maximum(1.0 - y * (K @ b), 0.0)) + 0.5 * alpha * b @ K @ b
    # Boyd, Xiao and Mutapcic (2003): the best objective is within step |subgradient|^2 / 2.
    bound = 0.5 * step * 60 * np.linalg.eigvalsh(K)[-1]
    assert machine.objective_ <= objective < machine.objective_ + bound
    assert bound < 0.1 * machine.objective_
    assert not hasattr(ours, "predict_proba")


def test_kinks_need_a_step_and_long_steps_are_refused():
    for machine in (KernelLMS(loss="absolute"), KernelLMSClassifier(loss="hinge")):
        target = Y if isinstance(machine, KernelLMS) else TWO
        with pytest.raises(ValueError, match="kinks has no step that always converges: give step="):
            machine.fit(X, target)
        with pytest.raises(ValueError, match=r"diverge with step=100. Use a shorter step\.$"):
            machine.set_params(step=100.0).fit(X, target)
    for machine in (KernelLMS(loss="huber"), KernelLMSClassifier()):
        target = Y if isinstance(machine, KernelLMS) else TWO
        with pytest.raises(ValueError, match="Use a shorter step, or step=None"):
            machine.set_params(step=100.0).fit(X, target)
