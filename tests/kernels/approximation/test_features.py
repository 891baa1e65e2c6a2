"""Feature maps against the exact Gram matrix, scikit-learn, and the theory of their errors."""

import re

import jax
import numpy as np
import numpyro.distributions as dist
import pandas as pd
import polars as pl
import pytest
from scipy import stats
from scipy.spatial.distance import cdist
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.gaussian_process import kernels as sk
from sklearn.kernel_approximation import Nystroem, RBFSampler
from sklearn.utils.estimator_checks import parametrize_with_checks

from bayeskern import kernels
from bayeskern.kernels import (
    RBF,
    AllSubsets,
    Constant,
    Cosine,
    InverseMultiquadric,
    Linear,
    Matern12,
    Matern32,
    Matern52,
    Multiquadric,
    NystromFeatures,
    Periodic,
    Polynomial,
    RadialBasis,
    RandomFourierFeatures,
    RationalQuadratic,
    SpectralMixture,
    Stationary,
    White,
    hyperparameter,
    spectral_density,
)

RNG = np.random.default_rng(4)
X = 0.8 * RNG.normal(size=(7, 3))
CHOLESKY = [[0.9, 0, 0], [0.4, 0.6, 0], [-0.3, 0.5, 1.5]]
MIXTURE = SpectralMixture([1.5, 0.5], [[0.5, 0.2, 0.0], [0.1, 0.4, 0.3]], [[0.2], [0.4]])

SPECTRAL = {
    "RBF": RBF(0.7, variance=2.0),
    "Matern12": Matern12(1.3),
    "Matern32": Matern32(0.8),
    "Matern52": Matern52(1.1),
    "RationalQuadratic": RationalQuadratic(0.9, alpha=0.6),
    "InverseMultiquadric": InverseMultiquadric(0.5),
    "SpectralMixture": MIXTURE,
    "Periodic": Periodic([2.0, 3.0, 1.5], [0.6, 1.0, 2.0], 1.7),
    "Cosine": Cosine([2.0, 3.0, 1.0], 0.5),
    "ARD": Matern52([0.5, 1.0, 3.0]),
    "matrix lengthscale": Matern32(CHOLESKY),
    "matrix lengthscale RBF": RBF(CHOLESKY),
    "scaled": 3.0 * Matern32(2.0),
    "named": (2.0 * RBF()).named("trend"),
    "power": RBF() ** 3,
    "power of a cosine": Cosine(3.0) ** 2,
    "select": RBF([0.5, 2.0]).on([2, 0]),
    "sum": RBF(0.5) + 2.0 * Matern12(2.0) + Cosine(4.0, 0.3).named("wave"),
    "product": RBF(2.0) * Periodic(1.5) * RationalQuadratic(),
    "product of cosines": Cosine(2.0) * Cosine([1.0, 2.0, 3.0]),
    "product over columns": RBF().on([0]) * Matern12().on([1]),
    "sum inside a product": (RBF() + 3.0 * Cosine(2.0)) * (Matern52() + Cosine(3.0)),
    "sum inside a power": (RBF(2.0) + Cosine(2.0)) ** 2,
    "sum inside a selection": (RBF() + 0.5 * Matern12()).on([1, 2]),
}


def gram(features, points=X):
    phi = features.fit_transform(points)
    return phi @ phi.T


# -- random Fourier features ----------------------------------------------------------------------


@pytest.mark.parametrize("orthogonal", [False, True], ids=["independent", "orthogonal"])
@pytest.mark.parametrize("name", SPECTRAL)
def test_the_gram_matrix_of_random_features_is_right_on_average(name, orthogonal):
    kernel, seeds = SPECTRAL[name], 16
    grams = [gram(RandomFourierFeatures(kernel, 450, orthogonal, seed)) for seed in range(seeds)]
    exact = np.asarray(kernel(X))
    error = np.mean(grams, axis=0) - exact
    standard_error = np.std(grams, axis=0, ddof=1) / np.sqrt(seeds)
    # 24 kernels, twice, at 21 pairs of points each are 1,000 scores, the largest of which passes
    # the bound once in 100 runs. Cosines have no error but rounding.
    bound = stats.t.isf(0.005 / 1000, seeds - 1) * standard_error + 1e-12 * exact.max()
    assert np.all(np.abs(error) <= bound)
    # A wide bound would let anything pass.
    assert np.max(standard_error) < 0.06 * exact.max()


@pytest.mark.parametrize("name", SPECTRAL)
def test_at_one_point_random_features_are_exact(name):
    kernel = SPECTRAL[name]
    phi = RandomFourierFeatures(kernel, 30).fit_transform(X)
    np.testing.assert_allclose(np.sum(phi**2, axis=1), kernel.diag(X), rtol=1e-12)


