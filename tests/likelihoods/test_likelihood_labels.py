"""Class labels: accepted types, their order, and errors."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

from bayeskern import likelihoods as lk

NAMES = ["no", "yes", "no", "maybe"]
SIZES = ["mid", "low", "high", "low"]
IN_ORDER = ["low", "mid", "high", "huge"]

TEXT = {
    "a list": NAMES,
    "numpy": np.array(NAMES),
    "numpy objects": np.array(NAMES, object),
    "pandas": pd.Series(NAMES, index=[9, 8, 7, 6]),
    "pandas categories": pd.Series(NAMES, dtype="category"),
    "a frame of one column": pd.DataFrame({"y": NAMES}),
    "polars": pl.Series(NAMES),
    "polars categories": pl.Series(NAMES, dtype=pl.Categorical),
}


@pytest.mark.parametrize("y", TEXT.values(), ids=TEXT)
def test_text_is_coded_in_alphabetical_order(y):
    known, codes, _ = lk.Categorical().prepare(y, 4)
    assert known.classes == ("maybe", "no", "yes")
    np.testing.assert_array_equal(codes, [1, 2, 1, 0])
    assert codes.dtype.kind == "i"


@pytest.mark.parametrize("y", TEXT.values(), ids=TEXT)
def test_ordered_needs_the_order_of_text(y):
    with pytest.raises(ValueError, match="Name the classes from low"):
        lk.Ordered().prepare(y, 4)
    _, codes, _ = lk.Ordered(classes=("no", "maybe", "yes")).prepare(y, 4)
    np.testing.assert_array_equal(codes, [0, 2, 0, 1])


ORDERED = {
    "pandas": pd.Series(pd.Categorical(SIZES, categories=IN_ORDER, ordered=True)),
    "pandas array": pd.Categorical(SIZES, categories=IN_ORDER, ordered=True),
    "polars": pl.Series(SIZES, dtype=pl.Enum(IN_ORDER)),
}


@pytest.mark.parametrize("y", ORDERED.values(), ids=ORDERED)
def test_ordered_categories_keep_their_order(y):
    known, codes, _ = lk.Ordered().prepare(y, 4)
    assert known.classes == ("low", "mid", "high")
    np.testing.assert_array_equal(codes, [1, 0, 2, 0])


def test_bernoulli_codes_the_higher_category_as_one():
    y = pd.Series(pd.Categorical(["low", "high"], categories=["low", "high"], ordered=True))
    known, codes, _ = lk.Bernoulli().prepare(y, 2)
    assert known.classes == ("low", "high")
    np.testing.assert_array_equal(codes, [0, 1])


TWO = {
    "booleans": ([True, False, True], (False, True), [1, 0, 1]),
    "numpy booleans": (np.array([True, False]), (False, True), [1, 0]),
    "pandas booleans": (pd.Series([True, False], dtype="boolean"), (False, True), [1, 0]),
    "polars booleans": (pl.Series([True, False]), (False, True), [1, 0]),
    "0 and 1": ([0, 1, 1], (0, 1), [0, 1, 1]),
    "floats": (np.array([1.0, 0.0]), (0, 1), [1, 0]),
    "-1 and 1": ([1, -1], (-1, 1), [1, 0]),
    "1 and 2": (pd.Series([1, 2], dtype="Int64"), (1, 2), [0, 1]),
    "halves": ([0.5, 1.5], (0.5, 1.5), [0, 1]),
    "text": (["b", "a"], ("a", "b"), [1, 0]),
}


@pytest.mark.parametrize(("y", "classes", "codes"), TWO.values(), ids=TWO)
def test_bernoulli_takes_any_two_classes(y, classes, codes):
    known, found, _ = lk.Bernoulli().prepare(y, len(y))
    assert known.classes == classes
    assert [type(label) for label in known.classes] == [type(label) for label in classes]
    np.testing.assert_array_equal(found, codes)


@pytest.mark.parametrize("likelihood", [lk.Categorical(), lk.Ordered()], ids=lambda x: repr(x))
def test_integers_are_classes_in_their_order(likelihood):
    known, codes, _ = likelihood.prepare(np.array([10, 2, -3, 2]), 4)
    assert known.classes == (-3, 2, 10)
    np.testing.assert_array_equal(codes, [2, 1, 0, 1])


def test_new_labels_are_coded_by_known_classes():
    known, _, _ = lk.Categorical().prepare(["a", "b", "c"], 3)
    again, codes, _ = known.prepare(pl.Series(["c", "c"]), 2)
    assert again.classes == ("a", "b", "c")
    np.testing.assert_array_equal(codes, [2, 2])


def test_unknown_labels_are_refused():
    known, _, _ = lk.Categorical().prepare(["a", "b", "c"], 3)
    with pytest.raises(ValueError, match=r"not known, 'd', first in row 1.*'a', 'b', 'c'"):
        known.prepare(["a", "d", "e"], 3)


def test_classes_can_be_given():
    known, codes, _ = lk.Ordered(classes=("low", "mid", "high")).prepare(["mid", "low"], 2)
    assert known.classes == ("low", "mid", "high")
    np.testing.assert_array_equal(codes, [1, 0])
    assert known.cutpoints.event_shape == (2,)
    _, codes, _ = lk.Bernoulli(classes=(0, 1)).prepare([0, 0, 0], 3)
    np.testing.assert_array_equal(codes, [0, 0, 0])


REFUSED = {
    "one class": (lk.Bernoulli(), [1, 1], r"two classes or more, got \(1,\)"),
    "three classes": (lk.Bernoulli(), ["a", "b", "c"], r"3 \('a', 'b', 'c'\). Use Categorical"),
    "measurements": (lk.Categorical(), [0.5, 1.0, 2.0], "0.5, which is not a whole number"),
    "missing text": (lk.Categorical(), ["a", None, "b"], "1 missing labels, the first in row 1"),
    "missing numbers": (lk.Ordered(), np.array([1.0, 2.0, np.nan]), "the first in row 2"),
    "missing in polars": (lk.Bernoulli(), pl.Series([True, None, False]), "first in row 1"),
    "missing categories": (
        lk.Categorical(),
        pd.Series(["a", None, "b"], dtype="category"),
        "first in row 1",
    ),
    "two kinds": (lk.Categorical(), [1, "a"], "several kinds, such as 1 and 'a'"),
    "dates": (lk.Categorical(), np.array(["2020-01-01"], "M8[D]"), "boolean, a whole number or"),
    "a table": (lk.Categorical(), np.zeros((2, 2)), r"shape \(n,\), got \(2, 2\)"),
    "nothing": (lk.Categorical(), [], r"shape \(n,\)"),
}


@pytest.mark.parametrize(("likelihood", "y", "message"), REFUSED.values(), ids=REFUSED)
def test_bad_labels_are_refused(likelihood, y, message):
    with pytest.raises(ValueError, match=message):
        likelihood.prepare(y, len(y))


def test_number_of_labels_must_match_the_points():
    with pytest.raises(ValueError, match="y has 2 values but X has 3 points"):
        lk.Bernoulli().prepare([0, 1], 3)


@pytest.mark.parametrize(
    ("classes", "message"),
    [(("a", "a"), "differ from each other"), ((), "two classes or more")],
)
def test_bad_classes_are_refused(classes, message):
    with pytest.raises(ValueError, match=message):
        lk.Categorical(classes=classes)


def test_outputs_are_unknown_before_prepare():
    with pytest.raises(ValueError, match="does not know its classes yet"):
        _ = lk.Categorical().outputs
    with pytest.raises(ValueError, match="does not know its number of parts yet"):
        _ = lk.Dirichlet().outputs


def test_cutpoints_must_be_one_fewer_than_classes():
    with pytest.raises(ValueError, match=r"shape \(2,\).*got \(3,\)"):
        lk.Ordered([0.0, 1.0, 2.0]).prepare([1, 2, 3], 3)
    with pytest.raises(ValueError, match="ordered vector"):
        lk.Ordered([1.0, 0.0])
