"""Expectations and their errors against closed forms, NumPy and ArviZ."""

import arviz as az
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from scipy.stats import beta

import bayeskern as bk
from tests.marks import few

THROWS = [1, 1, 0, 1]
COIN = bk.BetaBernoulli(1.0, 1.0)
# The posterior is Beta(4, 2).
TRUTH = np.array([4.0 / 6.0, 4.0 * 5.0 / (6.0 * 7.0), 1.0 - beta(4, 2).cdf(0.5)])


def moments(draw):
    return jnp.stack([draw["p"], draw["p"] ** 2, draw["p"] > 0.5])


def fit(method, seed=0):
    return bk.infer(COIN, THROWS, method=method, seed=seed, progress=False)


@pytest.mark.slow
@pytest.mark.parametrize("method", few(["exact", "importance", "nuts"], "exact"))
def test_standard_error_is_calibrated(method):
    """Over many seeds, errors in units of the standard error have an sd of one."""
    found = [fit(method, seed).expectation(moments) for seed in range(30)]
    standard = np.array([(one.value - TRUTH) / one.error for one in found])
    assert np.abs(standard).max() < 5.0
    # 30 independent ones: the root of the mean square is 1 with an error of 0.13.
    np.testing.assert_allclose(np.sqrt(np.mean(standard**2, axis=0)), 1.0, atol=0.6)


@pytest.mark.slow
def test_weighted_draws_give_the_self_normalised_estimate():
    posterior = fit("importance")
    found = posterior.expectation(moments)
    draws, log_weights = posterior.weighted
    weights, p = np.exp(log_weights), draws["p"]
    values = np.stack([p, p**2, p > 0.5], axis=1)
    mean = np.sum(weights[:, None] * values, axis=0) / np.sum(weights)
    error = np.sqrt(np.sum(np.square(weights[:, None] * (values - mean)), axis=0))
    np.testing.assert_allclose(found.value, mean, rtol=1e-12)
    np.testing.assert_allclose(found.error, error, rtol=1e-10)
    assert np.all(found.khat < found.threshold) and "k-hat" not in repr(found)


def test_heavy_tail_of_f_is_reported():
    """E[exp(x^2)] of a Student t is infinite, however good the weights are for other means."""
    student = bk.LogDensity(lambda z: -2.0 * jnp.log1p(z[0] ** 2 / 3.0), 1)
    posterior = bk.infer(student, method="importance", seed=0, progress=False)
    found = posterior.expectation(lambda draw: jnp.exp(jnp.abs(draw["z"][0])))
    assert found.khat > found.threshold
    assert "not reliable: k-hat" in repr(found)
    probability = posterior.expectation(lambda draw: draw["z"][0] > 0.0)
    assert probability.khat < probability.threshold
    assert abs(probability.value - 0.5) < 5.0 * probability.error


GAMMA = (3.0, 1.0)


def gamma():
    numpyro.sample("x", dist.Gamma(*GAMMA))


def powers(draw):
    return jnp.stack([draw["x"], draw["x"] ** 2])


@pytest.mark.parametrize("method", ["laplace", bk.ImportanceSampling(tails=None, adapt=0)])
def test_matched_moments_of_a_gamma_distribution(method):
    """The mode of log x and its curvature give a mean of 3.5 for 3."""
    posterior = bk.infer(gamma, method=method, seed=0, progress=False)
    plain = posterior.expectation(powers)
    matched = posterior.expectation(powers, match=True)
    truth = [3.0, 12.0]
    np.testing.assert_array_less(np.abs(matched.value - truth), 5.0 * matched.error)
    assert matched.error[0] < 0.06 and matched.matched and not plain.matched
    if posterior.weighted is None:
        assert plain.value[0] - 3.0 > 5.0 * plain.error[0]


@pytest.mark.slow
def test_matching_needs_a_density_of_the_draws(tmp_path):
    posterior = bk.infer(gamma, method="laplace", seed=0, progress=False)
    posterior.save(tmp_path / "p.nc")
    loaded = bk.load(tmp_path / "p.nc", model=gamma)
    with pytest.raises(ValueError, match="a file does not keep it"):
        loaded.expectation(powers, match=True)
    with pytest.raises(ValueError, match="predict needs the model|needs the model"):
        bk.load(tmp_path / "p.nc").expectation(powers, match=True)
    with pytest.raises(ValueError, match="exact has none"):
        fit("exact").expectation(lambda draw: draw["p"], match=True)


@pytest.mark.slow
def test_matched_moments_without_high_khat_are_the_weighted_ones():
    posterior = fit("importance")
    plain, matched = (posterior.expectation(moments, match=match) for match in (False, True))
    np.testing.assert_allclose(matched.value, plain.value, rtol=1e-6)


def model():
    mu = numpyro.sample("mu", dist.Normal(3.0, 2.0).expand([2]))
    numpyro.deterministic("total", mu.sum())


@pytest.mark.slow
def test_error_of_chains_equals_arviz():
    posterior = bk.infer(model, method=bk.NUTS(draws=300), seed=0, progress=False)
    found = posterior.expectation(lambda draw: {"mu": draw["mu"]}["mu"])
    mcse = az.mcse(posterior.to_arviz(), var_names=["mu"], method="mean")["mu"].to_numpy()
    np.testing.assert_allclose(found.value, posterior.flat["mu"].mean(axis=0))
    np.testing.assert_allclose(found.error, mcse, rtol=1e-9)
    total = posterior.expectation(lambda draw: draw["total"])
    assert total.value == pytest.approx(found.value.sum())
    assert posterior.expectation(lambda draw: 2.0).error == 0.0


@pytest.mark.slow
def test_error_of_a_point_estimate_is_unknown():
    found = fit("map").expectation(lambda draw: draw["p"])
    assert found.value == pytest.approx(0.75, abs=1e-4) and np.isnan(found.error)
    assert repr(found).endswith("(error unknown)")


@pytest.mark.parametrize(
    ("f", "kind", "message"),
    [
        (lambda draw: draw["chance"], ValueError, "no site 'chance': f takes a dict of p"),
        (lambda draw: np.sin(draw["p"]), TypeError, "f must be written in JAX"),
        (lambda draw: jnp.log(draw["p"] - 0.5), ValueError, "NaN or infinite at .* of 4000 draws"),
    ],
    ids=["site", "numpy", "nan"],
)
def test_invalid_functions_are_refused(f, kind, message):
    with pytest.raises(kind, match=message):
        fit("exact").expectation(f)
