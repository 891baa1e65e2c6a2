"""SVI against closed forms, and its verdicts."""

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro.distributions import constraints
from scipy.optimize import minimize
from scipy.special import digamma, gammaln, polygamma
from scipy.stats import multivariate_normal

import bayeskern as bk
from bayeskern.inference import SVI
from bayeskern.inference.approximation.guides import GaussianGuide
from bayeskern.inference.methods.svi import SVIStart
from bayeskern.inference.model.target import Target
from tests.inference.closed_forms import Regression, regression
from tests.marks import few, slow


def fit(model, *args, seed=0, **options):
    return bk.infer(model, *args, method=SVI(**options), seed=seed, progress=False)


def seeds(count):
    """The first seed; the others are longer runs."""
    return [0, *(slow(seed) for seed in range(1, count))]


CASE = Regression()
X, Y = CASE.data
MEAN, SD, PRECISION, COVARIANCE = CASE.mean, CASE.sd, CASE.precision, CASE.covariance


@pytest.mark.slow
@pytest.mark.parametrize("guide", ["full_rank", "flow"])
@pytest.mark.parametrize("seed", seeds(2))
def test_expressive_guides_recover_a_gaussian_posterior(guide, seed):
    posterior = fit(regression, X, Y, guide=guide, seed=seed)
    w, elbo = posterior.draws["w"][0], posterior.elbo
    # 4,000 draws have a standard error of 0.016 sd.
    np.testing.assert_array_less(np.abs(w.mean(axis=0) - MEAN) / SD, 0.07)
    np.testing.assert_array_less(np.abs(np.log(w.std(axis=0) / SD)), 0.06)
    correlation = np.corrcoef(w.T)[0, 1]
    assert abs(correlation - COVARIANCE[0, 1] / (SD[0] * SD[1])) < 0.05
    assert posterior.trust.verdict == "good", posterior.trust
    assert -0.02 < elbo.value - CASE.log_evidence < 3 * elbo.error + 1e-9


@pytest.mark.parametrize("gradient", few(["pathwise", "score"], "score"))
@pytest.mark.parametrize("seed", seeds(3))
def test_both_gradients_converge_to_the_exact_gaussian(gradient, seed):
    target, method = Target.from_model(regression, (X, Y), {}), SVI(gradient=gradient)
    # Three posterior sds off, twice as wide and without the correlations.
    family = GaussianGuide("full_rank", jnp.asarray(MEAN + 3.0 * SD), jnp.diag(2.0 * SD))
    [(params, trace, doubt)] = method._maximize([family], [SVIStart(target, seed, None)], False)
    found = family.approximation(params)
    assert doubt is None
    np.testing.assert_array_less(np.abs(np.asarray(found.means[0]) - MEAN) / SD, 0.05)
    tril = np.asarray(found.trils[0])
    np.testing.assert_allclose(np.sqrt(np.diag(tril @ tril.T)) / SD, 1.0, atol=0.05)
    assert np.mean(trace[:20]) < np.mean(trace[-20:])


@pytest.mark.slow
def test_mean_field_has_the_conditional_variances():
    # Bishop (2006), section 10.1.2.
    posterior = fit(regression, X, Y, guide="mean_field")
    q = posterior.approximation
    np.testing.assert_allclose(np.diag(q.trils[0]), 1 / np.sqrt(np.diag(PRECISION)), rtol=0.03)
    np.testing.assert_array_less(np.abs(np.asarray(q.means[0]) - MEAN) / SD, 0.05)
    # The marginal sds are larger, by a known factor, and the verdict says so.
    assert np.max(np.log(SD * np.sqrt(np.diag(PRECISION)))) > 0.15
    assert posterior.trust.verdict != "good", posterior.trust
    # KL of the best diagonal Gaussian: half the log of the ratio of the determinants.
    gap = 0.5 * (np.sum(np.log(np.diag(PRECISION))) - np.linalg.slogdet(PRECISION)[1])
    value, error = posterior.elbo
    assert abs(value - (CASE.log_evidence - gap)) < 0.02 + 3 * error


@pytest.mark.slow
def test_low_rank_is_exact_for_diagonal_plus_rank_one():
    direction = np.array([2.0, -1.0, 0.5, 1.0, 3.0])
    covariance = np.diag([1.0, 0.5, 2.0, 1.0, 0.3]) + np.outer(direction, direction)

    def model():
        numpyro.sample("x", dist.MultivariateNormal(jnp.zeros(5), jnp.asarray(covariance)))

    posterior = fit(model, guide="low_rank")
    tril = np.asarray(posterior.approximation.trils[0])
    np.testing.assert_allclose(tril @ tril.T, covariance, atol=0.15)
    assert posterior.trust.verdict == "good", posterior.trust


