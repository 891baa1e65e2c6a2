"""Kernels of a trend against integrals, Kalman filters, smoothing splines and one another."""

from decimal import Decimal, localcontext

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import dblquad
from scipy.interpolate import make_smoothing_spline
from statsmodels.tsa.statespace.structural import UnobservedComponents

import bayeskern as bk
from bayeskern.kernels import (
    RBF,
    Brownian,
    ChangePoint,
    Constant,
    IntegratedBrownian,
    IntegratedOrnsteinUhlenbeck,
    Linear,
    Matern12,
)
from tests.kernels.compare import close
from tests.marks import few

RNG = np.random.default_rng(5)
# On both sides of the start, on it, and twice at one place.
TIMES = np.array([-3.0, -0.4, 0.0, 0.2, 0.2, 1.5, 7.0])
WANDERING = [Brownian, IntegratedBrownian, IntegratedOrnsteinUhlenbeck]


# -- against integrals ------------------------------------------------------------------------


def test_brownian():
    s, t = np.meshgrid(TIMES, TIMES, indexing="ij")
    expected = np.where(s * t > 0, np.minimum(abs(s), abs(t)), 0.0)
    k = Brownian(variance=1.7, start=4.0)
    close(k(TIMES + 4.0), 1.7 * expected)
    close(k(TIMES + 4.0, TIMES[:3] + 4.0), 1.7 * expected[:, :3])
    close(k.diag(TIMES + 4.0), 1.7 * abs(TIMES))


@pytest.mark.parametrize(
    ("integrated", "slope"),
    [
        (IntegratedBrownian(), Brownian()),
        (IntegratedOrnsteinUhlenbeck(lengthscale=1.7), Matern12(lengthscale=1.7)),
    ],
    ids=["Brownian", "Ornstein-Uhlenbeck"],
)
def test_covariance_is_the_integral_of_the_slope_covariance(integrated, slope):
    def covariance(x, y):
        if isinstance(slope, Brownian):
            return min(abs(x), abs(y)) * (x * y > 0)
        return np.exp(-abs(x - y) / 1.7)

    def integral(s, begin, end):
        """Over x from 0 to s and over y between functions of x."""
        return dblquad(lambda y, x: covariance(x, y), 0.0, s, begin, end)[0]

    def diagonal(x):
        return x

    for s, t in [(0.3, 0.3), (0.7, 2.5), (6.0, 0.9), (-0.7, -2.5), (-1.0, 2.0)]:
        # In two parts, since the covariance has a kink where x = y.
        expected = integral(s, 0.0, diagonal) + integral(s, diagonal, t)
        found = integrated(np.array([s]), np.array([t]))[0, 0]
        assert abs(found - expected) < 1e-7  # SciPy promises 1.5e-8 a part


@pytest.mark.parametrize(
    ("integrated", "slope"),
    [
        (IntegratedBrownian(variance=1.3), Brownian(variance=1.3)),
        (
            IntegratedOrnsteinUhlenbeck(lengthscale=0.7, variance=1.3),
            Matern12(lengthscale=0.7, variance=1.3),
        ),
    ],
    ids=["Brownian", "Ornstein-Uhlenbeck"],
)
def test_mixed_second_derivative_is_the_covariance_of_the_slopes(integrated, slope):
    """At coincident points too."""

    def k(s, t):
        return integrated.evaluate(s[None, None], t[None, None])[0, 0]

    slopes = jax.jit(jax.vmap(jax.grad(jax.grad(k), 1)))
    s, t = (a.ravel() for a in np.meshgrid(TIMES, TIMES, indexing="ij"))
    close(slopes(s, t), np.asarray(slope(TIMES)).ravel())


# -- against one another ----------------------------------------------------------------------

AFTER = np.linspace(0.0, 9.0, 7)


def test_long_lengthscale_of_the_slope_gives_a_line():
    k = IntegratedOrnsteinUhlenbeck(lengthscale=1e9, variance=0.4, start=2.0)
    close(k(TIMES), np.asarray(Linear(variance=0.4, center=2.0)(TIMES)), rtol=1e-7, atol=1e-7)


def test_short_lengthscale_of_the_slope_gives_brownian_motion():
    k = IntegratedOrnsteinUhlenbeck(lengthscale=1e-6, variance=0.5e6)
    close(k(AFTER), np.asarray(Brownian()(AFTER)), atol=3e-6)


@pytest.mark.parametrize("ratio", np.geomspace(1e-8, 1e8, 9))
def test_integrated_ornstein_uhlenbeck_against_decimals(ratio):
    with localcontext(prec=60):
        r = 1 / Decimal(float(ratio))
        expected = float(2 * (r - 1 + (-r).exp()) / r**2)
    close(IntegratedOrnsteinUhlenbeck(lengthscale=float(ratio)).diag([1.0]), [expected], 1e-14)


# -- against other methods --------------------------------------------------------------------


