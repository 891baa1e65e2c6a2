"""Machines of the course and kernel ridge regression as scikit-learn estimators."""

import pickle
import re
import warnings

import numpy as np
import numpyro.distributions as dist
import pandas as pd
import polars as pl
import pytest
from scipy.linalg import LinAlgWarning
from sklearn.base import clone, is_classifier
from sklearn.utils.estimator_checks import parametrize_with_checks

from bayeskern.course import (
    KernelKNNClassifier,
    KernelKNNRegressor,
    KernelLMS,
    KernelLMSClassifier,
    KernelLogisticRegression,
    KernelMachineClassifier,
    KernelMachineRegressor,
    KernelMatchingPursuit,
    KernelPCA,
    KernelPerceptron,
    KernelSVC,
    KernelSVR,
    losses,
)
from bayeskern.kernels import (
    RBF,
    AllSubsets,
    Free,
    Linear,
    Matern32,
    Multiquadric,
    gram_matrix,
)
from bayeskern.ridge import FourierRidge, KernelRidge, NystromRidge

RNG = np.random.default_rng(11)
X, NEW = RNG.normal(size=(60, 2)), RNG.normal(size=(600, 2))
Y = np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] + 0.1 * RNG.normal(size=60)
LABELS = np.array(["low", "middle", "top"])[np.digitize(Y, [-0.4, 0.5])]
CLASSIFIERS = [
    KernelKNNClassifier(),
    KernelLMSClassifier(),
    KernelMachineClassifier(),
    KernelPerceptron(epochs=1000),
    KernelSVC(),
]
MACHINES = [
    *CLASSIFIERS,
    KernelKNNRegressor(),
    KernelLMS(),
    KernelMachineRegressor(loss="absolute"),
    KernelMatchingPursuit(n_nonzero=5),
    KernelPCA(n_components=5),
    KernelRidge(alpha=0.1),
    KernelSVR(),
    NystromRidge(landmarks=9),
]
every_machine = pytest.mark.parametrize("machine", MACHINES, ids=lambda m: type(m).__name__)


def fit(machine, X, kernel):
    name = "dictionary" if isinstance(machine, KernelMatchingPursuit) else "kernel"
    fitted = clone(machine).set_params(**{name: kernel})
    return fitted.fit(X, LABELS if machine in CLASSIFIERS else Y)


def results(machine, X):
    methods = ("transform", "decision_function", "predict_proba", "predict")
    return next(getattr(machine, name) for name in methods if hasattr(machine, name))(X)


@every_machine
def test_kernel_finds_its_columns_by_name(machine):
    frame = pl.DataFrame if isinstance(machine, KernelRidge) else pd.DataFrame
    table = frame({"age": X[:, 0], "mass": X[:, 1]})
    by_name = fit(machine, table, RBF(0.5).on(["mass"]) * RBF(0.5).on(["age"]))
    by_index = fit(machine, X, RBF(0.5).on([1]) * RBF(0.5).on([0]))
    np.testing.assert_array_equal(results(by_name, table), results(by_index, X))
    assert by_name.feature_names_in_.tolist() == ["age", "mass"]
    with pytest.raises(ValueError, match="[Ff]eature names"):
        results(by_name, table[["age"]])


@every_machine
def test_copies_and_results_in_blocks_agree(machine, monkeypatch):
    fitted = fit(machine, X, RBF(0.5))
    whole = results(fitted, NEW)
    np.testing.assert_array_equal(results(pickle.loads(pickle.dumps(fitted)), NEW), whole)
    assert repr(clone(fitted)) == repr(fitted)
    monkeypatch.setattr(gram_matrix, "BLOCK_ENTRIES", 1)
    np.testing.assert_allclose(results(fitted, NEW), whole, atol=1e-10)


@every_machine
def test_kernel_must_be_positive_definite_and_of_numbers(machine):
    bad = [
        ("rbf", TypeError, "kernel must be a bayeskern kernel"),
        (RBF(dist.LogNormal()), TypeError, 'kernel.at(posterior.point("mean"))'),
        (RBF() + Multiquadric(), ValueError, "is not positive definite"),
    ]
    # Matching pursuit takes any kernel.
    for kernel, error, message in bad[1:2] if isinstance(machine, KernelMatchingPursuit) else bad:
        with pytest.raises(error, match=re.escape(message)):
            fit(machine, X, kernel)


