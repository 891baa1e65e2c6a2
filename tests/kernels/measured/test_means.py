"""Covariances of means over intervals against numerical integration of the kernel."""

from itertools import pairwise

import jax
import numpy as np
import pytest
from scipy.integrate import quad

import bayeskern as bk
from bayeskern.kernels import (
    RBF,
    ChangePoint,
    Cosine,
    InverseMultiquadric,
    Linear,
    Matern12,
    Matern32,
    Matern52,
    Periodic,
    RationalQuadratic,
)
from bayeskern.kernels.measured.rows import Rows
from tests.kernels import cases
from tests.kernels.measured.numerical import covariances

# Values, and intervals that overlap, are nested, repeated, adjacent, short and apart.
INTERVALS = [
    (0.3, 0.3),
    (2.0, 2.0),
    (0.1, 0.9),
    (0.1, 0.9),
    (0.3, 0.35),
    (0.9, 3.0),
    (0.5, 0.501),
    (2.5, 2.5 + 1e-6),
]
CLOSED_FORM = cases.offering("means", "matern")
# An angle of equal vectors has half its digits.
LEFT_OUT = (*CLOSED_FORM, *cases.SPECIAL, "arc cosine 0")
QUADRATURE = {
    **{name: kernel for name, kernel in cases.CASES.items() if name not in LEFT_OUT},
    "wave": Matern12(0.5) * Periodic(1.0),
    "sum": Matern32(0.5) * Matern52(2.0) + RBF(0.4) ** 2,
    "exp": (0.5 * RBF(0.8)).exp(),
    "change point": ChangePoint(RBF(0.5), Matern12(1.0), 0.6, 0.3),
    "warped": RBF(0.5).warp(lambda x: x**2),
    "line": Linear() * Matern32(0.6),
}


def by_integration(kernel, intervals=INTERVALS):
    evaluate = jax.jit(lambda x, z: kernel.evaluate(x[:, None], z[:, None]))
    # Padded, so that few shapes are compiled.
    return covariances(
        lambda x, z: evaluate(np.pad(x, (0, -len(x) % 512)), np.pad(z, (0, -len(z) % 512)))[
            : len(x), : len(z)
        ],
        intervals,
        kinks=(cases.START,),
    )


def rows_of(intervals=INTERVALS):
    a, b = np.transpose(intervals)
    return Rows.read(bk.Interval(a, b))


def compare(kernel, rtol):
    rows = rows_of()
    measured = rows.kernel(kernel)
    K, expected = np.asarray(measured.evaluate(rows.X)), by_integration(kernel)
    np.testing.assert_allclose(K, expected, rtol=0.0, atol=rtol * np.abs(expected).max())
    np.testing.assert_allclose(measured.evaluate_diag(rows.X), np.diagonal(K), rtol=1e-10)
    assert measured.quadrature_error(rows.X) <= rtol


@pytest.mark.slow
@pytest.mark.parametrize("name", CLOSED_FORM)
def test_means_in_closed_form(name):
    compare(CLOSED_FORM[name], 1e-11)
    rows = rows_of()
    assert not rows.kernel(CLOSED_FORM[name]).uses_nodes(rows.X)


@pytest.mark.slow
@pytest.mark.parametrize("name", QUADRATURE)
def test_means_by_quadrature(name):
    compare(QUADRATURE[name], {"polynomial": 1e-11, "power exponential": 1e-8}.get(name, 1e-9))
    rows = rows_of()
    assert rows.kernel(QUADRATURE[name]).uses_nodes(rows.X)


def random_kernel(rng, depth: int):
    """A random nested sum, product, power or multiple of kernels of one input."""
    if depth == 0:
        kinds = [RBF, Matern12, Matern32, Matern52, RationalQuadratic, Periodic, Cosine]
        kind = kinds[rng.integers(len(kinds))]
        scale = rng.uniform(0.5, 2.0)
        return kind(lengthscale=scale) if kind is not Cosine else Cosine(period=scale)
    left, right = random_kernel(rng, depth - 1), random_kernel(rng, depth - 1)
    return [left + right, left * right, 0.5 * left + right, left**2, left.exp()][rng.integers(5)]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
