"""Bent, thin and cornered densities: Rosenbrock, bananas, ridges, rings, spikes and simplices."""

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import scipy.stats as st

from tests.inference.zoo.moments import Moments, gaussian, mixed
from tests.inference.zoo.posterior import ZooPosterior, sample_density

SPIKE_DATA = np.array([0.3, -1.0, 2.2, 3.0, -4.5])
SLAB_SD, RIDGE_NOISE, RADIUS, RING_WIDTH = 3.0, 0.01, 2.0, 0.1
TWIST, TWISTED_SD = 0.03, 10.0


def wide(size, sd):
    return dist.Normal(0.0, sd).expand([size]).to_event(1)


def rosenbrock():
    """Goodman and Weare (2010), equation 31."""

    def log_density(x):
        return -(100.0 * jnp.square(x[1] - x[0] ** 2) + jnp.square(1.0 - x[0])) / 20.0

    sample_density("x", log_density, wide(2, 10.0))


def rosenbrock_truth():
    """x_0 is N(1, 10) and x_1 given x_0 is N(x_0^2, 0.1)."""
    return {"x": Moments(np.array([1.0, 11.0]), np.sqrt([10.0, 4.0 * 10.0 + 2.0 * 100.0 + 0.1]))}


def twisted():
    """Haario, Saksman and Tamminen (1999): a normal density bent along x_0, in 5 dimensions."""

    def log_density(x):
        bent = x[1] + TWIST * (jnp.square(x[0]) - TWISTED_SD**2)
        others = jnp.square(bent) + jnp.sum(jnp.square(x[2:]))
        return -0.5 * (jnp.square(x[0] / TWISTED_SD) + others)

    sample_density("x", log_density, wide(5, 15.0))


def twisted_truth():
    bent_sd = np.sqrt(1.0 + 2.0 * TWIST**2 * TWISTED_SD**4)
    return {"x": Moments(np.zeros(5), np.array([TWISTED_SD, bent_sd, 1.0, 1.0, 1.0]))}


def waves():
    """A ridge along 3 sin(x_0), 0.1 wide."""

    def log_density(x):
        return -0.5 * (jnp.square(x[0] / 3.0) + jnp.square((x[1] - 3.0 * jnp.sin(x[0])) / 0.1))

    sample_density("x", log_density, wide(2, 5.0))


def waves_truth():
    """E sin(u)^2 = (1 - exp(-2 var u)) / 2."""
    variance = 9.0 * 0.5 * (1.0 - np.exp(-18.0)) + 0.01
    return {"x": Moments(np.zeros(2), np.array([3.0, np.sqrt(variance)]))}


def ridge(y):
    w = numpyro.sample("w", wide(3, 10.0))
    numpyro.sample("y", dist.Normal(jnp.sum(w), RIDGE_NOISE), obs=y)


def ridge_truth():
    precision = np.full((3, 3), RIDGE_NOISE**-2) + np.eye(3) / 100.0
    return {"w": gaussian(precision, np.full(3, 1.5 / RIDGE_NOISE**2))}


def ring():
    def log_density(x):
        return -0.5 * jnp.square((jnp.linalg.norm(x) - RADIUS) / RING_WIDTH)

    sample_density("x", log_density, wide(2, 4.0))


def ring_truth():
    """Each coordinate has half the mean square of the radius."""
    r = np.linspace(1.0, 3.0, 2_000)
    p = r * np.exp(-0.5 * np.square((r - RADIUS) / RING_WIDTH))
    sd = np.sqrt(0.5 * np.sum(p * r**2) / np.sum(p))
    return {"x": Moments(np.zeros(2), np.full(2, sd))}


def spike_and_slab(y, spike_sd):
    prior = dist.MixtureSameFamily(
        dist.Categorical(jnp.array([0.5, 0.5])),
        dist.Normal(0.0, jnp.stack([spike_sd, jnp.asarray(SLAB_SD)])),
    )
    with numpyro.plate("coefficient", len(y)):
        theta = numpyro.sample("theta", prior)
        numpyro.sample("y", dist.Normal(theta, 1.0), obs=y)


def spike_and_slab_truth(y, spike_sd):
    """Each coefficient is a mixture of two normals."""
    sds = np.array([[spike_sd], [SLAB_SD]])
    own = sds**2 / (sds**2 + 1.0)
    log_weights = st.norm(0.0, np.sqrt(1.0 + sds**2)).logpdf(y)
    columns = [
        mixed(log_weights[:, [j]][:, 0], own[:, 0] * y[j], np.sqrt(own[:, 0]))
        for j in range(len(y))
    ]
    return {"theta": Moments(*np.transpose(columns))}


def corners(y, concentration):
    p = numpyro.sample("p", dist.Dirichlet(concentration))
    numpyro.sample("y", dist.Multinomial(int(np.sum(CORNER_COUNTS)), p), obs=y)


CORNER_COUNTS = np.array([3, 0, 0, 0, 0])


def zoo_posterior(name, model, args, truth, **options) -> ZooPosterior:
    return ZooPosterior(name, "shapes", model, args, truth, **options)


def spikes(spike_sd) -> ZooPosterior:
    return zoo_posterior(
        f"spike and slab, spike sd {spike_sd}",
        spike_and_slab,
        (SPIKE_DATA, np.asarray(spike_sd)),
        lambda: spike_and_slab_truth(SPIKE_DATA, spike_sd),
    )


def simplex(concentration) -> ZooPosterior:
    alpha = np.full(5, concentration)
    return zoo_posterior(
        f"simplex corners, concentration {concentration}",
        corners,
        (CORNER_COUNTS, alpha),
        lambda: {"p": Moments.of(st.dirichlet(alpha + CORNER_COUNTS))},
    )


POSTERIORS = [
    zoo_posterior("Rosenbrock", rosenbrock, (), rosenbrock_truth, has_prior_draws=False),
    zoo_posterior("twisted normal, 5 d", twisted, (), twisted_truth, has_prior_draws=False),
    zoo_posterior("waves", waves, (), waves_truth),
    zoo_posterior("ridge", ridge, (np.asarray(1.5),), ridge_truth, has_prior_draws=False),
    zoo_posterior("ring", ring, (), ring_truth),
    spikes(0.1),
    spikes(0.001),
    simplex(0.1),
    simplex(0.01),
]
