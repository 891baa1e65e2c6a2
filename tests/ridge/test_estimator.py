"""Kernel ridge regression as an estimator of scikit-learn, and the bad input it refuses."""

import pickle
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpyro import distributions as dist
from scipy.linalg import LinAlgWarning
from sklearn.base import clone
from sklearn.ensemble import BaggingRegressor
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.utils.estimator_checks import parametrize_with_checks

from bayeskern.kernels import RBF, Free, Linear, Matern12, Multiquadric, White, gram_matrix
from bayeskern.ridge.kernel_ridge import KernelRidge
from tests.ridge.kernel_ridge_data import NEW, RNG, N, W, X, Y, y

# -- as scikit-learn has it ------------------------------------------------------------------------


@parametrize_with_checks([KernelRidge()])
def test_it_is_an_estimator_as_scikit_learn_wants_it(estimator, check):
    check_without_linalg_warnings(estimator, check)


@pytest.mark.slow
@parametrize_with_checks(
    [KernelRidge(alpha="loo", fit_intercept=True), KernelRidge(Multiquadric())],
    expected_failed_checks=lambda estimator: (
        {
            "check_sample_weight_equivalence_on_dense_data": (
                "leaving one of two equal rows out is not leaving out a row of weight two"
            )
        }
        if estimator.alpha == "loo"
        else {}
    ),
)
def test_with_other_options_it_is_an_estimator_too(estimator, check):
    check_without_linalg_warnings(estimator, check)


def check_without_linalg_warnings(estimator, check):
    with warnings.catch_warnings():
        # Some checks give data on which K + alpha is singular.
        warnings.simplefilter("ignore", LinAlgWarning)
        check(estimator)


def test_a_grid_search_picks_among_kernels():
    kernels = [RBF(0.01), RBF(1.0), Linear()]
    search = GridSearchCV(KernelRidge(alpha="loo"), {"kernel": kernels}, cv=KFold(5)).fit(X, y)
    assert search.best_params_["kernel"] is kernels[1]


def test_bagging_gives_bootstrap_intervals():
    bags = BaggingRegressor(KernelRidge(RBF(), 0.1), n_estimators=20, random_state=0).fit(X, y)
    predictions = np.array([bag.predict(NEW) for bag in bags.estimators_])
    np.testing.assert_allclose(predictions.mean(axis=0), bags.predict(NEW))
    assert np.all(predictions.std(axis=0) > 0.0)


def test_a_new_fit_forgets_the_path_of_the_one_before():
    ours = KernelRidge(RBF(), "loo").fit(X, y)
    ours.set_params(alpha=0.1).fit(X, y)
    assert not hasattr(ours, "loo_path_")
    assert not hasattr(ours, "alphas_")


def test_alpha_chosen_from_the_defaults_goes_with_the_scale_of_the_weights():
    light = KernelRidge(RBF(), "loo").fit(X, y)
    heavy = KernelRidge(RBF(), "loo").fit(X, y, sample_weight=np.full(N, 1e6))
    assert heavy.alpha_ == pytest.approx(1e6 * light.alpha_)
    np.testing.assert_allclose(heavy.predict(NEW), light.predict(NEW), rtol=1e-9)


def test_the_default_alphas_do_not_see_what_the_constant_takes_up():
    line = 3.0 + X @ [1.0, 2.0] + 3.0 * RNG.normal(size=N)
    near = KernelRidge(Linear(), "loo", fit_intercept=True).fit(X, line)
    far = KernelRidge(Linear(), "loo", fit_intercept=True).fit(X + 100.0, line)
    np.testing.assert_allclose(far.alphas_, near.alphas_, rtol=1e-6)
    np.testing.assert_allclose(far.predict(NEW + 100.0), near.predict(NEW), rtol=1e-5)


def test_an_alpha_at_the_end_of_the_path_is_said():
    with pytest.warns(UserWarning, match="at an end of alphas, which run from 10 to 100"):
        KernelRidge(RBF(), "loo", alphas=[10.0, 30.0, 100.0]).fit(X, y)


def test_a_kernel_that_overflows_is_refused():
    for estimator in (KernelRidge(Linear().exp()), KernelRidge(Linear().exp(), "loo")):
        with pytest.raises(ValueError, match="is NaN or infinite at some of these points"):
            estimator.fit(100.0 * X, y)


def test_what_is_set_after_a_fit_waits_for_the_next():
    ours = KernelRidge(RBF(), 0.1, fit_intercept=True).fit(X, y)
    _, sd = ours.predict(NEW, return_std=True)
    ours.set_params(fit_intercept=False)
    np.testing.assert_array_equal(ours.predict(NEW, return_std=True)[1], sd)
    mean = ours.predict(NEW)
    with pytest.raises(TypeError):
        ours.set_params(kernel="rbf").fit(X + 1.0, y)
    np.testing.assert_array_equal(ours.predict(NEW), mean)


def test_the_points_are_its_own():
    points = X.copy()
    ours = KernelRidge(RBF(), 0.1).fit(points, y)
    mean = ours.predict(NEW)
    points[:] = 0.0
    np.testing.assert_array_equal(ours.predict(NEW), mean)


def test_other_numbers_of_rows_are_seldom_compiled_for():
    ours = KernelRidge(RBF(), 0.1).fit(X, y)
    before = gram_matrix._gram_times._cached._cache_size()
    for rows in range(64, 128):
        ours.predict(np.zeros((rows, 2)))
    assert gram_matrix._gram_times._cached._cache_size() - before <= 5


