"""Hard boundaries, holes, extreme scales, and densities that are NaN in places."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import scipy.stats as st

from tests.inference.zoo.moments import Moments, grid, on_grid
from tests.inference.zoo.posterior import ZooPosterior

SPREAD = np.array([0.4, 3.1, 1.7, 4.9, 2.2])
# Corners of two boxes: (low, high) by coordinate.
BOXES = np.array([[[-4.0, -1.0], [-4.0, 0.0]], [[1.0, 3.0], [2.0, 4.0]]])
TINY, HUGE = 1e-8, 1e8


def all_successes(y):
    p = numpyro.sample("p", dist.Uniform(0.0, 1.0))
    numpyro.sample("y", dist.Binomial(20, p), obs=y)


def edges(y):
    """In unconstrained coordinates the tails fall off as slowly as exp(0.3 z)."""
    p = numpyro.sample("p", dist.Beta(0.3, 0.3))
    numpyro.sample("y", dist.Bernoulli(p), obs=y)


def pushed(y):
    """Data on the other side of a boundary."""
    mu = numpyro.sample("mu", dist.HalfNormal(1.0))
    numpyro.sample("y", dist.Normal(mu, 1.0), obs=y)


def pushed_truth():
    """N(-1.5, 1 / 2) on mu > 0."""
    sd = np.sqrt(0.5)
    return {"mu": Moments.of(st.truncnorm(1.5 / sd, np.inf, -1.5, sd))}


def half_plane():
    x = numpyro.sample("x", dist.Normal(0.0, 1.0).expand([2]).to_event(1))
    numpyro.factor("above", jnp.where(jnp.sum(x) > 1.0, 0.0, -jnp.inf))


def half_plane_truth():
    """Along the diagonal a truncated normal, across it a standard normal."""
    along = st.truncnorm(np.sqrt(0.5), np.inf)
    mean, variance = along.mean() * np.sqrt(0.5), 0.5 * (along.var() + 1.0)
    return {"x": Moments(np.full(2, mean), np.full(2, np.sqrt(variance)))}


def uniform(y):
    t = numpyro.sample("t", dist.HalfNormal(20.0))
    numpyro.sample("y", dist.Uniform(0.0, t), obs=y)


def uniform_truth(y):
    t = np.linspace(y.max(), 150.0, 200_000)
    return on_grid(st.norm(0.0, 20.0).logpdf(t) - len(y) * np.log(t), t=t)


def boxes():
    x = numpyro.sample("x", dist.Uniform(-5.0, 5.0).expand([2]).to_event(1))
    inside = jnp.all((x > BOXES[..., 0]) & (x < BOXES[..., 1]), axis=-1)
    numpyro.factor("boxes", jnp.where(jnp.any(inside), 0.0, -jnp.inf))


def boxes_truth():
    sides = BOXES[..., 1] - BOXES[..., 0]
    share = np.prod(sides, axis=1) / np.prod(sides, axis=1).sum()
    centre = BOXES.mean(axis=2)
    mean = share @ centre
    second = share @ (sides**2 / 12.0 + centre**2)
    return {"x": Moments(mean, np.sqrt(second - mean**2))}


def root(y):
    """NaN where x is negative, which one prior draw in six is."""
    x = numpyro.sample("x", dist.Normal(1.0, 1.0))
    numpyro.sample("y", dist.Normal(jnp.sqrt(x), 0.5), obs=y)


def root_truth():
    x = np.linspace(0.0, 7.0, 100_001)[1:]
    return on_grid(st.norm(1.0, 1.0).logpdf(x) + st.norm(np.sqrt(x), 0.5).logpdf(0.6), x=x)


def disc():
    """NaN outside a disc, zero at its rim."""
    x = numpyro.sample("x", dist.Normal(0.0, 1.0).expand([2]).to_event(1))
    numpyro.factor("disc", 2.0 * jnp.log(4.0 - jnp.sum(jnp.square(x))) + x[0])


def disc_truth():
    a, b = grid(np.linspace(-2.0, 2.0, 1_001), np.linspace(-2.0, 2.0, 1_001))
    inside = np.maximum(4.0 - a**2 - b**2, 0.0)
    with np.errstate(divide="ignore"):
        log_p = 2.0 * np.log(inside) + a - 0.5 * (a**2 + b**2)
    return on_grid(log_p, x=[a, b])


def scales(y):
    tiny = numpyro.sample("tiny", dist.Normal(0.0, TINY))
    huge = numpyro.sample("huge", dist.Normal(0.0, HUGE))
    sd = numpyro.sample("sd", dist.LogNormal(0.0, 0.5))
    numpyro.sample("y", dist.Normal(tiny / TINY + huge / HUGE, sd), obs=y)


def scales_truth():
    """Given sd both are normal; their sum is N(0, 2) before the data."""
    log_sd = np.linspace(-4.0, 4.0, 4_000)
    noise = np.exp(2.0 * log_sd)
    log_p = st.norm(0.0, 0.5).logpdf(log_sd) + st.norm(0.0, np.sqrt(2.0 + noise)).logpdf(1.5)
    gain = 1.0 / (2.0 + noise)
    moments = on_grid(log_p, sd=np.exp(log_sd))
    mean, second = (on_grid(log_p, v=v)["v"].mean for v in (1.5 * gain, 1.0 - gain))
    spread = on_grid(log_p, v=1.5 * gain)["v"].sd
    own = Moments(mean, np.sqrt(second + spread**2))
    for name, scale in (("tiny", TINY), ("huge", HUGE)):
        moments[name] = Moments(own.mean * scale, own.sd * scale)
    return moments


def correlation(y):
    """Points close to the line y = x: rho is near its bound of 1."""
    rho = numpyro.sample("rho", dist.Uniform(-1.0, 1.0))
    covariance = jnp.eye(2) + rho * jnp.array([[0.0, 1.0], [1.0, 0.0]])
    numpyro.sample("y", dist.MultivariateNormal(jnp.zeros(2), covariance), obs=y)


PAIRS = np.random.default_rng(5).normal(size=(10, 1)) + 0.05 * np.random.default_rng(6).normal(
    size=(10, 2)
)


def correlation_truth():
    # Dense near 1, in cells of equal width in atanh(rho).
    rho = np.tanh(np.linspace(-8.0, 8.0, 200_000))
    squares, products = np.square(PAIRS).sum(), np.prod(PAIRS, axis=1).sum()
    rest = 1.0 - rho**2
    log_p = -0.5 * len(PAIRS) * np.log(rest) - 0.5 * (squares - 2.0 * rho * products) / rest
    return on_grid(log_p + np.log(rest), rho=rho)


class DualMoon(dist.Distribution):
    """Two moons of NumPyro's example of neural transport; `sample` only returns the shape."""

    support = dist.constraints.real_vector

    def __init__(self):
        super().__init__(event_shape=(2,))

    def sample(self, key, sample_shape=()):
        return jnp.zeros((*sample_shape, 2))

    def log_prob(self, value):
        radius = jnp.linalg.norm(value, axis=-1)
        sides = -0.5 * jnp.square((value[..., :1] + jnp.array([-2.0, 2.0])) / 0.6)
        return jax.nn.logsumexp(sides, axis=-1) - 0.5 * jnp.square((radius - 2.0) / 0.4)


