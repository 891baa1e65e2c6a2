"""Checks of input: names, numbers, points, targets and columns."""

import datetime as dt

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse

from bayeskern.core import validation

# -- names, levels, counts --------------------------------------------------------------------


def test_one_of():
    assert validation.one_of("method", "map", ["map", "nuts"]) == "map"
    assert validation.one_of("method", "map", iter(["map", "nuts"])) == "map"
    message = r"^method='nutz' is not known. Did you mean 'nuts'\? Choose from map, nuts.$"
    with pytest.raises(ValueError, match=message):
        validation.one_of("method", "nutz", ["map", "nuts"])
    with pytest.raises(ValueError, match=r"^method='xyz' is not known. Choose from map, nuts.$"):
        validation.one_of("method", "xyz", ["map", "nuts"])
    with pytest.raises(ValueError, match=r"^method=3 is not known. Choose from"):
        validation.one_of("method", 3, ["map", "nuts"])


def test_level():
    assert validation.level(0.95) == 0.95
    assert type(validation.level(np.float32(0.5))) is float


@pytest.mark.parametrize("value", [0, 1.0, 95, np.nan, "a", None, [0.5, 0.9]])
def test_bad_level(value):
    with pytest.raises(
        ValueError, match=r"coverage must be a probability strictly between"
    ) as error:
        validation.level(value, "coverage")
    assert f"got {value!r}." in str(error.value) and "(0.95 for 95 %)" in str(error.value)


def test_probabilities():
    np.testing.assert_array_equal(validation.probabilities([0.1, 0.9]), [0.1, 0.9])
    assert validation.probabilities(0.5).shape == ()


@pytest.mark.parametrize("value", [0.0, [0.5, 1.2], [0.5, np.nan], "a"])
def test_bad_probabilities(value):
    with pytest.raises(ValueError, match="levels must lie strictly between 0 and 1, got") as error:
        validation.probabilities(value, "levels")
    assert str(value) in str(error.value)


@pytest.mark.parametrize("value", ["x", None, np.nan, -np.inf, [1.0, 2.0]])
def test_bad_number(value):
    assert validation.number(-3, "mean") == -3.0
    with pytest.raises(ValueError, match="^mean must be a finite number, got"):
        validation.number(value, "mean")


def test_positive_integer():
    assert validation.positive_integer(3, "n") == 3
    assert type(validation.positive_integer(np.int32(3), "n")) is int


@pytest.mark.parametrize("value", [0, 1.0, "3", None, True, [1]])
def test_bad_positive_integer(value):
    with pytest.raises(ValueError, match="chains must be a whole number of at least 1") as error:
        validation.positive_integer(value, "chains")
    assert str(error.value).endswith(f"got {value!r}.")


# -- points -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "X",
    [[1, 2, 3], np.arange(1, 4), (1.0, 2.0, 3.0), jnp.arange(1, 4), pd.Series([1, 2, 3]),
     pl.Series([1, 2, 3]), [[1], [2], [3]], range(1, 4), np.array([1, 2, 3], dtype=object),
     np.array([1, 2, 3], np.uint8), np.array([1, 2, 3], np.float16)],
)  # fmt: skip
def test_points_in_one_dimension(X):
    actual, columns = validation.inputs(X)
    assert columns is None and isinstance(actual, jax.Array) and actual.dtype == jnp.float64
    np.testing.assert_array_equal(actual, [[1.0], [2.0], [3.0]])


def test_points_in_several_dimensions():
    X = np.arange(6.0).reshape(3, 2)
    for value in (X, X.tolist(), jnp.asarray(X), np.asfortranarray(X), X > 2):
        actual, columns = validation.inputs(value)
        assert columns is None
        np.testing.assert_array_equal(actual, np.asarray(value, dtype=float))


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_frames(frame):
    actual, columns = validation.inputs(frame({"b": [1, 2], "a": [0.5, 1.5]}))
    assert columns == ("b", "a") and actual.dtype == jnp.float64
    np.testing.assert_array_equal(actual, [[1.0, 0.5], [2.0, 1.5]])


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_required_columns_of_a_frame(frame):
    data = frame({"b": [1, 2], "t": ["x", "y"], "a": [0.5, 1.5]})
    actual, columns = validation.inputs(data, "X", required=["a", "b"])
    assert columns == ("a", "b")
    np.testing.assert_array_equal(actual, [[0.5, 1.0], [1.5, 2.0]])
    with pytest.raises(ValueError, match="X has no column 'c', .* it has 'b', 't', 'a'"):
        validation.inputs(data, "X", required=["c"])
    with pytest.raises(ValueError, match="column 't' of X is String, not numeric"):
        validation.inputs(data, "X", required=["t"])


