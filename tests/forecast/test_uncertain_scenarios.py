"""Scenarios with uncertain regressors, against mixtures over draws and simulation."""

from dataclasses import replace

import numpy as np
import numpyro.distributions as dist
import pandas as pd
import pytest
from scipy import stats
from scipy.special import logsumexp

import bayeskern as bk
from bayeskern.kernels import RBF
from tests.forecast.shop import AHEAD, CHANGES, DAYS, MAP, QUANTILES, N, fit, shop
from tests.marks import few


def brute_force(f, draws, other=None):
    """A scenario for each draw of the price."""
    return [f.scenario(price=row, **(other or {})) for row in draws]


@pytest.mark.parametrize("kind", few(["average", "kernel", "one"], "one"))
def test_uncertain_scenario_is_a_mixture_over_draws(kind, one, average):
    kernel = {"effect_kernels": {"price": RBF(1.0, 1.0)}}
    f = one if kind == "one" else average
    if kind == "kernel":
        f = fit(shop(), model=replace(MAP, **kernel))
    draws = np.random.default_rng(1).normal(5.0, 0.6, (25, AHEAD))
    g, each = f.scenario(price=draws), brute_force(f, draws)
    means, sds = (np.array([getattr(e, name) for e in each]) for name in ("mean", "sd"))
    np.testing.assert_allclose(g.mean, means.mean(axis=0), rtol=1e-8)
    variance = np.mean(sds**2, axis=0) + np.var(means, axis=0)
    np.testing.assert_allclose(g.sd, np.sqrt(variance), rtol=1e-6)
    y = g.quantile(QUANTILES)
    for p, row in zip(QUANTILES, y, strict=True):
        below = np.mean([e._predictive.below(row) for e in each], axis=0)
        np.testing.assert_allclose(below, p, atol=1e-3)
        np.testing.assert_allclose(g._predictive.below(row), below, atol=1e-8)
    densities = logsumexp([e.log_density(y[2]) for e in each], axis=0) - np.log(len(draws))
    np.testing.assert_allclose(g.log_density(y[2]), densities, atol=1e-6)
    # Joint draws have the covariance of the mixture, within their error.
    covariance = np.cov(means.T, bias=True)
    correlations = [part.weight * part.draws.correlation(f.series.calendar.positions(f.times))
                    for part in f.parts]  # fmt: skip
    covariance = covariance + np.mean([np.outer(s, s) for s in sds], axis=0) * sum(correlations)
    sampled = np.cov(g.sample(20_000).T)
    np.testing.assert_allclose(sampled, covariance, atol=0.06 * np.diag(covariance).max())


def test_normal_regressor_with_linear_effect_in_closed_form(one):
    """y = g + b x with x ~ N(m, t^2): the variance is Var(y | m) + t^2 E[b^2]."""
    m, t = 5.2, 0.7
    g, known = one.scenario(price=stats.norm(m, t)), one.scenario(price=m)
    effects = one.choices.effects
    mean, variance = one.parts[0].fitted.density.coefficients(one.parts[0].fitted.mode[None])
    column = effects.columns.index("price")
    unit = one.scale.size * effects.units[column]
    width = one.combination.errors(np.arange(AHEAD))
    square = unit**2 * (mean[0, column] ** 2 + variance[0, column] * (width.sd * width.scales) ** 2)
    expected = np.sqrt(known.variance + t**2 * square)
    # One draw in each of 400 equally likely intervals.
    np.testing.assert_allclose(g.sd, expected, rtol=0.01)
    np.testing.assert_allclose(g.mean, known.mean, atol=0.01)
    assert np.all(g.sd > 1.2 * known.sd)


@pytest.mark.slow
def test_distributions_and_forecasts_are_their_draws(one):
    x, S = CHANGES["price"], 400
    cov = 0.04 * np.eye(AHEAD) + 0.09
    for value, sd in (
        (stats.norm(x, 0.3), 0.3),
        (stats.gamma(100.0, scale=0.05), 0.5),
        (stats.multivariate_normal(x, cov), np.sqrt(0.13)),
        (stats.Normal(mu=5.0, sigma=0.3), 0.3),
        (stats.Normal(mu=x, sigma=0.3), 0.3),
        (dist.Normal(5.0, 0.3), 0.3),
        (dist.Normal(x, 0.3), 0.3),
        (dist.MultivariateNormal(x, cov), np.sqrt(0.13)),
    ):
        effects = one.scenario(price=value).choices.effects
        prices = effects.in_units(effects.draws)[..., effects.columns.index("price")]
        assert prices.shape == (S, AHEAD)
        np.testing.assert_allclose(prices.std(axis=0), sd, rtol=0.2)
    # A forecast of the price from one day later knows the first price.
    prices = pd.Series(shop()["price"].to_numpy(), DAYS)[: N + 1]
    ahead = bk.forecast(prices, AHEAD, season=0, trend="reverting", model=MAP)
    draws = np.column_stack([np.full(S, prices.iloc[-1]), ahead.sample(S, seed=one.seed)[:, :-1]])
    by_forecast, by_draws = one.scenario(price=ahead), one.scenario(price=draws)
    np.testing.assert_array_equal(by_forecast.median, by_draws.median)
    assert np.all(by_forecast.sd[1:] > one.scenario(price=ahead.mean).sd[1:])


