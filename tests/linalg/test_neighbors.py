"""Vecchia's approximation against dense matrices and a loop over the points."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from scipy.stats import multivariate_normal, norm

import bayeskern as bk
from bayeskern.kernels import RBF, Constant, Linear, Matern32, White
from bayeskern.linalg import SOLVERS, NoisyGram, choose, solver_of
from bayeskern.linalg.neighbors.conditioning_sets import (
    column_scales,
    maximin_order,
    nearest_before,
)
from bayeskern.linalg.neighbors.solver import NEW_POINT_RATIO, PATCH_SIZE, NeighborsSolver
from bayeskern.protocols import NoClosedFormError
from tests.linalg.by_hand import check_factor
from tests.marks import few

KERNEL = Matern32(0.8, 1.3).named("near") + White(0.2) + 0.5 * Linear()
DENSE = SOLVERS["dense"]
N = 45


def case(n=N, seed=0):
    """Points, two of them equal; residuals; noise; mask of the observed points."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2)) * [1.0, 3.0]
    X[3] = X[7]
    observed = rng.random(n) < 0.8
    return jnp.asarray(X), rng.normal(size=n) * observed, rng.uniform(0.1, 0.3, n), observed


def masked(X, noise, observed):
    """K in NumPy; rows that do not count are those of the identity."""
    K = np.asarray(KERNEL(X)) + np.diag(noise)
    return np.where(observed[:, None] & observed, K, np.eye(len(X)))


def by_loop(K, solver):
    """The approximation of a covariance matrix: its precision, by a loop over the points."""
    order, neighbors = np.asarray(solver.order), np.asarray(solver.neighbors)
    precision = np.zeros_like(K)
    for place, i in enumerate(order):
        given = [j for j in neighbors[i] if j != i]
        assert set(given) <= set(order[:place])
        v = np.zeros(len(K))
        v[given] = -np.linalg.solve(K[np.ix_(given, given)], K[given, i])
        v[i] = 1.0
        precision += np.outer(v, v) / (K[i, i] + K[i, given] @ v[given])
    return precision


# -- the points that each is conditioned on --------------------------------------------------------


@pytest.mark.parametrize("m", [1, 7, 200])
def test_neighbors_are_the_nearest_predecessors(m):
    X = np.random.default_rng(0).normal(size=(150, 3))
    distances, rows = nearest_before(X, m)
    apart = np.linalg.norm(X[:, None] - X, axis=-1)
    for i in range(len(X)):
        expected = np.sort(apart[i, :i])[:m]
        found = len(expected)
        np.testing.assert_allclose(distances[i, :found], expected)
        np.testing.assert_allclose(apart[i, rows[i, :found]], expected)
        assert np.all(rows[i, found:] == i) and np.all(np.isinf(distances[i, found:]))


def test_first_points_of_the_order_are_far_apart():
    X = np.random.default_rng(0).uniform(size=(1000, 2))
    order = maximin_order(X)
    assert sorted(order) == list(range(1000))
    np.testing.assert_array_equal(order, maximin_order(X))
    apart = np.linalg.norm(X[:, None] - X, axis=-1)
    farthest = [int(order[0])]
    while len(farthest) < 100:
        farthest.append(int(np.argmax(apart[farthest].min(axis=0))))

    def separation(rows):
        among = apart[np.ix_(rows, rows)]
        return np.min(among[np.triu_indices(len(rows), 1)])

    # A random order reaches a twentieth of the possible separation.
    assert separation(order[:100]) > 0.5 * separation(farthest)


