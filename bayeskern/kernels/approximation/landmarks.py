"""Selection of landmarks for the Nystrom approximation.

Each function takes a kernel, points X (n, d), the number of landmarks m and a seed, and returns
the landmarks (m, d). It returns fewer if X has fewer than m distinct points; `random`, which may
select equal points, if X has fewer than m rows. Kumar, Mohri and Talwalkar (2012) compare the
methods.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from sklearn.cluster import KMeans

from bayeskern.kernels.base import Kernel
from bayeskern.kernels.gram_matrix import diagonal, gram

EPS = np.finfo(float).eps
# Leverage and greedy selection use a random subset of the points if a matrix of shape
# (points, landmarks) would have more entries than this.
MAX_MATRIX_ENTRIES = 32_000_000


def kmeans(kernel: Kernel, X: np.ndarray, m: int, seed: int) -> np.ndarray:
    """Centers of k-means on X. Zhang, Tsang and Kwok (2008)."""
    distinct = np.unique(X, axis=0)
    if m >= len(distinct):
        return distinct
    # A random subset is enough: k-means needs no more than 20 points for each center.
    points = _subsample(X, max(20 * m, 10_000), seed)
    model = KMeans(m, n_init=1, random_state=seed)  # pyright: ignore[reportArgumentType]
    return model.fit(points).cluster_centers_


def random(kernel: Kernel, X: np.ndarray, m: int, seed: int) -> np.ndarray:
    """Rows of X, all equally likely. Williams and Seeger (2001)."""
    return _subsample(X, m, seed)


def leverage(kernel: Kernel, X: np.ndarray, m: int, seed: int) -> np.ndarray:
    """Random rows of X, with probabilities proportional to ridge leverage scores.

    The scores [K (K + a I)^-1]_ii are replaced by upper bounds from a uniform sample S,
    (k_ii - k_iS (K_SS + a I)^-1 k_Si) / a, where a is the trace of K - K_XS K_SS^-1 K_SX
    divided by the number of landmarks. Musco and Musco (2017), lemma 6.
    """
    X = _subsample(np.unique(X, axis=0), MAX_MATRIX_ENTRIES // m, seed)
    if m >= len(X):
        return X
    rng = np.random.default_rng([seed, 1])
    S = X[rng.choice(len(X), m, replace=False)]
    K_SS, K_XS = gram(kernel, S, S), gram(kernel, X, S)
    variances = diagonal(kernel, X)
    K_SS[np.diag_indices(m)] += m * EPS * np.mean(np.diagonal(K_SS))
    ridge = np.sum(np.maximum(_conditional_variances(variances, K_XS, K_SS), 0.0)) / m
    K_SS[np.diag_indices(m)] += ridge
    scores = _conditional_variances(variances, K_XS, K_SS)
    scores = np.clip(scores, EPS * np.max(variances), None)
    return X[rng.choice(len(X), m, replace=False, p=scores / np.sum(scores))]


def greedy(kernel: Kernel, X: np.ndarray, m: int, seed: int) -> np.ndarray:
    """Rows of X, each with the largest variance given the previously selected rows.

    They are the pivots of a Cholesky factorisation, which stops after m columns, or when the
    remaining variances are rounding errors. Fine and Scheinberg (2001).
    """
    X = _subsample(X, MAX_MATRIX_ENTRIES // m, seed)
    m = min(m, len(X))
    variances = diagonal(kernel, X)
    rounding = len(X) * EPS * np.max(variances)
    L = np.empty((m, len(X)))
    pivots = []
    for j in range(m):
        i = int(np.argmax(variances))
        if j and variances[i] <= rounding:
            break
        column = gram(kernel, X[[i]], X)[0] - L[:j, i] @ L[:j]
        L[j] = column / np.sqrt(variances[i] or 1.0)
        variances -= np.square(L[j])
        variances[i] = 0.0
        pivots.append(i)
    return X[pivots]


SELECTIONS = {"kmeans": kmeans, "random": random, "leverage": leverage, "greedy": greedy}


def _conditional_variances(variances, K_XS, K_SS):
    """diag(k(X, X) - k(X, S) K_SS^-1 k(S, X))."""
    return variances - np.sum(K_XS * cho_solve(cho_factor(K_SS), K_XS.T).T, axis=1)


def _subsample(X, size: int, seed: int) -> np.ndarray:
    if size >= len(X):
        return X
    return X[np.random.default_rng(seed).choice(len(X), size, replace=False)]
