"""Markov RBF against the RBF, its spectral density and SciPy."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from numpy.polynomial.polynomial import polyval
from scipy.integrate import quad
from scipy.linalg import expm, toeplitz
from scipy.special import factorial

import bayeskern as bk
from bayeskern.kernels import RBF, Linear, MarkovRBF, Matern32
from bayeskern.linalg import choose
from tests.marks import few, slow

# The errors in the docstring.
STATED = {6: 3.3e-3, 7: 9.4e-4, 8: 3.0e-4, 9: 1.0e-4, 10: 3.6e-5}


@pytest.mark.parametrize("order", STATED)
def test_error_against_the_rbf_is_as_stated(order):
    x = np.linspace(0.0, 40.0, 997)
    kernel = MarkovRBF(1.7, 2.3, order=order)
    distance = np.abs(kernel(x, [0.0]) - RBF(1.7, 2.3)(x, [0.0])).max() / 2.3
    assert 0.9 * STATED[order] < distance <= kernel.error <= STATED[order]
    np.testing.assert_allclose(kernel.diag(x), 2.3)


@pytest.mark.parametrize("order", [6, 9])
def test_covariances_are_fourier_transform_of_the_rational_density(order):
    # What makes it Pade's approximant: N - exp(-x) D begins with the power order + 3.
    powers = np.arange(order + 3)
    taylor = (-1.0) ** powers / factorial(powers)
    product = toeplitz(taylor, np.zeros(order + 1))
    denominator = np.append(1.0, np.linalg.solve(product[3:, 1:], -product[3:, 0]))
    numerator = (product @ denominator)[:3]

    def covariance(r):
        def density(w):
            return polyval(0.5 * w * w, numerator) / polyval(0.5 * w * w, denominator)

        waved = {"weight": "cos", "wvar": r} if r else {}
        return quad(density, 0.0, np.inf, **waved, epsabs=1e-12, limit=500)[0]

    for r in (0.003, 0.4, 1.0, 3.0):
        expected = covariance(r) / covariance(0.0)
        found = float(MarkovRBF(order=order)([0.0], [r])[0, 0])
        np.testing.assert_allclose(found, expected, atol=1e-8)


@pytest.mark.parametrize("order", [7, 10])
def test_transition_against_scipy(order):
    space = MarkovRBF(order=order).state_space().terms[0]
    # F is the derivative of a step at 0.
    F = jax.jacobian(lambda u: space.transition(0.0, u)[0])(0.0)
    for u in (0.0, 1e-9, 1e-3, 0.4999, 0.5001, 3.0, 70.0, 1e9):
        A, Q = space.transition(0.0, jnp.asarray(u))
        # SciPy scales and squares, and cannot for so long a step; nothing is left after 70.
        np.testing.assert_allclose(A, expm(F * min(u, 300.0)), atol=1e-11)
        np.testing.assert_allclose(A @ A.T + Q, np.eye(order), atol=1e-14)
    # Q to its last digits in terms of itself: F + F' is what one short step adds.
    _, Q = space.transition(0.0, jnp.asarray(1e-9))
    np.testing.assert_allclose(Q, -1e-9 * (F + F.T), rtol=1e-6, atol=1e-6 * np.abs(Q).max())


@pytest.mark.parametrize("order", [slow(6), 10])
def test_curvature_at_short_distances(order):
    # The prior covariance of the state is I, so that k(r) is the first entry of exp(F r).
    space, kernel = MarkovRBF(order=order).state_space().terms[0], MarkovRBF(order=order)
    F = np.asarray(jax.jacobian(lambda u: space.transition(0.0, u)[0])(0.0))
    curvature = jax.grad(jax.grad(lambda r: kernel(r[None], jnp.zeros(1))[0, 0]))
    for r in (1e-6, 1e-4, 9.9e-4, 1.1e-3, 5e-3, 9.9e-3, 0.1):
        expected = (F @ F @ expm(F * r))[0, 0]
        np.testing.assert_allclose(curvature(jnp.array(r)), expected, rtol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("x", few([0.0, 0.009, 0.011, 2.0], 0.009))
def test_lengthscale_derivatives_match_the_rbf(x):
    def covariance(kind, **options):
        return lambda scale: kind(scale, **options)(jnp.zeros((1, 1)), jnp.full((1, 1), x))[0, 0]

    ours, theirs = covariance(MarkovRBF, order=10), covariance(RBF)
    for derivative, tolerance in ((jax.grad, 1e-3), (jax.hessian, 1e-2)):
        np.testing.assert_allclose(derivative(ours)(0.8), derivative(theirs)(0.8), atol=tolerance)


@pytest.mark.slow
def test_long_series_is_predicted_as_with_an_rbf():
    t = np.linspace(0.0, 60.0, 600)
    y = np.sin(t) + 0.3 * np.random.default_rng(0).normal(size=600)
    assert choose(MarkovRBF(), t[:, None]).solver == "markov"
    fast = bk.GaussianProcess(MarkovRBF(1.2, 1.1, order=10), t, 0.09)
    exact = bk.GaussianProcess(RBF(1.2, 1.1), t, 0.09)
    new = np.array([-1.0, 30.03, 62.0])
    ours, theirs = (process.condition(y).predict(new) for process in (fast, exact))
    np.testing.assert_allclose(ours.mean, theirs.mean, atol=2e-3)
    np.testing.assert_allclose(ours.sd, theirs.sd, rtol=2e-3)
    np.testing.assert_allclose(fast.log_prob(y), exact.log_prob(y), atol=0.05)


def test_hyperparameters_are_those_of_an_rbf():
    kernel = MarkovRBF(dist.LogNormal(0.0, 1.0), order=6) * Matern32() + Linear()
    assert "MarkovRBF(lengthscale=LogNormal(0.0, 1.0), variance=1.0, order=6)" in repr(kernel)


@pytest.mark.parametrize("order", [0, 5, 11, 7.5])
def test_other_orders_are_refused(order):
    with pytest.raises((ValueError, TypeError), match="order must be"):
        MarkovRBF(order=order)


def test_several_inputs_are_refused():
    with pytest.raises(ValueError, match=r"one input, and the points have 2.*\.on\(\[0\]\)"):
        MarkovRBF()(np.zeros((3, 2)))
