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
    """Sparse regression on a few atoms of a dictionary.

    f(x) = intercept + sum_j b_j phi_j(x) by orthogonal matching pursuit. Each step takes the atom
    phi with the largest (phi'r)^2 / phi'phi for the residual r, and refits all coefficients by
    least squares, with a growing QR factorisation. Atoms that are linearly dependent on the chosen
    atoms, up to rounding, are skipped. Memory holds the dictionary, (n, n) or (n, features), and a
    copy in single precision; each step costs one product with the copy.

    Args:
        dictionary: A kernel, for atoms k(., x_j) at the training points (None means `RBF()`; the
            kernel need not be positive definite); "linear" for the columns of X; or a scikit-learn
            transformer, for the numeric columns that it makes from X.
        n_nonzero: The number of atoms, or how to choose it. "cv" takes the lowest cross-validated
            error, with atoms chosen anew in each fold (a transformer is fitted once). "loo" takes
            the lowest leave-one-out error given the atoms: it needs no refits, but overfits with
            large dictionaries, because all of y chose the atoms. None means "cv" unless `tol` is
            given.
        tol: The value of |r|^2, in the squared units of y, at which to stop, instead of n_nonzero.
        fit_intercept: Whether to fit an intercept; y and the atoms are then centered.
        folds: The number of random folds for "cv".
        seed: The seed of the folds.

    Attributes:
        atoms_: Indices of the chosen training points or columns, in the order of choice, (k,).
        coef_: Their coefficients, (k,).
        intercept_: The intercept; 0 unless `fit_intercept`.
        kernel_: The kernel; None for another dictionary.
        features_: The fitted transformer; None for another dictionary.
        points_: The chosen points, (k, d), where the dictionary is a kernel.
        path_: The `MatchingPath`; with "loo" it is longer than `atoms_`.
        cv_errors_: Cross-validated mean squared errors after 0, 1, ... atoms; only with "cv".
        remark_: A sentence on atoms skipped as linearly dependent, or None.

    References:
        Vincent and Bengio (2002), "Kernel matching pursuit", the variant with back-fitting. Mallat
        and Zhang (1993), "Matching pursuits with time-frequency dictionaries".

    Examples:
        >>> import numpy as np
        >>> from bayeskern.course import KernelMatchingPursuit
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
            ValueError: If X, y or an option is invalid.
            TypeError: If `dictionary` has no accepted type.

        Warns:
            sklearn.exceptions.ConvergenceWarning: If there are fewer independent atoms than
                requested, or too few to reach tol.
        """
        points, targets = self._read_data(X, y, y_numeric=True, ensure_min_samples=2)
        targets = targets.astype(float)
        for name in ("cv_errors_", "points_"):
            # Set by an earlier fit.
            self.__dict__.pop(name, None)
        rule = self._rule(len(points))
        atoms = self._dictionary_atoms(X, points)
        means = np.zeros(atoms.shape[1])
        if self.fit_intercept:
            # Centered, because a column with a large mean is almost collinear with the intercept.
            means = atoms.mean(axis=0)
            atoms = atoms - means
        if isinstance(rule, int) and rule > atoms.shape[1]:
            raise ValueError(
                f"n_nonzero={rule} exceeds the number of atoms of the dictionary, "
                f'{atoms.shape[1]}. Use fewer, or n_nonzero="cv".'
            )
        dictionary, stop = Dictionary(atoms), rule
        if rule == "cv":
            self.cv_errors_ = self._cross_validate(dictionary, targets)
            stop = int(np.argmin(self.cv_errors_))
        pursuit = OrthogonalPursuit(dictionary, targets, self.fit_intercept)
        # "loo" continues until its errors have settled, and then keeps the best number of atoms.
        reached = self._reached(pursuit, stop)
        while not reached and pursuit.step():
            reached = self._reached(pursuit, stop)
        size = int(np.argmin(pursuit.loo_errors)) if rule == "loo" else len(pursuit.taken)
        self.path_ = pursuit.path()._replace(means=means[pursuit.taken])
        self.atoms_ = self.path_.atoms[:size]
        self.intercept_, self.coef_ = self.path_.coefficients(size)
        if self.kernel_ is not None:
            self.points_ = points[self.atoms_]
        self.remark_ = pursuit.remark()
        if not reached and rule not in ("cv", "loo"):
            request = f"n_nonzero={rule}" if isinstance(rule, int) else f"tol={rule:g}"
            warnings.warn(
                f"{request} was requested, but after {size} atoms no other atom reduces the "
                f"squared residual, {pursuit.squares[-1]:.3g}. {self.remark_ or ''}",
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
        intercept = np.full(len(points), self.intercept_)
        if not len(self.atoms_):
            return intercept
        if self.kernel_ is not None:
            return intercept + gram_times(self.kernel_, points, self.points_, self.coef_)
        return intercept + self._columns(X, points)[:, self.atoms_] @ self.coef_

    @property
    def kernel(self) -> Kernel | None:
        """Alias of `dictionary`, required by `KernelEstimator`."""
        return self.dictionary

    # -- when to stop ------------------------------------------------------------------------------

    def _rule(self, n: int) -> int | str | float:
        """The stopping rule: a number of atoms, "cv", "loo", or a tolerance (float)."""
        if self.tol is not None:
            if self.n_nonzero is not None:
                raise ValueError(
                    f"n_nonzero={self.n_nonzero!r} and tol={self.tol!r} both say when to stop: "
                    "give only one."
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
        """True if the stopping rule is met."""
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
            # gram(k, X, X) instead of gram(k, X): atoms contain no white noise.
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
        """The columns of a linear or a transformer dictionary: (n, atoms)."""
        if self.features_ is None:
            return X
        columns = self.features_.transform(original_X)
        return np.asarray(columns.toarray() if issparse(columns) else columns, dtype=float)

    def _cross_validate(self, dictionary: Dictionary, y: np.ndarray) -> np.ndarray:
        """The mean squared errors of left-out rows, after 0, 1, ... atoms."""
        if validation.positive_integer(self.folds, "folds") > len(y):
            raise ValueError(
                f"folds={self.folds} exceeds the number of points, n_samples = {len(y)}. Use at "
                f'most {len(y)} folds, or n_nonzero="loo".'
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
            # Advance all folds together, to stop once their mean error has settled.
            errors.append(sum(p.test_squares() for p in pursuits) / len(y))
            # A list, so that every pursuit takes its step.
            if _settled(errors) or not any([p.step() for p in pursuits]):
                return np.array(errors)


def _settled(errors) -> bool:
    """True if the lowest error, after k atoms, stood for another k + 20 atoms."""
    return len(errors) > 2 * int(np.argmin(errors)) + 20
