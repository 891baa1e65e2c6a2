"""One name for each number in all of a report, and no number lost for its name or its site."""

import arviz as az
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest

import bayeskern as bk
from bayeskern.diagnostics.report import report
from bayeskern.diagnostics.report.sections.convergence import convergence
from bayeskern.diagnostics.report.sections.parameters import parameters
from bayeskern.diagnostics.report.subject import Subject, parameter_names, parameters_per_site
from tests.diagnostics.report.pages import page_of, texts

rng = np.random.default_rng(0)


def many(y):
    th = numpyro.sample("th", dist.Normal(0.0, 1.0).expand([len(y)]).to_event(1))
    numpyro.sample("y", dist.Normal(th, 1.0), obs=y)


def indexed(y):
    """Sites that are called as the numbers of others are."""
    one = numpyro.sample("x[0]", dist.Normal(3.0, 1.0))
    two = numpyro.sample("x", dist.Normal(-3.0, 1.0).expand([2]).to_event(1))
    numpyro.sample("y", dist.Normal(one + two.sum(), 1.0).expand([len(y)]).to_event(1), obs=y)


def regression(x, y):
    w = numpyro.sample("w", dist.Normal(0.0, 1.0).expand([2]).to_event(1))
    numpyro.sample("y", dist.Normal(x @ w, 1.0).to_event(1), obs=y)


@pytest.fixture(scope="module")
def labelled():
    x = rng.normal(size=(30, 2))
    axes = {"coords": {"column": ["age", "income"]}, "dims": {"w": ["column"]}}
    y = x @ np.array([1.0, 2.0])
    return bk.infer(regression, x, y, method="laplace", seed=0, progress=False, **axes)


def test_names_are_their_own_and_carry_labels():
    draws = {"x": np.zeros((5, 2)), "x[0]": np.zeros(5), "w": np.zeros((5, 2, 1))}
    found = parameter_names(draws, {"w": [["a", "b"], ["c"]]})
    assert found["w"] == ["w[a,c]", "w[b,c]"]
    every = [name for names in found.values() for name in names]
    assert len(set(every)) == len(every) == 5
    assert found["x"][1] == "x[1]" and "'x[0]'" in found["x[0]"][0]
    # Labels that are the same are told apart by their places.
    assert len(set(parameter_names({"w": draws["x"]}, {"w": [["a", "a"]]})["w"])) == 2


def test_small_sites_are_looked_at_whole_and_large_ones_in_part():
    found = parameters_per_site({"f": 10_000, "a": 1, "g": 20_000, "b": 99}, 500, 12)
    assert found == {"a": 1, "b": 99, "f": 200, "g": 200}
    assert parameters_per_site({"f": 13, "g": 9}, 10, 12) == {"f": 12, "g": 9}


@pytest.mark.slow
def test_a_large_site_is_looked_at_where_the_chains_mix_worst():
    method = bk.NUTS(chains=2, warmup=30, draws=30)
    posterior = bk.infer(many, rng.normal(size=600), method=method, seed=0, progress=False)
    blocks = list(convergence(Subject(posterior)))
    table, left = page_of(blocks).tables[0], texts(blocks)[0]
    rhat = az.rhat(posterior.to_arviz()["posterior"].to_dataset())["th"].values
    head, *rows = table
    assert f"th[{rhat.argmax()}]" in {row[0] for row in rows}
    for name, *cells in rows:
        row = dict(zip(head[1:], cells, strict=True))
        np.testing.assert_allclose(float(row["r_hat"]), rhat[int(name[3:-1])], rtol=1e-3)
    looked_at = len(Subject(posterior).locations)
    assert 500 <= looked_at < 510
    assert f"{600 - looked_at} of th" in left


@pytest.mark.slow
def test_sites_called_as_numbers_keep_their_draws_and_priors():
    posterior = bk.infer(indexed, rng.normal(size=9), method="laplace", seed=0, progress=False)
    subject = Subject(posterior)
    blocks = list(parameters(subject))
    page = page_of(blocks)
    assert all(attributes.get("class") != "missing" for _, attributes in page.tags)
    ((_, *rows),) = page.tables
    flat = posterior.flat
    wanted = [flat["x[0]"].mean(), *flat["x"].mean(axis=0)]
    np.testing.assert_allclose([float(row[1]) for row in rows], wanted, atol=0.01)
    shapes = {site: subject.prior_draws(site).shape[1:] for site in ("x[0]", "x")}
    assert shapes == {"x[0]": (), "x": (2,)}
    own = next(name for name, (site, _) in subject.locations.items() if site == "x[0]")
    np.testing.assert_array_equal(subject.examined_draws[own].ravel(), flat["x[0]"])


@pytest.mark.slow
def test_a_number_has_its_label_in_tables_figures_and_verdict(labelled, tmp_path):
    at = labelled.trust.evidence["mean_shift_at"]
    assert at in ("w[0]", "w[1]")
    text = report(labelled, tmp_path / "r.html").read_text(encoding="utf-8")
    assert "w[0]" not in text and "w[1]" not in text
    wanted = {"w[0]": "w[age]", "w[1]": "w[income]"}[at]
    assert f"most at {wanted}" in text
    # A row of each table, a panel of each figure.
    assert text.count("w[income]") >= 6


def test_two_posteriors_of_one_name_or_one_without_are_refused(labelled, tmp_path):
    for wrong in ({1: labelled, "1": labelled}, {"": labelled, "b": labelled}):
        with pytest.raises(ValueError, match="name of its own"):
            report(wrong, tmp_path / "r.html")
    assert not (tmp_path / "r.html").exists()
