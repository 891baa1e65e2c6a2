"""Kernel matching pursuit: sparse regression on a few atoms of a dictionary."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import issparse
from sklearn.base import RegressorMixin, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import KFold

from bayeskern.core import validation
from bayeskern.course.orthogonal_pursuit import Dictionary, OrthogonalPursuit
from bayeskern.kernels.base import Kernel
from bayeskern.kernels.estimator import KernelEstimator
from bayeskern.kernels.gram_matrix import gram, gram_times


@dataclass(eq=False, repr=False)
class KernelMatchingPursuit(RegressorMixin, KernelEstimator):
    """Sparse regression f(x) = intercept + sum_j b_j phi_j(x) on few atoms of a dictionary.

    Orthogonal matching pursuit: each step takes the atom phi with the largest (phi'r)^2 / phi'phi
    for the residual r, and refits all coefficients by least squares, with a growing QR
    factorisation. Atoms that depend on the chosen ones, to rounding, are left out. The dictionary
    is an array of shape (n, n) or (n, features), and a copy in single precision; a step costs one
    product with the copy.

    Args:
        dictionary: A kernel, for atoms k(., x_j) at the training points (None means `RBF()`; the
            kernel need not be positive definite); "linear" for the columns of X; or a scikit-learn
            transformer for the columns it makes of X, which must be numbers.
        n_nonzero: The number of atoms; "cv", the number with the least cross-validated error, where
            atoms are chosen again in each fold (a transformer is fitted once); or "loo", the number
            with the least leave-one-out error given the atoms. "loo" costs nothing, but overfits in
            large dictionaries, since the atoms were chosen with all of y. None means "cv" unless
            `tol` is given.
        tol: The value of |r|^2, in the squared units of y, at which to stop; in place of n_nonzero.
        fit_intercept: Whether to fit an intercept, around which y and all atoms are centered.
        folds: The number of random folds for "cv".
        seed: The seed of the folds.

    Attributes:
        atoms_: The chosen training points or columns, in order, (k,).
        coef_: Their coefficients, (k,).
        intercept_: The intercept; 0 unless `fit_intercept`.
        kernel_: The kernel; None for another dictionary.
        features_: The fitted transformer; None for another dictionary.
        points_: The chosen points, (k, d), where the dictionary is a kernel.
        path_: The `MatchingPath`; with "loo" it is longer than `atoms_`.
        cv_errors_: Mean squared errors from 0 atoms on, with "cv".
        remark_: A sentence on atoms that were left out, or None.

    References:
        Vincent and Bengio (2002), "Kernel matching pursuit", the variant with back-fitting. Mallat
        and Zhang (1993), "Matching pursuits with time-frequency dictionaries".

    Examples:
        >>> import numpy as np
        >>> from bayeskern.ridge import KernelMatchingPursuit
        >>> X = np.random.default_rng(0).normal(size=(50, 6))
        >>> y = 2.0 * X[:, 4] - X[:, 1]
        >>> pursuit = KernelMatchingPursuit("linear", n_nonzero=2).fit(X, y)
        >>> pursuit.atoms_, pursuit.coef_.round(6)
        (array([4, 1]), array([ 2., -1.]))
    """

    dictionary: Any = None
    n_nonzero: int | str | None = None
    tol: float | None = None
    fit_intercept: bool = False
    folds: int = 5
    seed: int = 0

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Choose atoms and fit their coefficients.

        Args:
            X: Points, (n, d), or a data frame.
            y: Targets, (n,).

        Returns:
            The estimator.

        Raises:
            ValueError: For bad input.
            TypeError: If the dictionary is not one of the above.

        Warns:
            sklearn.exceptions.ConvergenceWarning: If there are fewer independent atoms than
                requested, or too few to reach tol.
        """
        points, targets = self._read_data(X, y, y_numeric=True, ensure_min_samples=2)
        targets = targets.astype(float)
        for name in ("cv_errors_", "points_"):
            # An earlier fit may have set it.
            self.__dict__.pop(name, None)
        rule = self._rule(len(points))
        atoms = self._dictionary_atoms(X, points)
        means = np.zeros(atoms.shape[1])
        if self.fit_intercept:
            # A column far from 0 is numerically close to a constant.
            means = atoms.mean(axis=0)
            atoms = atoms - means
        if isinstance(rule, int) and rule > atoms.shape[1]:
            raise ValueError(
                f"n_nonzero={rule} is more than the dictionary has atoms, {atoms.shape[1]}. "
                'Take fewer, or n_nonzero="cv".'
            )
        dictionary, stop = Dictionary(atoms), rule
        if rule == "cv":
            self.cv_errors_ = self._cross_validate(dictionary, targets)
            stop = int(np.argmin(self.cv_errors_))
        pursuit = OrthogonalPursuit(dictionary, targets, self.fit_intercept)
        while not (reached := self._reached(pursuit, stop)) and pursuit.step():
            pass
        size = int(np.argmin(pursuit.loo_errors)) if rule == "loo" else len(pursuit.taken)
        self.path_ = pursuit.path()._replace(means=means[pursuit.taken])
        self.atoms_ = self.path_.atoms[:size]
        self.intercept_, self.coef_ = self.path_.coefficients(size)
        if self.kernel_ is not None:
            self.points_ = points[self.atoms_]
        self.remark_ = pursuit.remark()
        if not reached and rule not in ("cv", "loo"):
            asked = f"n_nonzero={rule} atoms" if isinstance(rule, int) else f"tol={rule:g}"
            warnings.warn(
                f"{asked} asked for, but after {size} atoms, with a squared residual of "
                f"{pursuit.squares[-1]:.3g}, no other atom adds anything. {self.remark_ or ''}",
                ConvergenceWarning,
                stacklevel=2,
            )
        return self

    def predict(self, X: ArrayLike) -> np.ndarray:
        """Predict f.

        Args:
            X: Points, (m, d), with the columns that `fit` saw.

        Returns:
            f(X), (m,).
        """
        points = self._read_points(X)
        level = np.full(len(points), self.intercept_)
        if not len(self.atoms_):
            return level
        if self.kernel_ is not None:
            return level + gram_times(self.kernel_, points, self.points_, self.coef_)
        return level + self._columns(X, points)[:, self.atoms_] @ self.coef_

    @property
    def kernel(self) -> Kernel | None:
        """The dictionary, under the name that the base class knows."""
        return self.dictionary

    # -- when to stop ------------------------------------------------------------------------------

    def _rule(self, n: int) -> int | str | float:
        """The number of atoms, "cv" or "loo"; or the tolerance, a float."""
        if self.tol is not None:
            if self.n_nonzero is not None:
                raise ValueError(
                    f"n_nonzero={self.n_nonzero!r} and tol={self.tol!r} both say when to stop: "
                    "give one of them."
                )
            return validation.positive(self.tol, "tol", zero=True)
        if self.n_nonzero is None:
            return "cv"
        if isinstance(self.n_nonzero, str):
            return validation.one_of("n_nonzero", self.n_nonzero, ["loo", "cv"])
        n_nonzero = validation.positive_integer(self.n_nonzero, "n_nonzero")
        if n_nonzero > n:
            raise ValueError(
                f"n_nonzero={n_nonzero} is more than the number of points, {n}. Take fewer, or "
                'n_nonzero="cv".'
            )
        return n_nonzero

    def _reached(self, pursuit: OrthogonalPursuit, stop: int | str | float) -> bool:
        if isinstance(stop, float):
            return pursuit.squares[-1] <= stop
        return len(pursuit.taken) >= stop if isinstance(stop, int) else _settled(pursuit.loo_errors)

    # -- the dictionary ----------------------------------------------------------------------------

    def _dictionary_atoms(self, original_X, X) -> np.ndarray:
        """The values of all atoms at the training points: (n, atoms)."""
        self.kernel_ = None
        self.features_: Any = None
        if self.dictionary is None or isinstance(self.dictionary, Kernel):
            self.kernel_ = self._concrete_kernel(positive_definite=False)
            # Between two sets: an atom is a function of a point, without white noise.
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
                self.features_ = clone(self.dictionary)
                self.features_.fit(original_X)
            atoms = self._columns(original_X, X)
        validation.finite(atoms, "the dictionary")
        return atoms

    def _columns(self, original_X, X: np.ndarray) -> np.ndarray:
        """The columns of a dictionary that is not a kernel: (n, atoms)."""
        if self.features_ is None:
            return X
        columns = self.features_.transform(original_X)
        return np.asarray(columns.toarray() if issparse(columns) else columns, dtype=float)

    def _cross_validate(self, dictionary: Dictionary, y: np.ndarray) -> np.ndarray:
        """The mean squared errors of left-out rows, after 0, 1, ... atoms."""
        if validation.positive_integer(self.folds, "folds") > len(y):
            raise ValueError(
                f"folds={self.folds} are more than the n_samples = {len(y)} points there are. Take "
                f'at most {len(y)}, or n_nonzero="loo".'
            )
        folds = KFold(self.folds, shuffle=True, random_state=validation.seed(self.seed))
        pursuits = []
        for rows, _ in folds.split(y):
            train = np.zeros(len(y), bool)
            train[rows] = True
            # Only points of the training folds are centers of atoms.
            columns = train if self.kernel_ is not None else None
            pursuits.append(OrthogonalPursuit(dictionary, y, self.fit_intercept, train, columns))
        errors = []
        while True:
            # All folds in step, to stop as soon as their common error has settled.
            errors.append(sum(p.test_squares() for p in pursuits) / len(y))
            if _settled(errors) or not any([p.step() for p in pursuits]):
                return np.array(errors)


def _settled(errors) -> bool:
    """True if the error was lowest after k atoms, and higher up to 2 k + 20 atoms."""
    return len(errors) > 2 * int(np.argmin(errors)) + 20
