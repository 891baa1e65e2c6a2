"""Columns of effects are those of formulaic, on the data of the fit and on new data."""

import numpy as np
import pandas as pd
import pytest
from formulaic import Formula
from numpy.testing import assert_allclose, assert_array_equal
from scipy.interpolate import BSpline

from bayeskern.formula import regression
from bayeskern.formula.frame import Columns, group_labels
from bayeskern.formula.groups import GroupTerm, Varying
from bayeskern.formula.syntax import parse
from tests.formula.dense import table
from tests.marks import few

FRAME = table().assign(**{"two words": np.arange(48.0) ** 0.5})
NEW = table(1, 12).assign(**{"two words": np.arange(12.0)})
# Inside the range of the data, where B-splines are defined.
NEW["z"] = FRAME["z"].quantile(np.linspace(0.05, 0.95, 12)).to_numpy()
ATOMS = [
    *("x", "z", "`two words`", "f", "C(o)", "log(e)", "I(x ** 2)", "{x * z}", "np.exp(x)"),
    *("poly(x, 2)", "bs(z, df=5)", "scale(x)", "center(z)", "x:z", "x:f", "x * f", "f:C(o)"),
]
EFFECTS = ["x", "z", "f", "scale(x)", "poly(z, 2)", "x:z", "`two words`", "log(e)"]
# Grouping factors, and the factors that they stand for.
GROUPS = {"g": ["g"], "h": ["h"], "g:h": ["g:h"], "g / h": ["g", "g:h"]}


def random_formula(rng):
    """Common effects, and (effects, bar, group) of each group term."""
    start = rng.choice(["1 + ", "0 + "], p=[0.8, 0.2])
    common = start + " + ".join(rng.choice(ATOMS, rng.integers(1, 4), replace=False))
    groups = [
        (
            rng.choice(["", "1 + ", "0 + "])
            + " + ".join(rng.choice(EFFECTS, rng.integers(1, 3), replace=False)),
            rng.choice(["|", "||"]),
            rng.choice(list(GROUPS)),
        )
        for _ in range(rng.integers(0, 3))
    ]
    return common, groups


def matrix(source):
    return Formula(source, _ordering="none").get_model_matrix(FRAME)


# Formulas as R has them, and the same columns by NumPy.
SPELLINGS = {
    "I(o^2)": lambda f: f["o"] ** 2,
    "log1p(e)": lambda f: np.log1p(f["e"]),
    "sqrt(e)": lambda f: np.sqrt(f["e"]),
    "abs(x)": lambda f: np.abs(f["x"]),
    "poly(x, 1, raw=TRUE)": lambda f: f["x"],
    "factor(h == 3)": lambda f: f["h"] == 3,
    "as.factor(h == 3)": lambda f: f["h"] == 3,
}


@pytest.mark.parametrize("source", SPELLINGS)
def test_spelling_of_r(source):
    columns, X = Columns.fit(parse(f"y ~ {source}", FRAME.columns).common, FRAME)
    for frame, values in ((FRAME, X), (NEW, columns(NEW))):
        assert_allclose(values[:, 1], SPELLINGS[source](frame), rtol=1e-14)


def test_trials_may_be_a_number():
    model = regression("o | trials(5) ~ x", FRAME, family="binomial")
    assert_array_equal(model.extra["trials"], np.full(len(FRAME), 5.0))


@pytest.mark.parametrize("seed", few(range(20), *range(3)))
def test_random_formulas(seed):
    rng = np.random.default_rng(seed)
    for _ in range(10):
        common, groups = random_formula(rng)
        text = "y ~ " + " + ".join([common, *(f"({e} {bar} {g})" for e, bar, g in groups)])
        parts = parse(text, FRAME.columns)
        columns, X = Columns.fit(parts.common, FRAME)
        same_columns(columns, X, matrix(common), text)
        wanted = {(e, bar, name) for e, bar, g in groups for name in GROUPS[g]}
        calls = {str(call) for call in parts.groups}
        assert len(calls) <= len(wanted)
        for effects, bar, group in wanted:
            source = effects if effects.startswith("0") else f"1 + {effects.removeprefix('1 + ')}"
            (call,) = (c for c in parts.groups if str(c) == f"{source} {bar} {group}")
            varying, Z = Varying.fit(call, FRAME, 1.0)
            assert varying.correlated == (bar == "|" and Z.shape[1] > 1)
            same_columns(varying.source.value, Z, matrix(source), text)
            same_groups(GroupTerm.fit(varying, group, FRAME), group)


