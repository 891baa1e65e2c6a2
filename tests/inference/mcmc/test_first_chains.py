"""The metric and the starts that short first chains give to all chains."""

import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest

from bayeskern.inference.mcmc.first_chains import FirstDraws
from bayeskern.inference.mcmc.metric import Metric
from bayeskern.inference.model.target import Target

ROOT = np.linalg.cholesky([[4.0, 1.8, 0.0], [1.8, 1.0, 0.0], [0.0, 0.0, 0.25]])


def normal():
    numpyro.sample("x", dist.MultivariateNormal(np.zeros(3), scale_tril=ROOT))


def first_draws(last, log_density, steps):
    """Three chains of independent draws, and a last one with its log density and steps."""
    z = np.random.default_rng(0).normal(size=(3, 200, 3)) @ ROOT.T
    unit = Metric.of_root(np.ones(3), 3)
    chains = np.concatenate([z, last[None]])
    return FirstDraws(
        chains,
        np.array([0.0, 0.0, 0.0, log_density]),
        np.array([7.0, 7, 7, steps]),
        (unit,) * 4,
        (),
    )


def assert_metric_of_normal(draws):
    target = Target.from_model(normal, (), {})
    points, metric = draws.starts(target, may_be_diagonal=True)
    # 600 independent draws, and 5 of unit covariance.
    sds = np.linalg.svd(np.linalg.solve(ROOT, metric.matrix), compute_uv=False)
    np.testing.assert_allclose(sds, 1.0, rtol=0.1)
    np.testing.assert_array_equal([point.z for point in points], draws.z[:, -1])
    expected = [-float(target.log_density(z)) for z in draws.z[:, -1]]
    np.testing.assert_allclose([point.potential for point in points], expected)


def test_chain_that_has_not_arrived_does_not_count():
    moving = np.linspace(1e4, 2e3, 200)[:, None] * np.ones(3)
    assert_metric_of_normal(first_draws(moving, -1e9, 1.0))


def test_chain_with_a_bad_metric_does_not_count():
    slow = np.random.default_rng(1).normal(scale=1e-3, size=(200, 3))
    assert_metric_of_normal(first_draws(slow, -1.0, 700.0))


def test_chains_in_two_modes_have_the_metric_within_a_mode():
    apart = 50.0 + np.random.default_rng(2).normal(size=(200, 3)) @ ROOT.T
    assert_metric_of_normal(first_draws(apart, -1.0, 7.0))


@pytest.mark.parametrize("correlation", [0.0, 0.9])
def test_metric_is_diagonal_where_correlations_do_not_help(correlation):
    def two():
        covariance = np.array([[1.0, correlation], [correlation, 1.0]])
        numpyro.sample("x", dist.MultivariateNormal(np.zeros(2), covariance))

    root = np.linalg.cholesky([[1.0, correlation], [correlation, 1.0]])
    z = np.random.default_rng(0).normal(size=(4, 30, 2)) @ root.T
    unit = Metric.of_root(np.ones(2), 2)
    draws = FirstDraws(z, np.zeros(4), np.full(4, 7.0), (unit,) * 4, ())
    target = Target.from_model(two, (), {})
    assert draws.starts(target, may_be_diagonal=True)[1].rank == (2 if correlation else 0)
    assert draws.starts(target, may_be_diagonal=False)[1].rank == 2
