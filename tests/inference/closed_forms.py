"""Models with closed-form posterior and evidence, and two plain regressions for checkpoints."""

from functools import cached_property

import numpy as np
import numpyro
import numpyro.distributions as dist
from scipy import stats
from scipy.special import betaln

NOISE, PRIOR_SD = 0.5, 2.0


def regression(X, y=None):
    """Linear regression with known noise."""
    w = numpyro.sample("w", dist.Normal(0.0, PRIOR_SD).expand([X.shape[1]]).to_event(1))
    with numpyro.plate("rows", len(X)):
        numpyro.sample("y", dist.Normal(X @ w, NOISE), obs=y)


class Regression:
    """Data of `regression` with correlated columns, and its posterior N(mean, covariance)."""

    def __init__(self, seed=0, n=40):
        rng = np.random.default_rng(seed)
        self.X = rng.normal(size=(n, 3)) @ [[1.0, 0.8, 0.0], [0.0, 0.6, 0.0], [0.0, 0.0, 3.0]]
        self.y = self.X @ [1.0, -2.0, 0.5] + NOISE * rng.normal(size=n)
        self.data = self.X, self.y
        self.precision = self.X.T @ self.X / NOISE**2 + np.eye(3) / PRIOR_SD**2
        self.covariance = np.linalg.inv(self.precision)
        self.mean = self.covariance @ self.X.T @ self.y / NOISE**2
        self.sd = np.sqrt(np.diag(self.covariance))

    @cached_property
    def log_evidence(self):
        marginal = PRIOR_SD**2 * self.X @ self.X.T + NOISE**2 * np.eye(len(self.y))
        return stats.multivariate_normal(np.zeros(len(self.y)), marginal).logpdf(self.y)


HEADS = np.array([1, 0, 0, 1, 1, 1, 0, 1, 1, 1])


def coin(heads):
    """A coin with a Beta(2, 3) prior; returns p."""
    p = numpyro.sample("p", dist.Beta(2.0, 3.0))
    numpyro.sample("heads", dist.Bernoulli(p), obs=heads)
    return p


# The posterior of p given HEADS, and log p(HEADS).
COIN = stats.beta(9.0, 6.0)
COIN_LOG_EVIDENCE = betaln(9.0, 6.0) - betaln(2.0, 3.0)


def line(X, y, factor=1.0):
    """Linear regression with unknown noise."""
    w = numpyro.sample("w", dist.Normal(0.0, 2.0).expand([2]).to_event(1))
    s = numpyro.sample("s", dist.HalfNormal(2.0))
    numpyro.sample("y", dist.Normal(X @ w, factor * s), obs=y)


def noisier_line(X, y):
    """`line` with another density of the same data."""
    line(X, y, 2.0)


def line_data():
    X = np.random.default_rng(0).normal(size=(40, 2))
    return X, X @ [1.0, -2.0] + np.random.default_rng(1).normal(size=40)
