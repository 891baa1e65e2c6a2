"""Ridge regression on Nystrom and Fourier features against dense solutions and refits."""

import tracemalloc

import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats
from scipy.linalg import LinAlgWarning
from sklearn.base import clone
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import Ridge

from bayeskern.kernels import (
    RBF,
    Linear,
    Matern12,
    Matern32,
    Polynomial,
    RandomFourierFeatures,
    RationalQuadratic,
    gram_matrix,
    kernel_from_features,
)
from bayeskern.ridge import FourierRidge, KernelRidge, NystromRidge
from tests.marks import slow
from tests.ridge.kernel_ridge_data import NEW, N, W, X, Y, refits, y

# The grids are short, and an end of one may be its best alpha.
pytestmark = pytest.mark.filterwarnings("ignore:the chosen alpha")
RNG = np.random.default_rng(8)
LANDMARKS = RNG.normal(size=(8, 2))


# -- the solution ---------------------------------------------------------------------------------


@pytest.mark.parametrize("weights", [None, W], ids=["", "weights"])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("kernel", [Matern32(), Polynomial(degree=2)], ids=repr)
def test_all_points_as_landmarks_give_kernel_ridge(kernel, intercept, weights):
    whole = KernelRidge(kernel, 0.3, fit_intercept=intercept).fit(X, Y, sample_weight=weights)
    for landmarks, selection in ((X, "kmeans"), (N, "random"), (None, "greedy")):
        ours = NystromRidge(kernel, landmarks, selection, alpha=0.3, fit_intercept=intercept)
        ours.fit(X, Y, sample_weight=weights)
        np.testing.assert_allclose(ours.predict(NEW), whole.predict(NEW), rtol=1e-7)
    loo = ours.loo_predict(X, Y, sample_weight=weights)
    np.testing.assert_allclose(loo, whole.loo_predict(), rtol=1e-7)


def test_nystrom_ridge_agrees_with_scikit_learn():
    features = Nystroem(gamma=0.5, n_components=10, random_state=0).fit(X)
    theirs = Ridge(0.2, fit_intercept=False).fit(features.transform(X), Y, sample_weight=W)
    ours = NystromRidge(RBF(), features.components_, alpha=0.2).fit(X, Y, sample_weight=W)
    expected = theirs.predict(features.transform(NEW))
    np.testing.assert_allclose(ours.predict(NEW), expected, rtol=1e-8)


def test_fourier_ridge_is_ridge_on_fourier_features():
    ours = FourierRidge(Matern32(), 30, True, alpha=0.2, fit_intercept=True, seed=3)
    features = RandomFourierFeatures(Matern32(), 30, True, seed=3).fit(X)
    theirs = Ridge(0.2).fit(features.transform(X), Y + 100.0, sample_weight=W)
    expected = theirs.predict(features.transform(NEW))
    predictions = ours.fit(X, Y + 100.0, sample_weight=W).predict(NEW)
    np.testing.assert_allclose(predictions, expected, rtol=1e-9)


@pytest.mark.slow
def test_fourier_error_is_of_order_one_over_root_m():
    kernel = RBF(1.5) + RationalQuadratic() * Matern12(2.0)
    whole = KernelRidge(kernel, 1.0).fit(X, y).predict(NEW)

    def error(m):
        predictions = [
            FourierRidge(kernel, m, alpha=1.0, seed=s).fit(X, y).predict(NEW) for s in range(12)
        ]
        return np.sqrt(np.mean((np.array(predictions) - whole) ** 2))

    # A power of -0.5, within what 12 draws tell.
    slope = np.log(error(32) / error(512)) / np.log(512 / 32)
    assert 0.35 < slope < 0.65


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("make", [FourierRidge, NystromRidge])
def test_partial_fit_agrees_with_fit(make, intercept):
    options = {"n_components": 12} if make is FourierRidge else {"landmarks": LANDMARKS}
    for alpha in (0.2, "evidence"):
        ours = make(RBF(), alpha=alpha, fit_intercept=intercept, **options)
        chunks = clone(ours)
        for rows in (slice(0, 1), slice(1, 9), slice(9, N)):
            chunks.partial_fit(X[rows], Y[rows] + 50.0, sample_weight=W[rows])
        ours.fit(X, Y + 50.0, sample_weight=W)
        np.testing.assert_allclose(chunks.predict(NEW), ours.predict(NEW), rtol=1e-9)


