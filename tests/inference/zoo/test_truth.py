"""The moments of the zoo, computed a second time from the models themselves."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpyro import handlers
from numpyro.infer.util import log_density

import bayeskern  # noqa: F401  (turns on float64)
from tests.inference.zoo import mixtures
from tests.inference.zoo.bounded import DualMoon
from tests.inference.zoo.shapes import TWIST, TWISTED_SD
from tests.inference.zoo.zoo import BY_NAME, POSTERIORS
from tests.marks import few

PRIOR_DRAWS, MIN_ESS, EXACT_DRAWS = 400_000, 300, 100_000
# Largest difference of means in sds, of log sds, and from the identities.
MAX_DIFFERENCE = 0.1
CHEAP = ("funnel with data", "uniform observations")
NORMAL = (
    "linear regression, 20 d",
    "ridge",
    "rotated normal, 50 d",
    "rotated normal, 200 d",
    "axis-aligned normal, 50 d",
    "collinear regression",
)


def assert_same_moments(truth, draws, weights):
    """draws: by site, (n, ...). weights: (n,), of sum 1."""
    for name, moments in truth.items():
        x = np.asarray(draws[name]).reshape(len(weights), -1)
        mean = weights @ x
        sd = np.sqrt(weights @ np.square(x - mean))
        mean_true, sd_true = np.ravel(moments.mean), np.ravel(moments.sd)
        assert np.max(np.abs(mean - mean_true) / sd_true) < MAX_DIFFERENCE, name
        assert np.max(np.abs(np.log(sd / sd_true))) < MAX_DIFFERENCE, name


def softmax(log_weights):
    log_weights = np.nan_to_num(np.asarray(log_weights), nan=-np.inf)
    weights = np.exp(log_weights - log_weights.max())
    return weights / weights.sum()


def prior_draws(posterior, sites):
    """Draws from the prior by site, and their weights: the densities of the data."""
    args = jax.tree.map(jnp.asarray, posterior.args)

    def draw(key):
        trace = handlers.trace(handlers.seed(posterior.model, key)).get_trace(*args)
        observed = [s for s in trace.values() if s["type"] == "sample" and s["is_observed"]]
        log_weight = sum(jnp.sum(s["fn"].log_prob(s["value"])) for s in observed)
        return {name: trace[name]["value"] for name in sites}, log_weight

    keys = jax.random.split(jax.random.key(1), PRIOR_DRAWS)
    draws, log_weights = jax.jit(lambda k: jax.lax.map(draw, k, batch_size=4_000))(keys)
    return draws, softmax(log_weights)


def names(condition):
    return [
        pytest.param(p.name, marks=() if p.name in CHEAP else pytest.mark.slow)
        for p in POSTERIORS
        if p.truth is not None and condition(p)
    ]


@pytest.mark.slow
@pytest.mark.parametrize("name", names(lambda p: p.has_prior_draws))
def test_moments_equal_those_of_weighted_prior_draws(name):
    posterior = BY_NAME[name]
    truth = posterior.truth()
    draws, weights = prior_draws(posterior, truth)
    assert 1.0 / np.sum(weights**2) > MIN_ESS
    assert_same_moments(truth, draws, weights)


def model_density(posterior):
    """Log density of a model, all of whose sites are real, as a function of its sites."""
    args = jax.tree.map(jnp.asarray, posterior.args)
    return lambda values: log_density(posterior.model, args, {}, values)[0]


@pytest.mark.slow
@pytest.mark.parametrize("name", few(NORMAL, "rotated normal, 50 d"))
def test_moments_of_normals_equal_their_quadratic_form(name):
    posterior = BY_NAME[name]
    ((site, moments),) = posterior.truth().items()
    density = model_density(posterior)
    zero = jnp.zeros_like(moments.mean)
    gradient, hessian = (f(lambda x: density({site: x}))(zero) for f in (jax.grad, jax.hessian))
    covariance = np.linalg.inv(-np.asarray(hessian))
    np.testing.assert_allclose(np.sqrt(np.diag(covariance)), moments.sd, rtol=1e-4)
    assert np.max(np.abs(covariance @ gradient - moments.mean) / moments.sd) < 1e-4


def rosenbrock(rng, n):
    x = rng.normal(1.0, np.sqrt(10.0), n)
    return {"x": np.column_stack([x, rng.normal(x**2, np.sqrt(0.1))])}


def twisted(rng, n):
    x = rng.normal(size=(n, 5)) * [TWISTED_SD, 1.0, 1.0, 1.0, 1.0]
    x[:, 1] -= TWIST * (x[:, 0] ** 2 - TWISTED_SD**2)
    return {"x": x}


def funnel(size, sd):
    def draw(rng, n):
        v = rng.normal(0.0, sd, n)
        return {"v": v, "x": rng.normal(size=(n, size)) * np.exp(0.5 * v)[:, None]}

    return draw


def concentric(rng, n):
    sds = rng.choice([1.0, 0.01], n)
    return {"x": rng.normal(size=(n, 10)) * sds[:, None]}


def student(rng, n):
    return {"x": rng.standard_t(3.0, (n, 4))}


def mixture(mixture):
    def draw(rng, n):
        part = rng.choice(2, n, p=mixture.weights)
        noise = rng.normal(size=(n, mixture.size))
        return {"x": mixture.means[part] + mixture.sds[part][:, None] * noise}

    return draw


EXACT = {
    "Rosenbrock": rosenbrock,
    "twisted normal, 5 d": twisted,
    "funnel, sd 1, 6 d": funnel(5, 1.0),
    "funnel, sd 3, 10 d": funnel(9, 3.0),
    "concentric normals, 10 d": concentric,
    "StudentT(3) density, 4 d": student,
    "mixture, 8 d, sds 0.5 and 2.0": mixture(mixtures.diagonal_mixture(*mixtures.HARD[2])),
    mixtures.RANDOM_POSTERIORS[0].name: mixture(mixtures.random_mixture(mixtures.SEARCHABLE[0])),
}


@pytest.mark.parametrize(
    "name", few(EXACT, "Rosenbrock", "funnel, sd 3, 10 d", "concentric normals, 10 d")
)
def test_exact_draws_satisfy_stein_identities(name):
    """E[d log p / dx] = 0 and E[x d log p / dx] = -1, integrating by parts.

    The first is compared with the root mean square of the derivative.
    """
    posterior = BY_NAME[name]
    draws = EXACT[name](np.random.default_rng(0), EXACT_DRAWS)
    gradients = jax.jit(jax.vmap(jax.grad(model_density(posterior))))(draws)
    for site, g in gradients.items():
        g = np.asarray(g)
        assert np.all(np.abs(g.mean(axis=0)) < MAX_DIFFERENCE * g.std(axis=0)), site
        assert np.all(np.abs(np.mean(draws[site] * g, axis=0) + 1.0) < MAX_DIFFERENCE), site
    # The fourth moments of the widest funnel and of Student's t are infinite or nearly so.
    if name not in ("funnel, sd 3, 10 d", "StudentT(3) density, 4 d"):
        weights = np.full(EXACT_DRAWS, 1.0 / EXACT_DRAWS)
        assert_same_moments(posterior.truth(), draws, weights)


@pytest.mark.slow
def test_moments_of_the_dual_moon_equal_weighted_uniform_draws():
    x = np.random.default_rng(0).uniform(-5.0, 5.0, (EXACT_DRAWS, 2))
    weights = softmax(DualMoon().log_prob(jnp.asarray(x)))
    assert_same_moments(BY_NAME["dual moon"].truth(), {"x": x}, weights)


@pytest.mark.slow
def test_searchable_seeds_have_no_needles():
    for seed in mixtures.SEEDS:
        assert mixtures.random_mixture(seed).is_needle == (seed not in mixtures.SEARCHABLE)
    assert not any(mixtures.diagonal_mixture(*hard).is_needle for hard in mixtures.HARD)


def test_names_are_unique():
    assert len(BY_NAME) == len(POSTERIORS)
