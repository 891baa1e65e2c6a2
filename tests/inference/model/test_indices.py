"""Indices of groups that do not fit their plate."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro.contrib.control_flow import scan

import bayeskern as bk
from bayeskern.inference.model.checks.indices import require_indices_in_range
from bayeskern.inference.model.target import Target

Y = np.random.default_rng(0).normal(size=8)
GROUPS, KEY = np.repeat(np.arange(4), 2), jax.random.key(0)


def model(group, y=None):
    with numpyro.plate("group", 4):
        a = numpyro.sample("a", dist.Normal(0.0, 10.0))
    numpyro.sample("y", dist.Normal(a[group], 1.0), obs=y)


def closed_over(group):
    return lambda: model(group, Y)


def in_columns(group):
    def columns():
        b = numpyro.sample("b", dist.Normal(0.0, 1.0).expand([4, 2]).to_event(2))
        numpyro.sample("y", dist.Normal(b[jnp.asarray(group), 1], 1.0), obs=Y)

    return columns


def in_a_scan(group):
    def scanned():
        a = numpyro.sample("a", dist.Normal(0.0, 10.0).expand([4]).to_event(1))

        def step(total, y):
            return total, numpyro.sample("y", dist.Normal(a[group].sum() + total, 1.0), obs=y)

        scan(step, 0.0, jnp.asarray(Y))

    return scanned


MODELS = [closed_over, in_columns, in_a_scan]


def check(model, *args):
    require_indices_in_range(Target.from_model(model, args, {}))


@pytest.mark.parametrize("group", [GROUPS, GROUPS.astype(np.int8)])
@pytest.mark.parametrize("make", MODELS)
def test_indices_in_range_pass(make, group):
    check(make(group))


@pytest.mark.parametrize("make", MODELS)
def test_groups_numbered_from_one(make):
    with pytest.raises(ValueError, match=r"site 'y' .*run from 1 to 4, .*4 entries, 0 to 3"):
        check(make(GROUPS + 1))


@pytest.mark.parametrize("make", MODELS)
def test_codes_of_missing_categories(make):
    with pytest.raises(ValueError, match="A code of -1, as pandas gives missing categories"):
        check(make(GROUPS - 1))


def test_arguments_are_checked_by_infer_and_predict():
    with pytest.raises(ValueError, match="run from 1 to 4"):
        bk.infer(model, GROUPS + 1, Y, method="laplace", progress=False)
    posterior = bk.infer(model, GROUPS, Y, method="laplace", progress=False)
    with pytest.raises(ValueError, match="run from 0 to 4"):
        posterior.predict(jnp.array([0, 4]))
    mean = posterior.predict(jnp.array([0, 3])).mean
    # Normal prior of variance 100, two values of variance 1.
    expected = np.array([Y[:2].sum(), Y[6:].sum()]) / 2.01
    np.testing.assert_allclose(mean, expected, atol=0.1)


@pytest.mark.parametrize(
    "take",
    [
        # The neighbour before, around a circle.
        lambda a: a[jnp.arange(4) - 1],
        lambda a: a[-1],
        lambda a: jnp.take(a, GROUPS + 1, mode="clip"),
        lambda a: a.at[GROUPS + 1].get(mode="fill", fill_value=0.0),
        # A random key of the model is not an index.
        lambda a: a + jax.random.normal(KEY, (4,)),
        # An index that depends on a latent.
        lambda a: a[jnp.argmax(a) + jnp.zeros(2, int)],
    ],
)
def test_deliberate_indices_pass(take):
    def circle():
        a = numpyro.sample("a", dist.Normal(0.0, 1.0).expand([4]).to_event(1))
        numpyro.factor("f", -jnp.sum(jnp.square(take(a))))

    check(circle)
