"""Kernel machines: a convex loss and the squared norm of the function, by the representer theorem.

Schoelkopf, Herbrich and Smola (2001).
"""

from __future__ import annotations

import warnings

import numpy as np
from scipy.special import expit, softmax
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import validate_data

from bayeskern.core import validation
from bayeskern.kernels.gram_matrix import gram
from bayeskern.ridge.base import KernelExpansion, most_likely, read_classes
from bayeskern.ridge.losses import (
    Absolute,
    EpsilonInsensitive,
    Hinge,
    Huber,
    Logistic,
    Squared,
)
from bayeskern.ridge.validation import read_weights

REGRESSION = {
    "squared": Squared,
    "absolute": Absolute,
    "huber": Huber,
    "epsilon_insensitive": EpsilonInsensitive,
}
CLASSIFICATION = {"logistic": Logistic, "hinge": Hinge}
# What the objective may be above its minimum, relative to that and, by rounding, to f = 0.
GAP = 1e-6
ROUNDING = 1e-12


class _KernelMachine(KernelExpansion):
    def _prepare(self, X) -> tuple[np.ndarray, float]:
        """The Gram matrix and the penalty, for points that all weigh something."""
        penalty = validation.positive(self.penalty, "penalty")
        self.kernel_, self.X_fit_ = self._concrete_kernel(), X
        return gram(self.kernel_, X), penalty

    def _keep(self, found, penalty):
        self.dual_coef_ = found.coefficients
        self.intercept_ = found.intercept
        self.objective_ = penalty * found.value
        self.duality_gap_ = penalty * max(found.gap, 0.0)
        self.converged_ = bool(found.gap <= GAP * found.value + ROUNDING * found.at_zero)
        self.n_iter_ = found.iterations
        if not self.converged_:
            warnings.warn(
                f"{type(self).__name__} stopped at an objective of {self.objective_:.6g}, which "
                f"may be {self.duality_gap_:.2g} above its minimum. Rounding allows no more with "
                f"penalty={penalty:g}: take a larger one.",
                ConvergenceWarning,
                stacklevel=3,
            )
        return self


class KernelMachineRegressor(RegressorMixin, _KernelMachine):
    """f = sum_i b_i k(., x_i) + c with sum_i w_i loss(y_i, f(x_i)) + penalty/2 |f - c|^2 least.

    kernel: a positive definite kernel of numbers, None for RBF().

    loss: "squared", (y - f)^2 / 2, with which this is KernelRidge(alpha=penalty); "absolute",
    |y - f|, a median; "huber", squared near 0 and absolute beyond; "epsilon_insensitive", 0 near 0
    and absolute beyond. The last two are in the units of y: `losses.Huber(delta=1.345)` and
    `losses.EpsilonInsensitive(epsilon=0.1)` set where "near" ends.

    penalty: above 0, in the units of the loss; 1 / C of support vector regression.
    fit_intercept: find a constant c, which is not penalised (otherwise c = 0).

    After `fit`: `kernel_`, `X_fit_` (points that weigh nothing are left out), `dual_coef_` b: (n,),
    `intercept_` c, `objective_`, what it may be above its minimum, `duality_gap_` (so that
    |f - f*|^2 <= 2 duality_gap_ / penalty, constants apart), `converged_` (a gap of 1e-6 of the
    objective or less, or one that is rounding beside the loss of f = 0) and `n_iter_`. "squared" is
    solved directly, the others by an interior-point method: 10 to 30 factorisations of an n x n
    matrix.
    """

    def __init__(self, kernel=None, loss="squared", penalty=1.0, *, fit_intercept=False):
        self.kernel = kernel
        self.loss = loss
        self.penalty = penalty
        self.fit_intercept = fit_intercept

    def fit(self, X, y, sample_weight=None):
        """Fit points X: (n, d) or a data frame to y: (n,), with weights w: (n,) of 0 or more.

        Raises ValueError on bad input, TypeError for a kernel with distributions in it. Warns with
        ConvergenceWarning where rounding keeps the objective from its minimum.
        """
        X, y = validate_data(self, X, y, dtype=np.float64, y_numeric=True)
        weights = read_weights(sample_weight, X)
        loss, used = _read_loss(self.loss, REGRESSION), weights > 0.0
        K, penalty = self._prepare(X[used])
        found = loss.minimise(
            K, y[used].astype(float), weights[used] / penalty, bool(self.fit_intercept)
        )
        return self._keep(found, penalty)

    def predict(self, X) -> np.ndarray:
        """f(X): (m,), for X: (m, d)."""
        return self._values(X)