def test_it_is_cloned_and_pickled():
    ours = KernelRidge(RBF(0.7) + Linear().named("line"), "gcv").fit(X, Y)
    again = pickle.loads(pickle.dumps(ours))
    np.testing.assert_array_equal(again.predict(NEW), ours.predict(NEW))
    np.testing.assert_array_equal(again.loo_predict(), ours.loo_predict())
    fresh = clone(ours)
    assert repr(fresh) == repr(ours)
    np.testing.assert_array_equal(fresh.fit(X, Y).predict(NEW), ours.predict(NEW))


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_a_kernel_finds_its_columns_by_name(frame):
    table, new = (frame({"age": A[:, 0], "mass": A[:, 1]}) for A in (X, NEW))
    named = KernelRidge(RBF().on(["mass"]) + Linear().on(["age"]), 0.1).fit(table, y)
    plain = KernelRidge(RBF().on([1]) + Linear().on([0]), 0.1).fit(X, y)
    np.testing.assert_array_equal(named.predict(new), plain.predict(NEW))
    assert list(named.feature_names_in_) == ["age", "mass"]
    with pytest.raises(ValueError, match="feature names"):
        named.predict(frame({"age": NEW[:, 0], "size": NEW[:, 1]}))


def test_predictions_do_not_depend_on_blocks(monkeypatch):
    many = RNG.normal(size=(600, 2))
    ours = KernelRidge(RBF(), 0.1, fit_intercept=True).fit(X, Y)
    mean, sd = ours.predict(many, return_std=True)
    monkeypatch.setattr(gram_matrix, "BLOCK_ENTRIES", 1)
    again, sd_again = ours.predict(many, return_std=True)
    np.testing.assert_allclose(again, mean, rtol=1e-12)
    np.testing.assert_allclose(sd_again, sd, rtol=1e-12)


# -- bad input -------------------------------------------------------------------------------------

BAD = {
    "negative alpha": ({"alpha": -1.0}, "alpha must be a finite penalty of 0 or more"),
    "alpha NaN": ({"alpha": np.nan}, "alpha must be a finite penalty"),
    "alpha of a wrong length": ({"alpha": [1.0, 2.0]}, 'alpha="loo" and alphas='),
    "unknown criterion": ({"alpha": "lou"}, "Did you mean 'loo'"),
    "alphas without a choice": ({"alphas": [1.0]}, "leaves no choice"),
    "no alphas": ({"alpha": "loo", "alphas": []}, "alphas is empty"),
    "negative alphas": ({"alpha": "loo", "alphas": [-1.0]}, "alphas must be a finite penalty"),
    "unknown solver": ({"solver": "qr"}, "Choose from auto, cholesky, eigen"),
    "one alpha for a path": ({"alpha": "loo", "solver": "cholesky"}, "takes one alpha only"),
    "unknown optimum": ({"kernel": RBF(Free(1.0)), "optimize": "aic"}, "optimize='aic'"),
    "nothing to tune": ({"optimize": "loo"}, "marked with Free"),
    "two criteria": (
        {"kernel": RBF(Free(1.0)), "alpha": "gcv", "optimize": "loo"},
        "goes with one alpha",
    ),
    "a product of multiquadrics": ({"kernel": Multiquadric() * RBF()}, "not positive definite"),
    "a modulated multiquadric": (
        {"kernel": Multiquadric().modulate(np.sum)},
        "not positive definite",
    ),
    "multiquadric and others": ({"kernel": Multiquadric() + RBF()}, "InverseMultiquadric"),
}


@pytest.mark.parametrize(("arguments", "message"), BAD.values(), ids=BAD)
def test_bad_arguments_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        KernelRidge(**arguments).fit(X, y)


@pytest.mark.parametrize("value", [Free(1.0), dist.LogNormal()], ids=["Free", "LogNormal"])
def test_a_kernel_without_numbers_is_refused(value):
    with pytest.raises(
        TypeError, match=r'lengthscale of .* kernel.at\(posterior.point\("mean"\)\)'
    ):
        KernelRidge(RBF(value)).fit(X, y)
    with pytest.raises(TypeError, match="kernel must be a bayeskern kernel"):
        KernelRidge("rbf").fit(X, y)


def test_priors_are_refused_where_free_values_are_tuned():
    with pytest.raises(TypeError, match="variance of"):
        KernelRidge(RBF(Free(1.0), dist.LogNormal()), optimize="loo").fit(X, y)


def test_points_that_coincide_cannot_be_interpolated():
    twice = np.vstack([X, X[3] + [0.0, 1.0]])
    with pytest.raises(ValueError, match=f"rows 3 and {N} of X coincide"):
        KernelRidge(RBF().on([0]), 0.0).fit(twice, np.append(y, 1.0))
    weights = np.append(np.ones(N), 0.0)
    KernelRidge(Matern12().on([0]), 0.0).fit(twice, np.append(y, 1.0), sample_weight=weights)
    # White noise tells the points apart.
    KernelRidge(RBF().on([0]) + White(), 0.0).fit(twice, np.append(y, 1.0))


def test_weights_must_weigh_something():
    with pytest.raises(ValueError, match="at least one non-zero"):
        KernelRidge().fit(X, y, sample_weight=np.zeros(N))
    with pytest.raises(ValueError, match="[Nn]egative"):
        KernelRidge().fit(X, y, sample_weight=-W)


def test_a_search_in_logarithms_needs_an_alpha_above_0():
    with pytest.raises(ValueError, match="alphas has no penalty above 0"):
        KernelRidge(RBF(Free(1.0)), "loo", alphas=[0.0], optimize="loo").fit(X, y)
