"""Expectations and draws of observations y given Gaussian latent functions."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from scipy.special import ndtri

from bayeskern.gp.latent.log_likelihood import eta
from bayeskern.likelihoods.base import Likelihood
from bayeskern.linalg.root import square_root

# Number of nodes evaluated together; it must divide the number of nodes of each rule in `nodes`.
NODES_PER_BATCH = 16


@cache
def nodes(C: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes (Q, C) and weights (Q,) for E[g(z)] = sum_q w_q g(z_q) with z ~ N(0, I).

    For C = 1 or 2: the trapezoidal rule. Under a Gaussian it converges as fast as Gauss-Hermite if
    g is smooth, and much faster if g is a steep sigmoid (Trefethen and Weideman 2014, "The
    exponentially convergent trapezoidal rule"). For larger C: scrambled Sobol points with a fixed
    seed.
    """
    if C > 2:
        return sobol(C, 1024)
    count, reach_sds = (240, 12.0) if C == 1 else (32, 8.0)
    x = np.linspace(-reach_sds, reach_sds, count)
    return product_rule(x, np.exp(-0.5 * np.square(x)), C)


def product_rule(x: np.ndarray, weights: np.ndarray, C: int) -> tuple[np.ndarray, np.ndarray]:
    """Product of C one-dimensional rules: nodes (Q, C), weights (Q,)."""
    grid = np.stack(np.meshgrid(*[x] * C, indexing="ij"), -1).reshape(-1, C)
    products = np.stack(np.meshgrid(*[weights] * C, indexing="ij"), -1).reshape(-1, C)
    products = np.prod(products, axis=1)
    return grid, products / np.sum(products)


def sobol(C: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Scrambled Sobol points (count, C) under N(0, I), with equal weights."""
    # scipy.stats takes long to import.
    from scipy.stats import qmc

    points = qmc.Sobol(C, seed=0).random(count)  # pyright: ignore[reportCallIssue]
    return ndtri(points), np.full(count, 1.0 / count)


def gaussian_expectation(
    function: Callable,
    mean: Array,
    covariance: Array,
    rule: Callable[[int], tuple[np.ndarray, np.ndarray]] = nodes,
    per_batch: int = NODES_PER_BATCH,
):
    """E[function(f)] at each of m points, where f ~ N(mean, covariance).

    Args:
        function: f (C, m) -> a pytree of arrays (m, ...).
        mean: Means, (C, m).
        covariance: Covariances at each point, (C, C, m).
        rule: C -> nodes and weights under N(0, I).
        per_batch: Number of nodes evaluated together.
    """
    z, w = rule(mean.shape[0])
    L = covariance_roots(covariance)

    def add(total, batch):
        z, w = batch
        values = jax.vmap(lambda z: function(mean + jnp.einsum("cdm,d->cm", L, z)))(z)
        return jax.tree.map(lambda t, v: t + jnp.tensordot(w, v, 1), total, values), None

    batches = z.reshape(-1, per_batch, z.shape[1]), w.reshape(-1, per_batch)
    zero = jax.tree.map(jnp.zeros_like, function(mean))
    return jax.lax.scan(add, zero, jax.tree.map(jnp.asarray, batches))[0]


def covariance_roots(covariance: Array) -> Array:
    """Square root of the C x C covariance at each point: (C, C, m)."""
    if covariance.shape[0] == 1:
        return jnp.sqrt(covariance)
    return jnp.moveaxis(square_root(jnp.moveaxis(covariance, -1, 0)), 0, -1)


def draw_responses(likelihood: Likelihood, f: Array, extra: dict[str, Array], key: Array) -> Array:
    """Draw y given draws of f (..., C, m): (..., m)."""

    def draw(f, key):
        return jnp.asarray(likelihood.distribution(eta(likelihood, f), **extra).sample(key))

    sample_shape = f.shape[:-2]
    keys = jax.random.split(key, sample_shape) if sample_shape else key
    for _ in sample_shape:
        draw = jax.vmap(draw)
    return draw(f, keys)


def log_normal(r: Array, S: Array) -> Array:
    """log N(r; 0, S) for r (..., n, C) and S (n, C, C)."""
    L = jnp.linalg.cholesky(S)
    z = jnp.einsum("ncd,...nd->...nc", jnp.linalg.inv(L), r)
    half_logdet = jnp.sum(jnp.log(jnp.diagonal(L, axis1=-2, axis2=-1)), -1)
    log_2pi = jnp.log(2.0 * jnp.pi)
    return -0.5 * jnp.sum(jnp.square(z), -1) - half_logdet - 0.5 * r.shape[-1] * log_2pi
