"""Predictive distributions in closed form, and the strength of priors."""

import numpy as np
import pytest
from scipy import stats

import bayeskern as bk
from tests.course.conjugate.families import FAMILIES, MARGINALS, infer
from tests.marks import few

# -- predictive distributions ----------------------------------------------------------------------


# The site of theta, limits of its integral, options of predict, and values of y.
MIXTURES = {
    "BetaBernoulli": ("p", 0, 1, {}, [0, 1]),
    "several trials": ("p", 0, 1, {"trials": 6}, [0, 2, 6]),
    "GammaPoisson": ("rate", 0, 15, {}, [0, 1, 7]),
    "exposures": ("rate", 0, 15, {"exposure": 0.3}, [0, 1, 4]),
    "GammaExponential": ("rate", 0, 15, {}, [0.1, 1.0, 6.0]),
    "NormalNormal": ("mu", 0, 6, {}, [-1.0, 3.0, 5.0]),
    "NormalGamma": ("precision", 0, 15, {}, [-2.0, 3.0, 4.5]),
}


@pytest.mark.parametrize("name", few(MIXTURES, "BetaBernoulli", "exposures", "NormalNormal"))
def test_predictive_is_the_integral_over_the_posterior(name):
    site, low, high, options, values = MIXTURES[name]
    prediction = FAMILIES[name].fit().predict(**options)
    # Gauss-Legendre quadrature over theta.
    x, weights = np.polynomial.legendre.leggauss(500)
    nodes = 0.5 * (high - low) * x + 0.5 * (high + low)
    weights = 0.5 * (high - low) * weights * MARGINALS[name][site].pdf(nodes)
    if name == "NormalGamma":
        # Of mu, y is normal given the precision; Murphy (2007), section 3.
        y = stats.norm(17.2 / 6.5, np.sqrt((1 + 1 / 6.5) / nodes))
    else:
        y = FAMILIES[name].likelihood({site: nodes}, **options)
    density = y.pmf if hasattr(y, "pmf") else y.pdf
    for value in values:
        expected = np.log(weights @ density(value))
        np.testing.assert_allclose(prediction.log_density([value]), expected, rtol=1e-8, atol=1e-10)
        below = weights @ y.cdf(value)
        np.testing.assert_allclose(prediction.distribution.cdf(value), below, rtol=1e-8)
    mean = weights @ y.mean()
    np.testing.assert_allclose(prediction.mean, mean, rtol=1e-8)
    variance = weights @ (y.var() + y.mean() ** 2) - mean**2
    np.testing.assert_allclose(prediction.variance, variance, rtol=1e-7)


def test_predictive_probabilities_of_classes():
    # (concentration + counts) / (sum of them), Gelman et al. (2013), section 3.4
    chances = np.array([3.0, 3.5, 4.5]) / 11.0
    prediction = FAMILIES["DirichletCategorical"].fit().predict(2)
    np.testing.assert_allclose(prediction.probabilities, [chances, chances], rtol=1e-14)
    assert list(prediction.most_likely) == [2, 2]
    shares = [np.mean(prediction.draws == k, axis=0) for k in range(3)]
    error = 4.0 * np.sqrt(0.25 / len(prediction.draws))
    np.testing.assert_allclose(shares, prediction.probabilities.T, atol=error)
    posterior = FAMILIES["DirichletCategorical"].model.update([0, 2, 2, 1, 0, 2, 2])
    np.testing.assert_allclose(posterior.new().pmf([0, 1, 2]), chances, rtol=1e-14)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["exposures", "NormalGamma"])
def test_joint_draws_have_the_covariance_of_the_means(name):
    # Cov(y1, y2) = Var(E[y | theta])
    draws = FAMILIES[name].fit()
    between = np.var(draws.flat["rate"]) if name == "exposures" else np.var(draws.flat["mu"])
    prediction = draws.predict(2)
    y = prediction.sample(20_000, seed=3)
    assert y.shape == (20_000, 2)
    covariance = np.cov(y.T)
    error = 5.0 * prediction.variance[0] / np.sqrt(20_000)
    assert abs(covariance[0, 1] - between) < error
    assert covariance[0, 1] > 2.0 * error
    counts = y[:, 0].astype(float)
    assert abs(counts.mean() - prediction.mean[0]) < 4.0 * prediction.sd[0] / np.sqrt(20_000)


