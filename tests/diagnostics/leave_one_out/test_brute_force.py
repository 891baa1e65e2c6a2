"""Leave-one-out against fits to the data without a row: counts and a hierarchy."""

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from scipy.special import logsumexp
from scipy.stats import nbinom, norm, poisson

import bayeskern as bk
from bayeskern.diagnostics.leave_one_out.estimates import MATCHED
from bayeskern.diagnostics.leave_one_out.psis import relative_efficiency

pytestmark = pytest.mark.slow
CHAINS = bk.NUTS(evidence=True)


def log_mean(log_values, posterior):
    """Log of the mean over draws, and its standard error."""
    log = logsumexp(log_values) - np.log(len(log_values))
    efficiency = relative_efficiency(posterior)
    spread = np.std(np.exp(log_values - log)) / np.sqrt(efficiency * len(log_values))
    return log, spread


def check(found, log_density, again, posterior):
    """Compare an estimate with a fit to the other rows.

    Args:
        found: Row of `to_frame()`.
        log_density: Log density of the left-out value at the draws of `again`.
        again: Fit to the other rows.
        posterior: Fit to all rows.
    """
    mean, error = log_mean(log_density, again)
    # The plain mean misses an outlier, of which hardly any draw comes near: its own error is large.
    if error < 0.05:
        assert abs(found["elpd"] - mean) < 4.0 * np.hypot(found["error"], error) + 0.01
    # log p(y) - log p(y without y_i), by bridge sampling.
    ratio = posterior.log_evidence.value - again.log_evidence.value
    errors = found["error"], posterior.log_evidence.error, again.log_evidence.error
    assert abs(found["elpd"] - ratio) < 4.0 * np.linalg.norm(errors)


def roaches(seed=1, n=50):
    """Overdispersed counts after two treatments, with two gross outliers."""
    rng = np.random.default_rng(seed)
    x = np.c_[rng.gamma(1.0, 1.0, n), rng.integers(2, size=n)]
    y = rng.poisson(np.exp(1.0 + 0.4 * x[:, 0] - 0.5 * x[:, 1]) * rng.gamma(1.5, 1 / 1.5, n))
    x[[3, 20], 0] = 5.0, 4.5
    y[[3, 20]] = 0, 60
    return x, y


def poisson_model(x, y):
    b = numpyro.sample("b", dist.Normal(0.0, 2.5).expand([3]).to_event(1))
    with numpyro.plate("rows", len(x)):
        numpyro.sample("y", dist.Poisson(jnp.exp(b[0] + x @ b[1:])), obs=y)


def negative_binomial(x, y):
    b = numpyro.sample("b", dist.Normal(0.0, 2.5).expand([3]).to_event(1))
    phi = numpyro.sample("phi", dist.Exponential(1.0))
    with numpyro.plate("rows", len(x)):
        numpyro.sample("y", dist.NegativeBinomial2(jnp.exp(b[0] + x @ b[1:]), phi), obs=y)


def log_poisson(draws, x, y):
    return poisson(np.exp(draws["b"] @ [1.0, *x])).logpmf(y)


def log_negative_binomial(draws, x, y):
    mu, phi = np.exp(draws["b"] @ [1.0, *x]), draws["phi"]
    return nbinom(phi, phi / (phi + mu)).logpmf(y)


@pytest.mark.parametrize(
    ("model", "log_density"),
    [(poisson_model, log_poisson), (negative_binomial, log_negative_binomial)],
    ids=["poisson", "negative binomial"],
)
def test_counts(model, log_density):
    x, y = roaches()
    posterior = bk.infer(model, x, y, method=CHAINS, progress=False)
    loo = bk.loo(posterior, refit="auto")
    frame = loo.to_frame()
    assert loo.trust.verdict == "good"
    # The Poisson model has many influential observations, which PSIS alone gets wrong.
    if model is poisson_model:
        assert (frame["psis_khat"] > loo.threshold).sum() >= 3
        assert (frame["how"] == MATCHED).sum() >= 3
    for row in np.argsort(-frame["psis_khat"].to_numpy())[:4]:
        rest = np.arange(len(y)) != row
        again = bk.infer(model, x[rest], y[rest], method=CHAINS, seed=1, progress=False)
        check(frame.iloc[row], log_density(again.flat, x[row], y[row]), again, posterior)


COUNTIES, HOUSES = 12, 4


def radon(seed=0):
    """Houses in counties, one county with a single outlier."""
    rng = np.random.default_rng(seed)
    county = np.repeat(np.arange(COUNTIES), HOUSES)
    y = rng.normal(1.0, 0.4, COUNTIES)[county] + rng.normal(0.0, 0.5, len(county))
    # Counties 10 and 11 have one house; one house of county 0 is an outlier.
    kept = np.r_[0:41, 44]
    county, y = county[kept], y[kept]
    y[2] += 4.0
    return county, y


def hierarchy(county, y):
    mu = numpyro.sample("mu", dist.Normal(0.0, 2.0))
    tau = numpyro.sample("tau", dist.HalfNormal(1.0))
    sigma = numpyro.sample("sigma", dist.HalfNormal(1.0))
    with numpyro.plate("counties", COUNTIES):
        a = numpyro.sample("a", dist.Normal(0.0, 1.0))
    with numpyro.plate("houses", len(county)):
        numpyro.sample("y", dist.Normal(mu + tau * a[county], sigma), obs=y)


def test_hierarchy():
    county, y = radon()
    posterior = bk.infer(hierarchy, county, y, method=CHAINS, progress=False)
    loo = bk.loo(posterior, refit="auto")
    frame = loo.to_frame()
    for row in (2, 40, 41, 0):
        rest = np.arange(len(y)) != row
        again = bk.infer(hierarchy, county[rest], y[rest], method=CHAINS, seed=1, progress=False)
        draws = again.flat
        mean = draws["mu"] + draws["tau"] * draws["a"][:, county[row]]
        check(frame.iloc[row], norm(mean, draws["sigma"]).logpdf(y[row]), again, posterior)
    assert (frame["psis_khat"] > loo.threshold).any() and loo.trust.verdict == "good"
