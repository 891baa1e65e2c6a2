"""Kronecker products on grids: against dense matrices, and where eigenvalues coincide."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro.infer.util import log_density as log_density_of_model
from scipy.stats import multivariate_normal

import bayeskern as bk
from bayeskern import NotPositiveDefiniteError
from bayeskern.kernels import (
    RBF,
    Constant,
    Coregion,
    Custom,
    Linear,
    Matern12,
    Matern32,
    Matern52,
    Periodic,
)
from bayeskern.linalg import Fits, NoisyGram, solver_of
from bayeskern.linalg import log_density as dense_log_density
from bayeskern.linalg.kronecker import factor as kronecker
from bayeskern.linalg.kronecker.solver import KroneckerSolver
from tests.linalg.by_hand import check_derivatives, check_factor, flat
from tests.marks import few

RNG = np.random.default_rng(0)
REGULAR, OTHER, STATIONS = (
    np.linspace(0.0, 2.0, 5),
    np.sort(RNG.normal(size=4)),
    RNG.normal(size=(6, 2)),
)
KERNELS = {
    # Two equal axes with equal steps: most eigenvalues are repeated.
    "equal axes": (RBF(0.7, 1.3), (REGULAR, REGULAR)),
    # All eigenvalues are equal.
    "far apart": (RBF(0.01, 1.3), (REGULAR, OTHER)),
    "one length each": (RBF([0.7, 0.4, 0.9], 1.3), (REGULAR, OTHER, REGULAR[:3])),
    "product": (2.0 * Matern32(0.6).on([0]) * (RBF(0.7) + 0.5).on([1]), (OTHER, REGULAR)),
    "stations": (Matern12(0.8).on([0]) * RBF([0.7, 0.9]).on([1, 2]), (REGULAR, STATIONS)),
    # A column that the kernel ignores, and repeated eigenvalues of 0.
    "level": (Periodic(2.4, 0.8).on([0]) * Constant(2.0), (OTHER, REGULAR)),
}
some = pytest.mark.parametrize("name", few(KERNELS, "level"))


def cells(*axes, seed=0):
    """All cells of the axes, points (n_g,) or (n_g, d_g), in no order."""
    axes = [axis.reshape(len(axis), -1) for axis in axes]
    index = np.indices([len(axis) for axis in axes]).reshape(len(axes), -1)
    X = np.concatenate([axis[i] for axis, i in zip(axes, index, strict=True)], axis=1)
    return X[np.random.default_rng(seed).permutation(len(X))]


def case(name):
    """A kernel, its solver, inputs, and values."""
    kernel, axes = KERNELS[name]
    X = cells(*axes)
    r = np.random.default_rng(1).normal(size=len(X))
    assert isinstance(KroneckerSolver().applicability(kernel, X), Fits)
    return kernel, KroneckerSolver().prepare(kernel, X), jnp.asarray(X), r


@some
def test_factor_against_numpy(name):
    kernel, solver, X, r = case(name)
    K = np.asarray(kernel(X)) + 0.1 * np.eye(len(X))
    factor = solver.factor(NoisyGram(kernel, X, 0.1))
    check_factor(factor, K, atol=1e-11)
    np.testing.assert_allclose(
        solver.multiply(NoisyGram(kernel, X, 0.1), r), K @ r, rtol=1e-11, atol=1e-12
    )
    assert factor.jitter == 0.0


@pytest.mark.parametrize("name", few(KERNELS, "one length each", "product"))
def test_log_density_against_scipy(name):
    kernel, solver, X, _ = case(name)
    R = np.random.default_rng(1).normal(size=(2, 3, len(X)))
    expected = multivariate_normal(cov=np.asarray(kernel(X)) + 0.1 * np.eye(len(X))).logpdf(R)
    found = solver.log_density(NoisyGram(kernel, X, 0.1), R)
    np.testing.assert_allclose(found, expected, rtol=1e-11)


@pytest.mark.slow
@pytest.mark.parametrize("name", few(KERNELS, "equal axes"))
def test_log_density_derivatives_match_the_dense_solver(name):
    kernel, solver, X, r = case(name)

    def ours(kernel, noise):
        return solver.log_density(NoisyGram(kernel, X, noise), r)

    def dense(kernel, noise):
        return dense_log_density(NoisyGram(kernel, X, noise).dense(), r)

    check_derivatives(ours, dense, kernel, jnp.asarray(0.1))


@pytest.mark.slow
def test_second_derivatives_at_repeated_eigenvalues():
    # With (1 + a) I + b A for K_1, and the identity for K_2 but for c B: all eigenvalues are equal.
    rng = np.random.default_rng(0)
    A, B = (S + S.T for S in (rng.normal(size=(4, 4)), rng.normal(size=(3, 3))))
    r = rng.normal(size=12)

    def grams(t):
        return (1.0 + t[0]) * np.eye(4) + t[1] * A, np.eye(3) + t[2] * B

    def ours(t):
        return kronecker.log_density(grams(t), 0.5 + t[3], r)

    def by_scipy(t):
        return multivariate_normal(cov=np.kron(*grams(t)) + (0.5 + t[3]) * np.eye(12)).logpdf(r)

    H = jax.jit(jax.hessian(ours))(jnp.zeros(4))
    steps = 1e-3 * np.eye(4)
    for i in range(4):
        for j in range(4):
            signs = ((1, 1), (1, -1), (-1, 1), (-1, -1))
            corners = [a * b * by_scipy(a * steps[i] + b * steps[j]) for a, b in signs]
            np.testing.assert_allclose(H[i, j], sum(corners) / 4e-6, rtol=2e-3, atol=2e-3)


@pytest.mark.slow
@pytest.mark.parametrize("square", ["whiten", "sqrt_mul"])
def test_second_derivatives_of_square_roots(square):
    # Roots are not unique, but W'W = K^-1 and L L' = K are.
    kernel, solver, X, _ = case("equal axes")
    M = np.random.default_rng(1).normal(size=(len(X), len(X)))

    def ours(kernel, noise):
        factor = solver.factor(NoisyGram(kernel, X, noise))
        if square == "whiten":
            W = factor.whiten(M)
            return jnp.sum(jnp.sin(W.T @ W))
        L = factor.sqrt_mul(jnp.eye(len(X)))
        return jnp.sum(jnp.sin(M * (L @ L.T)))

    def dense(kernel, noise):
        K = NoisyGram(kernel, X, noise).dense()
        return jnp.sum(jnp.sin(M.T @ jnp.linalg.solve(K, M) if square == "whiten" else M * K))

    check_derivatives(ours, dense, kernel, jnp.asarray(0.3))


@pytest.mark.slow
def test_second_derivatives_of_predictions():
    kernel, solver, X, r = case("equal axes")
    new = jnp.array([[0.3, 1.2], [0.5, 0.5], [-1.0, 4.0]])

    def ours(kernel, noise, new):
        factor = solver.factor(NoisyGram(kernel, X, noise))
        mean = solver.mean(NoisyGram(kernel, X, noise), None, factor, r, factor.solve(r), new)
        return jnp.sum(jnp.sin(mean)) + jnp.sum(
            jnp.sin(solver.variance(NoisyGram(kernel, X, noise), None, factor, new))
        )

    def dense(kernel, noise, new):
        K, cross = NoisyGram(kernel, X, noise).dense(), kernel.evaluate(X, new)
        explained = jnp.sum(cross * jnp.linalg.solve(K, cross), axis=0)
        mean, variance = cross.T @ jnp.linalg.solve(K, r), kernel.evaluate_diag(new) - explained
        return jnp.sum(jnp.sin(mean)) + jnp.sum(jnp.sin(variance))

    check_derivatives(ours, dense, kernel, jnp.asarray(0.3), new)


def test_a_third_derivative_is_refused():
    kernel, solver, X, r = case("equal axes")

    def density(noise):
        return solver.log_density(NoisyGram(kernel, X, noise), r)

    with pytest.raises(NotImplementedError, match="two derivatives.*solver='dense'"):
        jax.grad(jax.grad(jax.grad(density)))(0.1)


def test_jitter_is_added_only_where_needed():
    X = cells(REGULAR, OTHER)
    kernel = Matern12(0.5).on([0]) * Matern12(0.7).on([1])
    solver = KroneckerSolver().prepare(kernel, X)
    assert solver.factor(NoisyGram(kernel, jnp.asarray(X), 0.0)).jitter == 0.0
    r = np.random.default_rng(1).normal(size=len(X))
    expected = multivariate_normal(cov=np.asarray(kernel(X))).logpdf(r)
    found = solver.log_density(NoisyGram(kernel, jnp.asarray(X), 0.0), r)
    np.testing.assert_allclose(found, expected, rtol=1e-11)
    # Lengthscales far beyond the grid: the least eigenvalues are rounding errors.
    smooth = solver.factor(NoisyGram(RBF(30.0), jnp.asarray(X), 0.0))
    assert 0.0 < smooth.jitter < 1e-10
    assert np.all(np.isfinite(smooth.solve(r)))


def test_indefinite_matrix_is_refused():
    X = jnp.asarray(cells(REGULAR, OTHER))
    kernel = Custom(lambda x, z, a: a * jnp.abs(x - z).sum(), {"a": 1.0}).on([0]) * RBF().on([1])
    solver, r = KroneckerSolver().prepare(kernel, X), np.arange(float(len(X)))
    with pytest.raises(NotPositiveDefiniteError, match=r"eigenvalues .* range from -.*check_psd"):
        solver.factor(NoisyGram(kernel, X, 0.01))

    def density(kernel, noise):
        return solver.log_density(NoisyGram(kernel, X, noise), r)

    value, slope = jax.jit(jax.value_and_grad(density, (0, 1)))(kernel, jnp.asarray(0.01))
    assert value == -np.inf
    assert np.all(flat(slope) == 0.0)
    assert density(kernel, np.nan) == -np.inf


@pytest.mark.parametrize("axes", [(REGULAR[:1], OTHER[:1]), (REGULAR, OTHER[:1])], ids=len)
def test_one_point_on_an_axis(axes):
    X, kernel = jnp.asarray(cells(*axes)), RBF([0.7, 0.4], 1.5)
    solver = KroneckerSolver().prepare(kernel, X)
    r = np.linspace(0.8, 1.0, len(X))
    expected = multivariate_normal(cov=np.asarray(kernel(X)) + 0.5 * np.eye(len(X))).logpdf(r)
    found = solver.log_density(NoisyGram(kernel, X, 0.5), r)
    np.testing.assert_allclose(found, expected, rtol=1e-12)


# -- in processes and models -----------------------------------------------------------------------

AXIS = np.linspace(0.0, 3.0, 16)
GRID = cells(AXIS, AXIS)
VALUES = np.sin(GRID[:, 0]) + np.cos(GRID[:, 1]) + 0.1 * np.random.default_rng(0).normal(size=256)
NEW = np.random.default_rng(1).uniform(-0.5, 3.5, (7, 2))


@pytest.mark.slow
def test_processes_on_a_grid_against_numpy():
    kernel = (1.5 * RBF([0.8, 1.1])).named("surface")
    process = bk.GaussianProcess(kernel, GRID, 0.05, mean=0.2)
    assert process.explain().solver == "kronecker"
    K, r = np.asarray(kernel(GRID)) + 0.05 * np.eye(256), VALUES - 0.2
    inverse = np.linalg.inv(K)
    expected = multivariate_normal(cov=K).logpdf(r)
    np.testing.assert_allclose(process.log_prob(VALUES), expected, rtol=1e-10)
    gp = process.condition(VALUES)
    assert gp.residual < 1e-11
    cross = np.asarray(kernel(GRID, NEW))
    variance = 1.5 - np.sum(cross * (inverse @ cross), axis=0)
    for prediction in (gp.predict(NEW, latent=True), gp.predict(NEW).component("surface")):
        np.testing.assert_allclose(prediction.sd**2, variance, rtol=1e-8)
    np.testing.assert_allclose(gp.predict(NEW).mean, 0.2 + cross.T @ inverse @ r, rtol=1e-9)
    loo = gp.loo()
    np.testing.assert_allclose(loo.variance, 1.0 / np.diag(inverse), rtol=1e-10)
    np.testing.assert_allclose(loo.mean, VALUES - inverse @ r / np.diag(inverse), rtol=1e-9)
    joint = np.asarray(kernel(NEW)) - cross.T @ inverse @ cross
    np.testing.assert_allclose(gp.covariance(NEW), joint, rtol=1e-8, atol=1e-12)


def test_masks_and_noise_vectors_need_the_dense_solver():
    kernel, keep = RBF(0.8), np.arange(256) > 3
    for given, why in (
        ({"noise": 0.05, "mask": keep}, "a mask says that only some points"),
        ({"noise": np.full(256, 0.05)}, "the noise differs from point to point"),
    ):
        process = bk.GaussianProcess(kernel, GRID, **given)
        assert process.solver.name == process.explain().solver == "dense"
        assert f"not kronecker: {why}" in repr(process.explain())
        with pytest.raises(ValueError, match=f"solver='kronecker' does not fit: {why}"):
            bk.GaussianProcess(kernel, GRID, **given, solver="kronecker")
        with pytest.raises(ValueError, match=f"prepared kronecker solver does not fit: {why}"):
            bk.GaussianProcess(kernel, GRID, **given, solver=solver_of(kernel, GRID))
    model = bk.GPRegression(RBF(dist.LogNormal(0.0, 1.0)), 0.05)
    assert model.prepare(GRID, VALUES, keep)[0].prepared.name == "dense"
    prepared, data = model.prepare(GRID, VALUES)
    assert prepared.prepared.name == prepared.restore(data, None, None)[0].prepared.name
    assert prepared.prepared.name == "kronecker"


def test_prepared_solver_refuses_other_grids_and_kernels():
    solver = solver_of(RBF(), GRID)
    for X in (GRID[::-1], 2.0 * GRID[:255], GRID + [0.0, 1.0] * (GRID[:, :1] > 1.0)):
        with pytest.raises(ValueError, match="prepared for another grid"):
            bk.GaussianProcess(RBF(), X, 0.1, solver=solver)
    process = bk.GaussianProcess(Matern52(), GRID, 0.1, solver=solver)
    with pytest.raises(ValueError, match=r"Matern52.* depends on columns of several axes"):
        process.log_prob(VALUES)


def test_regressions_on_a_grid():
    model = bk.GPRegression(RBF(dist.LogNormal(0.0, 1.0)), bk.from_sd(dist.HalfNormal(0.5)))
    draws = {"lengthscale": np.array([0.7, 1.2]), "noise": np.array([0.02, 0.05])}
    ours, theirs = (
        m.predictive(draws, data, NEW)
        for m, data in (
            model.prepare(GRID, VALUES),
            bk.GPRegression(model.kernel, model.noise, solver="dense").prepare(GRID, VALUES),
        )
    )
    np.testing.assert_allclose(ours.mean, theirs.mean, rtol=1e-9)
    np.testing.assert_allclose(ours.sd, theirs.sd, rtol=1e-8)


@pytest.mark.slow
def test_hand_written_models_on_a_grid():
    grid, solver = jnp.asarray(GRID), solver_of(RBF(), GRID)
    taken = []

    def model(X, y, solver):
        lengthscale = numpyro.sample("lengthscale", dist.LogNormal(0.0, 1.0))
        noise = numpyro.sample("noise", dist.HalfNormal(1.0))
        process = bk.GaussianProcess(RBF(lengthscale), X, noise, solver=solver)
        taken.append(process.solver.name)
        numpyro.sample("y", process, obs=y)

    def density(values, X, solver="auto"):
        return log_density_of_model(model, (X, VALUES, solver), {}, values)[0]

    values = {"lengthscale": 0.9, "noise": 0.05}
    # Nothing is seen of a grid that is traced, unless the solver has been prepared.
    seen = jax.jit(jax.value_and_grad(lambda values: density(values, grid)))(values)
    prepared = jax.jit(jax.value_and_grad(density))(values, grid, solver)
    dense = jax.jit(jax.value_and_grad(density))(values, grid)
    assert taken == ["kronecker", "kronecker", "dense"]
    for found in (seen, prepared):
        np.testing.assert_allclose(flat(found), flat(dense), rtol=1e-9)


@pytest.mark.parametrize(
    ("kernel", "X", "why"),
    [
        (RBF(), GRID[:-1], r"the grid of 16 x 16 lacks the cell \("),
        (RBF(), np.r_[GRID, GRID[:1]], r"the point \(.*\) occurs twice"),
        (RBF(), AXIS[:, None], "there is one input"),
        (RBF() + Matern12(), GRID, "is not a product of kernels of different columns"),
        (RBF(np.eye(2)), GRID, "is not a product of kernels of different columns"),
        (RBF() * bk.kernels.White(), GRID, "White.* not a product over axes"),
        (Linear(), GRID, "is not a product of kernels"),
    ],
    ids=str,
)
def test_inputs_off_a_grid_are_refused(kernel, X, why):
    with pytest.raises(ValueError, match=f"solver='kronecker' does not fit: .*{why}"):
        bk.GaussianProcess(kernel, X, 0.1, solver="kronecker")


def test_shift_that_would_swamp_a_row_is_refused():
    # Outputs with variances of 1e12 and 1e-8 and the noise of the second: the eigenvalues of the
    # whole matrix are known up to about 1e-2.
    X = cells(REGULAR, np.arange(2.0))
    kernel = RBF(2.0).on([0]) * Coregion(2, weights=0.0, kappa=[1e12, 1e-8]).on([1])
    C = NoisyGram(kernel, jnp.asarray(X), 1e-10)
    solver = KroneckerSolver().prepare(kernel, X)
    with pytest.raises(NotPositiveDefiniteError, match="solver='dense'"):
        solver.factor(C)
    value, slope = jax.value_and_grad(
        lambda noise: solver.log_density(C._replace(noise=noise), jnp.ones(len(X)))
    )(1e-10)
    assert value == -np.inf
    assert slope == 0.0
