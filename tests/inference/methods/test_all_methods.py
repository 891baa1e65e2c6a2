"""Properties that all methods share: seeds, compilation, and models that are refused."""

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest

import bayeskern as bk
from tests.compilations import compilations
from tests.inference.closed_forms import Regression, regression
from tests.inference.methods.cases import CASES, FITTING
from tests.marks import few, slow

CASE, OTHER_CASE = Regression(0), Regression(1)
METHODS = {name: CASES[name] for name in FITTING}
METHODS |= {"svi by the score": bk.SVI(gradient="score"), "flow": bk.SVI(guide="flow")}
QUICK = ("laplace", "importance")


def fit(name, model, *args, seed=0):
    return bk.infer(model, *args, method=METHODS[name], seed=seed, progress=False)


@pytest.mark.parametrize("name", few(METHODS, *QUICK))
def test_seed_and_data_determine_the_draws_without_recompiling(name):
    first = fit(name, regression, *CASE.data)
    before = len(compilations)
    again = fit(name, regression, *CASE.data)
    other_data = fit(name, regression, *OTHER_CASE.data)
    assert len(compilations) == before
    other_seed = fit(name, regression, *CASE.data, seed=1)
    np.testing.assert_array_equal(first.z, again.z)
    assert first.log_evidence == again.log_evidence or np.isnan(first.log_evidence.error)
    for other in (other_seed, other_data):
        assert METHODS[name].is_point or np.any(first.z != other.z)


@pytest.mark.parametrize("name", [n for n in METHODS if not METHODS[n].is_point])
def test_param_without_a_prior_is_refused(name):
    def model(y):
        mu = numpyro.param("mu", 0.0)
        numpyro.sample("y", dist.Normal(mu, numpyro.sample("s", dist.HalfNormal(1.0))), obs=y)

    with pytest.raises(ValueError, match="'mu' has no prior.* needs one"):
        fit(name, model, np.arange(3.0))


@pytest.mark.parametrize("name", ["laplace", slow("pathfinder"), slow("smc"), slow("nuts")])
def test_density_without_finite_values_names_the_site(name):
    def model():
        mu = numpyro.sample("mu", dist.Normal(0.0, 1.0))
        numpyro.factor("wall", jnp.where(jnp.abs(mu) < 1e9, -jnp.inf, 0.0))

    with pytest.raises(ValueError, match="'wall'"):
        fit(name, model)
