"""Formulas of lme4, brms and Bambi are read as their authors mean them."""

import pytest

from bayeskern.formula.calls import Call
from bayeskern.formula.syntax import parse

COLUMNS = ["y", "x", "z", "g", "h", "k", "n", "reaction time"]
# Formula; the common effects; the groups with their effects.
MIXED = [
    ("y ~ x", "1 + x", []),
    ("y ~ 1", "1", []),
    ("y ~ 0 + x", "0 + x", []),
    ("y ~ x - 1", "0 + x", []),
    ("y ~ -1 + x", "0 + x", []),
    ("y ~ x + (1 | g)", "1 + x", ["1 | g"]),
    ("y~x+(1|g)", "1 + x", ["1 | g"]),
    ("y ~ (x | g) + x", "1 + x", ["1 + x | g"]),
    ("y ~ (1 + x | g)", "1", ["1 + x | g"]),
    ("y ~ x + (x || g)", "1 + x", ["1 + x || g"]),
    ("y ~ (0 + x | g)", "1", ["0 + x | g"]),
    ("y ~ (x - 1 | g)", "1", ["0 + x | g"]),
    ("y ~ (-1 + x || g)", "1", ["0 + x || g"]),
    ("y ~ (1 | g) + (0 + x | g)", "1", ["1 | g", "0 + x | g"]),
    ("y ~ (1 | g / h)", "1", ["1 | g", "1 | g:h"]),
    ("y ~ (x || g / h)", "1", ["1 + x || g", "1 + x || g:h"]),
    ("y ~ (1 | g / h / k)", "1", ["1 | g", "1 | g:h", "1 | g:h:k"]),
    ("y ~ (1 | g:h)", "1", ["1 | g:h"]),
    ("y ~ (1 | g) + (1 | h)", "1", ["1 | g", "1 | h"]),
    ("y ~ (1 | g + h)", "1", ["1 | g", "1 | h"]),
    ("y ~ ((1 | g))", "1", ["1 | g"]),
    ("y ~ x * z + (x * z | g)", "1 + x + z + x:z", ["1 + x + z + x:z | g"]),
    ("y ~ (x + z) ** 2", "1 + x + x:z + z", []),
    ("y ~ x / z", "1 + x + x:z", []),
    ("y ~ C(x) + (C(x) | g)", "1 + C(x)", ["1 + C(x) | g"]),
    ("y ~ poly(x, 2) + bs(z, df=5)", "1 + poly(x, 2) + bs(z, df=5)", []),
    ("y ~ I(x ** 2) + log(z)", "1 + I(x ** 2) + log(z)", []),
    ("y ~ {x * 2} + z", "1 + {x * 2} + z", []),
    ("y ~ `reaction time`", "1 + `reaction time`", []),
    ("y ~ (`reaction time` | g)", "1", ["1 + `reaction time` | g"]),
    ("y ~ (1 | `reaction time`)", "1", ["1 | `reaction time`"]),
    ("y ~ . - `reaction time`", "1 + x + z + g + h + k + n", []),
]


@pytest.mark.parametrize(("formula", "common", "groups"), MIXED)
def test_common_and_group_effects(formula, common, groups):
    parts = parse(formula, COLUMNS)
    assert parts.common == common
    assert [str(group) for group in parts.groups] == groups
    assert (parts.response, parts.row_values, parts.calls) == ("y", {}, ())


CALLS = [
    ("s(x)", Call("s", ("x",))),
    ("s(x, k=5)", Call("s", ("x",), {"k": 5})),
    ("s(x, by=g)", Call("s", ("x",), {"by": "g"})),
    ("s(log(x), by=g)", Call("s", ("log(x)",), {"by": "g"})),
    ("s(`reaction time`)", Call("s", ("`reaction time`",))),
    ("gp(x, z)", Call("gp", ("x", "z"))),
    ("gp(x, kernel=Matern32)", Call("gp", ("x",), {"kernel": "Matern32"})),
    ("gp(x, kernel='Matern32')", Call("gp", ("x",), {"kernel": "Matern32"})),
    ("mo(k)", Call("mo", ("k",))),
    ("offset(log(n))", Call("offset", ("log(n)",))),
]


@pytest.mark.parametrize(("source", "call"), CALLS)
def test_calls_that_are_terms_of_their_own(source, call):
    parts = parse(f"y ~ x + {source} + (1 | g)", COLUMNS)
    assert parts.calls == (call,)
    assert parts.common == "1 + x"
    assert [str(group) for group in parts.groups] == ["1 | g"]


def test_values_of_each_row():
    parts = parse("k | trials(n) + weights(x * 2) ~ x", COLUMNS)
    assert (parts.response, parts.common) == ("k", "1 + x")
    assert parts.row_values == {"trials": "n", "weights": "x * 2"}


def test_responses_are_columns_or_expressions():
    assert parse("log(y) ~ x", COLUMNS).response == "log(y)"
    assert parse("`reaction time` ~ x", COLUMNS).response == "`reaction time`"


ERRORS = [
    ("y ~ x + (x | g", r"▶\(⧚x \| g"),
    ("y ~ x)", r"▶\)"),
    ("y ~ x +", r"▶\+"),
    ("y ~ x ~ z", "▶~⧚ z"),
    ("y ~ x $ z", r"▶\$"),
    ("y ~ s(x", r"▶s\(x"),
    ("y ~ x + (1 |)", r"a group on the right of '\|' in '\|\)'"),
    ("y ~ x + (| g)", r"effects on the left of '\|' in '\(\| g\)'"),
    ("y ~ x | g", r"write effects that vary between groups as \(effects \| group\)"),
    ("y x", "must be text with a response and '~'"),
    ("~ x", "must have one response on the left of '~'; it has none"),
    ("y + z ~ x", "must have one response on the left of '~'; it has y, z"),
    ("y | n ~ x", r"has n after '\|' on the left of '~'; write one of trials"),
    ("y | tirals(n) ~ x", "'tirals' is not known. Did you mean 'trials'"),
    ("y ~ s(x):g", r"s\(...\) inside 's\(x\):g'.* write by=group"),
    ("y ~ (mo(k) | g)", r"mo\(...\) inside '1 \+ mo\(k\)'"),
    ("y ~ x.foo().bar(1", r"cannot be read"),
    (None, "must be text with a response and '~'.*got None"),
]


@pytest.mark.parametrize(("formula", "message"), ERRORS)
def test_errors_show_the_place(formula, message):
    with pytest.raises(ValueError, match=message):
        parse(formula, COLUMNS)
