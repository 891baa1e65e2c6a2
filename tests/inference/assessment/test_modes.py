"""Modes that a search found and that draws leave out."""

from types import SimpleNamespace

import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest

from bayeskern.inference.approximation.proposals import Sample
from bayeskern.inference.assessment.smc import missed_modes
from bayeskern.inference.findings import Findings
from bayeskern.inference.model.evaluation import log_densities
from bayeskern.inference.model.target import Target
from bayeskern.inference.search.search import find_optimum
from bayeskern.inference.smc.start import StartDistribution

MEANS = np.array([[-3.0, 0.0], [3.0, 0.0], [0.0, 3.0], [0.0, -3.0]])


def four():
    parts = dist.Normal(MEANS, 0.4).to_event(1)
    x = numpyro.sample("x", dist.Normal(0.0, 5.0).expand([2]).to_event(1))
    mixture = dist.MixtureSameFamily(dist.Categorical(np.full(4, 0.25)), parts)
    numpyro.factor("f", mixture.log_prob(x) - dist.Normal(0.0, 5.0).log_prob(x).sum())


@pytest.fixture(scope="module")
def search():
    target = Target.from_model(four, (), {})
    optimum = find_optimum(target, 32, 0, 1000, False)
    z, log_q = StartDistribution.at_modes(target, optimum, 0).draw(np.random.default_rng(0), 4000)
    return optimum, Sample(z, log_densities(target, z), log_q)


def posterior(optimum, weights):
    """A posterior of 4,000 draws, a share of them at each mode, as an assessment reads it."""
    rng = np.random.default_rng(1)
    part = rng.choice(4, 4000, p=weights)
    z = MEANS[part] + 0.4 * rng.standard_normal((4000, 2))
    target = SimpleNamespace(coordinates=optimum.coordinates)
    findings = Findings((optimum,))
    return SimpleNamespace(z=z[None], optimum=optimum, findings=findings, fitted_target=target)


def test_mode_without_nearby_draws_is_missed(search):
    optimum, first = search
    assert len(optimum.others) == 3
    assert missed_modes(posterior(optimum, [0.25, 0.25, 0.25, 0.25]), first, 0.0) == []
    (missed,) = missed_modes(posterior(optimum, [0.4, 0.3, 0.3, 0.0]), first, 0.0)
    np.testing.assert_allclose(missed.z, MEANS[3], atol=0.01)


def test_mode_without_mass_is_not_missed(search):
    """Weights of next to nothing near a mode say that its curvature does not tell its mass."""
    optimum, first = search
    near = np.linalg.norm(first.z - MEANS[3], axis=1) < 2.0
    light = first._replace(log_p=np.where(near, first.log_p - 10.0, first.log_p))
    assert missed_modes(posterior(optimum, [0.4, 0.3, 0.3, 0.0]), light, 0.0) == []
