"""Leave-one-out against closed forms, ArviZ and brute-force refits."""

import math
import statistics

import arviz as az
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from scipy.stats import norm

import bayeskern as bk
from bayeskern.diagnostics.leave_one_out.estimates import MATCHED, PSIS, REFITTED
from bayeskern.diagnostics.leave_one_out.loo import FAILURES, loo_by_site, with_refits
from bayeskern.diagnostics.leave_one_out.moment_matching import Matching
from bayeskern.reports.sections.fit import fit
from bayeskern.reports.subject import Subject
from tests.compilations import compilations
from tests.inference.any_draws import AnyDraws
from tests.marks import few
from tests.reports.pages import page_of

RNG = np.random.default_rng(0)
N = 20
X = np.c_[np.ones(N), RNG.normal(size=(N, 2))]
Y = X @ [1.0, 2.0, -1.0] + RNG.normal(size=N)
# A gross outlier with leverage.
OUTLIER = 5
X_BAD, Y_BAD = X.copy(), Y.copy()
X_BAD[OUTLIER], Y_BAD[OUTLIER] = [1.0, 4.0, -4.0], -5.0


def regression(X, y):
    w = numpyro.sample("w", dist.Normal(0.0, 10.0).expand([3]).to_event(1))
    with numpyro.plate("rows", len(X)):
        numpyro.sample("y", dist.Normal(X @ w, 1.0), obs=y)


def closed_form(X, y):
    """log p(y_i | the others) of the regression, by n posteriors in closed form."""
    values = []
    for i in range(len(y)):
        rest = np.arange(len(y)) != i
        precision = X[rest].T @ X[rest] + np.eye(3) / 100.0
        mean = np.linalg.solve(precision, X[rest].T @ y[rest])
        variance = 1.0 + X[i] @ np.linalg.solve(precision, X[i])
        values.append(norm(X[i] @ mean, np.sqrt(variance)).logpdf(y[i]))
    return np.array(values)


TRUTH = closed_form(X_BAD, Y_BAD)


@pytest.fixture(scope="module")
def posterior():
    # Laplace's method is exact here, and its draws are independent.
    return bk.infer(regression, X_BAD, Y_BAD, method="laplace", progress=False)


@pytest.mark.slow
def test_outlier_is_left_out_by_moment_matching(posterior):
    loo = bk.loo(posterior)
    plain = az.loo(posterior.to_arviz(), reff=1.0, pointwise=True)
    k, elpd = plain.pareto_k.values, plain.elpd_i.values
    assert k[OUTLIER] > 1.0 and abs(elpd[OUTLIER] - TRUTH[OUTLIER]) > 3.0
    row = loo.to_frame().loc[f"y[{OUTLIER}]"]
    assert row["how"] == MATCHED and row["psis_khat"] == k[OUTLIER]
    assert row["khat"] <= loo.threshold
    assert abs(row["elpd"] - TRUTH[OUTLIER]) < 4.0 * row["error"]
    assert row["error"] < 0.2
    assert loo.trust.verdict == "good"
    assert abs(loo.elpd - TRUTH.sum()) < 4.0 * loo.monte_carlo_error


def test_error_of_elpd_is_that_of_a_sum_of_n_values(posterior):
    """sqrt(n V), V the sample variance: Vehtari, Gelman and Gabry (2017), equation 23."""
    loo = bk.loo(posterior)
    variance = statistics.variance(loo.estimates.elpd.tolist())
    assert loo.elpd_error == pytest.approx(math.sqrt(N * variance), rel=1e-12)


@pytest.mark.slow
def test_other_values_are_those_of_psis(posterior):
    loo = bk.loo(posterior)
    plain = az.loo(posterior.to_arviz(), reff=1.0, pointwise=True)
    low = loo.estimates.how == PSIS
    assert low.sum() > N / 2
    np.testing.assert_allclose(loo.estimates.elpd[low], plain.elpd_i.values[low], rtol=1e-10)
    np.testing.assert_allclose(loo.estimates.khat[low], plain.pareto_k.values[low], rtol=1e-10)


