"""Every likelihood; those of one number a row, under every link, beside SciPy's distribution."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest
from scipy import special, stats

from bayeskern import likelihoods as lk
from bayeskern.likelihoods.positive import PositiveMean
from tests.marks import slow

INVERSE = {
    "identity": lambda eta: eta,
    "log": np.exp,
    "inverse": lambda eta: 1.0 / eta,
    "softplus": lambda eta: np.logaddexp(0.0, eta),
    "logit": special.expit,
    "probit": stats.norm.cdf,
    "cloglog": lambda eta: -np.expm1(-np.exp(eta)),
}
REAL = np.array([-2.5, -1.0, -0.2, 0.0, 0.4, 1.3])
POSITIVE = np.array([0.1, 0.4, 0.9, 1.7, 3.0, 6.0])
EXPOSURE = np.array([0.5, 1.0, 2.0, 10.0, 3.0, 0.1])
TRIALS = np.array([1, 2, 5, 12, 7, 30])
#: what a likelihood needs beside y, if all rows have the same
ONE_ROW = {"trials": 10.0, "exposure": 2.0, "censored": 1.0}
NOTHING: dict = {}


class Case(NamedTuple):
    """A likelihood beside SciPy.

    Attributes:
        likelihood: The likelihood.
        truth: SciPy's distributions, frozen, at the values of g^-1(eta).
        values: Values of y.
        extra: Further values of each row, (6,) each.
        predictor: eta, (6,); values at which there is a mean if None.
    """

    likelihood: lk.Likelihood
    truth: Callable
    values: list
    extra: dict = NOTHING
    predictor: np.ndarray | None = None

    @property
    def on_half_line(self):
        """True if there is a mean for eta > 0 only."""
        half_line = self.likelihood.link_name in ("identity", "inverse")
        return half_line and isinstance(self.likelihood, PositiveMean)

    @property
    def eta(self):
        """Values at which there is a mean."""
        if self.predictor is not None:
            return self.predictor
        return POSITIVE if self.on_half_line else REAL

    def frozen(self):
        return self.truth(INVERSE[self.likelihood.link_name](self.eta))

    def log_density(self, y):
        frozen = self.frozen()
        return getattr(frozen, "logpmf" if hasattr(frozen.dist, "pmf") else "logpdf")(y)


class Inflated:
    """A frozen distribution of counts that is 0 with a probability of its own (Lambert, 1992)."""

    def __init__(self, gate, counts):
        self.gate, self.counts, self.dist = gate, counts, counts.dist

    def logpmf(self, y):
        return np.log(self.gate * (y == 0) + (1.0 - self.gate) * self.counts.pmf(y))

    def mean(self):
        return (1.0 - self.gate) * self.counts.mean()

    def var(self):
        second = self.counts.var() + self.counts.mean() ** 2
        return (1.0 - self.gate) * second - self.mean() ** 2

    def rvs(self, size=None, random_state=None):
        y = self.counts.rvs(*([] if size is None else [size]), random_state=random_state)
        return np.where(random_state.random(np.shape(y)) < self.gate, 0, y)


def _cases():
    real, counts, positive = [-5.0, 0.0, 1.0], [0.0, 1.0, 7.0], [0.0, 1.0, 9.0]
    yield Case(lk.Gaussian(noise=1.7), lambda m: stats.norm(m, np.sqrt(1.7)), real)
    # Values that are observed; those that are limits have a test of their own.
    observed = {"censored": np.ones(6)}
    yield Case(lk.Censored(1.7), lambda m: stats.norm(m, np.sqrt(1.7)), real, observed)
    yield Case(lk.StudentT(df=7.0, scale=0.6), lambda m: stats.t(7.0, m, 0.6), real)
    yield Case(lk.Laplace(scale=0.8), lambda m: stats.laplace(m, 0.8), real)
    for link in ("logit", "probit", "cloglog"):
        yield Case(lk.Bernoulli(link=link), stats.bernoulli, [0.0, 1.0])
        yield Case(
            lk.Binomial(link=link),
            lambda p: stats.binom(TRIALS, p),
            [0.0, 3.0, 10.0],
            {"trials": TRIALS},
        )
        yield Case(
            lk.Beta(precision=4.0, link=link),
            lambda p: stats.beta(4.0 * p, 4.0 * (1 - p)),
            [1e-6, 0.3, 0.999],
        )
    for link in ("log", "softplus", "identity"):
        exposed = {"exposure": EXPOSURE}
        yield Case(lk.Poisson(link=link), lambda m: stats.poisson(EXPOSURE * m), counts, exposed)
        yield Case(
            lk.NegativeBinomial(concentration=2.5, link=link),
            lambda m: stats.nbinom(2.5, 2.5 / (2.5 + EXPOSURE * m)),
            counts,
            exposed,
        )
        yield Case(
            lk.ZeroInflated(concentration=2.5, gate=0.3, link=link),
            lambda m: Inflated(0.3, stats.nbinom(2.5, 2.5 / (2.5 + EXPOSURE * m))),
            counts,
            exposed,
        )
    for link in ("log", "inverse"):
        yield Case(
            lk.Gamma(shape=2.2, link=link),
            lambda m: stats.gamma(2.2, scale=m / 2.2),
            [0.01, *positive[1:]],
        )
        yield Case(lk.Exponential(link=link), lambda m: stats.expon(scale=m), positive)


CASES = {f"{type(case.likelihood).__name__}-{case.likelihood.link_name}": case for case in _cases()}
# One link of each family; the others are longer runs.
FIRST = {name.split("-")[0]: name for name in reversed(CASES)}.values()
of_each_family = pytest.mark.parametrize(
    "case", [c if name in FIRST else slow(c) for name, c in CASES.items()], ids=CASES
)


class Several(NamedTuple):
    """A likelihood of several predictors or classes, and values of y at each eta."""

    likelihood: lk.Likelihood
    eta: np.ndarray
    y: np.ndarray


ETA3 = np.array([[0.3, -1.0, 2.0], [0.0, 0.0, 0.0], [-4.0, 1.0, 1.5], [30.0, -30.0, 0.0]])
SHARES = np.random.default_rng(2).dirichlet([1.0, 2.0, 3.0], 3)
SEVERAL = {
    "Categorical": Several(lk.Categorical(classes=("a", "b", "c")), ETA3, np.array([0, 2, 1, 0])),
    "Dirichlet": Several(lk.Dirichlet(precision=3.0, parts=3), ETA3[:3], SHARES),
    "Heteroscedastic": Several(lk.Heteroscedastic(), np.stack([REAL, REAL[::-1]], 1), REAL + 0.3),
    "Ordered": Several(lk.Ordered([-1.0, 1.0], classes=(0, 1, 2)), REAL[:3], np.arange(3)),
}


# Hyperparameters of the likelihoods of forecasts, without their constraints.
THETAS = {
    "poisson": np.array([]),
    "negative_binomial": np.array([0.7]),
    "zero_inflated": np.array([0.7, -0.8]),
    "beta": np.array([1.9]),
}
