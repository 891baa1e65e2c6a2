"""Answers of several kinds to one linear predictor, which the tests of GLMs share."""

import numpy as np
from scipy import stats
from scipy.special import expit

import bayeskern as bk

rng = np.random.default_rng(0)
N = 300
X = rng.normal(size=(N, 2)) * [0.6, 6.0] + [0.0, 20.0]
ETA = 0.4 + X @ [1.0, 0.05] - 1.0


def fit(model, X, y, method="laplace", **options):
    return bk.infer(model, X, y, method=method, progress=False, **options)


THREE = np.digitize(ETA + stats.logistic.ppf(rng.uniform(size=N)), [-0.5, 1.0])
EXPOSURE = rng.uniform(0.5, 4.0, N)
UNIFORM = rng.uniform(size=N)
POISSON = stats.poisson(EXPOSURE * np.exp(ETA)).ppf(UNIFORM)
BINARY = (expit(ETA) > UNIFORM).astype(float)
TRIALS = 7.0
NEGATIVE = stats.nbinom(4.0, 4.0 / (4.0 + 3.0 * np.exp(ETA))).ppf(UNIFORM)
SUCCESSES = stats.binom(7, expit(ETA)).ppf(UNIFORM)

FEW = 60
BASE = rng.normal(size=(FEW, 1))
COLLINEAR = np.column_stack([BASE, BASE + 0.03 * rng.normal(size=(FEW, 1)), rng.normal(size=FEW)])
