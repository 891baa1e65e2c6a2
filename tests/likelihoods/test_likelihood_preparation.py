"""Checks of data and default priors of likelihoods."""

import jax
import numpy as np
import numpyro
import numpyro.distributions as dist
import pandas as pd
import pytest
from numpyro import handlers
from scipy import optimize, stats

from bayeskern import likelihoods as lk
from bayeskern.likelihoods.analytic import Analytic
from bayeskern.likelihoods.ordered import OrderStatistics
from tests.likelihoods.families import THETAS

OUTSIDE = {
    "poisson negative": (lk.Poisson(), [1, 0, -2], {}, r"Poisson.*row 2: -2.0.*whole number"),
    "poisson part": (lk.Poisson(), [0, 1.5], {}, "row 1: 1.5"),
    "negative binomial": (lk.NegativeBinomial(), [0.5], {}, "row 0: 0.5"),
    "binomial": (lk.Binomial(), [1, 4, 3], {"trials": [2, 3, 3]}, r"row 1: 4.0 \(trials 3\)"),
    "gamma": (lk.Gamma(), [1.0, 0.0], {}, r"row 1: 0.0. It must be above 0"),
    "exponential": (lk.Exponential(), [0.0, -1.0], {}, r"row 1: -1.0. It must be at least 0"),
    "beta": (lk.Beta(), [0.5, 1.0], {}, "row 1: 1.0. It must be strictly between 0 and 1"),
    "dirichlet sum": (lk.Dirichlet(), [[0.5, 0.5], [0.5, 0.6]], {}, "row 1.*sum to one"),
    "dirichlet zero": (lk.Dirichlet(), [[0.0, 1.0]], {}, "row 0.*strictly positive"),
    "dirichlet vector": (lk.Dirichlet(), [0.5, 0.5], {}, "each of at least 2 parts, got 1"),
    "dirichlet other": (lk.Dirichlet(parts=3), [[0.5, 0.5]], {}, "each of 3 parts, got 2"),
    "nan": (lk.Gaussian(), [1.0, np.nan], {}, "first in row 1"),
    "no trials": (lk.Binomial(), [1, 0], {}, "Binomial needs trials"),
    "trials in part": (lk.Binomial(), [1, 0], {"trials": [2, 1.5]}, "whole numbers; row 1 has 1.5"),
    "no exposure": (lk.Poisson(), [1, 0], {"exposure": [1, 0]}, "above 0; row 1 has 0"),
    "exposure of others": (lk.Gamma(), [1.0], {"exposure": 1.0}, "Gamma takes no exposure"),
    "short exposure": (lk.Poisson(), [1, 0], {"exposure": [1.0]}, "exposure has 1 value"),
}


@pytest.mark.parametrize(("likelihood", "y", "extra", "message"), OUTSIDE.values(), ids=OUTSIDE)
def test_values_outside_the_support_are_refused(likelihood, y, extra, message):
    with pytest.raises(ValueError, match=message):
        likelihood.prepare(y, len(y), extra)


def test_number_of_compositions_must_match_the_points():
    with pytest.raises(ValueError, match="y has 1 rows but X has 2 points"):
        lk.Dirichlet().prepare([[0.5, 0.5]], 2)


def test_unknown_links_are_refused():
    with pytest.raises(ValueError, match="Did you mean 'probit'"):
        lk.Bernoulli(link="probits")


def test_compositions_in_a_data_frame():
    y = pd.DataFrame({"sand": [0.2, 0.5], "silt": [0.3, 0.1], "clay": [0.5, 0.4]})
    known, values, _ = lk.Dirichlet().prepare(y, 2)
    assert known.outputs == 3
    np.testing.assert_array_equal(values, y.to_numpy())


def test_extra_values_broadcast_over_rows():
    _, _, extra = lk.Binomial().prepare([1, 2, 3], 3, {"trials": 5})
    np.testing.assert_array_equal(extra["trials"], [5.0, 5.0, 5.0])
    _, _, extra = lk.Poisson().prepare(None, 2)
    np.testing.assert_array_equal(extra["exposure"], [1.0, 1.0])


@pytest.mark.parametrize("likelihood", [lk.Gaussian(), lk.StudentT(), lk.Laplace()], ids=repr)
def test_constant_y_is_refused_without_a_scale(likelihood):
    with pytest.raises(ValueError, match=r"y is constant \(3.0 in all 4 rows\)"):
        likelihood.prepare(np.full(4, 3.0), 4)


def test_constant_y_is_accepted_with_a_scale():
    y = np.full(4, 3.0)
    for likelihood in (lk.Gaussian(1.0), lk.StudentT(scale=1.0), lk.Laplace(1.0)):
        assert likelihood.prepare(y, 4).likelihood.hyperparameters() == likelihood.hyperparameters()


