"""Properties of all kernels: symmetry, definiteness, pytrees, derivatives, reading of points."""

import operator
import re
import subprocess
import sys

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pandas as pd
import polars as pl
import pytest

import bayeskern.kernels as kernels
from bayeskern.core.validation import NotPositiveDefiniteError
from bayeskern.kernels import (
    RBF,
    Free,
    IntegratedBrownian,
    Linear,
    Matern32,
    Matern52,
    Periodic,
    Polynomial,
    White,
    check_psd,
)
from tests.kernels import cases
from tests.marks import few, slow


def squash(x):
    return jnp.tanh(0.7 * x) + 0.2 * x[::-1]


def amplitude(x):
    """Both signs, with zeros between them."""
    return 0.3 + jnp.sin(x[0]) * x[-1]


def examples(d):
    """Every kind of kernel, with hyperparameters that are not the default, for d columns."""
    combined = {
        "integrated brownian late": IntegratedBrownian(variance=0.8, start=-9.0).on([d - 1]),
        "sum": RBF(lengthscale=0.8) + Linear() + 0.5,
        "product": Matern32() * Polynomial(degree=2, offset=1.5),
        "scaled": 1.7 * Matern52(),
        "power": (RBF(lengthscale=1.6) + 0.3) ** 3,
        "exp": (0.6 * Periodic(period=2.0)).exp(),
        "modulated": (Matern52(lengthscale=0.5) + 0.2).modulate(amplitude),
        "warped": Matern52(lengthscale=0.5).warp(squash),
        "select": RBF(lengthscale=[0.7]).on([d - 1]),
        "named": (2.0 * Matern32() + White(variance=0.1)).named("all"),
    }
    of_time = {name: kernel.on([0]) for name, kernel in cases.OF_TIME.items()}
    return cases.joined(cases.of_columns(d), of_time, cases.of_levels(d), combined)


NAMES = list(examples(1))
every = pytest.mark.parametrize("name", NAMES)
# One of each construction: from a distance, from products, from other kernels.
most_slow = pytest.mark.parametrize(
    "name", few(NAMES, "rbf ard", "matern12", "periodic", "polynomial", "sum", "warped")
)


def points(n, d, seed=0, spread=1.0):
    return spread * np.random.default_rng(seed).normal(size=(n, d))


@pytest.mark.parametrize("name", cases.public_kernels())
def test_every_kernel_is_exported_and_has_a_case(name):
    assert name in kernels.__all__, f"export {name} in bayeskern/kernels/__init__.py"
    names = {type(node).__name__ for k in examples(2).values() for node in k.nodes()}
    assert name in names, f"add a case of {name} to tests/kernels/cases.py"


# -- Gram matrices ----------------------------------------------------------------------------


@every
@pytest.mark.parametrize(
    ("d", "spread"),
    [(2, 1.0), *(slow(d, spread) for d, spread in [(1, 1.0), (2, 0.1), (2, 5.0), (3, 1.0)])],
)
def test_gram_matrix(name, d, spread):
    k, X, n = examples(d)[name], points(12, d, spread=spread), 6
    X[1] = X[0]
    K, diagonal = np.asarray(k(X)), np.asarray(k.diag(X))
    size = np.abs(K).max()
    assert K.shape == (12, 12) and diagonal.shape == (12,)
    np.testing.assert_allclose(K, K.T, rtol=0, atol=1e-14 * size)
    np.testing.assert_allclose(diagonal, np.diag(K), rtol=1e-12)
    # Between two sets it is the block of the Gram matrix of both.
    between = np.asarray(k(X[:n], X[n:]))
    np.testing.assert_allclose(between, K[:n, n:], rtol=1e-12, atol=1e-13 * size)
    np.testing.assert_allclose(k(X[n:], X[:n]), between.T, rtol=1e-12, atol=1e-13 * size)
    if name not in ("white", "named"):
        # Of the angle between equal vectors half the digits are left, and order 0 has a kink.
        atol = 1e-7 if name == "arc cosine 0" else 1e-13 * size
        np.testing.assert_allclose(k(X, X), K, rtol=0, atol=atol)
    if name == "multiquadric":
        assert np.linalg.eigvalsh(K)[0] < -1e-4 * size
        with pytest.raises(NotPositiveDefiniteError, match="not positive semi-def"):
            check_psd(k, X)
        return
    eigenvalues = np.linalg.eigvalsh(K)
    assert eigenvalues[0] >= -1e-13 * K.shape[0] * size
    assert check_psd(k, X) == pytest.approx(eigenvalues[0] / eigenvalues[-1], abs=1e-14)


