"""Runs that go on: further draws, and goals."""

import numpy as np
import pytest

import bayeskern as bk
from bayeskern import NUTS
from bayeskern.inference.methods import nuts
from bayeskern.inference.methods.goal import Goal
from models import eight_schools
from tests.inference.closed_forms import Regression, regression

CASE = Regression()


def fit(model=regression, data=CASE.data, **options):
    method = NUTS(**{"chains": 2, "warmup": 100, "draws": 60, **options})
    return bk.infer(model, *data, method=method, seed=3, progress=False)


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [{}, {"thin": 3}, {"chain_method": "vectorized"}, {"mass_matrix": "diagonal"}],
    ids=str,
)
def test_extended_run_equals_a_long_run(options):
    whole, short = fit(draws=150, **options), fit(**options)
    extended = short.extend(30).extend(60)
    np.testing.assert_array_equal(extended.z, whole.z)
    assert extended.sample_stats.keys() == whole.sample_stats.keys()
    for name, values in whole.sample_stats.items():
        np.testing.assert_array_equal(extended.sample_stats[name], values)
    assert extended.trust == whole.trust
    assert extended.made_by is short.made_by


@pytest.mark.slow
def test_extended_run_draws_divergent_chains_again_like_a_long_run():
    data, options = eight_schools.data(), {"target_accept": 0.7, "chains": 4}
    whole = fit(eight_schools.noncentred, data, draws=600, **options)
    extended = fit(eight_schools.noncentred, data, draws=300, **options).extend(300)
    np.testing.assert_array_equal(extended.z, whole.z)
    assert extended.trust.evidence == whole.trust.evidence


@pytest.mark.slow
def test_run_stops_once_its_goal_is_reached():
    posterior = fit(draws=100, until="ess=900, rhat=1.02")
    goal = Goal(900.0, 1.02)
    assert goal.is_reached(posterior.z)
    count = posterior.z.shape[1]
    assert count > 100 and count % 100 == 0
    assert not goal.is_reached(posterior.z[:, :-100])
    np.testing.assert_array_equal(posterior.z, fit(draws=count).z)


def test_goal_that_is_not_reached_is_in_the_advice(monkeypatch):
    monkeypatch.setattr(nuts, "MAX_BATCHES", 2)
    posterior = fit(draws=20, until="ess=1e6")
    assert posterior.z.shape[1] == 40
    assert "The goal ess=1e6 was not reached with 40 draws of each chain." in posterior.trust.advice


def test_constant_draws_reach_no_goal():
    assert not Goal(1.0).is_reached(np.ones((2, 50, 1)))
    assert not Goal(1.0).is_reached(np.full((2, 50, 1), np.nan))


def test_only_chains_can_be_extended():
    posterior = bk.infer(regression, *CASE.data, method="laplace", seed=0, progress=False)
    with pytest.raises(ValueError, match="laplace has no chains that can go on"):
        posterior.extend(100)
