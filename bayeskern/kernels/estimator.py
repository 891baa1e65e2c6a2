"""Base classes of scikit-learn estimators that hold a kernel."""

from __future__ import annotations

from typing import Self

import numpy as np
from numpyro.distributions import Distribution
from sklearn.base import BaseEstimator
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from bayeskern.core.frames import with_numbered_levels
from bayeskern.hyperparameters import Free
from bayeskern.kernels.base import Kernel
from bayeskern.kernels.families.rbf import RBF
from bayeskern.kernels.gram_matrix import gram_times

# scikit-learn's prefix for parameters nested in `kernel`.
KERNEL_PREFIX = "kernel__"


class KernelEstimator(BaseEstimator):
    """A scikit-learn estimator with a parameter `kernel`; None stands for RBF().

    Hyperparameters of the kernel are parameters too: `kernel__lengthscale`, or
    `kernel__season.period` for a component named "season".
    """

    #: columns of the data frame of `fit`, with the levels of text
    _frame_columns: tuple[str, ...] | None = None

    def get_params(self, deep: bool = True) -> dict:
        """Parameters by name; with `deep`, the hyperparameters of the kernel too."""
        params = super().get_params(deep)
        kernel = RBF() if self.kernel is None else self.kernel
        if deep and isinstance(kernel, Kernel):
            params |= {f"{KERNEL_PREFIX}{name}": v for name, v in kernel.hyperparameters().items()}
        return params

    def set_params(self, **params) -> Self:
        """Set parameters; hyperparameters are set in a copy of the kernel.

        Raises:
            ValueError: A name is unknown, or a value is not allowed.
        """
        inner = {name: v for name, v in params.items() if name.startswith(KERNEL_PREFIX)}
        super().set_params(**{name: v for name, v in params.items() if name not in inner})
        if inner:
            kernel = RBF() if self.kernel is None else self.kernel
            if not isinstance(kernel, Kernel):
                raise ValueError(f"{', '.join(inner)}: kernel={kernel!r} has no such parameters.")
            values = {name.removeprefix(KERNEL_PREFIX): v for name, v in inner.items()}
            self.kernel = kernel.at(values)
        return self

    def _read_data(self, X, y, **options) -> tuple[np.ndarray, np.ndarray]:
        """Points (n, d) and targets, checked by `validate_data` with these options.

        Text of data frames becomes the numbers of its levels, those of `fit`.
        """
        if hasattr(X, "columns"):
            known = None if options.get("reset", True) else self._frame_columns
            X, self._frame_columns = with_numbered_levels(X, "X", known)
        elif options.get("reset", True):
            self._frame_columns = None
        return validate_data(self, X, y, dtype=np.float64, **options)  # pyright: ignore[reportReturnType]

    def _read_points(self, X) -> np.ndarray:
        """Points (m, d) for a fitted estimator, with the columns that `fit` saw."""
        check_is_fitted(self)
        if hasattr(X, "columns"):
            X, _ = with_numbered_levels(X, "X", self._frame_columns or ())
        return validate_data(self, X, dtype=np.float64, reset=False)  # pyright: ignore[reportReturnType]

    def _concrete_kernel(self, positive_definite: bool = True, allow_free: bool = False) -> Kernel:
        """The kernel, with column names replaced by their indices in the data of `fit`.

        Raises TypeError unless its hyperparameters are numbers (or `Free`, if `allow_free`), and
        ValueError if it is not positive definite (unless positive_definite is False).
        """
        kernel = RBF() if self.kernel is None else self.kernel
        if not isinstance(kernel, Kernel):
            raise TypeError(
                f"kernel must be a bayeskern kernel, such as RBF(), got {type(kernel).__name__}."
            )
        names = getattr(self, "feature_names_in_", None)
        columns = None if names is None else tuple(map(str, names))
        kernel = kernel.resolve(self._frame_columns or columns)
        refused = Distribution if allow_free else Distribution | Free
        unset = [n for n, v in kernel.hyperparameters().items() if isinstance(v, refused)]
        if unset:
            raise TypeError(
                f"{', '.join(unset)} of {kernel!r} have no value yet, but {type(self).__name__} "
                "needs a kernel of numbers. Set them to numbers, or pass a fitted kernel, "
                'kernel.at(posterior.point("mean")). KernelRidge(optimize="loo") estimates '
                "hyperparameters marked Free(start)."
            )
        if positive_definite:
            for node in kernel.nodes():
                if isinstance(node, Kernel) and not node.positive_definite:
                    raise ValueError(
                        f"{node!r} is not positive definite, as {type(self).__name__} requires. "
                        "Use InverseMultiquadric instead; KernelRidge also accepts Multiquadric."
                    )
        return kernel


class KernelExpansion(KernelEstimator):
    """A kernel expansion f = sum_i b_i k(., x_i) + c over the training points.

    A fitted estimator has `kernel_`, points `X_fit_` (n, d), coefficients `dual_coef_` b, (n,) or
    (n, k) for k functions, and `intercept_` c, a number or (k,).
    """

    kernel_: Kernel
    X_fit_: np.ndarray
    dual_coef_: np.ndarray
    intercept_: float | np.ndarray

    def _values(self, X) -> np.ndarray:
        """f(X): (m,) or (m, k), for X: (m, d) with the columns that `fit` saw."""
        return self._evaluate(self._read_points(X))

    def _evaluate(self, X: np.ndarray) -> np.ndarray:
        return gram_times(self.kernel_, X, self.X_fit_, self.dual_coef_) + self.intercept_


def read_weights(sample_weight, X) -> np.ndarray:
    """Sample weights (n,), at least 0 and not all 0; 1 if `sample_weight` is None."""
    return _check_sample_weight(
        sample_weight, X, dtype=np.float64, ensure_non_negative=True, copy=True
    )
