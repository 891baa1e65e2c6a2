"""Ship damage, housing, the Nile, rats, dyes and the funnel against published and exact results."""

import numpy as np
import pytest
from scipy import stats
from scipy.special import logsumexp

import bayeskern as bk
from bayeskern import gallery
from models import dyes, funnel, housing, rats, ship_damage


def weights_by_feature(name: str, posterior) -> dict:
    """Mean and sd of each weight, by its feature."""
    draws = posterior.flat["weights"].T
    features = gallery.load(name).coords["feature"]
    return {f: (w.mean(), w.std()) for f, w in zip(features, draws, strict=True)}


# -- ship damage -----------------------------------------------------------------------------------


def test_ship_damage_has_the_published_deviance():
    api = pytest.importorskip("statsmodels.api")
    data = ship_damage.data()
    X, y, months = api.add_constant(data["X"]), data["y"], 1000.0 * data["exposure"]
    assert (len(y), y.sum()) == (34, 356) and (months.min(), months.max()) == (45, 44882)
    result = api.GLM(y, X, api.families.Poisson(), exposure=months).fit()
    # McCullagh and Nelder, table 6.3
    assert round(result.deviance, 1) == 38.7 and result.df_resid == 25
    np.testing.assert_array_equal(np.exp(result.params[1:3]).round(2), [0.58, 0.50])
    np.testing.assert_allclose(np.exp(result.params[5:7]), 2.0, atol=0.3)


@pytest.mark.slow
def test_ship_damage_agrees_with_maximum_likelihood():
    api = pytest.importorskip("statsmodels.api")
    posterior = gallery.load("ship_damage").fit("laplace", progress=False)
    data = ship_damage.data()
    X = api.add_constant(data["X"])
    result = api.GLM(data["y"], X, api.families.Poisson(), exposure=data["exposure"]).fit()
    found = weights_by_feature("ship_damage", posterior)
    # The prior is weak, and the likelihood of 356 incidents close to Gaussian.
    for (mean, sd), estimate, error in zip(
        found.values(), result.params[1:], result.bse[1:], strict=True
    ):
        assert abs(mean - estimate) < 0.2 * error and abs(sd / error - 1.0) < 0.1


# -- housing ---------------------------------------------------------------------------------------


@pytest.mark.slow
def test_housing_agrees_with_published_estimates():
    X, answers = housing.data()
    assert X.shape == (1681, 6) and set(answers) == set(housing.ANSWERS)
    posterior = gallery.load("housing").fit("laplace", progress=False)
    # Venables and Ripley, section 7.3
    published = (0.5664, 1.2888, -0.5724, -0.3662, -1.0910, 0.3603)
    found = weights_by_feature("housing", posterior)
    for (mean, sd), estimate in zip(found.values(), published, strict=True):
        assert abs(mean - estimate) < 0.15 * sd
    low, much = (gallery.load("housing").predict[0] @ posterior.flat["weights"].T).mean(axis=1)
    assert round(np.exp(much - low), 1) == pytest.approx(3.6, abs=0.1)


# -- the Nile --------------------------------------------------------------------------------------


@pytest.mark.slow
def test_year_of_the_nile_is_drawn_from_its_conditional():
    pytest.importorskip("funsor")
    posterior = gallery.load("nile").fit("laplace", progress=False)
    draws, last = posterior.flat, np.ravel(posterior.infer_discrete()["last"])
    flow = bk.datasets.load("nile").values
    # log p(flow | last, the rest) for every last year, by cumulative sums.
    before, after = (
        stats.norm(draws[site][:, None], draws["sd"][:, None]).logpdf(flow)
        for site in ("before", "after")
    )
    log_density = (np.cumsum(before - after, axis=1) + after.sum(axis=1, keepdims=True))[:, :-1]
    by_year = np.exp(log_density - logsumexp(log_density, axis=1, keepdims=True)).mean(axis=0)
    drawn = np.bincount(last, minlength=99) / len(last)
    assert 1871 + np.argmax(by_year) == 1871 + np.argmax(drawn) == 1898
    error = np.sqrt(by_year * (1.0 - by_year) / len(last)) + 1e-3
    assert np.all(np.abs(drawn - by_year) < 4.0 * error)


# -- rats ------------------------------------------------------------------------------------------


def test_weights_of_the_rats_that_are_held_back():
    rat, _, weight = rats.data()
    assert len(weight) == 106
    np.testing.assert_array_equal(np.bincount(rat), rats.WEIGHED)
    later, day = gallery.load("rats").predict
    assert len(later) == 44 and list(day[later == 25]) == list(rats.DAYS[1:])


