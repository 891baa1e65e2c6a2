"""Posteriors with separate modes and exact moments."""

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from jax.scipy.special import logsumexp
from jax.scipy.stats import norm


class Separated(NamedTuple):
    """A model without data, and a function for the exact means and sds of its site x: (d,) each.

    The moments are computed in the tests that need them, not at the import of all tests.
    """

    model: object
    moments: Callable[[], tuple[np.ndarray, np.ndarray]]


def _on_grid(log_density, *axes):
    """Means and sds of the coordinates, by sums over a grid."""
    points = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1)
    log_p = np.asarray(log_density(points))
    p = np.exp(log_p - log_p.max())
    p /= p.sum()
    over = tuple(range(len(axes)))
    mean = np.sum(points * p[..., None], axis=over)
    return mean, np.sqrt(np.sum(np.square(points - mean) * p[..., None], axis=over))


def shells(d: int, radius=2.0, width=0.1, apart=3.5) -> Separated:
    """Two thin shells of equal mass; rings in the plane."""

    def log_density(x):
        first = jnp.zeros(d).at[0].set(apart)
        distances = [jnp.linalg.norm(x - c, axis=-1) for c in (-first, first)]
        return logsumexp(
            jnp.stack([-0.5 * jnp.square((r - radius) / width) for r in distances]), axis=0
        )

    def model():
        x = numpyro.sample("x", dist.Normal(0.0, 10.0).expand([d]).to_event(1))
        numpyro.factor("shells", log_density(x))

    # In the first coordinate and the distance from its axis, which has a volume of r^(d - 2).
    u, r = np.linspace(-6.5, 6.5, 1301), np.linspace(0.005, 2.995, 300)

    def with_volume(points):
        u, r = points[..., 0], points[..., 1]
        x = jnp.concatenate([points, jnp.zeros((*u.shape, d - 2))], axis=-1)
        prior = -0.5 * (u**2 + r**2) / 100.0
        return log_density(x) + prior + (d - 2) * jnp.log(r)

    def moments():
        mean, sd = _on_grid(with_volume, u, r)
        # By symmetry the other coordinates have mean 0, and share the mean square of r.
        square = mean[1] ** 2 + sd[1] ** 2
        means = np.r_[mean[0], np.zeros(d - 1)]
        return means, np.r_[sd[0], np.full(d - 1, np.sqrt(square / (d - 1)))]

    return Separated(model, moments)


def mixture(means, sds, weights) -> Separated:
    """Normal components (k, d) of one sd each, under a wide normal prior."""
    means, sds, weights = (np.asarray(x, float) for x in (means, sds, weights))

    def model():
        x = numpyro.sample("x", dist.Normal(0.0, 10.0).expand([means.shape[1]]).to_event(1))
        parts = norm.logpdf(x, means, sds[:, None]).sum(axis=-1)
        numpyro.factor("mixture", logsumexp(parts + jnp.log(weights)))

    # The product of two normal densities is a normal one, times what its mean has of both.
    square, d = np.square(sds), means.shape[1]
    mass = weights * np.exp(
        -0.5 * np.sum(np.square(means), axis=1) / (100.0 + square)
        - 0.5 * d * np.log(100.0 + square)
    )
    mass /= mass.sum()
    centers = means * (100.0 / (100.0 + square))[:, None]
    variances = 100.0 * square / (100.0 + square)
    mean = mass @ centers
    second = mass @ (np.square(centers - mean) + variances[:, None])
    return Separated(model, lambda: (mean, np.sqrt(second)))


def unequal(d: int, distance=8.0) -> Separated:
    """Two components with 70 and 30 %, so many sds apart."""
    end = np.full(d, 0.5 * distance / np.sqrt(d))
    return mixture([-end, end], [1.0, 1.0], [0.7, 0.3])


def labels() -> Separated:
    """The means of two equal components of a mixture, which may change their places."""
    y = np.concatenate([np.linspace(-3.0, -1.0, 20), np.linspace(1.5, 3.5, 20)])

    def log_likelihood(x):
        parts = norm.logpdf(y, x[..., None], 0.7)
        return jnp.sum(logsumexp(parts, axis=-2) - jnp.log(2.0), axis=-1)

    def model():
        x = numpyro.sample("x", dist.Normal(0.0, 5.0).expand([2]).to_event(1))
        numpyro.factor("likelihood", log_likelihood(x))

    grid = np.linspace(-4.5, 4.5, 451)
    prior = [lambda x: -0.5 * jnp.sum(jnp.square(x), axis=-1) / 25.0]
    return Separated(model, lambda: _on_grid(lambda x: log_likelihood(x) + prior[0](x), grid, grid))


SEPARATED = {
    "rings": shells(2),
    "shells": shells(3),
    **{f"unequal, d = {d}": unequal(d) for d in (1, 2, 5, 10)},
    "labels": labels(),
    "narrow beside wide": mixture([[0.0], [8.0]], [1.0, 0.05], [0.5, 0.5]),
    "narrow inside wide": mixture([[0.0, 0.0], [2.0, 2.0]], [2.0, 0.05], [0.5, 0.5]),
}
