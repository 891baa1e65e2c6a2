"""Tempered sequential Monte Carlo against closed forms."""

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from scipy.special import i0e

import bayeskern as bk
from bayeskern.inference.methods.smc import mean_over_islands
from models import eight_schools
from tests.inference.closed_forms import (
    COIN,
    COIN_LOG_EVIDENCE,
    HEADS,
    Regression,
    coin,
    regression,
)
from tests.inference.zoo.mixtures import HARD, diagonal_mixture
from tests.inference.zoo.zoo import BY_NAME
from tests.marks import slow

CASE = Regression()
LATTICE = BY_NAME["lattice, 3 d"]


def fit(model, *args, seed=0, **options):
    return bk.infer(model, *args, method=bk.SMC(**options), seed=seed, progress=False)


def assert_has_log_evidence(posterior, expected):
    assert abs(posterior.log_evidence.value - expected) < 4.0 * posterior.log_evidence.error


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, slow(1), slow(2)])
def test_linear_regression_with_known_noise(seed):
    posterior = fit(regression, *CASE.data, seed=seed)
    assert posterior.trust.verdict == "good", posterior.trust
    w, ess = posterior.draws["w"][0], posterior.trust.evidence["ess_bulk"]
    error = np.abs(w.mean(axis=0) - CASE.mean) / CASE.sd
    np.testing.assert_array_less(error, 4.5 / np.sqrt(ess))
    np.testing.assert_allclose(w.std(axis=0) / CASE.sd, 1.0, atol=0.1)
    assert_has_log_evidence(posterior, CASE.log_evidence)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_log_marginal_likelihood_of_a_coin(seed):
    posterior = fit(coin, HEADS, seed=seed)
    assert_has_log_evidence(posterior, COIN_LOG_EVIDENCE)
    mean = posterior.expectation(lambda draw: draw["p"])
    assert abs(mean.value - COIN.mean()) < 4.0 * mean.error
    assert 0.9 < mean.error * np.sqrt(4000) / COIN.std() < 3.0


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_lattice_of_a_thousand_modes(seed):
    """The Jacobi-Anger expansion gives E exp(4 cos 2x) = I_0(4), but for exp(-50)."""
    posterior = fit(LATTICE.model, seed=seed)
    assert posterior.trust.verdict in ("good", "caution")
    sd = posterior.draws["x"][0].std(axis=0)
    # Four standard errors of an sd by so many effective draws.
    error = 5.0 / np.sqrt(2.0 * posterior.trust.evidence["ess_bulk"])
    np.testing.assert_allclose(sd, 5.0, atol=4.0 * error)
    assert_has_log_evidence(posterior, 3.0 * (np.log(i0e(4.0)) + 4.0))


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("number", range(7))
def test_mixtures_of_unequal_widths_keep_their_weights(number, seed):
    mixture = diagonal_mixture(*HARD[number])
    posterior = fit(mixture.model, seed=seed)
    assert posterior.trust.verdict == "good", posterior.trust
    x = posterior.draws["x"][0]
    first = np.mean(np.abs(x[:, 0] - mixture.means[0, 0]) < np.abs(x[:, 0] - mixture.means[1, 0]))
    assert abs(first - mixture.weights[0]) < 0.05
    assert_has_log_evidence(posterior, 0.0)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_wide_component_around_a_narrow_one_is_reached(seed):
    concentric = BY_NAME["concentric normals, 10 d"]
    posterior = fit(concentric.model, seed=seed)
    assert concentric.is_right(posterior.draws)
    assert_has_log_evidence(posterior, np.log(2.0))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_improper_posterior_is_bad(seed):
    separable = BY_NAME["separable logistic regression"]
    assert fit(separable.model, *separable.args, seed=seed).trust.verdict == "bad"


@pytest.mark.slow
def test_eight_schools_agree_with_chains():
    model, data = eight_schools.noncentred, eight_schools.data()
    particles = fit(model, *data)
    chains = bk.infer(
        model, *data, method=bk.NUTS(target_accept=0.95, evidence=True), progress=False
    )
    assert particles.trust.verdict == "good"
    for name in ("mu", "tau", "theta"):
        p, c = particles.flat[name], chains.flat[name]
        assert np.max(np.abs(p.mean(axis=0) - c.mean(axis=0)) / c.std(axis=0)) < 0.15
        np.testing.assert_allclose(p.std(axis=0) / c.std(axis=0), 1.0, atol=0.15)
    error = np.hypot(particles.log_evidence.error, chains.log_evidence.error)
    assert abs(particles.log_evidence.value - chains.log_evidence.value) < 4.0 * error


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_too_few_particles_are_bad(seed):
    posterior = fit(LATTICE.model, particles=160, seed=seed)
    assert posterior.trust.verdict == "bad" and posterior.trust.evidence["ess_bulk"] < 100


@pytest.mark.slow
def test_particles_are_not_chains():
    posterior = fit(regression, *CASE.data, particles=800)
    assert posterior.shape == (1, 800)
    assert not posterior.is_mcmc and not posterior.has_chains
    assert set(posterior.sample_stats) == {"lp", "ancestor", "island"}
    assert "r_hat" not in posterior.summary().columns
    assert posterior.trace["temperature"][-1] == 1.0


@pytest.mark.slow
def test_improper_prior_has_no_log_marginal_likelihood():
    def model(y):
        mu = numpyro.sample("mu", dist.ImproperUniform(dist.constraints.real, (), ()))
        numpyro.sample("y", dist.Normal(mu, 1.0), obs=y)

    posterior = fit(model, CASE.y + 100.0)
    assert posterior.trust.verdict == "good" and posterior.log_evidence is None
    mu = posterior.draws["mu"][0]
    assert abs(mu.mean() - np.mean(CASE.y + 100.0)) < 0.1 / np.sqrt(40)
    assert abs(mu.std() * np.sqrt(40) - 1.0) < 0.1


@pytest.mark.slow
def test_prior_draws_of_zero_density_have_no_weight():
    def model():
        x = numpyro.sample("x", dist.Uniform(0.0, 1.0).expand([3]).to_event(1))
        numpyro.factor("corner", jnp.where(jnp.sum(x) > 2.0, 0.0, -jnp.inf))

    posterior = fit(model)
    assert np.all(posterior.draws["x"].sum(axis=-1) > 2.0)
    assert_has_log_evidence(posterior, -np.log(6.0))


def test_mean_over_islands():
    found = mean_over_islands(np.log([1.0, 2.0, 3.0, 6.0]))
    np.testing.assert_allclose(found.value, np.log(3.0))
    np.testing.assert_allclose(found.error, np.std([1.0, 2.0, 3.0, 6.0], ddof=1) / 2.0 / 3.0)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_unreached_tails_are_not_good(seed):
    """The arms of a twisted normal distribution are longer than its modes and the prior show."""
    twisted = BY_NAME["twisted normal, 5 d"]
    posterior = fit(twisted.model, seed=seed)
    assert twisted.is_right(posterior.draws) or posterior.trust.verdict != "good"