def test_column_scales_are_correlation_lengths():
    X = np.random.default_rng(0).normal(size=(100, 3)) * [1.0, 10.0, 100.0]
    scales = column_scales(Matern32([1.0, 20.0, 3.0]) + White(2.0), X)
    np.testing.assert_allclose(scales / scales[0], [1.0, 20.0, 3.0], rtol=0.1)
    np.testing.assert_array_equal(np.isinf(column_scales(RBF().on([1]), X)), [1, 0, 1])
    np.testing.assert_allclose(column_scales(Constant(), X), X.std(axis=0))
    unknown = jax.tree.map(lambda x: jnp.full_like(x, jnp.nan), RBF().on([0, 2]))
    expected = np.where([1, 0, 1], X.std(axis=0), np.inf)
    np.testing.assert_allclose(column_scales(unknown, X), expected)


# -- with all points before as neighbours ----------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("varies", few([True, False], True))
@pytest.mark.parametrize("masks", few([True, False], True))
def test_derivatives_with_all_neighbors_match_the_dense_solver(varies, masks):
    X, r, noise, observed = case()
    noise, observed = noise if varies else 0.2, observed if masks else None
    solver = NeighborsSolver(m=N - 1).prepare(KERNEL, X)

    def flat(derivative, solver):
        def density(kernel, noise, X, r):
            R = r if observed is None else jnp.where(observed, r, 0.0)
            return solver.log_density(NoisyGram(kernel, X, noise, observed), R)

        results = jax.jit(derivative(density))(KERNEL, jnp.asarray(noise), X, r)
        return np.concatenate([np.ravel(x) for x in jax.tree.leaves(results)])

    def gradient(density):
        return jax.value_and_grad(density, (0, 1, 2, 3))

    for derivative in (gradient, lambda density: jax.hessian(density, (0, 1))):
        expected = flat(derivative, DENSE)
        error = np.abs(flat(derivative, solver) - expected).max()
        assert error < 1e-8 * np.abs(expected).max()


# -- with a few neighbours -------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("m", few([6, N], 6))
def test_factor_against_a_loop(m):
    X, r, noise, observed = case()
    solver = NeighborsSolver(m=m).prepare(KERNEL, X)
    K = masked(X, noise, observed)
    precision = by_loop(K, solver)
    if m == N:
        np.testing.assert_allclose(precision, np.linalg.inv(K), rtol=1e-9, atol=1e-9)
    K = np.linalg.inv(precision)
    C, b = NoisyGram(KERNEL, X, noise, observed), np.random.default_rng(1).normal(size=N)
    check_factor(solver.factor(C), K)
    np.testing.assert_allclose(solver.multiply(C, b), K @ b, atol=1e-10)
    R, seen = np.stack([r, 2.0 * r]), np.ix_(observed, observed)
    expected = multivariate_normal(cov=K[seen]).logpdf(R[:, observed])
    np.testing.assert_allclose(solver.log_density(C, R), expected, rtol=1e-11)


@pytest.mark.slow
@pytest.mark.parametrize("few_count", few([False, True], True))
def test_new_points_are_conditioned_on_the_nearest(few_count):
    X, r, noise, observed = case()
    if few_count:
        # Fewer observed points than neighbours.
        observed, r = observed & (np.arange(N) < 5), r * (np.arange(N) < 5)
    rng, m = np.random.default_rng(1), 2
    new = jnp.asarray(np.concatenate([rng.normal(size=(6, 2)), X[3:4]]))
    solver = NeighborsSolver(m=m).prepare(KERNEL, X)
    counted = np.flatnonzero(observed)
    K = masked(X, noise, observed)
    for part, kernel in {None: KERNEL, "near": Matern32(0.8, 1.3)}.items():
        W, places = np.zeros((len(new), N)), (X / solver.scale, new / solver.scale)
        for i, row in enumerate(np.linalg.norm(places[1][:, None] - places[0], axis=-1)):
            near = counted[np.argsort(row[counted])[: NEW_POINT_RATIO * m]]
            W[i, near] = np.linalg.solve(K[np.ix_(near, near)], kernel(X, new)[near, i])
        cross = W @ np.asarray(kernel(X, new))
        errors = np.asarray(kernel(new)) - cross - cross.T + W @ K @ W.T
        C = NoisyGram(KERNEL, X, noise, observed)
        mean = jax.jit(lambda x, part=part, C=C: solver.mean(C, part, None, r, None, x))(new)
        np.testing.assert_allclose(mean, W @ r, atol=1e-12)
        variance = solver.variance(C, part, None, new)
        np.testing.assert_allclose(variance, np.diag(errors), atol=1e-12)
        found = solver.covariance(C, part, None, new)
        np.testing.assert_allclose(found, errors, atol=1e-12)