@pytest.mark.parametrize("name", ["Matern12", "sum inside a product"])
def test_the_error_falls_as_one_over_the_root_of_the_number_of_features(name):
    kernel, t = SPECTRAL[name], X[1:] - X[0]
    exact = np.asarray(kernel(X))[0, 1:] / np.asarray(kernel.diag(X))[0]

    def error(pairs):
        w = np.asarray(kernel.frequencies(jax.random.key(pairs), 400 * pairs, 3))
        estimates = np.cos(w @ t.T).reshape(400, pairs, 6).mean(axis=1)
        return np.sqrt(np.mean((estimates - exact) ** 2))

    assert error(20) / error(320) == pytest.approx(4.0, rel=0.08)


def test_the_variance_is_that_of_the_theory_for_us_and_for_scikit_learn():
    # Sutherland and Schneider (2015), equations 4 and 5: for m features, (1 + k(2t) - 2 k(t)^2) / m
    # for pairs of cosine and sine, (1 + k(2t) / 2 - k(t)^2) / m for a random phase.
    points, m, seeds = np.array([[0.0, 0.0], [0.9, 0.4]]), 50, 2000
    k, k2 = (np.exp(-factor * np.sum(points[1] ** 2) / 2) for factor in (1, 4))
    # One long draw, cut into pieces: it is the number of seeds that makes a fit slow.
    phi = RandomFourierFeatures(RBF(), seeds * m).fit_transform(points)
    pairs = (phi[0] * phi[1]).reshape(2, seeds, m // 2).sum(axis=(0, 2)) * seeds
    assert np.var(pairs) == pytest.approx((1 + k2 - 2 * k**2) / m, rel=0.15)
    phi = RBFSampler(gamma=0.5, n_components=seeds * m, random_state=0).fit_transform(points)
    phases = (phi[0] * phi[1]).reshape(seeds, m).sum(axis=1) * seeds
    assert np.var(phases) == pytest.approx((1 + k2 / 2 - k**2) / m, rel=0.15)


def test_the_error_is_below_that_of_scikit_learns_sampler_and_lower_at_right_angles():
    points = RNG.normal(size=(50, 4))
    exact = np.asarray(RBF(3.0)(points))

    def error(make):
        return np.sqrt(np.mean([(gram(make(seed), points) - exact) ** 2 for seed in range(20)]))

    ours = error(lambda seed: RandomFourierFeatures(RBF(3.0), 200, seed=seed))
    orthogonal = error(lambda seed: RandomFourierFeatures(RBF(3.0), 200, True, seed=seed))
    theirs = error(lambda seed: RBFSampler(gamma=1 / 18, n_components=200, random_state=seed))
    assert ours < 0.8 * theirs
    assert orthogonal < 0.8 * ours


def test_matern_frequencies_are_a_multivariate_student_t():
    w = np.asarray(Matern32(0.5).frequencies(jax.random.key(1), 20_000, 3))
    # Any linear form of it is a Student t with 2 nu degrees of freedom; |w|^2 / 3 is an F.
    a = np.array([0.6, 0.0, -0.8])
    assert stats.kstest(0.5 * w @ a, stats.t(3).cdf).pvalue > 1e-3
    assert stats.kstest(np.sum((0.5 * w) ** 2, axis=1) / 3, stats.f(3, 3).cdf).pvalue > 1e-3


@pytest.mark.parametrize("n", [2, 8])
def test_orthogonal_directions_are_at_right_angles_and_each_is_gaussian(n):
    keys = jax.random.split(jax.random.key(2), 2000)
    draws = np.asarray(
        jax.vmap(lambda key: spectral_density.gaussian(key, n, 3, orthogonal=True))(keys)
    )
    assert draws.shape == (2000, n, 3)
    for first in range(0, n, 3):
        block = draws[:, first : first + 3]
        products = block @ block.transpose(0, 2, 1)
        off = products * (1 - np.eye(block.shape[1]))
        assert np.max(np.abs(off)) < 1e-12
    for row in range(n):
        assert stats.kstest(draws[:, row, 1], "norm").pvalue > 1e-3
        lengths = np.sum(draws[:, row] ** 2, axis=1)
        assert stats.kstest(lengths, stats.chi2(3).cdf).pvalue > 1e-3


def test_the_features_of_a_sum_are_divided_in_proportion_to_the_variances():
    kernel = RBF(variance=6.0) + Matern12(variance=3.0) + 0.0 * Cosine()
    features = RandomFourierFeatures(kernel, 40).fit(X)
    amplitudes, counts = np.unique(features.amplitudes_, return_counts=True)
    # One pair each, and 17 more as 2 : 1 : 0.
    assert counts.tolist() == [1, 7, 12]
    np.testing.assert_allclose(amplitudes, np.sqrt([0.0, 3 / 7, 6 / 12]))
    with pytest.raises(ValueError, match="the kernel has 3 terms"):
        RandomFourierFeatures(kernel, 4).fit(X)


def test_an_odd_number_of_features_is_rounded_up():
    assert RandomFourierFeatures(RBF(), 7).fit_transform(X).shape == (7, 8)


@pytest.mark.parametrize(
    ("kernel", "culprit"),
    [
        (RBF() + Linear(), "Linear("),
        (RBF() * Polynomial(), "Polynomial("),
        ((RBF() + White()) * Matern12(), "White("),
        (Multiquadric(), "Multiquadric("),
        (2.0 * AllSubsets().on([0]), "AllSubsets("),
        (RBF().exp(), "RBF(lengthscale=1.0, variance=1.0).exp()"),
        (RBF().warp(lambda x: x**2), "warp("),
    ],
)
def test_a_kernel_without_a_spectral_density_is_named(kernel, culprit):
    with pytest.raises(ValueError, match="has no spectral density") as error:
        RandomFourierFeatures(kernel).fit(X)
    named = str(error.value).split(" has no")[0]
    assert culprit in named
    assert " + " not in named


def test_the_error_lists_the_kernels_that_have_a_spectral_density():
    listed = set(re.findall(r"\w+", spectral_density.SPECTRAL)) - {"and"}
    assert listed <= set(SPECTRAL)
    for name in listed:
        assert type(SPECTRAL[name]).__name__ == name


def test_a_stationary_kernel_of_ones_own_may_have_a_spectral_density():
    class Exponential(Stationary):
        rate: jax.Array = hyperparameter(1.0)

        def profile(self, u):
            return jax.numpy.exp(-self.rate * u)

    with pytest.raises(ValueError, match="has no spectral density"):
        RandomFourierFeatures(Exponential()).fit(X)

    class Mixed(Exponential):
        def mixing(self, key, n):
            return jax.numpy.full(n, 2.0 * self.rate)

    error = gram(RandomFourierFeatures(Mixed(rate=0.7), 20_000)) - np.asarray(Mixed(rate=0.7)(X))
    assert np.max(np.abs(error)) < 0.05


# -- Nystrom --------------------------------------------------------------------------------------

ANY = {
    "RBF": RBF(0.8),
    "Matern12": Matern12(),
    "Linear": Linear(2.0) + Constant(0.5),
    "Polynomial": Polynomial(degree=3),
    "composite": (RBF() + Linear()) * Periodic(3.0),
}


@pytest.mark.parametrize("selection", ["kmeans", "random"])
@pytest.mark.parametrize("name", ANY)
def test_nystrom_is_the_projection_on_its_landmarks(name, selection):
    points, kernel = RNG.normal(size=(60, 2)), ANY[name]
    features = NystromFeatures(kernel, 15, selection).fit(points)
    Z, phi = features.landmarks_, features.transform(points)
    between = np.asarray(kernel(points, Z))
    wanted = between @ np.linalg.pinv(np.asarray(kernel(Z)), rcond=1e-13, hermitian=True)
    size = np.max(np.asarray(kernel.diag(points)))
    np.testing.assert_allclose(phi @ phi.T, wanted @ between.T, atol=1e-9 * size)
    at_landmarks = features.transform(Z)
    np.testing.assert_allclose(at_landmarks @ at_landmarks.T, kernel(Z), atol=1e-12 * size)
    np.testing.assert_allclose(phi @ at_landmarks.T, between, atol=1e-9 * size)
    assert np.all(np.sum(phi**2, axis=1) <= np.asarray(kernel.diag(points)) + 1e-9 * size)


def test_a_kernel_of_finite_rank_is_exact_with_as_many_features():
    points = RNG.normal(size=(40, 3))
    features = NystromFeatures(Linear(), 20, "random").fit(points)
    phi = features.transform(points)
    assert phi.shape == (40, 3)
    np.testing.assert_allclose(phi @ phi.T, points @ points.T, atol=1e-12)


def test_nystrom_is_scikit_learns_at_the_same_landmarks():
    points = RNG.normal(size=(80, 3))
    theirs = Nystroem(sk.Matern(1.2, nu=1.5), n_components=20, random_state=0).fit(points)
    # With as many landmarks as points, all of them serve, whatever the order.
    ours = NystromFeatures(Matern32(1.2), 20, "random").fit(theirs.components_)
    assert len(ours.landmarks_) == 20
    a, b = ours.transform(points), theirs.transform(points)
    np.testing.assert_allclose(a @ a.T, b @ b.T, atol=1e-10)


def test_k_means_landmarks_serve_better_than_random_ones():
    points = np.concatenate([c + 0.1 * RNG.normal(size=(30, 2)) for c in RNG.normal(size=(8, 2))])
    exact = np.asarray(RBF(0.5)(points))

    def error(selection):
        grams = [gram(NystromFeatures(RBF(0.5), 8, selection, s), points) for s in range(5)]
        return np.mean([np.linalg.norm(K - exact) for K in grams])

    assert error("kmeans") < 0.6 * error("random")


def test_landmarks_are_at_most_the_distinct_points():
    points = np.repeat(RNG.normal(size=(4, 2)), 5, axis=0)
    features = NystromFeatures(RBF(), 50).fit(points)
    assert len(features.landmarks_) == 4
    np.testing.assert_allclose(gram(features, points), RBF()(points), atol=1e-12)
    # Landmarks that repeat are no trouble either: their gram matrix has no full rank.
    features = NystromFeatures(RBF(), 50, "random").fit(points)
    assert features.normalization_.shape == (20, 4)
    np.testing.assert_allclose(gram(features, points), RBF()(points), atol=1e-12)


def test_white_noise_has_no_features():
    features = NystromFeatures(RBF() + White(0.3), 7, "random").fit(X)
    np.testing.assert_allclose(gram(features), RBF()(X), atol=1e-12)


def test_large_data_are_taken_in_blocks(monkeypatch):
    from bayeskern.kernels import estimator as module

    points = RNG.normal(size=(600, 2))
    features = NystromFeatures(RBF(), 10).fit(points)
    whole = features.transform(points)
    monkeypatch.setattr(module, "BLOCK", 1)
    np.testing.assert_allclose(features.transform(points), whole, atol=1e-12)


def test_nystrom_refuses_what_is_no_kernel():
    with pytest.raises(ValueError, match="Multiquadric.* is not positive definite"):
        NystromFeatures(RBF() + Multiquadric()).fit(X)
    with pytest.raises(ValueError, match="Did you mean 'kmeans'"):
        NystromFeatures(RBF(), selection="k-means").fit(X)


# -- radial basis functions -----------------------------------------------------------------------


def test_radial_basis_is_the_formula():
    centers = RNG.normal(size=(5, 3))
    phi = RadialBasis(centers, 0.7).fit_transform(X)
    wanted = np.exp(-cdist(X, centers, "sqeuclidean") / (2 * 0.7**2))
    np.testing.assert_allclose(phi, wanted, rtol=1e-12)


def test_the_number_of_centers_stands_for_those_of_k_means():
    points = RNG.normal(size=(100, 2))
    found = RadialBasis(6, seed=5).fit(points).centers_
    assert found.shape == (6, 2)
    # Lloyd's fixed point: each centre is the mean of the points nearest to it.
    nearest = np.argmin(cdist(points, found), axis=1)
    for j in range(6):
        np.testing.assert_allclose(found[j], points[nearest == j].mean(axis=0), atol=1e-6)
    best = KMeans(6, n_init=20, random_state=0).fit(points).inertia_
    assert np.sum(cdist(points, found).min(axis=1) ** 2) < 1.3 * best


def test_centers_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="centers have 2 columns but X has 3"):
        RadialBasis(np.zeros((4, 2))).fit(X)
    with pytest.raises(ValueError, match="centers must be a whole number of at least 1, got 0"):
        RadialBasis(0).fit(X)
    with pytest.raises(ValueError, match="RBF.lengthscale must be positive"):
        RadialBasis(2, lengthscale=-1.0).fit(X)