def same_columns(columns, X, expected, text):
    assert_allclose(X, expected.to_numpy(), rtol=1e-12, atol=1e-12, err_msg=text)
    assert list(columns.names) == list(expected.columns)
    new = expected.model_spec.get_model_matrix(NEW).to_numpy()
    assert_allclose(columns(NEW), new, rtol=1e-12, atol=1e-12, err_msg=text)


def same_groups(fitted, group):
    term, codes = fitted
    parts = group.split(":")
    labels = FRAME[parts].astype(str).agg(":".join, axis=1)
    assert_array_equal(term.levels.value[codes].astype(str), labels)
    new = NEW[parts].astype(str).agg(":".join, axis=1)
    known = new.isin(labels).to_numpy()
    codes = term.codes(NEW)
    assert_array_equal(codes == term.count, ~known)
    assert_array_equal(term.levels.value[codes[known]].astype(str), new[known])


def test_transforms_keep_the_state_of_the_data_of_the_fit():
    columns, X = Columns.fit("0 + scale(x) + center(z)", FRAME)
    mean, sd = FRAME["x"].mean(), FRAME["x"].std(ddof=1)
    assert_allclose(columns(NEW)[:, 0], (NEW["x"] - mean) / sd)
    assert_allclose(columns(NEW)[:, 1], NEW["z"] - FRAME["z"].mean())
    # Orthonormal polynomials: on new data the same polynomial of x.
    columns, X = Columns.fit("0 + poly(x, 3)", FRAME)
    assert_allclose(X.T @ X, np.eye(3), atol=1e-12)
    for j in range(3):
        curve = np.polynomial.Polynomial.fit(FRAME["x"], X[:, j], 3)
        assert_allclose(columns(NEW)[:, j], curve(NEW["x"].to_numpy()), atol=1e-10)
    # B-splines with knots at quantiles of z; the first one is left out.
    columns, X = Columns.fit("0 + bs(z, df=5)", FRAME)
    low, high, inner = FRAME["z"].min(), FRAME["z"].max(), FRAME["z"].quantile([1 / 3, 2 / 3])
    knots = np.concatenate([[low] * 4, inner, [high] * 4])
    splines = BSpline.design_matrix(NEW["z"], knots, 3).toarray()[:, 1:]
    assert_allclose(columns(NEW), splines, atol=1e-12)


def test_offsets_keep_the_state_of_the_data_of_the_fit():
    reader = regression("y ~ x + offset(scale(e)) + offset(z)", FRAME).source.value
    mean, sd = FRAME["e"].mean(), FRAME["e"].std(ddof=1)
    assert_allclose(reader.offset(NEW), (NEW["e"] - mean) / sd + NEW["z"])


@pytest.mark.parametrize("source", ["1 + f", "0 + f", "1 + x:f", "1 + C(f)", "0 + f + x"])
def test_a_new_level_of_a_factor_is_an_error_that_names_it(source):
    columns, _ = Columns.fit(source, FRAME)
    new = NEW.assign(f=["unheard", *NEW["f"][1:]])
    with pytest.raises(ValueError, match=r"newdata has the levels 'unheard'.*f\)?: a, b, c"):
        columns(new)


def test_one_level_of_a_factor_has_its_own_column():
    columns, _ = Columns.fit("1 + f", FRAME)
    assert_array_equal(columns(NEW[:1].assign(f="b")), [[1.0, 1.0, 0.0]])
    assert_array_equal(columns(NEW[:1].assign(f="a")), [[1.0, 0.0, 0.0]])


def test_declared_categories_have_columns_in_their_order():
    levels = ["low", "mid", "high"]
    frame = FRAME.assign(f=pd.Categorical(np.resize(levels, 48), levels))
    columns, _ = Columns.fit("1 + f", frame)
    assert columns.names == ("Intercept", "f[T.mid]", "f[T.high]")


def test_a_failed_prediction_does_not_change_the_columns():
    columns, _ = Columns.fit("1 + x + f", FRAME)
    before = columns(NEW)
    with pytest.raises(ValueError, match="of another kind"):
        columns(NEW.assign(x="text"))
    assert_array_equal(columns(NEW), before)
    with pytest.raises(ValueError, match="known levels are f: a, b, c"):
        columns(NEW.assign(f="unheard"))


def test_groups_of_interactions_are_joined_labels():
    frame = pd.DataFrame({"g": ["a", "b"], "two words": [1, 2]})
    assert_array_equal(group_labels("g:`two words`", frame), ["a:1", "b:2"])
