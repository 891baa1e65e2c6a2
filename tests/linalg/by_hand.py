"""Covariance matrices in NumPy and derivatives of dense formulas, to compare solvers with."""

import jax
import jax.numpy as jnp
import numpy as np


def masked(noise, observed, kernel, X):
    """K of points X (n, d); rows that do not count are those of the identity."""
    K = np.asarray(kernel(X)) + np.diag(noise)
    return np.where(observed[:, None] & observed, K, np.eye(len(X)))


def check_factor(factor, K, atol=1e-10, root_rtol=1e-11, root_atol=1e-11, logdet_rtol=1e-11):
    """Every method of a factor of K against NumPy."""
    B = np.random.default_rng(1).normal(size=(len(K), 3))
    for right in (B, B[:, 0]):
        np.testing.assert_allclose(factor.solve(right), np.linalg.solve(K, right), atol=atol)
        np.testing.assert_allclose(factor.whiten(factor.sqrt_mul(right)), right, atol=1e-11)
    L = factor.sqrt_mul(jnp.eye(len(K)))
    np.testing.assert_allclose(L @ L.T, K, rtol=root_rtol, atol=root_atol)
    np.testing.assert_allclose(factor.logdet(), np.linalg.slogdet(K)[1], rtol=logdet_rtol)
    np.testing.assert_allclose(factor.inv_diag(), np.diag(np.linalg.inv(K)), rtol=1e-9)


def flat(tree):
    """All numbers of a pytree in one vector."""
    return np.concatenate([np.ravel(x) for x in jax.tree.leaves(tree)])


def check_derivatives(ours, dense, *arguments, atol=1e-9):
    """Gradients and Hessians in all arguments; atol: share of the largest number."""
    places = tuple(range(len(arguments)))
    for derivative in (jax.grad, jax.hessian):
        found, expected = (flat(jax.jit(derivative(f, places))(*arguments)) for f in (ours, dense))
        np.testing.assert_allclose(found, expected, rtol=1e-8, atol=atol * np.abs(expected).max())
