"""Stationary kernels against their formulas, SciPy's Bessel functions and scikit-learn."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.spatial.distance import cdist
from scipy.special import gamma, kv

from bayeskern.kernels import (
    RBF,
    InverseMultiquadric,
    Matern12,
    Matern32,
    Matern52,
    Multiquadric,
    PowerExponential,
    RationalQuadratic,
    SpectralMixture,
    White,
)
from tests.kernels.compare import close
from tests.marks import few, slow

RNG = np.random.default_rng(20)
ALPHA, HALF = 0.7, 0.65


def bessel(nu, r):
    """Matern: Rasmussen and Williams (2006), equation 4.14."""
    s = np.sqrt(2 * nu) * np.where(r > 0, r, 1.0)
    return np.where(r > 0, 2 ** (1 - nu) / gamma(nu) * s**nu * kv(nu, s), 1.0)


# f(r), written from the table of the design.
RADIAL = {
    RBF: lambda r: np.exp(-(r**2) / 2),
    Matern12: lambda r: bessel(0.5, r),
    Matern32: lambda r: bessel(1.5, r),
    Matern52: lambda r: bessel(2.5, r),
    RationalQuadratic: lambda r: (1 + r**2 / (2 * ALPHA)) ** -ALPHA,
    PowerExponential: lambda r: np.exp(-(r ** (2 * HALF))),
    InverseMultiquadric: lambda r: (1 + r**2) ** -0.5,
    Multiquadric: lambda r: np.sqrt(1 + r**2),
}

# First and second derivative of f as a function of u = r^2, worked out by hand.
DERIVATIVES = {
    RBF: (lambda r: -np.exp(-(r**2) / 2) / 2, lambda r: np.exp(-(r**2) / 2) / 4),
    Matern12: (
        lambda r: -np.exp(-r) / (2 * r),
        lambda r: np.exp(-r) * (1 + r) / (4 * r**3),
    ),
    Matern32: (
        lambda r: -1.5 * np.exp(-np.sqrt(3) * r),
        lambda r: 2.25 * np.exp(-np.sqrt(3) * r) / (np.sqrt(3) * r),
    ),
    Matern52: (
        lambda r: -5 / 6 * (1 + np.sqrt(5) * r) * np.exp(-np.sqrt(5) * r),
        lambda r: 25 / 12 * np.exp(-np.sqrt(5) * r),
    ),
    RationalQuadratic: (
        lambda r: -0.5 * (1 + r**2 / (2 * ALPHA)) ** (-ALPHA - 1),
        lambda r: 0.25 * (ALPHA + 1) / ALPHA * (1 + r**2 / (2 * ALPHA)) ** (-ALPHA - 2),
    ),
    # exp(-u^a) with a = gamma / 2.
    PowerExponential: (
        lambda r: -HALF * r ** (2 * HALF - 2) * np.exp(-(r ** (2 * HALF))),
        lambda r: (
            (HALF * (HALF * r ** (4 * HALF - 4) - (HALF - 1) * r ** (2 * HALF - 4)))
            * np.exp(-(r ** (2 * HALF)))
        ),
    ),
    InverseMultiquadric: (
        lambda r: -0.5 * (1 + r**2) ** -1.5,
        lambda r: 0.75 * (1 + r**2) ** -2.5,
    ),
    Multiquadric: (lambda r: 0.5 * (1 + r**2) ** -0.5, lambda r: -0.25 * (1 + r**2) ** -1.5),
}

# Above 8 dimensions the square is expanded; that code does not know the kernel, so one is enough.
FEW_AND_MANY = [
    (Matern52, 10),
    *(slow(kind, 2) for kind in RADIAL),
]
every = pytest.mark.parametrize("kind", RADIAL, ids=lambda kind: kind.__name__)


def make(kind, **values):
    shapes = {RationalQuadratic: {"alpha": ALPHA}, PowerExponential: {"gamma": 2 * HALF}}
    return kind(**values, **shapes.get(kind, {}))


# -- values -----------------------------------------------------------------------------------


@every
@pytest.mark.parametrize("d", [1, 3, 10])
def test_scalar_lengthscale(kind, d):
    X, Z = RNG.normal(size=(6, d)), RNG.normal(size=(4, d))
    k = make(kind, lengthscale=1.7, variance=2.3)
    close(k(X, Z), 2.3 * RADIAL[kind](cdist(X, Z) / 1.7))
    close(k(X), 2.3 * RADIAL[kind](cdist(X, X) / 1.7))
    close(k.diag(X), np.full(6, 2.3))


@every
def test_one_lengthscale_for_each_dimension(kind):
    X, Z, scales = RNG.normal(size=(6, 3)), RNG.normal(size=(4, 3)), np.array([0.4, 2.0, 9.0])
    r = cdist(X, Z, "seuclidean", V=scales**2)
    close(make(kind, lengthscale=scales, variance=0.6)(X, Z), 0.6 * RADIAL[kind](r))


@every
@pytest.mark.parametrize("d", [1, 2, 10])
def test_full_metric(kind, d):
    X, Z = RNG.normal(size=(6, d)), RNG.normal(size=(4, d))
    L = np.tril(RNG.normal(size=(d, d)), -1) + np.diag(RNG.uniform(0.5, 2.0, size=d))
    r = cdist(X, Z, "mahalanobis", VI=np.linalg.inv(L @ L.T))
    close(make(kind, lengthscale=L, variance=0.6)(X, Z), 0.6 * RADIAL[kind](r), rtol=1e-10)


THETA, GAMMA = 1.9, 0.37


@pytest.mark.parametrize(
    ("k", "formula"),
    [
        (RBF(lengthscale=np.sqrt(THETA / 2)), lambda d: np.exp(-(d**2) / THETA)),
        (RBF(lengthscale=np.sqrt(THETA)), lambda d: np.exp(-(d**2) / (2 * THETA))),
        (RBF(lengthscale=1 / np.sqrt(2 * GAMMA)), lambda d: np.exp(-GAMMA * d**2)),
        (Matern12(lengthscale=THETA), lambda d: np.exp(-d / THETA)),
        # C2 and C4 (Wendland's name for the smoothness) in the notes' parametrisation.
        (
            Matern32(lengthscale=np.sqrt(3) * THETA),
            lambda d: (1 + d / THETA) * np.exp(-d / THETA),
        ),
        (
            3 * Matern52(lengthscale=np.sqrt(5) * THETA),
            lambda d: (3 + 3 * d / THETA + (d / THETA) ** 2) * np.exp(-d / THETA),
        ),
    ],
)
def test_forms_of_the_lecture_notes(k, formula):
    X, Z = RNG.normal(size=(6, 2)), RNG.normal(size=(4, 2))
    close(k(X, Z), formula(cdist(X, Z)))


def test_metric_of_the_lecture_notes():
    X, Z, A = RNG.normal(size=(6, 3)), RNG.normal(size=(4, 3)), RNG.normal(size=(3, 3))
    Theta = A @ A.T + np.eye(3)
    quadratic = [[(x - z) @ np.linalg.solve(Theta, x - z) for z in Z] for x in X]
    close(RBF(lengthscale=np.linalg.cholesky(Theta / 2))(X, Z), np.exp(-np.array(quadratic)))


@pytest.mark.parametrize("bad", [0.0, -1.0, np.nan, np.inf, [1.0, 0.0]])
def test_lengthscale_must_be_positive(bad):
    with pytest.raises(ValueError, match=r"Matern52.lengthscale must be positive"):
        Matern52(lengthscale=bad)
    with pytest.raises(ValueError, match=r"RBF.variance must be positive and finite, got"):
        RBF(variance=bad)


def test_metric_must_be_a_cholesky_factor():
    for bad in ([[1.0, 0.5], [0.0, 1.0]], [[1.0, 0.0], [0.5, -1.0]], np.ones((2, 3))):
        with pytest.raises(ValueError, match="RBF.lengthscale must be lower cholesky"):
            RBF(lengthscale=bad)
    RBF(lengthscale=[[1.0, 0.0], [-0.5, 1.0]])  # only the diagonal must be positive


@every
def test_nan_lengthscale_gives_nan(kind):
    k = make(kind).at({"lengthscale": 1.0})
    broken = jax.jit(lambda length, X: k.at({"lengthscale": length})(X, X + 1.0))
    assert np.isnan(broken(np.nan, np.zeros((2, 1)))).all()


# -- derivatives ------------------------------------------------------------------------------


def pair(k):
    """k as a function of two points, evaluated as a Gram matrix between."""
    return lambda x, z: k(x[None], z[None])[0, 0]


def mixed(k, x, z):
    """d2 k / dx dz."""
    return jax.jacfwd(jax.jacrev(pair(k), argnums=0), argnums=1)(jnp.asarray(x), jnp.asarray(z))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "curvature", "d"),
    [
        slow(RBF, 1, 2),
        slow(Matern32, 3, 2),
        (Matern52, 5 / 3, 10),
        slow(Matern52, 5 / 3, 2),
        slow(RationalQuadratic, 1, 2),
        slow(InverseMultiquadric, 1, 2),
    ],
)
def test_mixed_second_derivative_at_coincident_points(kind, curvature, d):
    x, scales = RNG.normal(size=d), RNG.uniform(0.5, 2, size=d)
    close(mixed(make(kind, variance=1.3), x, x), 1.3 * curvature * np.eye(d), atol=1e-12)
    ard = make(kind, lengthscale=scales)
    close(mixed(ard, x, x), curvature * np.diag(scales**-2), atol=1e-12)
    L = np.tril(RNG.normal(size=(d, d)), -1) / d + np.diag(scales)
    close(mixed(make(kind, lengthscale=L), x, x), curvature * np.linalg.inv(L @ L.T), 1e-10, 1e-12)


def blocks(kind, x, z):
    """Hessian of f(|x - z|^2) in x: 2 f' I + 4 f'' (x - z)(x - z)', whose last term vanishes at 0.

    In z it is the same; the mixed block is its negative.
    """
    first, second = DERIVATIVES[kind]
    r, difference = np.linalg.norm(x - z), x - z
    outer = 4 * second(r) * np.outer(difference, difference) if r > 0 else 0.0
    return 2 * first(r) * np.eye(len(x)) + outer


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "d"),
    [c for c in FEW_AND_MANY if c not in (slow(Matern12, 2), slow(PowerExponential, 2))],
)
def test_second_derivatives_in_the_inputs(kind, d):
    X, W = RNG.normal(size=(3, d)), RNG.normal(size=(3, 3))
    X[2] = X[0]
    expected = np.zeros((3, d, 3, d))
    for i, j in np.ndindex(3, 3):
        if i != j:
            block = W[i, j] * blocks(kind, X[i], X[j])
            expected[i, :, i] += block
            expected[j, :, j] += block
            expected[i, :, j] -= block
            expected[j, :, i] -= block
    k = make(kind)
    close(jax.hessian(lambda X: jnp.sum(W * k(X)))(X), expected, rtol=1e-10, atol=1e-11)
    # The same matrix as a Gram matrix between: its diagonal, too, has a vanishing derivative.
    close(jax.hessian(lambda X: jnp.sum(W * k(X, X)))(X), expected, rtol=1e-10, atol=1e-11)


@pytest.mark.parametrize("kind", few(RADIAL, Matern12, Matern52))
def test_first_derivative_in_the_inputs(kind):
    X, W, d = RNG.normal(size=(4, 2)), RNG.normal(size=(4, 4)), 2
    X[2] = X[0]
    expected = np.zeros((4, d))
    for i, j in np.ndindex(4, 4):
        if np.any(X[i] != X[j]):
            slope = 2 * DERIVATIVES[kind][0](np.linalg.norm(X[i] - X[j])) * (X[i] - X[j])
            expected[i] += W[i, j] * slope
            expected[j] -= W[i, j] * slope
    close(jax.grad(lambda X: jnp.sum(W * make(kind)(X)))(X), expected, atol=1e-12)
    close(jax.jacfwd(lambda X: jnp.sum(W * make(kind)(X)))(X), expected, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "d"), FEW_AND_MANY)
def test_hessian_in_the_lengthscales(kind, d):
    X, scales = RNG.normal(size=(4, d)), RNG.uniform(0.6, 2.0, size=d)
    X[3] = X[1]
    first, second = DERIVATIVES[kind]
    squares = (X[:, None] - X[None]) ** 2
    u = np.sum(squares / scales**2, axis=-1)
    r, apart = np.sqrt(np.where(u > 0, u, 1.0)), u > 0
    # Where points coincide u does not depend on the lengthscale at all.
    first, second = np.where(apart, first(r), 0.0), np.where(apart, second(r), 0.0)
    du = -2 * squares / scales**3
    expected = second[..., None, None] * du[..., :, None] * du[..., None, :]
    expected += first[..., None, None] * np.eye(d) * (6 * squares / scales**4)[..., None]

    def gram(scales, Z=None):
        return make(kind, variance=1.4).at({"lengthscale": scales})(X, Z)

    close(jax.jacfwd(gram)(scales), 1.4 * first[..., None] * du, atol=1e-12)
    close(jax.hessian(gram)(scales), 1.4 * expected, rtol=1e-9, atol=1e-11)
    if d == 2:  # above 8 dimensions the square is expanded and u is only almost 0
        close(jax.hessian(gram)(scales, X), 1.4 * expected, rtol=1e-9, atol=1e-11)


@pytest.mark.slow
@every
def test_hessian_along_a_stretching_metric(kind):
    # L exp(t): u is multiplied by exp(-2 t), so that u' = -2 u and u'' = 4 u at t = 0.
    X, L = RNG.normal(size=(4, 2)), np.array([[0.8, 0.0], [-0.4, 1.5]])
    r = cdist(X, X, "mahalanobis", VI=np.linalg.inv(L @ L.T))
    with np.errstate(divide="ignore", invalid="ignore"):
        expected = 4 * r**2 * DERIVATIVES[kind][0](r) + 4 * r**4 * DERIVATIVES[kind][1](r)
    expected[np.diag_indices(4)] = 0.0
    k = make(kind, lengthscale=L)
    actual = jax.hessian(lambda t: k.at({"lengthscale": L * jnp.exp(t)})(X))(0.0)
    close(actual, expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("kind", few(RADIAL, Matern12, Matern52))
def test_reverse_over_reverse(kind):
    # Where a branch not taken is infinite, its cotangent 0 becomes NaN.
    X, W, length = RNG.normal(size=(4, 2)), RNG.normal(size=(4, 4)), 0.8
    X[3] = X[1]
    r = cdist(X, X) / length
    first, second = (np.where(r > 0, f(np.where(r > 0, r, 1.0)), 0.0) for f in DERIVATIVES[kind])
    expected = np.sum(W * (4 * r**4 * second + 6 * r**2 * first)) / length**2

    def total(length):
        return jnp.sum(W * make(kind).at({"lengthscale": length})(X))

    close(jax.grad(jax.grad(total))(length), expected, rtol=1e-10)


@pytest.mark.slow
def test_power_exponential_limits_and_derivatives():
    x = np.array([0.0, 0.0, 0.3, 2.0])
    close(PowerExponential(0.7, 1.3, 1.0)(x), Matern12(0.7, 1.3)(x))
    smooth = PowerExponential(0.7, 1.3, 2.0)
    close(smooth(x), RBF(0.7 / np.sqrt(2), 1.3)(x))
    close(mixed(smooth, np.zeros(2), np.zeros(2)), 1.3 * 2 / 0.49 * np.eye(2))
    close(PowerExponential(gamma=0.0)([0.0, 1.0]), [[1.0, np.exp(-1)], [np.exp(-1), 1.0]])
    # d/dg exp(-r^g) = -r^g log(r) k, and d2/dg2 = (r^2g - r^g) log(r)^2 k; both are 0 at r = 0.
    r = np.abs(np.subtract.outer(x, x)) + 0.0
    g, log = 1.3, np.log(np.where(r > 0, r, 1.0))
    k = PowerExponential()
    first = jax.jacfwd(lambda g: k.at({"gamma": g})(x))(g)
    close(first, -(r**g) * log * np.exp(-(r**g)), atol=1e-15)
    second = jax.jacfwd(jax.jacrev(lambda g: k.at({"gamma": g})(x)))(g)
    close(second, (r ** (2 * g) - r**g) * log**2 * np.exp(-(r**g)), atol=1e-14)
    with pytest.raises(ValueError, match="PowerExponential.gamma must be .*got 2.1"):
        PowerExponential(gamma=2.1)


def test_hessian_in_alpha():
    # log k = -a log(1 + w / a) with w = r^2 / 2
    X, a = RNG.normal(size=(4, 2)), 0.7
    w = cdist(X, X) ** 2 / 2
    first = w / (a + w) - np.log1p(w / a)
    second = w / (a * (a + w)) - w / (a + w) ** 2
    expected = (1 + w / a) ** -a * (first**2 + second)
    k = RationalQuadratic()
    close(jax.hessian(lambda a: k.at({"alpha": a})(X))(a), expected, atol=1e-13)


@pytest.mark.slow
@pytest.mark.parametrize("forward", few([True, False], False))
def test_matern12_derivatives_of_nearly_equal_points(forward):
    # d/dl exp(-r/l) = r exp(-r/l) / l^2; the derivative of the square, divided by r, is noise.
    x = RNG.uniform(0.0, 50.0, size=30)
    X = np.stack([x, np.nextafter(x, np.inf)], axis=1).ravel()[:, None]
    W, r = RNG.normal(size=(60, 60)), np.abs(X - X.T)

    def total(length):
        return jnp.sum(W * Matern12().at({"lengthscale": length})(X))

    actual = (jax.jacfwd if forward else jax.grad)(total)(0.7)
    close(actual, np.sum(W * r * np.exp(-r / 0.7) / 0.49), rtol=1e-9)
    second = np.exp(-r / 0.7) * (r**2 / 0.7**4 - 2 * r / 0.7**3)
    close(jax.hessian(total)(0.7), np.sum(W * second), rtol=1e-9)


@pytest.mark.slow
def test_float32_far_from_the_origin():
    # Division by the lengthscale rounds at the size of the inputs unless they are centred first.
    X = (1e3 + np.random.default_rng(20).normal(size=(50, 2))).astype(np.float32)
    d = cdist(X.astype(float), X.astype(float))
    length = float(np.float32(0.3))

    def gram(length):
        return RBF(length, jnp.float32(1.0)).evaluate(jnp.asarray(X))

    value, slope = gram(jnp.float32(0.3)), jax.jacfwd(gram)(jnp.float32(0.3))
    assert value.dtype == slope.dtype == jnp.float32
    expected = np.exp(-(d**2) / (2 * length**2))
    close(value, expected, rtol=0, atol=1e-6)  # single precision has 7 digits
    # Squares of centred inputs are rounded, and the slope has them over the cubed lengthscale.
    square = np.max(np.sum(np.square(X - X.mean(axis=0, dtype=float)), axis=1))
    rounding = 2.0 * np.finfo(np.float32).eps * square / length**3
    close(slope, expected * d**2 / length**3, rtol=0, atol=rounding)


# -- White, Multiquadric, SpectralMixture -----------------------------------------------------


def test_white():
    X = RNG.normal(size=(4, 2))
    X[3] = X[0]
    k = White(variance=0.3)
    np.testing.assert_array_equal(k(X), 0.3 * np.eye(4))
    np.testing.assert_array_equal(k(X, X), np.zeros((4, 4)))
    np.testing.assert_array_equal(k(X, X[:2]), np.zeros((4, 2)))
    np.testing.assert_array_equal(k.diag(X), np.full(4, 0.3))


def test_multiquadric_is_conditionally_negative_definite():
    assert Multiquadric.positive_definite is False
    assert all(kind.positive_definite for kind in RADIAL if kind is not Multiquadric)
    X = RNG.normal(size=(15, 2))
    M = np.asarray(Multiquadric(lengthscale=0.6)(X))
    eigenvalues = np.linalg.eigvalsh(M)
    assert (eigenvalues[:-1] < 0).all() and eigenvalues[-1] > 0
    centring = np.eye(15) - 1 / 15
    assert np.linalg.eigvalsh(centring @ -M @ centring)[0] > -1e-12


def test_spectral_mixture():
    # Wilson and Adams (2013), equation 12, entry by entry.
    w, mu, s = RNG.uniform(1, 2, 2), RNG.uniform(0, 2, (2, 3)), RNG.uniform(0.05, 0.3, (2, 3))
    X, Z = RNG.normal(size=(5, 3)), RNG.normal(size=(4, 3))
    expected = np.zeros((5, 4))
    for i, j, q in np.ndindex(5, 4, 2):
        t = X[i] - Z[j]
        wave = np.cos(2 * np.pi * t * mu[q])
        expected[i, j] += w[q] * np.prod(np.exp(-2 * np.pi**2 * t**2 * s[q] ** 2) * wave)
    k = SpectralMixture(weights=w, means=mu, scales=s)
    close(k(X, Z), expected, atol=1e-13)
    close(k.diag(X), np.full(5, w.sum()))


def test_spectral_mixture_broadcasts_over_dimensions():
    X = RNG.normal(size=(5, 3))
    one = SpectralMixture(weights=[1.0, 2.0], means=[[0.1], [0.4]], scales=[[0.2], [0.3]])
    each = SpectralMixture(
        weights=[1.0, 2.0], means=[[0.1] * 3, [0.4] * 3], scales=[[0.2] * 3, [0.3] * 3]
    )
    close(one(X), np.asarray(each(X)))


@pytest.mark.parametrize("xp", [np, jnp])
def test_spectral_mixture_shapes(xp):
    X = RNG.normal(size=(5, 2))
    bad = [
        ({"weights": xp.ones(2)}, r"weights has shape \(2,\) and means has shape \(1, 1\)"),
        ({"means": xp.ones((1, 3))}, r"means has shape \(1, 3\).*points of 2 dim.*\(Q, 2\)"),
        ({"scales": xp.ones((2, 2))}, r"scales has shape \(2, 2\)"),
        ({"weights": xp.ones(())}, r"weights has shape \(\)"),
    ]
    for values, message in bad:
        for call in (SpectralMixture(**values), SpectralMixture(**values).diag):
            with pytest.raises(ValueError, match=message):
                call(X)
