"""Pathfinder against closed forms."""

import numpy as np
import pytest

import bayeskern as bk
from bayeskern.inference import Pathfinder
from models import bimodal
from tests.inference.closed_forms import Regression, regression
from tests.marks import slow

CASE = Regression()


def fit(model, *args, seed=0, **options):
    return bk.infer(model, *args, method=Pathfinder(**options), seed=seed, progress=False)


@pytest.mark.parametrize("seed", [0, slow(1), slow(2)])
def test_gaussian_posterior(seed):
    posterior = fit(regression, *CASE.data, seed=seed)
    assert posterior.trust.verdict == "good", posterior.trust
    draws, log_weights = posterior.weighted
    error = (np.exp(log_weights) @ draws["w"] - CASE.mean) / CASE.sd
    ess = posterior.trust.evidence["ess_of_weights"]
    np.testing.assert_array_less(np.abs(error), 4.5 / np.sqrt(ess))
    np.testing.assert_allclose(posterior.draws["w"][0].std(axis=0) / CASE.sd, 1.0, atol=0.12)
    value, error = posterior.log_evidence
    assert abs(value - CASE.log_evidence) < 4 * error


@pytest.mark.slow
def test_two_modes_have_their_shares():
    posterior = fit(bimodal.model, *bimodal.data())
    x = posterior.draws["x"][0]
    assert 0.4 < np.mean(x > 0) < 0.6
    grid = np.linspace(-80, 80, 400_001)
    density = np.exp(-0.5 * grid**2 / 100 - 0.5 * (3 - np.abs(grid)) ** 2) / (20 * np.pi)
    expected = np.log(np.trapezoid(density, grid))
    assert abs(posterior.log_evidence.value - expected) < 4 * posterior.log_evidence.error


@pytest.mark.slow
def test_draws_without_replacement_are_distinct():
    posterior = fit(regression, *CASE.data, replace=False, draws=2000)
    w = posterior.draws["w"][0]
    assert w.shape == (500, 3)
    assert len(np.unique(w[:, 0])) == 500
    assert posterior.trust.evidence["distinct_draws"] == 500
