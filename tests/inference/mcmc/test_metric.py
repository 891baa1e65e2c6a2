"""Metrics against closed forms for normal distributions, and NumPyro's kernel."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro.infer.hmc import hmc

from bayeskern.inference.mcmc.initialization import initial_points
from bayeskern.inference.mcmc.kernel import ChainState, KernelOptions, Stretch, take_steps
from bayeskern.inference.mcmc.mass_matrix import MetricShape
from bayeskern.inference.mcmc.metric import Metric
from bayeskern.inference.mcmc.warmup import RecentDraws, has_settled, window_ends
from bayeskern.inference.model.target import Target


def covariance(d, condition, seed=0):
    Q, _ = np.linalg.qr(np.random.default_rng(seed).normal(size=(d, d)))
    sds = np.geomspace(0.1, 10.0, d)
    return sds[:, None] * ((Q * np.geomspace(1.0 / condition, 1.0, d)) @ Q.T) * sds


def normal_draws(cov, n, seed=1):
    """Draws of N(0, cov), and the gradients of -log p there."""
    z = np.random.default_rng(seed).multivariate_normal(np.zeros(len(cov)), cov, n)
    return z, np.linalg.solve(cov, z.T).T


def standardised(metric, cov):
    """Covariance in coordinates u."""
    return metric.to_u(metric.to_u(cov).T)


def unit(d, rank, blocks=None):
    return Metric.of_root(np.ones(d), rank, blocks)


def repeated(metric, draws, count=30):
    for _ in range(count):
        metric = metric.updated(*draws)
    return metric


def test_dense_metric_of_a_normal_is_its_covariance():
    """Gradients are linear in the draws, so that few draws determine the covariance."""
    cov = covariance(6, 1e6)
    metric = repeated(unit(6, 6), normal_draws(cov, 20))
    np.testing.assert_allclose(standardised(metric, cov), np.eye(6), atol=1e-6)


def test_warmup_of_a_stuck_chain_does_not_end():
    metric = repeated(unit(3, 3), normal_draws(np.eye(3), 2000))
    moving = RecentDraws(*normal_draws(np.eye(3), 2000, seed=2))
    stuck = RecentDraws(np.zeros((20, 3)), np.ones((20, 3)))
    assert has_settled(metric, moving.update(metric))
    assert not has_settled(metric, stuck.update(metric))


def test_diagonal_metric_minimises_the_fisher_divergence():
    """The entries are sqrt(C_ii / (C^-1)_ii), the diagonals of draws and of gradients."""
    cov = covariance(5, 50.0)
    root = np.linalg.cholesky(cov)
    # Draws whose covariance is exactly C.
    white = np.random.default_rng(0).normal(size=(400, 5))
    white -= white.mean(axis=0)
    z = np.linalg.solve(np.linalg.cholesky(white.T @ white / 400), white.T).T @ root.T
    metric = repeated(unit(5, 0), (z, np.linalg.solve(cov, z.T).T))
    wanted = np.sqrt(np.diag(cov) / np.diag(np.linalg.inv(cov)))
    # The weight of the unit prior keeps a share of 5 / 400 of the difference.
    np.testing.assert_allclose(np.square(metric.scale), wanted, rtol=0.02)


@pytest.mark.parametrize("rank", [0, 30])
def test_wider_metric_has_the_sds_of_draws_that_vary_more(rank):
    """In one direction the variance is 9 times that of the metric, in another a quarter of it."""
    d = 30
    directions = np.eye(d) if rank == 0 else np.linalg.qr(covariance(d, 1e2))[0]
    sds = np.r_[3.0, 0.5, np.ones(d - 2)]
    z = np.random.default_rng(4).normal(size=(20_000, d)) * sds @ directions.T
    wider = unit(d, rank).widened(10.0 + z)
    expected = np.eye(d) + 8.0 * np.outer(directions[:, 0], directions[:, 0])
    np.testing.assert_allclose(wider.to_z(wider.to_z(np.eye(d)).T), expected, atol=0.2)


def test_wider_metric_keeps_blocks_apart():
    cov = np.array([[4.0, 3.0, 0.0], [3.0, 4.0, 1.0], [0.0, 1.0, 2.0]])
    z, _ = normal_draws(cov, 50_000)
    wider = unit(3, 3, blocks=(0, 0, 1)).widened(z)
    # The block of the first two has the variances 7 and 1.
    expected = np.array([[4.0, 3.0, 0.0], [3.0, 4.0, 0.0], [0.0, 0.0, 2.0]])
    np.testing.assert_allclose(wider.to_z(wider.to_z(np.eye(3)).T), expected, atol=0.1)


def test_low_rank_metric_corrects_a_few_directions():
    d, rng = 80, np.random.default_rng(3)
    V, _ = np.linalg.qr(rng.normal(size=(d, 3)))
    cov = np.eye(d) + (V * (np.array([400.0, 100.0, 0.01]) - 1.0)) @ V.T
    draws = normal_draws(cov, 60)
    metric = repeated(unit(d, 8), draws, 5)
    values = np.linalg.eigvalsh(standardised(metric, cov))
    assert values[-1] / values[0] < 10.0
    assert np.linalg.cond(standardised(unit(d, 0).updated(*draws), cov)) > 100.0


def test_metric_of_a_root_has_its_covariance():
    cov = covariance(5, 1e8)
    root = np.linalg.cholesky(cov)
    dense, diagonal = (Metric.of_root(root, rank) for rank in (5, 0))
    np.testing.assert_allclose(standardised(dense, cov), np.eye(5), atol=1e-6)
    np.testing.assert_allclose(np.square(diagonal.scale), np.diag(cov), rtol=1e-12)


def test_updates_do_not_depend_on_units():
    cov, scale = covariance(4, 100.0), np.array([1e-3, 1.0, 1e4, 7.0])
    z, gradient = normal_draws(cov, 50)
    here = unit(4, 4).updated(z, gradient).matrix
    there = Metric.of_root(np.diag(scale), 4).updated(z * scale, gradient / scale).matrix
    np.testing.assert_allclose(there @ there.T, np.outer(scale, scale) * (here @ here.T), rtol=1e-8)


def test_blocks_are_updated_like_metrics_of_their_own():
    cov = covariance(5, 100.0)
    draws = normal_draws(cov, 30)
    metric = repeated(unit(5, 2, (-1, 0, -1, 0, -1)), draws)
    alone = repeated(unit(2, 2), [x[:, [1, 3]] for x in draws])
    other = repeated(unit(3, 0), [x[:, [0, 2, 4]] for x in draws])
    full = metric.to_z(np.eye(5))
    block = (full.T @ full)[np.ix_([1, 3], [1, 3])]
    np.testing.assert_allclose(block, alone.matrix @ alone.matrix.T, rtol=1e-3)
    np.testing.assert_allclose(np.diag(full)[[0, 2, 4]], other.scale, rtol=1e-6)
    assert full[0, 1] == 0.0 and full[2, 4] == 0.0


@pytest.mark.parametrize("shape", [(4, 0), (4, 2), (4, 4)], ids=["diagonal", "low rank", "dense"])
def test_maps_are_inverse_to_each_other(shape):
    d, rank = shape
    metric = Metric.of_root(np.linalg.cholesky(covariance(d, 100.0)), rank)
    points = np.random.default_rng(0).normal(size=(3, d))
    np.testing.assert_allclose(metric.to_z(metric.to_u(points)), points, rtol=1e-10)
    back = metric.gradient_in_z(metric.gradient_in_u(points))
    np.testing.assert_allclose(back, points, rtol=1e-10)
    np.testing.assert_allclose(metric.z(jnp.asarray(points[0])), metric.to_z(points[0]), rtol=1e-10)
    in_z = metric.gradient_at_z(jnp.asarray(points[0]))
    np.testing.assert_allclose(in_z, metric.gradient_in_z(points[0]), rtol=1e-10)
    jacobian = jax.jacobian(metric.z)(jnp.asarray(points[0]))
    np.testing.assert_allclose(jacobian.T @ points[1], metric.gradient_in_u(points[1]), rtol=1e-10)


def test_constant_draws_leave_the_metric_unchanged():
    metric = unit(2, 2)
    z = np.ones((20, 2))
    assert RecentDraws(z, z).update(metric) is metric
    broken = np.full((20, 2), np.nan)
    assert RecentDraws(z, broken).update(metric) is metric


@pytest.mark.parametrize("warmup", [1, 9, 15, 100, 1000])
def test_windows_end_before_the_warmup(warmup):
    ends = window_ends(warmup)
    assert ends == sorted(set(ends)) and all(0 < end <= warmup for end in ends)
    assert (ends != []) == (warmup >= 15)


def model():
    numpyro.sample("x", dist.Normal(0.0, jnp.array([0.1, 1.0, 5.0])).to_event(1))
    numpyro.sample("s", dist.HalfNormal(2.0))


@pytest.mark.slow
def test_kernel_equals_that_of_numpyro_with_the_inverse_mass_matrix():
    target = Target.from_model(model, (), {})
    point, scale = initial_points(target, None, 1, 0)[0], np.array([0.2, 1.5, 3.0, 0.7])
    metric, key = Metric.of_root(scale, 0), jax.random.key(5)
    state = ChainState.at(point, metric, key)
    run = Stretch(np.array(40), np.array(1), np.array(False))
    _, rows, _ = take_steps(KernelOptions(np.asarray(0.8), 10), target, metric, state, run)

    def potential(z):
        return -target.log_density(z, jacobian=True)

    init, step = hmc(potential, algo="NUTS")
    theirs = init(
        jnp.asarray(point.z),
        0,
        step_size=float(np.exp(state.log_step[1])),
        inverse_mass_matrix=jnp.asarray(scale**2),
        adapt_step_size=False,
        adapt_mass_matrix=False,
    )._replace(rng_key=key)
    for i in range(40):
        theirs = jax.jit(step)(theirs)
        np.testing.assert_allclose(rows.z[i], theirs.z, rtol=1e-8)
        assert rows.n_steps[i] == theirs.num_steps
        assert rows.energy[i] == pytest.approx(float(theirs.energy), rel=1e-10)


def test_auto_mass_matrix_depends_on_the_number_of_coordinates():
    def of_size(d):
        def normal():
            numpyro.sample("x", dist.Normal(0.0, 1.0).expand([d]).to_event(1))

        return MetricShape.from_option(Target.from_model(normal, (), {}), "auto").rank

    assert of_size(5) == 5 and 0 < of_size(400) < 100 and of_size(2000) == 0
