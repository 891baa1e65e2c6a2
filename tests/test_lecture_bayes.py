"""What notebook 11 shows of Bayesian learning, against formulas and integrals."""

from functools import partial

import numpy as np
import numpyro.distributions as dist
import pytest
from scipy import integrate, stats
from scipy.optimize import minimize
from sklearn.preprocessing import FunctionTransformer

import bayeskern as bk
from bayeskern.kernels import RBF
from bayeskern.ridge import coefficient_path

pytestmark = pytest.mark.slow

RNG = np.random.default_rng(11)
infer = partial(bk.infer, progress=False)


def close(actual, expected, rtol=1e-10, atol=1e-10):
    np.testing.assert_allclose(np.asarray(actual), expected, rtol=rtol, atol=atol)


# -- the coin --------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 3, 10, 100])
def test_the_posterior_of_a_coin_is_likelihood_times_prior(n):
    throws = RNG.binomial(1, 0.7, n)
    coin = bk.BetaBernoulli.of(mean=0.5, strength=4).update(throws)
    heads = throws.sum()

    def joint(p):
        return stats.beta(2, 2).pdf(p) * p**heads * (1 - p) ** (n - heads)

    evidence, _ = integrate.quad(joint, 0, 1, epsabs=0)
    p = np.linspace(0.05, 0.95, 7)
    close(stats.beta(coin.a, coin.b).pdf(p), joint(p) / evidence, rtol=1e-7)


@pytest.mark.parametrize("strength", [2.0, 20.0, 200.0])
def test_the_weight_of_the_prior_is_its_strength_over_all_throws(strength):
    for n in (1, 10, 1000):
        throws = RNG.binomial(1, 0.7, n)
        mean = bk.BetaBernoulli.of(mean=0.5, strength=strength).update(throws).mean
        share = throws.mean()
        close(mean - share, strength / (strength + n) * (0.5 - share))


def test_after_three_heads_laplace_gives_the_next_one_four_fifths():
    posterior = infer(bk.BetaBernoulli(1, 1), [1, 1, 1], method="exact")
    # The integral of p^4 over that of p^3.
    close(posterior.predict().mean, [0.8])
    # Ten more: P(h) = C(10, h) times the integral of p^(3 + h) (1 - p)^(10 - h), over 1 / 4.
    chances = [
        4 * integrate.quad(lambda p, h=h: stats.binom(10, p).pmf(h) * p**3, 0, 1)[0]
        for h in range(11)
    ]
    lower, upper = posterior.predict(trials=10).interval(0.95)
    inside = np.cumsum(chances)
    close(lower, np.argmax(inside >= 0.025))
    close(upper, np.argmax(inside >= 0.975))


# -- a line ----------------------------------------------------------------------------------------

NOISE, ALPHA = 0.04, 2.0


@pytest.fixture
def line():
    x = RNG.uniform(-1, 1, 20)
    return x, -0.3 + 0.5 * x + 0.2 * RNG.normal(size=20)


@pytest.mark.parametrize("n", [1, 2, 20])
def test_the_posterior_of_a_line_is_likelihood_times_prior_on_a_grid(line, n):
    x, y = (values[:n] for values in line)
    X = np.column_stack([np.ones(n), x])
    model = bk.BayesianLinearRegression(prior=ALPHA**-0.5, noise=NOISE, intercept=False)
    weights = infer(model, X, y, method="exact").predict(np.eye(2), latent=True)
    # A sum over a fine grid that holds all of the mass.
    axes = [
        m + sd * np.linspace(-9, 9, 301) for m, sd in zip(weights.mean, weights.sd, strict=True)
    ]
    grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1)
    log_joint = stats.norm(grid @ X.T, NOISE**0.5).logpdf(y).sum(-1)
    log_joint += stats.norm(0, ALPHA**-0.5).logpdf(grid).sum(-1)
    density = np.exp(log_joint - log_joint.max())
    density /= density.sum()
    mean = np.einsum("ij,ijk->k", density, grid)
    close(weights.mean, mean, rtol=1e-6, atol=1e-8)
    close(weights.variance, np.einsum("ij,ijk->k", density, (grid - mean) ** 2), rtol=1e-6)


def test_far_from_the_data_bumps_know_the_noise_and_a_process_its_prior(line):
    x, y = line
    centres, far = np.linspace(-1, 1, 9), [[40.0]]
    bumps = FunctionTransformer(lambda X: np.exp(-0.5 * ((X - centres) / 0.4) ** 2))
    by_bumps = bk.BayesianLinearRegression(bumps, prior=ALPHA**-0.5, noise=NOISE, intercept=False)
    process = bk.GPRegression(RBF(0.4, variance=1 / ALPHA), noise=NOISE)
    by_line = bk.BayesianLinearRegression(
        prior=ALPHA**-0.5, noise=NOISE, intercept=dist.Normal(0.0, ALPHA**-0.5)
    )
    variances = [
        infer(model, x[:, None], y, method="exact").predict(far).variance[0]
        for model in (by_bumps, process, by_line)
    ]
    X = np.column_stack([np.ones(20), x])
    S = np.linalg.inv(ALPHA * np.eye(2) + X.T @ X / NOISE)
    at = np.array([1.0, 40.0])
    close(variances, [NOISE, NOISE + 1 / ALPHA, NOISE + at @ S @ at])


# -- penalties and priors --------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "order"), [("ridge", 2), ("lasso", 1)])
def test_a_solution_is_least_squares_within_the_ball_of_its_norm(kind, order):
    X = RNG.normal(size=(60, 2))
    y = X @ [0.4, 1.2] + 0.5 * RNG.normal(size=60)
    b = coefficient_path(X, y, [60.0], kind=kind).coefficients[0]
    radius = np.linalg.norm(b, ord=order)

    # b = u - v with u, v >= 0 makes the norms smooth.
    def split(point):
        return point[:2] - point[2:]

    def room(point):
        return radius**order - np.sum((point[:2] + point[2:]) ** order)

    best = minimize(
        lambda point: np.mean((y - X @ split(point)) ** 2),
        np.full(4, 0.1),
        bounds=[(0, None)] * 4,
        constraints={"type": "ineq", "fun": room},
        options={"ftol": 1e-14, "maxiter": 500},
    )
    assert best.success
    close(b, split(best.x), rtol=1e-4, atol=1e-5)


def test_modes_under_gaussian_and_laplace_priors_are_ridge_and_the_lasso():
    X, noise, sd, scale = RNG.normal(size=(50, 8)), 1.3, 0.5, 0.1
    y = X @ [2, 0, 0, -1.5, 0, 0, 1, 0] + RNG.normal(size=50)
    for prior, kind, penalty in (
        (bk.priors.Gaussian(sd), "ridge", noise / sd**2),
        (bk.priors.Laplace(scale), "lasso", 2.0 * noise / scale),
    ):
        model = bk.BayesianLinearRegression(prior=prior, noise=noise, intercept=False)
        mode = infer(model, X, y, method="map").flat["weights"][0]
        b = coefficient_path(X, y, [penalty], kind=kind).coefficients[0]
        close(mode, b, rtol=1e-8, atol=1e-9)


def test_a_single_weight_is_halved_by_ridge_and_cut_by_the_lasso():
    z, scale = np.linspace(-4, 4, 161), 2**-0.5
    ridge = coefficient_path(np.eye(161), z, [1.0]).coefficients[0]
    lasso = coefficient_path(np.eye(161), z, [2 / scale], kind="lasso").coefficients[0]
    close(ridge, z / 2)
    close(lasso, np.sign(z) * np.maximum(np.abs(z) - 1 / scale, 0), atol=1e-9)
