"""Names of parameters in a report: unique, with labels."""

import arviz as az
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from scipy.stats import norm

import bayeskern as bk
from bayeskern.reports import report
from bayeskern.reports.sections.answer import estimates
from bayeskern.reports.sections.convergence import convergence
from bayeskern.reports.subject import Subject
from bayeskern.reports.subject import parameters as all_parameters
from tests.reports.pages import page_of, texts

rng = np.random.default_rng(0)


def many(y):
    th = numpyro.sample("th", dist.Normal(0.0, 1.0).expand([len(y)]).to_event(1))
    numpyro.sample("y", dist.Normal(th, 1.0), obs=y)


def indexed(y):
    """Sites with names like elements of other sites."""
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


def test_names_are_unique_and_carry_labels():
    draws = {"x": np.zeros((5, 2)), "x[0]": np.zeros(5), "w": np.zeros((5, 2, 1))}
    names = [p.name for p in all_parameters(draws, {"w": [["a", "b"], ["c"]]})]
    assert names == ["x[0] at 'x'[0]", "x[1]", "x[0] at 'x[0]'", "w[a, c]", "w[b, c]"]
    # Equal labels are distinguished by their indices.
    repeated = all_parameters({"w": draws["x"]}, {"w": [["a", "a"]]})
    assert len({p.name for p in repeated}) == 2


@pytest.mark.slow
def test_large_site_is_examined_where_chains_mix_worst():
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
    looked_at = len(Subject(posterior).by_name)
    assert 500 <= looked_at < 510
    assert f"{600 - looked_at} of th" in left


@pytest.mark.slow
def test_sites_named_like_elements_keep_their_draws():
    posterior = bk.infer(indexed, rng.normal(size=9), method="laplace", seed=0, progress=False)
    subject = Subject(posterior)
    blocks = list(estimates(subject))
    page = page_of(blocks)
    assert all(attributes.get("class") != "missing" for _, attributes in page.tags)
    ((_, *rows),) = page.tables
    flat = posterior.flat
    wanted = [flat["x[0]"].mean(), *flat["x"].mean(axis=0)]
    np.testing.assert_allclose([float(row[1]) for row in rows], wanted, atol=0.01)
    own = next(name for name, p in subject.by_name.items() if p.site == "x[0]")
    np.testing.assert_array_equal(subject.varying[own].ravel(), flat["x[0]"])
    at = np.array([2.0, 3.0])
    np.testing.assert_allclose(subject.prior_density(own, at), norm.pdf(at, 3.0), rtol=1e-6)


@pytest.mark.slow
def test_labels_in_tables_figures_and_verdict(labelled, tmp_path):
    at = labelled.trust.evidence["mean_shift_at"]
    assert at in ("w[age]", "w[income]") and at in repr(labelled.trust)
    text = report(labelled, tmp_path / "r.html").read_text(encoding="utf-8")
    assert "w[0]" not in text and "w[1]" not in text
    assert f"<td>{at}</td>" in text
    # Rows of tables and panels of figures.
    assert text.count("w[income]") >= 6


def test_posteriors_need_unique_names(labelled, tmp_path):
    for wrong in ({1: labelled, "1": labelled}, {"": labelled, "b": labelled}):
        with pytest.raises(ValueError, match="name of its own"):
            report(wrong, tmp_path / "r.html")
    assert not (tmp_path / "r.html").exists()
