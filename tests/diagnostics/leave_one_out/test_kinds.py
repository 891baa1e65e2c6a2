"""Every kind of observation: its density alone, and the model without it."""

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro import handlers
from numpyro.contrib.control_flow import scan

import bayeskern as bk
from bayeskern.diagnostics.leave_one_out.moment_matching import Matching
from bayeskern.diagnostics.leave_one_out.refits import template_without
from bayeskern.inference.model.evaluation import log_densities
from bayeskern.kernels import RBF
from tests.inference.any_draws import AnyDraws
from tests.marks import few

RNG = np.random.default_rng(0)
Y = RNG.normal(size=6)
W = RNG.normal(size=(6, 2))
KEEP = np.array([True, False, True, True, False, True])
PRIOR = dist.Normal(0.0, 1.0)


def plain(y):
    mu = numpyro.sample("mu", PRIOR)
    s = numpyro.sample("s", dist.HalfNormal(1.0))
    numpyro.sample("y", dist.StudentT(4.0, mu, s), obs=y)


def masked(y):
    mu = numpyro.sample("mu", PRIOR)
    with numpyro.plate("n", 6), handlers.mask(mask=KEEP):
        numpyro.sample("y", dist.Normal(mu, 1.0), obs=y)


def events(w):
    mu = numpyro.sample("mu", PRIOR.expand([2]).to_event(1))
    with numpyro.plate("n", 6):
        numpyro.sample("w", dist.Normal(mu, 0.5).to_event(1), obs=w)


def masked_events(w):
    mu = numpyro.sample("mu", PRIOR)
    base = dist.Normal(mu, 1.0).expand([6, 2])
    numpyro.sample("w", base.mask(KEEP[:, None] & np.array([True, False])).to_event(1), obs=w)


def multivariate(w):
    mu = numpyro.sample("mu", PRIOR.expand([2]).to_event(1))
    covariance = np.array([[1.0, 0.6], [0.6, 2.0]])
    numpyro.sample("w", dist.MultivariateNormal(mu, covariance).expand([6]).to_event(1), obs=w)


def subsampled(y):
    mu = numpyro.sample("mu", PRIOR)
    with numpyro.plate("n", 6, subsample_size=2) as rows:
        numpyro.sample("y", dist.Normal(mu, 1.0), obs=jnp.asarray(y)[rows])


def steps(y):
    mu = numpyro.sample("mu", PRIOR)

    def step(state, value):
        numpyro.sample("y", dist.Normal(mu + 0.5 * state, 1.0), obs=value)
        return value, None

    scan(step, 0.0, jnp.asarray(y))


def several(y):
    mu = numpyro.sample("mu", PRIOR)
    numpyro.factor("f", -(mu**2))
    numpyro.sample("y", dist.Normal(mu, 1.0), obs=y)
    numpyro.sample("more", dist.Poisson(jnp.exp(mu)), obs=np.array([1, 0, 3]))


def mixture(y):
    mu = numpyro.sample("mu", PRIOR.expand([2]).to_event(1))
    with numpyro.plate("n", 6):
        z = numpyro.sample("z", dist.Categorical(np.array([0.3, 0.7])))
        numpyro.sample("y", dist.Normal(mu[z], 1.0), obs=y)


def process(y):
    length = numpyro.sample("length", dist.LogNormal(0.0, 0.5))
    numpyro.sample("y", bk.GaussianProcess(RBF(lengthscale=length), np.arange(6.0), 0.3), obs=y)


def hidden_rows(y):
    length = numpyro.sample("length", dist.LogNormal(0.0, 0.5))
    gp = bk.GaussianProcess(RBF(lengthscale=length), np.arange(6.0), 0.3, mask=KEEP)
    numpyro.sample("y", gp, obs=y)