@most_slow
def test_inputs_of_one_dimension_may_be_flat(name):
    k, x = examples(1)[name], points(5, 1)
    np.testing.assert_array_equal(k(x[:, 0]), k(x))
    np.testing.assert_array_equal(k(x[:, 0], x[:3]), k(x, x[:3]))
    np.testing.assert_array_equal(k.diag(x[:, 0]), k.diag(x))


# -- pytrees ----------------------------------------------------------------------------------


@most_slow
def test_pytree(name):
    k, X, Z = examples(2)[name], points(4, 2), points(3, 2, seed=1)
    leaves, structure = jax.tree.flatten(k)
    again = jax.tree.unflatten(structure, leaves)
    assert eqx.tree_equal(again, k) and repr(again) == repr(k)
    assert len(leaves) == len(k.hyperparameters())
    traced = []

    @jax.jit
    def gram(k, X, Z):
        traced.append(1)
        return k(X, Z), k(X), k.diag(X)

    for kernel in (k, jax.tree.map(lambda leaf: leaf * 1.1, k)):
        expected = kernel(X, Z), kernel(X), kernel.diag(X)
        for a, b in zip(gram(kernel, X, Z), expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-14)
    assert len(traced) == 1  # other values of the hyperparameters do not recompile


def test_pytree_of_a_specification():
    prior = kernels.from_sd(dist.HalfNormal(0.5))
    k = RBF(lengthscale=Free(2.0), variance=prior) + Linear()
    leaves, structure = jax.tree.flatten(k)
    assert repr(jax.tree.unflatten(structure, leaves)) == repr(k)


# -- derivatives ------------------------------------------------------------------------------


def finite(tree):
    return all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(tree))


@every
def test_gradient_at_coincident_points(name):
    k, X = examples(2)[name], points(4, 2)
    X[1] = X[0]
    Z = X[::-1].copy()
    assert finite(jax.grad(lambda k, X, Z: k(X, Z).sum() + k(X).sum(), (0, 1, 2))(k, X, Z))


def five_points(f, h=1e-3):
    """Derivative of f at 0, with an error of order h^4 f^(5)."""
    return (f(-2 * h) - 8 * f(-h) + 8 * f(h) - f(2 * h)) / (12 * h)


@most_slow
def test_first_and_second_derivatives(name):
    """Along a random direction in hyperparameters and inputs, by differences of the level below."""
    k, X, rng = examples(2)[name], points(4, 2), np.random.default_rng(7)
    start = (k, X, points(3, 2, seed=1))
    along = jax.tree.map(lambda leaf: 0.3 * rng.normal(size=np.shape(leaf)), start)

    def value(t):
        k, X, Z = jax.tree.map(lambda a, b: a + t * b, start, along)
        return jnp.concatenate([k(X, Z).ravel(), k(X).ravel(), k.diag(X)])

    @jax.jit
    def levels(t):
        def slope(t):
            return jax.jvp(value, (t,), (1.0,))[1]

        return (value(t), *jax.jvp(slope, (t,), (1.0,)))

    _, first, second = levels(0.0)
    size = 1.0 + np.abs(first).max() + np.abs(second).max()
    # Rounding of the differences: 1e-16 / 1e-3, and h^4 times the fifth derivative.
    tolerance = {"rtol": 1e-8, "atol": 1e-9 * size}
    np.testing.assert_allclose(first, five_points(lambda t: levels(t)[0]), **tolerance)
    np.testing.assert_allclose(second, five_points(lambda t: levels(t)[1]), **tolerance)


