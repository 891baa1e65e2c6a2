"""Matching pursuit against scikit-learn, NumPy's least squares and refits."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.linalg import hadamard
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import OrthogonalMatchingPursuit, orthogonal_mp
from sklearn.model_selection import KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, PolynomialFeatures, StandardScaler

from bayeskern.course.matching_pursuit import KernelMatchingPursuit
from bayeskern.course.orthogonal_pursuit import Dictionary, OrthogonalPursuit
from bayeskern.kernels import RBF, Linear, Matern12, Matern32, Multiquadric, NystromFeatures, White

RNG = np.random.default_rng(2)
X = RNG.uniform(-3.0, 3.0, (40, 2))
Y = np.sin(X[:, 0]) * X[:, 1] + 0.1 * RNG.normal(size=40) + 0.5
NEW = RNG.uniform(-3.0, 3.0, (15, 2))
WIDE, Y_WIDE = RNG.normal(size=(30, 80)) * np.geomspace(0.01, 100.0, 80), RNG.normal(size=30)

KERNELS = {
    "RBF": RBF(0.8),
    "Matern12": Matern12([0.5, 2.0], variance=3.0),
    "Multiquadric": Multiquadric(0.5),
    "composite": RBF(2.0) * Matern32() + 0.5 * Linear(),
}


def linear(**options):
    return KernelMatchingPursuit(dictionary="linear", **options)


def sparse(model, size):
    coefficients = np.zeros(size)
    coefficients[model.atoms_] = model.coef_
    return coefficients


# -- against scikit-learn --------------------------------------------------------------------------


def test_path_agrees_with_scikit_learn_on_unit_columns():
    lengths = np.linalg.norm(WIDE, axis=0)
    theirs = orthogonal_mp(WIDE / lengths, Y_WIDE, n_nonzero_coefs=20, return_path=True)
    path = linear(n_nonzero=20).fit(WIDE, Y_WIDE).path_
    for k in range(1, 21):
        ours = np.zeros(80)
        ours[path.atoms[:k]] = path.coefficients(k)[1] * lengths[path.atoms[:k]]
        np.testing.assert_allclose(ours, theirs[:, k - 1], atol=1e-13)


def test_intercept_agrees_with_scikit_learn():
    D, y = WIDE + 3.0, Y_WIDE + 100.0
    centred = D - D.mean(axis=0)
    lengths = np.linalg.norm(centred, axis=0)
    theirs = OrthogonalMatchingPursuit(n_nonzero_coefs=12).fit(D / lengths, y)
    model = linear(n_nonzero=12, fit_intercept=True).fit(D, y)
    np.testing.assert_allclose(sparse(model, 80) * lengths, theirs.coef_, atol=1e-10)
    np.testing.assert_allclose(model.intercept_, theirs.intercept_, rtol=1e-10)
    np.testing.assert_allclose(model.predict(D), theirs.predict(D / lengths), rtol=1e-12)


def test_tolerance_agrees_with_scikit_learn():
    D = WIDE / np.linalg.norm(WIDE, axis=0)
    for tol in (1e9, 20.0, 3.0, 0.1):
        model = linear(tol=tol).fit(D, Y_WIDE)
        squares = model.path_.residual_squares
        assert squares[-1] <= tol and np.all(squares[:-1] > tol)
        if tol < 1e9:
            theirs = orthogonal_mp(D, Y_WIDE, tol=tol)
            np.testing.assert_allclose(sparse(model, 80), theirs, atol=1e-13)


# -- steps -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["RBF", "Multiquadric", "composite"])
def test_each_step_is_greedy_with_least_squares_refit(name):
    kernel = KERNELS[name]
    D = np.asarray(kernel(X, X))
    path = KernelMatchingPursuit(kernel, n_nonzero=12).fit(X, Y).path_
    for k in range(12):
        chosen = D[:, path.atoms[:k]]
        expected = np.linalg.lstsq(chosen, Y)[0]
        rest = Y - chosen @ expected
        np.testing.assert_allclose(path.coefficients(k)[1], expected, rtol=1e-8)
        np.testing.assert_allclose(path.residual_squares[k], rest @ rest, rtol=1e-10)
        gains = (D.T @ rest) ** 2 / np.sum(D**2, axis=0)
        assert np.argmax(gains) == path.atoms[k]


@pytest.mark.parametrize("coherent", [False, True], ids=["noise", "smooth kernel"])
def test_directions_stay_orthogonal(coherent):
    rng = np.random.default_rng(0)
    points = rng.uniform(-3.0, 3.0, (400, 2))
    D = np.asarray(RBF(0.5)(points)) if coherent else rng.normal(size=(400, 500))
    pursuit = OrthogonalPursuit(Dictionary(D), rng.normal(size=400), intercept=True)
    while len(pursuit.taken) < 200:
        assert pursuit.step()
    Q, path = pursuit.Q[:201], pursuit.path()
    assert np.max(np.abs(Q @ Q.T - np.eye(201))) < 1e-12
    columns = np.column_stack([np.ones(400), D[:, path.atoms]])
    np.testing.assert_allclose(Q.T @ path.R, columns, atol=1e-12 * np.max(np.abs(columns)))
    np.testing.assert_allclose(pursuit.residual @ Q.T, 0.0, atol=1e-12)


def test_exact_recovery_in_incoherent_dictionaries():
    # Tropp (2004), theorem A: so are any k < (1 + 1 / coherence) / 2 = 4.5 atoms, all of them.
    D = np.hstack([np.eye(64), hadamard(64) / 8.0])
    for _ in range(50):
        truth = np.zeros(128)
        truth[RNG.choice(128, 4, replace=False)] = RNG.normal(size=4)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            model = linear(tol=1e-25).fit(D, D @ truth)
        assert len(model.atoms_) == 4
        np.testing.assert_allclose(sparse(model, 128), truth, atol=1e-13)


def test_scaling_y_and_atoms_scales_coefficients():
    base = KernelMatchingPursuit(RBF(), n_nonzero=10).fit(X, Y)
    scaled = KernelMatchingPursuit(RBF(variance=1e8), n_nonzero=10).fit(X, 1e-9 * Y)
    np.testing.assert_array_equal(scaled.atoms_, base.atoms_)
    np.testing.assert_allclose(scaled.coef_, 1e-17 * base.coef_, rtol=1e-7)


def test_best_atom_is_exact_after_single_precision_screening():
    rng = np.random.default_rng(1)
    n, p = 200, 2000
    for spread in (1.0, 1e-3, 1e-6, 1e-9):
        # Groups of atoms that differ by so much, of very different lengths.
        groups = np.repeat(rng.normal(size=(n, p // 5)), 5, axis=1)
        D = (groups + spread * rng.normal(size=(n, p))) * 10.0 ** rng.uniform(-90, 90, p)
        dictionary, lengths = Dictionary(D), np.sqrt(np.sum(D**2, axis=0))
        allowed = np.ones(p)
        for _ in range(20):
            r = rng.normal(size=n)
            truth = np.argmax(allowed * np.abs(r @ (D / lengths)))
            assert dictionary.best(r, allowed * lengths) == truth
            allowed[truth] = 0.0
        assert dictionary._single is not None


def test_similar_atoms_switch_to_double_precision():
    x = np.linspace(0.0, 1.0, 1000)[:, None]
    D = np.asarray(RBF(0.5)(x))
    y = np.sin(9.0 * x[:, 0])
    dictionary = Dictionary(D)
    lengths = np.sqrt(np.sum(D**2, axis=0))
    for r in (y, y - y.mean(), x[:, 0] - 0.3):
        best = dictionary.best(r, lengths)
        gains = np.abs(r @ (D / lengths))
        np.testing.assert_allclose(gains[best], gains.max(), rtol=1e-14)
    assert dictionary._single is None
    assert dictionary.best(y, np.zeros(1000)) is None


# -- number of atoms -------------------------------------------------------------------------------


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("name", ["RBF", "Multiquadric"])
def test_leave_one_out_agrees_with_refits(name, intercept):
    kernel = KERNELS[name]
    path = KernelMatchingPursuit(kernel, n_nonzero=6, fit_intercept=intercept).fit(X, Y).path_
    D = np.asarray(kernel(X, X))
    for k in range(7):
        columns = np.column_stack([np.ones((40, int(intercept))), D[:, path.atoms[:k]]])
        errors = []
        for i in range(40):
            rest = np.arange(40) != i
            b = np.linalg.lstsq(columns[rest], Y[rest])[0]
            errors.append((Y[i] - columns[i] @ b) ** 2)
        np.testing.assert_allclose(path.loo_errors[k], np.mean(errors), rtol=1e-9)


def test_loo_minimises_the_error_along_the_path():
    model = KernelMatchingPursuit(KERNELS["RBF"], n_nonzero="loo").fit(X, Y)
    best = int(np.argmin(model.path_.loo_errors))
    assert 0 < len(model.atoms_) == best < len(model.path_.atoms)
    fixed = KernelMatchingPursuit(KERNELS["RBF"], n_nonzero=best).fit(X, Y)
    np.testing.assert_array_equal(model.atoms_, fixed.atoms_)
    np.testing.assert_allclose(model.coef_, fixed.coef_, rtol=1e-12)


def test_leave_one_out_of_rows_with_leverage_one():
    D = np.column_stack([np.eye(10)[0], np.ones(10)])
    y = np.array([50.0, *RNG.normal(1.0, 0.1, 9)])
    path = linear(n_nonzero="loo").fit(D, y).path_
    assert path.atoms.tolist() == [0, 1]
    np.testing.assert_allclose(path.loo_errors[1], np.mean(y**2), rtol=1e-12)
    rest = [y[i] - np.mean(np.delete(y[1:], i - 1)) for i in range(1, 10)]
    np.testing.assert_allclose(path.loo_errors[2], np.mean([2500.0, *np.square(rest)]), rtol=1e-12)


@pytest.mark.parametrize("dictionary", [None, "linear"])
def test_cross_validation_agrees_with_separate_fits(dictionary):
    features, y = (X, Y) if dictionary is None else (WIDE, Y_WIDE)
    options = {"dictionary": dictionary, "fit_intercept": True}
    model = KernelMatchingPursuit(n_nonzero="cv", folds=4, seed=3, **options).fit(features, y)
    folds = list(KFold(4, shuffle=True, random_state=3).split(features))
    for k in range(1, 8):
        errors = np.zeros(len(y))
        for inside, outside in folds:
            alone = KernelMatchingPursuit(n_nonzero=k, **options).fit(features[inside], y[inside])
            errors[outside] = y[outside] - alone.predict(features[outside])
        np.testing.assert_allclose(model.cv_errors_[k], np.mean(errors**2), rtol=1e-9)
    assert len(model.atoms_) == np.argmin(model.cv_errors_)
    if len(model.atoms_):
        whole = KernelMatchingPursuit(n_nonzero=len(model.atoms_), **options).fit(features, y)
        np.testing.assert_allclose(model.predict(features), whole.predict(features), rtol=1e-12)


def test_loo_overfits_noise_and_cross_validation_does_not():
    rng = np.random.default_rng(0)
    counts = {"cv": [], "loo": []}
    for _ in range(20):
        D, y = rng.normal(size=(50, 200)), rng.normal(size=50)
        for rule in counts:
            counts[rule].append(len(linear(n_nonzero=rule).fit(D, y).atoms_))
    assert np.median(counts["cv"]) <= 1
    assert np.median(counts["loo"]) >= 10


# -- dependent atoms -------------------------------------------------------------------------------


def test_dependent_atoms_are_skipped_with_a_remark():
    B = RNG.normal(size=(30, 3))
    D = np.column_stack([B, B @ RNG.normal(size=(3, 4)), np.zeros(30)])
    with pytest.warns(ConvergenceWarning, match="n_nonzero=5 .* after 3 atoms"):
        model = linear(n_nonzero=5).fit(D, Y_WIDE)
    assert len(model.atoms_) == 3
    assert model.remark_.startswith("4 atoms were skipped")
    expected = B @ np.linalg.lstsq(B, Y_WIDE)[0]
    np.testing.assert_allclose(model.predict(D), expected, atol=1e-12)
    with pytest.warns(ConvergenceWarning, match="tol=0.1 was requested, but after 3 atoms"):
        linear(tol=0.1).fit(D, Y_WIDE)


@pytest.mark.parametrize("distance", [1e-3, 1e-6])
def test_nearly_dependent_atoms_are_kept(distance):
    a, b = RNG.normal(size=(2, 30))
    D = np.column_stack([a, a + distance * b])
    model = linear(n_nonzero=2).fit(D, 2.0 * a + 3.0 * b)
    assert model.remark_ is None
    expected = 2.0 * a + 3.0 * b
    np.testing.assert_allclose(model.predict(D), expected, rtol=0.0, atol=1e-14 / distance)


def test_repeated_points_are_one_atom():
    points = np.repeat(X[:5], 4, axis=0)
    y = np.repeat(Y[:5], 4)
    with pytest.warns(ConvergenceWarning, match="after 5 atoms"):
        model = KernelMatchingPursuit(n_nonzero=20).fit(points, y)
    np.testing.assert_allclose(model.predict(points), y, rtol=1e-10)


@pytest.mark.filterwarnings("ignore:tol=0 was requested")
@pytest.mark.parametrize("options", [{}, {"n_nonzero": "loo"}, {"tol": 0.0}])
def test_constant_target_needs_no_atoms(options):
    y = np.full(40, 7.3)
    model = KernelMatchingPursuit(fit_intercept=True, **options).fit(X, y)
    assert len(model.atoms_) == 0
    np.testing.assert_allclose(model.predict(NEW), 7.3, rtol=1e-15)
    nothing = KernelMatchingPursuit(**options).fit(X, 0.0 * y)
    assert nothing.predict(NEW).tolist() == [0.0] * 15


def test_selection_with_tiny_residuals():
    # The last atoms are 1e-11 of y: correlations updated from those with y have lost them.
    Q, _ = np.linalg.qr(RNG.normal(size=(60, 12)))
    sizes = np.geomspace(1.0, 1e-11, 12)
    model = linear(n_nonzero=12).fit(Q, Q @ sizes)
    assert model.atoms_.tolist() == list(range(12))


# -- dictionaries ----------------------------------------------------------------------------------


def test_predictions_use_only_the_chosen_points():
    model = KernelMatchingPursuit(KERNELS["composite"], n_nonzero=7).fit(X, Y)
    np.testing.assert_array_equal(model.points_, X[model.atoms_])
    expected = np.asarray(KERNELS["composite"](NEW, model.points_)) @ model.coef_
    np.testing.assert_allclose(model.predict(NEW), expected, rtol=1e-12)
    assert len(pickle.dumps(model)) < 20_000


def test_atoms_exclude_white_noise():
    with_noise = KernelMatchingPursuit(RBF() + White(0.5), n_nonzero=6).fit(X, Y)
    without = KernelMatchingPursuit(RBF(), n_nonzero=6).fit(X, Y)
    np.testing.assert_allclose(with_noise.predict(X), without.predict(X), rtol=1e-12)


@pytest.mark.parametrize(
    "features",
    [
        make_pipeline(StandardScaler(), PolynomialFeatures(3)),
        NystromFeatures(RBF(), 12),
        OneHotEncoder(handle_unknown="ignore"),
    ],
    ids=["pipeline", "nystrom", "sparse"],
)
def test_transformers_as_dictionaries(features):
    points, new = (np.round(X), np.round(NEW)) if "One" in str(features) else (X, NEW)
    model = KernelMatchingPursuit(dictionary=features, n_nonzero=5).fit(points, Y)
    fitted = clone(features).fit(points)

    def columns(A):
        out = fitted.transform(A)
        return out.toarray() if hasattr(out, "toarray") else out

    direct = linear(n_nonzero=5).fit(columns(points), Y)
    np.testing.assert_array_equal(model.atoms_, direct.atoms_)
    np.testing.assert_allclose(model.predict(new), direct.predict(columns(new)), rtol=1e-10)


def test_transformer_finds_its_columns_in_a_data_frame():
    table = pd.DataFrame({"age": X[:, 0], "height": X[:, 1]})
    by_name = KernelMatchingPursuit(NystromFeatures(RBF().on(["height"]), 9), n_nonzero=3)
    by_index = KernelMatchingPursuit(NystromFeatures(RBF().on([1]), 9), n_nonzero=3)
    np.testing.assert_array_equal(
        by_name.fit(table, Y).predict(table), by_index.fit(X, Y).predict(X)
    )


# -- bad input -------------------------------------------------------------------------------------


def test_path_refuses_more_steps_than_taken():
    path = KernelMatchingPursuit(n_nonzero=3).fit(X, Y).path_
    with pytest.raises(ValueError, match="k must be from 0 to the 3 atoms"):
        path.coefficients(4)


def test_columns_far_from_zero_with_intercept():
    rng = np.random.default_rng(4)
    points = rng.normal(size=(60, 2))
    y = points @ [1.0, 2.0]
    model = linear(fit_intercept=True, n_nonzero=2).fit(points + 1e7, y)
    np.testing.assert_allclose(model.coef_[np.argsort(model.atoms_)], [1.0, 2.0], rtol=1e-6)
    np.testing.assert_allclose(model.predict(points + 1e7), y, atol=1e-6)
    assert model.remark_ is None


def test_refit_deletes_earlier_attributes():
    model = KernelMatchingPursuit().fit(X, Y)
    model.set_params(dictionary="linear", n_nonzero=1).fit(X, Y)
    assert not hasattr(model, "cv_errors_")
    assert not hasattr(model, "points_")