def test_means_of_random_composite_kernels(seed):
    compare(random_kernel(np.random.default_rng(seed), 2), 1e-8)


def test_a_sum_is_the_mean_times_the_length():
    kernel, a, b = Matern32(0.7), np.array([0.0, 2.0]), np.array([3.0, 2.5])
    grams = []
    for kind in ("mean", "sum"):
        rows = Rows.read(bk.Interval(a, b, kind=kind))
        grams.append(np.asarray(rows.kernel(kernel).evaluate(rows.X)))
    np.testing.assert_allclose(grams[1], np.outer(b - a, b - a) * grams[0], rtol=1e-13)


@pytest.mark.slow
def test_boxes_of_a_product_over_columns():
    """The mean over a box is a product of means over its sides; a side of length 0 is a value."""
    lower, upper = np.array([[0.0, 1.0], [0.5, 2.0]]), np.array([[1.0, 3.0], [0.5, 2.5]])
    rows = Rows.read(bk.Interval(lower, upper))
    kernel = Matern32(0.7).on([0]) * Matern52(0.9).on([1]) + RBF(lengthscale=[0.5, 2.0])
    K = rows.kernel(kernel).evaluate(rows.X)
    sides = [list(zip(lower[:, i], upper[:, i], strict=True)) for i in range(2)]
    terms = [(Matern32(0.7), Matern52(0.9)), (RBF(0.5), RBF(2.0))]
    expected = sum(
        by_integration(first, sides[0]) * by_integration(second, sides[1])
        for first, second in terms
    )
    np.testing.assert_allclose(K, expected, rtol=1e-11)


@pytest.mark.slow
def test_intervals_along_one_of_several_inputs():
    """A radial kernel of two inputs, integrated along the first."""
    a, site = np.array([0.0, 0.5, 0.5]), np.array([0.0, 0.0, 0.4])
    lower, upper = np.stack([a, site], 1), np.stack([a + 1.0, site], 1)
    rows = Rows.read(bk.Interval(lower, upper))
    kernel = Matern32(lengthscale=[0.7, 0.3])
    K = rows.kernel(kernel).evaluate(rows.X)
    expected = np.empty((3, 3))
    for i in range(3):
        for j in range(3):

            def k(x, z, i=i, j=j):
                points = [np.stack([t, np.full(len(t), site[r])], 1) for t, r in ((x, i), (z, j))]
                return kernel.evaluate(*points)

            pair = [(a[i], a[i] + 1.0), (a[j], a[j] + 1.0)]
            expected[i, j] = covariances(k, pair)[1, 0]
    np.testing.assert_allclose(K, expected, atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("length", [1e-7, 1e-4, 1e-2, 1.0, 1e2, 1e4])
@pytest.mark.parametrize("kernel", [Matern12(), Matern52(), RBF(), InverseMultiquadric()], ids=repr)
def test_means_lose_no_digits(kernel, length):
    """The mean over an interval with itself is 2 / h^2 int_0^h (h - t) k(t) dt, h its length."""
    cuts = [t for t in (0.0, 1.0, 5.0, 20.0, 50.0, 1000.0) if t < length] + [length]

    def integrand(t):
        return (1.0 - t / length) * float(
            kernel.evaluate(np.zeros((1, 1)), np.full((1, 1), t))[0, 0]
        )

    pieces = [quad(integrand, a, b, epsabs=0.0, epsrel=1e-12)[0] for a, b in pairwise(cuts)]
    expected = 2.0 * sum(pieces) / length
    rows = Rows.read(bk.Interval([1000.0], [1000.0 + length]))
    rows = rows._replace(X=rows.X.at[:, 1, 0].set(length))
    K = rows.kernel(kernel).evaluate(rows.X)
    np.testing.assert_allclose(float(K[0, 0]), expected, rtol=1e-11)