# -- the call ---------------------------------------------------------------------------------


def test_frames():
    X, Z = points(5, 2), points(3, 2, seed=1)
    k = RBF(lengthscale=[0.5, 2.0])
    for frame in (pd.DataFrame, pl.DataFrame):
        A = frame({"a": X[:, 0], "b": X[:, 1]})
        B = frame({"a": Z[:, 0], "b": Z[:, 1]})
        np.testing.assert_array_equal(k(A), k(X))
        np.testing.assert_array_equal(k(A, B), k(X, Z))
        np.testing.assert_array_equal(k(A, Z), k(X, Z))
        np.testing.assert_array_equal(k.diag(A), k.diag(X))


def test_frames_with_different_columns_are_refused():
    A = pd.DataFrame({"a": [1.0, 2.0], "b": [3.0, 4.0]})
    for B in (A[["b", "a"]], A.rename(columns={"b": "c"}), A[["a"]]):
        with pytest.raises(ValueError, match=r"\('a', 'b'\) and Z has \('[abc]'"):
            RBF()(A, B)


def test_different_numbers_of_columns_are_refused():
    with pytest.raises(ValueError, match="X has columns 2 and Z has 3"):
        RBF()(np.ones((4, 2)), np.ones((4, 3)))


@pytest.mark.parametrize("argument", ["X", "Z"])
def test_bad_points_are_named(argument):
    values = {"X": np.ones((3, 1)), "Z": np.ones((3, 1))}
    for bad, message in [
        (
            [1.0, np.nan, 2.0],
            f"{argument} has 1 value that is NaN or infinite, the first in row 1",
        ),
        (np.ones((2, 2, 2)), rf"{argument} must have shape \(n,\) or \(n, d\), got .*2, 2, 2"),
        ([], rf"{argument} is empty \(shape \(0, 1\)\)"),
        (["x"], f"{argument} must be numeric, got list"),
    ]:
        with pytest.raises(ValueError, match=message):
            RBF()(**{**values, argument: bad})
    with pytest.raises(ValueError, match="X has 1 value that is NaN"):
        RBF().diag([np.inf, 0.0])


def test_integers_are_read_as_float64():
    K = Matern32()(np.arange(3), jnp.arange(4))
    assert K.dtype == jnp.float64
    np.testing.assert_array_equal(K, Matern32()(np.arange(3.0), np.arange(4.0)))
    assert RBF()(np.arange(3, dtype=np.float32)).dtype == jnp.float64


@pytest.mark.slow
def test_float32_mode():
    code = """
import os
os.environ["JAX_ENABLE_X64"] = "0"
import numpy as np, bayeskern.kernels as bk
x = (2000.0 + np.arange(12) / 12).astype(np.float32).astype(float)
k = bk.Matern52(lengthscale=0.3) * bk.Periodic(period=0.5) + bk.RBF(lengthscale=0.1)
K = np.asarray(k(x))
assert K.dtype == np.float32, K.dtype
r = np.abs(np.subtract.outer(x, x))
s = np.sqrt(5) * r / 0.3
wanted = (1 + s + s * s / 3) * np.exp(-s) * np.exp(-2 * np.sin(np.pi * r / 0.5) ** 2)
wanted += np.exp(-r * r / 0.02)
print(np.abs(K - wanted).max())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "Warning" not in done.stderr
    assert float(done.stdout) < 1e-5


@pytest.mark.parametrize("values", [np.ones(3), jnp.ones((3, 1)), pd.Series([1.0, 2.0])])
def test_an_array_does_not_scale_a_kernel(values):
    """The message has the shape, and the kernel of an amplitude that varies."""
    message = rf"one number c, got an array of shape {re.escape(str(values.shape))}.*modulate\(f\)"
    for combine in (operator.mul, operator.add):
        for operands in ((RBF(), values), (values, RBF())):
            with pytest.raises(TypeError, match=message):
                combine(*operands)
