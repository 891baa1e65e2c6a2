"""New observations in closed form, and what a prior is worth."""

import numpy as np
import pytest
from scipy import stats

import bayeskern as bk
from tests.course.conjugate.families import FAMILIES, HEIGHTS, RATE, infer

# -- the distribution of a new observation ---------------------------------------------------------


class Mixture:
    """Averages of a new y over theta, whose density is known, by Gauss-Legendre quadrature."""

    def __init__(self, theta, low, high, given):
        x, weights = np.polynomial.legendre.leggauss(500)
        nodes = 0.5 * (high - low) * x + 0.5 * (high + low)
        self.weights = 0.5 * (high - low) * weights * theta.pdf(nodes)
        self.given = given(nodes)

    def density(self, y):
        density = self.given.pmf if hasattr(self.given, "pmf") else self.given.pdf
        return self.weights @ density(y)

    def below(self, y):
        return self.weights @ self.given.cdf(y)

    def mean(self):
        return self.weights @ self.given.mean()

    def variance(self):
        return self.weights @ (self.given.var() + self.given.mean() ** 2) - self.mean() ** 2


# The posterior of theta by hand, and y given theta; options of predict, and values of y.
MIXTURES = {
    "BetaBernoulli": (Mixture(stats.beta(7, 5.5), 0, 1, stats.bernoulli), {}, [0, 1]),
    "several trials": (
        Mixture(stats.beta(10, 10.5), 0, 1, lambda p: stats.binom(6, p)),
        {"trials": 6},
        [0, 2, 6],
    ),
    "GammaPoisson": (
        Mixture(stats.gamma(11, scale=1 / 6), 0, 15, stats.poisson),
        {},
        [0, 1, 7],
    ),
    "exposures": (
        Mixture(stats.gamma(15, scale=1 / 9.5), 0, 15, lambda rate: stats.poisson(0.3 * rate)),
        {"exposure": 0.3},
        [0, 1, 4],
    ),
    "GammaExponential": (
        Mixture(stats.gamma(7, scale=1 / 7.7), 0, 15, lambda rate: stats.expon(scale=1 / rate)),
        {},
        [0.1, 1.0, 6.0],
    ),
    "NormalNormal": (
        Mixture(
            stats.norm((0.5 + 2 * HEIGHTS.sum()) / 10.5, 10.5**-0.5),
            0,
            6,
            lambda mu: stats.norm(mu, np.sqrt(0.5)),
        ),
        {},
        [-1.0, 3.0, 5.0],
    ),
    # Of mu, y is normal given the precision; Murphy (2007), section 3.
    "NormalGamma": (
        Mixture(
            stats.gamma(5.5, scale=1 / RATE),
            0,
            15,
            lambda precision: stats.norm(17.2 / 6.5, np.sqrt((1 + 1 / 6.5) / precision)),
        ),
        {},
        [-2.0, 3.0, 4.5],
    ),
}


@pytest.mark.parametrize("name", MIXTURES)
def test_theta_is_integrated_out(name):
    truth, options, values = MIXTURES[name]
    prediction = FAMILIES[name].fit().predict(**options)
    for y in values:
        np.testing.assert_allclose(
            prediction.log_density([y]), np.log(truth.density(y)), rtol=1e-8, atol=1e-10
        )
        np.testing.assert_allclose(prediction.distribution.cdf(y), truth.below(y), rtol=1e-8)
    np.testing.assert_allclose(prediction.mean, truth.mean(), rtol=1e-8)
    np.testing.assert_allclose(prediction.variance, truth.variance(), rtol=1e-7)


def test_classes():
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


@pytest.mark.parametrize("name", ["exposures", "NormalGamma"])
def test_joint_draws_share_theta(name):
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


def test_quantiles_intervals_and_tables():
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


def test_tails_without_a_mean_or_a_variance():
    # Lomax with a <= 2, Student t with 1 degree of freedom: no variance.
    waiting = infer(bk.GammaExponential(0.5, 1.0), [2.0], method="exact").predict()
    assert waiting.variance == np.inf and np.isfinite(waiting.mean)
    unknown = infer(bk.NormalGamma(0.0, 1.0, 0.05, 1.0), [2.0], method="exact").predict()
    assert unknown.variance == np.inf


@pytest.mark.slow
def test_a_mode_has_predictions_by_draws():
    posterior = FAMILIES["BetaBernoulli"].fit("map")
    p, y = posterior.draws["p"].item(), posterior.predict(2).draws
    assert y.shape == (1000, 2)
    assert abs(y.mean() - p) < 4.0 * np.sqrt(p * (1 - p) / 2000)
    die = FAMILIES["DirichletCategorical"].fit("map")
    np.testing.assert_allclose(die.predict(2).probabilities, die.draws["p"][0][[0, 0]])


# -- what a prior is worth -------------------------------------------------------------------------

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
@pytest.mark.parametrize("n", [1, 20, 5000])
def test_the_prior_counts_as_so_many_observations(name, n):
    y, mean, strength = DATA[name](np.random.default_rng(n), n), 0.4, 7.0
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


def test_observations_of_unequal_size_count_by_their_size():
    exposure, trials = np.array([0.5, 4.0]), np.array([3, 9])
    counts = bk.GammaPoisson.of(0.4, 7.0).update([1, 5], exposure=exposure)
    np.testing.assert_allclose(counts.mean, (7 * 0.4 + 6) / (7 + 4.5), rtol=1e-14)
    coin = bk.BetaBernoulli.of(0.4, 7.0).update([1, 5], trials=trials)
    np.testing.assert_allclose(coin.mean, (7 * 0.4 + 6) / (7 + 12), rtol=1e-14)


def test_classes_that_the_prior_is_worth():
    die = bk.DirichletCategorical.of([0.2, 0.3, 0.5], 10.0)
    np.testing.assert_allclose(die.concentration, [2, 3, 5], rtol=1e-14)
    after = die.update([2, 2, 0])
    np.testing.assert_allclose(after.mean, np.array([3, 3, 7]) / 13, rtol=1e-14)
    assert after.strength == 13


def test_the_prior_variance_of_unknown_noise():
    # Of observations around a mean that is known, the precision is expected at 1 / variance.
    model = bk.NormalGamma.of(0.0, variance=2.0, strength=10.0)
    assert model.a / model.b == 0.5 and 2 * model.a == 10


def test_the_repr_says_what_the_prior_is_worth():
    assert repr(bk.BetaBernoulli.of(0.5, 10)) == (
        "BetaBernoulli(a=5, b=5), worth 10 observations of mean 0.5"
    )
    assert repr(bk.GammaExponential(1, 2)) == (
        "GammaExponential(a=1, b=2), worth 0 observations of mean ∞"
    )
    assert "concentration=[1, 2]" in repr(bk.DirichletCategorical([1, 2]))
