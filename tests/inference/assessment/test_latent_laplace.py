"""Verdicts on posteriors whose observations were integrated over a latent by an approximation."""

import jax
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from scipy.special import logsumexp
from scipy.stats import norm

import bayeskern as bk
from bayeskern import likelihoods
from bayeskern.inference.assessment.latent_laplace import assess_latent_draws
from bayeskern.inference.verdict import Trust
from bayeskern.kernels import RBF
from tests.marks import slow

GOOD, BAD = Trust("good", "fine"), Trust("bad", "worse", {"khat": 2.0})
rng = np.random.default_rng(0)
S, N = 20, 200


def ratio(mean=0.0, sd=1.0, spread=0.0, dimensions=2):
    """Draws of q = N(0, I) and log p / q for p = N(mean, sd^2), its evidence off by `spread`."""
    f = rng.normal(size=(S, N, dimensions))
    log = np.sum(norm(mean, sd).logpdf(f) - norm(0, 1).logpdf(f), axis=-1)
    return f, log + spread * np.linspace(-1, 1, S)[:, None]


def test_close_approximation_keeps_the_verdict():
    trust = assess_latent_draws(GOOD, *ratio())
    assert trust.verdict == "good" and trust.advice == "fine"
    assert trust.evidence["inner_ess"] == pytest.approx(S * N)
    assert assess_latent_draws(GOOD, *ratio(mean=0.05, sd=1.03)).verdict == "good"


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"mean": 0.5}, "mean of f["),
        ({"sd": 0.6}, "sd of f["),
        ({"spread": 2.0}, "evidence of the latent function"),
        ({"sd": 3.0, "dimensions": 6}, "cannot be measured"),
    ],
)
def test_inaccurate_approximation_is_caution(options, says):
    trust = assess_latent_draws(GOOD, *ratio(**options))
    assert trust.verdict == "caution" and says in trust.advice
    assert "integrate=False" in trust.advice


def test_nan_is_not_good():
    f, log = ratio()
    log[3, 5] = np.nan
    assert assess_latent_draws(GOOD, f, log).verdict == "caution"


def test_bad_verdict_stays_bad():
    trust = assess_latent_draws(BAD, *ratio(mean=1.0))
    assert trust.verdict == "bad" and trust.advice == "worse" and "inner_khat" in trust.evidence


@pytest.mark.slow
@pytest.mark.parametrize(("level", "verdict"), [slow(6.0, "good"), (-1.0, "caution")])
def test_large_counts_are_good_and_rare_events_caution(level, verdict):
    x = np.linspace(0.0, 1.0, 12)
    y = np.random.default_rng(1).poisson(np.exp(level + np.sin(3.0 * x)))
    kernel = RBF(0.5, variance=dist.LogNormal(0.0, 0.3))
    model = bk.LatentGP(kernel, likelihoods.Poisson(), mean=level)
    posterior = bk.infer(model, x, y, method="importance", progress=False)
    assert posterior.trust.verdict == verdict, posterior.trust
    if verdict == "good":
        # The whitened form integrates nothing.
        nuts = bk.NUTS(warmup=500, draws=500)
        whole = bk.infer(model, x, y, method=nuts, progress=False).flat["variance"]
        mine = posterior.flat["variance"]
        assert abs(mine.mean() - whole.mean()) < 0.2 * whole.std()
        np.testing.assert_allclose(mine.std(), whole.std(), rtol=0.2)


def test_mean_ratio_corrects_the_evidence():
    x, y = np.array([0.0, 1.0]), np.array([0.0, 2.0])
    process = bk.LatentProcess(RBF(0.7, variance=2.0), x, likelihoods.Poisson())
    f, log = process.log_ratio(y, jax.random.key(0), 50_000)
    assert f.shape[0] == log.shape[0] == 50_000
    corrected = float(process.log_prob(y)) + logsumexp(log) - np.log(50_000)
    # On a grid over the two values of f.
    grid = np.linspace(-9, 9, 601)
    a, b = np.meshgrid(grid, grid, indexing="ij")
    K = 2.0 * np.exp(-0.5 * np.square((x[:, None] - x) / 0.7))
    P = np.linalg.inv(K)
    prior = -0.5 * (P[0, 0] * a**2 + 2 * P[0, 1] * a * b + P[1, 1] * b**2)
    prior -= 0.5 * np.linalg.slogdet(2 * np.pi * K)[1]
    log_p = y[0] * a - np.exp(a) + y[1] * b - np.exp(b) - np.log(2.0)
    exact = logsumexp(prior + log_p) + 2 * np.log(grid[1] - grid[0])
    assert abs(corrected - exact) < 0.01


def grouped(distribution):
    """The same process, observed in each of several groups."""

    def model(y):
        variance = numpyro.sample("variance", dist.LogNormal(0.0, 0.3))
        with numpyro.plate("group", len(y)):
            numpyro.sample("y", distribution(variance), obs=y)

    return model


@pytest.mark.slow
@pytest.mark.parametrize(("level", "verdict"), [(6.0, "good"), (-1.0, "caution")])
def test_processes_under_a_plate_have_a_verdict(level, verdict):
    x = np.linspace(0.0, 1.0, 8)
    y = np.random.default_rng(1).poisson(np.exp(level + np.sin(3.0 * x)), (2, 8))

    def process(variance):
        return bk.LatentProcess(RBF(0.5, variance=variance), x, likelihoods.Poisson(), level)

    posterior = bk.infer(grouped(process), y, method="importance", progress=False)
    assert posterior.trust.verdict == verdict and "inner_khat" in posterior.trust.evidence


@pytest.mark.slow
@pytest.mark.parametrize("wrapped", ["plate", "mask"])
def test_gaussian_process_under_a_plate_or_mask_has_a_verdict(wrapped):
    x = np.linspace(0.0, 1.0, 8)

    def process(variance):
        found = bk.GaussianProcess(RBF(0.5, variance=variance), x, 0.1)
        return found.mask(True) if wrapped == "mask" else found

    y = np.random.default_rng(1).normal(size=(2 if wrapped == "plate" else 1, 8))
    posterior = bk.infer(grouped(process), y, method="laplace", progress=False)
    assert posterior.trust.verdict == "good"
    with pytest.raises(ValueError, match="under a plate, a mask"):
        posterior.predict(y)
