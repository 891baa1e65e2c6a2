"""Comparisons of posteriors against closed forms, ArviZ and SciPy."""

import arviz as az
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from scipy.stats import norm, wasserstein_distance

import bayeskern as bk
from bayeskern.diagnostics.comparison import marginals_plot
from bayeskern.diagnostics.leave_one_out.loo import loo_by_site
from tests.inference.any_draws import AnyDraws

rng = np.random.default_rng(0)
Y = rng.normal(1.0, 2.0, size=30)


def model(y):
    mu = numpyro.sample("mu", dist.Normal(0.0, 3.0))
    sigma = numpyro.sample("sigma", dist.HalfNormal(3.0))
    with numpyro.plate("rows", len(y)):
        numpyro.sample("y", dist.Normal(mu, sigma), obs=y)


def fit(method):
    return bk.infer(model, Y, method=method, progress=False)


@pytest.fixture(scope="module")
def posteriors():
    methods = {"point": bk.MAP(jacobian=True), "laplace": "laplace", "mean field": "svi"}
    methods |= {"weights": "importance", "nuts": bk.NUTS(warmup=500, draws=1500)}
    return {name: fit(method) for name, method in methods.items()}


def test_differences_match_the_draws(posteriors):
    found = bk.compare(posteriors, reference="nuts").parameters["laplace"]["sigma"]
    x, y = (posteriors[name].draws["sigma"].ravel() for name in ("laplace", "nuts"))
    np.testing.assert_allclose(found["mean_error"], (x.mean() - y.mean()) / y.std())
    np.testing.assert_allclose(found["sd_ratio"], x.std() / y.std())
    np.testing.assert_allclose(found["wasserstein"], wasserstein_distance(x, y) / y.std())
    # A Gaussian in log sigma is close to the posterior, but not equal.
    assert abs(found["mean_error"]) < 0.6


def test_default_reference(posteriors):
    assert posteriors["nuts"].trust.verdict == "good"
    comparison = bk.compare(posteriors)
    assert comparison.reference == "nuts"
    assert set(comparison.parameters) == {"point", "laplace", "mean field", "weights"}
    without = bk.compare({name: posteriors[name] for name in ("point", "laplace")})
    assert without.reference is None
    assert without.parameters == {}


def test_point_estimate_has_no_densities(posteriors):
    comparison = bk.compare(posteriors, reference="nuts")
    row = comparison.table["point"]
    assert row["draws"] == 1
    assert row["verdict"] == "not assessable"
    assert np.isnan([row[n] for n in ("elpd", "elbo", "log_evidence", "ess_per_second")]).all()
    assert comparison.parameters["point"]["mu"]["sd_ratio"] == 0.0


def test_elpd_matches_arviz(posteriors):
    row = bk.compare(posteriors).table["nuts"]
    expected = az.loo(posteriors["nuts"].to_arviz())
    assert abs(row["elpd"] - expected.elpd) < 0.02
    assert abs(row["elpd_error"] - expected.se) < 0.02
    # Approximately the log density at the fitted mean and sd, minus two parameters.
    plain = norm(Y.mean(), Y.std()).logpdf(Y).sum() - 2.0
    assert abs(row["elpd"] - plain) < 1.0


@pytest.mark.slow
def test_densities_of_other_data_are_left_out(posteriors, tmp_path):
    posteriors["laplace"].save(tmp_path / "laplace.nc")
    fewer = bk.infer(model, Y[:20], method="laplace", progress=False)
    moved = bk.infer(model, Y + 1.0, method="laplace", progress=False)
    found = bk.compare(
        {
            "fewer": fewer,
            "moved": moved,
            "nuts": posteriors["nuts"],
            "loaded": bk.load(tmp_path / "laplace.nc"),
        }
    )
    for what in ("elpd", "elbo", "log_evidence"):
        known = {name: not np.isnan(row[what]) for name, row in found.table.items()}
        assert not known["fewer"] and not known["moved"]
        assert known["loaded"] and known["nuts"] == (what == "elpd")
    elpd = {name: row["elpd"] for name, row in found.table.items()}
    # Posteriors of the same data as the reference keep their values.
    alone = bk.compare({name: posteriors[name] for name in ("laplace", "nuts")}).table
    assert elpd["nuts"] == alone["nuts"]["elpd"]
    # Without its model, moments of a loaded posterior are not matched.
    laplace = posteriors["laplace"]
    unmatched = loo_by_site(laplace, laplace.log_likelihood(), max_matched=0)["y"]
    np.testing.assert_allclose(elpd["loaded"], unmatched.elpd, rtol=1e-10)
    assert len(found.remarks) == 2 + (len(unmatched.unreliable) > 0)
    said = " ".join(repr(found).split())
    assert "log evidence and ELBO of fewer are left out, because its data differ from those" in said
    assert not any("left out" in remark for remark in bk.compare(posteriors).remarks)


