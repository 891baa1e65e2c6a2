"""Base class of the transformers: reads points and column names like scikit-learn."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from bayeskern.core import validation


class FeatureTransformer(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator, ABC):
    """A feature map phi that is learned from points and a seed.

    A subclass has the parameter `seed` and defines two methods: `_fit` learns the map and sets
    `_n_features_out`, and `_features` computes the features.
    """

    seed: int

    def fit(self, X: ArrayLike, y: object = None) -> Self:
        """Learn the map from points.

        Args:
            X: Points, shape (n, d), or a data frame.
            y: Ignored; accepted for scikit-learn's pipelines.

        Returns:
            The transformer itself.
        """
        points = np.asarray(validate_data(self, X, dtype=np.float64))  # pyright: ignore[reportArgumentType]
        self._fit(points, validation.seed(self.seed))
        return self

    def transform(self, X: ArrayLike) -> np.ndarray:
        """Features phi(X).

        Args:
            X: Points, shape (n, d), with the columns that `fit` saw.

        Returns:
            Array of shape (n, m).
        """
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, reset=False)  # pyright: ignore[reportArgumentType]
        return self._features(np.asarray(X))

    @abstractmethod
    def _fit(self, X: np.ndarray, seed: int) -> None:
        """Learn the map from points (n, d), and set the number of features `_n_features_out`."""

    @abstractmethod
    def _features(self, X: np.ndarray) -> np.ndarray:
        """phi(X), (n, m), for points (n, d)."""

    def _read_centers(self, name: str, points: ArrayLike, X: np.ndarray) -> np.ndarray:
        """Points that the user passed, with the columns of X in their order."""
        names = getattr(self, "feature_names_in_", None)
        points = np.asarray(validation.inputs(points, name, names)[0])
        if points.shape[1] != X.shape[1]:
            raise ValueError(
                f"{name} have {points.shape[1]} columns but X has {X.shape[1]}; they must match."
            )
        return points
