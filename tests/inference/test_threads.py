"""Fits in several threads at once: NumPyro keeps the handlers of all threads in one stack."""

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
    """Numbers of a fit to so many values, of which each count is traced anew."""
    method, count = job
    y = np.random.default_rng(count).normal(size=count)
    posterior = bk.infer(model, y, method=method, seed=count, progress=False)
    shares = posterior.log_likelihood()["y"].mean()
    return posterior.draws["mu"].mean(), posterior.trust.verdict, shares


@pytest.mark.parametrize("method", ["laplace", slow("importance"), slow("nuts"), slow("svi")])
def test_fits_in_threads_equal_sequential_fits(method):
    jobs = [(method, count) for count in (20, 21, 22, 23)]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(fit, jobs))
    assert together == [fit(job) for job in jobs]
