"""Weights of structures by evidence and past errors."""

from dataclasses import replace

import numpy as np
import numpyro.distributions as dist
import pandas as pd
import pytest
import scipy.special
import scipy.stats

import bayeskern as bk
from bayeskern import kernels
from bayeskern.forecast.combine import candidates as candidates_module
from bayeskern.forecast.combine import stacking
from bayeskern.forecast.combine.candidates import MAX_LOG_GAP_NATS, best_first, candidates
from bayeskern.forecast.combine.stacking import (
    MIN_PART_DRAWS,
    alone,
    combine,
    error_of,
    learned_weights,
    past_count,
    structure_name,
)
from bayeskern.forecast.fit.draws import Draws
from bayeskern.forecast.fit.modes import FittedStructure
from bayeskern.forecast.fit.rolling import origins_of
from bayeskern.forecast.model.learned import Features, StructureWeights
from bayeskern.forecast.model.structure import Structure
from bayeskern.forecast.model.trends import TRENDS
from tests.forecast.tables import INTERCEPTS, TABLE, WIDTH, choices_for
from tests.forecast.trend_cases import CASES, simulate
from tests.marks import few

N = 60
T = np.arange(N) / 12.0
RNG = np.random.default_rng(5)
Y = np.sin(2.0 * np.pi * T) + 0.3 * T + 0.3 * RNG.standard_normal(N)
KERNEL = kernels.RBF(dist.LogNormal(0.0, 1.0), 1.0) + kernels.Periodic(1.0, 1.0, 1.0)
WALK = 20.0 + np.cumsum(np.random.default_rng(2).normal(size=N))
ORIGINS = origins_of(np.arange(N), 4)


def given(kernel=KERNEL, y=Y):
    choices = choices_for(trends=("given",), kernels={"given": kernel})
    return FittedStructure.from_values(Structure("given", False), choices, T, y)


def of_walk(origins=ORIGINS, **options):
    """Structures of a random walk at their modes, with the artificial table."""
    choices = choices_for(**({"trends": tuple(TRENDS), "logs": (False, True)} | options))
    return candidates(np.arange(float(N)), WALK, choices, origins)


@pytest.fixture(scope="module")
def fits():
    return of_walk()


# -- weights ---------------------------------------------------------------------------------------


def quantile_loss(fitted, origins):
    """Mean quantile loss at 0.1, ..., 0.9, forecast by forecast."""
    losses, scale = [], fitted.scale
    for origin, (means, sds) in zip(origins, fitted.rolling(origins), strict=True):
        for y, mean, sd in zip(fitted.y[origin.ahead], means, sds, strict=True):
            for level in np.arange(1, 10) / 10.0:
                q = scale.ahead(mean, sd * scipy.stats.norm.ppf(level))
                losses.append(level * (y - q) if y > q else (1.0 - level) * (q - y))
    return np.mean(losses)


def test_weights_equal_softmax_of_scores(fits):
    """Softmax of the intercept and gaps in evidence, and of the gap in the log of the error."""
    assert len({fitted.structure for fitted in fits}) == len(fits) > 3
    evidence = np.array([fitted.log_evidence for fitted in fits])
    errors = np.array([quantile_loss(fitted, ORIGINS) for fitted in fits])
    ours = [error_of(fitted, fitted.rolling(ORIGINS), ORIGINS) for fitted in fits]
    np.testing.assert_allclose(ours, errors, rtol=1e-10)
    names = [f.structure.trend + (" log" if f.structure.log else "") for f in fits]
    is_log = np.array([f.structure.log for f in fits])
    best_on_scale = np.where(is_log, evidence[is_log].max(), evidence[~is_log].max())
    prior = np.array([INTERCEPTS[name] for name in names])
    prior += 0.2 * np.maximum(evidence - evidence.max(), -6.0)
    prior += 0.1 * np.maximum(evidence - best_on_scale, -20.0)
    # The values from the 30th on are forecast.
    share = 30.0 / (30.0 + 50.0)
    scores = (1.0 - share) * prior
    scores += share * 4.5 * np.maximum(np.log(errors.min() / errors), -3.0)
    expected = np.exp(scores) / np.exp(scores).sum()
    expected = np.where(expected < 0.01, 0.0, expected)
    expected /= expected.sum()
    combination = combine(fits, ORIGINS, seed=0)
    weights = {part.structure: part.weight for part in combination.parts}
    for fitted, weight in zip(fits, expected, strict=True):
        assert weights.get(fitted.structure, 0.0) == pytest.approx(weight, rel=1e-8)
    ordered = [part.weight for part in combination.parts]
    assert ordered == sorted(ordered, reverse=True)
    # The heavier a structure, the more draws of its hyperparameters.
    counts = [len(part.draws.z) for part in combination.parts]
    assert counts == sorted(counts, reverse=True) and counts[-1] >= MIN_PART_DRAWS


