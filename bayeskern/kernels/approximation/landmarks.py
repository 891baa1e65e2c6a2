"""Which points are to stand for many: landmarks of the Nystrom approximation.

Kumar, Mohri and Talwalkar (2012) compare such choices.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from sklearn.cluster import KMeans

from bayeskern.kernels.estimator import diagonal, gram

EPS = np.finfo(float).eps
# What looks at more than the points themselves looks at a random part of many: as many candidates
# as make a matrix (candidates, landmarks) with so many entries.
ENTRIES = 32_000_000
# k-means needs no more than so many points for each centre.
POINTS = 20


def kmeans(kernel, X, wanted: int, seed: int) -> np.ndarray:
    """Centres that k-means finds in X. Zhang, Tsang and Kwok (2008)."""
    distinct = np.unique(X, axis=0)
    if wanted >= len(distinct):
        return distinct
    points = _candidates(X, max(POINTS * wanted, 10_000), seed)
    return KMeans(wanted, n_init=1, random_state=seed).fit(points).cluster_centers_


def random(kernel, X, wanted: int, seed: int) -> np.ndarray:
    """Rows of X, all as likely as one another. Williams and Seeger (2001)."""
    return _candidates(X, wanted, seed)


def leverage(kernel, X, wanted: int, seed: int) -> np.ndarray:
    """Rows of X, those more often that the others say little about.

    The ridge leverage scores [K (K + a I)^-1]_ii are bounded from above by those of a uniform
    sample S, (k_ii - k_iS (K_SS + a I)^-1 k_Si) / a. Here a is the sum of what S leaves out of K,
    shared among the landmarks. Musco and Musco (2017), lemma 6.
    """
    X = _candidates(np.unique(X, axis=0), ENTRIES // wanted, seed)
    if wanted >= len(X):
        return X
    rng = np.random.default_rng([seed, 1])
    S = X[rng.choice(len(X), wanted, replace=False)]
    K, across = gram(kernel, S, S), gram(kernel, X, S)
    own = diagonal(kernel, X)
    K[np.diag_indices(wanted)] += wanted * EPS * np.mean(np.diagonal(K))
    ridge = np.sum(np.maximum(_left(K, across, own), 0.0)) / wanted
    K[np.diag_indices(wanted)] += ridge
    scores = np.clip(_left(K, across, own), EPS * np.max(own), None)
    return X[rng.choice(len(X), wanted, replace=False, p=scores / np.sum(scores))]


def greedy(kernel, X, wanted: int, seed: int) -> np.ndarray:
    """Rows of X, each the one that those before it say least about.

    A Cholesky factorisation with pivots, stopped after so many columns, or where what is left is
    rounding. Fine and Scheinberg (2001).
    """
    X = _candidates(X, ENTRIES // wanted, seed)
    wanted = min(wanted, len(X))
    left = diagonal(kernel, X)
    floor = len(X) * EPS * np.max(left)
    columns = np.empty((wanted, len(X)))
    chosen = []
    for j in range(wanted):
        i = int(np.argmax(left))
        if j and left[i] <= floor:
            break
        column = gram(kernel, X[[i]], X)[0] - columns[:j, i] @ columns[:j]
        columns[j] = column / np.sqrt(left[i] or 1.0)
        left -= np.square(columns[j])
        left[i] = 0.0
        chosen.append(i)
    return X[chosen]


SELECTIONS = {"kmeans": kmeans, "random": random, "leverage": leverage, "greedy": greedy}


def _left(K, across, own):
    """diag(k(X, X) - k(X, S) K^-1 k(S, X))."""
    return own - np.sum(across * cho_solve(cho_factor(K), across.T).T, axis=1)


def _candidates(X, most: int, seed: int) -> np.ndarray:
    if most >= len(X):
        return X
    return X[np.random.default_rng(seed).choice(len(X), most, replace=False)]
