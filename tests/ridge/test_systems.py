"""The systems of kernel ridge regression against explicit matrices."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.linalg import null_space
from scipy.stats import multivariate_normal

from bayeskern.kernels import Matern12
from bayeskern.linalg import SOLVERS
from bayeskern.ridge.covariances import Covariances
from bayeskern.ridge.systems import (
    CholeskyFactor,
    Eigendecomposition,
    RidgeSystem,
    centering,
    without_constant,
)

RNG = np.random.default_rng(4)
N, ALPHA = 7, 0.3
X = np.sort(RNG.normal(size=N))[:, None]
U = RNG.uniform(0.2, 2.0, size=N)
KERNEL = Matern12(1.3)
# The Gram matrix of the weighted points.
K = U[:, None] * np.asarray(KERNEL(X)) * U
T = RNG.normal(size=(N, 2)) + 5.0
SYSTEMS = {
    "cholesky": lambda M, constant: RidgeSystem(CholeskyFactor(M, ALPHA), constant),
    "eigen": lambda M, constant: RidgeSystem(Eigendecomposition.of(M).at(ALPHA), constant),
    "several alphas": lambda M, constant: RidgeSystem(
        Eigendecomposition.of(M).at(np.array([9.0, ALPHA])), constant
    ),
    "markov": lambda M, constant: Covariances(
        KERNEL, SOLVERS["markov"].prepare(KERNEL, X), X, U, constant is not None
    ).at(ALPHA),
}


@pytest.mark.parametrize("constant", [False, True])
@pytest.mark.parametrize("make", SYSTEMS.values(), ids=SYSTEMS)
def test_systems_agree_with_the_bordered_matrix(make, constant):
    system = make(*without_constant(K.copy(), U if constant else None))
    A = K + ALPHA * np.eye(N)
    bordered = np.block([[A, U[:, None]], [U, 0.0]]) if constant else A
    C = np.linalg.inv(bordered)[:N, :N]
    several = np.ndim(system.alpha) > 0
    last = (..., -1) if several else ...
    np.testing.assert_allclose(system.coefficients(T[:, -1])[last], C @ T[:, -1], atol=1e-12)
    np.testing.assert_allclose(system.inverse_diagonal[last], np.diagonal(C), atol=1e-13)
    dof = np.trace(np.eye(N) - ALPHA * C)
    np.testing.assert_allclose(np.atleast_1d(system.effective_dof)[-1], dof, rtol=1e-12)
    N_ = null_space(U[None]) if constant else np.eye(N)
    expected = multivariate_normal(cov=N_.T @ A @ N_).logpdf(N_.T @ T[:, -1])
    density = system.log_marginal_likelihood(T[:, -1])
    np.testing.assert_allclose(np.atleast_1d(density)[-1], expected, rtol=1e-12)

    one = system.at(ALPHA)
    total = 0.7 if constant else 0.0
    right = np.vstack([T, np.full(2, total)]) if constant else T
    solution = np.linalg.solve(bordered, right)
    c, b = one.solve(T, total)
    np.testing.assert_allclose(c, solution[:N], atol=1e-12)
    np.testing.assert_allclose(b, solution[N] if constant else 0.0, atol=1e-12)


@pytest.mark.parametrize("asarray", [np.asarray, jnp.asarray], ids=["NumPy", "JAX"])
def test_centered_matrix_has_the_constant_as_eigenvector(asarray):
    unit, v, spread = centering(asarray(K), asarray(U))
    M = K - np.outer(unit, v) - np.outer(v, unit)
    np.testing.assert_allclose(M @ U, spread * U, atol=1e-13)
    P = null_space(U[None])
    np.testing.assert_allclose(P.T @ M @ P, P.T @ K @ P, atol=1e-13)
    in_place, constant = without_constant(K.copy(), U)
    np.testing.assert_allclose(in_place, M, atol=1e-13)
    assert constant.spread == pytest.approx(float(spread), rel=1e-14)