def test_structures_of_small_weight_are_dropped():
    intercepts = dict.fromkeys(INTERCEPTS, 0.0) | {"drift": -12.0}
    table = replace(TABLE, weighing=StructureWeights(intercepts, 0.0, 0.0, 0.0, 50.0))
    combination = combine(of_walk(learned=table, logs=(False,)), ORIGINS, seed=0)
    trends = {part.structure.trend for part in combination.parts}
    assert trends == set(TRENDS) - {"drift"}
    np.testing.assert_allclose([part.weight for part in combination.parts], 1.0 / 3.0, rtol=1e-12)


def test_weights_without_origins_ignore_errors(fits):
    names = [structure_name(fitted.structure) for fitted in fits]
    errors = [error_of(f, (), ()) for f in fits]
    features = Features.from_evidence(names, [f.log_evidence for f in fits], errors)
    assert not features.error.any() and features.evidence.max() == 0.0 > features.evidence.min()
    combination = combine(fits, (), seed=0)
    assert combination.past is None and combination.reach == 0 and len(combination.residuals) == 0


@pytest.mark.parametrize("errors", [[1.0, np.nan, 2.0], [1.0, 0.0, 2.0], [np.inf, 1.0, 2.0]])
def test_features_of_unknown_errors_are_zero(errors):
    features = Features.from_evidence(["slope", "drift", "slope log"], [-500.0, -3.0, -4.5], errors)
    np.testing.assert_array_equal(features.evidence, [-6.0, 0.0, -1.5])
    np.testing.assert_array_equal(features.evidence_on_scale, [-20.0, 0.0, 0.0])
    np.testing.assert_array_equal(features.error, 0.0)


def test_features_are_gaps_to_the_best_structure():
    features = Features.from_evidence(
        ["slope", "drift", "smooth log"], [2.0, 1.0, -30.0], [0.2, 0.1, 1e9]
    )
    np.testing.assert_allclose(features.evidence, [0.0, -1.0, -6.0])
    np.testing.assert_allclose(features.evidence_on_scale, [0.0, -1.0, 0.0])
    np.testing.assert_allclose(features.error, [-np.log(2.0), 0.0, -3.0])


def test_features_of_a_density_of_zero_are_finite():
    features = Features.from_evidence(["slope", "slope log"], [1.0, -np.inf], [0.2, 0.1])
    np.testing.assert_allclose(features.evidence, [0.0, -6.0])
    np.testing.assert_allclose(features.evidence_on_scale, 0.0)


def test_many_past_errors_outweigh_evidence():
    """The weights are those of a normal model whose prior counts as 50 errors."""
    features = Features.from_evidence(["slope", "drift"], [0.0, -4.0], [2.0, 1.0])
    odds = [
        np.subtract(*TABLE.weighing.log_weights(["slope", "drift"], features, count))
        for count in (0, 50, 5_000_000)
    ]
    prior, errors = 0.3 + 4.0 * (0.2 + 0.1), -4.5 * np.log(2.0)
    np.testing.assert_allclose(odds, [prior, (prior + errors) / 2.0, errors], rtol=1e-4)


def test_overlapping_origins_count_each_value_once():
    assert past_count(origins_of(np.arange(30), 10)) == 15
    assert past_count(()) == 0


def test_structure_names_match_learned_table():
    structures = choices_for(trends=tuple(TRENDS), logs=(False, True)).structures
    assert {structure_name(structure) for structure in structures} == set(INTERCEPTS)


def test_weights_of_given_kernels_are_roots_of_evidence():
    fits = [given(), given(kernels.RBF(0.7, 1.0) + kernels.Periodic(1.0, 1.0, 1.0))]
    parts = combine(fits, ORIGINS, seed=0).parts
    by_evidence = [part.fitted.log_evidence for part in parts]
    log_odds = np.log(parts[0].weight / parts[1].weight)
    np.testing.assert_allclose(log_odds, 0.5 * (by_evidence[0] - by_evidence[1]), rtol=1e-9)
    np.testing.assert_allclose(sum(part.weight for part in parts), 1.0)


