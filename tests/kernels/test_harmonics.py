"""Harmonics of the periodic kernel against Bessel functions, and their stated error."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from scipy.optimize import brentq
from scipy.special import ive
from scipy.stats import norm

from bayeskern import Free
from bayeskern.kernels import Matern32, Periodic
from bayeskern.kernels.families.harmonics import (
    MAX_EXCLUDED_PROBABILITY,
    MAX_HARMONIC_ERROR,
    MAX_HARMONICS,
    coefficients,
    count_harmonics,
    least_lengthscale,
    log_error,
)
from bayeskern.kernels.truncation import (
    harmonics_of,
    harmonics_suffice,
    stated_error,
    with_harmonics,
)
from tests.marks import few

LENGTHSCALES = (0.05, 0.3, 0.5, 1.0, 3.0, 30.0)
lengthscales = pytest.mark.parametrize("lengthscale", few(LENGTHSCALES, 0.05, 1.0))


def bessel(j, z):
    """2 exp(-z) I_j(z), and half of it for j = 0."""
    return np.where(j == 0, 1.0, 2.0) * ive(j, z)


@lengthscales
def test_coefficients_match_the_aliased_bessel_series(lengthscale):
    z, J = lengthscale**-2, count_harmonics(lengthscale)
    j, n = np.arange(J + 1), 2 * J + 1
    images = sum(bessel(np.abs(j + sign * m * n), z) for m in range(1, 4) for sign in (1, -1))
    expected = bessel(j, z) + images * np.where(j == 0, 0.5, 1.0)
    found = np.asarray(coefficients(lengthscale, J))
    np.testing.assert_allclose(found, expected, rtol=0.0, atol=1e-14)
    np.testing.assert_allclose(found.sum(), 1.0, rtol=1e-14)
    # Within the stated error of the infinite series.
    np.testing.assert_allclose(found, bessel(j, z), rtol=0.0, atol=MAX_HARMONIC_ERROR)


@lengthscales
def test_error_is_within_the_stated_bound(lengthscale):
    z, J = lengthscale**-2, count_harmonics(lengthscale)
    beyond = bessel(np.arange(J + 1, J + 2000), z).sum()
    bound = np.exp(log_error(lengthscale, J))
    assert 2.0 * beyond <= bound <= MAX_HARMONIC_ERROR
    d = np.linspace(0.0, 1.0, 2001)
    series = np.cos(2.0 * np.pi * np.outer(d, np.arange(J + 1))) @ coefficients(lengthscale, J)
    error = np.abs(series - np.exp(-2.0 * (np.sin(np.pi * d) / lengthscale) ** 2)).max()
    assert error <= 2.0 * beyond + 1e-14
    # Nine tenths of the harmonics are too few.
    assert 2.0 * bessel(np.arange(int(0.9 * J), J + 2000), z).sum() > MAX_HARMONIC_ERROR


def test_derivatives_of_coefficients_match_bessel_functions():
    j = np.arange(15)

    def of_z(f):
        # (exp(-z) I_j(z))' = exp(-z) ((I_{j-1} + I_{j+1}) / 2 - I_j)
        return lambda j, z: 0.5 * (f(j - 1, z) + f(j + 1, z)) - f(j, z)

    def scaled(j, z):
        return ive(np.abs(j), z)

    ell = 0.9
    z, dz, ddz = ell**-2, -2.0 * ell**-3, 6.0 * ell**-4
    first = of_z(scaled)(j, z) * dz
    second = of_z(of_z(scaled))(j, z) * dz**2 + of_z(scaled)(j, z) * ddz
    twice = np.where(j == 0, 1.0, 2.0)
    slope = jax.jacfwd(coefficients)(ell, 14)
    curvature = jax.jacfwd(jax.jacrev(lambda x: coefficients(x, 14)))(ell)
    np.testing.assert_allclose(slope, twice * first, rtol=0.0, atol=1e-11)
    np.testing.assert_allclose(curvature, twice * second, rtol=0.0, atol=1e-10)


def test_number_of_harmonics_for_a_lengthscale():
    assert [count_harmonics(x) for x in (0.02, 0.1, 0.5, 1.0, 4.0)] == [None, 71, 17, 11, 5]
    for J in (1, 11, MAX_HARMONICS):
        root = brentq(
            lambda x, J=J: log_error(np.exp(x), J) - np.log(MAX_HARMONIC_ERROR),
            -10.0,
            10.0,
        )
        np.testing.assert_allclose(least_lengthscale(J), np.exp(root), rtol=1e-9)
        assert count_harmonics(least_lengthscale(J)) == J


@pytest.mark.parametrize(
    "unknown", [np.nan, Free(1.0), dist.HalfNormal(), dist.Chi2(3)], ids=lambda x: type(x).__name__
)
def test_harmonics_of_an_unbounded_lengthscale_are_unknown(unknown):
    assert count_harmonics(unknown) is None


def test_harmonics_of_a_traced_lengthscale_are_unknown():
    counts = []
    jax.jit(lambda x: counts.append(count_harmonics(x)))(1.0)
    assert counts == [None]


def test_prior_is_truncated_in_its_lower_tail():
    J = count_harmonics(dist.LogNormal(0.2, 0.4))
    left_out = [norm(0.2, 0.4).cdf(np.log(least_lengthscale(k))) for k in (J, J - 1)]
    assert left_out[0] <= MAX_EXCLUDED_PROBABILITY < left_out[1]
    # One that does not reach small lengthscales is not cut at all.
    assert count_harmonics(dist.Uniform(0.5, 2.0)) == count_harmonics(0.5)


def test_each_periodic_kernel_has_its_own_harmonics():
    day, year = Periodic(1.0, dist.Uniform(1.0, 2.0)), Periodic(365.25, 0.5)
    kernel = (Matern32() * day).named("day") + 2.0 * year + Periodic(7.0, Free(1.0), harmonics=9)
    assert harmonics_of(kernel) == (11, 17, 9)
    cut = with_harmonics(kernel, harmonics_of(kernel))
    assert [n.harmonics for n in cut.nodes() if isinstance(n, Periodic)] == [11, 17, 9]
    assert cut.hyperparameters().keys() == kernel.hyperparameters().keys()
    assert all(f"{J} harmonics" in stated_error(cut) for J in (11, 17, 9))
    assert with_harmonics(cut, (11, 17, 9)) is cut
    assert stated_error(Matern32()) is None


@pytest.mark.parametrize(("lengthscale", "enough"), [(0.53, True), (0.52, False)])
def test_lengthscales_below_the_least_are_not_certified(lengthscale, enough):
    kernel = Matern32() + Periodic(1.0, lengthscale, harmonics=16)
    assert bool(harmonics_suffice(kernel)) == enough
    assert bool(jax.jit(harmonics_suffice)(kernel)) == enough
    assert bool(harmonics_suffice(Matern32()))


def test_harmonics_are_printed_and_validated():
    kernel = Periodic(1.0, jnp.asarray(1.0), harmonics=12)
    assert repr(kernel) == "Periodic(period=1.0, lengthscale=1.0, variance=1.0, harmonics=12)"
    with pytest.raises(ValueError, match="harmonics must be at most 200, got 1000"):
        Periodic(harmonics=1000)
    with pytest.raises(ValueError, match="harmonics"):
        Periodic(harmonics=0)