@pytest.mark.slow
def test_error_estimate_is_the_kl_divergence():
    X, _, noise, observed = case()
    solver = NeighborsSolver(m=5).prepare(KERNEL, X)
    K = masked(X, noise, observed)
    # KL(N(0, K) || N(0, Q^-1)) = 1/2 (tr(Q K) - n - log |Q K|)
    product = by_loop(K, solver) @ K
    divergence = 0.5 * (np.trace(product) - N - np.linalg.slogdet(product)[1])
    found = solver.error_estimate(NoisyGram(KERNEL, X, noise, observed))
    np.testing.assert_allclose(found, divergence / observed.sum(), rtol=1e-9)
    assert DENSE.error_estimate(NoisyGram(KERNEL, X, noise)) == 0.0


# -- what is refused -------------------------------------------------------------------------------


def test_repeated_points_without_noise_are_refused():
    X, r, _, _ = case()
    solver = solver_of(Matern32(), X, "neighbors")
    with pytest.raises(bk.NotPositiveDefiniteError, match=r"X\[\d\] .* is determined .*noise"):
        solver.factor(NoisyGram(Matern32(), X, 0.0))

    def density(kernel, noise):
        return solver.log_density(NoisyGram(kernel, X, noise), r)

    value, slope = jax.jit(jax.value_and_grad(density, (0, 1)))(Matern32(), 0.0)
    assert value == -np.inf
    assert all(np.all(x == 0.0) for x in jax.tree.leaves(slope))


def test_other_inputs_than_prepared_are_refused():
    X, r, _, _ = case()
    with pytest.raises(ValueError, match=r"of these 45 points; prepare"):
        SOLVERS["neighbors"].log_density(NoisyGram(KERNEL, X, 0.1), r)
    solver = solver_of(KERNEL, X, "neighbors")
    with pytest.raises(ValueError, match=r"of these 40 points; prepare"):
        bk.GaussianProcess(KERNEL, X[:40], 0.1, solver=solver).log_prob(r[:40])


def test_traced_inputs_need_a_prepared_solver():
    X, r, _, _ = case()

    @jax.jit
    def density(X, solver):
        return bk.GaussianProcess(KERNEL, X, 0.1, solver=solver).log_prob(r)

    with pytest.raises(ValueError, match=r"JAX traces these.*solver_of\(kernel, X, 'neighbors'\)"):
        jax.jit(lambda X: bk.GaussianProcess(KERNEL, X, 0.1, solver="neighbors").log_prob(r))(X)
    # With all other points as neighbours the approximation is exact.
    prepared = density(X, NeighborsSolver(m=N).prepare(KERNEL, X))
    np.testing.assert_allclose(
        prepared, DENSE.log_density(NoisyGram(KERNEL, X, 0.1), r), rtol=1e-10
    )


# -- as a process ----------------------------------------------------------------------------------


def test_chosen_where_no_exact_solver_fits_in_memory():
    X = jax.ShapeDtypeStruct((1_000_000, 2), float)
    choice = choose(Matern32(), X)
    assert choice.solver == "neighbors"
    assert "not dense: about" in repr(choice)
    with pytest.raises(ValueError, match=r"solver='neighbors'.*SparseGP"):
        choose(Matern32(), X, "dense")


def test_explanation_states_the_loss():
    X, *_ = case()
    solver = NeighborsSolver(m=3).prepare(KERNEL, X)
    first = repr(bk.GaussianProcess(KERNEL, X, 0.1, solver=solver).explain()).splitlines()[0]
    assert first.startswith("neighbors: about") and "of log density per point" in first