def test_weight_of_a_change_is_its_posterior_probability(monkeypatch):
    """Learned weights divide the probability of each set of changes among its structures."""
    learned = replace(TABLE, weighing=StructureWeights(INTERCEPTS, 0.0, 0.0, 0.0, 50.0))
    choices = choices_for(find_changes=True, learned=learned)
    structures = [Structure(t, False, c) for c in ((), (29.5,)) for t in ("drift", "reverting")]
    fits = [FittedStructure.from_values(s, choices, np.arange(float(N)), WALK) for s in structures]
    fits[2:] = [replace(fitted, log_prior=-1.0) for fitted in fits[2:]]
    monkeypatch.setattr(stacking, "MIN_WEIGHT", 0.0)
    parts = combine(fits, (), seed=0).parts
    weights = {part.structure: part.weight for part in parts}
    masses = np.exp([fitted.log_evidence - fits[0].log_evidence for fitted in fits])
    expected = np.array([masses[:2].sum(), masses[2:].sum()]) / masses.sum()
    by_changes = [weights[structures[i]] + weights[structures[i + 1]] for i in (0, 2)]
    np.testing.assert_allclose(by_changes, expected, rtol=1e-9)
    odds = np.exp(INTERCEPTS["drift"] - INTERCEPTS["reverting"])
    for plain in (0, 2):
        ratio = weights[structures[plain]] / weights[structures[plain + 1]]
        assert ratio == pytest.approx(odds)
    # The more probable set of changes comes first.
    assert parts[0].structure.changes == structures[2 * int(np.argmax(expected))].changes


# -- which structures are fitted -------------------------------------------------------------------


def test_structures_of_small_density_are_dropped():
    fits = [given(), given(kernels.RBF(1e-3, 1.0)), given(kernels.Constant(1.0))]
    ordered = best_first(fits, MAX_LOG_GAP_NATS)
    assert ordered[0] is max(fits, key=lambda fitted: fitted.log_joint)
    assert len(ordered) < 3
    left = [f for f in fits if f not in ordered]
    assert all(f.log_joint < ordered[0].log_joint - MAX_LOG_GAP_NATS for f in left)


def test_no_scale_is_dropped_for_its_evidence():
    """Values over many orders of magnitude: the logarithm is likelier by far more than 15 nats."""
    y = np.exp(4.0 * np.sin(T) + 0.1 * RNG.normal(size=N))
    fits = candidates(T, y, choices_for(trends=tuple(TRENDS), logs=(False, True)))
    assert [fitted.structure.log for fitted in fits].count(False) == len(TRENDS)
    assert fits[0].log_joint - min(f.log_joint for f in fits) > MAX_LOG_GAP_NATS


def test_recent_values_choose_structures_of_long_series(monkeypatch):
    monkeypatch.setattr(candidates_module, "RECENT_VALUES", 40)
    monkeypatch.setattr(candidates_module, "MIN_RECENT_WEIGHT", 0.1)
    fits = of_walk()
    recent = candidates(np.arange(40.0), WALK[-40:], fits[0].choices)
    origins = [o._replace(count=o.count - 20) for o in ORIGINS if o.count >= 30]
    past = [fitted.rolling(origins) for fitted in recent]
    log_densities = np.array([fitted.log_joint for fitted in recent])
    weights = learned_weights(recent, log_densities, origins, past)
    expected = {f.structure for f, weight in zip(recent, weights, strict=True) if weight >= 0.1}
    assert {fitted.structure for fitted in fits} == expected
    assert 0 < len(expected) < len(recent) and all(len(fitted.y) == N for fitted in fits)
    # Without origins, none is left out.
    assert len(of_walk(())) == len(recent)


def test_kernel_without_density_is_refused():
    hopeless = kernels.RBF(1e6, dist.LogNormal(200.0, 0.1))
    with pytest.raises(ValueError, match="log density of the values is not finite"):
        bk.forecast(Y, 4, model=bk.StructuralModel(kernel=hopeless))


# -- the forecasts from earlier origins ------------------------------------------------------------


def test_residuals_are_standardised_errors_of_average(fits):
    """The average at the residuals equals the observed values."""
    combination = combine(fits, ORIGINS, seed=0)
    counts = [len(origin.steps) for origin in ORIGINS]
    assert len(combination.residuals) == sum(counts)
    assert combination.reach == 4
    places = np.concatenate([np.arange(o.count, o.count + len(o.steps)) for o in ORIGINS])
    np.testing.assert_array_equal(combination.ahead.rows, places)
    pairs = [part.fitted.rolling(ORIGINS) for part in combination.parts]
    means, sds = (
        np.array([np.concatenate([moment[i] for moment in pair]) for pair in pairs]) for i in (0, 1)
    )
    value = 0.0
    for part, mean, sd in zip(combination.parts, means, sds, strict=True):
        value = value + part.weight * part.fitted.scale.ahead(mean, sd * combination.residuals)
    np.testing.assert_allclose(value, WALK[places], rtol=1e-8)


