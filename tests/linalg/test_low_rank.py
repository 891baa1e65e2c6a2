"""Kernels with few features: against dense matrices, and exact arithmetic for little noise."""

from decimal import Decimal, localcontext
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro.infer.util import log_density as log_density_of_model
from scipy.stats import multivariate_normal, norm

import bayeskern as bk
from bayeskern import NotPositiveDefiniteError
from bayeskern.kernels import (
    RBF,
    AllSubsets,
    Constant,
    Cosine,
    Linear,
    Matern32,
    Polynomial,
    White,
    kernel_from_features,
)
from bayeskern.linalg import NoisyGram
from bayeskern.linalg import log_density as dense_log_density
from bayeskern.linalg.low_rank import LowRankSolver
from tests.linalg.by_hand import check_derivatives, check_factor, flat, masked
from tests.marks import few

SOLVER = LowRankSolver()
KERNELS = {
    "plane": Linear([0.5, 2.0], 0.4) + 2.0,
    "cubic": 0.3 * Polynomial(3, 1.3),
    "waves": Cosine([1.5, 4.0], 0.7) * Linear().on([1]) + Constant(0.4),
    "interactions": AllSubsets(1.2).named("all"),
    # A repeated feature: the matrix of features lacks full rank.
    "repeated": kernel_from_features(lambda x: jnp.stack([x[0], x[0], x[0] * x[1]])) + Linear(),
}
some = pytest.mark.parametrize("name", few(KERNELS, "repeated"))


def case(n=40, seed=0):
    """Points, noise of each point, mask of the observed points."""
    rng = np.random.default_rng(seed)
    return jnp.asarray(rng.normal(size=(n, 2))), rng.uniform(0.05, 0.3, n), rng.random(n) < 0.8


