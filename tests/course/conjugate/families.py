"""Conjugate families with data and their densities by SciPy and textbooks."""

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from scipy import integrate, stats
from scipy.special import gammaln

import bayeskern as bk

infer = partial(bk.infer, progress=False)


class Family(NamedTuple):
    """A model, its data, and their densities by SciPy.

    prior: model -> log density of theta under its prior; likelihood: theta -> distribution of y;
    evidence: family -> log p(y), by integration or by SciPy.
    """

    model: object
    y: np.ndarray
    prior: Callable
    likelihood: Callable
    evidence: Callable
    extra: Mapping = MappingProxyType({})

    def fit(self, method="exact", **options):
        return infer(self.model, self.y, method=method, **self.extra, **options)

    def log_joint(self, theta) -> float:
        y = self.likelihood(theta, **self.extra)
        log_density = y.logpmf if hasattr(y, "pmf") else y.logpdf
        return self.prior(self.model)(theta) + log_density(self.y).sum()


def by_integration(site, low, high):
    """log p(y), the joint density integrated over a theta of one number."""

    def evidence(family):
        joint = np.vectorize(lambda value: np.exp(family.log_joint({site: value})))
        return np.log(integrate.quad(joint, low, high, epsabs=0.0, limit=200)[0])

    return evidence


def beta(model):
    return lambda theta: stats.beta(model.a, model.b).logpdf(theta["p"])


def gamma(model):
    return lambda theta: stats.gamma(model.a, scale=1.0 / model.b).logpdf(theta["rate"])


def normal(model):
    return lambda theta: stats.norm(model.mean, np.sqrt(model.variance)).logpdf(theta["mu"])


def normal_gamma(model):
    def log_density(theta):
        sd = 1.0 / np.sqrt(model.strength * theta["precision"])
        precision = stats.gamma(model.a, scale=1.0 / model.b).logpdf(theta["precision"])
        return precision + stats.norm(model.mean, sd).logpdf(theta["mu"])

    return log_density


def dirichlet(model):
    return lambda theta: stats.dirichlet(model.concentration).logpdf(theta["p"])


def student_t(family):
    # All y together are multivariate t.
    m, n = family.model, len(family.y)
    shape = m.b / m.a * (np.eye(n) + 1.0 / m.strength)
    return stats.multivariate_t(np.full(n, m.mean), shape, df=2.0 * m.a).logpdf(family.y)


def dirichlet_multinomial(family):
    # Of the counts, whose orders are all as probable.
    counts = np.bincount(family.y, minlength=len(family.model.concentration))
    n = counts.sum()
    orders = gammaln(n + 1) - gammaln(counts + 1).sum()
    return stats.dirichlet_multinomial(family.model.concentration, n).logpmf(counts) - orders


HEIGHTS = np.array([3.1, 2.4, 4.0, 3.3, 2.9])
# Of the precision of these, given NormalGamma(1, 1.5, 3, 2): Murphy (2007), section 3.
RATE = 2 + 0.5 * np.sum((HEIGHTS - 3.14) ** 2) + 0.5 * 1.5 * 5 / 6.5 * (3.14 - 1) ** 2
FAMILIES = {
    "BetaBernoulli": Family(
        bk.BetaBernoulli(2.0, 3.5),
        np.array([1, 0, 1, 1, 0, 1, 1]),
        beta,
        lambda theta: stats.bernoulli(theta["p"]),
        by_integration("p", 0.0, 1.0),
    ),
    "several trials": Family(
        bk.BetaBernoulli(2.0, 3.5),
        np.array([3, 0, 5]),
        beta,
        lambda theta, trials: stats.binom(trials, theta["p"]),
        by_integration("p", 0.0, 1.0),
        {"trials": np.array([4, 2, 9])},
    ),
    "GammaPoisson": Family(
        bk.GammaPoisson(3.0, 2.0),
        np.array([2, 0, 5, 1]),
        gamma,
        lambda theta: stats.poisson(theta["rate"]),
        by_integration("rate", 0.0, 20.0),
    ),
    "exposures": Family(
        bk.GammaPoisson(3.0, 2.0),
        np.array([2, 0, 9, 1]),
        gamma,
        lambda theta, exposure: stats.poisson(exposure * theta["rate"]),
        by_integration("rate", 0.0, 20.0),
        {"exposure": np.array([0.5, 1.0, 4.0, 2.0])},
    ),
    "GammaExponential": Family(
        bk.GammaExponential(3.0, 4.0),
        np.array([0.5, 2.0, 1.2, 0.0]),
        gamma,
        lambda theta: stats.expon(scale=1.0 / theta["rate"]),
        by_integration("rate", 0.0, 20.0),
    ),
    "NormalNormal": Family(
        bk.NormalNormal(1.0, 2.0, 0.5),
        HEIGHTS,
        normal,
        lambda theta: stats.norm(theta["mu"], np.sqrt(0.5)),
        by_integration("mu", -5.0, 10.0),
    ),
    "NormalGamma": Family(
        bk.NormalGamma(1.0, 1.5, 3.0, 2.0),
        HEIGHTS,
        normal_gamma,
        lambda theta: stats.norm(theta["mu"], 1.0 / np.sqrt(theta["precision"])),
        student_t,
    ),
    "DirichletCategorical": Family(
        bk.DirichletCategorical([1.0, 2.5, 0.5]),
        np.array([0, 2, 2, 1, 0, 2, 2]),
        dirichlet,
        lambda theta: stats.rv_discrete(values=(range(3), theta["p"])),
        dirichlet_multinomial,
    ),
}
# The posterior of each site by hand, since the densities above are of all sites together.
MARGINALS = {
    "BetaBernoulli": {"p": stats.beta(2 + 5, 3.5 + 2)},
    "several trials": {"p": stats.beta(2 + 8, 3.5 + 7)},
    "GammaPoisson": {"rate": stats.gamma(3 + 8, scale=1 / (2 + 4))},
    "exposures": {"rate": stats.gamma(3 + 12, scale=1 / (2 + 7.5))},
    "GammaExponential": {"rate": stats.gamma(3 + 4, scale=1 / (4 + 3.7))},
    "NormalNormal": {
        "mu": stats.norm((1 / 2 + HEIGHTS.sum() / 0.5) / (1 / 2 + 10), (1 / 2 + 10) ** -0.5)
    },
    "NormalGamma": {"precision": stats.gamma(3 + 2.5, scale=1 / RATE)},
    "DirichletCategorical": {"p": [stats.beta(3, 8), stats.beta(3.5, 7.5), stats.beta(4.5, 6.5)]},
}