@pytest.mark.slow
def test_without_high_khat_psis_is_unchanged():
    posterior = bk.infer(regression, X, Y, method=bk.NUTS(draws=2000), progress=False)
    loo = bk.loo(posterior, refit="auto")
    efficiency = bk.diagnostics.leave_one_out.psis.relative_efficiency(posterior)
    plain = az.loo(posterior.to_arviz(), reff=efficiency, pointwise=True)
    assert set(loo.estimates.how) == {PSIS}
    np.testing.assert_allclose(loo.estimates.elpd, plain.elpd_i.values, rtol=1e-10)
    np.testing.assert_allclose(loo.estimates.khat, plain.pareto_k.values, rtol=1e-10)
    np.testing.assert_allclose(
        [loo.elpd, loo.elpd_error, loo.p_loo], [plain.elpd, plain.se, plain.p]
    )
    assert abs(loo.elpd - closed_form(X, Y).sum()) < 5.0 * loo.monte_carlo_error


def refitted(posterior, rows, method):
    """Leave-one-out with refits of some observations, however low their k-hat is."""
    loo = bk.loo(posterior)
    loo.estimates.khat[rows] = np.inf
    return with_refits(loo, posterior, method, len(rows), 0, False)


@pytest.mark.slow
def test_refits_equal_closed_form(posterior):
    rows = [0, OUTLIER]
    loo = refitted(posterior, rows, bk.Laplace())
    found = loo.to_frame().iloc[rows]
    assert set(found["how"]) == {REFITTED} and set(loo.refits) == {"y[0]", f"y[{OUTLIER}]"}
    assert (np.abs(found["elpd"] - TRUTH[rows]) < 4.0 * found["error"]).all()
    # Without moment matching the mean of p(y_i | draw) over the refit misses an outlier by far.
    assert found["error"].max() < 0.1 and found["khat"].max() < loo.threshold


@pytest.mark.slow
def test_same_seed_same_numbers(posterior):
    first, second = (refitted(posterior, [OUTLIER], bk.Laplace()) for _ in range(2))
    np.testing.assert_array_equal(first.estimates.elpd, second.estimates.elpd)
    np.testing.assert_array_equal(
        bk.loo(posterior).estimates.elpd, bk.loo(posterior).estimates.elpd
    )


@pytest.mark.slow
def test_monte_carlo_error_is_calibrated():
    """Over many seeds, reliable estimates have errors with an sd of about one, in their units."""
    z, unreliable = [], 0
    for seed in range(20):
        fitted = bk.infer(regression, X_BAD, Y_BAD, method="laplace", seed=seed, progress=False)
        loo = bk.loo(fitted)
        row = loo.to_frame().iloc[OUTLIER]
        if OUTLIER in loo.unreliable:
            assert loo.trust.verdict != "good"
            unreliable += 1
            continue
        z.append((row["elpd"] - TRUTH[OUTLIER]) / row["error"])
    assert unreliable <= 4
    assert np.sqrt(np.mean(np.square(z))) < 1.6 and abs(np.mean(z)) < 0.8


@pytest.mark.slow
def test_second_call_compiles_nothing():
    """Other data of the same shapes, and another observation."""
    other = np.where(np.arange(N) == 8, 40.0, Y_BAD)
    for y in (Y_BAD, other):
        fitted = bk.infer(regression, X_BAD, y, method="laplace", progress=False)
        before = len(compilations)
        loo = bk.loo(fitted, refit=bk.Laplace())
        assert loo.matched
    assert len(compilations) == before


# -- verdict and text ------------------------------------------------------------------------------


def test_text_and_frame(posterior):
    loo = bk.loo(posterior)
    text = repr(loo)
    assert f"{N} observations: " in text and "by moment matching" in text
    assert "verdict='good'" in text
    frame = loo.to_frame()
    assert list(frame.columns) == ["elpd", "in_sample", "khat", "psis_khat", "error", "how"]
    assert frame["elpd"].sum() == pytest.approx(loo.elpd)
    assert frame.index[3] == "y[3]"