@pytest.mark.parametrize(
    ("machine", "attribute"),
    [
        (KernelLMS(batch=4, epochs=3, tol=None), "dual_coef_"),
        (KernelPerceptron(RBF(0.5), epochs=1000), "dual_coef_"),
        (KernelMatchingPursuit(), "cv_errors_"),
        (NystromRidge(landmarks=7), "landmarks_"),
        (NystromRidge(landmarks=7, selection="random"), "landmarks_"),
        (NystromRidge(landmarks=7, selection="leverage"), "landmarks_"),
        (FourierRidge(), "coef_"),
    ],
    ids=repr,
)
def test_results_depend_on_the_seed(machine, attribute):
    target = LABELS if isinstance(machine, KernelPerceptron) else Y
    first, again, other = (
        getattr(clone(machine).set_params(seed=seed).fit(X, target), attribute)[:3]
        for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


BAD_ARGUMENTS = [
    (KernelKNNClassifier(n_neighbors=0), "n_neighbors must be a whole number"),
    (KernelKNNClassifier(n_neighbors=91), "n_neighbors=91 is more than"),
    (KernelKNNClassifier(weights="distances"), "Did you mean 'distance'"),
    (KernelKNNClassifier(metric="manhatan"), "Did you mean 'manhattan'"),
    (KernelKNNClassifier(RBF(), metric="chebyshev"), "metric='chebyshev' is a distance"),
    (KernelKNNClassifier(metric="manhattan", p=1), "p=1 is the exponent of metric='minkowski'"),
    (KernelKNNClassifier(metric="minkowski", p=0.5), "p must be a number of at least 1"),
    (KernelKNNClassifier(pseudo_count=-1), "pseudo_count must be a nonnegative number"),
    (KernelLMS(step="auto"), "step must be a positive number, got 'auto'"),
    (KernelLMS(alpha=-1.0), "alpha must be a nonnegative number"),
    (KernelLMS(batch=0), "batch must be a whole number"),
    (KernelLMS(epochs=2.5), "epochs must be a whole number"),
    (KernelLMS(tol=0.0), "tol must be a positive number, got 0.0"),
    (KernelLMS(seed=None), "seed must be a whole number"),
    (KernelLMS(loss="hinge"), "Choose from squared, absolute"),
    (KernelLMSClassifier(loss="squared"), "Choose from logistic, hinge"),
    (KernelMachineClassifier(loss="squared"), "Choose from logistic, hinge"),
    (KernelMachineRegressor(loss="hubre"), "Did you mean 'huber'"),
    (KernelMachineRegressor(loss=losses.Hinge()), "Hinge() is not known"),
    (KernelMachineRegressor(penalty=-1.0), "penalty must be a nonnegative number"),
    (KernelMatchingPursuit(n_nonzero=61), "n_nonzero=61 is more than the number"),
    (KernelMatchingPursuit("linear", n_nonzero=3), "exceeds the number of atoms"),
    (KernelMatchingPursuit(n_nonzero=2.5), "n_nonzero must be a whole number"),
    (KernelMatchingPursuit(n_nonzero="looo"), "Did you mean 'loo'"),
    (KernelMatchingPursuit(tol=-1.0), "tol must be a nonnegative number, got -1.0"),
    (KernelMatchingPursuit(tol="small"), "tol must be a nonnegative number"),
    (KernelMatchingPursuit(tol=1.0, n_nonzero=3), "both say when to stop"),
    (KernelMatchingPursuit("lineer"), "Did you mean 'linear'"),
    (KernelMatchingPursuit(3), 'dictionary must be a kernel, "linear"'),
    (KernelMatchingPursuit((100 * Linear() + 1e4).exp()), "is NaN or infinite at some"),
    (KernelMatchingPursuit(folds=61), "folds=61 exceeds"),
    (KernelMatchingPursuit(RBF().on(["age"])), "are names, but X is an array"),
    (KernelPCA(n_components=61), "n_components=61 is more than"),
    (KernelPCA(n_components=0), "n_components must be a whole number"),
    (KernelPerceptron(epochs=0), "epochs must be a whole number"),
    (KernelSVC(C=0.0), "C must be a positive number"),
    (KernelSVC(tol=-1.0), "tol must be a positive number"),
    (KernelSVR(C="scale"), "C must be a positive number"),
    (KernelSVR(epsilon=-0.1), "epsilon must be a nonnegative number"),
    (KernelRidge(alpha=-1.0), "alpha must be a finite penalty of 0 or more"),
    (KernelRidge(alpha=np.nan), "alpha must be a finite penalty"),
    (KernelRidge(alpha=[1.0, 2.0]), 'alpha="loo" and alphas='),
    (KernelRidge(alpha="lou"), "Did you mean 'loo'"),
    (KernelRidge(alphas=[1.0]), "leaves no choice"),
    (KernelRidge(alpha="loo", alphas=[]), "alphas is empty"),
    (KernelRidge(alpha="loo", alphas=[-1.0]), "alphas must be a finite penalty"),
    (KernelRidge(alpha="loo", solver="cholesky"), "takes one alpha only"),
    (KernelRidge(solver="qr"), "Choose from auto, cholesky, eigen"),
    (KernelRidge(Multiquadric() * RBF()), "not positive definite"),
    (KernelRidge(Multiquadric().modulate(np.sum)), "not positive definite"),
    (KernelRidge(optimize="loo"), "marked with Free"),
    (KernelRidge(RBF(Free(1.0)), optimize="aic"), "optimize='aic'"),
    (KernelRidge(RBF(Free(1.0)), "gcv", optimize="loo"), "needs one alpha, a number"),
    (KernelRidge(RBF(Free(1.0)), "loo", alphas=[0.0], optimize="loo"), "no penalty above 0"),
    (KernelRidge(RBF(Free(1.0), dist.LogNormal()), optimize="loo"), "variance of"),
    (KernelRidge(alpha="loo", solver="iterative"), "does not support alpha='loo'"),
    (KernelRidge(RBF(Free(1.0)), optimize="loo", solver="iterative"), "support optimize='loo'"),
    (KernelRidge(Multiquadric(), solver="iterative"), "does not support multiquadrics"),
    (KernelRidge(solver="markov"), "solver='markov' does not fit: there are 2 inputs"),
    (KernelRidge(solver="iterative", tol=0.0), "tol must be a positive number"),
    (KernelRidge(seed=0.5), "seed must be a whole number"),
    (NystromRidge(landmarks=61), "more than the 60 points"),
    (NystromRidge(landmarks=0), "landmarks must be a whole number"),
    (NystromRidge(landmarks=[[1.0], [2.0]]), "landmarks have 1 columns"),
    (NystromRidge(selection="k-means"), "Did you mean 'kmeans'"),
    (NystromRidge(alpha=-1.0), "alpha must be a finite penalty"),
    (NystromRidge(0.0 * RBF(), 2, "greedy"), "is 0 at all landmarks"),
    (FourierRidge(RBF() + AllSubsets()), "no spectral density"),
    (FourierRidge(RBF(dist.LogNormal())), "lengthscale of RBF"),
    (FourierRidge(seed=-1), "seed must be"),
]


@pytest.mark.parametrize(("machine", "message"), BAD_ARGUMENTS, ids=[m for _, m in BAD_ARGUMENTS])
def test_bad_arguments_are_refused(machine, message):
    target = LABELS if is_classifier(machine) else Y
    with pytest.raises((ValueError, TypeError), match=re.escape(message)):
        machine.fit(X, target)


def test_intercept_needs_two_points():
    for machine in (KernelRidge(fit_intercept=True), NystromRidge(fit_intercept=True)):
        with pytest.raises(ValueError, match="got 1 sample"):
            machine.fit(X[:1], Y[:1])


def test_bad_targets_and_weights_are_refused():
    for machine in CLASSIFIERS:
        with pytest.raises(ValueError, match="Unknown label type"):
            machine.fit(X, Y)
    for machine in (KernelMachineClassifier(), KernelPerceptron(), KernelSVC()):
        with pytest.raises(ValueError, match="only one class"):
            machine.fit(X, np.ones(60, dtype=int))
    for machine in (KernelMachineRegressor(), KernelRidge(), KernelSVR()):
        with pytest.raises(ValueError, match="Negative values"):
            machine.fit(X, Y, -np.ones(60))
        with pytest.raises(ValueError, match="at least one non-zero"):
            machine.fit(X, Y, np.zeros(60))


@parametrize_with_checks([KernelRidge()])
def test_scikit_learn_checks_of_kernel_ridge(estimator, check):
    check_without_linalg_warnings(estimator, check)


OPTIONS = [
    KernelRidge(alpha="loo", fit_intercept=True),
    KernelRidge(Multiquadric()),
    KernelRidge(solver="iterative"),
    KernelRidge(Matern32(), solver="iterative", tol=1e-10),
    NystromRidge(),
    NystromRidge(alpha=0.5, fit_intercept=True),
    FourierRidge(),
    *(
        KernelMachineRegressor(loss=loss, fit_intercept=constant)
        for loss in ("squared", "absolute", "huber", "epsilon_insensitive")
        for constant in (False, True)
    ),
    KernelMachineClassifier(),
    KernelMachineClassifier(loss="hinge", fit_intercept=True),
    KernelLogisticRegression(fit_intercept=True),
    KernelKNNRegressor(weights="distance"),
    KernelKNNClassifier(),
    KernelKNNClassifier(metric="manhattan"),
    KernelLMS(),
    KernelLMS(batch=8, alpha=0.1),
    KernelLMS(loss="huber", alpha=0.1),
    KernelLMSClassifier(alpha=0.1),
    KernelMachineRegressor(loss="absolute", penalty=0.0),
    KernelMachineClassifier(loss="hinge", penalty=0.0),
    KernelPerceptron(),
    KernelPCA(),
    # By default libsvm stops before weights and repeated points agree as the checks want.
    KernelSVR(tol=1e-10),
    KernelSVC(tol=1e-10),
    KernelMatchingPursuit(),
    KernelMatchingPursuit(dictionary="linear", n_nonzero="loo", fit_intercept=True),
    KernelMatchingPursuit(dictionary="linear", tol=50.0),
]


@pytest.mark.slow
@parametrize_with_checks(
    OPTIONS,
    expected_failed_checks=lambda estimator: (
        {
            "check_sample_weight_equivalence_on_dense_data": (
                "leaving one of two equal rows out is not leaving out a row of weight two"
            )
        }
        if isinstance(estimator, KernelRidge) and estimator.alpha == "loo"
        else {}
    ),
)
def test_scikit_learn_checks(estimator, check):
    check_without_linalg_warnings(estimator, check)


def check_without_linalg_warnings(estimator, check):
    with warnings.catch_warnings():
        # Some checks give data on which K + alpha is singular.
        warnings.simplefilter("ignore", LinAlgWarning)
        check(estimator)
