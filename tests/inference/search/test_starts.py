"""Fits of posteriors at whose usual starts the density or its gradient is not finite."""

from itertools import product

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from numpyro import sample

import bayeskern as bk
from bayeskern.inference import Target
from bayeskern.inference.search.lbfgs import evaluate
from bayeskern.inference.search.objective import NegativeLogDensity
from bayeskern.inference.search.search import find_optimum
from bayeskern.inference.search.starts import finite_positions
from tests.inference.methods.cases import CASES
from tests.inference.zoo.bounded import uniform, uniform_truth
from tests.inference.zoo.posterior import ZooPosterior
from tests.inference.zoo.zoo import BY_NAME
from tests.marks import slow

METHODS = [name for name in CASES if name not in ("exact", "mle")]
# Most draws of the prior are below the largest of these, where the density is zero.
Y = np.random.default_rng(0).uniform(0.0, 30.0, 40)
UNIFORM = ZooPosterior("uniform", "bounded", uniform, (Y,), lambda: uniform_truth(Y))
MOON, BOXES = BY_NAME["dual moon"], BY_NAME["two boxes"]
POSTERIORS = {posterior.name: posterior for posterior in (MOON, UNIFORM, BOXES)}
FAST = {("dual moon", "importance")}


@pytest.mark.parametrize(
    ("name", "method"),
    [pair if pair in FAST else slow(*pair) for pair in product(POSTERIORS, METHODS)],
)
def test_fits_start_where_the_density_is_finite(name, method):
    posterior = POSTERIORS[name]
    fit = bk.infer(posterior.model, *posterior.args, method=CASES[method], seed=0, progress=False)
    assert all(np.all(np.isfinite(draws)) for draws in fit.draws.values())
    # Chains may weigh two places wrongly, which their verdict says.
    assert fit.trust.verdict != "good" or posterior.is_right(fit.draws)
    assert fit.trust.verdict == "good" or method not in ("auto", "importance")


def test_modes_of_two_moons():
    """Both factors of the density have their tops at (2, 0) and (-2, 0)."""
    optimum = find_optimum(Target.from_model(MOON.model, (), {}), 4, 0, 1000, False)
    np.testing.assert_allclose(np.abs(optimum.z), [2.0, 0.0], atol=1e-2)


@pytest.mark.slow
def test_finite_positions_are_draws_from_the_prior():
    target = Target.from_model(uniform, (Y,), {})
    objective = NegativeLogDensity(target, True)

    def positions(seed, count=4):
        return finite_positions(target, lambda z: evaluate(objective, z), count, seed, 8)

    z = positions(0)
    assert z.shape == (4, 1) and np.all(np.exp(z) > Y.max())
    np.testing.assert_array_equal(z, positions(0))
    assert np.all(z != positions(1))
    # A share of 2 P(N(0, 20^2) > max) of 512 draws: no count above that can be had.
    assert 30 < len(positions(0, 512)) < 110


def test_finite_positions_of_a_prior_with_a_dummy_sample():
    target = Target.from_model(MOON.model, (), {})
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


def test_dummy_prior_draws_do_not_lower_a_verdict():
    def model():
        sample("x", DummyNormal())

    assert bk.infer(model, method="laplace", progress=False).trust.verdict == "good"