# -- forward KL ------------------------------------------------------------------------------------


def gamma_poisson(y):
    rate = numpyro.sample("rate", dist.Gamma(3.0, 2.0))
    with numpyro.plate("rows", len(y)):
        numpyro.sample("y", dist.Poisson(rate), obs=y)


@pytest.mark.slow
def test_forward_kl_matches_the_posterior_moments():
    # The posterior is Gamma(3 + sum y, 2 + n); the logarithm of a Gamma(a, b) has mean
    # digamma(a) - log b and variance trigamma(a).
    y = np.array([0, 1, 2])
    posterior = fit(gamma_poisson, y, objective="forward_kl")
    a, b = 3.0 + y.sum(), 2.0 + len(y)
    mean, sd = digamma(a) - np.log(b), np.sqrt(polygamma(1, a))
    assert abs(float(posterior.approximation.means[0, 0]) - mean) < 0.05 * sd
    assert abs(float(posterior.approximation.trils[0, 0, 0]) / sd - 1.0) < 0.04


@pytest.mark.slow
def test_mean_field_reverse_kl_is_narrower_than_forward_kl():
    fits = (
        fit(regression, X, Y, guide="mean_field", objective=objective)
        for objective in ("reverse_kl", "forward_kl")
    )
    reverse, forward = (np.diag(posterior.approximation.trils[0]) for posterior in fits)
    np.testing.assert_allclose(forward, SD, rtol=0.05)
    assert np.all(reverse < forward)


def bimodal():
    parts = dist.Normal(jnp.array([-3.0, 3.0]), 1.0)
    numpyro.sample("x", dist.MixtureSameFamily(dist.Categorical(jnp.array([0.5, 0.5])), parts))


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(3))
def test_reverse_kl_of_two_modes_fits_one_and_is_bad(seed):
    posterior = fit(bimodal, seed=seed)
    q = posterior.approximation
    assert abs(abs(float(q.means[0, 0])) - 3.0) < 0.2
    assert abs(float(q.trils[0, 0, 0]) - 1.0) < 0.2
    assert posterior.trust.verdict == "bad", posterior.trust


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(3))
def test_forward_kl_of_two_modes_covers_both_and_names_the_shape(seed):
    posterior = fit(bimodal, seed=seed, objective="forward_kl")
    q = posterior.approximation
    assert abs(float(q.means[0, 0])) < 0.3
    assert abs(float(q.trils[0, 0, 0]) - np.sqrt(10.0)) < 0.15
    assert posterior.trust.verdict in ("caution", "bad")
    assert "moments match but the shape does not" in posterior.trust.advice


# -- subsampling, user-defined guides --------------------------------------------------------------

OBSERVATIONS = np.random.default_rng(0).normal(1.5, 2.0, size=600)


def subsampled(y, size=None):
    mu = numpyro.sample("mu", dist.Normal(0.0, 3.0))
    with numpyro.plate("rows", len(y), subsample_size=size) as i:
        numpyro.sample("y", dist.Normal(mu, 2.0), obs=y[i])


@pytest.mark.slow
def test_subsampled_model_has_the_posterior_of_all_data():
    posterior = fit(subsampled, jnp.asarray(OBSERVATIONS), 50)
    precision = 1 / 9 + len(OBSERVATIONS) / 4
    mean, sd = OBSERVATIONS.sum() / 4 / precision, precision**-0.5
    q = posterior.approximation
    assert abs(float(q.means[0, 0]) - mean) < 0.2 * sd
    assert abs(np.log(float(q.trils[0, 0, 0]) / sd)) < 0.2
    evidence = multivariate_normal(np.zeros(600), 4 * np.eye(600) + 9 * np.ones((600, 600))).logpdf(
        OBSERVATIONS
    )
    # Judged on all the data, although it was fitted on fifty at a time.
    assert posterior.elbo.value < evidence + 3 * posterior.elbo.error
    assert posterior.elbo.value > evidence - 0.1


def by_hand(X, y=None):
    loc = numpyro.param("loc", jnp.zeros(3))
    tril = numpyro.param("tril", 0.1 * jnp.eye(3), constraint=constraints.lower_cholesky)
    numpyro.sample("w", dist.MultivariateNormal(loc, scale_tril=tril))


