"""Transformers: checks of scikit-learn, seeds, data frames, refusals."""

import re

import numpy as np
import numpyro.distributions as dist
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

from bayeskern import kernels
from bayeskern.kernels import (
    RBF,
    Matern12,
    NystromFeatures,
    RadialBasis,
    RandomFourierFeatures,
)

RNG = np.random.default_rng(4)
X = 0.8 * RNG.normal(size=(7, 3))


ALL = [RandomFourierFeatures(RBF(), 10), NystromFeatures(RBF(), 10), RadialBasis(4)]


@parametrize_with_checks(ALL[:1])
def test_scikit_learn_checks_of_random_fourier_features(estimator, check):
    check(estimator)


@pytest.mark.slow
@parametrize_with_checks(ALL[1:])
def test_scikit_learn_checks_of_the_other_transformers(estimator, check):
    check(estimator)


@pytest.mark.parametrize("features", ALL, ids=lambda f: type(f).__name__)
def test_features_are_reproducible_by_seed(features):
    points = RNG.normal(size=(50, 2))
    one, again, other = (
        clone(features).set_params(seed=seed).fit(points).transform(points) for seed in (1, 1, 2)
    )
    assert np.array_equal(one, again)
    assert not np.allclose(one, other)
    assert (one.dtype, type(one)) == (np.float64, np.ndarray)
    assert one.flags.writeable
    with pytest.raises(ValueError, match="seed must be"):
        clone(features).set_params(seed=-1).fit(points)


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
@pytest.mark.parametrize("make", [RandomFourierFeatures, NystromFeatures])
def test_columns_are_found_by_name_in_data_frames(frame, make):
    table = frame({"age": X[:, 0], "height": X[:, 1], "mass": X[:, 2]})
    by_name = make(RBF().on(["mass"]) + Matern12().on(["age", "mass"]), 12)
    by_index = make(RBF().on([2]) + Matern12().on([0, 2]), 12)
    found = by_name.fit_transform(table)
    assert np.array_equal(found, by_index.fit_transform(X))
    names = by_name.get_feature_names_out()
    assert len(names) == found.shape[1]
    assert names[0] == f"{make.__name__.lower()}0"
    with pytest.raises(ValueError, match="are names, but X is an array"):
        make(RBF().on(["mass"])).fit(X)


def test_centers_in_a_data_frame_are_reordered():
    table = pd.DataFrame(X, columns=["a", "b", "c"])
    turned = RadialBasis(table[["c", "a", "b"]]).fit_transform(table)
    assert np.array_equal(turned, RadialBasis(table).fit_transform(table))


@pytest.mark.parametrize("make", [RandomFourierFeatures, NystromFeatures])
def test_kernels_without_values_are_refused(make):
    with pytest.raises(TypeError, match=re.escape("kernel must be a bayeskern kernel")):
        make("rbf").fit(X)
    with pytest.raises(TypeError, match="lengthscale of RBF.* have no value yet"):
        make(RBF(dist.LogNormal())).fit(X)


def test_transformers_are_imported_lazily():
    assert kernels.RadialBasis is RadialBasis
    with pytest.raises(AttributeError, match="'bayeskern.kernels' has no attribute 'Fourier'"):
        _ = kernels.Fourier
