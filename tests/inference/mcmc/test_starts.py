"""Starts of chains, thinning, and the coordinates that chains run in."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro.distributions import constraints

import bayeskern as bk
from bayeskern.inference.mcmc.initialization import (
    find_modes,
    initial_points,
    start_at,
)
from bayeskern.inference.mcmc.kernel import ChainState, KernelOptions, Stretch, take_steps
from bayeskern.inference.mcmc.metric import Metric
from bayeskern.inference.model.target import Target

RNG = np.random.default_rng(5)


def scales():
    sd = numpyro.sample("sd", dist.HalfNormal(1.0))
    numpyro.sample("x", dist.Normal(0.0, sd).expand([3]).to_event(1))


def started(values, chains=2):
    target = Target.from_model(scales, (), {})
    points = start_at(target, initial_points(target, None, chains, 0), values)
    return target, points


def test_init_values_replace_the_starts_of_their_sites():
    target, points = started({"sd": [0.5, 2.0]})
    before = initial_points(target, None, 2, 0)
    for point, old, sd in zip(points, before, (0.5, 2.0), strict=True):
        # Half-normal: z = log sd, and the log density has the Jacobian sd.
        np.testing.assert_allclose(point.z, [np.log(sd), *old.z[1:]], rtol=1e-12)
        x = point.z[1:]
        log_p = dist.HalfNormal(1.0).log_prob(sd) + dist.Normal(0.0, sd).log_prob(x).sum()
        np.testing.assert_allclose(point.potential, -(log_p + np.log(sd)), rtol=1e-10)
        np.testing.assert_allclose(point.gradient[1:], x / sd**2, rtol=1e-10)


def test_single_init_value_applies_to_all_chains():
    _, points = started({"x": [1.0, 2.0, 3.0]})
    np.testing.assert_allclose([point.z[1:] for point in points], [[1.0, 2.0, 3.0]] * 2)


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"y": 1.0}, "'y'; the latent sites are sd, x"),
        ({"x": 1.0}, r"x must have shape \(3,\), or \(2, 3\)"),
        ({"sd": -1.0}, "at the values of sd"),
        ({"sd": np.nan}, "at the values of sd"),
    ],
)
def test_invalid_init_values_are_refused(values, says):
    with pytest.raises(ValueError, match=says):
        started(values)


@pytest.mark.slow
def test_thinning_keeps_every_third_step():
    y = 1.0 + RNG.standard_normal(8)

    def model(y):
        numpyro.sample("y", dist.Normal(numpyro.sample("x", dist.Normal(0.0, 3.0)), 1.0), obs=y)

    def fit(thin):
        method = bk.NUTS(chains=2, warmup=100, draws=99, thin=thin)
        return bk.infer(model, y, method=method, seed=3, progress=False)

    whole, thinned = fit(1), fit(3)
    np.testing.assert_array_equal(thinned.draws["x"], whole.draws["x"][:, 2::3])


@pytest.mark.parametrize("thin", [3, 101])
def test_thin_must_divide_draws(thin):
    with pytest.raises(ValueError, match=f"draws=100 is not a multiple of thin={thin}"):
        bk.NUTS(draws=100, thin=thin)


@pytest.mark.slow
def test_thinned_step_diverges_where_any_of_its_interval_did():
    def neck():
        v = numpyro.sample("v", dist.Normal(0.0, 3.0))
        numpyro.sample("x", dist.Normal(0.0, jnp.exp(0.5 * v)).expand([9]).to_event(1))

    target = Target.from_model(neck, (), {})
    point = initial_points(target, None, 1, 0)[0]
    metric = Metric.of_root(np.ones(10), 0)
    state = ChainState.at(point, metric, jax.random.key(1))

    def rows(draws, thin):
        run = Stretch(np.array(draws), np.array(thin), np.array(False))
        options = KernelOptions(np.asarray(0.8), 10)
        _, rows, _ = take_steps(options, target, metric, state, run)
        return rows

    whole, thinned = rows(240, 1), rows(60, 4)
    diverging = np.asarray(whole.diverging)[:240].reshape(60, 4).any(axis=1)
    assert 0 < diverging.sum() < 60
    np.testing.assert_array_equal(thinned.diverging[:60], diverging)
    np.testing.assert_array_equal(thinned.z[:60], whole.z[3:240:4])


def test_chains_start_at_init_values():
    def two():
        numpyro.sample("x", dist.Normal(0.0, 30.0))

    method, target = bk.NUTS(chains=2, init={"x": [500.0, -500.0]}), Target.from_model(two, (), {})
    stages = method._initial_stages(target, None, 0)
    z = [stage.metrics[0].to_z(np.asarray(stage.states[0].u)) for stage in stages]
    np.testing.assert_allclose(z, [[500.0], [-500.0]])


# -- coordinates of the chains -------------------------------------------------------------------


def ill_conditioned(root):
    x = numpyro.sample("x", dist.ImproperUniform(constraints.real_vector, (), root.shape[:1]))
    numpyro.factor("normal", dist.MultivariateNormal(scale_tril=root).log_prob(x))


def root_of_condition(d, condition):
    """A Cholesky factor of a covariance with such a condition number, in random directions."""
    Q, _ = np.linalg.qr(np.random.default_rng(0).normal(size=(d, d)))
    return np.linalg.cholesky((Q * np.geomspace(1.0 / condition, 1.0, d)) @ Q.T)


def test_chains_start_with_the_covariance_at_a_mode():
    root = root_of_condition(10, 1e6)
    target = Target.from_model(ill_conditioned, (root,), {})
    points = initial_points(target, find_modes(target, 0, False), 4, 0)
    for point in points:
        np.testing.assert_allclose(point.root, root, atol=1e-6)
        metric = Metric.of_root(point.root, 10)
        # The gradient of -log p in coordinates in which p is N(0, I).
        u = metric.to_u(point.z)
        np.testing.assert_allclose(metric.gradient_in_u(point.gradient), u, atol=1e-4)


def test_chains_whose_search_did_not_end_start_at_the_best_mode():
    """In raw units a chain from (-2, 2)^d would need thousands of steps to get there."""

    def model():
        numpyro.sample("x", dist.Normal(500.0, 3.0).expand([2]).to_event(1))

    target = Target.from_model(model, (), {})
    best = find_modes(target, 0, False)
    ends = best.z + np.array([[0.0, 0.0], [8.0, 0.0], [0.0, -8.0]])
    unfinished = replace(best, z=ends[1], gradient=np.ones(2))
    log_densities = best.log_density - np.array([0.0, 4.0, 4.0])
    optimum = replace(
        best,
        ends=ends,
        start_log_densities=log_densities,
        at=lambda i: unfinished if i else best,
    )
    points = initial_points(target, optimum, 4, 0)
    distances = [np.linalg.norm(point.z - 500.0) / 3.0 for point in points]
    # Two sds times a standard normal vector.
    assert max(distances) < 2.0 * 4.0 and min(distances) > 0.01


@pytest.mark.slow
def test_ill_conditioned_normal_takes_few_leapfrog_steps():
    """A diagonal mass matrix would take about the root of the condition number, 1,000."""
    root = root_of_condition(10, 1e6)
    method = bk.NUTS(chains=2, warmup=300, draws=1000)
    posterior = bk.infer(ill_conditioned, root, method=method, seed=0, progress=False)
    assert np.mean(posterior.sample_stats["n_steps"]) < 20.0
    sds = np.sqrt(np.sum(np.square(root), axis=1))
    np.testing.assert_allclose(posterior.flat["x"].std(axis=0), sds, rtol=0.15)