def test_interval_scale_is_learned_from_residuals(fits):
    combination = combine(fits, ORIGINS, seed=0)
    spread, r = combination.errors(np.arange(6)), np.clip(combination.residuals, -5.0, 5.0)
    # Each value counts once, and half as much as a value 40 steps later.
    rows = combination.ahead.rows
    weights = 0.5 ** ((N - rows) / WIDTH.half_life) / np.bincount(rows)[rows]
    total = WIDTH.prior_count * np.exp(2.0 * WIDTH.log_scale) + weights @ r**2
    expected = np.sqrt(total / (WIDTH.prior_count + weights.sum()))
    expected *= np.exp(WIDTH.widening * np.arange(6) / 8.0)
    np.testing.assert_allclose(spread.scales, expected, rtol=1e-12)
    # At an earlier origin, errors on later values are unknown.
    known = combination.ahead.known
    expected_known = [count for count, steps in ORIGINS for _ in steps]
    np.testing.assert_array_equal(known, expected_known)
    first = combination.errors(np.zeros(1), known[:1]).scales
    np.testing.assert_allclose(first, np.exp(WIDTH.log_scale))


def test_errors_of_given_kernels_are_normal():
    combination = alone(Draws.at_mode(given()), ORIGINS)
    assert combination.errors(np.arange(3)).degrees == np.inf
    np.testing.assert_array_equal(combination.errors(np.arange(3)).scales, 1.0)
    assert len(combination.residuals) == sum(len(origin.steps) for origin in ORIGINS)


# -- whole forecasts -------------------------------------------------------------------------------


def test_forecast_averages_quantiles_of_structures():
    """Quantiles are weighted means of the quantiles of the structures."""
    f = bk.forecast(pd.Series(np.exp(Y), pd.date_range("2015-01-01", periods=N, freq="MS")), 6)
    assert len(f.parts) > 1
    np.testing.assert_allclose(sum(part.weight for part in f.parts), 1.0)
    np.testing.assert_allclose(sum(f.weights["trend"].values()), 1.0)
    np.testing.assert_allclose(sum(f.weights["scale"].values()), 1.0)
    x = f.series.calendar.positions(f.times)
    spread = f.combination.errors(np.arange(6))
    for q in (0.1, 0.5, 0.9):
        expected, error = 0.0, spread.scales * scipy.stats.t(spread.degrees).ppf(q)
        for part in f.parts:
            mean, sd = part.draws.moments(x)
            expected = expected + part.weight * part.fitted.scale.ahead(mean, sd * error)
        np.testing.assert_allclose(f.quantile(q), expected, rtol=1e-9)
    paths = f.sample(20_000, seed=4)
    for p in (0.1, 0.5, 0.9):
        assert np.all(np.abs(np.mean(paths < f.quantile(p), axis=0) - p) < 0.02)


@pytest.mark.parametrize("trend", few(TRENDS, "drift"))
def test_given_trend_is_the_only_structure(trend):
    f = bk.forecast(np.exp(Y), 4, trend=trend, season=12, model=bk.StructuralModel(log=False))
    (part,) = f.parts
    assert part.structure == Structure(trend, False) and f.weights["trend"] == {trend: 1.0}
    assert f.components[0] == "trend" and "season" in f.components


def test_contradictory_options_are_refused():
    with pytest.raises(ValueError, match=r"trend='slop' is not known.*Did you mean 'slope'"):
        bk.forecast(Y, 4, trend="slop")
    with pytest.raises(ValueError, match="replaces all trends; remove trend='slope'"):
        bk.forecast(Y, 4, trend="slope", model=bk.StructuralModel(kernel=KERNEL))
    with pytest.raises(ValueError, match="above zero; the value at"):
        bk.forecast(Y - 5.0, 4, model=bk.StructuralModel(log=True))


# -- series simulated from each structure ----------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("trend", CASES)
def test_weights_by_evidence_recover_true_structure(trend):
    """Equal prior probabilities; 16 of 20 trials."""
    # Past errors never count.
    even = StructureWeights(dict.fromkeys(INTERCEPTS, 0.0), 1.0, 0.0, 0.0, np.inf)
    choices = choices_for(trends=tuple(TRENDS), learned=replace(TABLE, weighing=even))
    rng, right, steps = np.random.default_rng(11), 0, np.arange(120)
    for _ in range(20):
        fits = candidates(steps.astype(float), simulate(trend, rng), choices)
        parts = combine(fits, origins_of(steps, 12), seed=0).parts
        right += sum(p.weight for p in parts if p.structure.trend in CASES[trend].equivalent) > 0.5
    assert right >= 16