@pytest.mark.slow
def test_growth_of_all_rats_agrees_with_a_mixed_model():
    formula = pytest.importorskip("statsmodels.formula.api")
    rat, week = np.nonzero(np.ones_like(rats.WEIGHTS))
    table = {"rat": rat, "day": rats.DAYS[week] - 22.0, "weight": rats.WEIGHTS.ravel()}
    other = formula.mixedlm("weight ~ day", table, groups="rat", re_formula="~day").fit()
    args = (rat, rats.DAYS[week], table["weight"])
    draws = bk.infer(rats.model, *args, method="nuts", seed=1, progress=False).flat
    for site, column in (("level", "Intercept"), ("growth", "day")):
        # The mixed model lets level and growth correlate.
        assert abs(draws[site].mean() - other.fe_params[column]) < 0.3 * other.bse_fe[column]
    assert abs(draws["noise_sd"].mean() / np.sqrt(other.scale) - 1.0) < 0.05


@pytest.mark.slow
def test_rats_weighed_once_are_forecast_by_the_others():
    problem = gallery.load("rats")
    prediction = problem.fit("nuts", seed=1, progress=False).predict(*problem.predict)
    truth = rats.WEIGHTS[~rats.IS_SEEN]
    lower, upper = prediction.interval(0.95)
    # Errors of a rat are correlated.
    assert np.mean((lower <= truth) & (truth <= upper)) > 0.85
    # Carrying the last weight forward is off by weeks of growth.
    rat = problem.predict[0]
    last = rats.WEIGHTS[rat, rats.WEIGHED[rat] - 1]
    assert np.abs(prediction.mean - truth).mean() < 0.25 * np.abs(last - truth).mean()
    sd = prediction.sd[rat == 25]
    assert np.all(np.diff(sd) > 0.0)


# -- the funnel ------------------------------------------------------------------------------------


@pytest.mark.slow
def test_noncentred_funnel_is_exact_for_laplace():
    posterior = bk.infer(funnel.noncentred, method="laplace", seed=1, progress=False)
    # The kurtosis of x is 3 exp(9), so that no number of draws determines its sd.
    assert posterior.trust.verdict == "caution"
    log_variance = posterior.flat["log_variance"]
    assert stats.kstest(log_variance, stats.norm(0.0, 3.0).cdf).pvalue > 1e-3
    # The mode of the centred density: -v^2 / 18 - 9 v / 2 is largest at -40.5.
    assert bk.infer(funnel.model, method="laplace", seed=1, progress=False).trust.verdict == "bad"


# -- dyes ------------------------------------------------------------------------------------------


def test_dyes_have_the_published_mean_squares():
    means = dyes.YIELDS.mean(axis=1)
    within = dyes.YIELDS.var(axis=1, ddof=1).mean()
    between = 5.0 * means.var(ddof=1)
    assert (between, within) == (11271.5, 2451.25)
    assert round(np.sqrt((between - within) / 5.0), 1) == 42.0 and round(np.sqrt(within), 1) == 49.5


@pytest.mark.slow
def test_dyes_agree_with_quadrature_over_both_sds():
    posterior = gallery.load("dyes").fit("importance", seed=1, progress=False)
    assert posterior.trust.verdict == "good"
    y, means = dyes.YIELDS, dyes.YIELDS.mean(axis=1)
    between, within = np.meshgrid(np.linspace(0.05, 400, 1200), np.linspace(20, 150, 600))
    # Priors: exponential with the sd of y as mean, and a mean of N(mean of y, (2.5 sd of y)^2).
    squares = 4.0 * y.var(axis=1, ddof=1).sum()
    log_density = -24.0 * np.log(within) - 0.5 * squares / within**2 - (between + within) / y.std()
    a, b = between**2 + within**2 / 5.0, 6.25 * y.var()
    centered = means - y.mean()
    log_density -= 2.5 * np.log(a) + 0.5 * np.log(a + 6.0 * b) + 0.5 * centered @ centered / a
    weights = np.exp(log_density - log_density.max())
    for site, grid in {"sd(Intercept | batch)": between, "sigma": within}.items():
        mean = np.average(grid, weights=weights)
        sd = np.sqrt(np.average((grid - mean) ** 2, weights=weights))
        draws = posterior.flat[site]
        # Four standard errors of 4,000 effective draws.
        assert abs(draws.mean() - mean) < 4.0 * sd / np.sqrt(4000.0), site
        np.testing.assert_allclose(draws.std(), sd, rtol=0.1)