def test_integrated_brownian_mean_is_the_smoothing_spline():
    """Rasmussen and Williams (2006), section 6.3.1."""
    x = np.sort(RNG.uniform(0.0, 10.0, 40))
    y = np.sin(x) + 0.3 * RNG.normal(size=40)
    spline = make_smoothing_spline(x, y, lam=0.09 / 0.5)
    free = Constant(1e6) + Linear(variance=1e6)
    process = bk.GaussianProcess(IntegratedBrownian(variance=0.5) + free, x, 0.09)
    new = np.linspace(0.0, 12.0, 30)
    # Beyond the last knot a spline goes on as a line, which SciPy's does not.
    expected = spline(np.minimum(new, x[-1])) + spline(x[-1], 1) * np.maximum(new - x[-1], 0.0)
    inside = new >= x[0]
    close(process.condition(y).predict(new).mean[inside], expected[inside], rtol=0, atol=1e-4)


def test_local_level_likelihood_matches_statsmodels():
    y = np.cumsum(RNG.normal(size=30)) + RNG.normal(size=30)
    peer = UnobservedComponents(y, "llevel")
    peer.ssm.initialize_known(np.zeros(1), np.array([[2.5]]))
    peer.loglikelihood_burn = 0
    expected = peer.loglike([0.8, 0.3])  # irregular, level
    k = Constant(2.5) + Brownian(variance=0.3, start=1.0)
    close(bk.GaussianProcess(k, np.arange(1.0, 31.0), 0.8).log_prob(y), expected, rtol=1e-10)


@pytest.mark.parametrize("kind", few(WANDERING, IntegratedBrownian))
def test_covariances_match_simulated_paths(kind):
    """A random walk in small steps, summed once more for a slope."""
    rng, steps, h = np.random.default_rng(3), 400, 0.01
    noise = np.sqrt(h) * rng.normal(size=(20_000, steps))
    if kind is Brownian:
        paths = np.cumsum(noise, axis=1)
    elif kind is IntegratedBrownian:
        paths = h * np.cumsum(np.cumsum(noise, axis=1), axis=1)
    else:
        slope, paths = rng.normal(size=20_000), np.zeros((20_000, steps))
        for i in range(steps):
            slope = np.exp(-h) * slope + np.sqrt(-np.expm1(-2 * h) / h) * noise[:, i]
            paths[:, i] = (paths[:, i - 1] if i else 0.0) + h * slope
    at = np.array([49, 149, 399])
    found = np.cov(paths[:, at].T)
    expected = np.asarray(kind()(h * (at + 1.0)))
    # Five standard errors of a covariance, and the step.
    size = np.sqrt(np.outer(np.diag(expected), np.diag(expected)))
    assert np.all(np.abs(found - expected) < (5 * np.sqrt(2 / 20_000) + 0.03) * size)


# -- change points ----------------------------------------------------------------------------


def test_change_point_weights_both_kernels():
    x, before, after = RNG.normal(size=8), RBF(lengthscale=0.7), Matern12(variance=2.0)
    w = 1.0 / (1.0 + np.exp(-(x - 0.2) / 0.3))
    expected = np.outer(1 - w, 1 - w) * before(x) + np.outer(w, w) * after(x)
    k = ChangePoint(before, after, location=0.2, width=0.3)
    close(k(x), expected)
    close(k(x, x[:3]), expected[:, :3])
    close(k.diag(x), np.diag(expected))


def test_kernels_far_from_a_change_point_are_independent():
    before, after = RBF(lengthscale=0.7), Linear(variance=2.0)
    k = ChangePoint(before, after, location=100.0, width=1e-3)
    early, late = np.linspace(0, 3, 5), np.linspace(200, 203, 4)
    close(k(early), np.asarray(before(early)))
    close(k(late), np.asarray(after(late)))
    close(k(early, late), np.zeros((5, 4)))


def test_change_point_hyperparameters():
    k = ChangePoint(Constant().named("old"), Constant(), location=3.0)
    names = ["location", "width", "old.variance", "constant.variance"]
    assert list(k.hyperparameters()) == names
    assert k.at({"location": 2.0}).location == 2.0
    assert repr(k) == (
        "ChangePoint(Constant(variance=1.0).named('old'), Constant(variance=1.0), "
        "location=3.0, width=1.0)"
    )
    np.testing.assert_allclose(k.feature_map(TIMES) @ k.feature_map(TIMES).T, k(TIMES), atol=1e-15)


def test_location_of_a_change_is_estimated():
    x = np.arange(60.0)
    y = np.where(x < 37.5, 0.0, 5.0) + 0.5 * RNG.normal(size=60)

    def evidence(at):
        level = ChangePoint(Constant(10.0), Constant(10.0), location=at, width=0.1)
        return bk.GaussianProcess(level, x, 0.25).log_prob(y)

    values = jax.vmap(evidence)(jnp.arange(5.5, 55.0))
    assert np.arange(5.5, 55.0)[np.argmax(values)] == 37.5


# -- the door ---------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", [*(k() for k in WANDERING), ChangePoint(RBF(), RBF())])
def test_several_columns_are_refused(kernel):
    X = RNG.normal(size=(5, 2))
    with pytest.raises(ValueError, match=r"is a kernel of one column.*2 columns.*\.on\(column\)"):
        kernel(X)
    close(kernel.on([1])(X), np.asarray(kernel(X[:, 1])))


@pytest.mark.parametrize(
    "kind", [*WANDERING, lambda variance: ChangePoint(RBF(), RBF(), 0.0, variance)]
)
def test_negative_variances_and_widths_are_refused(kind):
    with pytest.raises(ValueError, match="must be"):
        kind(variance=-1.0)
