"""Design matrices: features of the data, and the same features of new data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from bayeskern.core import validation
from bayeskern.core.frames import has_columns


class OpaqueStatic:
    """Static field that never causes recompilation: all instances compare equal.

    JAX reuses a compiled function for any value, so a traced function must not depend on it.
    """

    def __init__(self, value):
        self.value = value

    def __eq__(self, other):
        return isinstance(other, OpaqueStatic)

    def __hash__(self):
        return hash(OpaqueStatic)


def as_opaque(value) -> OpaqueStatic:
    """Wrap a value, unless it is wrapped already."""
    return value if isinstance(value, OpaqueStatic) else OpaqueStatic(value)


@dataclass(frozen=True, eq=False)
class Design:
    """A fitted transformer from data to features.

    Attributes:
        transformer: The fitted scikit-learn transformer; None if the columns are the features.
        columns: The columns of the data frame of the fit; None for an array.
        width: The number of columns of the fit.
        names: The names of the features.
    """

    transformer: Any
    columns: tuple[str, ...] | None
    width: int
    names: tuple[str, ...]

    @classmethod
    def fit(cls, features: Any, X: Any) -> tuple[Design, np.ndarray]:
        """Fit a transformer (None: use the columns), and compute the features of X (n, p)."""
        if features is None:
            X, columns = _read_matrix(X, "X")
            names = columns or tuple(f"x{i}" for i in range(X.shape[1]))
            return cls(None, columns, X.shape[1], names), X
        if not hasattr(features, "transform") or isinstance(features, type):
            raise TypeError(
                "features must be a scikit-learn transformer, such as PolynomialFeatures(2) or "
                f"bayeskern.kernels.NystromFeatures(kernel); got {features!r}. For a function or "
                "trainable network phi, use GPRegression or LatentGP with the kernel of "
                "kernel_from_features(phi, weights=...)."
            )
        # Imported here, because scikit-learn takes long to import.
        from sklearn.base import clone

        X = _read_rows(X, "X")
        transformer: Any = clone(features)
        transformer = transformer.fit(X)
        columns = tuple(map(str, X.columns)) if hasattr(X, "columns") else None
        feature_matrix = _transform(transformer, X, "X")
        names = _feature_names(transformer, feature_matrix.shape[1])
        return cls(transformer, columns, X.shape[1], names), feature_matrix

    def __call__(self, X: Any, name: str = "X_new") -> np.ndarray:
        """Compute the features of new rows: (m, p)."""
        if self.transformer is not None:
            X = _read_rows(X, name)
            if self.columns is not None and hasattr(X, "columns"):
                has_columns(name, X.columns, self.columns)
            return _transform(self.transformer, X, name)
        X, _ = _read_matrix(X, name, self.columns)
        if X.shape[1] != self.width:
            raise ValueError(
                f"{name} has {X.shape[1]} columns but the model was fitted to {self.width}; give "
                "the same columns in the same order."
            )
        validation.finite(X, name)
        return X


def _transform(transformer: Any, X: Any, name: str) -> np.ndarray:
    """Features of X from a fitted transformer, checked to be finite floats."""
    features = transformer.transform(X)
    features = features.toarray() if hasattr(features, "toarray") else np.asarray(features)
    if features.dtype.kind not in "biuf":
        raise ValueError(
            f"the features of {name} have dtype {features.dtype}, not numbers. Encode text, for "
            "example with scikit-learn's OneHotEncoder."
        )
    features = features.astype(float, copy=False)
    validation.finite(features, f"the features of {name}")
    return features


def _feature_names(transformer, p: int) -> tuple[str, ...]:
    try:
        return tuple(map(str, transformer.get_feature_names_out()))
    except (AttributeError, ValueError):
        return tuple(f"feature{i}" for i in range(p))


def _read_rows(X: Any, name: str) -> Any:
    """Read X: a data frame unchanged, anything else as an array (n, d)."""
    if hasattr(X, "columns"):
        return X
    X = np.asarray(X)
    if X.ndim not in (1, 2) or 0 in X.shape:
        raise ValueError(
            f"{name} must have shape (n,) or (n, d) and must not be empty, got shape {X.shape}."
        )
    return X[:, None] if X.ndim == 1 else X


def _read_matrix(X: Any, name: str, columns=None) -> tuple[np.ndarray, tuple[str, ...] | None]:
    """Read X like `validation.inputs`, but without copying a float64 array."""
    if isinstance(X, np.ndarray) and X.dtype == float and X.ndim == 2 and 0 not in X.shape:
        return X, None
    X, columns = validation.inputs(X, name, columns)
    return np.asarray(X), columns