def test_columns_of_a_frame_are_read_as_text():
    assert validation.inputs(pd.DataFrame(np.ones((2, 2))))[1] == ("0", "1")


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (3.0, r"points must have shape \(n,\) or \(n, d\), got shape \(\). Reshape it so"),
        (np.ones((2, 2, 2)), r"points must have shape .* got shape \(2, 2, 2\)"),
        (1.0, r"points must have shape .* got shape \(\)"),
        ([], r"points is empty \(shape \(0, 1\)\): give at least one point"),
        (np.ones((3, 0)), r"points is empty \(shape \(3, 0\)\)"),
        (pd.DataFrame({"a": []}, dtype=float), r"points is empty \(shape \(0, 1\)\)"),
        ([1.0, np.nan, 3.0], "points has 1 value that is NaN or infinite, the first in row 1"),
        ([[1.0, 2.0], [np.inf, -np.inf]], "points has 2 values .* the first in row 1"),
        (jnp.array([jnp.nan]), "points has 1 value .* the first in row 0"),
        ([1.0, None], "points has 1 value .* the first in row 1"),
        (["a", "b"], "points must be numeric, got list. Encode it as numbers"),
        (np.array(["a", 1.0], dtype=object), "points must be numeric, got object"),
        (np.array(["2020-01-01"], "M8[D]"), r"got datetime64\[D\]. Take the time since a date"),
        ([dt.date(2020, 1, 1)], "points must be numeric, got list"),
        (pd.Series(pd.to_datetime(["2020-01-01"])), r"points must be numeric, got datetime64"),
        (np.array([1 + 1j]), "points must be numeric, got complex128.*real and the imaginary"),
        (np.ones(2, "m8[D]"), r"points must be numeric, got timedelta64\[D\].*unit of time"),
        (None, "points must be numeric, got NoneType"),
        (sparse.csr_matrix(np.eye(2)), r"points is a sparse csr_matrix.*points.toarray\(\)"),
        (sparse.coo_array(np.eye(2)), r"points is a sparse coo_array.*points.toarray\(\)"),
        (np.ma.array([1, 2], mask=[0, 1]), "points has 1 value that is NaN.*first in row 1"),
        ([[1.0, 2.0], [3.0]], "points must be numeric, got list.*same length"),
        ({"a": 1}, "points must be numeric, got dict"),
        (object(), "points must be numeric, got object"),
        (pd.DataFrame({"a": [1], "b": ["x"]}), "column 'b' of points is String, not numeric"),
        (pl.DataFrame({"t": [dt.date(2020, 1, 1)]}), "column 't' of points is Date, not numeric"),
        (pd.DataFrame({"a": ["x"]}, dtype="category"), "column 'a' of points is .*not numeric"),
        (pl.DataFrame({"a": [1, None]}), "points has 1 value .* the first in row 1"),
        (
            pd.DataFrame({"a": pd.array([1, None], dtype="Int64")}),
            "points has 1 value .* the first in row 1",
        ),
    ],
)  # fmt: skip
def test_bad_points(X, message):
    with pytest.raises(ValueError, match=message):
        validation.inputs(X, "points")


def test_traced_points_are_checked_by_shape():
    def read(X):
        return validation.inputs(X)[0]

    np.testing.assert_array_equal(jax.jit(read)(jnp.array([1.0, jnp.nan])), [[1.0], [jnp.nan]])
    assert jax.jit(read)(jnp.arange(3)).dtype == jnp.float64
    for bad in (jnp.ones((2, 2, 2)), jnp.float64(1.0)):
        with pytest.raises(ValueError, match=r"X must have shape \(n,\) or \(n, d\)"):
            jax.jit(read)(bad)
    with pytest.raises(ValueError, match="X is empty"):
        jax.jit(read)(jnp.ones((0, 2)))


# -- targets ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "y", [[1, 2], np.array([[1.0], [2.0]]), pd.Series([1, 2]), pd.DataFrame({"y": [1, 2]}),
          pl.DataFrame({"y": [1, 2]}), jnp.array([1, 2])],
)  # fmt: skip
def test_targets(y):
    actual = validation.targets(y, 2)
    assert actual.dtype == jnp.float64
    np.testing.assert_array_equal(actual, [1.0, 2.0])
    np.testing.assert_array_equal(validation.targets(y), [1.0, 2.0])


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([1.0, 2.0], "flows has 2 values but X has 3 points; they must match"),
        (np.ones((3, 2)), r"flows must be one number per point, shape \(n,\), got shape \(3, 2\)"),
        (2.0, r"flows must be one number per point, shape \(n,\), got shape \(\)"),
        ([1.0, 2.0, np.nan], "flows has 1 value that is NaN or infinite, the first in row 2"),
        (["a", "b", "c"], "flows must be numeric, got list"),
    ],
)
def test_bad_targets(y, message):
    with pytest.raises(ValueError, match=message):
        validation.targets(y, 3, "flows")


def test_finite():
    validation.finite(np.ones((2, 2)), "K")
    with pytest.raises(
        ValueError, match="K has 3 values that are NaN or infinite, the first in row 1"
    ):
        validation.finite(np.array([[1.0, 1.0], [np.nan, 1.0], [np.inf, -np.inf]]), "K")
    jax.jit(lambda x: validation.finite(x, "K"))(jnp.nan)


def test_is_traced():
    seen = []
    jax.jit(lambda x: seen.append(validation.is_traced(x)))(1.0)
    assert (
        seen == [True] and not validation.is_traced(jnp.ones(2)) and not validation.is_traced(1.0)
    )


# -- columns ----------------------------------------------------------------------------------


def test_column_indices():
    names = ("age", "height", "mass")
    assert validation.column_indices(["mass", 0, -2], 3, names).tolist() == [2, 0, -2]
    with pytest.raises(ValueError, match="column='hight' is not known. Did you mean 'height'"):
        validation.column_indices(["hight"], 3, names)
    with pytest.raises(ValueError, match=r"columns \['age'\] are names, but X is an array"):
        validation.column_indices(["age"], 3)
    for bad in (3, -4):
        with pytest.raises(
            ValueError, match=rf"columns \[{bad}\] are selected, but X has 3 columns"
        ):
            validation.column_indices([bad], 3)
