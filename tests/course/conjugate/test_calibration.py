"""Over truths drawn from the prior, posteriors in closed form are right on average."""

import numpy as np
import pytest
from scipy import stats

import bayeskern as bk
from tests.course.conjugate.families import FAMILIES

#: theta from the prior and n observations given it, by NumPy; the posterior of theta by SciPy
SIMULATED = {
    "BetaBernoulli": (
        lambda rng: rng.beta(2.0, 3.5),
        lambda rng, p, n: rng.binomial(1, p, n),
        lambda m: stats.beta(m.a, m.b),
    ),
    "GammaPoisson": (
        lambda rng: rng.gamma(3.0, 1 / 2.0),
        lambda rng, rate, n: rng.poisson(rate, n),
        lambda m: stats.gamma(m.a, scale=1 / m.b),
    ),
    "GammaExponential": (
        lambda rng: rng.gamma(3.0, 1 / 4.0),
        lambda rng, rate, n: rng.exponential(1 / rate, n),
        lambda m: stats.gamma(m.a, scale=1 / m.b),
    ),
    "NormalNormal": (
        lambda rng: rng.normal(1.0, np.sqrt(2.0)),
        lambda rng, mu, n: rng.normal(mu, np.sqrt(0.5), n),
        lambda m: stats.norm(m.mean, np.sqrt(m.variance)),
    ),
    "DirichletCategorical": (
        lambda rng: rng.dirichlet([1.0, 2.5, 0.5]),
        lambda rng, p, n: rng.choice(3, n, p=p),
        lambda m: stats.beta(m.concentration, m.strength - m.concentration),
    ),
}


@pytest.mark.parametrize("name", SIMULATED)
def test_truths_are_uniform_in_their_posteriors(name):
    truth_from, data_given, posterior = SIMULATED[name]
    model, rng, uniform = FAMILIES[name].model, np.random.default_rng(20180418), []
    for _ in range(200):
        truth = truth_from(rng)
        y = data_given(rng, truth, 6)
        _, (y, extra) = model.prepare(y)
        uniform.append(np.ravel(posterior(model.given(y, **extra)).cdf(truth)))
    for column in np.transpose(uniform):
        assert stats.kstest(column, "uniform").pvalue > 1e-3


@pytest.mark.slow
def test_truths_are_uniform_where_mean_and_precision_are_unknown():
    model, rng, uniform = FAMILIES["NormalGamma"].model, np.random.default_rng(20180418), []
    for _ in range(200):
        precision = rng.gamma(3.0, 1 / 2.0)
        mu = rng.normal(1.0, 1 / np.sqrt(1.5 * precision))
        _, (y, _) = model.prepare(rng.normal(mu, 1 / np.sqrt(precision), 6))
        m = model.given(y)
        of_mu = stats.t(2 * m.a, m.mean, np.sqrt(m.b / (m.a * m.strength))).cdf(mu)
        uniform.append([of_mu, stats.gamma(m.a, scale=1 / m.b).cdf(precision)])
    for column in np.transpose(uniform):
        assert stats.kstest(column, "uniform").pvalue > 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("name", FAMILIES)
def test_truths_drawn_from_the_prior_are_anywhere_among_the_draws(name):
    family = FAMILIES[name]
    found = bk.calibrate(
        family.model,
        family.y,
        method="exact",
        simulations=100,
        level=0.999,
        progress=False,
        **family.extra,
    )
    assert found.failures == {} and found.faults == {}


@pytest.mark.slow
def test_calibration_shows_a_posterior_that_is_wrong():
    class Stubborn(bk.BetaBernoulli):
        def given(self, y, trials):
            return super().given(y, trials) if len(y) == 0 else super().given(y[:2], trials[:2])

    model, y = Stubborn(2.0, 2.0), np.ones(40)
    found = bk.calibrate(model, y, method="exact", simulations=100, level=0.999, progress=False)
    assert found.faults
