"""Hierarchies: read from parents and groups, and refused with the reason."""

from itertools import pairwise

import numpy as np
import pandas as pd
import polars as pl
import pytest

from bayeskern.forecast.reconcile.hierarchy import Hierarchy

GROUPS = {"region": ["N", "N", "S"], "store": ["a", "b", "c"]}
PARENTS = {"a": "N", "b": "N", "c": "S", "N": "all", "S": "all", "all": None}
SUMS = [[1, 1, 1], [1, 1, 0], [0, 0, 1]]


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_groups(frame):
    tree = Hierarchy.read(frame(GROUPS))
    assert tree.names == ("total", "N", "S", "a", "b", "c")
    assert tree.levels == ("total", "region", "region", "store", "store", "store")
    np.testing.assert_array_equal(tree.sums, SUMS)


@pytest.mark.parametrize(
    "source",
    [
        PARENTS,
        pd.DataFrame({"child": [*PARENTS], "parent": [*PARENTS.values()]}),
        pl.DataFrame({"parent": [*PARENTS.values()], "child": [*PARENTS]}),
    ],
    ids=["mapping", "pandas", "polars"],
)
def test_parents(source):
    tree = Hierarchy.read(source)
    assert tree.names == ("all", "N", "S", "a", "b", "c")
    assert tree.levels == ("level 1", "level 2", "level 2", "bottom", "bottom", "bottom")
    np.testing.assert_array_equal(tree.sums, SUMS)


def test_crossed_groups_count_each_series_once():
    """Two regions and two products: each total is the sum of four series."""
    parents = {f"{r}{p}": [r, p] for r in "NS" for p in "xy"} | dict.fromkeys("NSxy", "all")
    tree = Hierarchy.read(parents)
    crossed = pd.DataFrame(
        {
            "region": ["N", "N", "S", "S"],
            "product": ["x", "y", "x", "y"],
            "id": ["Nx", "Ny", "Sx", "Sy"],
        }
    )
    groups = Hierarchy.read(crossed)
    assert tree.names[0] == "all" and groups.names[0] == "total" and tree.bottom == groups.bottom
    np.testing.assert_array_equal(tree.sums[0], np.ones(4))
    for name in "NSxy":
        assert tree.leaves_of(name) == groups.leaves_of(name)


def test_uneven_depth():
    tree = Hierarchy.read({"a": "N", "N": "all", "b": "all"})
    assert dict(zip(tree.names, tree.levels, strict=True)) == {
        "all": "level 1",
        "N": "level 2",
        "a": "bottom",
        "b": "bottom",
    }
    np.testing.assert_array_equal(tree.sums, [[1, 1], [1, 0]])


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ({"a": "b", "b": "c", "c": "a"}, "cycle"),
        ({"a": "a"}, "cycle: 'a' -> 'a'"),
        ({"a": None}, "no parents"),
        (pd.DataFrame({"child": ["a", None], "parent": ["b", "b"]}), "child of 'b' has no name"),
        (pd.DataFrame({"child": [], "parent": []}), "empty"),
        (pd.DataFrame({"region": ["N", " "], "store": ["a", "b"]}), "'region' has an empty cell"),
        (pd.DataFrame({"region": ["N", "N"], "store": ["a", "a"]}), "'a' twice"),
        (pd.DataFrame({"region": ["a", "N"], "store": ["a", "b"]}), "'a' is a name in column"),
        (
            pd.DataFrame({"land": ["N", "S"], "city": ["x", "N"], "store": ["a", "b"]}),
            "'N' is a name in column 'city' and in 'land'",
        ),
        (pd.DataFrame({"region": ["total", "N"], "store": ["a", "b"]}), "'total'"),
    ],
)
def test_refused(source, says):
    with pytest.raises(ValueError, match=says):
        Hierarchy.read(source)


def test_cycle_is_named_from_child_to_parent():
    with pytest.raises(ValueError, match="cycle") as error:
        Hierarchy.read({"x": "top", "a": "b", "b": "c", "c": "a"})
    arrows = str(error.value).partition("cycle: ")[2].partition(". ")[0].split(" -> ")
    assert {*pairwise(arrows)} == {("'a'", "'b'"), ("'b'", "'c'"), ("'c'", "'a'")}


def test_other_types_are_refused():
    with pytest.raises(TypeError, match="got a int"):
        Hierarchy.read(3)


def test_names_must_match_forecasts():
    tree = Hierarchy.read(pd.DataFrame(GROUPS))
    tree.require_forecasts(["a", "b", "c", "N"])
    with pytest.raises(ValueError, match="1 series \\('c'\\) without a forecast"):
        tree.require_forecasts(["a", "b"])
    with pytest.raises(ValueError, match="1 series \\('q'\\) not in the hierarchy"):
        tree.require_forecasts(["a", "b", "c", "q"])
    long = Hierarchy.read(pd.DataFrame({"store": ["Berlin", "Rome"]}))
    with pytest.raises(ValueError, match="Did you mean 'Berlim'"):
        long.require_forecasts(["Berlim", "Rome"])
