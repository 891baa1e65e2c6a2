"""Dot-product kernels against explicit feature maps, scikit-learn and quadrature."""

from itertools import chain, combinations, pairwise

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import quad
from sklearn.gaussian_process.kernels import ConstantKernel, DotProduct
from sklearn.metrics.pairwise import polynomial_kernel

from bayeskern.kernels import AllSubsets, ArcCosine, Constant, Free, Linear, Polynomial
from tests.kernels.compare import close
from tests.marks import few

RNG = np.random.default_rng(3)
X, Z = RNG.normal(size=(6, 3)), RNG.normal(size=(4, 3))


def test_constant():
    close(Constant(variance=2.5)(X, Z), ConstantKernel(2.5)(X, Z))
    close(Constant(variance=2.5)(X), np.full((6, 6), 2.5))
    close(Constant(variance=0.0)(X), np.zeros((6, 6)))


@pytest.mark.parametrize("variance", [1.7, [1.7, 0.2, 3.0]])
@pytest.mark.parametrize("center", [0.0, 0.6, [0.6, -1.0, 2.0]])
def test_linear(variance, center):
    def features(A):
        return (A - np.array(center)) * np.sqrt(np.array(variance))

    k = Linear(variance=variance, center=center)
    close(k(X, Z), features(X) @ features(Z).T)
    close(k(X), features(X) @ features(X).T)
    close(k.diag(X), (features(X) ** 2).sum(1))


def test_linear_plus_constant_matches_scikit_learn():
    close((Linear() + 0.8**2)(X, Z), DotProduct(sigma_0=0.8)(X, Z))


@pytest.mark.parametrize("points", [np.ones(5), np.ones((5, 2))])
@pytest.mark.parametrize("name", ["variance", "center"])
def test_linear_shapes(points, name):
    # A vector broadcasts against one-dimensional points without any complaint from JAX.
    for call in (Linear(**{name: [1.0, 2.0, 3.0]}), Linear(**{name: [1.0, 2.0, 3.0]}).diag):
        with pytest.raises(ValueError, match=rf"{name} has shape \(3,\)"):
            call(points)


@pytest.mark.parametrize("degree", [1, 2, 5])
def test_polynomial_matches_scikit_learn(degree):
    k = Polynomial(degree=degree, offset=0.7, variance=1.3)
    close(k(X, Z), 1.3 * polynomial_kernel(X, Z, degree=degree, gamma=1.0, coef0=0.7))


def test_polynomial_of_negative_base():
    # (offset + x z) < 0: a float power would be NaN, or have a NaN derivative
    k = Polynomial(degree=3, offset=0.5)
    close(k([-2.0], [3.0]), [[(0.5 - 6.0) ** 3]])
    slope = jax.grad(lambda offset: k.at({"offset": offset})([-2.0], [3.0])[0, 0])(0.5)
    close(slope, 3 * (0.5 - 6.0) ** 2)
    close(jax.grad(lambda x: Polynomial(degree=3, offset=0.0)(x)[0, 0])(jnp.zeros(1)), [0.0])


@pytest.mark.parametrize("degree", [0, -1, 2.0, "2", True, None])
def test_degree_must_be_a_positive_integer(degree):
    with pytest.raises(ValueError, match=rf"degree must be a whole number.*got {degree!r}"):
        Polynomial(degree=degree)
    assert type(Polynomial(degree=np.int64(3)).degree) is int


def test_exact_polynomial_has_the_monomials_of_one_degree():
    k = Polynomial(degree=3, exact=True, variance=1.3)
    close(k(X, Z), 1.3 * (X @ Z.T) ** 3)
    x, y = RNG.normal(size=(2, 5))
    # (x x' + y y')^3 by the binomial theorem.
    features = np.stack([x**3, np.sqrt(3) * x**2 * y, np.sqrt(3) * x * y**2, y**3], axis=1)
    close(k.feature_map(np.stack([x, y], axis=1)), np.sqrt(1.3) * features)
    assert list(k.hyperparameters()) == ["variance"]
    assert repr(Polynomial()) == "Polynomial(degree=2, offset=1.0, variance=1.0)"
    for offset in (0.5, Free(1.0), np.array(2.0)):
        with pytest.raises(ValueError, match="has no offset, got .*Leave it out"):
            Polynomial(degree=3, offset=offset, exact=True)


def test_negative_offset_is_refused():
    with pytest.raises(ValueError, match=r"Polynomial.offset must be nonnegative"):
        Polynomial(offset=-1.0)
    Polynomial(offset=0.0)