# -- all three ------------------------------------------------------------------------------------

ALL = [RandomFourierFeatures(RBF(), 10), NystromFeatures(RBF(), 10), RadialBasis(4)]


@parametrize_with_checks(ALL)
def test_they_are_transformers_as_scikit_learn_wants_them(estimator, check):
    check(estimator)


@pytest.mark.parametrize("features", ALL, ids=lambda f: type(f).__name__)
def test_features_follow_their_seed(features):
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
def test_a_kernel_finds_its_columns_in_a_data_frame(frame, make):
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


def test_centers_in_a_data_frame_are_put_in_the_order_of_the_inputs():
    table = pd.DataFrame(X, columns=["a", "b", "c"])
    turned = RadialBasis(table[["c", "a", "b"]]).fit_transform(table)
    assert np.array_equal(turned, RadialBasis(table).fit_transform(table))


@pytest.mark.parametrize("make", [RandomFourierFeatures, NystromFeatures])
def test_the_kernel_must_be_a_kernel_of_numbers(make):
    with pytest.raises(TypeError, match=re.escape("kernel must be a bayeskern kernel")):
        make("rbf").fit(X)
    with pytest.raises(TypeError, match="lengthscale of RBF.* have no value yet"):
        make(RBF(dist.LogNormal())).fit(X)


def test_names_that_come_with_scikit_learn_are_found_and_others_are_not():
    assert kernels.RadialBasis is RadialBasis
    with pytest.raises(AttributeError, match="'bayeskern.kernels' has no attribute 'Fourier'"):
        _ = kernels.Fourier