@some
@pytest.mark.parametrize("all_count", few([True, False], False))
def test_factor_against_numpy(name, all_count):
    X, noise, observed = case()
    observed = np.ones_like(observed) if all_count else observed
    mask = None if all_count else observed
    K = masked(noise, observed, KERNELS[name], X)
    C, b = NoisyGram(KERNELS[name], X, noise, mask), np.random.default_rng(1).normal(size=len(X))
    check_factor(SOLVER.factor(C), K)
    np.testing.assert_allclose(SOLVER.multiply(C, b), K @ b, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("name", few(KERNELS, "waves", "repeated"))
def test_log_density_against_scipy(name):
    X, noise, observed = case()
    R = np.random.default_rng(1).normal(size=(2, len(X))) * observed
    K = masked(noise, np.ones_like(observed), KERNELS[name], X)[np.ix_(observed, observed)]
    expected = multivariate_normal(cov=K).logpdf(R[:, observed])
    found = SOLVER.log_density(NoisyGram(KERNELS[name], X, noise, observed), R)
    np.testing.assert_allclose(found, expected, rtol=1e-10)


@some
def test_log_density_derivatives_match_the_dense_solver(name):
    X, noise, observed = case()
    r = np.random.default_rng(1).normal(size=len(X)) * observed

    def ours(kernel, scale):
        return SOLVER.log_density(NoisyGram(kernel, X, scale * noise, observed), r)

    def dense(kernel, scale):
        return dense_log_density(NoisyGram(kernel, X, scale * noise, observed).dense(), r)

    check_derivatives(ours, dense, KERNELS[name], jnp.asarray(1.1))


@pytest.mark.slow
def test_second_derivatives_of_square_roots():
    X, noise, _ = case(12)
    M = np.random.default_rng(1).normal(size=(12, 12))

    def ours(kernel):
        factor = SOLVER.factor(NoisyGram(kernel, X, noise))
        W, L = factor.whiten(M), factor.sqrt_mul(jnp.eye(12))
        return jnp.sum(jnp.sin(W.T @ W)) + jnp.sum(jnp.sin(M * (L @ L.T)))

    def dense(kernel):
        K = NoisyGram(kernel, X, noise).dense()
        return jnp.sum(jnp.sin(M.T @ jnp.linalg.solve(K, M))) + jnp.sum(jnp.sin(M * K))

    check_derivatives(ours, dense, KERNELS["repeated"])


def line_to_fifty_digits(x, y, noise):
    """Log density and leave-one-out variances of a line, 0.5 (x - 0.5) (z - 0.5) + 2."""
    n = len(x)
    with localcontext(prec=50):
        x, y = ([Decimal(float(v)) for v in values] for values in (x, y))
        half = Decimal("0.5")
        K = [[half * (s - half) * (t - half) + 2 for s in x] for t in x]
        for i in range(n):
            K[i][i] += Decimal(noise)
        # Gauss and Jordan: the identity beside K becomes the inverse, y becomes K^-1 y.
        rows = [[*K[i], *(Decimal(i == j) for j in range(n)), y[i]] for i in range(n)]
        logdet = Decimal(0)
        for i in range(n):
            logdet += rows[i][i].ln()
            rows[i] = [v / rows[i][i] for v in rows[i]]
            for j in range(n):
                if j != i:
                    rows[j] = [v - rows[j][i] * w for v, w in zip(rows[j], rows[i], strict=True)]
        quadratic = sum(v * row[-1] for v, row in zip(y, rows, strict=True))
        density = float(-(quadratic + logdet) / 2) - 0.5 * n * np.log(2.0 * np.pi)
        return density, np.array([float(1 / rows[i][n + i]) for i in range(n)])


@pytest.mark.parametrize("noise", [1e-2, 1e-12])
def test_little_noise_against_decimals(noise):
    rng = np.random.default_rng(0)
    x = rng.uniform(-1.0, 1.0, 30)
    y = 1.0 - 0.7 * x + np.sqrt(noise) * rng.normal(size=30)
    exact, variances = line_to_fifty_digits(x, y, noise)
    kernel, X = Linear(0.5, 0.5) + 2.0, jnp.asarray(x[:, None])
    found = SOLVER.log_density(NoisyGram(kernel, X, noise), y)
    np.testing.assert_allclose(found, exact, rtol=1e-9)
    loo = SOLVER.factor(NoisyGram(kernel, X, noise)).inv_diag()
    np.testing.assert_allclose(1.0 / loo, variances, rtol=1e-12)
    # A dense matrix of condition 1e14 keeps fewer.
    dense = dense_log_density(NoisyGram(kernel, X, noise).dense(), y)
    assert abs(found - exact) < abs(dense - exact)


def test_values_without_noise_are_refused():
    X, noise, observed = case()
    kernel = KERNELS["plane"]
    noise[3] = 0.0
    with pytest.raises(
        NotPositiveDefiniteError, match=r"noise variance of row 3, 0\.0.*solver='dense'"
    ):
        SOLVER.factor(NoisyGram(kernel, X, noise))
    with pytest.raises(NotPositiveDefiniteError, match=r"row 0, 1e-30"):
        SOLVER.factor(NoisyGram(kernel, X, 1e-30))

    def density(kernel, scale, observed=None):
        return SOLVER.log_density(NoisyGram(kernel, X, scale * noise, observed), np.ones(len(X)))

    value, slope = jax.jit(jax.value_and_grad(density, (0, 1)))(kernel, jnp.asarray(1.0))
    assert value == -np.inf
    assert np.all(flat(slope) == 0.0)
    # A row that does not count needs no noise.
    observed[3] = False
    assert np.isfinite(density(kernel, 1.0, observed))
    SOLVER.factor(NoisyGram(kernel, X, noise, observed))


def test_one_point_and_more_features_than_points():
    X = jnp.array([[0.3, -0.8]])
    kernel = Polynomial(4, 0.7)
    sd = np.sqrt((0.7 + 0.73) ** 4 + 0.5)
    found = SOLVER.log_density(NoisyGram(kernel, X, 0.5), np.array([0.8]))
    np.testing.assert_allclose(found, norm(0.0, sd).logpdf(0.8), rtol=1e-13)


@pytest.mark.parametrize(
    ("kernel", "why"),
    [
        (Linear() + RBF(), r"RBF\(.*\) has infinitely many features"),
        (Linear() * Matern32(), r"Matern32\(.*\) has no finite feature map"),
        (Linear() + White(), r"White\(.*\) has no feature map: white noise"),
        (Polynomial(20), r"Polynomial\(.*\) has 30,045,015 features, too many"),
    ],
    ids=str,
)
def test_kernels_without_finite_features_are_refused(kernel, why):
    with pytest.raises(ValueError, match=f"solver='low_rank' does not fit: {why}"):
        bk.GaussianProcess(kernel, np.ones((300, 10)), 0.1, solver="low_rank")


# -- in processes and models -----------------------------------------------------------------------

X, NOISE, KEPT = case(300)
Y = np.random.default_rng(3).normal(size=300) + np.asarray(X)[:, 0]
NEW = np.random.default_rng(1).normal(size=(7, 2))
NAMED = Linear(0.5).named("plane") + 2.0 * (Polynomial(2, 0.5).on([1]).named("curve") + 0.3)


@pytest.mark.slow
@pytest.mark.parametrize("all_count", few([True, False], False))
def test_processes_with_few_features_against_numpy(all_count):
    mask = None if all_count else KEPT
    process = bk.GaussianProcess(NAMED, X, NOISE, 0.2, mask)
    assert process.explain().solver == "low_rank"
    observed = np.ones(300, bool) if mask is None else mask
    K, r = masked(NOISE, observed, NAMED, X), (Y - 0.2) * observed
    inverse = np.linalg.inv(K)
    log_prob = multivariate_normal(cov=K).logpdf(r) + 0.5 * np.sum(~observed) * np.log(2.0 * np.pi)
    np.testing.assert_allclose(process.log_prob(Y), log_prob, rtol=1e-10)
    gp = process.condition(Y)
    assert gp.residual < 1e-11
    loo = gp.loo()
    np.testing.assert_allclose(loo.variance[observed], 1.0 / np.diag(inverse)[observed], rtol=1e-9)
    left_out = (Y - inverse @ r / np.diag(inverse))[observed]
    np.testing.assert_allclose(loo.mean[observed], left_out, rtol=1e-9)
    # Covariances in weight space, where nothing cancels: 2 weights, 3, and 1.
    phi, phi_new = np.asarray(NAMED.feature_map(X)), np.asarray(NAMED.feature_map(NEW))
    of_weights = np.linalg.inv(np.eye(6) + (phi.T * (observed / NOISE)) @ phi)
    np.testing.assert_allclose(
        gp.covariance(NEW), phi_new @ of_weights @ phi_new.T, rtol=1e-8, atol=1e-12
    )
    prediction = gp.predict(NEW, latent=True)
    for name, kernel, own in (
        (None, NAMED, slice(0, 6)),
        ("plane", NAMED.terms[0], slice(0, 2)),
        ("curve", 2.0 * Polynomial(2, 0.5).on([1]), slice(2, 5)),
        ("rest", Constant(0.6), slice(5, 6)),
    ):
        found = prediction if name is None else prediction.component(name)
        cross = np.asarray(kernel(X, NEW)) * observed[:, None]
        mean = cross.T @ inverse @ r + (0.2 if name is None else 0.0)
        np.testing.assert_allclose(found.mean, mean, rtol=1e-8)
        variance = np.diag(phi_new[:, own] @ of_weights[own, own] @ phi_new[:, own].T)
        np.testing.assert_allclose(found.sd**2, variance, rtol=1e-8)


def test_regressions_with_few_features():
    kernel = Linear(dist.HalfNormal(1.0)) + Constant(dist.HalfNormal(2.0))
    draws = {
        "linear.variance": np.array([0.5, 1.5]),
        "constant.variance": np.array([1.0, 0.3]),
        "noise": np.array([0.3, 0.8]),
    }
    predictions = []
    for solver, taken in (("auto", "low_rank"), ("dense", "dense")):
        model = bk.GPRegression(kernel, dist.HalfNormal(1.0), solver=solver)
        prepared, data = model.prepare(X, Y, KEPT)
        assert prepared.prepared.name == taken
        predictions.append(prepared.predictive(draws, data, NEW))
    ours, theirs = predictions
    np.testing.assert_allclose(ours.mean, theirs.mean, rtol=1e-8)
    np.testing.assert_allclose(ours.sd, theirs.sd, rtol=1e-8)


def test_hand_written_models_with_few_features():
    def model(X, y, solver="auto"):
        slope = numpyro.sample("slope", dist.HalfNormal(1.0))
        noise = numpyro.sample("noise", dist.HalfNormal(1.0))
        numpyro.sample("y", bk.GaussianProcess(Linear(slope), X, noise, solver=solver), obs=y)

    @partial(jax.jit, static_argnums=1)
    @jax.value_and_grad
    def density(values, solver):
        return log_density_of_model(model, (X, Y, solver), {}, values)[0]

    values = {"slope": 0.9, "noise": 0.5}
    found, expected = (flat(density(values, solver)) for solver in ("auto", "dense"))
    np.testing.assert_allclose(found, expected, rtol=1e-9)
