"""Priors that are learned from many short series."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

import bayeskern as bk
from bayeskern.forecast.evaluate import scores

KNOWN, AHEAD = 20, 6
MODEL = bk.StructuralModel(log=False)
OPTIONS = {"season": 12, "trend": "drift", "model": MODEL}


def shop(seed):
    """Twenty months with a season whose months have nothing to do with one another."""
    rng, n = np.random.default_rng(seed), KNOWN + AHEAD
    season = rng.normal(0.0, 1.0, 12)
    level = 100.0 + np.cumsum(rng.normal(0.0, 0.6, n))
    return level + 8.0 * season[np.arange(n) % 12] + rng.normal(0.0, 1.5, n)


SHOPS = [shop(seed) for seed in range(24)]


@pytest.fixture(scope="module")
def learned():
    known = [y[:KNOWN] for y in SHOPS]
    return bk.learn_priors(known, workers=1, progress=False, **OPTIONS)


def with_priors(priors):
    return OPTIONS | {"model": replace(MODEL, priors=priors)}


def crps(shops, priors):
    found = []
    for y in shops:
        f = bk.forecast(y[:KNOWN], AHEAD, **with_priors(priors))
        found.append(scores.score(f.quantile(scores.SCORED_PROBABILITIES), y[KNOWN:]).crps.mean())
    return np.mean(found)


def crps_of_truth(shops):
    """CRPS of the process that the shops are drawn from, at its own hyperparameters."""
    t = np.arange(KNOWN + AHEAD)
    K = 0.36 * (1.0 + np.minimum.outer(t, t)) + 64.0 * np.equal.outer(t % 12, t % 12)
    K += 2.25 * np.eye(len(t))
    weights = np.linalg.solve(K[:KNOWN, :KNOWN], K[:KNOWN, KNOWN:]).T
    sd = np.sqrt(np.diag(K[KNOWN:, KNOWN:] - weights @ K[:KNOWN, KNOWN:]))
    z = np.array([(y[KNOWN:] - 100.0 - weights @ (y[:KNOWN] - 100.0)) / sd for y in shops])
    # Gneiting and Raftery (2007), "Strictly proper scoring rules", equation 21.
    inside = z * (2.0 * norm.cdf(z) - 1.0) + 2.0 * norm.pdf(z) - 1.0 / np.sqrt(np.pi)
    return np.mean(sd * inside)


@pytest.mark.slow
def test_short_series_that_are_alike_are_foretold_better(learned):
    # Of other shops than those that were learned from.
    others = [shop(seed) for seed in range(100, 124)]
    assert crps(others, learned) < crps(others, None)
    assert crps(others, learned) < 1.15 * crps_of_truth(others)
    assert learned.count == 24 and "priors learned from 24 of 24 series" in str(learned)


@pytest.mark.slow
def test_what_was_simulated_is_learned(learned):
    """The noise and the steps of the level, against the spread of a series."""
    sd = np.mean([np.std(y[:KNOWN]) for y in SHOPS])
    for name, truth in (("noise", 1.5), ("trend.level.variance", 0.6)):
        location, scale = learned.values[name]
        assert abs(location - 2.0 * np.log(truth / sd)) < 2.0 * max(scale, 0.5)
    # A season of independent months.
    assert np.exp(learned.values["season.seasonal.lengthscale"][0]) < 0.5


@pytest.mark.slow
def test_model_and_log_density_have_the_same_priors(learned):
    model = replace(MODEL, priors=learned, method="map")
    f = bk.forecast(SHOPS[0][:KNOWN], 2, **(OPTIONS | {"model": model}))
    fitted = f.leading
    truth = float(fitted.target.log_density(fitted.mode))
    assert fitted.log_density == pytest.approx(truth, abs=1e-6)
    for name, prior in f.model.kernel.hyperparameters().items():
        if name in learned.values:
            found = float(prior.base_dist.loc), float(prior.base_dist.scale)
            assert found == pytest.approx(learned.values[name])


@pytest.mark.slow
def test_a_frame_learns_from_itself(tmp_path):
    months = pd.date_range("2022-01-01", periods=KNOWN, freq="MS")
    parts = [
        pd.DataFrame({"shop": f"s{i}", "month": months, "sold": y[:KNOWN]})
        for i, y in enumerate(SHOPS)
    ]
    frame = pd.concat(parts)
    given = {"id": "shop", "value": "sold", "progress": False}
    options = with_priors(bk.learn_priors(frame, **given, **OPTIONS))
    found = bk.forecast_many(frame, 2, **given, **options)
    alone = bk.forecast(pd.Series(SHOPS[3][:KNOWN], months), 2, **options)
    np.testing.assert_allclose(found.results[3].columns["median"], alone.median, rtol=1e-8)


def test_bad_input(learned):
    with pytest.raises(ValueError, match="3 series can be fitted; learn_priors needs at least 10"):
        bk.learn_priors([y[:KNOWN] for y in SHOPS[:3]], progress=False, **OPTIONS)
    with pytest.raises(ValueError, match=r"0 series can .* problem \(3\): seed"):
        bk.learn_priors([y[:KNOWN] for y in SHOPS[:3]], progress=False, seed=-1)
    days = pd.date_range("2024-01-01", periods=KNOWN)
    with pytest.raises(ValueError, match="for steps of 1, but the series has steps of"):
        bk.forecast(pd.Series(SHOPS[0][:KNOWN], days), 2, model=bk.StructuralModel(priors=learned))
    months = pd.date_range("2022-01-01", periods=KNOWN, freq="MS")
    both = [pd.Series(SHOPS[i][:KNOWN], when) for i in range(5) for when in (days, months)]
    with pytest.raises(ValueError, match="learn priors from series of one frequency"):
        bk.learn_priors(both, workers=1, progress=False, **(OPTIONS | {"season": 0}))
    with pytest.raises(ValueError, match="applies to the built-in structures"):
        bk.forecast(SHOPS[0], 2, model=bk.StructuralModel(priors=learned, kernel=bk.kernels.RBF()))
