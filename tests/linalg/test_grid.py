"""Recognition of grids in inputs, in any order of the rows."""

import itertools

import numpy as np
import pytest

from bayeskern.linalg.kronecker.grid import Grid, NoGridError
from tests.marks import few

GROUPS = [(0,), (1,), (2,)]


def cells(*axes):
    """All cells of the axes, each a list of numbers or of tuples of them."""
    rows = [np.hstack([np.atleast_1d(x) for x in cell]) for cell in itertools.product(*axes)]
    return np.array(rows, float)


@pytest.mark.parametrize("seed", few(range(12), 0, 1))
def test_axes_and_cells_of_a_grid(seed):
    rng = np.random.default_rng(seed)
    axes = [rng.choice(20, rng.integers(1, 6), replace=False) - 9.0 for _ in range(3)]
    X = cells(*axes)
    X = X[rng.permutation(len(X))]
    grid = Grid.of(X, GROUPS)
    assert grid.sizes == tuple(map(len, axes)) and grid.columns == tuple(GROUPS)
    found = [X[rows, g] for g, rows in enumerate(grid.axes)]
    np.testing.assert_array_equal(X[grid.rows], cells(*found))
    for points, axis in zip(found, axes, strict=True):
        np.testing.assert_array_equal(np.sort(points), np.sort(axis))
    assert grid.is_of(X)
    assert not grid.is_of(X[:-1]) and not grid.is_of(np.append(X, X[:1], axis=0))


@pytest.mark.parametrize("seed", few(range(12), 0, 1))
def test_columns_that_vary_together_form_one_axis(seed):
    rng = np.random.default_rng(seed)
    stations = [tuple(x) for x in rng.normal(size=(5, 2))]
    X = cells(stations, [1.0, 2.0, 4.0])
    order = rng.permutation(3)
    X = X[:, order]
    stands = tuple(sorted(np.flatnonzero(order < 2).tolist()))
    grid = Grid.of(X, GROUPS)
    assert set(grid.columns) == {stands, *(g for g in GROUPS if g[0] not in stands)}
    assert sorted(grid.sizes) == [3, 5]
    assert grid.is_of(X)


def test_grid_with_a_missing_cell_is_refused():
    X = cells([0.0, 1.0, 2.0], [-1.0, 2.0, 3.0, 4.0])
    for missing in range(12):
        with pytest.raises(NoGridError) as refusal:
            Grid.of(np.delete(X, missing, axis=0), GROUPS[:2])
        assert (
            str(refusal.value) == f"the grid of 3 x 4 lacks the cell {tuple(X[missing].tolist())}"
        )


def test_repeated_cell_is_refused():
    X = cells([0.0, 1.0], [-0.0, 2.0])
    with pytest.raises(NoGridError, match=r"the point \(1\.0, 0\.0\) occurs twice"):
        Grid.of(np.append(X, [[1.0, 0.0]], axis=0), GROUPS[:2])


def test_scattered_points_in_many_columns_are_refused():
    X = np.random.default_rng(0).normal(size=(500, 40))
    with pytest.raises(NoGridError, match=r"the grid of 500 x 500 x .* lacks the cell"):
        Grid.of(X, [(i,) for i in range(40)])
    with pytest.raises(NoGridError, match="lacks the cell"):
        Grid.of(X[:, :10], [(i,) for i in range(10)])
