"""Observations under a likelihood whose latent functions are Gaussian: averages and draws."""

from __future__ import annotations

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import ndtri

from bayeskern.gp.curvature import eta

# Nodes for each of one and of two dimensions and how far they go; nodes for more; how many of them
# are looked at together, which divides them all.
ONE, TWO, MORE = (240, 12.0), (32, 8.0), 1024
TOGETHER = 16


@cache
def nodes(C: int) -> tuple[np.ndarray, np.ndarray]:
    """(Q, C) nodes and (Q,) weights for E[g(z)], z ~ N(0, I): sum_q w_q g(z_q).

    In one and two dimensions the trapezoidal rule: under a Gaussian it converges as fast as
    Gauss-Hermite where g is smooth, and a good deal faster where it is a steep sigmoid (Trefethen
    and Weideman 2014, "The exponentially convergent trapezoidal rule"). Scrambled Sobol points,
    with a fixed seed, in more.
    """
    if C > 2:
        return sobol(C, MORE)
    count, reach = ONE if C == 1 else TWO
    x = np.linspace(-reach, reach, count)
    grid = np.stack(np.meshgrid(*[x] * C, indexing="ij"), -1).reshape(-1, C)
    weights = np.prod(np.exp(-0.5 * np.square(grid)), axis=1)
    return grid, weights / np.sum(weights)


def sobol(C: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Scrambled Sobol points (count, C) under N(0, I), all of one weight."""
    # Here, since scipy.stats takes a while to import.
    from scipy.stats import qmc

    return ndtri(qmc.Sobol(C, seed=0).random(count)), np.full(count, 1.0 / count)


def at_nodes(function, mean, covariance):
    """E[function(f)] for f ~ N(mean, covariance) at each point: f (C, m) -> arrays (m, ...)."""
    z, w = nodes(mean.shape[0])
    L = covariance_roots(covariance)

    def add(total, some):
        z, w = some
        values = jax.vmap(lambda z: function(mean + jnp.einsum("cdm,d->cm", L, z)))(z)
        return jax.tree.map(lambda t, v: t + jnp.tensordot(w, v, 1), total, values), None

    some = z.reshape(-1, TOGETHER, z.shape[1]), w.reshape(-1, TOGETHER)
    zero = jax.tree.map(jnp.zeros_like, function(mean))
    return jax.lax.scan(add, zero, jax.tree.map(jnp.asarray, some))[0]


def covariance_roots(covariance):
    """A square root of the C x C covariance at each point: (C, C, m)."""
    if covariance.shape[0] == 1:
        return jnp.sqrt(covariance)
    # Eigenvectors, for where the data leave nothing open the covariance is rounding error.
    values, vectors = jnp.linalg.eigh(jnp.moveaxis(covariance, -1, 0))
    return jnp.moveaxis(vectors * jnp.sqrt(jnp.maximum(values, 0.0))[:, None], 0, -1)


def mean_response(likelihood, mean, covariance, extra):
    """E[y] where the latent functions are Gaussian: (m,)."""
    return at_nodes(lambda f: likelihood.mean(eta(likelihood, f), **extra), mean, covariance)


def draw_responses(likelihood, f, extra, key):
    """y given each of n draws of f (n, C, m): (n, m)."""

    def one(item):
        f, key = item
        return likelihood.distribution(eta(likelihood, f), **extra).sample(key)

    return jax.lax.map(one, (f, jax.random.split(key, f.shape[0])))


def centred(covariance, key, n: int):
    """n draws from N(0, covariance) of p numbers: (n, p)."""
    white = jax.random.normal(key, (n, covariance.shape[0]), covariance.dtype)
    p = covariance.shape[0]
    scale = jnp.mean(jnp.diagonal(covariance))
    L = jnp.linalg.cholesky(covariance + 1e-10 * scale * jnp.eye(p))

    def safe():
        values, vectors = jnp.linalg.eigh(covariance)
        return (white * jnp.sqrt(jnp.maximum(values, 0.0))) @ vectors.T

    # Where the data leave little open the covariance is rounding error; eigenvectors take longer.
    return jax.lax.cond(jnp.all(jnp.isfinite(L)), lambda: white @ L.T, safe)


def log_normal(r, S):
    """log N(r; 0, S) for r (..., n, C) and S (n, C, C)."""
    L = jnp.linalg.cholesky(S)
    z = jnp.einsum("ncd,...nd->...nc", jnp.linalg.inv(L), r)
    logdet = jnp.sum(jnp.log(jnp.diagonal(L, axis1=-2, axis2=-1)), -1)
    return -0.5 * jnp.sum(jnp.square(z), -1) - logdet - 0.5 * r.shape[-1] * jnp.log(2.0 * jnp.pi)
