"""Kernels on some of the columns: by index, by name, nested."""

import jax
import numpy as np
import pandas as pd
import polars as pl
import pytest

from bayeskern.kernels import RBF, Linear, Select
from tests.kernels.compare import close

RNG = np.random.default_rng(11)
X = RNG.normal(size=(4, 2))


A = RNG.normal(size=(5, 3))
FRAMES = [
    pd.DataFrame(A, columns=["age", "height", "mass"]),
    pl.DataFrame(A, ["age", "height", "mass"]),
]


@pytest.mark.parametrize(
    ("columns", "chosen"),
    [([0, 2], [0, 2]), ([2, 0], [2, 0]), (1, [1]), ([-1], [2]), (np.array([0, 1]), [0, 1])],
)
def test_select_by_index(columns, chosen):
    k = RBF(lengthscale=[0.4, 1.9][: len(chosen)])
    close(k.on(columns)(A), np.asarray(k(A[:, chosen])), rtol=1e-15)
    close(k.on(columns)(A, A[:2]), np.asarray(k(A[:, chosen], A[:2][:, chosen])), rtol=1e-15)
    linear = Linear().on(columns)
    close(linear.diag(A), (A[:, chosen] ** 2).sum(1))
    for frame in FRAMES:
        close(k.on(columns)(frame), np.asarray(k(A[:, chosen])), rtol=1e-15)


@pytest.mark.parametrize("frame", FRAMES, ids=["pandas", "polars"])
def test_select_by_name(frame):
    k = RBF(lengthscale=[0.4, 1.9])
    close(k.on(["mass", "age"])(frame), np.asarray(k(A[:, [2, 0]])), rtol=1e-15)
    close(Linear().on("height")(frame), np.outer(A[:, 1], A[:, 1]))
    close(Linear().on(["mass", 0]).diag(frame), (A[:, [2, 0]] ** 2).sum(1))
    # Inside every kind of expression; each branch resolves for itself.
    k = 2.0 * (Linear().on("height").named("h") + RBF().on("age") ** 2) * Linear().on("mass").exp()
    r = np.subtract.outer(A[:, 0], A[:, 0])
    expected = 2.0 * (np.outer(A[:, 1], A[:, 1]) + np.exp(-(r**2)))
    close(k(frame), expected * np.exp(np.outer(A[:, 2], A[:, 2])))


@pytest.mark.parametrize("frame", FRAMES, ids=["pandas", "polars"])
def test_nested_select(frame):
    close(Linear().on("age").on(["mass", "age"])(frame), np.outer(A[:, 0], A[:, 0]))
    close(Linear().on(1).on(["mass", "height"])(frame), np.outer(A[:, 1], A[:, 1]))
    with pytest.raises(ValueError, match="Choose from mass, age"):
        Linear().on("height").on(["mass", "age"])(frame)


def test_resolve():
    k = Linear().on(["mass"]) + RBF().on("age")
    resolved = k.resolve(("age", "height", "mass"))
    assert repr(resolved) == repr(Linear().on([2]) + RBF().on([0]))
    close(resolved(A), np.asarray(k(FRAMES[0])), rtol=1e-15)
    plain = RBF() + Linear()
    assert plain.resolve(("age",)) is plain


def test_the_same_selection_twice():
    k = Linear().on("age")
    close((k + k * k)(FRAMES[0]), np.outer(A[:, 0], A[:, 0]) + np.outer(A[:, 0], A[:, 0]) ** 2)


@pytest.mark.parametrize("columns", [[3], [0, 7], [-4]])
def test_index_out_of_range(columns):
    k = RBF().on(columns)
    for call in (k, k.diag, jax.jit(lambda X: k(X))):
        with pytest.raises(ValueError, match=r"columns \[.*\] are selected, but X has 3 columns"):
            call(A)
    for frame in FRAMES:
        with pytest.raises(ValueError, match="are selected, but X has 3 columns"):
            k(frame)


def test_names_on_plain_arrays():
    k = Linear() + RBF().on(["age", "mass"])
    for call in (k, k.diag):
        with pytest.raises(ValueError, match=r"\['age', 'mass'\] are names, but X is an array"):
            call(A)


def test_unknown_column():
    with pytest.raises(ValueError, match="Did you mean 'height'"):
        RBF().on("hieght")(FRAMES[0])


def test_frame_with_numbered_columns():
    frame = pd.DataFrame(A)
    close(Linear().on([1])(frame), np.outer(A[:, 1], A[:, 1]))
    close(Linear().on("1")(frame), np.outer(A[:, 1], A[:, 1]))
    with pytest.raises(ValueError, match="column='age' is not known. Choose from 0, 1, 2"):
        RBF().on("age")(frame)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ([], "at least one, got"),
        ([0.5], r"columns must be indices or names, at least one, got \[0.5\]"),
        ([0, 0], r"columns \[0, 0\] name a column twice"),
        (["a", "a"], r"columns \['a', 'a'\] name a column twice"),
    ],
)
def test_bad_columns(columns, message):
    with pytest.raises(ValueError, match=message):
        RBF().on(columns)
    assert isinstance(RBF().on([0]), Select)


def test_warped_kernels_do_not_see_column_names():
    frame = pd.DataFrame({"a": [1.0, 2.0], "b": [3.0, 5.0]})
    with pytest.raises(ValueError, match=r"columns \['a'\] are names"):
        RBF().on(["a"]).warp(lambda x: x[::-1])(frame)