def test_quantiles_intervals_and_frames():
    prediction = FAMILIES["NormalNormal"].fit().predict(3)
    law = prediction.distribution
    np.testing.assert_allclose(
        prediction.quantile([0.1, 0.9]), law.ppf([[0.1], [0.9]]) * np.ones(3)
    )
    np.testing.assert_allclose(prediction.median, prediction.mean)
    assert list(prediction.to_frame().columns) == ["mean", "sd", "median", "lower", "upper"]
    assert len(prediction.to_frame()) == 3
    counts = FAMILIES["exposures"].fit().predict(exposure=[0.5, 8.0])
    lower, upper = counts.interval(0.8)
    expected = stats.nbinom(15, 9.5 / (9.5 + np.array([0.5, 8])))
    np.testing.assert_array_equal(upper, expected.ppf(0.9))
    assert lower[0] == 0.0


def test_infinite_predictive_variances():
    # Lomax with a <= 2, Student t with 1 degree of freedom: no variance.
    waiting = infer(bk.GammaExponential(0.5, 1.0), [2.0], method="exact").predict()
    assert waiting.variance == np.inf and np.isfinite(waiting.mean)
    unknown = infer(bk.NormalGamma(0.0, 1.0, 0.05, 1.0), [2.0], method="exact").predict()
    assert unknown.variance == np.inf


@pytest.mark.slow
def test_predictions_at_the_mode():
    posterior = FAMILIES["BetaBernoulli"].fit("map")
    p, y = posterior.draws["p"].item(), posterior.predict(2).draws
    assert y.shape == (1000, 2)
    assert abs(y.mean() - p) < 4.0 * np.sqrt(p * (1 - p) / 2000)
    die = FAMILIES["DirichletCategorical"].fit("map")
    np.testing.assert_allclose(die.predict(2).probabilities, die.draws["p"][0][[0, 0]])


# -- strength of the prior -------------------------------------------------------------------------

WORTH = {
    "BetaBernoulli": lambda mean, s: bk.BetaBernoulli.of(mean, s),
    "GammaPoisson": lambda mean, s: bk.GammaPoisson.of(mean, s),
    "GammaExponential": lambda mean, s: bk.GammaExponential.of(mean, s),
    "NormalNormal": lambda mean, s: bk.NormalNormal.of(mean, s, noise=0.7),
    "NormalGamma": lambda mean, s: bk.NormalGamma.of(mean, variance=2.0, strength=s),
}
DATA = {
    "BetaBernoulli": lambda rng, n: rng.integers(0, 2, n),
    "GammaPoisson": lambda rng, n: rng.poisson(1.3, n),
    "GammaExponential": lambda rng, n: rng.exponential(1.3, n),
    "NormalNormal": lambda rng, n: rng.normal(1.3, 1.0, n),
    "NormalGamma": lambda rng, n: rng.normal(1.3, 1.0, n),
}


@pytest.mark.parametrize("name", WORTH)
def test_prior_is_equivalent_to_pseudo_observations(name):
    n, mean, strength = 20, 0.4, 7.0
    y = DATA[name](np.random.default_rng(n), n)
    prior = WORTH[name](mean, strength)
    np.testing.assert_allclose([prior.mean, prior.strength], [mean, strength], rtol=1e-14)
    # E[y] before anything is seen, by SciPy.
    np.testing.assert_allclose(prior.new().mean(), mean, rtol=1e-14)
    after = prior.update(y)
    expected = (strength * mean + n * y.mean()) / (strength + n)
    np.testing.assert_allclose(after.mean, expected, rtol=1e-12)
    np.testing.assert_allclose(after.strength, strength + n, rtol=1e-12)
    # The next observation is expected there; the maximum likelihood is ybar, and n wins.
    np.testing.assert_allclose(infer(prior, y, method="exact").predict().mean, expected, rtol=1e-12)
    assert abs(after.mean - y.mean()) <= 1.001 * strength / (strength + n) * abs(mean - y.mean())


def test_dirichlet_prior_from_mean_and_strength():
    die = bk.DirichletCategorical.of([0.2, 0.3, 0.5], 10.0)
    np.testing.assert_allclose(die.concentration, [2, 3, 5], rtol=1e-14)
    after = die.update([2, 2, 0])
    np.testing.assert_allclose(after.mean, np.array([3, 3, 7]) / 13, rtol=1e-14)
    assert after.strength == 13


def test_normal_gamma_prior_from_variance_and_strength():
    # Of observations around a mean that is known, the precision is expected at 1 / variance.
    model = bk.NormalGamma.of(0.0, variance=2.0, strength=10.0)
    assert model.a / model.b == 0.5 and 2 * model.a == 10


def test_repr_has_strength_and_mean_of_the_prior():
    assert repr(bk.BetaBernoulli.of(0.5, 10)) == (
        "BetaBernoulli(a=5, b=5), worth 10 observations of mean 0.5"
    )
    assert repr(bk.GammaExponential(1, 2)) == (
        "GammaExponential(a=1, b=2), worth 0 observations of mean ∞"
    )
    assert "concentration=[1, 2]" in repr(bk.DirichletCategorical([1, 2]))
