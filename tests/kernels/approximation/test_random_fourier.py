"""Random Fourier features against the Gram matrix, scikit-learn, and the theory of their errors."""

import re

import jax
import numpy as np
import pytest
from scipy import stats
from sklearn.kernel_approximation import RBFSampler

from bayeskern.kernels import (
    RBF,
    AllSubsets,
    Cosine,
    Linear,
    Matern12,
    Matern32,
    Matern52,
    Multiquadric,
    Periodic,
    Polynomial,
    RandomFourierFeatures,
    RationalQuadratic,
    SpectralMixture,
    Stationary,
    White,
    hyperparameter,
    spectral_density,
)
from tests.kernels import cases
from tests.marks import few, slow

RNG = np.random.default_rng(4)
X = 0.8 * RNG.normal(size=(7, 3))
MIXTURE = SpectralMixture([1.5, 0.5], [[0.5, 0.2, 0.0], [0.1, 0.4, 0.3]], [[0.2], [0.4]])

SPECTRAL = {
    **{name: k for name, k in cases.of_columns(3).items() if "frequencies" in k.offers},
    "mixture of one scale": MIXTURE,
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


@pytest.mark.slow
@pytest.mark.parametrize("orthogonal", [slow(False), True], ids=["independent", "orthogonal"])
@pytest.mark.parametrize("name", SPECTRAL)
def test_random_features_are_unbiased(name, orthogonal):
    kernel, seeds = SPECTRAL[name], 16
    grams = [gram(RandomFourierFeatures(kernel, 450, orthogonal, seed)) for seed in range(seeds)]
    exact = np.asarray(kernel(X))
    error = np.mean(grams, axis=0) - exact
    standard_error = np.std(grams, axis=0, ddof=1) / np.sqrt(seeds)
    # 29 kernels, twice, at 21 pairs of points each are 1,200 scores, the largest of which passes
    # the bound once in 100 runs. Cosines have no error but rounding.
    bound = stats.t.isf(0.005 / 1200, seeds - 1) * standard_error + 1e-12 * exact.max()
    assert np.all(np.abs(error) <= bound)
    # A wide bound would let anything pass.
    assert np.max(standard_error) < 0.06 * exact.max()


@pytest.mark.parametrize("name", few(SPECTRAL, "rbf", "sum inside a product"))
def test_variance_of_random_features_is_exact(name):
    kernel = SPECTRAL[name]
    phi = RandomFourierFeatures(kernel, 30).fit_transform(X)
    np.testing.assert_allclose(np.sum(phi**2, axis=1), kernel.diag(X), rtol=1e-12)


def test_variance_of_the_estimates_matches_theory():
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


@pytest.mark.slow
def test_error_is_below_scikit_learn_and_least_if_orthogonal():
    points = RNG.normal(size=(50, 4))
    exact = np.asarray(RBF(3.0)(points))

    def error(make):
        return np.sqrt(np.mean([(gram(make(seed), points) - exact) ** 2 for seed in range(20)]))

    ours = error(lambda seed: RandomFourierFeatures(RBF(3.0), 200, seed=seed))
    orthogonal = error(lambda seed: RandomFourierFeatures(RBF(3.0), 200, True, seed=seed))
    theirs = error(lambda seed: RBFSampler(gamma=1 / 18, n_components=200, random_state=seed))
    assert ours < 0.8 * theirs
    assert orthogonal < 0.8 * ours


def test_matern_frequencies_are_student_t():
    w = np.asarray(Matern32(0.5).frequencies(jax.random.key(1), 20_000, 3))
    # Any linear form of it is a Student t with 2 nu degrees of freedom; |w|^2 / 3 is an F.
    a = np.array([0.6, 0.0, -0.8])
    assert stats.kstest(0.5 * w @ a, stats.t(3).cdf).pvalue > 1e-3
    assert stats.kstest(np.sum((0.5 * w) ** 2, axis=1) / 3, stats.f(3, 3).cdf).pvalue > 1e-3


@pytest.mark.parametrize("n", few([2, 8], 8))
def test_orthogonal_directions(n):
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


def test_features_of_a_sum_are_allocated_by_variance():
    kernel = RBF(variance=6.0) + Matern12(variance=3.0) + 0.0 * Cosine()
    features = RandomFourierFeatures(kernel, 40).fit(X)
    amplitudes, counts = np.unique(features.amplitudes_, return_counts=True)
    # One pair each, and 17 more as 2 : 1 : 0.
    assert counts.tolist() == [1, 7, 12]
    np.testing.assert_allclose(amplitudes, np.sqrt([0.0, 3 / 7, 6 / 12]))
    with pytest.raises(ValueError, match="the kernel has 3 terms"):
        RandomFourierFeatures(kernel, 4).fit(X)


def test_frequencies_of_a_sum_are_allocated_by_variance():
    # One draw from a sum is a draw from a random term: the numbers of draws are binomial.
    kernel = Cosine(2.0, 3.0) + Cosine(4.0, 1.0)
    w = np.abs(np.asarray(kernel.frequencies(jax.random.key(3), 4_000, 1)))
    of_first = np.isclose(w, np.pi)
    assert np.all(of_first | np.isclose(w, np.pi / 2.0))
    assert stats.binomtest(int(of_first.sum()), 4_000, 0.75).pvalue > 1e-3


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
        (RBF().modulate(lambda x: x[0]), "modulate("),
    ],
)
def test_kernels_without_a_spectral_density_are_refused(kernel, culprit):
    with pytest.raises(ValueError, match="has no spectral density") as error:
        RandomFourierFeatures(kernel).fit(X)
    named = str(error.value).split(" has no")[0]
    assert culprit in named
    assert " + " not in named


def test_error_lists_all_kernels_with_a_spectral_density():
    message = str(spectral_density.no_spectral_density(Linear()))
    listed = re.search(r"Use (.*), or their sums", message)[1]
    names = set(re.findall(r"\w+", listed)) - {"or"}
    assert names == {type(kernel).__name__ for kernel in cases.offering("frequencies").values()}


def test_user_defined_stationary_kernel():
    class Exponential(Stationary):
        rate: jax.Array = hyperparameter(1.0)

        def profile(self, u):
            return jax.numpy.exp(-self.rate * u)

    with pytest.raises(ValueError, match="has no spectral density"):
        RandomFourierFeatures(Exponential()).fit(X)

    class Mixed(Exponential):
        def mixing(self, key, n):
            return jax.numpy.full(n, 2.0 * self.rate)

    error = gram(RandomFourierFeatures(Mixed(rate=0.7), 4_000)) - np.asarray(Mixed(rate=0.7)(X))
    assert np.max(np.abs(error)) < 0.1