def small_regression():
    """25 points, their values, and 6 new points."""
    rng = np.random.default_rng(0)
    X, X_new = rng.uniform(size=(25, 2)), rng.uniform(size=(6, 2))
    return X, np.sin(6.0 * X[:, 0]) + 0.3 * rng.normal(size=25), X_new


@pytest.mark.slow
def test_regression_with_all_neighbors_matches_the_dense_solver():
    X, y, X_new = small_regression()
    kernel = Matern32(0.5, dist.LogNormal(0.0, 1.0)).named("near") + Linear()
    draws = {"near.variance": np.array([0.8, 1.3])}
    found = {}
    for solver in ("dense", "neighbors"):
        model, data = bk.GPRegression(kernel, 0.1, solver=solver).prepare(X, y)
        prediction = model.predictive(draws, data, X_new)
        fixed = model.at({"near.variance": 1.0})
        gp = fixed.condition(*data)
        found[solver] = [
            prediction.mean,
            prediction.variance,
            prediction.component("near").variance,
            gp.loo().log_density,
            gp.covariance(X_new),
        ]
        assert gp.residual < 1e-12
    for a, b in zip(found["neighbors"], found["dense"], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-8)
    with pytest.raises(NoClosedFormError, match=r"solver='neighbors'.*predict\(X_new\)"):
        fixed.exact(*data)


@pytest.mark.slow
def test_inference_with_all_neighbors_matches_the_dense_solver():
    X, y, X_new = small_regression()
    kernel = Matern32(dist.LogNormal(-1.0, 0.5), dist.LogNormal(0.0, 1.0))
    found = {}
    for solver in ("dense", "neighbors"):
        model = bk.GPRegression(kernel, bk.from_sd(dist.HalfNormal(0.5)), solver=solver)
        posterior = bk.infer(model, X, y, method="laplace", seed=0)
        prediction = posterior.predict(X_new)
        found[solver] = [posterior.log_evidence, prediction.mean, prediction.variance]
    for a, b in zip(found["neighbors"], found["dense"], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4)


@pytest.mark.slow
def test_stated_memory_is_close_to_that_of_xla():
    n = 20_000
    X, y = jnp.asarray(np.random.default_rng(0).uniform(size=(n, 2))), jnp.ones(n)
    solver = solver_of(Matern32(), X, "neighbors")

    def density(kernel, solver, X, y):
        return solver.log_density(NoisyGram(kernel, X, 0.1), y)

    compiled = jax.jit(jax.value_and_grad(density)).lower(Matern32(), solver, X, y).compile()
    taken = compiled.memory_analysis().temp_size_in_bytes
    assert taken < solver.applicability(Matern32(), X).cost.bytes < 2.0 * taken


@pytest.mark.slow
@pytest.mark.parametrize("d", [2, 5])
def test_predictions_and_error_are_close_to_the_dense_solver(d):
    # More points than the error is estimated from at a time.
    n, rng, noise = PATCH_SIZE + 500, np.random.default_rng(d), 0.1
    X, kernel = rng.uniform(size=(n + 500, d)), Matern32(0.5)
    L = np.linalg.cholesky(np.asarray(kernel(X)) + noise * np.eye(n + 500))
    y = L @ rng.normal(size=n + 500)
    density, logdet = {}, {}
    for solver in ("dense", "neighbors"):
        process = bk.GaussianProcess(kernel, X[:n], noise, solver=solver)
        gp = process.condition(y[:n])
        prediction = gp.predict(X[n:])
        density[solver] = norm(prediction.mean, prediction.sd).logpdf(y[n:]).mean()
        logdet[solver] = gp.factor.logdet()
    assert abs(density["neighbors"] - density["dense"]) < 0.01
    divergence = 0.5 * (logdet["neighbors"] - logdet["dense"]) / n
    np.testing.assert_allclose(process.explain().loss, divergence, rtol=0.1)
