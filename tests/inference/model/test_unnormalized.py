"""Bare log densities: their draws, and log Z against closed forms and quadrature."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import dblquad

import bayeskern as bk
from bayeskern.protocols import DoesNotApplyError
from tests.marks import few

MEAN, COVARIANCE = np.array([1.0, -2.0]), np.array([[2.0, 0.9], [0.9, 1.0]])
PRECISION = np.linalg.inv(COVARIANCE)
LOG_Z = 3.0 + 0.5 * np.linalg.slogdet(2.0 * np.pi * COVARIANCE)[1]


def gaussian(z):
    return 3.0 - 0.5 * (z - MEAN) @ PRECISION @ (z - MEAN)


def bent(z):
    return -0.5 * z[0] ** 2 - jnp.log1p((z[1] - 0.3 * z[0] ** 2) ** 2)


def fit(f, method, size=2):
    return bk.infer(bk.LogDensity(f, size), method=method, seed=0, progress=False)


@pytest.mark.parametrize(
    "method", few(["laplace", "importance", "pathfinder", "smc", "auto", "nuts", "svi"], "laplace")
)
def test_moments_and_integral_of_a_gaussian(method):
    posterior = fit(gaussian, bk.NUTS(evidence=True) if method == "nuts" else method)
    assert posterior.trust.verdict == "good"
    z, sd = posterior.flat["z"], np.sqrt(np.diag(COVARIANCE))
    np.testing.assert_allclose(z.mean(axis=0), MEAN, atol=0.15 * sd.min())
    np.testing.assert_allclose(np.cov(z.T), COVARIANCE, atol=0.2)
    if method in ("laplace", "auto"):
        assert posterior.log_evidence.value == pytest.approx(LOG_Z, abs=1e-8)
    elif method == "svi":
        assert posterior.elbo.value == pytest.approx(LOG_Z, abs=0.02)
    else:
        value, error = posterior.log_evidence
        assert abs(value - LOG_Z) < 5.0 * error + 1e-6 and error < 0.05


@pytest.mark.slow
@pytest.mark.parametrize("method", few(["importance", "nuts"], "importance"))
def test_integral_of_a_heavy_tailed_density_by_quadrature(method):
    with_evidence = {"importance": bk.ImportanceSampling(), "nuts": bk.NUTS(evidence=True)}[method]
    value, error = fit(bent, with_evidence).log_evidence
    # The first coordinate runs inside; the density of the second falls like a Cauchy one.
    integral, _ = dblquad(
        lambda x, y: np.exp(-0.5 * x**2) / (1.0 + (np.tan(y) - 0.3 * x**2) ** 2) / np.cos(y) ** 2,
        -np.pi / 2, np.pi / 2, -9.0, 9.0,
    )  # fmt: skip
    # In closed form: sqrt(2 pi) times pi.
    assert np.log(integral) == pytest.approx(np.log(np.sqrt(2.0 * np.pi) * np.pi), abs=1e-6)
    assert abs(value - np.log(integral)) < 5.0 * error and error < 0.1


@pytest.mark.slow
def test_point_estimate_of_a_bare_density():
    posterior = fit(lambda z: -0.5 * jnp.sum((z - 0.5) ** 2), "map", size=1)
    np.testing.assert_allclose(posterior.point()["z"], [0.5], atol=1e-5)
    with pytest.raises(ValueError, match="no site to predict"):
        posterior.predict()


def test_methods_that_do_not_apply():
    with pytest.raises(DoesNotApplyError, match="an unnormalised log density is not a likelihood"):
        fit(gaussian, "mle")
    with pytest.raises(DoesNotApplyError, match="no closed form"):
        fit(gaussian, "exact")


@pytest.mark.parametrize(
    ("f", "size", "kind", "message"),
    [
        (lambda z: jnp.log(z[0]), 2, ValueError, "f is -inf at 0, where the methods begin"),
        (lambda z: jnp.nan * z[0], 2, ValueError, "f is nan at 0"),
        (lambda z: z, 2, ValueError, r"one number at a point of shape \(2,\)"),
        (lambda z: float(z[0]), 2, TypeError, "f must be written in JAX"),
        (lambda z: np.sin(z).sum(), 2, TypeError, "f must be written in JAX"),
        (3.0, 2, TypeError, "f must be a function of one point, got float"),
        (gaussian, 0, ValueError, "size must be a whole number .* got 0"),
        (gaussian, 2.5, ValueError, "size must be a whole number .* got 2.5"),
        (gaussian, True, ValueError, "size must be a whole number .* got True"),
    ],
)
def test_bad_densities_are_refused(f, size, kind, message):
    with pytest.raises(kind, match=message):
        fit(f, "laplace", size)


@pytest.mark.parametrize("method", few(["svi", "importance", "nuts", "auto"], "svi"))
def test_densities_without_an_integral_are_refused(method):
    with pytest.raises(ValueError, match=r"without bound along z\[1\], to .*"):
        fit(lambda z: z[1], method)


def test_data_are_refused():
    with pytest.raises(TypeError, match="a LogDensity has no data, got 1"):
        bk.infer(bk.LogDensity(gaussian, 2), np.ones(3))
