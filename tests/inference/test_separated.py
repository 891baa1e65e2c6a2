"""Posteriors with separate modes: no verdict is good where one is missing."""

import warnings

import arviz as az
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest

import bayeskern as bk
from bayeskern.inference.mcmc import exploration
from tests.inference.separated import SEPARATED

METHODS = {
    "chains": lambda: bk.NUTS(modes="report"),
    "nuts": lambda: bk.NUTS(),
    "importance": lambda: "importance",
    "laplace": lambda: "laplace",
    "svi": lambda: "svi",
    "auto": lambda: "auto",
}
# What a good verdict may differ by: means in sds, and the logs of the ratios of sds.
MOST = 0.25


def fit(name, method, seed, **options):
    return bk.infer(
        SEPARATED[name].model, method=METHODS[method](), seed=seed, progress=False, **options
    )


def error_of(posterior, name):
    x, (mean, sd) = posterior.draws["x"], SEPARATED[name].moments()
    x = x.reshape(-1, len(mean))
    return max(
        np.max(np.abs(x.mean(axis=0) - mean) / sd), np.max(np.abs(np.log(x.std(axis=0) / sd)))
    )


def assert_no_wrong_good(name, method, seeds):
    wrong = []
    for seed in seeds:
        posterior = fit(name, method, seed)
        error = error_of(posterior, name)
        if posterior.trust.verdict == "good" and not error < MOST:
            wrong.append((seed, error, posterior.trust.advice))
    assert not wrong


@pytest.mark.slow
@pytest.mark.parametrize("method", ["nuts", "importance", "auto"])
@pytest.mark.parametrize("name", SEPARATED)
def test_wrong_draws_are_not_called_good_in_twenty_seeds(name, method):
    assert_no_wrong_good(name, method, range(20))


@pytest.mark.slow
@pytest.mark.parametrize("method", ["chains", "laplace", "svi"])
@pytest.mark.parametrize("name", SEPARATED)
def test_wrong_draws_are_not_called_good_in_three_seeds(name, method):
    assert_no_wrong_good(name, method, range(3))


# -- draws from each region by its share ----------------------------------------------------------


@pytest.mark.slow
def test_exchangeable_components_are_in_every_order():
    posterior = fit("labels", "nuts", 0)
    assert posterior.trust.verdict == "good" and posterior.trust.evidence["regions"] == 1
    assert not posterior.has_chains
    assert error_of(posterior, "labels") < 0.15


@pytest.mark.slow
def test_regions_have_their_shares():
    posterior = fit("rings", "nuts", 0)
    trust = posterior.trust
    assert trust.verdict == "good" and trust.evidence["regions"] == 2
    assert posterior.shape == (1, 4000)
    # What is no chain has no R-hat, here and in ArviZ.
    assert not posterior.has_chains and "r_hat" not in posterior.summary().columns
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        table = az.summary(posterior.to_arviz(), kind="diagnostics", round_to="none")
    assert table["r_hat"].isna().all()
    share = np.mean(posterior.sample_stats["region"] == 0)
    shares = np.array(trust.evidence["shares"].split(", "), float)
    # The places are alike.
    assert share == pytest.approx(shares[0], abs=0.01)
    assert np.all(np.abs(shares - 0.5) < 4.0 * trust.evidence["share_error"] + 0.01)
    assert error_of(posterior, "rings") < 0.15


@pytest.mark.slow
def test_regions_of_thinned_chains_have_their_shares():
    """One chain of three is alone in its place, and is given company as long as itself."""
    starts = {"x": [[-1.5, 0.0], [-1.5, 0.0], [5.5, 0.0]]}
    method = bk.NUTS(chains=3, warmup=500, draws=1000, thin=2, init=starts)
    posterior = bk.infer(SEPARATED["rings"].model, method=method, progress=False)
    assert posterior.shape == (1, 1500) and posterior.trust.evidence["regions"] == 2
    assert error_of(posterior, "rings") < 0.2


@pytest.mark.slow
def test_unequal_shares():
    posterior = fit("narrow beside wide", "nuts", 0)
    # Half of the mass, but for the prior N(0, 10^2), which is exp(-0.32) times as high at 8.
    there = np.mean(posterior.draws["x"] > 5.0)
    np.testing.assert_allclose(there, 0.42, atol=0.03)
    assert posterior.trust.verdict == "good"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["rings", "narrow beside wide"])
def test_regions_of_unknown_shares_keep_the_chains(monkeypatch, name):
    # Any two regions are told apart too badly.
    monkeypatch.setattr(exploration, "MAX_OVERLAP", -1.0)
    posterior, plain = fit(name, "nuts", 0), fit(name, "chains", 0)
    np.testing.assert_array_equal(posterior.draws["x"], plain.draws["x"])
    assert posterior.trust.verdict != "good" and plain.trust.verdict != "good"
    says = posterior.trust.advice
    assert "the draws were not weighted" in says or "different regions" in says


@pytest.mark.slow
def test_one_region_keeps_the_chains():
    posterior = bk.infer(one_place, method=bk.NUTS(warmup=300, draws=300), progress=False)
    chains = bk.NUTS(modes="report", warmup=300, draws=300)
    plain = bk.infer(one_place, method=chains, progress=False)
    np.testing.assert_array_equal(posterior.draws["x"], plain.draws["x"])
    assert "places_visited" not in plain.trust.evidence


def one_place():
    numpyro.sample("x", dist.Normal(0.0, 1.0).expand([3]).to_event(1))
