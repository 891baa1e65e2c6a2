"""Bad input of regressions gets an error or a warning that says what to do."""

import warnings
from functools import cache

import numpy as np
import numpyro.distributions as dist
import pandas as pd
import pytest

import bayeskern as bk
from bayeskern.formula import regression
from tests.formula.dense import posterior_draws, table

N = 48
RNG = np.random.default_rng(3)
FRAME = table().assign(
    count=RNG.poisson(3.0, N),
    yes=RNG.integers(0, 2, N),
    five=5,
    text=np.resize(["u", "v", "w"], N),
    day=pd.date_range("2024-01-01", periods=N),
    row=np.arange(N),
    side=np.where(table()["x"] > 0.0, 1, 0),
)


def put(column, row, value):
    values = FRAME[column].to_numpy(float, copy=True)
    values[row] = value
    return FRAME.assign(**{column: values})


# name: formula, changed data, other arguments, type and message of the error
ERRORS = {
    "column": ("y ~ xx", FRAME, {}, r"data has no column 'xx'.*Did you mean 'x'"),
    "group": ("y ~ (1 | gg)", FRAME, {}, r"data has no column 'gg'.*Did you mean 'g'"),
    "group by": ("y ~ s(x, by=gg)", FRAME, {}, r"no column 'gg'.*Did you mean 'g'"),
    "response": ("yy ~ x", FRAME, {}, r"data has no column 'yy'.*Did you mean 'y'"),
    "offset": ("y ~ offset(ee)", FRAME, {}, r"no column 'ee'.*Did you mean 'e'"),
    "trials": ("yes | trials(fiv) ~ x", FRAME, {"family": "binomial"}, "Did you mean 'five'"),
    "expression of groups": ("y ~ (1 | log(e))", FRAME, {}, r"no column 'log\(e\)'.*grouping"),
    "columns": ("y ~ x", FRAME[["y", "x", "x"]], {}, "two columns with the name 'x'"),
    "lengths": ("y ~ x", {"y": [1.0, 2.0], "x": [1.0]}, {}, "lists of the same length"),
    "no rows": ("y ~ x", FRAME[:0], {}, "data has no rows"),
    "all missing": ("y ~ x", FRAME.assign(x=np.nan), {}, "48 rows of 48 lack a value in x"),
    "not finite": ("y ~ x", put("x", 3, np.inf), {}, "x is inf in row 3 of data"),
    "response not finite": ("y ~ x", put("y", 3, np.inf), {}, "infinite, the first in row 3"),
    "logarithm": ("y ~ log(x)", put("x", slice(None), -1.0), {}, r"log\(x\) is nan in row 0"),
    "constant response": ("y ~ x", FRAME.assign(y=1.0), {}, r"y is constant \(1.0 in all 48"),
    "classes": ("text ~ x", FRAME, {"family": "categorical"}, "Use bk.BayesianGLM"),
    "parts": ("y ~ x", FRAME, {"family": "dirichlet"}, "Use bk.BayesianGLM"),
    "text response": ("text ~ x", FRAME, {}, "y must be numeric"),
    "dates": ("y ~ day", FRAME, {}, "'1 \\+ day' cannot be evaluated.*make dates numbers"),
    "negative count": ("count ~ x", put("count", 7, -1), {"family": "poisson"}, "row 7: -1.0"),
    "half a count": ("count ~ x", put("count", 7, 1.5), {"family": "poisson"}, "row 7: 1.5"),
    "more than trials": (
        "count | trials(five) ~ x",
        put("count", slice(None), 5).assign(five=np.where(np.arange(N) == 7, 4, 5)),
        {"family": "binomial"},
        r"row 7: 5.0 \(trials 4\)",
    ),
    "trials without use": ("y | trials(five) ~ x", FRAME, {}, "Gaussian takes no trials"),
    "three classes": ("text ~ x", FRAME, {"family": "bernoulli"}, r"3 \('u', 'v', 'w'\)"),
    "weight of 0": ("y | weights(w) ~ x", put("w", 4, 0), {}, "above 0; row 4 has 0.0"),
    "negative weight": ("y | weights(w) ~ x", put("w", 4, -1), {}, "above 0; row 4 has -1.0"),
    "text of an offset": ("y ~ offset(text)", FRAME, {}, "text must be one column of numbers"),
    "family": ("y ~ x", FRAME, {"family": "poison"}, "Did you mean 'poisson'"),
    "prior": ("y ~ x", FRAME, {"priors": {"xx": dist.Normal()}}, "'xx'.*Did you mean 'x'"),
    "prior of a count": ("y ~ x", FRAME, {"priors": {"x": dist.Poisson(3.0)}}, "continuous"),
    "prior of sigma": (
        "y ~ x",
        FRAME,
        {"priors": {"sigma": dist.Normal()}},
        "prior of 'sigma' must be.*-2 is not; got Normal",
    ),
    "prior of an sd": (
        "y ~ (1 | g)",
        FRAME,
        {"priors": {"sd(Intercept | g)": dist.Normal()}},
        r"prior of 'sd\(Intercept \| g\)' must be.*dist.HalfNormal",
    ),
    "prior of a correlation": (
        "y ~ (x | g)",
        FRAME,
        {"priors": {"cor(Intercept, x | g)": dist.HalfNormal()}},
        "2 is not; got HalfNormal",
    ),
    "parameter": (("y ~ x", "tau ~ x"), FRAME, {}, "'tau' is not known. Choose from sigma"),
    "no parameter": (("count ~ x", "sigma ~ x"), FRAME, {"family": "poisson"}, "Leave it out"),
    "groups of sigma": (("y ~ x", "sigma ~ (1 | g)"), FRAME, {}, r"has \(1 \| g\); it can have"),
    "smooth of sigma": (("y ~ x", "sigma ~ s(x)"), FRAME, {}, r"has s\(x\); it can have"),
    "no formula": ((), FRAME, {}, "formula must be text"),
    "number": (3, FRAME, {}, "formula must be text.*got 3"),
    "name of sigma": ("y ~ sigma", FRAME.assign(sigma=FRAME["x"]), {}, "Rename the column"),
    "name of y": ("z ~ y", FRAME, {}, "the column 'y' has the name of another part"),
    "name of the intercept": ("y ~ Intercept", FRAME.assign(Intercept=FRAME["x"]), {}, "Rename"),
    "text of a smooth": ("y ~ s(text)", FRAME, {}, "needs numbers; its columns are factors"),
    "text of a process": ("y ~ gp(text)", FRAME, {}, "needs numbers; its columns are factors"),
    "constant smooth": ("y ~ s(five)", FRAME, {}, "values that vary; five is 5 in all rows"),
    "constant process": ("y ~ gp(x, five)", FRAME, {}, "values that vary; five is"),
    "empty smooth": ("y ~ s()", FRAME, {}, "must have one column; it has 0"),
    "many columns": ("y ~ gp(x, z, w, e)", FRAME, {}, "one to 3 columns; it has 4"),
    "option": ("y ~ s(x, knots=5)", FRAME, {}, "unknown option 'knots'"),
    "knots": ("y ~ s(x, k=0)", FRAME, {}, "whole number of at least 1, got 0"),
    "kernel": ("y ~ gp(x, kernel=Mattern32)", FRAME, {}, "Did you mean 'Matern32'"),
    "monotone text": ("y ~ mo(text)", FRAME, {}, "'text' is text. Make it numbers, or"),
    "monotone constant": (
        "y ~ mo(five)",
        FRAME,
        {},
        r"two levels or more; 'five' has \[?5\]? only",
    ),
    "one time": ("y ~ rw(five)", FRAME, {}, r"rw\(five\) has 1 distinct times; it takes 2 to"),
    "censoring": ("y | censored(x) ~ z", FRAME, {}, r"censored\(x\) is .* in row 0; it must be"),
    "file": ("y ~ x", "table.json", {}, "must be a file with the suffix .csv"),
    "empty": ("y ~ ", FRAME, {}, "nothing on the right of '~'; write 'y ~ 1'"),
    "function": ("y ~ ns(x, df=4)", FRAME, {}, r"calls ns\(\), which .* Write s\(x\), or cr"),
    "two trials": ("cbind(count, five) ~ x", FRAME, {}, r"calls cbind.*Write successes \| trials"),
    "smooth of two": ("y ~ s(x, z)", FRAME, {}, r"has 2. Write gp\(x, z\)"),
    "basis": ("y ~ s(x, bs='re')", FRAME, {}, r"takes k and by. For bs='re', write \(1 \| group"),
    "family of brms": ("y ~ x", FRAME, {"family": "student"}, "not known: write 'student_t'"),
    "no trials": ("yes ~ x", FRAME, {"family": "binomial"}, r"'yes \| trials.*take .*'bernoulli'"),
    "syntax": ("y ~ x +", FRAME, {}, "cannot be read"),
    "Python": ("y ~ __import__('os').getpid()", FRAME, {}, "cannot be read"),
}
TYPE_ERRORS = {
    "table": ("y ~ x", 3, {}, "data must be a data frame.*got int"),
    "list": ("y ~ x", [1, 2], {}, "data must be a data frame.*got list"),
    "family": ("y ~ x", FRAME, {"family": dict}, "family must be the name of a likelihood"),
    "number as a prior": ("y ~ x", FRAME, {"priors": {"x": 3}}, "prior of 'x' must be a NumPyro"),
    "tuple as a prior": ("y ~ x", FRAME, {"priors": {"x": (0, 1)}}, r"got \(0, 1\)"),
    "list of priors": ("y ~ x", FRAME, {"priors": [dist.Normal()]}, "must be a dict.*got list"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_values(name):
    formula, data, arguments, message = ERRORS[name]
    with pytest.raises(ValueError, match=message), warnings.catch_warnings():
        # A warning of NumPy beside the error is no help.
        warnings.simplefilter("error")
        regression(formula, data, **arguments)


@pytest.mark.parametrize("name", TYPE_ERRORS)
def test_types(name):
    formula, data, arguments, message = TYPE_ERRORS[name]
    with pytest.raises(TypeError, match=message):
        regression(formula, data, **arguments)


WARNINGS = {
    "missing": ("y ~ x", put("x", [1, 4], np.nan), {}, "2 rows of 48 lack a value in x: they are"),
    "one missing": ("y ~ x", put("y", 1, np.nan), {}, "1 row of 48 lacks a value in y: it is"),
    "missing group": (
        "y ~ (1 | g)",
        FRAME.assign(g=[None, *FRAME["g"][1:]]),
        {},
        "1 row of 48 lacks a value in g",
    ),
    "collinear": (
        "y ~ x + z + both",
        FRAME.assign(both=FRAME["x"] + 2.0 * FRAME["z"]),
        {},
        "columns 'x', 'z', 'both' are collinear.*Leave one of them out",
    ),
    "constant column": ("y ~ x + five", FRAME, {}, "'five' are constant.*Leave them out"),
    "separation": ("side ~ x", FRAME, {"family": "bernoulli"}, "separate the observations"),
    "one group": ("y ~ (1 | five)", FRAME, {}, "five has one group only"),
    "far from zero": (
        "y ~ (year | g)",
        FRAME.assign(year=2000 + np.arange(N) % 9),
        {},
        r"those at year = 0, and year is 2000 to 2008.*Write I\(year - 2004\)",
    ),
    "rows as groups": ("y ~ (1 | row)", FRAME, {}, "row has one row in each group"),
}


@pytest.mark.parametrize("name", WARNINGS)
def test_warnings(name):
    formula, data, arguments, message = WARNINGS[name]
    with pytest.warns(UserWarning, match=message) as record:
        regression(formula, data, **arguments)
    # One warning, at the line of the caller.
    (warning,) = record
    assert warning.filename == __file__


def test_rows_with_missing_values_elsewhere_are_kept():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = regression("y ~ x + (1 | g)", put("z", 2, np.nan))
    assert len(model.y) == N


def test_rows_left_out_are_left_out_of_every_part():
    frame = put("x", 1, np.nan).assign(y=put("y", 5, np.nan)["y"], w=put("w", 9, np.nan)["w"])
    with pytest.warns(UserWarning, match="3 rows of 48 lack a value in y, x, w"):
        model = regression("y | weights(w) ~ x + (1 | g)", frame)
    kept = FRAME.drop([1, 5, 9])
    np.testing.assert_array_equal(model.y, kept["y"])
    np.testing.assert_array_equal(model.rows.weights, kept["w"])
    centered = kept["x"] - kept["x"].mean()
    np.testing.assert_allclose(model.rows.design.dense[:, 1], centered, atol=1e-12)


def test_no_warning_for_clean_data():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        regression("y ~ x + f + mo(o) + s(z) + gp(e) + (x | g) + (1 | g:h)", FRAME)
        regression("yes ~ x + (1 | g)", FRAME, family="bernoulli")


@cache
def fitted():
    model = regression("y ~ x + f + mo(o) + (1 | g)", FRAME)
    scales = {"sd(Intercept | g)": 1.0, "sigma": 1.0, "simplex(mo(o))": np.full(3, 1.0 / 3.0)}
    return model, posterior_draws(model, scales, 2)


def predict(newdata, **arguments):
    model, draws = fitted()
    return model.predictive(draws, (), newdata, **arguments)


NEW = FRAME[["x", "f", "o", "g"]][:4]
NEWDATA = {
    "column": (NEW.drop(columns="x").assign(xs=1.0), "newdata has no column 'x'.*mean 'xs'"),
    "factor": (NEW.drop(columns="f"), "newdata has no column 'f'"),
    "monotone": (NEW.drop(columns="o"), "newdata has no column 'o'"),
    "group": (NEW.drop(columns="g"), "newdata has no column 'g', which the formula 'y ~ x"),
    "level": (NEW.assign(f="unheard"), "newdata has the levels 'unheard'"),
    "ordered level": (NEW.assign(o=9), r"newdata has the level 9 in mo\(o\).*1, 2, 3, 4"),
    "missing": (NEW.assign(x=np.nan), "x is nan in row 0 of newdata"),
    "missing group": (NEW.assign(g=["p", None, "q", "r"]), "no value of 'g' in row 1"),
    "text": (NEW.assign(x="text"), "of another kind than the data of the fit"),
    "no rows": (NEW[:0], "newdata has no rows"),
    "lengths": ({"x": [1.0, 2.0], "f": ["a"], "o": [1], "g": ["p"]}, "newdata must have lists"),
}


@pytest.mark.parametrize("name", NEWDATA)
def test_new_data(name):
    newdata, message = NEWDATA[name]
    with pytest.raises(ValueError, match=message):
        predict(newdata)


def test_groups_of_another_type_are_no_new_groups():
    model = regression("y ~ x + (1 | h)", FRAME)
    draws = posterior_draws(model, {"sd(Intercept | h)": 1.0, "sigma": 1.0}, 2)
    with pytest.raises(ValueError, match="the group '1' of 'h', which .* not as str. Convert"):
        model.predictive(draws, (), FRAME[:3].assign(h="1"))


def test_other_arguments_of_predictions():
    with pytest.raises(ValueError, match="groups='all' is not known. Choose from known, new, none"):
        predict(NEW, groups="all")
    with pytest.raises(ValueError, match="Gaussian takes no trials"):
        predict(NEW, trials=3)
    with pytest.raises(TypeError, match="newdata must be a data frame.*got ndarray"):
        predict(np.ones((3, 2)))
    with pytest.raises(TypeError, match="has its data already"):
        bk.infer(fitted()[0], FRAME)


def test_a_group_with_one_row_is_shrunk_to_the_others():
    frame = FRAME.assign(g=["alone", *FRAME["g"][1:]], y=FRAME["y"].where(FRAME.index > 0, 30.0))
    model = regression("y ~ x + (1 | g)", frame, priors={"sd(Intercept | g)": dist.HalfNormal(1)})
    marginal = model.marginal(model.y)
    draw = {"sd(Intercept | g)": 1.0, "sigma": 2.0}
    sites = marginal.model.recover(marginal.args, draw, np.zeros(marginal.model.size))
    effect = sites["Intercept | g"][list(model.groups[0].levels.value).index("alone")]
    # One observation r = effect + noise: E[effect | r] = r sd^2 / (sd^2 + sigma^2).
    rest = 30.0 - sites["Intercept"] - sites["x"] * frame["x"][0]
    np.testing.assert_allclose(effect, rest * 1.0 / (1.0 + 4.0), rtol=1e-6)
