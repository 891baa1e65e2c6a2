"""Latent processes by the Markov solver, against dense covariance matrices."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

import bayeskern as bk
from bayeskern import likelihoods
from bayeskern.gp import LatentProcess
from bayeskern.kernels import Linear, Matern32, Matern52

rng = np.random.default_rng(0)
N = 60
# In no order, two of them the same.
T = np.append(rng.uniform(0.0, 6.0, N - 1), 0.0)
T[5] = T[6]
# Some rows are not exposed, and so have neither curvature nor say.
EXPOSURE = np.where(np.arange(N) % 7 == 3, 1e-99, 2.0)
COUNTS = rng.poisson(EXPOSURE * np.exp(np.sin(2.0 * T)))
NEW = np.array([-1.0, 0.3, T[6], 3.0, 8.0])


def process(solver, theta=(0.3, -0.2, 0.1), rows=slice(None)):
    lengthscale, variance, mean = jnp.exp(theta[0]), jnp.exp(theta[1]), theta[2]
    kernel = Matern32(lengthscale, variance).named("wave") + Linear(0.1).named("trend")
    extra = {"exposure": EXPOSURE[rows]}
    return LatentProcess(kernel, T[rows], likelihoods.Poisson(), mean, extra, solver)


@pytest.fixture(scope="module")
def given():
    return {solver: process(solver).condition(COUNTS) for solver in ("markov", "dense")}


@pytest.mark.slow
def test_log_marginal_and_gradient_equal_dense():
    theta = jnp.array([0.3, -0.2, 0.1])
    found, expected = (
        jax.jit(jax.value_and_grad(lambda t, s=s: process(s, t).log_prob(COUNTS)))(theta)
        for s in ("markov", "dense")
    )
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-10)
    np.testing.assert_allclose(found[1], expected[1], rtol=1e-8)


@pytest.mark.slow
def test_hessian_of_log_marginal_equals_dense():
    theta = jnp.array([0.3, -0.2, 0.1])
    found, expected = (
        jax.jit(jax.hessian(lambda t, s=s: process(s, t).log_prob(COUNTS)))(theta)
        for s in ("markov", "dense")
    )
    np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-8)


@pytest.mark.slow
def test_rows_without_curvature_do_not_count():
    rows = EXPOSURE > 1.0
    without = process("markov", rows=rows).log_prob(COUNTS[rows])
    np.testing.assert_allclose(process("markov").log_prob(COUNTS), without, rtol=1e-12)


@pytest.mark.slow
def test_without_a_mode_log_marginal_is_minus_infinity():
    def evidence(theta):
        return process("markov", theta).log_prob(COUNTS)

    value, gradient = jax.jit(jax.value_and_grad(evidence))(jnp.array([0.3, -0.2, 800.0]))
    assert value == -np.inf
    np.testing.assert_array_equal(gradient, 0.0)


@pytest.mark.slow
def test_predictions_and_loo_equal_dense(given):
    ours, theirs = (given[s].predict(NEW, latent=True) for s in ("markov", "dense"))
    pairs = [(ours, theirs)] + [(ours.component(k), theirs.component(k)) for k in ("wave", "trend")]
    for mine, other in pairs:
        np.testing.assert_allclose(mine.mean, other.mean, rtol=0, atol=1e-9)
        np.testing.assert_allclose(mine.sd, other.sd, rtol=0, atol=1e-9)
    informed = EXPOSURE > 1.0
    ours, theirs = (np.asarray(given[s].loo())[informed] for s in ("markov", "dense"))
    np.testing.assert_allclose(ours, theirs, rtol=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize("component", [None, "wave"])
def test_joint_draws_have_the_dense_covariance(given, component):
    drawn, expected = (given[s].predict(NEW, latent=True) for s in ("markov", "dense"))
    if component is not None:
        drawn, expected = drawn.component(component), expected.component(component)
    drawn, expected = (np.cov(p.sample(20_000, seed=1).T) for p in (drawn, expected))
    np.testing.assert_allclose(drawn, expected, atol=0.04 * np.max(expected))


@pytest.mark.slow
def test_importance_ratios_agree_with_dense():
    # The mean of p(y, f) / (q(f) Z) over draws of f from q is p(y) / Z.
    means, sds = [], []
    for solver in ("markov", "dense"):
        f, log_ratio = process(solver).log_ratio(COUNTS, jax.random.key(0), 4000)
        assert f.shape == (4000, 1, N)
        ratio = np.exp(np.asarray(log_ratio))
        means.append(ratio.mean()), sds.append(ratio.std() / np.sqrt(len(ratio)))
    assert abs(means[0] - means[1]) < 4.0 * np.hypot(*sds)
    assert sds[0] < 1.5 * sds[1] and sds[1] < 1.5 * sds[0]


@pytest.mark.slow
def test_root_squares_to_the_covariance():
    prior = process("markov").prior
    root = np.asarray(prior.root(jnp.eye(N)[:, None]))[:, 0].T
    K = prior.kernels[0](T) + 1e-10 * np.mean(prior.kernels[0].diag(T)) * np.eye(N)
    np.testing.assert_allclose(root @ root.T, K, rtol=0, atol=1e-13)


@pytest.mark.slow
def test_predictions_interpolate_a_known_f():
    # f itself by the root, whose meaning differs from solver to solver; then what it says of NEW.
    white = np.random.default_rng(1).normal(size=(1, N))
    markov = process("markov")
    f = np.asarray(markov.prior.root(white)[0])
    known = markov.condition_on_white(jnp.asarray(white)).predict(NEW, latent=True)
    kernel = markov.kernels[0]
    K = kernel(T) + 1e-10 * np.mean(kernel.diag(T)) * np.eye(N)
    explained = np.linalg.solve(K, kernel(T, NEW))
    np.testing.assert_allclose(known.mean, 0.1 + f @ explained, rtol=0, atol=1e-6)
    left = kernel.diag(NEW) - np.sum(kernel(T, NEW) * explained, axis=0)
    np.testing.assert_allclose(np.square(known.sd), left, rtol=0, atol=1e-6)


@pytest.mark.slow
def test_fit_equals_the_dense_fit():
    n = 256
    t = np.sort(np.random.default_rng(2).uniform(0.0, 10.0, n))
    y = np.random.default_rng(3).poisson(np.exp(np.sin(t)))
    kernel = Matern52(dist.LogNormal(0.0, 1.0), dist.HalfNormal(2.0))
    fits = []
    for solver in ("auto", "dense"):
        model = bk.LatentGP(kernel, likelihoods.Poisson(), solver=solver)
        fits.append(bk.infer(model, t, y, method="laplace", seed=0, progress=False))
    assert fits[0].target.model.prepared.name == "markov"
    for name in ("lengthscale", "variance"):
        ours, theirs = (fit.draws[name] for fit in fits)
        np.testing.assert_allclose(ours, theirs, rtol=1e-5)


def test_unsuitable_solvers_are_refused():
    two = bk.LatentGP(Matern32(), likelihoods.Heteroscedastic(), solver="markov")
    with pytest.raises(ValueError, match="Heteroscedastic has 2"):
        two.prepare(T, COUNTS + 0.5)
    heavy = bk.LatentGP(Matern32(), likelihoods.StudentT(df=4.0), solver="markov")
    with pytest.raises(ValueError, match="StudentT is not known to be concave"):
        heavy.prepare(T, COUNTS + 0.5)
    near = bk.LatentGP(Matern32(), likelihoods.Poisson(), solver="neighbors")
    with pytest.raises(ValueError, match="the search for the mode also needs K"):
        near.prepare(T, COUNTS)
    with pytest.raises(ValueError, match="Did you mean 'markov'"):
        bk.LatentGP(Matern32(), likelihoods.Poisson(), solver="marcov")
    many = np.arange(300.0)
    assert (
        bk.LatentGP(Matern32(), likelihoods.StudentT(df=4.0)).prepare(many, many)[0].prepared.name
        == "dense"
    )
    assert (
        bk.LatentGP(Matern32(), likelihoods.Poisson()).prepare(many, many)[0].prepared.name
        == "markov"
    )