def dual_moon():
    numpyro.sample("x", DualMoon())


def dual_moon_truth():
    a, b = grid(np.linspace(-5.0, 5.0, 801), np.linspace(-5.0, 5.0, 801))
    sides = np.logaddexp(-0.5 * ((a - 2.0) / 0.6) ** 2, -0.5 * ((a + 2.0) / 0.6) ** 2)
    return on_grid(sides - 0.5 * ((np.hypot(a, b) - 2.0) / 0.4) ** 2, x=[a, b])


def zoo_posterior(name, model, args, truth, **options) -> ZooPosterior:
    return ZooPosterior(name, "bounded", model, args, truth, **options)


POSTERIORS = [
    zoo_posterior(
        "20 of 20 successes", all_successes, (20,), lambda: {"p": Moments.of(st.beta(21.0, 1.0))}
    ),
    zoo_posterior("beta(1.3, 0.3)", edges, (1,), lambda: {"p": Moments.of(st.beta(1.3, 0.3))}),
    zoo_posterior("data beyond a boundary", pushed, (np.asarray(-3.0),), pushed_truth),
    zoo_posterior("half plane", half_plane, (), half_plane_truth),
    zoo_posterior("uniform observations", uniform, (SPREAD,), lambda: uniform_truth(SPREAD)),
    zoo_posterior("two boxes", boxes, (), boxes_truth),
    zoo_posterior("NaN below zero", root, (np.asarray(0.6),), root_truth),
    zoo_posterior("NaN outside a disc", disc, (), disc_truth),
    zoo_posterior("scales 1e-8 and 1e8", scales, (np.asarray(1.5),), scales_truth),
    zoo_posterior("correlation near 1", correlation, (PAIRS,), correlation_truth),
    zoo_posterior("dual moon", dual_moon, (), dual_moon_truth, has_prior_draws=False),
]
