"""Guides of NumPyro with given parameters, judged against posteriors in closed form."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro.infer import SVI, Trace_ELBO, autoguide
from numpyro.optim import Adam

import bayeskern as bk
from tests.inference.external.linear_gaussian import COVARIANCE, MEAN, MEAN_FIELD_SD, Y, model

TRIL = np.linalg.cholesky(COVARIANCE)
EXACT = {"auto_loc": MEAN, "auto_scale_tril": TRIL}


def assess(guide, params, model=model, y=Y):
    return bk.assess(model, y, guide=(guide, params), progress=False)


def test_mean_field_is_found_too_narrow():
    params = {"w_auto_loc": MEAN, "w_auto_scale": MEAN_FIELD_SD}
    posterior = assess(autoguide.AutoNormal(model), params)
    assert posterior.method == "guide" and posterior.trust.verdict == "bad"
    assert "The sd of" in posterior.trust.advice
    # The sds that the verdict misses are those of the closed form.
    ratio = np.max(np.log(np.sqrt(np.diag(COVARIANCE)) / MEAN_FIELD_SD))
    assert abs(posterior.trust.evidence["log_sd_ratio"] - ratio) < 0.1


@pytest.mark.slow
def test_the_exact_guide_is_good():
    posterior = assess(autoguide.AutoMultivariateNormal(model), EXACT)
    assert posterior.trust.verdict == "good", posterior.trust
    # The density of y is normal, and the ELBO of the exact guide is its logarithm.
    sd = np.sqrt(0.25 + 5.0)
    assert abs(posterior.elbo.value - dist.Normal(0.0, sd).log_prob(Y)) < 1e-6


@pytest.mark.slow
def test_laplace_is_its_normal_distribution_not_its_mode():
    guide = autoguide.AutoLaplaceApproximation(model)
    posterior = assess(guide, {"auto_loc": MEAN})
    assert posterior.trust.verdict == "good", posterior.trust
    np.testing.assert_allclose(np.cov(posterior.flat["w"].T), COVARIANCE, rtol=0.1)


@pytest.mark.slow
def test_a_guide_of_hand_with_a_constraint():
    def gamma_poisson(y):
        rate = numpyro.sample("rate", dist.Gamma(2.0, 1.0))
        with numpyro.plate("n", len(y)):
            numpyro.sample("y", dist.Poisson(rate), obs=y)

    def guide(y):
        a = numpyro.param("a", 1.0, constraint=dist.constraints.positive)
        numpyro.sample("rate", dist.Gamma(a, numpyro.param("b", 1.0)))

    y = np.array([3, 5, 4, 1])
    exact = {"a": 2.0 + y.sum(), "b": 5.0}
    assert assess(guide, exact, gamma_poisson, y).trust.verdict == "good"
    wrong = assess(guide, exact | {"b": 7.0}, gamma_poisson, y)
    assert wrong.trust.verdict == "bad"
    # Of 32 bits, as a session with NumPyro's default returns them.
    small = {name: jnp.asarray(value, jnp.float32) for name, value in exact.items()}
    assert assess(guide, small, gamma_poisson, y).trust.verdict == "good"


@pytest.mark.slow
def test_a_missing_mode_is_found():
    def two_modes(y):
        x = numpyro.sample("x", dist.Normal(0.0, 3.0))
        numpyro.sample("y", dist.Normal(jnp.abs(x), 0.5), obs=y)

    guide = autoguide.AutoNormal(two_modes)
    posterior = assess(guide, {"x_auto_loc": 3.9, "x_auto_scale": 0.49}, two_modes, 4.0)
    assert posterior.trust.verdict == "bad"
    assert posterior.trust.evidence["modes_missed"] == 1


@pytest.mark.slow
def test_a_narrow_mode_inside_the_guide_is_found():
    def concentric(y):
        x = numpyro.sample("x", dist.Normal(0.0, 5.0).expand([8]).to_event(1))
        parts = [dist.Normal(0.0, sd).log_prob(x).sum() for sd in (1.0, 0.01)]
        prior = dist.Normal(0.0, 5.0).log_prob(x).sum()
        numpyro.factor("density", jnp.logaddexp(*parts) - prior)

    guide = autoguide.AutoDiagonalNormal(concentric)
    params = {"auto_loc": np.zeros(8), "auto_scale": np.ones(8)}
    trust = assess(guide, params, concentric).trust
    # Half of the mass is in the narrow part, and half of that in its central ellipsoid.
    assert trust.verdict == "bad" and "narrow mode holds at least" in trust.advice, trust


def test_a_point_is_said_to_be_a_point():
    guide = autoguide.AutoDelta(model)
    at_mode = assess(guide, {"w_auto_loc": MEAN})
    assert at_mode.is_point and at_mode.trust.verdict == "not assessable"
    assert "single point" in at_mode.trust.advice
    elsewhere = assess(guide, {"w_auto_loc": MEAN + 1.0})
    assert elsewhere.trust.verdict == "bad" and "sds from the nearest" in elsewhere.trust.advice


@pytest.mark.slow
def test_a_guide_with_a_point_in_one_site_is_bad():
    def two_sites(y):
        a = numpyro.sample("a", dist.Normal(0.0, 1.0))
        b = numpyro.sample("b", dist.Normal(0.0, 1.0))
        numpyro.sample("y", dist.Normal(a + b, 1.0), obs=y)

    def guide(y):
        numpyro.sample("a", dist.Normal(numpyro.param("loc", 0.0), 0.8))
        numpyro.sample("b", dist.Delta(numpyro.param("point", 0.0)))

    trust = assess(guide, {"loc": 0.3, "point": 0.3}, two_sites).trust
    assert trust.verdict == "bad" and "a point in b," in trust.advice


def with_extra(y):
    numpyro.sample("scale", dist.HalfNormal(1.0))
    numpyro.sample("w", dist.Normal(0.0, 1.0).expand([2]).to_event(1))


def with_auxiliary(y):
    s = numpyro.sample("scale", dist.HalfNormal(1.0), infer={"is_auxiliary": True})
    numpyro.sample("w", dist.Normal(0.0, s).expand([2]).to_event(1))


@pytest.mark.parametrize(
    ("guide", "params", "message"),
    [
        (with_extra, {}, r"sites \['scale'\] that the model lacks"),
        (with_auxiliary, {}, r"auxiliary draws \['scale'\] beside the latent sites"),
        (lambda y: None, {}, r"no site \['w'\]"),
        (
            autoguide.AutoMultivariateNormal(model),
            {"w_auto_loc": MEAN},
            r"guide has auto_loc \(2,\); auto_scale_tril \(2, 2\).*are w_auto_loc \(2,\)",
        ),
        (
            autoguide.AutoMultivariateNormal(model),
            {"auto_loc": MEAN, "auto_scale_tril": np.eye(3)},
            r"do not fit the guide.*parameters are auto_loc \(2,\); auto_scale_tril \(3, 3\)",
        ),
        (
            autoguide.AutoMultivariateNormal(model),
            EXACT | {"auto_loc": MEAN * np.nan},
            "'auto_loc' is NaN or infinite",
        ),
    ],
)
def test_guides_that_do_not_fit_are_refused(guide, params, message):
    with pytest.raises(ValueError, match=message):
        assess(guide, params)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["AutoIAFNormal", "AutoDiagonalNormal", "AutoBNAFNormal"])
def test_fitted_autoguides_agree_with_the_closed_form(name):
    guide = getattr(autoguide, name)(model)
    svi = SVI(model, guide, Adam(0.01), Trace_ELBO(num_particles=8))
    result = svi.run(jax.random.key(0), 3000, Y, progress_bar=False)
    posterior = assess(guide, result.params)
    w, exact_sd = posterior.flat["w"], np.sqrt(np.diag(COVARIANCE))
    errors = np.abs([(w.mean(axis=0) - MEAN) / exact_sd, np.log(w.std(axis=0) / exact_sd)])
    is_good = posterior.trust.verdict == "good"
    # Close to the limit of 0.25 sampling error counts, and the verdict is caution.
    assert not is_good or np.max(errors) < 0.25, (posterior.trust, errors)
    assert is_good or np.max(errors) > 0.12, (posterior.trust, errors)
