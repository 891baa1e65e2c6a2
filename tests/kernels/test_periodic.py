"""Periodic kernels against their formulas and scikit-learn."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import i0e, iv
from sklearn.gaussian_process.kernels import ExpSineSquared

from bayeskern.core.validation import NotPositiveDefiniteError
from bayeskern.kernels import Cosine, Custom, Periodic, Seasonal, check_psd
from bayeskern.kernels.numpy_gram import Gram
from bayeskern.kernels.pairs import Pairs, PairWeights
from tests.kernels.compare import close

RNG = np.random.default_rng(8)


@pytest.mark.parametrize(
    ("period", "lengthscale"),
    [
        (1.7, 0.6),
        ([1.7, 0.4, 3.0], 0.6),
        (1.7, [0.6, 1.0, 2.5]),
        ([1.7, 0.4, 3.0], [0.6, 1.0, 2.5]),
    ],
)
def test_periodic(period, lengthscale):
    X, Z = RNG.normal(size=(6, 3)), RNG.normal(size=(4, 3))
    t = X[:, None] - Z[None]
    squares = np.sin(np.pi * t / np.array(period)) ** 2 / np.array(lengthscale) ** 2
    k = Periodic(period=period, lengthscale=lengthscale, variance=0.7)
    close(k(X, Z), 0.7 * np.exp(-2 * squares.sum(-1)))
    close(k.diag(X), np.full(6, 0.7))


def test_periodic_matches_scikit_learn_in_one_dimension():
    x, z = RNG.normal(size=(6, 1)), RNG.normal(size=(4, 1))
    close(Periodic(period=1.7, lengthscale=0.6)(x, z), ExpSineSquared(0.6, 1.7)(x, z))


def test_periodic_is_positive_definite_in_two_dimensions():
    X = np.random.default_rng(0).normal(size=(200, 2))
    assert np.linalg.eigvalsh(ExpSineSquared(1.0, 1.0)(X))[0] < -5
    assert np.linalg.eigvalsh(Periodic()(X))[0] > -1e-12
    assert check_psd(Periodic(), X) > -1e-12

    def of_the_distance(x, z):
        r = jnp.sqrt(jnp.sum((x - z) ** 2))
        return jnp.exp(-2 * jnp.sin(jnp.pi * r) ** 2)

    with pytest.raises(NotPositiveDefiniteError, match="not positive semi-definite"):
        check_psd(Custom(of_the_distance), X)


@pytest.mark.parametrize("period", [1.3, [1.3, 0.4]])
def test_cosine(period):
    X, Z = RNG.normal(size=(6, 2)), RNG.normal(size=(4, 2))
    expected = 0.7 * np.cos(2 * np.pi * ((X[:, None] - Z[None]) / np.array(period)).sum(-1))
    close(Cosine(period=period, variance=0.7)(X, Z), expected)


@pytest.mark.parametrize(
    "k",
    [Periodic(period=0.5), Seasonal(period=0.5), Cosine(period=0.5)],
    ids=["Periodic", "Seasonal", "Cosine"],
)
def test_repeats_after_one_period(k):
    X = RNG.normal(size=(5, 1))
    close(k(X, X + 0.5), np.asarray(k(X)), rtol=1e-12)
    assert np.abs(np.asarray(k(X, X + 0.25)) - np.asarray(k(X))).max() > 0.1


@pytest.mark.slow
@pytest.mark.parametrize("coincident", [False, True])
def test_hessian_of_periodic_in_the_lengthscale_and_period(coincident):
    # k = exp(-2 s / l^2), s = sin^2(a), a = pi t / p
    t, length, p = 0.0 if coincident else 0.43, 0.8, 1.7
    a = np.pi * t / p
    s, k = np.sin(a) ** 2, np.exp(-2 * np.sin(a) ** 2 / length**2)
    g, gl, gll = -2 * s / length**2, 4 * s / length**3, -12 * s / length**4
    ds = np.sin(2 * a) * -a / p
    dds = 2 * np.cos(2 * a) * (a / p) ** 2 + np.sin(2 * a) * 2 * a / p**2
    gp, gpp, glp = -2 * ds / length**2, -2 * dds / length**2, 4 * ds / length**3
    assert k == np.exp(g)
    expected = k * np.array([[gl * gl + gll, gl * gp + glp], [gl * gp + glp, gp * gp + gpp]])

    def value(theta):
        return Periodic().at({"lengthscale": theta[0], "period": theta[1]})([0.0], [t])[0, 0]

    theta = np.array([length, p])
    close(jax.grad(value)(theta), [k * gl, k * gp])
    close(jax.hessian(value)(theta), expected, rtol=1e-10)


@pytest.mark.slow
def test_mixed_second_derivative_of_periodic_at_coincident_points():
    # near 0: exp(-2 (pi t / p)^2 / l^2), the RBF kernel of lengthscale p l / (2 pi)
    k = Periodic(period=[1.7, 0.6], lengthscale=[0.8, 2.0])
    x = RNG.normal(size=2)
    actual = jax.jacfwd(jax.jacrev(lambda x, z: k(x[None], z[None])[0, 0], 0), 1)(x, jnp.asarray(x))
    expected = np.diag((2 * np.pi / (np.array([1.7, 0.6]) * np.array([0.8, 2.0]))) ** 2)
    close(actual, expected, atol=1e-10)


@pytest.mark.parametrize(
    ("k", "name"),
    [
        (Periodic(period=[1.0, 2.0]), "period"),
        (Periodic(lengthscale=[1.0, 2.0]), "lengthscale"),
        (Cosine(period=[1.0, 2.0]), "period"),
    ],
)
def test_wrong_shapes(k, name):
    with pytest.raises(ValueError, match=rf"{name} has shape \(2,\)"):
        k(np.ones((4, 3)))


# -- Seasonal --------------------------------------------------------------------------------------

LENGTHSCALES = [0.1, 0.6, 1.0, 3.0]


@pytest.mark.parametrize("lengthscale", LENGTHSCALES)
def test_seasonal(lengthscale):
    """The formula as it is written, with the Bessel function of SciPy."""
    s, t = RNG.normal(size=6), RNG.normal(size=4)
    a = 1.0 / lengthscale**2
    mean = np.exp(-a) * iv(0, a)
    repeats = np.exp(-2.0 * a * np.sin(np.pi * np.subtract.outer(s, t) / 1.7) ** 2)
    k = Seasonal(period=1.7, lengthscale=lengthscale, variance=0.7)
    close(k(s, t), 0.7 * (repeats - mean) / (1.0 - mean))
    close(k.diag(s), np.full(6, 0.7))


@pytest.mark.parametrize("lengthscale", LENGTHSCALES)
def test_seasonal_mean_over_a_period_is_zero(lengthscale):
    k = Seasonal(period=1.7, lengthscale=lengthscale, variance=0.7)
    # The trapezoidal rule, which has no error but rounding for a smooth periodic function.
    s = np.linspace(0.0, 1.7, 400, endpoint=False)
    close(np.mean(k(s, [0.0, 0.9]), axis=0), [0.0, 0.0], atol=1e-12)


@pytest.mark.parametrize("count", [20, 60])
def test_short_lengthscale_gives_effects_that_sum_to_zero(count):
    """Far from one another, values have the correlation -1 / (B - 1) of B = 1 / c such effects."""
    log_lengthscale = brentq(lambda u: i0e(np.exp(-2.0 * u)) - 1.0 / count, -6.0, 1.0, xtol=1e-14)
    k = Seasonal(period=5.0, lengthscale=np.exp(log_lengthscale), variance=0.7)
    effects = np.eye(count) - 1.0 / count
    np.testing.assert_allclose(effects.sum(axis=0), 0.0, atol=1e-14)
    expected = 0.7 * effects[:5, :5] / effects[0, 0]
    close(k(np.arange(5.0)), expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("lengthscale", [1e2, 1e9])
def test_long_lengthscale_gives_a_cosine(lengthscale):
    # The second harmonic has a / 4 of the variance of the first.
    t = np.linspace(0.0, 1.7, 12)
    season, wave = Seasonal(1.7, lengthscale, 0.7), Cosine(1.7, 0.7)
    close(season(t), np.asarray(wave(t)), rtol=0.0, atol=0.5 * lengthscale**-2 + 1e-14)


@pytest.mark.parametrize("lengthscale", [0.05, 0.999, 1.001, 1e5])
def test_seasonal_derivatives_in_numpy_match_jax(lengthscale):
    t = np.linspace(0.0, 4.0, 12)
    values = {"period": 1.7, "lengthscale": lengthscale, "variance": 0.7}
    pairs = Pairs(t[:, None], t[None, :])
    K, pullback = Gram(Seasonal())(list(values.values()), pairs)
    close(K, np.asarray(Seasonal(**values)(t)))
    slopes = jax.jacfwd(lambda values: Seasonal().at(values)(t))(values)
    # Weights of one in one place each.
    places = np.eye(K.size).reshape(-1, *K.shape)
    at_places = [pullback(PairWeights(pairs, lambda A=A: A)) for A in places]
    for name, of_places in zip(values, zip(*at_places, strict=True), strict=True):
        ours = np.reshape([slope() for slope in of_places], K.shape)
        # Terms of this size cancel, in both of them.
        rounding = 1e-14 / lengthscale if name == "lengthscale" else 1e-13
        close(ours, np.asarray(slopes[name]), rtol=1e-9, atol=rounding)


def test_seasonal_takes_one_column():
    with pytest.raises(ValueError, match="Seasonal is a kernel of one column, a time"):
        Seasonal()(np.ones((4, 2)))
    with pytest.raises(ValueError, match=r"lengthscale has shape \(2,\)"):
        Seasonal(lengthscale=[1.0, 2.0])(np.ones(4))
