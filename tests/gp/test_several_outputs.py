"""Gaussian processes of several outputs that share X, against one process for each."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from numpyro.infer.util import log_density
from scipy.optimize import check_grad
from scipy.stats import lognorm, multivariate_normal, norm

import bayeskern as bk
from bayeskern.kernels import RBF, Linear, Matern32
from tests.marks import few

RNG = np.random.default_rng(12)
N = 30
X, NEW = RNG.normal(size=(N, 2)), RNG.normal(size=(5, 2))
Y = np.column_stack([np.sin(X[:, 0]), X[:, 0] * X[:, 1], 3.0 - X[:, 1]])
Y += 0.2 * RNG.normal(size=Y.shape)
KERNEL = RBF(1.3).named("curve") + Linear(0.5).named("line")
KNOWN = bk.GPRegression(KERNEL, 0.05, mean=0.3)
INFERRED = bk.GPRegression(RBF(dist.LogNormal(), dist.LogNormal()), dist.LogNormal(-2.0))


def fit(model, y, X=X, method="exact", **arguments):
    return bk.infer(model, X, y, method=method, seed=0, progress=False, **arguments)


def together(values):
    return np.stack(list(values), axis=-1)


@pytest.mark.slow
def test_known_hyperparameters_against_scipy():
    K = np.asarray(KERNEL(X)) + 0.05 * np.eye(N)
    cross = np.asarray(KERNEL(X, NEW))
    posterior = fit(KNOWN, Y)
    evidence = sum(multivariate_normal(np.full(N, 0.3), K).logpdf(y) for y in Y.T)
    assert posterior.log_evidence.value == pytest.approx(evidence, rel=1e-10)
    assert posterior.trust.verdict == "good"
    f = posterior.flat["f"]
    assert f.shape == (4000, N, 3)
    mean = 0.3 + (K - 0.05 * np.eye(N)) @ np.linalg.solve(K, Y - 0.3)
    sd = np.sqrt(np.diag(0.05 * np.eye(N) - 0.05**2 * np.linalg.inv(K)))
    assert np.abs((f.mean(axis=0) - mean) / sd[:, None]).max() < 5.0 / np.sqrt(4000)
    np.testing.assert_allclose(f.std(axis=0) / sd[:, None], 1.0, atol=5.0 / np.sqrt(8000))

    prediction = posterior.predict(NEW)
    mean = 0.3 + cross.T @ np.linalg.solve(K, Y - 0.3)
    covariance = np.asarray(KERNEL(NEW)) - cross.T @ np.linalg.solve(K, cross) + 0.05 * np.eye(5)
    sd = np.sqrt(np.diag(covariance))[:, None] * np.ones(3)
    np.testing.assert_allclose(prediction.mean, mean, rtol=1e-9)
    np.testing.assert_allclose(prediction.sd, sd, rtol=1e-9)
    np.testing.assert_allclose(prediction.interval(0.9)[1], norm(mean, sd).ppf(0.95), rtol=1e-8)
    draws = prediction.sample(4000, seed=1)
    assert draws.shape == (4000, 5, 3)
    assert np.abs((draws.mean(axis=0) - mean) / sd).max() < 5.0 / np.sqrt(4000)
    # Of y at NEW, with three independent outputs that change fastest.
    expected = np.kron(covariance / (sd[:, 0] * sd[:, :1]), np.eye(3))
    correlation = np.corrcoef(draws.reshape(4000, -1).T)
    np.testing.assert_allclose(correlation, expected, atol=5.0 / np.sqrt(4000))


@pytest.mark.slow
def test_components_equal_those_of_single_outputs():
    prediction = fit(KNOWN, Y).predict(NEW)
    each = [fit(KNOWN, y).predict(NEW) for y in Y.T]
    assert prediction.components == ("curve", "line")
    for name in prediction.components:
        ours = prediction.component(name)
        np.testing.assert_allclose(ours.mean, together(p.component(name).mean for p in each))
        np.testing.assert_allclose(ours.sd, together(p.component(name).sd for p in each))


def test_log_density_and_gradient_with_priors():
    """At given hyperparameters by SciPy, and by differences."""
    model, args = INFERRED.prepare(X, Y)
    lengthscale, variance, noise = sites = np.array([0.8, 1.7, 0.3])

    def density(values):
        return log_density(model, args, {}, dict(zip(names, values, strict=True)))[0]

    names = ("lengthscale", "variance", "noise")
    distances = np.sum(np.square(X[:, None] - X), axis=-1)
    K = variance * np.exp(-0.5 * distances / lengthscale**2) + noise * np.eye(N)
    expected = sum(multivariate_normal(np.zeros(N), K).logpdf(y) for y in Y.T)
    expected += lognorm(1.0).logpdf(sites[:2]).sum() + lognorm(1.0, scale=np.exp(-2.0)).logpdf(
        noise
    )
    assert float(density(jnp.asarray(sites))) == pytest.approx(expected, rel=1e-10)
    value, gradient = jax.jit(density), jax.jit(jax.grad(density))
    size = np.linalg.norm(gradient(sites))
    assert check_grad(value, gradient, sites, epsilon=1e-7) < 1e-5 * size


TIMES = np.sort(RNG.uniform(0.0, 10.0, N))
GRID = np.stack(np.meshgrid(np.arange(6.0), np.arange(5.0), indexing="ij"), -1).reshape(-1, 2)
SOLVERS = {
    "markov": (Matern32(2.0), TIMES[:, None]),
    "low_rank": (Linear(0.5), X),
    "kronecker": (RBF(1.5), GRID),
    "neighbors": (Matern32(2.0), X),
}


@pytest.mark.slow
@pytest.mark.parametrize("solver", few(SOLVERS, "kronecker"))
def test_every_solver_takes_several_outputs(solver):
    kernel, inputs = SOLVERS[solver]
    model = bk.GPRegression(kernel, 0.1, solver=solver)
    prepared, args = model.prepare(inputs, Y)
    each = [model.prepare(inputs, y) for y in Y.T]
    density = sum(float(log_density(one, data, {}, {})[0]) for one, data in each)
    assert float(log_density(prepared, args, {}, {})[0]) == pytest.approx(density, rel=1e-10)
    prediction = prepared.predictive({}, args, inputs[:4] + 0.1)
    means, variances = zip(
        *((p.mean, p.variance) for p in (m.predictive({}, a, inputs[:4] + 0.1) for m, a in each)),
        strict=True,
    )
    np.testing.assert_allclose(prediction.mean, together(means), rtol=1e-9)
    np.testing.assert_allclose(prediction.variance, together(variances), rtol=1e-9)


@pytest.mark.parametrize("masked", few([False, True], True))
def test_leave_one_out_equals_refits(masked):
    mask = np.arange(N) % 5 != 2 if masked else np.ones(N, bool)
    more = {"mask": mask} if masked else {}
    found = fit(KNOWN, Y, **more).log_likelihood()["y"]
    K = np.asarray(KERNEL(X)) + 0.05 * np.eye(N)
    expected = []
    for i in np.flatnonzero(mask):
        others = np.flatnonzero(mask & (np.arange(N) != i))
        weights = np.linalg.solve(K[np.ix_(others, others)], K[others, i])
        sd = np.sqrt(K[i, i] - K[i, others] @ weights)
        expected.append(norm(0.3 + weights @ (Y[others] - 0.3), sd).logpdf(Y[i]))
    np.testing.assert_allclose(found[0, 0].reshape(-1, 3), expected, rtol=1e-7)


@pytest.mark.slow
@pytest.mark.parametrize("method", few(["map", "laplace", "svi"], "map"))
def test_inference_prediction_and_storage(method, tmp_path):
    posterior = fit(INFERRED, Y, method=method)
    model, args = INFERRED.prepare(X, Y)
    point = posterior.point("mean")
    names = ("lengthscale", "variance", "noise")
    at = {name: jnp.asarray(point[name]) for name in names}
    moved = {name: 1.5 * value for name, value in at.items()}
    assert log_density(model, args, {}, at)[0] > log_density(model, args, {}, moved)[0]
    assert posterior.predict(NEW).mean.shape == (5, 3)
    posterior.save(tmp_path / "fit.nc")
    loaded = bk.load(tmp_path / "fit.nc", INFERRED)
    np.testing.assert_allclose(loaded.predict(NEW).mean, posterior.predict(NEW).mean)
    if method != "map":
        tree = posterior.to_arviz()
        assert tree.log_likelihood["y"].shape[-2:] == tree.observed_data["y"].shape == (N, 3)


@pytest.mark.slow
def test_prior_predictive_has_all_outputs():
    prior = bk.prior_predictive(INFERRED, X, Y, seed=0)
    assert prior.prior_predictive["y"].shape[-2:] == (N, 3)


def test_one_column_equals_one_output():
    prediction = fit(KNOWN, Y[:, :1]).predict(NEW)
    np.testing.assert_allclose(prediction.mean, fit(KNOWN, Y[:, 0]).predict(NEW).mean)


def with_nan():
    y = Y.copy()
    y[7, 1] = np.nan
    return y


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (with_nan(), "NaN or infinite in column 1, the first in row 7 of column 1.*separately"),
        (Y[:-1], "y has 29 rows but X has 30 points"),
        (Y[None], r"y must be one number per point, shape \(n,\)"),
    ],
)
def test_bad_input_is_refused(y, message):
    with pytest.raises(ValueError, match=message):
        fit(KNOWN, y)


def test_condition_takes_one_output():
    with pytest.raises(ValueError, match=r"y must be one number.*\(30, 3\)"):
        KNOWN.condition(X, Y)