@pytest.mark.slow
def test_log_evidence_of_other_data_is_left_out():
    def one(y):
        mu = numpyro.sample("mu", dist.Normal(0.0, 3.0))
        numpyro.sample("y", dist.Normal(mu, 1.0), obs=y)

    found = {
        name: bk.infer(one, y, method=bk.Laplace(draws=100), progress=False)
        for name, y in {"first": 1.0, "same": 1.0, "other": 2.0}.items()
    }
    table = bk.compare(found).table
    # mu and y are jointly normal, so that Laplace is exact: y ~ N(0, 10).
    for name in ("first", "same"):
        assert table[name]["log_evidence"] == pytest.approx(norm(0.0, 10**0.5).logpdf(1.0))
        assert not np.isnan(table[name]["elbo"])
    assert np.isnan([table["other"]["log_evidence"], table["other"]["elbo"]]).all()
    remark = "The elpd, log evidence and ELBO of other are left out"
    assert [r[: len(remark)] for r in bk.compare(found).remarks] == [remark]


@pytest.mark.slow
def test_updated_model_has_other_data():
    x = rng.normal(size=30)
    blr = bk.BayesianLinearRegression()
    whole = bk.infer(blr, x, Y, method="laplace", progress=False)
    updated = blr.update(x[:10], Y[:10])
    after = bk.infer(updated, x[10:], Y[10:], method="laplace", progress=False)
    found = bk.compare({"whole": whole, "after": after})
    assert np.isnan(found.table["after"]["elpd"]) and not np.isnan(found.table["whole"]["elpd"])
    assert found.remarks


def test_cost_and_effective_draws(posteriors):
    table = bk.compare(posteriors).table
    for name, posterior in posteriors.items():
        assert table[name]["seconds"] == posterior.timing["total"]
        assert table[name]["method"] == posterior.method
        assert table[name]["verdict"] == posterior.trust.verdict
    nuts, evidence = table["nuts"], posteriors["nuts"].trust.evidence
    np.testing.assert_allclose(nuts["ess_per_second"] * nuts["seconds"], evidence["ess_bulk"])
    assert table["laplace"]["elbo"] <= table["weights"]["log_evidence"] + 0.02


def test_table(posteriors):
    text = repr(bk.compare(posteriors, reference="nuts"))
    lines = text.splitlines()
    assert max(len(line) for line in lines) <= 120
    assert lines[0].split()[:3] == ["method", "verdict", "seconds"]
    assert "not assessable" in lines[1]
    assert "against nuts, the worst parameter of each:" in lines
    assert "nan" not in text


def test_frames(posteriors):
    comparison = bk.compare(posteriors, reference="nuts")
    frame = comparison.to_frame()
    assert list(frame.index) == list(posteriors)
    assert frame.loc["nuts", "verdict"] == "good"
    parameters = comparison.parameters_to_frame()
    assert parameters.loc[("laplace", "mu"), "sd_ratio"] == pytest.approx(
        comparison.parameters["laplace"]["mu"]["sd_ratio"]
    )


def test_plot_shows_the_parameters(posteriors):
    comparison = bk.compare(posteriors)
    figure = comparison.plot()
    assert [axis.get_ylabel() for axis in figure.axes[::2]] == ["mu", "sigma"]
    figure = comparison.plot(["sigma"])
    assert len(figure.axes) == 2
    labels = [text.get_text() for text in figure.axes[1].get_yticklabels()]
    assert labels == list(posteriors)
    with pytest.raises(ValueError, match="Did you mean 'sigma'"):
        comparison.plot(["sigm"])


def test_density_integrates_to_its_share():
    x = rng.normal(size=4000)
    figure = marginals_plot.marginals({"one": {"x": x}}, ["x"])
    curve = figure.axes[0].lines[0]
    area = np.trapezoid(curve.get_ydata(), curve.get_xdata())
    low, high = figure.axes[0].get_xlim()
    assert abs(area - np.mean((x > low) & (x < high))) < 0.02


def test_bad_arguments():
    for wrong in ({}, [1]):
        with pytest.raises(ValueError, match="posteriors must be a dict"):
            bk.compare(wrong)
    with pytest.raises(TypeError, match="b must be a posterior of bk.infer; got float"):
        bk.compare({"b": 3.0})


@pytest.mark.slow
def test_unknown_reference_or_model_is_refused(posteriors):
    with pytest.raises(ValueError, match="Did you mean 'nuts'"):
        bk.compare(posteriors, reference="nutz")

    def another():
        numpyro.sample("x", dist.Normal())

    other = bk.infer(another, method=AnyDraws(100), progress=False)
    with pytest.raises(ValueError, match="share no site"):
        bk.compare({"other": other, "nuts": posteriors["nuts"]})