def test_landmarks_come_from_the_first_chunk():
    ours = NystromRidge(RBF(), 5, "random").partial_fit(X[:10], y[:10]).partial_fit(X[10:], y[10:])
    assert all(any(np.array_equal(z, x) for x in X[:10]) for z in ours.landmarks_)
    # A new fit forgets.
    fresh = NystromRidge(RBF(), 5, "random").fit(X, y)
    np.testing.assert_array_equal(ours.fit(X, y).predict(NEW), fresh.predict(NEW))


def test_large_offset_keeps_precision():
    ours = NystromRidge(RBF(30.0), LANDMARKS, alpha=1e-3, fit_intercept=True)
    near, far = clone(ours).fit(X, y), clone(ours).fit(X, y + 1e6)
    np.testing.assert_allclose(far.predict(NEW) - 1e6, near.predict(NEW), atol=1e-8)


def test_memory_is_bounded_by_a_block(monkeypatch):
    many = RNG.normal(size=(20_000, 2))
    monkeypatch.setattr(gram_matrix, "BLOCK_ENTRIES", 20_000)
    model = NystromRidge(RBF(), 50, "random")
    model.fit(many[:1000], many[:1000, 0])
    tracemalloc.start()
    model.fit(many, many[:, 0]).predict(many)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # All features would take 8 MB.
    assert peak < 4e6


# -- leave-one-out and the path -------------------------------------------------------------------


@pytest.mark.parametrize("weights", [slow(None), W], ids=["", "weights"])
@pytest.mark.parametrize("intercept", [slow(False), True])
@pytest.mark.parametrize("make", [FourierRidge, NystromRidge])
def test_leave_one_out_agrees_with_refits(make, intercept, weights):
    options = {"n_components": 10} if make is FourierRidge else {"landmarks": LANDMARKS}
    ours = make(RBF(), alpha=[0.3, 0.05], fit_intercept=intercept, **options)
    w = np.ones(N) if weights is None else weights
    expected = refits(ours, X, Y, weights)
    ours.fit(X, Y, sample_weight=weights)
    predictions = ours.loo_predict(X, Y, sample_weight=weights)
    np.testing.assert_allclose(predictions, expected, atol=1e-8)
    # Any part of the rows may be asked for.
    part = ours.loo_predict(X[3:9], Y[3:9], sample_weight=w[3:9])
    np.testing.assert_allclose(part, predictions[3:9], atol=1e-12)
    single = clone(ours).set_params(alpha=0.3).fit(X, y, sample_weight=weights)
    predictions = single.loo_predict(X, y, sample_weight=weights)
    np.testing.assert_allclose(predictions, expected[:, 0], atol=1e-8)


@pytest.mark.parametrize("weights", [None, W], ids=["", "weights"])
@pytest.mark.parametrize("intercept", [False, True])
def test_path_agrees_with_separate_fits(intercept, weights):
    alphas = [0.003, 0.1, 2.0]
    ours = NystromRidge(RBF(), LANDMARKS, alpha="loo", alphas=alphas, fit_intercept=intercept)
    ours.fit(X, Y, sample_weight=weights)
    w = np.ones(N) if weights is None else weights
    phi = ours.features_.transform(X)
    design = np.column_stack([phi, np.ones(N)]) if intercept else phi
    for a, alpha in enumerate(alphas):
        fitted = clone(ours).set_params(alpha=alpha, alphas=None).fit(X, Y, sample_weight=weights)
        loo = fitted.loo_predict(X, Y, sample_weight=weights)
        loo = np.average((Y - loo) ** 2, axis=0, weights=w)
        np.testing.assert_allclose(ours.loo_path_[a], loo, rtol=1e-8)
        penalty = alpha * np.eye(design.shape[1])
        penalty[8:] = 0.0
        hat = design @ np.linalg.solve(design.T @ (w[:, None] * design) + penalty, design.T * w)
        missed = np.average((Y - hat @ Y) ** 2, axis=0, weights=w)
        gcv = missed / (1.0 - np.trace(hat) / N) ** 2
        np.testing.assert_allclose(ours.gcv_path_[a], gcv, rtol=1e-8)
        if not intercept:
            covariance = phi @ phi.T + np.diag(alpha / w)
            evidence = stats.multivariate_normal(np.zeros(N), covariance).logpdf(Y.T)
            np.testing.assert_allclose(ours.evidence_path_[a], evidence, rtol=1e-8)
    assert ours.alpha_ == alphas[np.argmin(ours.loo_path_.sum(axis=1))]


