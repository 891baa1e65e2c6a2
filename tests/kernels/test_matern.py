"""Matern kernels of any smoothness against SciPy's Bessel function and scikit-learn."""

import math
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import gamma, kv
from sklearn.gaussian_process.kernels import Matern as TheirMatern

import bayeskern as bk
from bayeskern.kernels import RBF, Matern, Matern12, Matern32, Matern52
from bayeskern.kernels.description import InputAxis
from bayeskern.kernels.families.matern_profile import matern_profile
from bayeskern.kernels.state_space.space import NoStateSpaceError
from tests.kernels.compare import close
from tests.marks import few

HALF_INTEGERS = [0.5, 1.5, 2.5, 3.5, 5.5, 10.5]
OTHERS = [0.1, 0.3, 1.0 - 1e-9, 1.0, 1.0 + 1e-7, 1.3, 2.0, 2.4999, 3.7, 8.0, 20.0]
DISTANCES = np.concatenate([np.geomspace(1e-8, 50.0, 80), [1e-13, 1.0, math.sqrt(2.0)]])


def profile(nu, r, order=0):
    """Derivative of an order in u = r^2: Rasmussen and Williams (2006), equation 4.14.

    By (s^nu K_nu)' = -s^nu K_(nu - 1), and d/du = nu / s d/ds.
    """
    s = np.sqrt(2.0 * nu) * r
    powers = s ** (nu - order) * kv(nu - order, s)
    return (-nu) ** order * 2.0 ** (1.0 - nu) / gamma(nu) * powers


@pytest.mark.parametrize("nu", few(HALF_INTEGERS + OTHERS, 0.3, 3.5))
def test_values_and_derivatives_against_scipy(nu):
    level = partial(matern_profile, nu=nu)
    for order in range(3):
        # Where points differ by rounding, derivatives that are infinite at 0 are set to 0.
        r = DISTANCES if order == 0 else DISTANCES[DISTANCES > 1e-7]
        u = jnp.asarray(r**2)
        # exp(-s) has the rounding error of s, up to 300.
        np.testing.assert_allclose(jax.jit(level)(u), profile(nu, r, order), rtol=1e-12)
        level = partial(lambda f, u: jax.jvp(f, (u,), (jnp.ones_like(u),))[1], level)


@pytest.mark.parametrize("nu", few(HALF_INTEGERS + OTHERS, 0.1, 1.3, 3.5))
def test_derivatives_at_coincident_points(nu):
    # s^m K_m is Gamma(m) 2^(m - 1) at 0: finite for m > 0, or else the derivative is set to 0.
    level = partial(matern_profile, nu=nu)
    for order in range(4):
        m = nu - order
        size = (-0.5 * nu) ** order * gamma(m) / gamma(nu) if m > 0.0 else 0.0
        assert float(level(0.0)) == pytest.approx(size, rel=1e-13)
        level = jax.grad(level)
    assert matern_profile(jnp.zeros(()), nu) == 1.0


@pytest.mark.parametrize("nu", [0.7, 2.0, 3.5])
def test_gram_matrix_against_scikit_learn(nu):
    rng = np.random.default_rng(0)
    X, Z, scales = rng.normal(size=(6, 3)), rng.normal(size=(4, 3)), [0.4, 2.0, 9.0]
    theirs = TheirMatern(length_scale=scales, nu=nu)
    close(Matern(scales, 1.7, nu)(X, Z), 1.7 * theirs(X, Z))
    close(Matern(scales, 1.7, nu)(X), 1.7 * theirs(X))


@pytest.mark.parametrize(("nu", "kind"), [(0.5, Matern12), (1.5, Matern32), (2.5, Matern52)])
def test_first_half_integers_are_the_named_kernels(nu, kind):
    x = np.random.default_rng(0).normal(size=(9, 2))
    np.testing.assert_array_equal(Matern(0.7, 1.3, nu)(x), kind(0.7, 1.3)(x))
    assert repr(kind()) == f"{kind.__name__}(lengthscale=1.0, variance=1.0)"
    assert list(kind().hyperparameters()) == ["lengthscale", "variance"]
    # Continuous in nu, although the code is another.
    np.testing.assert_allclose(Matern(0.7, 1.3, nu + 1e-9)(x), kind(0.7, 1.3)(x), rtol=1e-7)


def test_large_distances_are_finite():
    for nu in (10.5, 50.5, 33.3):
        k, slope = jax.value_and_grad(partial(matern_profile, nu=nu))(1e12)
        assert k == 0.0 and slope == 0.0


@pytest.mark.slow
def test_state_space_process_matches_the_dense_solver():
    x = np.cumsum(np.random.default_rng(1).choice([1e-3, 0.1, 1.0, 30.0], 40))
    kernel = Matern(1.3, 0.8, nu=3.5)
    markov, dense = (bk.GaussianProcess(kernel, x, 0.01, solver=s) for s in ("markov", "dense"))
    y = np.sin(x)
    close(markov.log_prob(y), dense.log_prob(y), rtol=1e-10)
    predictions = [gp.condition(y).predict(x + 0.05, latent=True) for gp in (markov, dense)]
    for name in ("mean", "sd"):
        close(*(getattr(p, name) for p in predictions), rtol=1e-8, atol=1e-9)


def test_refusals():
    for bad in (0.0, -1.0, np.nan, np.inf, "a"):
        with pytest.raises(ValueError, match="nu must be a positive number, got"):
            Matern(nu=bad)
    with pytest.raises(ValueError, match="nu must be at most 100, got 101. Use RBF"):
        Matern(nu=101)
    for nu in (2.0, 10.5):
        with pytest.raises(NoStateSpaceError, match="nu is not one of 1/2, 3/2, ..., 15/2"):
            Matern(nu=nu).state_space()
    for kernel in (Matern12(), Matern(nu=1.0)):
        with pytest.raises(ValueError, match="has no derivative"):
            bk.GaussianProcess(kernel, bk.Derivative([0.0, 1.0]), 0.1)
    assert Matern(nu=1.2).rough_parts(0, 1) == []


def test_limit_and_description():
    x = np.linspace(0.0, 3.0, 7)
    np.testing.assert_allclose(Matern(nu=100.0)(x), RBF()(x), atol=0.3 / 100.0)
    kernel = Matern(2.0, nu=0.8).at({"lengthscale": np.full(3, 2.0)})
    words = kernel.describe(InputAxis("", (9.0,)))
    assert words == "varies with smoothness 0.8 over about 2"
