"""Bayesian linear regression: all methods against the same model by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from scipy.optimize import minimize_scalar

import bayeskern as bk
from bayeskern import priors
from tests import posteriordb
from tests.linear.regression_data import INFERRED, SCALES, TRUE, P, X, Y, blr, fit, gaussian, plain
from tests.marks import slow

# -- reference posteriors --------------------------------------------------------------------------

ARK = {"prior": dist.Normal(0.0, 10.0), "intercept": dist.Normal(0.0, 10.0)}
REFERENCES = {
    "kidiq-kidscore_momiq": {"prior": priors.Flat(), "intercept": priors.Flat()},
    "kidiq-kidscore_interaction": {"prior": priors.Flat(), "intercept": priors.Flat()},
    "sblrc-blr": {"prior": dist.Normal(0.0, 10.0), "intercept": False},
    "arK-arK": ARK,
}


@pytest.mark.slow
@posteriordb.needed
@pytest.mark.parametrize("name", REFERENCES)
def test_posteriors_of_posteriordb(name):
    _, (design, y), reference = posteriordb.load(name)
    options = REFERENCES[name]
    sd = dist.HalfNormal(10.0) if name == "sblrc-blr" else dist.HalfCauchy(2.5)
    ones = name.startswith("kidiq")
    model = blr(noise_variance=bk.from_sd(sd), **options)
    posterior = fit(model, design[:, 1:] if ones else design, y, method="nuts")
    assert posterior.trust.verdict == "good"
    draws = posterior.flat
    found = {"sigma": np.sqrt(draws["noise"])}
    weights = draws["weights"]
    if ones:
        weights = np.column_stack([draws["intercept"], weights])
    elif options["intercept"]:
        found["alpha"] = draws["intercept"]
    found |= {f"beta[{j + 1}]": weights[:, j] for j in range(weights.shape[1])}
    for name, expected in reference.items():
        assert abs(found[name].mean() - expected["mean"]) < 0.1 * expected["sd"], name
        assert abs(found[name].std() / expected["sd"] - 1.0) < 0.1, name


# -- every method finds the same posterior ---------------------------------------------------------


@pytest.fixture(scope="module")
def by_hand():
    return fit(plain, jnp.asarray(X), jnp.asarray(Y), method=bk.NUTS(draws=2000))


@pytest.mark.slow
@pytest.mark.parametrize(
    "method", ["laplace", *(slow(m) for m in ("svi", "importance", "nuts", "pathfinder", "auto"))]
)
def test_every_method_agrees_with_the_model_by_hand(method, by_hand):
    posterior = fit(blr(prior=priors.Gaussian(SCALES), **INFERRED), method=method)
    for name in ("noise", "weights", "intercept"):
        mine, theirs = posterior.flat[name], by_hand.flat[name]
        mean, sd, most = theirs.mean(axis=0), theirs.std(axis=0), 0.12
        if name == "noise" and posterior.method == "laplace":
            # It is 0.09 sd off by itself, so that its own mean is what it must have.
            (mean, sd), most = laplace_of_the_noise(), 4.0 / np.sqrt(len(mine))
        np.testing.assert_array_less(np.abs(mine.mean(axis=0) - mean) / sd, most)
        np.testing.assert_allclose(mine.std(axis=0), sd, rtol=0.12)
    assert posterior.draws.keys() == by_hand.draws.keys()


def laplace_of_the_noise():
    """Mean and sd of the lognormal at the mode of log noise, weights integrated out by hand."""
    prior, step = bk.from_sd(dist.HalfNormal(3.0)), 1e-3

    def falls(t):
        return -(gaussian(SCALES, 5.0, np.exp(t))[2] + float(prior.log_prob(np.exp(t))) + t)

    mode = minimize_scalar(falls, bounds=(-2.0, 2.0), method="bounded", options={"xatol": 1e-8}).x
    variance = step**2 / (falls(mode + step) + falls(mode - step) - 2.0 * falls(mode))
    mean = np.exp(mode + 0.5 * variance)
    return mean, mean * np.sqrt(np.expm1(variance))


def test_log_density_equals_the_model_by_hand():
    model, data = blr(prior=priors.Gaussian(SCALES), **INFERRED).prepare(X, Y)
    at = {"noise": jnp.asarray(0.7), "weights": jnp.asarray(TRUE), "intercept": jnp.asarray(1.5)}
    mine = numpyro.infer.util.log_density(model, data, {}, at)[0]
    theirs = numpyro.infer.util.log_density(plain, (X, Y), {}, at)[0]
    np.testing.assert_allclose(mine, theirs, rtol=1e-12)


@pytest.mark.slow
def test_numpyro_samples_the_unprepared_model():
    model = blr(prior=priors.Gaussian(1.0 / X.std(axis=0)), noise_variance=0.8)
    center = X - X.mean(axis=0)
    nuts = numpyro.infer.NUTS(model, dense_mass=True)
    mcmc = numpyro.infer.MCMC(nuts, num_warmup=300, num_samples=1000, progress_bar=False)
    mcmc.run(jax.random.key(0), center, Y)
    theirs, mine = mcmc.get_samples(), fit(model, center, Y).flat
    for name in ("weights", "intercept"):
        sd = mine[name].std(axis=0)
        off = np.abs(np.mean(theirs[name], axis=0) - mine[name].mean(axis=0)) / sd
        np.testing.assert_array_less(off, 0.25)


@pytest.mark.slow
def test_log_evidence_against_quadrature():
    model = blr(prior=priors.Gaussian(SCALES), **INFERRED)
    found = fit(model, method="importance").log_evidence
    from scipy.integrate import quad

    prior = bk.from_sd(dist.HalfNormal(3.0))

    def integrand(noise):
        return np.exp(gaussian(SCALES, 5.0, noise)[2] + float(prior.log_prob(noise)) + 110.0)

    expected = np.log(quad(integrand, 0.2, 4.0, epsabs=0, epsrel=1e-8, points=[0.9])[0]) - 110.0
    assert abs(found.value - expected) < max(4.0 * found.error, 0.01)


@pytest.mark.slow
@pytest.mark.parametrize(
    "prior",
    [
        pytest.param(priors.Horseshoe(scale=0.1, unit=1.0), marks=pytest.mark.long),
        priors.ARD(dist.HalfNormal(2.0)),
    ],
)
def test_ard_and_horseshoe_agree_with_the_model_by_hand(prior):
    Z = X / X.std(axis=0)

    def hand(X, y):
        noise = numpyro.sample("noise", bk.from_sd(dist.HalfNormal(3.0)))
        if isinstance(prior, priors.ARD):
            sd = numpyro.sample("scale", dist.HalfNormal(2.0).expand([P]).to_event(1))
        else:
            tau = numpyro.sample("tau", dist.HalfCauchy(0.1))
            local = numpyro.sample("local", dist.HalfCauchy(1.0).expand([P]).to_event(1))
            slab = numpyro.sample("slab", dist.InverseGamma(2.0, 2.0 * 2.5**2))
            sd = jnp.sqrt(slab) * tau * local / jnp.sqrt(slab + (tau * local) ** 2)
        white = numpyro.sample("white", dist.Normal(0.0, 1.0).expand([P]).to_event(1))
        weights = numpyro.deterministic("weights", white * sd)
        intercept = numpyro.sample("intercept", dist.Normal(0.0, 5.0))
        numpyro.sample("y", dist.Normal(intercept + X @ weights, jnp.sqrt(noise)), obs=y)

    nuts = bk.NUTS(warmup=500, draws=500, target_accept=0.95)
    mine = fit(blr(prior=prior, **INFERRED), Z, Y, method=nuts).flat
    theirs = fit(hand, jnp.asarray(Z), jnp.asarray(Y), method=nuts).flat
    for name in ("noise", "weights", "intercept"):
        sd = theirs[name].std(axis=0)
        off = np.abs(mine[name].mean(axis=0) - theirs[name].mean(axis=0)) / sd
        np.testing.assert_array_less(off, 0.2)
        np.testing.assert_allclose(mine[name].std(axis=0), sd, rtol=0.2)