@pytest.mark.parametrize("criterion", ["loo", "gcv", "evidence"])
def test_path_with_all_landmarks_agrees_with_kernel_ridge(criterion):
    alphas = np.geomspace(1e-2, 10.0, 7)
    options = {"alpha": criterion, "alphas": alphas, "fit_intercept": True}
    ours = NystromRidge(Matern12(), X, alpha_per_target=True, **options)
    ours.fit(X, Y, sample_weight=W)
    whole = KernelRidge(Matern12(), alpha_per_target=True, **options)
    whole.fit(X, Y, sample_weight=W)
    np.testing.assert_array_equal(ours.alpha_, whole.alpha_)
    assert ours.alpha_.shape == (2,)
    path = f"{criterion}_path_"
    np.testing.assert_allclose(getattr(ours, path), getattr(whole, path), rtol=1e-7)


def test_gcv_with_fewer_points_than_features():
    few, values = X[:20], y[:20]
    alphas = np.geomspace(1e-6, 10.0, 20)
    ours = FourierRidge(RBF(), 60, alpha="gcv", alphas=alphas).fit(few, values)
    features = kernel_from_features(_row_of(ours.features_))
    whole = KernelRidge(features, "gcv", alphas=alphas).fit(few, values)
    with_0 = clone(ours).set_params(alphas=[0.0, 1e-13]).fit(few, values)
    np.testing.assert_allclose(ours.gcv_path_, whole.gcv_path_, rtol=1e-3)
    # Both residuals and degrees of freedom are 0 there, but not their ratio.
    np.testing.assert_allclose(with_0.gcv_path_[0], with_0.gcv_path_[1], rtol=1e-3)


def _row_of(features):
    w, a = features.frequencies_, features.amplitudes_
    return lambda x: jnp.concatenate([a * jnp.cos(w @ x), a * jnp.sin(w @ x)])


def test_refused_chunks_are_not_added():
    ours = NystromRidge(RBF(), LANDMARKS).partial_fit(X[:20], y[:20])
    with pytest.raises(ValueError, match="alpha must be a finite penalty"):
        ours.set_params(alpha=-1.0).partial_fit(X[20:], y[20:])
    ours.set_params(alpha=1.0).partial_fit(X[20:], y[20:])
    whole = NystromRidge(RBF(), LANDMARKS).fit(X, y)
    np.testing.assert_allclose(ours.predict(NEW), whole.predict(NEW), rtol=1e-10)


def test_leave_one_out_warns_of_leverage_near_one():
    Z = np.linspace(0.0, 1.0, 6)[:, None]
    ours = NystromRidge(RBF(0.1), Z, alpha=0.0).fit(Z, Z[:, 0])
    with pytest.warns(LinAlgWarning, match="a leverage is within"):
        predictions = ours.loo_predict(Z, Z[:, 0])
    assert not np.any(np.isinf(predictions))


# -- landmarks ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("selection", "factor"), [("kmeans", 0.5), ("leverage", 0.8), ("greedy", 0.5)]
)
def test_chosen_landmarks_beat_random_ones(selection, factor):
    # Nine points in ten lie together, and say little about the tenth.
    rng = np.random.default_rng(2)
    points = np.concatenate([0.1 * rng.normal(size=(450, 2)), 3.0 * rng.normal(size=(50, 2))])
    values = np.sin(points[:, 0]) + np.cos(points[:, 1])

    def error(selection):
        models = [NystromRidge(RBF(), 30, selection, alpha=1e-4, seed=s) for s in range(5)]
        missed = [model.fit(points, values).predict(points) - values for model in models]
        return np.sqrt(np.mean(np.square(missed)))

    assert error(selection) < factor * error("random")


def test_greedy_landmarks_are_cholesky_pivots():
    landmarks = NystromRidge(RBF(), 7, "greedy").fit(X, y).landmarks_
    left, pivots = np.array(RBF()(X)), []
    for _ in range(7):
        i = int(np.argmax(np.diagonal(left)))
        pivots.append(i)
        left = left - np.outer(left[:, i], left[i]) / left[i, i]
    np.testing.assert_array_equal(landmarks, X[pivots])


def test_greedy_stops_at_the_rank():
    assert len(NystromRidge(Linear(), 10, "greedy").fit(X, y).landmarks_) == 2


# -- bad input -------------------------------------------------------------------------------------


def test_inconsistent_chunks_are_refused():
    with pytest.raises(ValueError, match='alpha="loo" goes over the rows twice'):
        NystromRidge(alpha="loo").partial_fit(X, y)
    ours = NystromRidge(landmarks=LANDMARKS).partial_fit(X, y)
    for call in (ours.partial_fit, ours.loo_predict):
        with pytest.raises(ValueError, match="y has 2 columns"):
            call(X, Y)