@pytest.mark.slow
def test_user_defined_guide_recovers_the_posterior():
    posterior = fit(regression, X, Y, guide=by_hand)
    w = posterior.draws["w"][0]
    np.testing.assert_array_less(np.abs(w.mean(axis=0) - MEAN) / SD, 0.1)
    np.testing.assert_array_less(np.abs(np.log(w.std(axis=0) / SD)), 0.1)
    assert posterior.trust.verdict == "good", posterior.trust


@pytest.mark.slow
def test_constrained_guide_accounts_for_the_jacobian():
    def guide(y):
        a = numpyro.param("a", 1.0, constraint=constraints.positive)
        b = numpyro.param("b", 1.0, constraint=constraints.positive)
        numpyro.sample("rate", dist.Gamma(a, b))

    y = np.array([2, 4, 3, 5])
    posterior = fit(gamma_poisson, y, guide=guide)
    # The family holds the posterior, so that all weights are equal and the ELBO is the evidence.
    assert posterior.elbo.error < 0.01
    a, b = 3.0 + y.sum(), 2.0 + len(y)
    evidence = 3 * np.log(2) - gammaln(3) + gammaln(a) - a * np.log(b) - gammaln(y + 1).sum()
    assert abs(posterior.elbo.value - evidence) < 0.01
    assert posterior.trust.verdict == "good", posterior.trust


def test_guide_without_a_site_is_refused():
    def guide(X, y=None):
        numpyro.sample("v", dist.Normal(numpyro.param("m", 0.0), 1.0))

    with pytest.raises(ValueError, match=r"the guide has no site \['w'\]"):
        fit(regression, X, Y, guide=guide)


# -- verdicts --------------------------------------------------------------------------------------


@pytest.mark.slow
def test_step_limit_is_reported():
    posterior = fit(regression, X, Y, steps=150)
    assert len(posterior.trace["elbo"]) == 150
    assert posterior.trust.verdict != "good"
    assert "step limit (150)" in posterior.trust.advice


@pytest.mark.slow
def test_elbo_trace_is_kept_and_optimisation_stops():
    posterior = fit(regression, X, Y, seed=3)
    assert 3 * 400 <= len(posterior.trace["elbo"]) < 20_000
    assert np.mean(posterior.trace["elbo"][-100:]) < CASE.log_evidence + 0.05


@pytest.mark.slow
def test_mean_field_funnel_is_not_good():
    def model():
        scale = numpyro.sample("v", dist.Normal(0.0, 3.0))
        numpyro.sample("x", dist.Normal(0.0, jnp.exp(scale / 2)).expand([9]).to_event(1))

    assert fit(model, guide="mean_field").trust.verdict != "good"


@pytest.mark.slow
def test_flow_needs_two_coordinates():
    with pytest.raises(ValueError, match="two coordinates"):
        fit(bimodal, guide="flow")


@pytest.mark.slow
def test_density_of_zero_in_places_is_harmless():
    def model():
        x = numpyro.sample("x", dist.Normal(0.0, 1.0))
        numpyro.factor("bound", jnp.where(x > 4.0, -jnp.inf, 0.0))

    q = fit(model).approximation
    assert abs(float(q.means[0, 0])) < 0.05


@pytest.mark.slow
def test_full_rank_guide_of_80_coordinates_reaches_the_best_elbo():
    # y ~ Poisson(e^z), z ~ N(0, 4), independent: the best Gaussian is diagonal, and its ELBO a sum.
    y = np.random.default_rng(0).poisson(1.0, size=80)

    def model(y):
        with numpyro.plate("i", len(y)):
            z = numpyro.sample("z", dist.Normal(0.0, 2.0))
            numpyro.sample("y", dist.Poisson(jnp.exp(z)), obs=y)

    def negative(at, k):
        mean, variance = at[0], np.exp(2.0 * at[1])
        likelihood = k * mean - np.exp(mean + variance / 2.0) - gammaln(k + 1)
        prior = -0.5 * (mean**2 + variance) / 4.0 - np.log(2.0)
        return -(likelihood + prior + at[1] + 0.5)

    best = sum(-minimize(negative, [0.0, 0.0], args=(k,)).fun for k in y)
    found = bk.infer(model, y, method=bk.SVI("full_rank"), progress=False)
    assert -0.3 < found.elbo.value - best < 4 * found.elbo.error
