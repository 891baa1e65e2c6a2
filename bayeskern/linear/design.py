"""From the data that people have to a matrix of features, and the same again for new data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from bayeskern.core import validation


class Aside:
    """Carries a value past compilation: two of them are always equal.

    For what a model keeps for later and no traced function ever looks at.
    """

    def __init__(self, value):
        self.value = value

    def __eq__(self, other):
        return isinstance(other, Aside)

    def __hash__(self):
        return hash(Aside)


@dataclass(frozen=True, eq=False)
class Design:
    """How features are made: from which columns, by which fitted transformer (None: as they are).

    columns: of the data frame it was fitted to, None for an array; width: how many columns it had;
    names: of the features.
    """

    transformer: Any
    columns: tuple[str, ...] | None
    width: int
    names: tuple[str, ...]

    @classmethod
    def fit(cls, features, X) -> tuple[Design, np.ndarray]:
        """Learn what the transformer has to learn, and the features of X: (n, p)."""
        if features is None:
            X, columns = _numbers(X, "X")
            names = columns or tuple(f"x{i}" for i in range(X.shape[1]))
            return cls(None, columns, X.shape[1], names), X
        if not hasattr(features, "transform") or isinstance(features, type):
            raise TypeError(
                "features must be a scikit-learn transformer, such as PolynomialFeatures(2) or "
                f"bayeskern.kernels.NystromFeatures(kernel); got {features!r}."
            )
        # Here, since scikit-learn takes a while to import.
        from sklearn.base import clone

        X = _rows(X, "X")
        transformer = clone(features).fit(X)
        columns = tuple(map(str, X.columns)) if hasattr(X, "columns") else None
        found = cls(transformer, columns, X.shape[1], ())
        made = found._made(X, "X")
        return cls(transformer, columns, X.shape[1], _names(transformer, made.shape[1])), made

    def __call__(self, X, name: str = "X_new") -> np.ndarray:
        """The features of new rows: (m, p)."""
        if self.transformer is not None:
            X = _rows(X, name)
            if self.columns is not None and hasattr(X, "columns"):
                validation.has_columns(name, X.columns, self.columns)
            return self._made(X, name)
        X, _ = _numbers(X, name, self.columns)
        if X.shape[1] != self.width:
            raise ValueError(
                f"{name} has {X.shape[1]} columns but the model was fitted to {self.width}; give "
                "the same columns in the same order."
            )
        validation.finite(X, name)
        return X

    def _made(self, X, name) -> np.ndarray:
        made = self.transformer.transform(X)
        made = made.toarray() if hasattr(made, "toarray") else np.asarray(made)
        if made.dtype.kind not in "biuf":
            raise ValueError(
                f"features made {made.dtype} of {name}, not numbers. Encode text, for example with "
                "scikit-learn's OneHotEncoder."
            )
        made = made.astype(float, copy=False)
        validation.finite(made, f"the features of {name}")
        return made


def _names(transformer, p: int) -> tuple[str, ...]:
    try:
        return tuple(map(str, transformer.get_feature_names_out()))
    except (AttributeError, ValueError):
        return tuple(f"feature{i}" for i in range(p))


def _rows(X, name: str):
    """A data frame as it is; anything else as an array of rows."""
    if hasattr(X, "columns"):
        return X
    X = np.asarray(X)
    if X.ndim not in (1, 2) or 0 in X.shape:
        raise ValueError(f"{name} must have shape (n,) or (n, d) and a row, got shape {X.shape}.")
    return X[:, None] if X.ndim == 1 else X


def _numbers(X, name: str, wanted=None) -> tuple[np.ndarray, tuple[str, ...] | None]:
    """As `checks.inputs`, without a copy of an array that is large and float64 already."""
    if isinstance(X, np.ndarray) and X.dtype == float and X.ndim == 2 and 0 not in X.shape:
        return X, None
    X, columns = validation.inputs(X, name, wanted)
    return np.asarray(X), columns
