"""Models whose density changes each time they run, and models that only seem to do so."""

import random

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest

import bayeskern as bk
from bayeskern.inference import Target
from bayeskern.inference.model.checks import reproducible
from bayeskern.inference.model.checks.reproducible import require_reproducible

Y = np.array([0.3, -1.2, 2.0, 0.7])


def normal(y, shift=0.0, sd=1.0):
    mu = numpyro.sample("mu", dist.Normal())
    numpyro.sample("y", dist.Normal(mu + shift, sd), obs=y)


def with_numpy(y):
    normal(y, shift=np.random.normal())  # noqa: NPY002


def in_a_factor(y):
    normal(y)
    numpyro.factor("offset", jnp.asarray(np.random.normal()))  # noqa: NPY002


def outside_the_support(y):
    """Random where half of the points have density zero."""
    mu = numpyro.sample("mu", dist.Normal())
    numpyro.factor("half", jnp.where(mu > 0.0, random.random(), -jnp.inf))


@pytest.mark.parametrize("model", [with_numpy, in_a_factor, outside_the_support])
def test_random_numbers_of_python_and_numpy_are_refused(model):
    target = Target.from_model(model, (Y,), {})
    with pytest.raises(ValueError, match="differs between two evaluations"):
        require_reproducible(target)


def test_infer_refuses_random_densities():
    with pytest.raises(ValueError, match="differs between two evaluations"):
        bk.infer(with_numpy, Y, method="map", progress=False)


# -- the same density each time ------------------------------------------------------------------


def with_a_fixed_seed(y):
    normal(y + np.random.default_rng(3).normal(size=len(y)))


def with_a_key(y):
    key = numpyro.prng_key()
    shift = dist.Normal().sample(key, (len(y),)) if key is not None else 0.0
    normal(y, shift=shift)


def subsampled(y):
    mu = numpyro.sample("mu", dist.Normal())
    with numpyro.plate("rows", len(y), subsample_size=2):
        numpyro.sample("y", dist.Normal(mu, 1.0), obs=numpyro.subsample(y, event_dim=0))


def with_new_objects(y):
    """Sets, functions and arrays that are other objects each time."""
    for name in {"a", "b", "c"}:
        numpyro.sample(name, dist.Normal())
    normal(y, shift=(lambda x: jnp.tanh(x))(np.arange(4.0)))


def with_a_mixture(y):
    k = numpyro.sample("k", dist.Categorical(jnp.array([0.4, 0.6])))
    mu = numpyro.sample("mu", dist.Normal().expand([2]).to_event(1))
    with numpyro.plate("rows", len(y)):
        numpyro.sample("y", dist.Normal(mu[k], 1.0), obs=y)


@pytest.mark.parametrize(
    "model", [with_a_fixed_seed, with_a_key, subsampled, with_new_objects, with_a_mixture]
)
def test_equal_programs_are_not_evaluated(model, monkeypatch):
    monkeypatch.setattr(reproducible, "_values", None)
    require_reproducible(Target.from_model(model, (Y,), {}))


def test_models_are_traced_twice_in_the_first_call_only(monkeypatch):
    def model(y):
        normal(y)

    require_reproducible(Target.from_model(model, (Y,), {}))
    monkeypatch.setattr(reproducible, "_trace_again", None)
    require_reproducible(Target.from_model(model, (Y + 1.0,), {}))
    # Arguments of another shape are another program.
    with pytest.raises(TypeError):
        require_reproducible(Target.from_model(model, (Y[1:],), {}))


def test_nan_is_equal_to_itself(monkeypatch):
    monkeypatch.setattr(reproducible, "_values", None)
    require_reproducible(Target.from_model(normal, (Y, float("nan") * np.ones(4)), {}))


class Remembering:
    """A model that computes a mean at its first runs, and looks it up later."""

    def __init__(self):
        self.runs = 0

    def __call__(self, y):
        self.runs += 1
        mean = jnp.sum(y) / 4.0 if self.runs < 3 else float(np.mean(Y))
        normal(y, shift=mean)


def test_other_operations_with_equal_values_are_accepted(monkeypatch):
    compared = []
    values = reproducible._values
    monkeypatch.setattr(reproducible, "_values", lambda *args: compared.append(1) or values(*args))
    require_reproducible(Target.from_model(Remembering(), (Y,), {}))
    assert len(compared) == 2
