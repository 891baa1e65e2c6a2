"""Stacking weights against ArviZ and a closed form."""

from types import SimpleNamespace

import arviz as az
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest

import bayeskern as bk
from bayeskern.diagnostics.comparison import stacking
from bayeskern.diagnostics.comparison.stacking import stacking_weights

RNG = np.random.default_rng(0)
X = RNG.normal(size=40)
Y = 1.0 + 0.7 * X + RNG.standard_t(3.0, size=40)


def constant(x, y):
    mu = numpyro.sample("mu", dist.Normal(0.0, 3.0))
    sigma = numpyro.sample("sigma", dist.HalfNormal(3.0))
    numpyro.sample("y", dist.Normal(mu, sigma), obs=y)


def line(x, y):
    mu = numpyro.sample("mu", dist.Normal(0.0, 3.0))
    slope = numpyro.sample("slope", dist.Normal(0.0, 3.0))
    sigma = numpyro.sample("sigma", dist.HalfNormal(3.0))
    numpyro.sample("y", dist.Normal(mu + slope * x, sigma), obs=y)


def robust(x, y):
    mu = numpyro.sample("mu", dist.Normal(0.0, 3.0))
    slope = numpyro.sample("slope", dist.Normal(0.0, 3.0))
    sigma = numpyro.sample("sigma", dist.HalfNormal(3.0))
    numpyro.sample("y", dist.StudentT(3.0, mu + slope * x, sigma), obs=y)


def fit(model, method="importance", y=Y):
    return bk.infer(model, X, y, method=method, progress=False)


@pytest.fixture(scope="module")
def posteriors():
    return {"constant": fit(constant), "line": fit(line), "robust": fit(robust)}


@pytest.mark.slow
def test_weights_and_differences_equal_arviz(posteriors):
    table = bk.compare(posteriors).table
    trees = {name: posterior.to_arviz() for name, posterior in posteriors.items()}
    expected = az.compare(
        {name: az.loo(tree, reff=1.0, pointwise=True) for name, tree in trees.items()},
        round_to="none",
    )
    for name, row in table.items():
        assert abs(row["weight"] - expected.loc[name, "weight"]) < 0.01
        assert abs(row["elpd_difference"] - expected.loc[name, "elpd_diff"]) < 1e-6
        assert abs(row["elpd_difference_error"] - expected.loc[name, "dse"]) < 1e-6


@pytest.mark.slow
def test_error_of_weights_is_large_where_data_cannot_tell(posteriors):
    table = bk.compare(posteriors).table
    assert sum(row["weight"] for row in table.values()) == pytest.approx(1.0)
    # Forty observations tell a line from a constant, and hardly normal from Student t noise.
    assert table["constant"]["weight"] < 0.2
    assert table["line"]["weight_error"] > 0.1
    text = str(bk.compare(posteriors))
    assert "stacking" in text and "±" in text


@pytest.mark.slow
def test_weights_without_convergence_are_unknown_with_a_remark(posteriors, monkeypatch):
    failed = SimpleNamespace(x=np.array([0.9, 0.05, 0.05]))
    monkeypatch.setattr(stacking, "minimize", lambda *args, **options: failed)
    comparison = bk.compare(posteriors)
    assert all(np.isnan(row["weight"]) for row in comparison.table.values())
    assert "did not converge" in str(comparison)


@pytest.mark.slow
def test_one_model_by_two_methods_has_no_weights(posteriors):
    methods = {"weights": posteriors["line"], "laplace": fit(line, "laplace")}
    comparison = bk.compare(methods)
    assert "weight" not in comparison.table["laplace"]
    assert "stacking" not in str(comparison)


@pytest.mark.slow
def test_other_data_have_no_weights(posteriors):
    other = fit(robust, y=Y + 1.0)
    table = bk.compare({"line": posteriors["line"], "robust": other}).table
    assert "weight" not in table["line"]


@pytest.mark.slow
def test_other_prior_is_another_model(posteriors):
    def narrow(x, y):
        mu = numpyro.sample("mu", dist.Normal(0.0, 0.1))
        slope = numpyro.sample("slope", dist.Normal(0.0, 3.0))
        sigma = numpyro.sample("sigma", dist.HalfNormal(3.0))
        numpyro.sample("y", dist.Normal(mu + slope * x, sigma), obs=y)

    table = bk.compare({"line": posteriors["line"], "narrow": fit(narrow)}).table
    # The mean is 1, which the narrow prior forbids.
    assert table["line"]["weight"] > 0.9


def test_weights_are_shares_of_disjoint_experts():
    """Each observation is possible under one model only: weights are their shares."""
    densities = np.repeat(np.eye(2), [6, 2], axis=0)
    np.testing.assert_allclose(stacking_weights(densities, np.ones(8)), [0.75, 0.25], atol=1e-6)
    counts = np.repeat([1.0, 9.0], [6, 2])
    np.testing.assert_allclose(stacking_weights(densities, counts), [0.25, 0.75], atol=1e-6)