Y = np.random.default_rng(0).normal(5.0, 2.0, 51)


@pytest.mark.parametrize(
    ("likelihood", "name", "factor"),
    [(lk.Gaussian(), "noise", 1e6), (lk.StudentT(), "scale", 1e3), (lk.Laplace(), "scale", 1e3)],
)
def test_default_priors_scale_with_y(likelihood, name, factor):
    """1000 y has 1000 times the quantiles of y, and a million times those of a variance."""
    priors = [
        likelihood.prepare(scale * Y, 51).likelihood.hyperparameters()[name]
        for scale in (1.0, 1000.0)
    ]
    q = np.array([0.01, 0.25, 0.5, 0.75, 0.99])
    near, far = (prior.icdf(q) for prior in priors)
    np.testing.assert_allclose(far, factor * near, rtol=1e-10)


def test_default_priors_have_documented_means():
    q = np.array([0.1, 0.5, 0.9])
    noise = lk.Gaussian().prepare(Y, 51).likelihood.noise
    np.testing.assert_allclose(np.sqrt(noise.icdf(q)), stats.expon(scale=Y.std()).ppf(q))
    for likelihood in (lk.StudentT(), lk.Laplace()):
        scale = likelihood.prepare(Y, 51).likelihood.scale
        robust = stats.median_abs_deviation(Y, scale="normal")
        np.testing.assert_allclose(scale.icdf(q), stats.expon(scale=robust).ppf(q), rtol=1e-12)


def test_default_scale_of_robust_likelihoods_resists_outliers():
    outlying = np.concatenate([Y, [1e9]])
    near = lk.StudentT().prepare(Y, 51).likelihood.scale.rate
    far = lk.StudentT().prepare(outlying, 52).likelihood.scale.rate
    assert 0.9 < far / near < 1.1


def test_robust_scale_falls_back_to_the_sd():
    y = np.array([0.0, 0.0, 0.0, 0.0, 4.0])
    np.testing.assert_allclose(1.0 / lk.Laplace().prepare(y, 5).likelihood.scale.rate, y.std())


def test_prior_on_degrees_of_freedom_is_gamma_2_01():
    df = np.array([0.5, 2.0, 20.0, 100.0])
    np.testing.assert_allclose(lk.StudentT().df.log_prob(df), stats.gamma(2, scale=10).logpdf(df))


@pytest.mark.parametrize(
    "prior",
    [lk.NegativeBinomial().concentration, lk.Gamma().shape, lk.Beta().precision],
    ids=["concentration", "shape", "precision"],
)
def test_prior_on_dispersions_is_half_normal_in_the_inverse_root(prior):
    a = np.array([0.05, 0.7, 3.0, 200.0])
    truth = stats.halfnorm.logpdf(a**-0.5) + np.log(0.5 * a**-1.5)
    np.testing.assert_allclose(prior.log_prob(a), truth, rtol=1e-12)


BASES = {"logit": (dist.Logistic(), stats.logistic), "probit": (dist.Normal(), stats.norm)}


@pytest.mark.slow
@pytest.mark.parametrize("link", BASES)
def test_prior_on_cutpoints_is_uniform_over_class_probabilities(link):
    """At eta = 0 the chances of K classes are Dirichlet(1, ..., 1): each is Beta(1, K - 1)."""
    known = lk.Ordered(link=link).prepare([0, 1, 2, 3], 4).likelihood
    cutpoints = known.cutpoints.sample(jax.random.key(0), (4000,))

    def at(cutpoints):
        return known.at({"cutpoints": cutpoints}).probabilities(np.zeros(1))[0]

    chances = np.asarray(jax.vmap(at)(cutpoints))
    for k in range(4):
        assert stats.kstest(chances[:, k], stats.beta(1, 3).cdf).pvalue > 1e-3
    # Uniform on the simplex: the density of the cutpoints is 3! times the product of f.
    truth = np.log(6.0) + BASES[link][1].logpdf(cutpoints).sum(1)
    np.testing.assert_allclose(known.cutpoints.log_prob(cutpoints), truth, rtol=1e-12)


def test_order_statistics_density_integrates_to_one():
    prior = OrderStatistics(dist.Normal(), 2)
    x, weight = np.polynomial.legendre.leggauss(60)
    x, weight = 9.0 * x, 9.0 * weight
    # The first from -9 to 9, the second above it by 0 to 18.
    first, gap = x[:, None], x + 9.0
    points = np.stack(np.broadcast_arrays(first, first + gap), -1)
    total = np.sum(weight[:, None] * weight * np.exp(prior.log_prob(points)))
    np.testing.assert_allclose(total, 1.0, rtol=1e-8)