class KernelMachineClassifier(ClassifierMixin, _KernelMachine):
    """sum_i w_i loss(y_i f(x_i)) + penalty/2 |f - c|^2 least, f = sum_i b_i k(., x_i) + c.

    kernel: a positive definite kernel of numbers, None for RBF().

    loss: "logistic", log(1 + exp(-y f)), with probabilities: of more than two classes it is
    multinomial, a function f_c for each class and log sum_c exp(f_c) - f_y; or "hinge",
    max(1 - y f, 0), the support vector machine: of more than two classes each is set against the
    rest.

    penalty: above 0; 1 / C of the support vector machine and of scikit-learn's LogisticRegression.
    fit_intercept: find constants c, which are not penalised (otherwise c = 0).

    After `fit`: `classes_`, and what KernelMachineRegressor has, with `dual_coef_` (n,) and
    `intercept_` a number for two classes, (n, classes) and (classes,) for more. "logistic" is
    solved by scikit-learn's LogisticRegression in the columns of a pivoted Cholesky factor of K,
    "hinge" by an interior-point method.
    """

    def __init__(self, kernel=None, loss="logistic", penalty=1.0, *, fit_intercept=False):
        self.kernel = kernel
        self.loss = loss
        self.penalty = penalty
        self.fit_intercept = fit_intercept

    def fit(self, X, y, sample_weight=None):
        """Fit points X: (n, d) or a data frame to labels y: (n,), with weights w: (n,) >= 0.

        Raises ValueError on bad input, among it a single class, TypeError for a kernel with
        distributions in it. Warns with ConvergenceWarning where rounding keeps the objective from
        its minimum.
        """
        X, y = validate_data(self, X, y, dtype=np.float64)
        weights = read_weights(sample_weight, X)
        loss, used = _read_loss(self.loss, CLASSIFICATION), weights > 0.0
        self.classes_, codes = read_classes(y[used])
        K, penalty = self._prepare(X[used])
        self._loss = loss
        found = loss.classify(
            K, codes, len(self.classes_), weights[used] / penalty, bool(self.fit_intercept)
        )
        return self._keep(found, penalty)

    def decision_function(self, X) -> np.ndarray:
        """f(X): (m,) for two classes, above 0 for the second; (m, classes) for more."""
        return self._values(X)

    def predict(self, X) -> np.ndarray:
        """The class, (m,), whose f(X) is highest."""
        values = self._values(X)
        return most_likely(self.classes_, values)

    @available_if(lambda self: self.loss == "logistic" or isinstance(self.loss, Logistic))
    def predict_proba(self, X) -> np.ndarray:
        """Probabilities (m, classes), which only the logistic loss has."""
        f = self._values(X)
        if not isinstance(self._loss, Logistic):
            raise ValueError(
                f"it was fitted with {self._loss}, which has no probabilities. Fit it again."
            )
        return np.stack([expit(-f), expit(f)], axis=1) if f.ndim == 1 else softmax(f, axis=1)


class KernelLogisticRegression(KernelMachineClassifier):
    """KernelMachineClassifier with the logistic loss: binomial or multinomial regression.

    Zhu and Hastie (2005).
    """

    loss = "logistic"

    def __init__(self, kernel=None, penalty=1.0, *, fit_intercept=False):
        self.kernel = kernel
        self.penalty = penalty
        self.fit_intercept = fit_intercept


def _read_loss(loss, losses):
    """A loss by its name or as it is, if it is one of these."""
    if isinstance(loss, tuple(losses.values())):
        return loss
    return losses[validation.one_of("loss", loss, losses)]()
