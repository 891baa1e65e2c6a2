"""Fits in several threads: NumPyro keeps the handlers of all threads in one stack."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest

import bayeskern as bk
from tests.marks import slow


def model(y):
    mu = numpyro.sample("mu", dist.Normal(0.0, 1.0))
    sigma = numpyro.sample("sigma", dist.HalfNormal(1.0))
    with numpyro.plate("rows", len(y)):
        numpyro.sample("y", dist.Normal(mu, sigma), obs=y)


def fit(job):
    """Numbers of a fit to `count` values, which is traced anew for each count."""
    method, count = job
    y = np.random.default_rng(count).normal(size=count)
    posterior = bk.infer(model, y, method=method, seed=count, progress=False)
    shares = posterior.log_likelihood()["y"].mean()
    return posterior.draws["mu"].mean(), posterior.trust.verdict, shares


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "count"), [("laplace", 2), slow("importance", 4), slow("nuts", 4), slow("svi", 4)]
)
def test_fits_in_threads_equal_sequential_fits(method, count):
    jobs = [(method, 20 + i) for i in range(count)]
    with ThreadPoolExecutor(count) as pool:
        together = list(pool.map(fit, jobs))
    assert together == [fit(job) for job in jobs]
