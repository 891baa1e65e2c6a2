"""Smaller steps remove few divergences; models with many stay bad."""

import numpy as np
import pytest

import bayeskern as bk
from models import eight_schools, funnel

EFFECT, ERROR = eight_schools.data()


def fits(model, data, seeds, **options):
    method = bk.NUTS(**options)
    return [bk.infer(model, *data, method=method, seed=seed, progress=False) for seed in seeds]


def exact_moments_of_mu():
    """With theta integrated out, y ~ N(mu, tau^2 + error^2); over a grid of mu and tau."""
    mu, tau = np.linspace(-25.0, 30.0, 551)[:, None], np.exp(np.linspace(-12.0, 7.0, 2001))
    variance = tau[..., None] ** 2 + ERROR**2
    log = -0.5 * np.sum((EFFECT - mu[..., None]) ** 2 / variance + np.log(variance), axis=-1)
    log += -0.5 * (mu / 5.0) ** 2 - np.log1p((tau / 5.0) ** 2) + np.log(tau)
    p = np.exp(log - log.max())
    p /= p.sum()
    mean = np.sum(p * mu)
    return mean, np.sqrt(np.sum(p * (mu - mean) ** 2))


@pytest.mark.slow
def test_smaller_steps_remove_few_divergences():
    # About one of three of these runs diverges once or twice at 0.8, and more of them at 0.7.
    posteriors = fits(eight_schools.noncentred, eight_schools.data(), range(8), target_accept=0.7)
    evidence = [posterior.trust.evidence for posterior in posteriors]
    again = [e["target_accept"] for e in evidence if "target_accept" in e]
    assert again and min(again) > 0.9
    mean, sd = exact_moments_of_mu()
    for posterior, e in zip(posteriors, evidence, strict=True):
        # All chains take smaller steps, not only those that have diverged.
        acceptance = posterior.sample_stats["acceptance_rate"].mean(axis=1)
        assert np.all(acceptance > 0.85) == ("target_accept" in e)
        assert e["divergences"] == 0 and posterior.trust.verdict == "good", posterior.trust
        mu = posterior.flat["mu"]
        assert abs(mu.mean() - mean) < 0.15 * sd and abs(mu.std() / sd - 1.0) < 0.1


@pytest.mark.slow
@pytest.mark.parametrize("module", [eight_schools, funnel])
def test_narrow_neck_is_not_good_with_smaller_steps(module):
    for posterior in fits(module.model, module.data(), range(6), centring=False):
        assert posterior.trust.verdict != "good", posterior.trust


@pytest.mark.slow
def test_divergent_vectorized_chains_run_again_together():
    options = {"target_accept": 0.8, "chain_method": "vectorized", "draws": 300, "centring": False}
    (posterior,) = fits(eight_schools.model, eight_schools.data(), [0], **options)
    assert "target_accept" in posterior.trust.evidence and posterior.shape == (4, 300)
