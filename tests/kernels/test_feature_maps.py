"""Explicit features against the kernels that they make, scikit-learn, and the error of a series."""

import math
import re

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pandas as pd
import polars as pl
import pytest
from sklearn.preprocessing import PolynomialFeatures

from bayeskern.kernels import (
    RBF,
    AllSubsets,
    ArcCosine,
    Constant,
    Coregion,
    Cosine,
    Custom,
    Linear,
    Matern12,
    Multiquadric,
    Periodic,
    Polynomial,
    White,
    kernel_from_features,
)
from tests.kernels.compare import close
from tests.marks import few

RNG = np.random.default_rng(8)
X, Z = RNG.normal(size=(6, 3)), RNG.normal(size=(4, 3))
CHOLESKY = np.array([[1.2, 0, 0], [0.4, 0.9, 0], [-0.3, 0.5, 1.5]])


# A kernel, and how many features it has in three dimensions.
FINITE = {
    "constant": (Constant(2.5), 1),
    "constant of nothing": (Constant(0.0), 1),
    "linear": (Linear([1.0, 0.2, 3.0], center=[0.3, 0.0, -1.0]), 3),
    "polynomial": (Polynomial(degree=4, offset=0.7, variance=1.3), 35),
    "polynomial of degree 1": (Polynomial(degree=1, offset=2.0), 4),
    "polynomial of one degree": (Polynomial(degree=4, variance=1.3, exact=True), 15),
    "polynomial without offset": (Polynomial(degree=3, offset=0.0), 20),
    "all subsets": (AllSubsets(variance=0.5), 8),
    "cosine": (Cosine([1.0, 2.0, 3.0], 2.0), 2),
    "coregion": (Coregion(2, kappa=[0.3, 0.0]).warp(lambda x: 1.0 * (x[0] > 0.0)) * Linear(), 9),
    "sum": (Polynomial() + 0.5 * Linear() + 3.0, 14),
    "product": (Linear(center=0.4) * AllSubsets() * Cosine(2.0), 48),
    "power": ((Linear() + 1.5) ** 3, 20),
    "power of a product": ((Linear().on([0, 1]) * Cosine(3.0)) ** 2, 10),
    "select": (Polynomial(degree=2).on([2, 0]), 6),
    "named": ((2.0 * AllSubsets().on([1])).named("age"), 2),
    "warped": (Polynomial(degree=2).warp(lambda x: jnp.tanh(x[:2])), 6),
    "modulated": ((AllSubsets() + 1.0).modulate(lambda x: x[0] - x[2]), 9),
    "nested": (((Linear().on([0]) + 1.0) ** 2 * Constant(0.3)).named("a") + AllSubsets(), 11),
}


@pytest.mark.parametrize("name", few(FINITE, "polynomial", "nested", "warped", "modulated"))
def test_feature_products_equal_the_kernel(name):
    kernel, count = FINITE[name]
    phi = kernel.feature_map(X)
    assert phi.shape == (6, count)
    close(phi @ kernel.feature_map(Z).T, kernel(X, Z))
    close(jnp.sum(phi**2, axis=1), kernel.diag(X))


@pytest.mark.parametrize("degree", [1, 2, 6])
def test_polynomial_features_are_scaled_features_of_scikit_learn(degree):
    theirs = PolynomialFeatures(degree).fit(X)
    phi = Polynomial(degree=degree, offset=0.8, variance=1.7).feature_map(X)
    weights = []
    for exponents in theirs.powers_:
        rest = degree - exponents.sum()
        ways = math.factorial(degree) / math.prod(map(math.factorial, (rest, *exponents)))
        weights.append(np.sqrt(1.7 * ways * 0.8**rest))
    close(phi, theirs.transform(X) * weights)


def test_all_subsets_features():
    phi = np.asarray(AllSubsets().feature_map(X))
    for code in range(8):
        subset = [d for d in range(3) if code >> d & 1]
        close(phi[:, code], np.prod(X[:, subset], axis=1))


# -- the series of the RBF -------------------------------------------------------------------------


def test_rbf_features_are_terms_of_its_series():
    x, length = np.linspace(-2.0, 2.0, 7), 0.8
    phi = RBF(length, variance=2.0).feature_map(x, degree=5)
    expected = [
        np.sqrt(2.0 / math.factorial(a)) * np.exp(-(x**2) / (2 * length**2)) * x**a / length**a
        for a in range(6)
    ]
    close(phi, np.stack(expected, axis=1))


@pytest.mark.parametrize("degree", [1, 4])
@pytest.mark.parametrize("lengthscale", [1.5, [1.0, 2.0, 3.0], CHOLESKY], ids=["one", "ard", "L"])
def test_error_of_the_rbf_series_is_within_its_bound(lengthscale, degree):
    kernel = RBF(lengthscale, variance=1.4)
    phi, psi = kernel.feature_map(X, degree), kernel.feature_map(Z, degree=degree)
    assert phi.shape == (6, math.comb(3 + degree, degree))
    L = np.diag(np.broadcast_to(lengthscale, 3)) if np.ndim(lengthscale) < 2 else lengthscale
    sizes = [np.linalg.norm(np.linalg.solve(L, A.T), axis=0) for A in (X, Z)]
    bound = 1.4 * np.outer(*sizes) ** (degree + 1) / math.factorial(degree + 1)
    error = np.abs(np.asarray(phi @ psi.T - kernel(X, Z)))
    assert np.all(error <= bound + 1e-14)
    # Of no use if it were always far away: exp(-|x||z|) is what is given away at x = z.
    itself = np.abs(np.asarray(jnp.sum(phi**2, axis=1) - kernel.diag(X)))
    own = sizes[0] ** 2
    least = 1.4 * np.exp(-own) * own ** (degree + 1) / math.factorial(degree + 1)
    assert np.all(itself >= least - 1e-14)


