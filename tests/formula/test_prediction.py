"""Predictions for known groups, new groups and the population."""

import pickle
from functools import cache, partial

import jax
import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import expit

import bayeskern as bk
from bayeskern.formula import regression
from tests.formula.dense import dense_of, posterior_draws, table

FRAME = table()
SCALES = {
    "sd(Intercept | g)": 1.5,
    "sd(x | g)": 0.7,
    "cor(Intercept, x | g)": 0.4,
    "sd(Intercept | g:h)": 0.5,
    "sigma": 0.8,
}
# Covariance of the effects of a group of g.
COV = np.array([[1.5**2, 0.4 * 1.5 * 0.7], [0.4 * 1.5 * 0.7, 0.7**2]])
COUNT = 1000
NEW = pd.DataFrame({"x": [0.5, -1.0, 2.0], "g": ["p", "q", "r"], "h": [0, 0, 1]})


@cache
def fitted():
    """A Gaussian model with known scales: draws of its effects, and their exact posterior."""
    model = regression("y ~ x + (x | g) + (1 | g:h)", FRAME)
    draws = posterior_draws(model, SCALES, COUNT)
    dense = dense_of(model, SCALES)
    return model, draws, *dense.posterior


def columns_of(frame):
    """Columns of all effects at the rows of a table, and of the new groups' effects.

    The order is that of the dense posterior: common effects, intercepts and slopes of g, and
    intercepts of g:h, the larger factor first.
    """
    model = fitted()[0]
    blocks = [np.column_stack([np.ones(len(frame)), frame["x"]])]
    for term in model.groups:
        labels = frame["g"] if term.group == "g" else frame["g"] + ":" + frame["h"].astype(str)
        hot = (labels.to_numpy()[:, None] == np.array(term.levels.value, object)).astype(float)
        blocks += [hot] if term.group == "g:h" else [hot, hot * frame["x"].to_numpy()[:, None]]
    return np.hstack(blocks)


def predict(newdata, **arguments):
    model, draws, _, _ = fitted()
    return model.predictive(draws, (), newdata, **arguments)


def assert_moments(values, mean, cov):
    """Compare draws (S, m) with a Gaussian: means and variances within 4.5 standard errors."""
    sd = np.sqrt(np.diag(cov))
    assert np.all(np.abs(values.mean(axis=0) - mean) < 4.5 * sd / np.sqrt(COUNT))
    errors = 4.5 * np.sqrt(2.0 / COUNT)
    assert np.all(np.abs(values.var(axis=0) / sd**2 - 1.0) < errors)
    correlation = cov / sd / sd[:, None]
    assert np.abs(np.corrcoef(values.T) - correlation).max() < 4.5 / np.sqrt(COUNT)


def test_known_groups():
    _, _, mean, cov = fitted()
    A = columns_of(NEW)
    assert ((A[:, 2:] != 0.0).sum(axis=1) == 3).all()
    eta = predict(NEW, latent=True).draws
    assert_moments(eta, A @ mean, A @ cov @ A.T)
    # New observations have the noise as well.
    y = predict(NEW).draws
    assert_moments(y, A @ mean, A @ cov @ A.T + 0.8**2 * np.eye(3))
    assert_allclose(predict(NEW).mean, eta.mean(axis=0), rtol=1e-9)


def test_a_group_that_is_not_known_is_drawn_from_the_population():
    _, _, mean, cov = fitted()
    frame = NEW.assign(g=["unheard", "unheard", "r"])
    A = columns_of(frame)
    eta = predict(frame, latent=True).draws
    # Rows of the same new group share its effects; g:h has two new groups only if h differs.
    Z = np.column_stack([np.ones(3), frame["x"]]) * (frame["g"] == "unheard").to_numpy()[:, None]
    shared = np.outer([1, 1, 0], [1, 1, 0])
    assert_moments(eta, A @ mean, A @ cov @ A.T + Z @ COV @ Z.T + 0.5**2 * shared)


def test_new_groups_are_drawn_from_the_population():
    _, _, mean, cov = fitted()
    X = np.column_stack([np.ones(3), NEW["x"]])
    common = X @ cov[:2, :2] @ X.T
    # Each label is a group of its own.
    effects = np.diag(np.einsum("ni,ij,nj->n", X, COV, X)) + 0.5**2 * np.eye(3)
    eta = predict(NEW, latent=True, groups="new").draws
    assert_moments(eta, X @ mean[:2], common + effects)
    # Without the columns of the groups, all rows are in one new group.
    eta = predict(NEW[["x"]], latent=True, groups="new").draws
    assert_moments(eta, X @ mean[:2], common + X @ COV @ X.T + 0.5**2)


