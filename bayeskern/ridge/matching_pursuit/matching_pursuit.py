"""Sparse regression: few atoms of a dictionary, each the one that explains most of what is left.

Vincent and Bengio (2002), "Kernel matching pursuit".
"""

from __future__ import annotations

import warnings

import numpy as np
from scipy.sparse import issparse
from sklearn.base import RegressorMixin, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import KFold
from sklearn.utils.validation import check_is_fitted, validate_data

from bayeskern.core import validation
from bayeskern.kernels.base import Kernel
from bayeskern.kernels.estimator import KernelEstimator
from bayeskern.kernels.gram_matrix import gram, gram_times
from bayeskern.ridge.matching_pursuit.orthogonal import Dictionary, Pursuit

# An error that is lowest after k atoms must stay higher up to 2 k and so many more.
PATIENCE = 20


class KernelMatchingPursuit(RegressorMixin, KernelEstimator):
    """f(x) = intercept + sum_j b_j phi_j(x), with few atoms phi_j out of a dictionary.

    Each step takes the atom with the largest J(phi) = (phi'r)^2 / phi'phi, r being what is left of
    y, and fits all coefficients anew by least squares, through a QR factorisation that grows.

    dictionary: a kernel, for atoms k(., x_j) at the training points (RBF() by default; it need not
    be positive definite), "linear" for the columns of X, or a scikit-learn transformer for the
    columns that it makes of X, which are numbers (what makes numbers of text goes before, in a
    pipeline).

    n_nonzero: how many atoms, a number; "cv" (the default), as many as have the least error in
    cross-validation over `folds` random folds, in which all but what a transformer learns is done
    again; or "loo", the least leave-one-out error given the atoms, at no cost. That one takes noise
    for signal where the dictionary is large, since the atoms were chosen with all of y in sight.
    tol: instead, as many atoms as bring |r|^2, in the squared units of y, down to it.
    fit_intercept: a level around which y and all atoms are centred.

    `fit` sets `atoms_` (the chosen training points or columns, in order), `coef_`, `intercept_`,
    `points_` (the chosen points (k, d), for a kernel), `path_` (a MatchingPath, which for "loo"
    goes on for a while), `cv_errors_` (mean squared errors from 0 atoms on, for "cv") and `remark_`
    (None, or what else should be known). Atoms that depend on those taken, to rounding, are passed
    over; a ConvergenceWarning says when that leaves fewer atoms than were asked for, or tol out of
    reach.

    The dictionary is held as an array of (n, n) or (n, features), and once more in single
    precision; a step costs one product with it.
    """

    def __init__(
        self,
        dictionary=None,
        n_nonzero=None,
        tol=None,
        fit_intercept=False,
        folds=5,
        seed=0,
    ):
        self.dictionary = dictionary
        self.n_nonzero = n_nonzero
        self.tol = tol
        self.fit_intercept = fit_intercept
        self.folds = folds
        self.seed = seed

    def fit(self, X, y):
        """Choose atoms for points X: (n, d) or a data frame, and y: (n,)."""
        given = X
        X, y = validate_data(self, X, y, dtype=np.float64, y_numeric=True, ensure_min_samples=2)
        y = y.astype(float)
        for name in ("cv_errors_", "points_"):
            # Of an earlier fit.
            self.__dict__.pop(name, None)
        rule = self._rule(len(X))
        atoms = self._atoms_at(given, X)
        means = np.zeros(atoms.shape[1])
        if self.fit_intercept:
            # Far from 0 a column is hard to tell from the constant.
            means = atoms.mean(axis=0)
            atoms = atoms - means
        if isinstance(rule, int) and rule > atoms.shape[1]:
            raise ValueError(
                f"n_nonzero={rule} atoms are wanted, but the dictionary has {atoms.shape[1]}. "
                'Take fewer, or n_nonzero="cv".'
            )
        dictionary, wanted = Dictionary(atoms), rule
        if rule == "cv":
            self.cv_errors_ = self._cross_validate(dictionary, y)
            wanted = int(np.argmin(self.cv_errors_))
        pursuit = Pursuit(dictionary, y, self.fit_intercept)
        while not (reached := self._reached(pursuit, wanted)) and pursuit.step():
            pass
        size = int(np.argmin(pursuit.loo_errors)) if rule == "loo" else len(pursuit.taken)
        self.path_ = pursuit.path()._replace(means=means[pursuit.taken])
        self.atoms_ = self.path_.atoms[:size]
        self.intercept_, self.coef_ = self.path_.coefficients(size)
        if self.kernel_ is not None:
            self.points_ = X[self.atoms_]
        self.remark_ = pursuit.remark()
        if not reached and rule not in ("cv", "loo"):
            self._warn(size)
        return self

    def predict(self, X) -> np.ndarray:
        """f at points X: (n, d), with the columns that `fit` saw: (n,)."""
        check_is_fitted(self)
        given = X
        X = validate_data(self, X, dtype=np.float64, reset=False)
        level = np.full(len(X), self.intercept_)
        if not len(self.atoms_):
            return level
        if self.kernel_ is not None:
            return level + gram_times(self.kernel_, X, self.points_, self.coef_)
        return level + self._columns(given, X)[:, self.atoms_] @ self.coef_

    @property
    def kernel(self) -> Kernel | None:
        """The dictionary where it is a kernel, None for the default one."""
        return self.dictionary

    # -- what is asked for -------------------------------------------------------------------------

    def _rule(self, n: int) -> int | str | None:
        """A number of atoms, "cv" or "loo"; or None where tol says when to stop."""
        if self.tol is not None:
            if self.n_nonzero is not None:
                raise ValueError(
                    f"n_nonzero={self.n_nonzero!r} and tol={self.tol!r} both say when to stop: "
                    "give one of them."
                )
            if not (np.isreal(self.tol) and np.ndim(self.tol) == 0 and 0.0 <= self.tol < np.inf):
                raise ValueError(f"tol must be a nonnegative number, got {self.tol!r}.")
            return None
        if self.n_nonzero is None:
            return "cv"
        if isinstance(self.n_nonzero, str):
            return validation.one_of("n_nonzero", self.n_nonzero, ["loo", "cv"])
        wanted = validation.positive_integer(self.n_nonzero, "n_nonzero")
        if wanted > n:
            raise ValueError(
                f"n_nonzero={wanted} atoms are wanted of {n} points, which determine no more than "
                'one each. Take fewer, or n_nonzero="cv".'
            )
        return wanted

    def _reached(self, pursuit: Pursuit, wanted: int | str | None) -> bool:
        if wanted is None:
            return pursuit.squares[-1] <= self.tol
        return _settled(pursuit.loo_errors) if wanted == "loo" else len(pursuit.taken) >= wanted

    def _warn(self, size: int) -> None:
        left = self.path_.residual_squares[-1]
        wanted = f"tol={self.tol}" if self.tol is not None else f"n_nonzero={self.n_nonzero} atoms"
        warnings.warn(
            f"{wanted} asked for, but after {size} atoms, with a squared residual of {left:.3g}, "
            f"the dictionary has nothing to add. {self.remark_ or ''}",
            ConvergenceWarning,
            stacklevel=3,
        )

    # -- the dictionary ----------------------------------------------------------------------------

    def _atoms_at(self, given, X) -> np.ndarray:
        """The values of all atoms at the training points: (n, atoms)."""
        self.kernel_ = self.features_ = None
        if self.dictionary is None or isinstance(self.dictionary, Kernel):
            self.kernel_ = self._concrete_kernel(positive_definite=False)
            # Between two sets: an atom is a function of a point, in which there is no white noise.
            atoms = gram(self.kernel_, X, X)
        else:
            if isinstance(self.dictionary, str):
                validation.one_of("dictionary", self.dictionary, ["linear"])
            elif not hasattr(self.dictionary, "transform"):
                raise TypeError(
                    'dictionary must be a kernel, "linear", or a transformer such as '
                    f"PolynomialFeatures(2), got {type(self.dictionary).__name__}."
                )
            else:
                self.features_ = clone(self.dictionary).fit(given)
            atoms = self._columns(given, X)
        validation.finite(atoms, "the dictionary")
        return atoms

    def _columns(self, given, X) -> np.ndarray:
        if self.features_ is None:
            return X
        made = self.features_.transform(given)
        return np.asarray(made.toarray() if issparse(made) else made, dtype=float)

    def _cross_validate(self, dictionary, y) -> np.ndarray:
        """Mean squared errors of left-out rows, after 0, 1, ... atoms."""
        if validation.positive_integer(self.folds, "folds") > len(y):
            raise ValueError(
                f"folds={self.folds} are more than the n_samples = {len(y)} points there are. Take "
                f'at most {len(y)}, or n_nonzero="loo".'
            )
        folds = KFold(self.folds, shuffle=True, random_state=validation.seed(self.seed))
        pursuits = []
        for rows, _ in folds.split(y):
            inside = np.zeros(len(y), bool)
            inside[rows] = True
            # The points of left-out rows are no centres either.
            columns = inside if self.kernel_ is not None else None
            pursuits.append(Pursuit(dictionary, y, self.fit_intercept, inside, columns))
        errors = []
        while True:
            # All folds at once, so that no more steps are taken than are of use.
            errors.append(sum(p.squares_outside() for p in pursuits) / len(y))
            if _settled(errors) or not any([p.step() for p in pursuits]):
                return np.array(errors)


def _settled(errors) -> bool:
    """Whether the lowest error lies so far back that no lower one is to be expected."""
    return len(errors) > 2 * int(np.argmin(errors)) + PATIENCE
