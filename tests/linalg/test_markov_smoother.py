"""Posterior variances of the filter under vague priors: against 60-digit arithmetic."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bayeskern as bk
from bayeskern.kernels import Brownian, Constant, Matern12, Matern32, Matern52, White
from bayeskern.linalg import NoisyGram
from bayeskern.linalg.markov.solver import MarkovSolver
from tests.gp.exact_arithmetic import ExactProcess
from tests.gp.random_processes import constant, linear, stationary
from tests.marks import few

SOLVER, EPS = MarkovSolver(), np.finfo(float).eps
# Times with a repeat and a gap. New times before all others, just before one, at one, in the gap,
# and after the last.
TIMES = np.array([0.0, 0.4, 0.4, 1.7, 2.0, 2.9, 8.1, 8.2, 9.5, 11.0])
NEW = np.array([-5.0, -1.0, 0.4 - 1e-6, 0.4, 5.2, 8.05, 11.001, 16.0])
OBSERVED = np.array([1, 1, 1, 0, 1, 1, 1, 1, 0, 1], bool)


def exact(pair, t, noise, new, part=None):
    """Posterior covariance of f at new times, or of a component with the covariance `part`."""
    t, new = ([(x,) for x in times.tolist()] for times in (t, new))
    process = ExactProcess(pair.covariance, t, np.full(len(t), noise), np.zeros(len(t)), new, part)
    return process.covariance().value


CASES = {
    "level": lambda v: stationary(Matern52, 5.0) + constant(v),
    "line": lambda v: stationary(Matern32, 5.0) + (linear(v) + constant(v)),
    "large variance": lambda v: stationary(Matern52, 1.0, v),
    "rough": lambda v: stationary(Matern12, 2.0, v) + stationary(Matern52, 5.0),
}


def points(t):
    return jnp.asarray(t)[:, None]


def check(kernel, part, expected):
    C = NoisyGram(kernel, points(TIMES), 1.0, jnp.asarray(OBSERVED))
    factor = SOLVER.factor(C)
    variance = SOLVER.variance(C, part, factor, points(NEW))
    covariance = SOLVER.covariance(C, part, factor, points(NEW))
    # Covariance matrices of the state are kept to the rounding errors of their largest entries.
    largest = np.max(kernel.diag(points(NEW)))
    rtol = 1e-8 + 100.0 * EPS * largest / np.min(np.diag(expected))
    sd = np.sqrt(np.diag(expected))
    np.testing.assert_allclose(variance, np.diag(expected), rtol=rtol)
    np.testing.assert_allclose(
        covariance / np.outer(sd, sd), expected / np.outer(sd, sd), atol=rtol
    )
    np.testing.assert_allclose(np.diag(covariance), variance, rtol=1e-8 + rtol)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("ratio", [1e2, 1e8, 1e12])
def test_vague_priors(case, ratio):
    pair = CASES[case](ratio)
    check(pair.kernel, None, exact(pair, TIMES[OBSERVED], 1.0, NEW))


@pytest.mark.slow
@pytest.mark.parametrize("ratio", [1e2, 1e8, 1e12])
def test_component_beside_a_vague_line(ratio):
    smooth, line = stationary(Matern32, 5.0), linear(ratio) + constant(ratio)
    kernel = smooth.kernel.named("smooth") + line.kernel.named("line")
    expected = exact(smooth + line, TIMES[OBSERVED], 1.0, NEW, smooth.covariance)
    check(kernel, "smooth", expected)


@pytest.mark.slow
@pytest.mark.parametrize("family", [Matern12, Matern32, Matern52])
def test_noise_free_values_of_a_vague_level(family):
    pair, t = stationary(family, 5.0) + constant(1e8), np.unique(TIMES)
    new = np.array([-5.0, -1.0, 5.2, 16.0])
    C = NoisyGram(pair.kernel, points(t), 0.0)
    covariance = SOLVER.covariance(C, None, SOLVER.factor(C), points(new))
    np.testing.assert_allclose(covariance, exact(pair, t, 0.0, new), rtol=1e-7)


@pytest.mark.parametrize("n", few([2, 3], 3))
def test_prediction_before_the_first_of_few_values(n):
    # A difference gave 2.9 and 1.5e-4, in place of .1466 and .1193.
    pair, t, new = stationary(Matern52, 5.0) + constant(1e8), np.arange(float(n)), np.array([-1.0])
    conditioned = bk.GaussianProcess(pair.kernel, t, 1e-4, solver="markov").condition(1000.0 + t)
    expected = np.sqrt(exact(pair, t, 1e-4, new)[0])
    np.testing.assert_allclose(conditioned.predict(new, latent=True).sd, expected, rtol=1e-8)
    np.testing.assert_allclose(np.sqrt(conditioned.covariance(new)[0]), expected, rtol=1e-8)


@pytest.mark.slow
def test_prediction_before_the_first_of_many_values():
    # The vague level as an unknown constant: Rasmussen and Williams (2006), equation 2.42, with
    # B = (K + noise I)^-1 of the other kernel, which is not vague.
    t, new, v = np.linspace(0.0, 30.0, 300), np.array([-5.0, -1.0]), 1e6
    conditioned = bk.GaussianProcess(Matern52(5.0) + Constant(v), t, 1e-4).condition(1000.0 + t)
    assert conditioned.solver.name == "markov"
    K, cross = np.asarray(Matern52(5.0)(t)) + 1e-4 * np.eye(300), np.asarray(Matern52(5.0)(t, new))
    B1, Bk = np.linalg.solve(K, np.ones(300)), np.linalg.solve(K, cross)
    variance = 1.0 - np.sum(cross * Bk, axis=0) + (1.0 - cross.T @ B1) ** 2 / (1.0 / v + B1.sum())
    sd = conditioned.predict(new, latent=True).sd
    np.testing.assert_allclose(sd, np.sqrt(variance), rtol=1e-7)


@pytest.mark.slow
def test_leave_one_out_of_a_vague_level():
    # 1 / (C^-1)_ii is the variance of y_i given the others, noise included.
    pair = stationary(Matern52, 5.0) + constant(1e12)
    factor = SOLVER.factor(NoisyGram(pair.kernel, points(TIMES), 1.0))
    expected = [
        exact(pair, np.delete(TIMES, i), 1.0, TIMES[i : i + 1])[0, 0] + 1.0
        for i in range(len(TIMES))
    ]
    np.testing.assert_allclose(1.0 / factor.inv_diag(), expected, rtol=1e-9)


@pytest.mark.slow
def test_derivatives_of_leave_one_out():
    # The first derivative of C^-1 by the noise is -C^-2, the second one 2 C^-3.
    kernel, noise = Matern32(5.0), 0.5

    def precisions(noise):
        return SOLVER.factor(NoisyGram(kernel, points(TIMES), noise)).inv_diag()

    inverse = np.linalg.inv(np.asarray(kernel(TIMES)) + noise * np.eye(len(TIMES)))
    powers = inverse, -inverse @ inverse, 2.0 * inverse @ inverse @ inverse
    first = jax.jacfwd(precisions)
    computed = jax.jit(lambda x: (precisions(x), first(x), jax.jacrev(first)(x)))(noise)
    np.testing.assert_allclose(computed, list(map(np.diag, powers)), rtol=1e-9)


@pytest.mark.slow
def test_joint_draws_under_a_vague_prior():
    # With 500 values, a jitter of n eps times the prior variance would be a tenth of the noise.
    t, new = np.linspace(0.0, 50.0, 500), np.array([-1.0, 20.0, 20.05])
    C = NoisyGram(Matern52(5.0) + Constant(1e12) + White(0.25), points(t), 0.75)
    factor = SOLVER.factor(C)
    draws = SOLVER.deviations(C, None, factor, points(new), jax.random.key(0), 4000)
    expected = SOLVER.covariance(C, None, factor, points(new))
    atol = 5.0 * np.sqrt(2.0 / 4000) * np.max(np.diag(expected))
    np.testing.assert_allclose(np.cov(draws.T), expected, atol=atol)


@pytest.mark.slow
def test_memory_per_new_point_does_not_grow_with_the_data():
    assert SOLVER.numbers_per_point(Matern52() + Constant(), 10**6) < 100
    # A trend with a start is predicted from the covariances with all values.
    assert SOLVER.numbers_per_point(Brownian(0.3) + Constant(), 10**6) == 10**6
