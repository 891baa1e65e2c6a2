"""Simulated data in the place of the data: sites, plates, scans, masks, arguments."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro.contrib.control_flow import scan

import bayeskern as bk
from bayeskern import priors
from bayeskern.diagnostics.calibration.refit import ConditionedModel, refit
from bayeskern.diagnostics.calibration.simulation_based import calibrate
from bayeskern.inference.model.bound import BoundModel
from bayeskern.inference.model.target import Target
from bayeskern.inference.prior_predictive import simulate
from tests.diagnostics.calibration.known_posteriors import FromPrior, Known, Y


def at_sites(model, *args):
    target = Target.from_model(model, args, {})
    data = {k: v[0] for k, v in simulate(target, 1, 7)[1].items()}
    return Target.from_model(ConditionedModel(target), (data,), {}), data


def test_sites_take_simulated_data():
    def lagged(y):
        slope = numpyro.sample("slope", dist.Normal(0.0, np.std(Y) + len(y)))
        numpyro.sample("next", dist.Normal(slope * y[:-1], 1.0), obs=y[1:])

    y = np.array([1.0, -2.0, 0.5])
    target, data = at_sites(lagged, y)
    expected = dist.Normal(0.0, 3.0).log_prob(0.4)
    expected += dist.Normal(0.4 * y[:-1], 1.0).log_prob(data["next"]).sum()
    assert float(target.log_density(jnp.array([0.4]))) == pytest.approx(float(expected), rel=1e-12)
    assert not np.any(np.isclose(data["next"], y[1:]))


@pytest.mark.slow
def test_subsampled_plates_take_rows_of_simulated_data():
    def model(y):
        mu = numpyro.sample("mu", dist.Normal(0.0, 1.0))
        with numpyro.plate("rows", len(y), subsample_size=2) as rows:
            numpyro.sample("y", dist.Normal(mu, 1.0), obs=y[rows])

    target, data = at_sites(model, np.zeros(5))
    assert data["y"].shape == (5,) and target.subsampled
    whole = target.log_density(jnp.zeros(1)) - dist.Normal().log_prob(0.0)
    assert float(whole) == pytest.approx(float(dist.Normal().log_prob(data["y"]).sum()), rel=1e-12)
    # Two of the five rows, each weighted by 5/2.
    each = np.asarray(dist.Normal().log_prob(data["y"]))
    pairs = [2.5 * (each[i] + each[j]) for i in range(5) for j in range(i)]
    part = target.noisy_log_density(jnp.zeros(1), jax.random.key(3)) - dist.Normal().log_prob(0.0)
    assert np.min(np.abs(np.array(pairs) - float(part))) < 1e-9


def test_sites_in_a_scan_take_simulated_data():
    def steps(y):
        sd = numpyro.sample("sd", dist.HalfNormal())

        def step(before, y):
            x = numpyro.sample("x", dist.Normal(before, sd))
            numpyro.sample("y", dist.Normal(x, 0.1), obs=y)
            return x, None

        scan(step, 0.0, y)

    target, data = at_sites(steps, np.array([1.0, 2.0, 4.0]))
    x, z = jnp.array([0.5, -0.5, 1.0]), jnp.log(0.3)
    expected = dist.HalfNormal().log_prob(0.3) + dist.Normal(x, 0.1).log_prob(data["y"]).sum()
    expected += dist.Normal(jnp.array([0.0, 0.5, -0.5]), 0.3).log_prob(x).sum()
    found = target.log_density(target.ravel({"sd": z, "x": x}), jacobian=False)
    assert float(found) == pytest.approx(float(expected), rel=1e-12)


def test_steps_of_a_scan_depend_on_simulated_data():
    def lagged(y):
        a = numpyro.sample("a", dist.Normal(0.0, 1.0))

        def step(before, y):
            return numpyro.sample("y", dist.Normal(a * before, 1.0), obs=y), None

        scan(step, 0.0, y)

    target, data = at_sites(lagged, np.array([1.0, 2.0, 4.0]))
    past = np.r_[0.0, data["y"][:-1]]
    expected = dist.Normal(0.7 * past, 1.0).log_prob(data["y"]).sum() + dist.Normal().log_prob(0.7)
    found = float(target.log_density(jnp.array([0.7])))
    assert found == pytest.approx(float(expected), rel=1e-12)


@pytest.mark.slow
def test_hidden_states_of_a_scan_get_simulated_data():
    pytest.importorskip("funsor")

    def states(y):
        p = numpyro.sample("p", dist.Uniform(0.0, 1.0))

        def step(before, y):
            x = numpyro.sample("x", dist.Bernoulli(jnp.where(before == 0, p, 1.0 - p)))
            numpyro.sample("y", dist.Normal(x, 1.0), obs=y)
            return x, None

        scan(step, 0, y)

    target, new = Target.from_model(states, (np.zeros(4),), {}), np.array([0.3, -1.0, 2.0, 0.0])
    conditioned = Target.from_model(ConditionedModel(target), ({"y": jnp.asarray(new)},), {})
    z = jnp.array([0.4])
    p = float(target.constrain(z)["p"])
    # The forward algorithm.
    forward = np.array([1.0, 0.0])
    for value in new:
        likelihood = np.exp(np.asarray(dist.Normal(jnp.arange(2), 1.0).log_prob(value)))
        forward = forward @ np.array([[1.0 - p, p], [p, 1.0 - p]]) * likelihood
    found = float(conditioned.log_density(z, prior=False))
    assert found == pytest.approx(np.log(forward.sum()), rel=1e-10)


def test_masked_values_stay_masked():
    def model(y):
        mu = numpyro.sample("mu", dist.Normal(0.0, 1.0))
        known = ~jnp.isnan(y)
        numpyro.sample("y", dist.Normal(mu, 1.0).mask(known), obs=jnp.where(known, y, 0.0))

    target, data = at_sites(model, np.array([1.0, np.nan, 2.0]))
    expected = dist.Normal().log_prob(data["y"][[0, 2]]).sum() + dist.Normal().log_prob(0.0)
    assert float(target.log_density(jnp.zeros(1))) == pytest.approx(float(expected), rel=1e-12)


def test_simulated_classes_have_the_labels_of_the_data():
    X, y = np.array([[-1.0], [0.0], [1.0]]), ["no", "yes", "yes"]
    model = bk.BayesianGLM(bk.likelihoods.Bernoulli(), prior=priors.Gaussian(1.0))
    bound = BoundModel.from_model(model, (X, y), {})
    target = bound.target()
    data = np.array([[0, 1, 0], [1, 1, 1]])
    for codes, fit in zip(
        data, refit(bound, target, {"y": data}, FromPrior(), [0, 0]), strict=True
    ):
        posterior = fit()
        np.testing.assert_array_equal(posterior.target.args[1], codes)
        assert posterior.target.model.classes == ("no", "yes")


@pytest.mark.slow
def test_argument_with_the_data_among_equal_arguments():
    class Throws(Known):
        def __call__(self, throws, heads):
            p = numpyro.sample("p", dist.Beta(2.0, 2.0))
            numpyro.sample("heads", dist.Binomial(throws, p), obs=heads)

    bound = BoundModel.from_model(Throws(), (5, 5), {})
    _, second = refit(bound, bound.target(), {"heads": np.array([2, 3])}, FromPrior(), [0, 0])
    assert [int(x) for x in second().target.args] == [5, 3]


@pytest.mark.slow
def test_data_that_no_argument_holds_are_refused():
    class Halved(Known):
        def __call__(self, y):
            mu = numpyro.sample("mu", dist.Normal(0.0, 1.0))
            numpyro.sample("half", dist.Normal(mu, 1.0).expand([len(y)]), obs=y / 2.0)

    with pytest.raises(ValueError, match=r"no argument of the model holds .* 'half'"):
        calibrate(Halved(), np.ones(4), method="exact")
