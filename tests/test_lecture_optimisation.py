"""Claims of notebooks 21 (optimisation) and 22 (a small neural network) against theory."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from scipy.optimize import rosen, rosen_der
from scipy.special import expit

import bayeskern as bk
from bayeskern.course import losses
from bayeskern.inference.search.lbfgs import CURVATURE_SHARE, DECREASE_SHARE, minimise
from bayeskern.kernels import Linear, Matern32, Polynomial
from bayeskern.linalg import conjugate_gradients
from bayeskern.linalg.iterative.conjugate_gradients import Preconditioner

pytestmark = pytest.mark.slow


@pytest.fixture
def rng():
    return np.random.default_rng(21)


# -- optimisation ----------------------------------------------------------------------------------


class Rosenbrock(eqx.Module):
    def __call__(self, z):
        return jnp.sum(100.0 * (z[1:] - z[:-1] ** 2) ** 2 + (1.0 - z[:-1]) ** 2)


def test_line_search_meets_the_wolfe_conditions(rng):
    starts = rng.uniform(-2.0, 2.0, (5, 3))
    paths = np.stack([starts, *[minimise(Rosenbrock(), starts, k)[0] for k in range(1, 9)]])
    for before, after in zip(paths[:-1].reshape(-1, 3), paths[1:].reshape(-1, 3), strict=True):
        slope = rosen_der(before) @ (after - before)
        assert slope < 0.0
        assert rosen(after) <= rosen(before) + DECREASE_SHARE * slope
        assert rosen_der(after) @ (after - before) >= CURVATURE_SHARE * slope


def test_quasi_newton_steps_are_superlinear():
    curvature = jnp.geomspace(1.0, 100.0, 5)

    class Bowl(eqx.Module):
        def __call__(self, z):
            return jnp.sum(curvature * jnp.log(jnp.cosh(z)))

    start = np.full((1, 5), 0.7)
    errors = [np.linalg.norm(minimise(Bowl(), start, k)[0]) for k in range(4, 15)]
    factors = np.array(errors[1:]) / errors[:-1]
    # Steepest descent has the factor (100 - 1) / (100 + 1) = 0.98 from the first step to the last.
    assert factors[:4].min() > 3.0 * factors[-3:].max()
    assert factors[-1] < 0.1


def test_conjugate_gradient_steps_are_within_the_bound(rng):
    X, noise, tol = rng.normal(size=(200, 2)), 0.01, 1e-8
    b = np.sin(X[:, 0])
    A = np.asarray(Matern32(1.0)(X)) + noise * np.eye(200)
    for rank in (1, 30):
        inverse = Preconditioner.of(Matern32(1.0), X, np.full(200, noise), rank, seed=0)(
            np.eye(200)
        )
        eigenvalues = np.linalg.eigvals(inverse @ A).real
        root = np.sqrt(eigenvalues.max() / eigenvalues.min())
        # The residual is at most sqrt(cond(A)) times the error in the norm of A, both relative.
        rate = (root - 1.0) / (root + 1.0)
        most = np.log(2.0 * np.sqrt(np.linalg.cond(A)) / tol) / -np.log(rate)
        solution = conjugate_gradients(Matern32(1.0), X, noise, b, tol=tol, rank=rank)
        # Steepest descent takes up to root / 2 times as many.
        assert solution.converged and solution.iterations <= most


def test_conjugate_gradients_take_a_step_for_each_eigenvalue(rng):
    X = rng.normal(size=(100, 3))
    # X X' + noise I has three eigenvalues beside the noise; one landmark changes one of them.
    solution = conjugate_gradients(Linear(), X, 0.1, rng.normal(size=100), tol=1e-10, rank=1)
    assert solution.converged and solution.iterations <= 5


def test_newtons_method_squares_the_error(rng):
    X = rng.normal(size=(40, 2))
    y = np.where(X[:, 0] + X[:, 1] ** 2 + 0.5 * rng.normal(size=40) > 1.0, 1.0, -1.0)
    eigenvalues, U = np.linalg.eigh(np.asarray(Polynomial(degree=2, offset=1.0)(X)))
    Z = U[:, -6:] * np.sqrt(eigenvalues[-6:])

    def newton(w):
        p = expit(-y * (Z @ w))
        hessian = (Z.T * (p * (1.0 - p))) @ Z + np.eye(6)
        return w - np.linalg.solve(hessian, w - Z.T @ (y * p))

    path = [np.zeros(6)]
    for _ in range(12):
        path.append(newton(path[-1]))
    best = path[-1]
    value = np.sum(np.logaddexp(0.0, -y * (Z @ best))) + 0.5 * best @ best
    machine = bk.KernelLogisticRegression(Polynomial(degree=2, offset=1.0)).fit(X, y)
    assert machine.objective_ == pytest.approx(value, rel=1e-10)
    # The Hessian is at least I, and the third derivative of log(1 + e^-f) at most 1 / (6 sqrt 3).
    lipschitz = np.sum(np.linalg.norm(Z, axis=1) ** 3) / (6.0 * np.sqrt(3.0))
    errors = np.linalg.norm(path - best, axis=1)[:-1]
    assert np.all(errors[1:] <= 0.5 * lipschitz * errors[:-1] ** 2 + 1e-13)
    assert errors[8] < 1e-10


# -- a small neural network ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("loss", "copy"),
    [
        (losses.Squared(), lambda y, f: 0.5 * (y - f) ** 2),
        (losses.Huber(0.3), lambda y, f: optax.huber_loss(f, y, delta=0.3)),
        (losses.Logistic(), lambda y, f: jax.nn.softplus(-y * f)),
    ],
    ids=["squared", "huber", "logistic"],
)
def test_backpropagation_agrees_with_jax(loss, copy, rng):
    X, y = rng.normal(size=(15, 2)), np.sign(rng.normal(size=15))
    W, b, v, c = rng.normal(size=(4, 2)), rng.normal(size=4), rng.normal(size=4), 0.2
    h = np.tanh(X @ W.T + b)
    delta = loss.derivative(y, h @ v + c)
    epsilon = delta[:, None] * v * (1.0 - h**2)
    by_hand = epsilon.T @ X, epsilon.sum(axis=0), h.T @ delta, delta.sum()

    def total(W, b, v, c):
        return jnp.sum(copy(y, jnp.tanh(X @ W.T + b) @ v + c))

    by_jax = jax.grad(total, argnums=(0, 1, 2, 3))(W, b, v, c)
    for hand, expected in zip(by_hand, by_jax, strict=True):
        np.testing.assert_allclose(hand, expected, rtol=1e-10, atol=1e-12)


def test_dropout_is_a_penalty(rng):
    p, y, h, v = 0.2, 1.3, rng.normal(size=6), rng.normal(size=6)
    masked = jax.vmap(lambda key: eqx.nn.Dropout(p)(jnp.asarray(h), key=key))
    squares = np.asarray((y - masked(jax.random.split(jax.random.key(0), 100_000)) @ v) ** 2)
    expected = (y - h @ v) ** 2 + p / (1.0 - p) * np.sum((v * h) ** 2)
    error = squares.std() / np.sqrt(len(squares))
    assert abs(squares.mean() - expected) < 4.0 * error
    assert abs((y - h @ v) ** 2 - expected) > 20.0 * error
