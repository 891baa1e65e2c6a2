"""Power scaling against ArviZ, and conflicts of priors and data in the advice of a verdict."""

import dataclasses

import arviz as az
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from scipy.stats import norm

import bayeskern as bk
from bayeskern.inference.assessment import power_scaling
from bayeskern.inference.model.target import Target
from bayeskern.inference.verdict import Trust

rng = np.random.default_rng(0)
Y = rng.normal(2.0, 1.0, size=30)


def model(y, sd):
    mu = numpyro.sample("mu", dist.Normal(0.0, sd))
    sigma = numpyro.sample("sigma", dist.HalfNormal(2.0))
    numpyro.sample("y", dist.Normal(mu, sigma).expand([len(y)]).to_event(1), obs=y)


@pytest.fixture(scope="module")
def conflict():
    return bk.infer(model, Y, 0.2, method="laplace", seed=0, progress=False)


def test_sensitivities_match_arviz(conflict):
    densities = power_scaling.scaled_densities(conflict)
    assert densities.sites == ("mu", "sigma") and densities.log_prior.shape == (1, 1000)
    draws = {name: x[:, densities.rows] for name, x in conflict.draws.items()}
    table = power_scaling.sensitivities(draws, densities)
    tree = az.from_dict(
        {
            "posterior": draws,
            "log_prior": {"prior": densities.log_prior},
            "log_likelihood": {"data": densities.log_likelihood[..., None]},
        }
    )
    expected = az.psense_summary(tree, round_to=12)
    for name, found in table.items():
        assert found.prior == pytest.approx(expected.loc[name, "prior"], abs=1e-9)
        assert found.likelihood == pytest.approx(expected.loc[name, "likelihood"], abs=1e-9)
        assert (found.diagnosis == "potential prior-data conflict") == (
            "conflict" in expected.loc[name, "diagnosis"]
        )


def test_advice_names_the_conflict_and_the_verdict_stays(conflict):
    trust, plain = conflict.trust, conflict.trust_in_draws
    assert trust.verdict == plain.verdict == "good"
    assert trust.advice.startswith(plain.advice)
    assert "The priors and the data disagree about mu and 1 other parameter" in trust.advice
    assert trust.evidence["prior_sensitivity"] > 0.2
    assert trust.evidence["prior_sensitivity_at"] == "mu"
    assert "disagree" not in plain.advice and "power scaling" in repr(conflict)
    # Asked again, as by `auto` and after loading, the advice is not repeated.
    again = power_scaling.with_prior_conflict(conflict, trust)
    assert again == trust


def conflicts(prior_sd, distance, count=100):
    """Share of posteriors of a normal mean that are called a conflict, for 10 observations.

    distance: Distance of the sample mean from the prior mean in sds of its prior predictive; None
        for samples from it.
    """
    normal, found = np.random.default_rng(1), 0
    for _ in range(count):
        z = normal.normal() if distance is None else distance
        mean = z * np.sqrt(prior_sd**2 + 0.1)
        precision = 1.0 / prior_sd**2 + 10.0
        mu = normal.normal(10.0 * mean / precision, precision**-0.5, size=(1, 1000))
        densities = power_scaling.ScaledDensities(
            np.arange(1000), norm.logpdf(mu, 0.0, prior_sd), -5.0 * (mu - mean) ** 2, ("mu",)
        )
        found += power_scaling.sensitivities({"mu": mu}, densities)["mu"].is_conflict
    return found / count


@pytest.mark.slow
def test_priors_that_agree_are_rarely_called_a_conflict():
    # Half of the information from the prior, where a normal prior has its largest influence.
    assert conflicts(0.1**0.5, None) < 0.1
    assert conflicts(0.1**0.5, 3.5) > 0.95
    assert conflicts(1.0, None) < 0.02 and conflicts(1.0, 6.0) > 0.95


@pytest.mark.slow
def test_wide_prior_is_not_in_conflict():
    posterior = bk.infer(model, Y, 50.0, method="laplace", seed=0, progress=False)
    assert posterior.trust == posterior.trust_in_draws


def test_bad_draws_are_not_weighted(conflict):
    bad = Trust("bad", "The chains disagree.", {})
    assert power_scaling.with_prior_conflict(conflict, bad) is bad
    point = bk.infer(model, Y, 0.2, method="map", progress=False)
    assert "disagree" not in point.trust.advice


def hierarchy(y):
    level = numpyro.sample("level", dist.Normal(0.0, 5.0))
    tau = numpyro.sample("tau", dist.HalfNormal(1.0))
    flat = numpyro.sample("flat", dist.ImproperUniform(dist.constraints.real, (), ()))
    with numpyro.plate("group", 3):
        z = numpyro.sample("z", dist.Normal(0.0, 1.0))
        theta = numpyro.sample("theta", dist.Normal(level, tau))
    noise = numpyro.sample("noise", dist.Normal(0.0, 1.0).expand([len(y)]).to_event(1))
    numpyro.sample("y", dist.Normal(theta.sum() + z.sum() + flat + noise, 1.0), obs=y)


def columns(y):
    with numpyro.plate("column", 3):
        beta = numpyro.sample("beta", dist.Normal(0.0, 1.0))
    numpyro.sample("y", dist.Normal(beta.sum(), 1.0), obs=y)


def test_only_priors_at_the_top_are_scaled():
    assert power_scaling.scaled_priors(Target.from_model(hierarchy, (Y,), {})) == ("level", "tau")
    # Without hyperpriors, the prior of a plate is at the top.
    assert power_scaling.scaled_priors(Target.from_model(columns, (Y,), {})) == ("beta",)


def uniform(y):
    mu = numpyro.sample("mu", dist.Uniform(-10.0, 10.0))
    numpyro.sample("y", dist.Normal(mu, 1.0), obs=y)


@pytest.mark.slow
def test_flat_prior_has_no_conflict():
    posterior = bk.infer(uniform, Y, method="laplace", progress=False)
    assert "disagree" not in posterior.trust.advice
    densities = power_scaling.scaled_densities(posterior)
    assert "prior of mu is the same" in power_scaling.reason_not_weighted(densities)


@pytest.mark.slow
def test_conflict_of_auto_and_of_a_saved_posterior(tmp_path):
    posterior = bk.infer(model, Y, 0.2, seed=0, progress=False)
    assert posterior.trust.advice.count("disagree about mu") == 1
    posterior.save(tmp_path / "p.nc")
    for loaded in (bk.load(tmp_path / "p.nc"), bk.load(tmp_path / "p.nc", model)):
        assert loaded.trust.advice == posterior.trust.advice


def costly(y):
    mu = numpyro.sample("mu", dist.Normal(0.0, 0.2))
    big = jnp.ones((600, 600)) * mu
    numpyro.sample("y", dist.Normal(jnp.mean(big @ big) / (360000.0 * mu), 1.0), obs=y)


@pytest.mark.slow
def test_costly_density_is_left_to_the_report(conflict):
    assert power_scaling.is_costly(Target.from_model(costly, (Y,), {}))
    target = Target.from_model(costly, (Y,), {})
    posterior = dataclasses.replace(conflict, target=target, draws={"mu": conflict.draws["mu"]})
    trust = Trust("good", "", {})
    assert power_scaling.with_prior_conflict(posterior, trust) is trust
