"""Gaussian mixtures against SciPy's distributions and root finding."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import logsumexp
from scipy.stats import norm

from bayeskern import Prediction
from bayeskern.prediction.mixture import Mixture, thin


def mixture(means, variances):
    """Prediction by S equally weighted Gaussians at m points."""
    means, variances = np.asarray(means, float), np.asarray(variances, float)

    def draw(key, n):
        part, noise = jax.random.split(key)
        rows = jax.random.randint(part, (n,), 0, len(means))
        return means[rows] + np.sqrt(variances[rows]) * jax.random.normal(
            noise, (n, means.shape[1])
        )

    return Prediction(lambda: means, lambda: (means, variances), draw)


def brute_quantile(means, sds, p):
    """Root of the distribution function of the mixture, point by point."""

    def excess(x):
        return norm.cdf(x, means, sds).mean() - p

    parts = norm.ppf(p, means, sds)
    return brentq(excess, parts.min() - 1.0, parts.max() + 1.0, xtol=1e-13, rtol=1e-14)


def example(S=7, m=5, seed=0):
    rng = np.random.default_rng(seed)
    return 3.0 * rng.normal(size=(S, m)), np.exp(rng.normal(size=(S, m)))


CASES = {
    "well_mixed": example(),
    "two_points_far_apart": ([[-50.0, 0.0], [50.0, 1e3]], [[1.0, 4.0], [0.1, 1e-4]]),
    "very_different_scales": ([[0.0, 1.0], [0.0, 1.0]], [[1e-12, 1.0], [1e6, 1.0]]),
    "two_hundred_parts": example(200, 3, seed=1),
}


@pytest.mark.parametrize("name", CASES)
def test_quantiles_against_root_finding(name):
    means, variances = map(np.asarray, CASES[name])
    prediction = mixture(means, variances)
    sds = np.sqrt(variances)
    probabilities = [0.001, 0.025, 0.3, 0.5, 0.9, 0.999]
    found = prediction.quantile(probabilities)
    assert found.shape == (6, means.shape[1])
    for row, p in zip(found, probabilities, strict=True):
        expected = [brute_quantile(m, s, p) for m, s in zip(means.T, sds.T, strict=True)]
        # In probability, where the distribution function is steep or flat alike, or in value.
        reached = norm.cdf(row, means, sds).mean(axis=0)
        close = np.isclose(row, expected, rtol=1e-8, atol=1e-8)
        assert np.all(close | (np.abs(reached - p) < 1e-10)), (row, expected)
    np.testing.assert_array_equal(prediction.quantile(0.3), found[2])
    np.testing.assert_array_equal(prediction.median, found[3])
    assert np.all(np.diff(found, axis=0) > 0)


def test_distribution_function_against_scipy():
    means, variances = np.array([[-1.0, 0.0], [2.0, 3.0]]), np.array([[1.0, 4.0], [0.25, 9.0]])
    expected = norm(means, np.sqrt(variances)).cdf([0.5, 1.0]).mean(axis=0)
    np.testing.assert_allclose(mixture(means, variances).cdf([0.5, 1.0]), expected, rtol=1e-14)


def test_one_gaussian_is_exact():
    means, variances = example(S=1)
    prediction, exact = mixture(means, variances), norm(means[0], np.sqrt(variances[0]))
    np.testing.assert_allclose(prediction.mean, means[0], rtol=1e-14)
    np.testing.assert_allclose(prediction.sd, np.sqrt(variances[0]), rtol=1e-14)
    np.testing.assert_allclose(prediction.quantile(0.9), exact.ppf(0.9), rtol=1e-12)
    np.testing.assert_allclose(prediction.median, means[0], rtol=1e-14)
    for bound, expected in zip(prediction.interval(0.8), exact.interval(0.8), strict=True):
        np.testing.assert_allclose(bound, expected, rtol=1e-12)


def test_moments_against_numerical_integration():
    means, variances = example(S=3, m=2)
    prediction = mixture(means, variances)
    x = np.linspace(-40, 40, 200_001)
    for i in range(2):
        pdf = norm.pdf(x[:, None], means[:, i], np.sqrt(variances[:, i])).mean(axis=1)
        mean = np.trapezoid(x * pdf, x)
        variance = np.trapezoid((x - mean) ** 2 * pdf, x)
        # The trapezoid rule converges geometrically for these.
        np.testing.assert_allclose(prediction.mean[i], mean, atol=1e-9)
        np.testing.assert_allclose(prediction.variance[i], variance, atol=1e-9)
        np.testing.assert_allclose(prediction.sd[i], np.sqrt(variance), atol=1e-9)


@pytest.mark.parametrize("level", [0.0, 1.0, 95, -0.1, np.nan, "wide", None])
def test_invalid_levels_are_refused(level):
    with pytest.raises(ValueError, match=r"level must be a probability strictly between 0 and 1"):
        mixture(*example()).interval(level)


@pytest.mark.parametrize("q", [0.0, 1.0, 2.5, [0.1, np.nan]])
def test_invalid_probabilities_are_refused(q):
    with pytest.raises(ValueError, match="q must lie strictly between 0 and 1"):
        mixture(*example()).quantile(q)


def test_points_without_variance():
    # A component such as a linear trend at its centre: every draw says 0 and is sure of it.
    means, variances = np.array([[0.0, 1.0], [0.0, 2.0]]), np.array([[0.0, 0.5], [0.0, 0.7]])
    prediction = mixture(means, variances)
    with np.errstate(all="raise"):
        found = prediction.quantile([0.1, 0.5, 0.8])
    np.testing.assert_allclose(found[:, 0], 0.0, atol=1e-8)
    for row, p in zip(found, (0.1, 0.5, 0.8), strict=True):
        expected = brute_quantile(means[:, 1], np.sqrt(variances[:, 1]), p)
        np.testing.assert_allclose(row[1], expected, rtol=1e-8)


def test_log_density_against_scipy():
    means, variances = example()
    y = np.array([0.3, -2.0, 15.0, 0.0, 1e3])  # the last so far out that the density underflows
    found = mixture(means, variances).log_density(y)
    expected = logsumexp(norm.logpdf(y, means, np.sqrt(variances)), axis=0) - np.log(7)
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    with pytest.raises(ValueError, match="y has 4 values but X has 5 points"):
        mixture(means, variances).log_density(y[:4])


def test_sample_seeds():
    prediction = mixture(*example())
    first = prediction.sample(4, seed=3)
    assert first.shape == (4, 5)
    assert isinstance(first, np.ndarray)
    np.testing.assert_array_equal(first, prediction.sample(4, seed=3))
    assert np.all(first != prediction.sample(4, seed=4))
    assert prediction.sample().shape == (1, 5)
    for n in (0, -1, 2.5, True):
        with pytest.raises(ValueError, match="n must be a whole number of at least 1"):
            prediction.sample(n)


def test_to_frame():
    means, variances = example()
    prediction = mixture(means, variances)
    frame = prediction.to_frame(0.8)
    assert list(frame.columns) == ["mean", "sd", "median", "lower", "upper"]
    assert len(frame) == 5
    np.testing.assert_allclose(frame["mean"], means.mean(axis=0))
    np.testing.assert_allclose(frame["sd"] ** 2, variances.mean(axis=0) + means.var(axis=0))
    for column, p in [("lower", 0.1), ("median", 0.5), ("upper", 0.9)]:
        reached = norm.cdf(frame[column], means, np.sqrt(variances)).mean(axis=0)
        np.testing.assert_allclose(reached, p, atol=1e-10)
    with pytest.raises(ValueError, match="level must be a probability"):
        prediction.to_frame(80)


def test_moments_are_computed_lazily_and_once():
    calls = []
    means, variances = example()

    def count(name, value):
        def call():
            calls.append(name)
            return value

        return call

    prediction = Prediction(count("means", means), count("moments", (means, variances)), None)
    assert "lazy" in repr(prediction)
    assert calls == []
    _ = prediction.mean, prediction.mean
    assert calls == ["means"]
    assert "5 points" in repr(prediction)
    _ = prediction.sd, prediction.interval(), prediction.log_density(np.zeros(5)), prediction.sd
    assert calls == ["means", "moments"]
    # Where the moments are known the mean is among them.
    calls.clear()
    other = Prediction(count("means", means), count("moments", (means, variances)), None)
    _ = other.sd
    np.testing.assert_allclose(other.mean, means.mean(axis=0))
    assert calls == ["moments"]


@pytest.mark.parametrize("where", [0, 1])
def test_nan_raises(where):
    parts = [part.copy() for part in example()]
    parts[where][3, 2] = np.nan
    prediction = mixture(*parts)
    for ask in ("sd", "variance", "median"):
        with pytest.raises(FloatingPointError, match="could not be factored"):
            getattr(prediction, ask)
    if where == 0:
        with pytest.raises(FloatingPointError, match="could not be factored"):
            _ = mixture(*parts).mean
        broken = Prediction(None, None, lambda key, n: np.full((n, 5), np.nan))
        with pytest.raises(FloatingPointError, match="could not be factored"):
            broken.sample(2)


def test_without_components():
    with pytest.raises(ValueError, match="no components; name the terms"):
        mixture(*example()).component("trend")


class Line(eqx.Module):
    """Independent Gaussians around slope * X."""

    slope: jax.Array
    sd: float
    X: jax.Array

    def mean(self):
        return self.slope * self.X

    def moments(self):
        return self.mean(), jnp.full_like(self.X, self.sd**2)

    def sample(self, key, n):
        return self.mean() + self.sd * jax.random.normal(key, (n, len(self.X)))


def line_at(sd, draw, X):
    return Line(draw["slope"] if draw else jnp.ones(()), sd, X)


def test_mixture_is_independent_of_chunks(monkeypatch):
    slopes, X = np.array([-1.0, 0.5, 2.0]), np.linspace(0.0, 3.0, 600)
    draws, at = {"slope": jnp.asarray(slopes)}, eqx.Partial(line_at, 0.1)
    for chunk in (2**24, 1):
        monkeypatch.setattr("bayeskern.prediction.mixture.CHUNK_NUMBERS", chunk)
        means, variances = Mixture(at, draws, X, 10).parts
        np.testing.assert_allclose(means, slopes[:, None] * X, rtol=1e-14)
        np.testing.assert_allclose(variances, 0.01, rtol=1e-14)


def test_joint_draws_come_from_parts_equally_often():
    slopes, X = np.array([-1.0, 0.5, 2.0]), np.array([1.0, 2.0])
    at = eqx.Partial(line_at, 1e-6)
    prediction = Mixture(at, {"slope": jnp.asarray(slopes)}, X, 10)
    samples = prediction.sample(300, seed=1)
    found, counts = np.unique(samples[:, 0].round(3), return_counts=True)
    np.testing.assert_allclose(found, slopes, atol=1e-3)
    np.testing.assert_array_equal(counts, 100)
    np.testing.assert_allclose(samples[:, 1], 2.0 * samples[:, 0], atol=1e-4)
    np.testing.assert_array_equal(samples, prediction.sample(300, seed=1))


def test_mixture_without_draws_has_one_part():
    X = np.array([1.0, 2.0])
    prediction = Mixture(eqx.Partial(line_at, 0.5), {}, X, 10)
    assert prediction.parts[0].shape == (1, 2)
    np.testing.assert_allclose(prediction.mean, X)
    np.testing.assert_allclose(prediction.sd, 0.5)


def test_thinned_draws_of_a_number_have_its_quantiles():
    draws = np.random.default_rng(0).permutation(1_000) / 1_000.0
    (found,) = thin({"a": draws}, 50).values()
    # Uniform: the middle of each of 50 intervals.
    np.testing.assert_allclose(np.sort(found), (np.arange(50) + 0.5) / 50.0, atol=1.001e-3)
