"""Points, weights and refits shared by the tests of kernel ridge regression."""

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import LeaveOneOut

RNG = np.random.default_rng(5)
N = 30
X = RNG.normal(size=(N, 2))
Y = np.stack([np.sin(2.0 * X[:, 0]) + X[:, 1], 5.0 + X[:, 0] * X[:, 1]], 1)
Y = Y + 0.1 * RNG.normal(size=Y.shape)
y = Y[:, 0]
W = RNG.uniform(0.2, 3.0, size=N)
NEW = RNG.normal(size=(6, 2))


def refits(estimator, X, y, weights=None):
    """Leave-one-out predictions, the honest way."""
    weights = np.ones(len(X)) if weights is None else weights
    predictions = []
    for train, (i,) in LeaveOneOut().split(X):
        fitted = clone(estimator).fit(X[train], y[train], sample_weight=weights[train])
        predictions.append(fitted.predict(X[[i]])[0])
    return np.array(predictions)