def test_too_influential_names_the_call():
    """A file without its model: no moment can be matched."""
    fitted = bk.infer(regression, X_BAD, Y_BAD, method="laplace", progress=False)
    by_site = loo_by_site(fitted, fitted.log_likelihood(), max_matched=0)
    loo = by_site["y"]
    assert loo.trust.verdict == "bad"
    assert f"y[{OUTLIER}]" in loo.trust.advice and "refit='auto'" in loo.trust.advice


@pytest.mark.slow
def test_report_and_comparison_match_moments(posterior):
    page = page_of(fit(Subject(posterior)))
    table = page.table("leave-one-out", "value")
    (matched,) = (v["value"] for name, v in table.items() if "moment matching" in name)
    loo = bk.loo(posterior)
    assert int(matched) == loo.matched > 0
    assert table["with Pareto k-hat above 0.70"]["value"] == "0"
    assert "before draws were moved" in page.words
    row = bk.compare({"laplace": posterior}).table["laplace"]
    assert row["elpd"] == loo.elpd and row["loo_khat"] == loo.estimates.khat.max()


@pytest.mark.slow
def test_comparison_names_the_call_where_khat_stays_high(posterior, monkeypatch):
    monkeypatch.setattr("bayeskern.diagnostics.leave_one_out.loo.is_costly", lambda target: True)
    text = repr(bk.compare({"laplace": posterior}))
    assert "have a high k-hat" in text and "bk.loo(posterior, refit='auto')" in text
    page = page_of(fit(Subject(posterior)))
    assert f"Too influential for their own prediction: {OUTLIER}" in page.words
    assert "bk.loo(posterior, refit='auto') fits the model without" in page.words


def test_draws_that_are_not_assessed_make_no_verdict():
    loo = bk.loo(bk.infer(regression, X, Y, method=AnyDraws(300), progress=False))
    assert loo.trust.verdict in ("not assessable", "bad")
    assert "These are any draws." in loo.trust.advice or "k-hat" in loo.trust.advice


def test_large_monte_carlo_error_is_caution(posterior):
    loo = bk.loo(posterior)
    loo.estimates.error[:] = 1.0
    assert loo.trust.verdict == "caution" and "Monte Carlo" in loo.trust.advice


@pytest.mark.slow
def test_saved_posterior(posterior, tmp_path):
    posterior.save(tmp_path / "p.nc")
    without = bk.loo(bk.load(tmp_path / "p.nc"))
    assert without.trust.verdict == "bad" and "bk.load(path, model=...)" in repr(without)
    with pytest.raises(ValueError, match=r"need a refit: load the posterior with its model"):
        bk.loo(bk.load(tmp_path / "p.nc"), refit="auto")
    loaded = bk.loo(bk.load(tmp_path / "p.nc", model=regression))
    np.testing.assert_allclose(
        loaded.estimates.elpd[OUTLIER], TRUTH[OUTLIER], atol=4.0 * loaded.estimates.error[OUTLIER]
    )


# -- bad input -------------------------------------------------------------------------------------


def test_bad_input(posterior):
    with pytest.raises(TypeError, match=r"posterior must be a posterior of bk.infer; got dict"):
        bk.loo({})
    with pytest.raises(ValueError, match="Choose from never, auto"):
        bk.loo(posterior, refit="always")
    with pytest.raises(TypeError, match=r"refit must be 'never', 'auto' or a method"):
        bk.loo(posterior, refit=True)
    with pytest.raises(ValueError, match="max_refits"):
        bk.loo(posterior, refit="auto", max_refits=0)
    with pytest.raises(ValueError, match="seed"):
        bk.loo(posterior, seed=-1)
    point = bk.infer(regression, X, Y, method="map", progress=False)
    with pytest.raises(ValueError, match="a point estimate has none"):
        bk.loo(point)


def test_one_observation_and_none():
    def one(y):
        mu = numpyro.sample("mu", dist.Normal(0.0, 1.0))
        numpyro.sample("y", dist.Normal(mu, 1.0), obs=y)

    with pytest.raises(ValueError, match="at least 2 observations"):
        bk.loo(bk.infer(one, 0.3, method="laplace", progress=False))
    with pytest.raises(ValueError, match="no observations"):
        bk.loo(bk.infer(one, None, method=AnyDraws(100), progress=False))


