"""Fits that run in one batch are those that each would have been by itself."""

import jax
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest

import bayeskern as bk
from bayeskern.diagnostics.calibration import calibrate
from bayeskern.diagnostics.simulated import LANES, refit
from bayeskern.inference import SVI
from bayeskern.inference.prior import Given

ROWS, COUNT = 5, LANES + 3
DATA = {"y": np.random.default_rng(0).normal(1.0, 2.0, (COUNT, ROWS))}
SEEDS = list(range(COUNT))

compilations = []
jax.monitoring.register_event_duration_secs_listener(
    lambda event, seconds, **_: compilations.append(event) if "backend_compile" in event else None
)


def two_levels(y):
    """The posterior is Gaussian: precision [[ROWS + 1, ROWS], [ROWS, ROWS + 1]]."""
    a = numpyro.sample("a", dist.Normal(0.0, 1.0))
    b = numpyro.sample("b", dist.Normal(0.0, 1.0))
    numpyro.sample("y", dist.Normal(a + b, 1.0).expand([len(y)]), obs=y)


def heavy(y):
    """No Gaussian is its posterior, so that each fit has another way to go."""
    mu = numpyro.sample("mu", dist.Normal(0.0, 2.0))
    sd = numpyro.sample("sd", dist.HalfNormal(2.0))
    numpyro.sample("y", dist.StudentT(3.0, mu, sd).expand([len(y)]), obs=y)


def fits(method, model=two_levels, data=DATA):
    given = Given.of(model, (data["y"][0],), {})
    return refit(given, given.target(), data, method, SEEDS)


class Counted(SVI):
    """Keeps how many fits each batch had, and fails where the data are infinite."""

    def begin(self, target, seed, progress):
        if np.isinf(target.args[0]["y"]).any():
            raise ValueError("there is infinity in the data.")
        return super().begin(target, seed, progress)

    def finish(self, begun, progress):
        batches.append(len(begun))
        return super().finish(begun, progress)


batches = []


def test_the_posteriors_are_those_of_the_closed_form():
    sd = np.sqrt((ROWS + 1) / (2 * ROWS + 1))
    for i, fit in enumerate(fits(SVI())):
        found, mean = fit().approximation, DATA["y"][i].sum() / (2 * ROWS + 1)
        np.testing.assert_allclose(found.means[0], mean, atol=0.05 * sd)
        covariance = found.trils[0] @ found.trils[0].T
        np.testing.assert_allclose(np.sqrt(np.diag(covariance)), sd, rtol=0.05)


@pytest.mark.parametrize(
    "options",
    [
        {"guide": "mean_field"},
        {"guide": "flow"},
        {"gradient": "score"},
        {"objective": "forward_kl"},
        {"steps": 250},
    ],
)
def test_they_are_what_each_is_by_itself(options):
    for i, fit in enumerate(fits(SVI(**options), heavy)):
        if i in (0, LANES - 1, COUNT - 1):
            found = fit()
            one = bk.infer(heavy, DATA["y"][i], method=SVI(**options), seed=i, progress=False)
            np.testing.assert_allclose(found.z, one.z, rtol=1e-6, atol=1e-6)
            assert len(found.trace.get("elbo", ())) == len(one.trace.get("elbo", ()))
            assert found.trust.verdict == one.trust.verdict


def test_they_stop_at_their_own_steps():
    assert len({len(fit().trace["elbo"]) for fit in fits(SVI())}) > 1


def test_they_run_in_batches_of_one_shape():
    batches.clear()
    assert len(list(fits(Counted()))) == COUNT
    assert batches == [LANES, LANES]
    before = len(compilations)
    list(fits(Counted()))
    assert len(compilations) == before


def test_one_that_fails_does_not_cost_the_others_theirs():
    wrong = {"y": DATA["y"].copy()}
    wrong["y"][2] = np.inf
    for i, (fit, sound) in enumerate(zip(fits(Counted(), data=wrong), fits(SVI()), strict=True)):
        if i == 2:
            with pytest.raises(ValueError, match="there is infinity"):
                fit()
        else:
            np.testing.assert_allclose(fit().z, sound().z, rtol=1e-6, atol=1e-6)


def test_many_observations_run_one_by_one():
    # Their covariance matrices would fill the memory.
    many = {"y": np.zeros((COUNT, 1100))}
    batches.clear()
    for fit in fits(Counted(steps=100), data=many):
        fit()
        break
    assert batches == [1]


def test_calibrating_in_batches_passes_what_is_right_and_faults_what_is_not():
    right = calibrate(two_levels, DATA["y"][0], method="svi", simulations=60, progress=False)
    assert not right.faults and right.verdicts == {"good": 60}
    # The best diagonal Gaussian has 1 / 6 of the variance in place of 6 / 11.
    narrow = calibrate(
        two_levels, DATA["y"][0], method=SVI(guide="mean_field"), simulations=60, progress=False
    )
    assert narrow.faults["a"] == narrow.faults["b"] == "posterior too narrow"
