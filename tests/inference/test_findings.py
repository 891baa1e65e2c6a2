"""Findings of one fit, which later fits must account for."""

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest

import bayeskern as bk
from bayeskern.inference.findings import Findings
from bayeskern.inference.model.target import Target
from bayeskern.inference.search.search import find_optimum
from bayeskern.kernels import RBF

# Modes at -8 and 8, of sds 1 and 0.2, with equal mass.
MEANS, SDS = np.array([-8.0, 8.0]), np.array([1.0, 0.2])


def two_modes():
    x = numpyro.sample("x", dist.Normal(0.0, 6.0))
    parts = dist.Normal(jnp.asarray(MEANS), jnp.asarray(SDS)).log_prob(x)
    numpyro.factor("parts", jnp.logaddexp(*parts) - dist.Normal(0.0, 6.0).log_prob(x))


def search(seed):
    return find_optimum(Target.from_model(two_modes, (), {}), 8, seed, 1000, progress=False)


@pytest.mark.slow
def test_modes_of_several_searches_count_once():
    findings = Findings((search(0),)) | Findings((search(1),))
    draws = MEANS[0] + np.random.default_rng(0).standard_normal((1000, 1))
    (missed,) = findings.missed(["x"], draws)
    assert abs(missed.z[0] - MEANS[1]) < 1e-3
    both = np.concatenate([draws, 2.0 * MEANS.mean() - draws])
    assert findings.missed(["x"], both) == []


def test_findings_in_other_coordinates_are_ignored():
    findings = Findings((search(0),)) | Findings.at(["x"], np.zeros((3, 1)))
    assert findings.missed(["y"], np.zeros((10, 1))) == []
    assert findings.points(["y"]).shape == (0, 1)
    known = np.concatenate([findings.modes(["x"]), findings.points(["x"])])
    assert set(np.round(known.ravel())) == {-8.0, 0.0, 8.0}


def test_correction_must_cover_the_modes_of_its_proposal():
    laplace = bk.infer(two_modes, method="laplace", seed=0, progress=False)
    method = bk.ImportanceSampling(proposal=laplace, tails=None)
    posterior = bk.infer(two_modes, method=method, seed=0, progress=False)
    assert laplace.trust.evidence["modes_missed"] == 1
    assert posterior.trust.verdict == "bad" and posterior.trust.evidence["modes_missed"] == 1


def hidden(place, mass):
    """A standard normal, and a narrow one as a factor that draws of the prior do not show."""
    x = numpyro.sample("x", dist.Normal(0.0, 1.0))
    far = dist.Normal(place, 0.1).log_prob(x) - dist.Normal(0.0, 1.0).log_prob(x)
    numpyro.factor("far", jnp.logaddexp(0.0, jnp.log(mass) + far))


SHORT_RUN = {"warmup": 300, "draws": 300}


@pytest.mark.slow
def test_chains_visit_findings_of_an_earlier_fit():
    """40 sds out, where no search of its own comes, the density has as much mass again."""
    alone, posterior = (
        bk.infer(
            hidden, 40.0, 1.0, method=bk.NUTS(known=known, **SHORT_RUN), seed=0, progress=False
        )
        for known in (None, Findings.at(["x"], [[40.0]]))
    )
    assert np.max(alone.draws["x"]) < 10.0
    assert abs(np.mean(posterior.draws["x"] > 20.0) - 0.5) < 0.05


@pytest.mark.slow
def test_visit_with_negligible_share_keeps_the_chains():
    method = bk.NUTS(known=Findings.at(["x"], [[6.0]]), **SHORT_RUN)
    posterior = bk.infer(hidden, 6.0, 1e-3, method=method, seed=0, progress=False)
    assert posterior.trust.evidence["places_visited"] == 1
    assert abs(posterior.trust.evidence["share_elsewhere"] - 1e-3) < 5e-4
    assert posterior.shape == (4, 300) and posterior.has_chains


def test_known_must_be_findings():
    with pytest.raises(TypeError, match=r"known=posterior\.findings; got ndarray"):
        bk.NUTS(known=np.zeros((1, 2)))


@pytest.mark.slow
def test_auto_handles_forms_with_different_coordinates():
    """With this wide prior no approximation of a latent function is good."""
    X = np.linspace(0.0, 5.0, 15)
    kernel = RBF(lengthscale=dist.LogNormal(0.0, 1.0), variance=dist.LogNormal(3.0, 2.0))
    model = bk.LatentGP(kernel, bk.likelihoods.Bernoulli())
    posterior = bk.infer(model, X, (np.sin(3.0 * X) > 0.0).astype(int), seed=0, progress=False)
    methods = [attempt.method for attempt in posterior.attempts]
    assert methods[:2] == ["laplace", "importance from laplace"] and methods[-1] == "nuts"
