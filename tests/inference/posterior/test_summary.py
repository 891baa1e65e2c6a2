"""Summary tables show as many digits as the spread justifies."""

import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

import bayeskern as bk
from bayeskern.core.formatting import alike
from bayeskern.inference import Exact
from models import coin
from tests.marks import slow

sizes = st.floats(-12.0, 12.0).map(lambda x: 10.0**x)


@given(st.floats(-5.0, 5.0), sizes, sizes)
def test_shown_value_is_within_a_hundredth_of_the_spread(value, size, spread):
    value *= size
    (text,) = alike((value,), spread)
    error = abs(float(text.replace(",", "")) - value)
    # Below a share of 1e-13 of the value there is no spread but rounding.
    assert error <= 0.01 * spread or (spread < 1e-13 * abs(value) and error <= 1e-3 * abs(value))


def far(y):
    mu = numpyro.sample("mu", dist.Normal(1200.0, 100.0))
    numpyro.sample("y", dist.Normal(mu, 0.05).expand([len(y)]), obs=y)


@pytest.mark.parametrize("method", ["laplace", slow("nuts")])
@pytest.mark.parametrize("options", [{}, {"kind": "stats_median"}])
def test_digits_follow_the_sd_of_a_mean_far_from_zero(method, options):
    # N(1234.5600, 0.0144^2), next to nothing of the prior.
    y = 1234.56 + 0.05 * np.array([-1.0, 1.0] * 6)
    table = bk.infer(far, y, method=method, progress=False).summary(**options)
    middle, *_, low, high = str(table).splitlines()[1].split()[1:5]
    middle, low, high = (float(x.replace(",", "")) for x in (middle, low, high))
    assert abs(middle - 1234.56) < 0.002
    assert high - low == pytest.approx(2 * 1.598 * 0.01443, rel=0.1)
    # The numbers themselves are not rounded.
    assert table.iloc[0, 0] != middle


def test_round_to_is_passed_to_arviz():
    posterior = bk.infer(far, np.array([1234.5, 1234.6]), method="laplace", progress=False)
    assert posterior.summary(round_to=1).loc["mu", "mean"] == pytest.approx(1234.5, abs=0.06)


# -- exact moments ---------------------------------------------------------------------------------

EXACT_METHOD = Exact(draws=50)


def exact_table(model, *data, **options):
    posterior = bk.infer(model, *data, method=EXACT_METHOD, progress=False)
    return posterior.summary(round_to="none", **options)


@pytest.mark.slow
def test_coin_has_the_moments_of_its_beta_distribution(tmp_path):
    p = scipy.stats.beta(16, 8)
    posterior = bk.infer(coin.model, *coin.data(), method=EXACT_METHOD, progress=False)
    posterior.save(tmp_path / "coin.nc")
    for found in (posterior, bk.load(tmp_path / "coin.nc")):
        assert str(found.marginals["p"]) == "Beta(16, 8)"
        table = found.summary(round_to="none")
        assert table.loc["p"].tolist() == pytest.approx([p.mean(), p.std(), *p.interval(0.89)])
    assert "0.6667" in str(posterior.summary())
    table = posterior.summary(kind="stats_median", ci_prob=0.5, round_to="none")
    wanted = {"median": p.median(), "eti50_lb": p.ppf(0.25), "eti50_ub": p.ppf(0.75)}
    for column, value in wanted.items():
        assert table.loc["p", column] == pytest.approx(value)


@pytest.mark.slow
def test_marginals_of_conjugate_families():
    y = np.array([1.0, 4.0, 2.5])
    # Murphy (2007), equations 94 to 100: strength 5, mean 1.5, a = 4.5 and b = 6.55.
    table = exact_table(bk.NormalGamma(mean=0.0, strength=2.0, a=3.0, b=1.0), y)
    b = 1.0 + 0.5 * np.sum((y - 2.5) ** 2) + 0.5 * 2 * 3 / 5 * 2.5**2
    mu = scipy.stats.t(9, 1.5, np.sqrt(b / (4.5 * 5)))
    assert table.loc["mu"].tolist() == pytest.approx([1.5, mu.std(), *mu.interval(0.89)])
    assert table.loc["precision", "mean"] == pytest.approx(4.5 / b)
    table = exact_table(bk.GammaPoisson(2.0, 3.0), [4, 1])
    rate = scipy.stats.gamma(7, scale=1 / 5)
    assert table.loc["rate"].tolist() == pytest.approx(
        [rate.mean(), rate.std(), *rate.interval(0.89)]
    )
    table = exact_table(bk.DirichletCategorical([1.0, 2.0, 3.0]), [0, 2, 2])
    np.testing.assert_allclose(table["mean"], scipy.stats.dirichlet([2, 2, 5]).mean())
    np.testing.assert_allclose(table["sd"] ** 2, scipy.stats.dirichlet([2, 2, 5]).var())


@pytest.mark.parametrize("outputs", [1, slow(2)])
def test_marginals_of_a_linear_regression(outputs):
    rng = np.random.default_rng(0)
    X, noise, sd = rng.normal([1.0, -2.0], size=(12, 2)), 0.5, 2.0
    Y = X @ rng.normal(size=(2, outputs)) + rng.normal(size=(12, outputs))
    options = {"intercept": bk.priors.Flat(), "noise_variance": noise}
    model = bk.BayesianLinearRegression(prior=bk.priors.Gaussian(sd), **options)
    table = exact_table(model, X, Y if outputs > 1 else Y[:, 0])
    # A flat intercept centres the data; Bishop (2006), equations 3.50 and 3.51.
    centred = X - X.mean(axis=0)
    covariance = np.linalg.inv(centred.T @ centred / noise + np.eye(2) / sd**2)
    weights = (covariance @ centred.T @ (Y - Y.mean(axis=0)) / noise).T
    rows = table.index.str.startswith("weights")
    np.testing.assert_allclose(table["mean"][rows], weights.ravel(), rtol=1e-8)
    sds = np.tile(np.sqrt(np.diag(covariance)), outputs)
    np.testing.assert_allclose(table["sd"][rows], sds, rtol=1e-8)
    at_0 = Y.mean(axis=0) - weights @ X.mean(axis=0)
    np.testing.assert_allclose(table["mean"][~rows], at_0, rtol=1e-8)
    variance = noise / 12 + X.mean(axis=0) @ covariance @ X.mean(axis=0)
    np.testing.assert_allclose(table["sd"][~rows] ** 2, variance, rtol=1e-8)