def test_no_groups():
    _, _, mean, cov = fitted()
    X = np.column_stack([np.ones(3), NEW["x"]])
    eta = predict(NEW[["x"]], latent=True, groups="none").draws
    assert_moments(eta, X @ mean[:2], X @ cov[:2, :2] @ X.T)


@pytest.mark.parametrize("groups", ["known", "new"])
def test_the_same_seed_gives_the_same_numbers(groups):
    frame = NEW.assign(g="unheard")
    first, same, other = (predict(frame, groups=groups, seed=seed).draws for seed in (1, 1, 2))
    assert_array_equal(first, same)
    assert (first != other).any()


def test_tables_of_other_libraries():
    expected = predict(NEW, latent=True).draws
    for newdata in (
        NEW.to_dict("list"),
        pl.from_pandas(NEW),
        NEW[["h", "g", "x"]].set_index("x").reset_index(),
    ):
        assert_array_equal(predict(newdata, latent=True).draws, expected)


def test_the_same_model_of_tables_of_other_libraries(tmp_path):
    formula = "y ~ x + f + (x | g)"
    expected = regression(formula, FRAME)
    FRAME.to_csv(tmp_path / "table.csv.gz", index=False)
    FRAME.to_parquet(tmp_path / "table.parquet")
    for data in (
        FRAME.to_dict("list"),
        pl.from_pandas(FRAME),
        tmp_path / "table.csv.gz",
        str(tmp_path / "table.parquet"),
    ):
        model = regression(formula, data)
        # pandas reads numbers of a CSV file to the last but one digit.
        jax.tree.map(partial(assert_allclose, atol=1e-14), model.rows, expected.rows)
        assert model.priors_used.keys() == expected.priors_used.keys()


def test_means_and_values_of_rows_of_other_families():
    frame = FRAME.assign(k=np.arange(48) % 5, n=4 + np.arange(48) % 2)
    model = regression("k | trials(n) ~ x + offset(z) + (1 | g)", frame, family="binomial")
    draws = posterior_draws(model, {"sd(Intercept | g)": 1.0}, COUNT)
    new = frame[["x", "z", "g", "n"]][:3]
    eta = model.predictive(draws, (), new, latent=True).draws
    codes = [list(model.groups[0].levels.value).index(g) for g in new["g"]]
    by_hand = draws["Intercept"][:, None] + draws["x"][:, None] * new["x"].to_numpy()
    by_hand += new["z"].to_numpy() + draws["Intercept | g"][:, codes]
    assert_allclose(eta, by_hand, rtol=1e-9)
    y = model.predictive(draws, (), new)
    assert_allclose(y.mean, (new["n"].to_numpy() * expit(eta)).mean(axis=0), rtol=1e-9)
    assert y.draws.max(axis=0).tolist() <= new["n"].tolist()
    # Trials beside the table, in place of its column.
    twice = model.predictive(draws, (), new.drop(columns="n"), trials=2 * new["n"].to_numpy())
    assert_allclose(twice.mean, 2.0 * np.asarray(y.mean), rtol=1e-9)


@pytest.fixture(scope="module")
def posterior():
    model = regression("y ~ x + (1 | g)", FRAME)
    return model, bk.infer(model, method="laplace", seed=0, progress=False)


def test_results_pickle_and_are_saved(posterior, tmp_path):
    model, result = posterior
    new = NEW.assign(g=["p", "q", "unheard"])
    expected = result.predict(new, seed=3).draws
    copied = pickle.loads(pickle.dumps(result))
    assert_array_equal(copied.predict(new, seed=3).draws, expected)
    result.save(tmp_path / "posterior.nc")
    loaded = bk.load(tmp_path / "posterior.nc", model)
    assert_array_equal(loaded.predict(new, seed=3).draws, expected)
    for site in ("Intercept", "x", "Intercept | g", "sd(Intercept | g)", "sigma"):
        assert_array_equal(loaded.draws[site], result.draws[site])
    again = pickle.loads(pickle.dumps(model))
    assert repr(again.formulas) == repr(model.formulas)
    jax.tree.map(assert_array_equal, again.rows, model.rows)


def test_factor_that_is_a_group_too_is_saved(tmp_path):
    model = regression("y ~ g + s(z, k=4, by=g) + (1 | g)", FRAME)
    result = bk.infer(model, method="laplace", seed=0, progress=False)
    result.save(tmp_path / "posterior.nc")
    loaded = bk.load(tmp_path / "posterior.nc", model)
    for site in ("g", "Intercept | g", "s(z, k=4, by=g)"):
        assert_array_equal(loaded.draws[site], result.draws[site])
    assert model.dims["Intercept | g"] == ["group g"]
    assert list(model.coords["group g"]) == list("pqrst")


def test_axes_have_the_labels_of_the_groups(posterior):
    model, _ = posterior
    assert list(model.coords["g"]) == list("pqrst")
    assert model.dims["Intercept | g"] == ["g"]
