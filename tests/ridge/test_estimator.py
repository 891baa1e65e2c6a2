"""Attributes, refits and warnings of kernel ridge regression."""

import numpy as np
import pytest

from bayeskern.kernels import RBF, Linear, Matern12, White, gram_matrix
from bayeskern.ridge.kernel_ridge import KernelRidge
from tests.ridge.kernel_ridge_data import NEW, RNG, N, X, Y, y

# -- attributes and refits -------------------------------------------------------------------------


def test_refit_deletes_the_earlier_path():
    ours = KernelRidge(RBF(), "loo").fit(X, y)
    ours.set_params(alpha=0.1).fit(X, y)
    assert not hasattr(ours, "loo_path_")
    assert not hasattr(ours, "alphas_")


def test_default_alphas_scale_with_the_weights():
    light = KernelRidge(RBF(), "loo").fit(X, y)
    heavy = KernelRidge(RBF(), "loo").fit(X, y, sample_weight=np.full(N, 1e6))
    assert heavy.alpha_ == pytest.approx(1e6 * light.alpha_)
    np.testing.assert_allclose(heavy.predict(NEW), light.predict(NEW), rtol=1e-9)


def test_default_alphas_ignore_the_constant():
    line = 3.0 + X @ [1.0, 2.0] + 3.0 * RNG.normal(size=N)
    near = KernelRidge(Linear(), "loo", fit_intercept=True).fit(X, line)
    far = KernelRidge(Linear(), "loo", fit_intercept=True).fit(X + 100.0, line)
    np.testing.assert_allclose(far.alphas_, near.alphas_, rtol=1e-6)
    np.testing.assert_allclose(far.predict(NEW + 100.0), near.predict(NEW), rtol=1e-5)


def test_overflowing_kernels_are_refused():
    for estimator in (KernelRidge(Linear().exp()), KernelRidge(Linear().exp(), "loo")):
        with pytest.raises(ValueError, match="is NaN or infinite at some"):
            estimator.fit(100.0 * X, y)


def test_set_params_after_fit_needs_a_refit():
    ours = KernelRidge(RBF(), 0.1, fit_intercept=True).fit(X, y)
    _, sd = ours.predict(NEW, return_std=True)
    ours.set_params(fit_intercept=False)
    np.testing.assert_array_equal(ours.predict(NEW, return_std=True)[1], sd)
    mean = ours.predict(NEW)
    with pytest.raises(TypeError):
        ours.set_params(kernel="rbf").fit(X + 1.0, y)
    np.testing.assert_array_equal(ours.predict(NEW), mean)


def test_training_points_are_copied():
    points = X.copy()
    ours = KernelRidge(RBF(), 0.1).fit(points, y)
    mean = ours.predict(NEW)
    points[:] = 0.0
    np.testing.assert_array_equal(ours.predict(NEW), mean)


def test_numbers_of_rows_share_compilations():
    ours = KernelRidge(RBF(), 0.1).fit(X, y)
    before = gram_matrix._gram_times._cached._cache_size()
    for rows in range(64, 128):
        ours.predict(np.zeros((rows, 2)))
    assert gram_matrix._gram_times._cached._cache_size() - before <= 5


def test_predictions_do_not_depend_on_blocks(monkeypatch):
    many = RNG.normal(size=(600, 2))
    ours = KernelRidge(RBF(), 0.1, fit_intercept=True).fit(X, Y)
    mean, sd = ours.predict(many, return_std=True)
    monkeypatch.setattr(gram_matrix, "BLOCK_ENTRIES", 1)
    again, sd_again = ours.predict(many, return_std=True)
    np.testing.assert_allclose(again, mean, rtol=1e-12)
    np.testing.assert_allclose(sd_again, sd, rtol=1e-12)


# -- bad input -------------------------------------------------------------------------------------


def test_interpolation_refuses_coincident_points():
    twice = np.vstack([X, X[3] + [0.0, 1.0]])
    with pytest.raises(ValueError, match=f"rows 3 and {N} of X coincide"):
        KernelRidge(RBF().on([0]), 0.0).fit(twice, np.append(y, 1.0))
    weights = np.append(np.ones(N), 0.0)
    KernelRidge(Matern12().on([0]), 0.0).fit(twice, np.append(y, 1.0), sample_weight=weights)
    # White noise tells the points apart.
    KernelRidge(RBF().on([0]) + White(), 0.0).fit(twice, np.append(y, 1.0))