def test_all_subsets():
    def features(A):
        subsets = chain.from_iterable(combinations(range(3), size) for size in range(4))
        return np.stack([np.prod(A[:, list(s)], axis=1) for s in subsets], axis=1)

    assert features(X).shape == (6, 2**3)
    k = AllSubsets(variance=1.4)
    close(k(X, Z), 1.4 * features(X) @ features(Z).T)
    close(k.diag(X), 1.4 * (features(X) ** 2).sum(1))


# Cho and Saul (2009), equations 4-6.
J = {
    0: lambda angle: np.pi - angle,
    1: lambda angle: np.sin(angle) + (np.pi - angle) * np.cos(angle),
    2: lambda angle: (
        3 * np.sin(angle) * np.cos(angle) + (np.pi - angle) * (1 + 2 * np.cos(angle) ** 2)
    ),
}


def with_bias(A):
    return np.concatenate([A, np.ones((len(A), 1))], axis=1)


@pytest.mark.parametrize("order", [0, 1, 2])
def test_arc_cosine(order):
    expected = np.empty((6, 4))
    for i, j in np.ndindex(6, 4):
        x, z = with_bias(X)[i], with_bias(Z)[j]
        size = np.linalg.norm(x) * np.linalg.norm(z)
        expected[i, j] = size**order * J[order](np.arccos(x @ z / size)) / J[order](0.0)
    k = ArcCosine(order=order, variance=0.6)
    close(k(X, Z), 0.6 * expected, rtol=1e-10)  # the arc cosine loses a digit near 1
    close(k.diag(X), 0.6 * (1 + (X**2).sum(1)) ** order)
    close(np.diag(k(X)), 0.6 * (1 + (X**2).sum(1)) ** order)


@pytest.mark.parametrize("order", [0, 1, 2])
def test_arc_cosine_is_an_infinitely_wide_network(order):
    """Proportional to E[h(w'x) h(w'z)] with w ~ N(0, I), h(a) = max(a, 0)^order (equation 1).

    In the plane of (x, 1) and (z, 1) the radius of w integrates out; the angle is left to quad.
    """
    x, z = np.array([0.7, 1.0]), np.array([-1.9, 1.0])

    def integrand(x, z):
        def h(angle):
            a, b = np.array([np.cos(angle), np.sin(angle)]) @ np.stack([x, z], axis=1)
            return (a > 0) * (b > 0) * (a * b) ** order

        kinks = [np.arctan2(v[1], v[0]) + turn for v in (x, z) for turn in (-np.pi / 2, np.pi / 2)]
        kinks = np.sort(np.mod(np.append(kinks, [0.0]), 2 * np.pi))
        ends = np.append(kinks, 2 * np.pi)
        return sum(quad(h, a, b, epsabs=1e-13)[0] for a, b in pairwise(ends))

    k = ArcCosine(order=order)
    ratio = integrand(x, z) / np.sqrt(integrand(x, x) * integrand(z, z))
    actual = k([x[0]], [z[0]])[0, 0] / np.sqrt(k.diag([x[0]])[0] * k.diag([z[0]])[0])
    close(actual, ratio, rtol=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("order", few([1, 2], 1))
def test_mixed_second_derivative_of_arc_cosine_at_coincident_points(order):
    """Order 1 is 2 E[h h] with h' = 1(w'x > 0), whose mixed derivative is E[w w'] = I.

    Order 2 is (2/3) E[h h] with h' = 2 max(w'x, 0) w, whence (8/3) E[(w'x)^2 w w' 1(w'x > 0)]
    = (4/3) (|x|^2 I + 2 x x'), by the fourth moments of the normal.
    """
    k = ArcCosine(order=order)
    for x in X:
        y = np.append(x, 1.0)
        full = np.eye(4) if order == 1 else 4 / 3 * (y @ y * np.eye(4) + 2 * np.outer(y, y))
        derivative = jax.jacfwd(jax.jacrev(lambda x, z: k(x[None], z[None])[0, 0], 0), 1)
        # Half the digits: the angle between two equal vectors is rounded to 1e-8.
        close(derivative(x, jnp.asarray(x)), full[:3, :3], rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("order", [3, -1, "1", 1.5])
def test_arc_cosine_order(order):
    with pytest.raises(ValueError, match=f"order must be 0, 1 or 2, got {order!r}"):
        ArcCosine(order=order)