def test_point_methods_and_unknown_methods_of_refits(posterior):
    strange = bk.infer(regression, X_BAD, Y_BAD, method=AnyDraws(1000), progress=False)
    with pytest.raises(ValueError, match=r"'any draws', is unknown here. Pass the method"):
        bk.loo(strange, refit="auto")
    with pytest.raises(ValueError, match="finds a single point"):
        bk.loo(strange, refit=bk.MAP())


def test_failed_refit_keeps_the_estimate(posterior):
    class Fails(AnyDraws):
        def run(self, target, seed, progress):
            raise ValueError("no fit today")

    assert ValueError in FAILURES
    loo = refitted(posterior, [OUTLIER], Fails(10))
    assert "The refit without y[5] failed: no fit today" in loo.remarks[0]
    assert loo.trust.verdict == "bad" and not loo.refits


@pytest.mark.slow
def test_refits_have_a_bound():
    strange = bk.infer(regression, X_BAD, 10.0 * Y_BAD, method=AnyDraws(1000), progress=False)
    loo = bk.loo(strange, refit=bk.Laplace(), max_refits=1)
    assert list(loo.estimates.how).count(REFITTED) == 1
    assert "Raise max_refits" in loo.remarks[0]


# -- powers and factors ----------------------------------------------------------------------------


def scaled(y, power):
    mu = numpyro.sample("mu", dist.Normal(0.0, 10.0))
    with numpyro.plate("rows", len(y)), numpyro.handlers.scale(scale=power):
        numpyro.sample("y", dist.Normal(mu, 1.0), obs=y)


@pytest.mark.slow
@pytest.mark.parametrize("each", few([False, True], True))
@pytest.mark.parametrize("outlier", few([0.0, 5.0], 5.0))
def test_scaled_rows_are_left_out_at_their_power(each, outlier):
    """Closed form: p(y_i | others) of a normal mean whose likelihoods have powers."""
    y = np.random.default_rng(0).normal(3.0, 1.0, 20)
    y[3] += outlier
    power = np.linspace(0.05, 1.5, 20) if each else np.full(20, 0.1)
    method = bk.Laplace(draws=4000)
    argument = power if each else 0.1
    posterior = bk.infer(scaled, y, argument, method=method, seed=0, progress=False)
    precision = 1e-2 + power.sum() - power
    mean = ((power * y).sum() - power * y) / precision
    expected = norm.logpdf(y, mean, np.sqrt(1.0 + 1.0 / precision))
    result = bk.loo(posterior)
    assert np.all(np.abs(result.estimates.elpd - expected) < 5.0 * result.estimates.error)
    assert result.monte_carlo_error < 0.2
    # By draws matched to the posterior without an observation, and by a fit without it.
    matching = Matching.from_posterior(posterior, 4000, 1.0)
    for i in (3, 19):
        left_out = matching.leave_out(matching.observation("y", i))
        assert abs(left_out.elpd - expected[i]) < 5.0 * left_out.error
    refits = refitted(posterior, [3, 19], method).estimates
    assert np.all(np.abs(refits.elpd - expected)[[3, 19]] < 5.0 * refits.error[[3, 19]])


@pytest.mark.slow
def test_a_factor_is_named():
    def model(y):
        mu = numpyro.sample("mu", dist.Normal(0.0, 10.0))
        numpyro.sample("y", dist.Normal(mu, 1.0), obs=y)
        numpyro.factor("censored", norm_log_survival(2.0 - mu))

    norm_log_survival = dist.Normal(0.0, 1.0).log_cdf
    y = np.random.default_rng(0).normal(size=20)
    posterior = bk.infer(model, y, method="laplace", seed=0, progress=False)
    says = "No observation belongs to 'censored' (numpyro.factor)"
    assert says in " ".join(str(bk.loo(posterior)).split())
    assert says in " ".join(bk.compare({"a": posterior, "b": posterior}).remarks)
    assert says in page_of(fit(Subject(posterior))).words