def test_draws_of_several_regressors_belong_together(one):
    rng = np.random.default_rng(2)
    price = rng.normal(5.0, 0.5, (30, 1))
    promo = (price > 5.0).astype(float)
    g = one.scenario(price=price, promo=promo)
    each = [one.scenario(price=p, promo=on) for p, on in zip(price[:, 0], promo[:, 0], strict=True)]
    np.testing.assert_allclose(g.mean, np.mean([e.mean for e in each], axis=0), rtol=1e-8)
    spread = np.var([e.mean for e in each], axis=0) + np.mean([e.variance for e in each], axis=0)
    np.testing.assert_allclose(g.variance, spread, rtol=1e-8)
    # One after the other, too.
    in_turn = one.scenario(price=price).scenario(promo=promo)
    np.testing.assert_allclose(in_turn.mean, g.mean, rtol=1e-12)
    certain = in_turn.scenario(price=5.0, promo=0)
    assert certain.choices.effects.draws is None
    with pytest.raises(ValueError, match="promo has 7 draws and this scenario has 30"):
        in_turn.scenario(promo=np.ones((7, AHEAD)) * np.arange(7)[:, None])


def test_forecast_with_a_forecast_of_a_regressor(one):
    """The fit takes the past of the price, and the forecast all of its draws."""
    frame = shop().set_index("day")
    ahead = bk.forecast(frame["price"][:N], AHEAD, season=0, trend="reverting", model=MAP)
    f = bk.forecast(
        frame["y"][:N], AHEAD, season=0, trend="drift", model=MAP,
        regressors={"promo": frame["promo"], "price": ahead},
    )  # fmt: skip
    expected = one.scenario(price=ahead)
    np.testing.assert_allclose(f.quantile(QUANTILES), expected.quantile(QUANTILES), rtol=1e-8)
    assert any("averaged over draws: price" in remark for remark in f.remarks)
    with pytest.raises(ValueError, match="price must be a pandas Series.*list"):
        bk.forecast(frame["y"][:N], AHEAD, regressors={"price": [1.0]})
    with pytest.raises(ValueError, match="index of price has repeated times"):
        twice = pd.concat([frame["price"], frame["price"][:1]])
        bk.forecast(frame["y"][:N], AHEAD, regressors={"price": twice, "promo": frame["promo"]})
    with pytest.raises(ValueError, match="price has no value at 2023-04-01, in the future"):
        bk.forecast(frame["y"][:N], AHEAD, regressors={"price": frame["price"][:N]})


@pytest.mark.slow
def test_uncertain_scenario_of_counts_is_wider_by_simulation():
    frame = shop()
    rng = np.random.default_rng(3)
    y = rng.poisson(np.exp(1.5 + 0.4 * frame["promo"] - 0.8 * (frame["price"] - 5.0)))
    frame["y"] = np.where(np.arange(N + AHEAD) < N, y, np.nan)
    f = fit(frame, likelihood="poisson", model=bk.StructuralModel())
    draws = rng.normal(5.0, 0.5, (100, AHEAD))
    g = f.scenario(price=draws)
    samples = np.concatenate([e.sample(200) for e in brute_force(f, draws)])
    # 192 pairs of hyperparameters and prices.
    np.testing.assert_allclose(g.mean, samples.mean(axis=0), rtol=0.1)
    np.testing.assert_allclose(g.sd, samples.std(axis=0), rtol=0.15)
    assert np.all(g.sd > 1.1 * f.scenario(price=5.0).sd)
    np.testing.assert_allclose(g.sample(20_000).mean(axis=0), g.mean, rtol=0.03)
    # Paired counts: the differences are those of the means, without the noise of two samples.
    cheaper = f.scenario(price=4.5)
    base = f.scenario(price=5.0)
    comparison = bk.compare_scenarios({"base": base, "cheaper": cheaper, "uncertain": g})
    for name, h in comparison.forecasts.items():
        np.testing.assert_allclose(comparison.draws[name].mean(axis=0), h.mean, rtol=0.05)
        np.testing.assert_allclose(comparison.draws[name].std(axis=0), h.sd, rtol=0.1)
    difference = comparison.differences["cheaper"]
    assert np.mean(difference >= 0.0) > 0.99
    assert np.all(difference.std(axis=0) < 0.6 * np.hypot(base.sd, cheaper.sd))
