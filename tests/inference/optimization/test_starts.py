"""Fits of posteriors at whose usual starts the density or its gradient is not finite."""

from itertools import product

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from jax.scipy.special import logsumexp

import bayeskern as bk
from bayeskern.inference import Target
from bayeskern.inference.optimization.lbfgs import evaluate
from bayeskern.inference.optimization.objective import NegativeLogDensity
from bayeskern.inference.optimization.search import find_optimum
from bayeskern.inference.optimization.starts import finite_positions
from tests.marks import slow

CHAINS = bk.NUTS(chains=2, warmup=200, draws=300)
METHODS = ("auto", "map", "laplace", "importance", "pathfinder", "svi", CHAINS)
FAST = {("dual_moon", "importance"), ("top", CHAINS)}
# What is left of NUTS, or of importance sampling, is Monte Carlo error, in posterior sds.
MAX_ERROR = 0.3


class DualMoon(dist.Distribution):
    """As in NumPyro's example of neural transport: `sample` is a dummy, and the norm has no
    gradient at 0."""

    support = dist.constraints.real_vector

    def __init__(self):
        super().__init__(event_shape=(2,))

    def sample(self, key, sample_shape=()):
        return jnp.zeros(sample_shape + self.event_shape)

    def log_prob(self, x):
        radial = 0.5 * ((jnp.linalg.norm(x, axis=-1) - 2) / 0.4) ** 2
        lateral = 0.5 * ((x[..., :1] + jnp.array([-2.0, 2.0])) / 0.6) ** 2
        return logsumexp(-lateral, axis=-1) - radial


def dual_moon():
    numpyro.sample("x", DualMoon())


def top(y):
    t = numpyro.sample("t", dist.HalfNormal(20.0))
    with numpyro.plate("rows", len(y)):
        numpyro.sample("y", dist.Uniform(0.0, t), obs=y)


def boxes():
    x = numpyro.sample("x", dist.Normal(0.0, 3.0).expand([2]).to_event(1))
    inside = jnp.all((x > -3) & (x < -1)) | jnp.all((x > 2) & (x < 3))
    numpyro.factor("boxes", jnp.where(inside, 0.0, -jnp.inf))


Y = np.random.default_rng(0).uniform(0.0, 30.0, 40)


def moments(density, *axes):
    """Mean and sd of the first coordinate of a density on a grid."""
    grid = np.meshgrid(*axes, indexing="ij")
    weights = density(*grid)
    mean = np.average(grid[0], weights=weights)
    return mean, np.sqrt(np.average((grid[0] - mean) ** 2, weights=weights))


def moon_density(x, y):
    lateral = np.exp(-0.5 * ((x - 2) / 0.6) ** 2) + np.exp(-0.5 * ((x + 2) / 0.6) ** 2)
    return lateral * np.exp(-0.5 * ((np.hypot(x, y) - 2) / 0.4) ** 2)


def top_density(t):
    return np.exp(-0.5 * (t / 20.0) ** 2 - len(Y) * np.log(t / Y.max()))


def box_density(x, y):
    inside = ((x > -3) & (x < -1) & (y > -3) & (y < -1)) | ((x > 2) & (x < 3) & (y > 2) & (y < 3))
    return inside * np.exp(-0.5 * (x**2 + y**2) / 9.0)


GRID = np.linspace(-6.0, 6.0, 1201)
CASES = {
    "dual_moon": (dual_moon, (), moments(moon_density, GRID, GRID)),
    "top": (top, (Y,), moments(top_density, np.linspace(Y.max(), Y.max() + 30.0, 20_001))),
    "boxes": (boxes, (), moments(box_density, GRID, GRID)),
}


@pytest.mark.parametrize(
    ("case", "method"),
    [pair if pair in FAST else slow(*pair) for pair in product(CASES, METHODS)],
    ids=lambda x: getattr(x, "name", x),
)
def test_a_fit_starts_where_the_density_is_finite(case, method):
    model, args, (mean, sd) = CASES[case]
    posterior = bk.infer(model, *args, method=method, seed=0, progress=False)
    site = "t" if case == "top" else "x"
    draws = posterior.flat[site].reshape(len(posterior.flat[site]), -1)[:, 0]
    assert np.all(np.isfinite(draws))
    # Chains may weigh two places wrongly, which their verdict says.
    if posterior.trust.verdict == "good":
        assert abs(draws.mean() - mean) < MAX_ERROR * sd
        assert abs(np.log(draws.std() / sd)) < MAX_ERROR
    assert posterior.trust.verdict == "good" or method not in ("auto", "importance")


def test_the_mode_of_two_moons():
    """Both factors of the density have their tops at (2, 0) and (-2, 0)."""
    optimum = find_optimum(Target.of(dual_moon, (), {}), 4, 0, 1000, False)
    np.testing.assert_allclose(np.abs(optimum.z), [2.0, 0.0], atol=1e-2)


def test_positions_are_the_finite_prior_draws_of_the_seed():
    target = Target.of(top, (Y,), {})
    objective = NegativeLogDensity(target, True)

    def positions(seed, count=4):
        return finite_positions(target, lambda z: evaluate(objective, z), count, seed, 8)

    z = positions(0)
    assert z.shape == (4, 1) and np.all(np.exp(z) > Y.max())
    np.testing.assert_array_equal(z, positions(0))
    assert np.all(z != positions(1))
    # A share of 2 P(N(0, 20^2) > max) of 512 draws: no count above that can be had.
    assert 30 < len(positions(0, 512)) < 110


def test_a_dummy_sample_leaves_the_uniform_draws():
    target = Target.of(dual_moon, (), {})
    objective = NegativeLogDensity(target, True)
    z = finite_positions(target, lambda z: evaluate(objective, z), 5, 0, 4)
    assert z.shape == (5, 2) and np.all(np.abs(z) < 2.0) and len(np.unique(z)) == 10


class DummyNormal(dist.Distribution):
    """A standard normal density whose `sample` gives its mode again and again."""

    support = dist.constraints.real

    def sample(self, key, sample_shape=()):
        return jnp.zeros(sample_shape)

    def log_prob(self, x):
        return dist.Normal().log_prob(x)


def test_dummy_draws_are_no_evidence_against_a_fit():
    def model():
        numpyro.sample("x", DummyNormal())

    assert bk.infer(model, method="laplace", progress=False).trust.verdict == "good"
