"""Misprints of the lecture notes: the right form holds, and the printed form does not."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.polynomial.hermite_e import hermeval
from scipy import stats

import bayeskern as bk
from bayeskern import course, kernels

pytestmark = pytest.mark.slow

RNG = np.random.default_rng(62)
X, Z, Y = RNG.normal(size=(9, 2)), RNG.normal(size=(7, 2)), RNG.normal(size=9)
infer = partial(bk.infer, progress=False)


def test_derivative_by_sigma():
    sigma, mu = 0.7, 0.2
    slope = jax.grad(lambda s: jnp.sum(jax.scipy.stats.norm.logpdf(Y, mu, s)))(sigma)
    squares = np.sum((Y - mu) ** 2)
    assert slope == pytest.approx(-9 / sigma + squares / sigma**3, rel=1e-12)
    assert abs(slope - (-9 / sigma + squares / (2 * sigma**3))) > 1.0
    # The root is the maximum-likelihood estimate.
    estimate = infer(bk.NormalGamma(0.0, 1.0, 1.0, 1.0), Y, method="mle").draws
    assert float(estimate["precision"].item()) == pytest.approx(1.0 / np.var(Y), rel=1e-6)


def test_primal_and_dual_ridge():
    penalty = 0.3
    w = course.least_squares(X, Y, penalty=penalty).coefficients
    np.testing.assert_allclose((X.T @ X + penalty * np.eye(2)) @ w, X.T @ Y, rtol=1e-12)
    dual = np.linalg.solve(X @ X.T + penalty * np.eye(9), Y)
    machine = bk.KernelRidge(kernels.Linear(), alpha=penalty).fit(X, Y)
    np.testing.assert_allclose(machine.dual_coef_, dual, rtol=1e-10)
    np.testing.assert_allclose(machine.predict(Z), Z @ w, rtol=1e-10)
    np.testing.assert_allclose(kernels.Linear()(X), X @ X.T, rtol=1e-12)


def test_negative_offset_is_no_kernel():
    for offset, holds in ((0.5, True), (0.0, True), (-0.5, False)):
        smallest = np.linalg.eigvalsh((X @ X.T + offset) ** 2)[0]
        assert (smallest > -1e-10) == holds
    with pytest.raises(ValueError, match=r"offset must be nonnegative"):
        kernels.Polynomial(degree=2, offset=-0.5)


def test_square_of_the_linear_kernel():
    (x1, x2), (z1, z2) = X.T[:, :, None], Z.T[:, None]
    for kernel in (kernels.Linear() ** 2, kernels.Polynomial(degree=2, offset=0.0)):
        K = np.asarray(kernel(X, Z))
        np.testing.assert_allclose(K, (X @ Z.T) ** 2, rtol=1e-12)
        right = x1**2 * z1**2 + 2 * x1 * z1 * x2 * z2 + x2**2 * z2**2
        np.testing.assert_allclose(K, right, rtol=1e-10, atol=1e-13)
        printed = x1**2 * z1**2 + 2 * x1 * z2 * x2 * z2 + x2**2 * z2**2
        assert np.max(np.abs(K - printed)) > 0.1
        assert np.max(np.abs(K - np.sum(X**2, axis=1)[:, None] ** 2)) > 0.1


def test_gaussian_kernel_is_infinitely_smooth():
    def k(r):
        return kernels.RBF()(r[None, None], jnp.zeros((1, 1)))[0, 0]

    # d^j exp(-r^2 / 2) / dr^j = (-1)^j He_j(r) exp(-r^2 / 2), for every j.
    for order in range(9):
        for r in (0.0, 0.8):
            truth = (-1) ** order * hermeval(r, np.eye(9)[order]) * np.exp(-0.5 * r**2)
            assert float(k(jnp.asarray(r))) == pytest.approx(truth, rel=1e-9, abs=1e-9)
        k = jax.grad(k)


def test_cauchy_schwarz_bounds_the_kernel_between_points():
    kernel = kernels.Linear() + kernels.RBF() * 0.1
    bound = np.sqrt(np.outer(kernel.diag(X), kernel.diag(Z)))
    assert np.all(np.abs(np.asarray(kernel(X, Z))) <= bound)
    # k(z, z) is not bounded by it, nor is |k(x, z)| always by a bound without the root.
    assert not np.all(np.asarray(kernel.diag(Z))[None] <= bound)
    small = 0.1 * kernels.RBF()
    squares = np.outer(small.diag(X), small.diag(Z))
    assert not np.all(np.abs(np.asarray(small(X, Z))) <= squares)


def test_unnormalised_density_keeps_its_factor():
    # p~ = exp(-|z|^2 / 2) = Z p with Z = 2 pi, and q a density narrower than p.
    z = np.random.default_rng(0).normal(size=(200_000, 2))
    log_q = stats.norm(0.0, 0.8).logpdf(z).sum(axis=1)
    ratio = np.exp(log_q + 0.5 * np.sum(z**2, axis=1))
    assert abs(ratio.mean() - 1 / (2 * np.pi)) < 4.0 * stats.sem(ratio)
    assert (2 * np.pi * ratio).mean() == pytest.approx(1.0, abs=0.01)
    model = bk.LogDensity(lambda z: -0.5 * z @ z, size=2)
    evidence = infer(model, method="importance").log_evidence
    assert evidence.value == pytest.approx(np.log(2 * np.pi), abs=0.05)