def test_long_series_matches_the_rbf():
    kernel = RBF(2.0) + 0.5 * RBF(3.0).on([1]) * Linear()
    phi, psi = kernel.feature_map(X, degree=14), kernel.feature_map(Z, degree=14)
    close(phi @ psi.T, kernel(X, Z), atol=1e-9)


def test_rbf_features_vanish_far_from_the_origin():
    phi = RBF().feature_map([[1e10, -1e200], [80.0, 0.0]], degree=40)
    assert np.all(np.asarray(phi) == 0.0)


# -- back ------------------------------------------------------------------------------------------


def test_kernel_from_features():
    kernel = kernel_from_features(lambda x: jnp.array([1.0, x[0], x[1] * x[2]]))

    def phi(A):
        return np.stack([np.ones(len(A)), A[:, 0], A[:, 1] * A[:, 2]], axis=1)

    close(kernel(X, Z), phi(X) @ phi(Z).T)
    close(kernel.diag(X), np.sum(phi(X) ** 2, axis=1))
    close(kernel.feature_map(X), phi(X))
    close(kernel_from_features(lambda x: x[0])(X, Z), np.outer(X[:, 0], Z[:, 0]))


# -- the input -------------------------------------------------------------------------------------


def test_features_can_be_compiled_and_differentiated():
    k = Polynomial(degree=3, offset=0.7)

    def total(offset, features):
        at = k.at({"offset": offset})
        return jnp.sum(at.feature_map(X) @ at.feature_map(Z).T if features else at(X, Z))

    slope = jax.jit(jax.grad(total), static_argnums=1)
    close(slope(0.7, True), slope(0.7, False))


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_columns_are_found_by_name(frame):
    table = frame({"age": X[:, 0], "height": X[:, 1], "mass": X[:, 2]})
    by_name = Linear().on(["mass"]) * AllSubsets().on(["age", "mass"])
    by_index = Linear().on([2]) * AllSubsets().on([0, 2])
    close(by_name.feature_map(table), by_index.feature_map(X), rtol=0.0, atol=0.0)
    with pytest.raises(ValueError, match="are names, but X is an array"):
        by_name.feature_map(X)


@pytest.mark.parametrize(
    ("kernel", "culprit"),
    [
        (Linear() + Matern12(), "Matern12("),
        (Linear() * Periodic(), "Periodic("),
        (2.0 * Multiquadric().named("m"), "Multiquadric("),
        ((Linear() + ArcCosine()) ** 2, "ArcCosine("),
        (Linear().exp(), "Linear(variance=1.0, center=0.0).exp()"),
        (Custom(lambda x, z: jnp.dot(x, z)), "Custom("),
    ],
)
def test_kernels_without_finite_features_are_refused(kernel, culprit):
    with pytest.raises(ValueError, match="has no finite feature map. NystromFeatures") as error:
        kernel.feature_map(X)
    assert str(error.value).startswith(culprit)


def test_white_noise_has_no_features():
    with pytest.raises(ValueError, match=r"White\(variance=0.3\) has no feature map"):
        (Linear() + White(0.3)).feature_map(X)


def test_degree_is_required_for_a_series_and_refused_otherwise():
    with pytest.raises(ValueError, match=r"^RBF\(.*infinitely many features"):
        (Linear() + 2.0 * RBF()).feature_map(X)
    with pytest.raises(ValueError, match=r"degree=3 cuts the series of an RBF"):
        Polynomial().feature_map(X, degree=3)
    for bad in (0, -1, 2.5, "4", True):
        with pytest.raises(ValueError, match=re.escape(f"whole number of at least 1, got {bad!r}")):
            RBF().feature_map(X, degree=bad)


@pytest.mark.parametrize(
    ("kernel", "degree", "count"),
    [
        (AllSubsets(), None, 2**40),
        (Polynomial(degree=9), None, math.comb(49, 9)),
        (RBF(), 20, math.comb(60, 20)),
        (Linear() ** 12, None, math.comb(51, 12)),
        (Polynomial() * Polynomial() * Polynomial(), None, math.comb(42, 2) ** 3),
    ],
)
def test_too_many_features_are_refused(kernel, degree, count):
    with pytest.raises(ValueError, match=f"has {count:,} features, too many"):
        kernel.feature_map(np.zeros((2, 40)), degree)


def test_invalid_kernels_and_points_are_refused():
    with pytest.raises(TypeError, match="variance of Linear.* have no value yet"):
        Linear(dist.HalfNormal()).feature_map(X)
    with pytest.raises(ValueError, match="X has 1 value that is NaN"):
        Linear().feature_map([1.0, np.nan])
    with pytest.raises(ValueError, match="variance has shape"):
        Linear([1.0, 2.0]).feature_map(X)