@pytest.mark.parametrize("likelihood", [lk.Gaussian(), lk.StudentT(), lk.Laplace()], ids=repr)
def test_eta_location_and_scale_are_in_the_units_of_y(likelihood):
    (near, sd), (far, wide) = (
        likelihood.eta_location_scale(scale * Y, {}) for scale in (1.0, 1000.0)
    )
    assert abs(near - Y.mean()) < 0.5 * Y.std() and 0.5 < sd / Y.std() < 2.0
    np.testing.assert_allclose([far, wide], [1000.0 * near, 1000.0 * sd], rtol=1e-12)
    assert likelihood.eta_location_scale(np.zeros(3), {})[1] == 1.0


@pytest.mark.parametrize(
    "likelihood",
    [lk.Poisson(link=link) for link in ("log", "softplus", "identity")]
    + [lk.Gamma(link=link) for link in ("log", "inverse")],
    ids=repr,
)
def test_mean_at_the_eta_location_is_the_overall_rate(likelihood):
    y = np.array([3.0, 9.0, 5.0, 1.0])
    extra = {"exposure": np.array([1.0, 2.0, 4.0, 0.5])} if likelihood.needs else {}
    location, sd = likelihood.eta_location_scale(y, extra)
    rate = y.sum() / extra.get("exposure", np.ones(4)).sum()
    np.testing.assert_allclose(likelihood.inverse_link(location), rate, rtol=1e-12)
    assert sd > 0.0


def test_eta_location_is_finite_for_zero_counts():
    assert np.all(
        np.isfinite(lk.Poisson().eta_location_scale(np.zeros(5), {"exposure": np.ones(5)}))
    )


def test_eta_scale_covers_mean_and_log_sd_of_heteroscedastic():
    for y in (Y, 1000.0 * Y, 0.001 * Y):
        location, sd = lk.Heteroscedastic().eta_location_scale(y, {})
        assert abs(y.mean() - location) <= sd
        assert abs(np.log(y.std()) - location) <= 10.0 * sd


def test_positional_arguments_keep_their_order():
    assert lk.StudentT(4.0, 2.0).hyperparameters() == {"df": 4.0, "scale": 2.0}


def test_hyperparameters_are_sampled_at_their_own_sites():
    known = lk.Ordered().prepare([1, 2, 3], 3).likelihood

    def model():
        at = known.sample()
        numpyro.sample("y", at.distribution(np.zeros(3)), obs=np.array([0, 1, 2]))

    trace = handlers.trace(handlers.seed(model, 0)).get_trace()
    cutpoints = trace["likelihood.cutpoints"]["value"]
    assert cutpoints.shape == (2,) and cutpoints[0] < cutpoints[1]
    assert trace["y"]["fn"].batch_shape == (3,)


def test_sampling_needs_default_priors_from_data():
    with pytest.raises(ValueError, match="default prior from the data"):
        handlers.seed(lk.Gaussian().sample, 0)()


def test_repr_shows_the_arguments():
    assert repr(lk.Poisson(link="softplus")) == "Poisson(link='softplus')"
    assert repr(lk.Categorical(classes=["a", "b"])) == "Categorical(classes=('a', 'b'))"
    assert repr(lk.StudentT(df=4, scale=1)) == "StudentT(df=4.0, scale=1.0)"


# -- priors and scales of forecasts ----------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name, theta in THETAS.items() if len(theta)])
def test_prior_of_unconstrained_hyperparameters_against_scipy(name):
    likelihood, theta = Analytic.by_name()[name], THETAS[name]

    def truth(theta):
        # With s = 1 / sqrt(a) and theta = log a, |ds / dtheta| = s / 2. The log odds of a uniform
        # gate are logistic.
        s = np.exp(-0.5 * theta[0])
        return stats.halfnorm.logpdf(s) + np.log(0.5 * s) + stats.logistic.logpdf(theta[1:]).sum()

    value, gradient = likelihood.log_prior(theta)
    assert value == pytest.approx(truth(theta), rel=1e-12)
    expected = optimize.approx_fprime(theta, truth, 1e-6)
    np.testing.assert_allclose(gradient, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["poisson", "negative_binomial", "zero_inflated"])
def test_location_and_scale_of_counts_with_lognormal_rates(name):
    rng = np.random.default_rng(4)
    y = rng.poisson(np.exp(rng.normal(4.0, 0.3, 20_000))).astype(float)
    if name == "zero_inflated":
        # Zeros from the gate do not tell about the rate.
        y = np.append(y, np.zeros(30_000))
    location, scale = Analytic.by_name()[name].location_scale(y)
    assert location == pytest.approx(4.0 + 0.5 * 0.3**2, abs=0.01)
    assert scale == pytest.approx(0.3, abs=0.01)
