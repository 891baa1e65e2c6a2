"""Modulated and warped kernels."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import polars as pl
import pytest

import bayeskern as bk
from bayeskern.kernels import RBF, Linear, Matern32, White, kernel_from_features
from tests.kernels.compare import close

RNG = np.random.default_rng(11)
X, Z = RNG.normal(size=(4, 2)), RNG.normal(size=(3, 2))


def total(x):
    return x.sum()


def growing(x):
    return 0.4 + 0.3 * x[0]


class Line(eqx.Module):
    slopes: jax.Array

    def __call__(self, x):
        return self.slopes @ x


def test_modulate_by_a_module_with_parameters():
    w = jnp.array([0.3, -1.2])
    k, K = RBF().modulate(Line(w)), np.asarray(RBF()(X, Z))
    close(k(X, Z), np.outer(X @ w, Z @ w) * K)
    slope = jax.grad(lambda k: k(X, Z).sum())(k).f.slopes
    # d/dw sum_ij (w'x_i) K_ij (z_j'w) = (X'K Z + Z'K'X) w
    close(slope, (X.T @ K @ Z + Z.T @ K.T @ X) @ w)


def test_modulate_keeps_white_on_the_diagonal():
    k, s = White(variance=0.3).modulate(total), X.sum(1)
    close(k(X), np.diag(0.3 * s**2))
    close(k(X, X), np.zeros((4, 4)))


def test_modulated_process_is_a_scaled_process():
    # y = f g + e is y / f = g + e / f: a process g under noise that differs from point to point.
    x, new, rng = np.linspace(0.0, 4.0, 9), np.array([0.7, 2.2, 5.0]), np.random.default_rng(0)
    y, f, f_new = rng.normal(size=9), 0.4 + 0.3 * x, 0.4 + 0.3 * new
    modulated = bk.GaussianProcess(Matern32().modulate(growing), x, 0.1)
    plain = bk.GaussianProcess(Matern32(), x, 0.1 / f**2)
    expected = plain.condition(y / f).predict(new, latent=True)
    found = modulated.condition(y).predict(new, latent=True)
    close(found.mean, f_new * expected.mean, rtol=1e-9)
    close(found.sd, f_new * expected.sd, rtol=1e-9)
    close(modulated.log_prob(y), plain.log_prob(y / f) - np.log(f).sum(), rtol=1e-10)


@pytest.mark.parametrize("f", [lambda x: x, lambda x: jnp.ones((2, 2)), lambda x: x[:0]])
def test_modulating_function_must_return_one_number(f):
    k = RBF().modulate(f)
    message = r"f must return one number for each point, but .*lambda.* an array of shape \("
    for call in (k, k.diag, Linear().modulate(f).feature_map, jax.jit(lambda X: k(X))):
        with pytest.raises(ValueError, match=message):
            call(X)
    # In one dimension a vector is one number.
    close(RBF().modulate(lambda x: x)(X[:, 0]), np.asarray(Linear()(X[:, 0]) * RBF()(X[:, 0])))


@pytest.mark.parametrize("f", [2.0, None, np.ones(4), "tanh"])
def test_arguments_other_than_functions_are_refused(f):
    for operation, name in (
        (RBF().modulate, "f"),
        (RBF().warp, "f"),
        (kernel_from_features, "phi"),
    ):
        with pytest.raises(TypeError, match=f"{name} must be a function of one point"):
            operation(f)


def test_modulating_function_gets_all_columns():
    A = RNG.normal(size=(5, 3))
    k, f = Linear().on(["mass"]).modulate(growing), 0.4 + 0.3 * A[:, 0]
    for kind in (pd.DataFrame, pl.DataFrame):
        frame = kind(dict(zip(("age", "height", "mass"), A.T, strict=True)))
        close(k(frame), np.outer(f * A[:, 2], f * A[:, 2]))


# -- Warped -----------------------------------------------------------------------------------


def test_warp_by_a_module_with_parameters():
    W = RNG.normal(size=(3, 2))
    k = Linear().warp(Line(jnp.asarray(W)))
    close(k(X, Z), X @ W.T @ W @ Z.T)
    close(k.diag(X), np.diag(X @ W.T @ W @ X.T))
    slope = jax.grad(lambda k: k(X, Z).sum())(k).f.slopes
    # d/dW sum_ij (W x_i)'(W z_j) = W (sx sz' + sz sx')
    sx, sz = X.sum(0), Z.sum(0)
    close(slope, W @ (np.outer(sx, sz) + np.outer(sz, sx)))


def test_warp_keeps_white_on_the_diagonal():
    k = (White(variance=0.3) + RBF()).warp(total)
    s = X.sum(1)
    close(k(X), 0.3 * np.eye(4) + np.exp(-(np.subtract.outer(s, s) ** 2) / 2))
    close(k(X, X), np.exp(-(np.subtract.outer(s, s) ** 2) / 2))
