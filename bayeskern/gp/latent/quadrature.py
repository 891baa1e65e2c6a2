"""Observations whose latent functions are Gaussian: averages by quadrature, and draws."""

from __future__ import annotations

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import ndtri

from bayeskern.gp.latent.log_likelihood import eta
from bayeskern.linalg.root import square_root

# The number of nodes on an axis, and the sds that they reach: in one dimension, and in two.
NODES_1D, NODES_2D = (240, 12.0), (32, 8.0)
# The number of nodes in more dimensions.
SOBOL_POINTS = 1024
# The number of nodes evaluated together, which divides each of the numbers above.
BATCH = 16


@cache
def nodes(C: int) -> tuple[np.ndarray, np.ndarray]:
    """(Q, C) nodes and (Q,) weights for E[g(z)], z ~ N(0, I): sum_q w_q g(z_q).

    In one and two dimensions the trapezoidal rule: under a Gaussian it converges as fast as
    Gauss-Hermite where g is smooth, and a good deal faster where it is a steep sigmoid (Trefethen
    and Weideman 2014, "The exponentially convergent trapezoidal rule"). Scrambled Sobol points,
    with a fixed seed, in more.
    """
    if C > 2:
        return sobol(C, SOBOL_POINTS)
    count, reach = NODES_1D if C == 1 else NODES_2D
    x = np.linspace(-reach, reach, count)
    return product_rule(x, np.exp(-0.5 * np.square(x)), C)


def product_rule(x, weights, C: int) -> tuple[np.ndarray, np.ndarray]:
    """A rule in C dimensions from nodes and weights in one: (Q, C), (Q,) with sum 1."""
    grid = np.stack(np.meshgrid(*[x] * C, indexing="ij"), -1).reshape(-1, C)
    products = np.stack(np.meshgrid(*[weights] * C, indexing="ij"), -1).reshape(-1, C)
    products = np.prod(products, axis=1)
    return grid, products / np.sum(products)


def sobol(C: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Scrambled Sobol points (count, C) under N(0, I), all of one weight."""
    # Here, since scipy.stats takes a while to import.
    from scipy.stats import qmc

    return ndtri(qmc.Sobol(C, seed=0).random(count)), np.full(count, 1.0 / count)


def gaussian_expectation(function, mean, covariance):
    """E[function(f)] for f ~ N(mean, covariance) at each point: f (C, m) -> arrays (m, ...)."""
    z, w = nodes(mean.shape[0])
    L = covariance_roots(covariance)

    def add(total, batch):
        z, w = batch
        values = jax.vmap(lambda z: function(mean + jnp.einsum("cdm,d->cm", L, z)))(z)
        return jax.tree.map(lambda t, v: t + jnp.tensordot(w, v, 1), total, values), None

    batches = z.reshape(-1, BATCH, z.shape[1]), w.reshape(-1, BATCH)
    zero = jax.tree.map(jnp.zeros_like, function(mean))
    return jax.lax.scan(add, zero, jax.tree.map(jnp.asarray, batches))[0]


def covariance_roots(covariance):
    """A square root of the C x C covariance at each point: (C, C, m)."""
    if covariance.shape[0] == 1:
        return jnp.sqrt(covariance)
    return jnp.moveaxis(square_root(jnp.moveaxis(covariance, -1, 0)), 0, -1)


def mean_response(likelihood, mean, covariance, extra):
    """E[y] where the latent functions are Gaussian: (m,)."""
    return gaussian_expectation(
        lambda f: likelihood.mean(eta(likelihood, f), **extra), mean, covariance
    )


def draw_responses(likelihood, f, extra, key):
    """y given each of n draws of f (n, C, m), one after the other: (n, m)."""

    def draw(f_and_key):
        f, key = f_and_key
        return likelihood.distribution(eta(likelihood, f), **extra).sample(key)

    return jax.lax.map(draw, (f, jax.random.split(key, f.shape[0])))


def sample_responses(likelihood, f, extra, key):
    """y given draws of f (..., C, m), all at once: (..., m)."""

    def draw(f, key):
        return likelihood.distribution(eta(likelihood, f), **extra).sample(key)

    sample_shape = f.shape[:-2]
    keys = jax.random.split(key, sample_shape) if sample_shape else key
    for _ in sample_shape:
        draw = jax.vmap(draw)
    return draw(f, keys)


def log_normal(r, S):
    """log N(r; 0, S) for r (..., n, C) and S (n, C, C)."""
    L = jnp.linalg.cholesky(S)
    z = jnp.einsum("ncd,...nd->...nc", jnp.linalg.inv(L), r)
    half_logdet = jnp.sum(jnp.log(jnp.diagonal(L, axis1=-2, axis2=-1)), -1)
    return (
        -0.5 * jnp.sum(jnp.square(z), -1) - half_logdet - 0.5 * r.shape[-1] * jnp.log(2.0 * jnp.pi)
    )
