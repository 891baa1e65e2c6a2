"""Posterior variances of the filter under vague priors: against 50-digit arithmetic."""

from decimal import Decimal, localcontext

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bayeskern as bk
from bayeskern.kernels import Brownian, Constant, Linear, Matern12, Matern32, Matern52, White
from bayeskern.linalg import NoisyGram
from bayeskern.linalg.markov.solver import MarkovSolver

SOLVER, EPS = MarkovSolver(), np.finfo(float).eps
# Times with a repeat and a gap. New times before all others, just before one, at one, in the gap,
# and after the last.
TIMES = np.array([0.0, 0.4, 0.4, 1.7, 2.0, 2.9, 8.1, 8.2, 9.5, 11.0])
NEW = np.array([-5.0, -1.0, 0.4 - 1e-6, 0.4, 5.2, 8.05, 11.001, 16.0])
OBSERVED = np.array([1, 1, 1, 0, 1, 1, 1, 1, 0, 1], bool)


def matern(order, lengthscale, variance=1.0):
    """Kernel of smoothness order + 1/2, for order 0 to 2, of decimals."""

    def k(x, z):
        s = Decimal(2 * order + 1).sqrt() * abs(x - z) / Decimal(lengthscale)
        factor = (Decimal(1), 1 + s, 1 + s + s * s / 3)[order]
        return Decimal(variance) * factor * (-s).exp()

    return k


def constant(variance):
    return lambda x, z: Decimal(variance)


def line(variance, center):
    return lambda x, z: Decimal(variance) * (x - Decimal(center)) * (z - Decimal(center))


def total(*kernels):
    return lambda x, z: sum(k(x, z) for k in kernels)


def exact_covariance(k, t, noise, new, part=None):
    """Posterior covariance of f, or of a part of it, by Cholesky's method in decimals."""
    part = part or k
    with localcontext(prec=60):
        t, new = ([Decimal(float(x)) for x in values] for values in (t, new))
        L, W = [], []
        for i, x in enumerate(t):
            row = []
            for j, z in enumerate(t[: i + 1]):
                rest = k(x, z) + (Decimal(noise) if i == j else 0)
                rest -= sum(a * b for a, b in zip(row, L[j] if j < i else row, strict=False))
                row.append(rest.sqrt() if i == j else rest / L[j][j])
            L.append(row)
        for z in new:
            w = []
            for i, x in enumerate(t):
                explained = sum(a * b for a, b in zip(L[i], w, strict=False))
                w.append((part(x, z) - explained) / L[i][i])
            W.append(w)
        products = [[sum(a * b for a, b in zip(v, w, strict=True)) for w in W] for v in W]
        return np.array(
            [
                [float(part(x, z) - p) for z, p in zip(new, row, strict=True)]
                for x, row in zip(new, products, strict=True)
            ]
        )


def vague_level(v):
    return Matern52(5.0) + Constant(v), total(matern(2, 5.0), constant(v)), None, None


def vague_line(v):
    kernel = Matern32(5.0) + Linear(v, 3.0) + Constant(v)
    return kernel, total(matern(1, 5.0), line(v, 3.0), constant(v)), None, None


def component_of_vague_line(v):
    kernel = Matern32(5.0).named("a") + (Linear(v, 3.0) + Constant(v)).named("b")
    exact = total(matern(1, 5.0), line(v, 3.0), constant(v))
    return kernel, exact, "a", matern(1, 5.0)


def large_variance(v):
    return Matern52(1.0, v), matern(2, 1.0, v), None, None


def vague_and_rough(v):
    return Matern12(2.0, v) + Matern52(5.0), total(matern(0, 2.0, v), matern(2, 5.0)), None, None


CASES = {
    "level": vague_level,
    "line": vague_line,
    "component": component_of_vague_line,
    "large variance": large_variance,
    "rough": vague_and_rough,
}


def points(t):
    return jnp.asarray(t)[:, None]


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("ratio", [1e2, 1e8, 1e12])
def test_vague_priors_against_decimals(case, ratio):
    kernel, exact, part, exact_part = CASES[case](ratio)
    expected = exact_covariance(exact, TIMES[OBSERVED], 1.0, NEW, exact_part)
    C = NoisyGram(kernel, points(TIMES), 1.0, jnp.asarray(OBSERVED))
    variance = SOLVER.variance(C, part, SOLVER.factor(C), points(NEW))
    covariance = SOLVER.covariance(C, part, SOLVER.factor(C), points(NEW))
    # Covariance matrices of the state are kept to the rounding errors of their largest entries.
    largest = max(float(exact(Decimal(float(x)), Decimal(float(x)))) for x in NEW)
    rtol = 1e-8 + 100.0 * EPS * largest / np.min(np.diag(expected))
    sd = np.sqrt(np.diag(expected))
    np.testing.assert_allclose(variance, np.diag(expected), rtol=rtol)
    np.testing.assert_allclose(
        covariance / np.outer(sd, sd), expected / np.outer(sd, sd), atol=rtol
    )
    np.testing.assert_allclose(np.diag(covariance), variance, rtol=1e-8 + rtol)


@pytest.mark.slow
@pytest.mark.parametrize("order", [0, 1, 2])
def test_noise_free_values_of_a_vague_level(order):
    smooth, t = (Matern12, Matern32, Matern52)[order](5.0), np.unique(TIMES)
    new = np.array([-5.0, -1.0, 5.2, 16.0])
    expected = exact_covariance(total(matern(order, 5.0), constant(1e8)), t, 0, new)
    C = NoisyGram(smooth + Constant(1e8), points(t), 0.0)
    covariance = SOLVER.covariance(C, None, SOLVER.factor(C), points(new))
    np.testing.assert_allclose(covariance, expected, rtol=1e-7)


@pytest.mark.parametrize(("n", "expected"), [(2, 0.14661710125), (3, 0.11932620504)])
def test_prediction_before_the_first_of_few_values(n, expected):
    # The values are from `exact_covariance`; a difference gave 2.9 and 1.5e-4.
    t = np.arange(float(n))
    gp = bk.GaussianProcess(Matern52(5.0) + Constant(1e8), t, 1e-4, solver="markov")
    conditioned = gp.condition(1000.0 + t)
    sd = conditioned.predict([-1.0], latent=True).sd
    np.testing.assert_allclose(sd, expected, rtol=1e-8)
    np.testing.assert_allclose(np.sqrt(conditioned.covariance([-1.0])[0]), sd, rtol=1e-8)


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
    k, v = total(matern(2, 5.0), constant(1e12)), 1e12
    factor = SOLVER.factor(NoisyGram(Matern52(5.0) + Constant(v), points(TIMES), 1.0))
    expected = [
        exact_covariance(k, np.delete(TIMES, i), 1.0, TIMES[i : i + 1])[0, 0] + 1.0
        for i in range(len(TIMES))
    ]
    np.testing.assert_allclose(1.0 / factor.inv_diag(), expected, rtol=1e-9)


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


def test_memory_per_new_point_does_not_grow_with_the_data():
    assert SOLVER.numbers_per_point(Matern52() + Constant(), 10**6) < 100
    # A trend with a start is predicted from the covariances with all values.
    assert SOLVER.numbers_per_point(Brownian(0.3) + Constant(), 10**6) == 10**6
