"""Models in raw units: MAP converges, and Laplace and SVI are right or say that they are not."""

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro.distributions import constraints

import bayeskern as bk
from tests.marks import slow

rng = np.random.default_rng(0)
N = 200
YEAR = rng.uniform(0, 120, N)
X = np.stack([np.ones(N), YEAR], axis=1)
Y = -8e4 + 1e3 * YEAR + 2e4 * rng.normal(size=N)


def flat(X, y):
    beta = numpyro.sample("beta", dist.ImproperUniform(constraints.real_vector, (), (X.shape[1],)))
    sigma = numpyro.sample("sigma", dist.ImproperUniform(constraints.positive, (), ()))
    numpyro.sample("y", dist.Normal(X @ beta, sigma), obs=y)


def closed_form(X, y):
    """Flat in beta and sigma: beta is Student t around least squares, n - k - 1 degrees."""
    n, k = X.shape
    beta, rss = np.linalg.lstsq(X, y)[:2]
    dof = n - k - 1
    covariance = rss[0] / (dof - 2) * np.linalg.inv(X.T @ X)
    return beta, np.sqrt(np.diag(covariance)), np.sqrt(rss[0] / n)


COLLINEAR = np.stack([np.ones(N), YEAR, YEAR + 0.1 * rng.normal(size=N)], axis=1)


@pytest.mark.parametrize("design", [slow(X), COLLINEAR], ids=["raw units", "nearly collinear"])
def test_mode_is_least_squares(design):
    posterior = bk.infer(flat, design, Y, method="map", progress=False)
    beta, sd, sigma = closed_form(design, Y)
    assert posterior.trust.verdict == "not assessable", posterior.trust
    np.testing.assert_array_less(np.abs(posterior.draws["beta"][0, 0] - beta) / sd, 0.02)
    np.testing.assert_allclose(posterior.draws["sigma"].item(), sigma, rtol=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize(
    "method", ["laplace", "svi", "importance", bk.NUTS(warmup=500, mass_matrix="dense")]
)
@pytest.mark.parametrize("design", [X, COLLINEAR], ids=["raw units", "nearly collinear"])
def test_posteriors_in_raw_units_are_good_and_right(design, method):
    posterior = bk.infer(flat, design, Y, method=method, progress=False)
    beta, sd, _ = closed_form(design, Y)
    draws = posterior.flat["beta"]
    off = np.max(np.abs(draws.mean(axis=0) - beta) / sd)
    ratio = np.max(np.abs(draws.std(axis=0) / sd - 1.0))
    assert off < 0.25 and ratio < 0.25
    # This posterior is close to Gaussian.
    assert posterior.trust.verdict == "good", posterior.trust
    assert posterior.log_evidence is None


@pytest.mark.slow
@pytest.mark.parametrize("method", ["laplace", "map", "svi", "importance"])
def test_columns_that_differ_by_rounding_are_bad(method):
    design = np.stack([np.ones(N), YEAR, YEAR + 1e-3 * np.random.default_rng(1).normal(size=N)], 1)
    assert np.linalg.cond(design.T @ design) > 1e10
    assert bk.infer(flat, design, Y, method=method, progress=False).trust.verdict == "bad"


@pytest.mark.slow
def test_parameters_of_1e4_beside_1e_minus_3():
    def model(y):
        large = numpyro.sample("large", dist.Normal(0.0, 1e5))
        small = numpyro.sample("small", dist.LogNormal(-7.0, 1.0))
        numpyro.sample(
            "y", dist.Normal(jnp.stack([large, 1e3 * small]), jnp.array([1e4, 0.1])), obs=y
        )

    y = np.array([5e4, 1.0])
    for method in ("map", "laplace", "svi", "importance"):
        posterior = bk.infer(model, y, method=method, progress=False)
        assert posterior.trust.verdict in ("good", "not assessable"), (method, posterior.trust)
        exact = 5e4 * 1e10 / (1e10 + 1e8)
        assert abs(posterior.draws["large"].mean() - exact) < 0.1 * 1e4
        assert abs(posterior.draws["small"].mean() - 1e-3) < 1e-4