GP = bk.GPRegression(RBF(lengthscale=dist.LogNormal(0.0, 0.5)), noise=0.3)
LINEAR = bk.BayesianLinearRegression()
GLM = bk.BayesianGLM(bk.likelihoods.Poisson())
COUNTS = RNG.poisson(2.0, size=6)
CASES = {
    "plain": (plain, Y),
    "masked": (masked, Y),
    "events": (events, W),
    "masked events": (masked_events, W),
    "multivariate": (multivariate, W),
    "subsampled": (subsampled, Y),
    "scan": (steps, Y),
    "several sites": (several, Y),
    "process": (process, Y),
    "process, rows not observed": (hidden_rows, Y),
    "process of a model": (GP, np.arange(6.0), Y),
    "process, two outputs": (GP, np.arange(6.0), W),
    "linear": (LINEAR, W, Y),
    "glm": (GLM, W, COUNTS),
}


def check(posterior):
    """Densities of single observations, and models without them, at the draws themselves."""
    target, chains = posterior.known_target, posterior.shape[0]
    for site, values in posterior.log_likelihood().items():
        matching = Matching.from_posterior(posterior, values.shape[1], 1.0)
        columns = values.reshape(chains * values.shape[1], -1)
        z = matching.proposal.z
        template = template_without(target, site)
        for row in (0, columns.shape[1] - 1):
            observation = matching.observation(site, row)
            log_p, log_likelihood = observation.densities(z)
            np.testing.assert_allclose(log_likelihood, columns[:, row], rtol=1e-8, atol=1e-8)
            np.testing.assert_allclose(log_p, log_densities(target, z), rtol=1e-10)
            without = template.with_arguments(jnp.asarray(observation.index))
            expected = log_p - log_likelihood
            found = log_densities(without, z)
            np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("case", few(CASES, "masked events"))
def test_density_without_one_observation(case):
    model, *data = CASES[case]
    check(bk.infer(model, *data, method=AnyDraws(30), progress=False))


@pytest.mark.slow
def test_density_without_one_observation_beside_discrete_latents():
    pytest.importorskip("funsor")
    check(bk.infer(mixture, Y, method=AnyDraws(30), progress=False))


@pytest.mark.slow
def test_labels_count_masked_observations():
    posterior = bk.infer(masked, Y, method=AnyDraws(100), progress=False)
    assert bk.loo(posterior).labels == ("y[0]", "y[2]", "y[3]", "y[5]")
    sites = bk.loo(bk.infer(several, Y, method=AnyDraws(100), progress=False))
    assert sites.sites == {"y": 6, "more": 3}
    assert sites.labels[5:7] == ("y[5]", "more[0]")


class OwnLikelihood:
    """A model with its own pointwise log likelihood."""

    def __call__(self, y):
        mu = numpyro.sample("mu", PRIOR)
        numpyro.sample("y", dist.Normal(mu, 0.1), obs=y)

    def pointwise(self, draws, y):
        return dist.Normal(draws["mu"][:, None], 0.1).log_prob(y)


@pytest.mark.slow
def test_own_log_likelihood_is_matched_and_not_refitted():
    y = np.array([0.0, 0.1, -0.1, 3.0])
    posterior = bk.infer(OwnLikelihood(), y, method="laplace", progress=False)
    loo = bk.loo(posterior)
    assert "moment matching" in loo.estimates.how
    # In closed form: the others have mean 0 and precision 3 / 0.01 + 1.
    truth = dist.Normal(0.0, np.sqrt(0.01 + 1.0 / 301.0)).log_prob(3.0)
    row = loo.to_frame().loc["y[3]"]
    assert row["how"] == "moment matching" and abs(row["elpd"] - truth) < 4.0 * row["error"]
    with pytest.raises(ValueError, match="own pointwise log likelihood"):
        template_without(posterior.known_target, "y")


@pytest.mark.slow
def test_tied_discrete_latents_are_refused():
    pytest.importorskip("funsor")

    def tied(y):
        mu = numpyro.sample("mu", PRIOR.expand([2]).to_event(1))
        with numpyro.plate("groups", 1):
            z = numpyro.sample("z", dist.Categorical(np.array([0.3, 0.7])))
        with numpyro.plate("n", 6):
            numpyro.sample("y", dist.Normal(mu[z], 1.0), obs=y)

    posterior = bk.infer(tied, Y, method=AnyDraws(30), progress=False)
    with pytest.raises(ValueError, match="tie several of them together"):
        bk.loo(posterior)
