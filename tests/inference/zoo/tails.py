"""Heavy tails: standard deviations that are hard to estimate, or infinite."""

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import scipy.stats as st

from tests.inference.zoo.moments import Moments, grid, mixed, on_grid
from tests.inference.zoo.posterior import ZooPosterior

OUTLIERS = np.array([-0.6, 0.1, 0.4, 0.9, 25.0, -60.0])
SPREAD = np.array([-0.5, 0.4, 40.0])
# Two of Student's t(1.5): the density of the location falls as |mu|^-5, so that its sd is finite.
PAIR = np.array([-1.0, 1.0])
FAR_MODE = np.array([-16.0, -15.2, -15.8, 0.0, 16.0, 16.4])
NOISE = np.array([0.7, -1.1, 0.4])
HORSESHOE_DATA = np.array([0.0, 0.5, -1.0, 3.0])
TIMES = np.linspace(0.0, 1.0, 5)
CURVE = np.array([0.3, 0.9, 1.2, 0.8, -0.1])


def signed_grid(largest, size=200_001):
    """Points from -largest to largest, dense at 0, and the log widths of their cells."""
    u = np.linspace(-np.arcsinh(largest), np.arcsinh(largest), size)
    return np.sinh(u), np.log(np.cosh(u))


def robust(y, prior_sd):
    mu = numpyro.sample("mu", dist.Normal(0.0, prior_sd))
    numpyro.sample("y", dist.StudentT(1.5, mu, 1.0), obs=y)


def robust_truth(y, prior_sd):
    mu, log_width = signed_grid(8.0 * prior_sd)
    log_p = log_width - 0.5 * np.square(mu / prior_sd)
    for value in y:
        log_p -= 1.25 * np.log1p(np.square(value - mu) / 1.5)
    return on_grid(log_p, mu=mu)


def student_prior(y):
    x = numpyro.sample("x", dist.StudentT(3.0, 0.0, 1.0))
    numpyro.sample("y", dist.Normal(x, 30.0), obs=y)


def student_prior_truth():
    x, log_width = signed_grid(300.0)
    log_p = log_width - 2.0 * np.log1p(x**2 / 3.0) + st.norm(x, 30.0).logpdf(5.0)
    return on_grid(log_p, x=x)


def location_and_scale(y):
    """The density of the scale falls as sigma^-4 until the prior of mu bounds it."""
    mu = numpyro.sample("mu", dist.Normal(0.0, 100.0))
    sigma = numpyro.sample("sigma", dist.HalfCauchy(5.0))
    numpyro.sample("y", dist.StudentT(1.5, mu, sigma), obs=y)


def location_and_scale_truth():
    axis, log_width = signed_grid(800.0, 2_001)
    mu, log_sigma = grid(axis, np.linspace(-8.0, 30.0, 501))
    log_p = (1.0 - len(SPREAD)) * log_sigma - np.logaddexp(0.0, 2.0 * (log_sigma - np.log(5.0)))
    log_p = log_p + log_width[:, None] - 0.5 * np.square(mu / 100.0)
    for value in SPREAD:
        log_p = log_p - 1.25 * np.log1p(np.square((value - mu) * np.exp(-log_sigma)) / 1.5)
    return on_grid(log_p, mu=mu, sigma=np.exp(log_sigma))


def scale(y):
    sigma = numpyro.sample("sigma", dist.HalfCauchy(1.0))
    numpyro.sample("y", dist.Normal(0.0, sigma), obs=y)


def scale_truth(y):
    """The density falls as sigma^-(n + 2)."""
    log_sigma = np.linspace(-10.0, 40.0, 100_000)
    squares = np.square(y).sum()
    log_p = (1.0 - len(y)) * log_sigma - np.logaddexp(0.0, 2.0 * log_sigma)
    return on_grid(log_p - 0.5 * squares * np.exp(-2.0 * log_sigma), sigma=np.exp(log_sigma))


def horseshoe(y):
    """Scales have half-t(3) priors, so that the sds of the scales are finite too."""
    with numpyro.plate("coefficient", len(y)):
        scales = numpyro.sample("scale", dist.FoldedDistribution(dist.StudentT(3.0, 0.0, 1.0)))
        z = numpyro.sample("z", dist.Normal(0.0, 1.0))
        theta = numpyro.deterministic("theta", scales * z)
        numpyro.sample("y", dist.Normal(theta, 1.0), obs=y)


def horseshoe_truth():
    """Given the scales the coefficients are normal."""
    log_scale = np.linspace(-15.0, 25.0, 20_000)
    square = np.exp(2.0 * log_scale)
    own = square / (1.0 + square)
    scales, theta = [], []
    for y in HORSESHOE_DATA:
        log_p = log_scale - 2.0 * np.log1p(square / 3.0)
        log_p = log_p - 0.5 * np.log1p(square) - 0.5 * y**2 / (1.0 + square)
        scales.append(on_grid(log_p, scale=np.exp(log_scale))["scale"])
        theta.append(mixed(log_p, own * y, np.sqrt(own)))
    return {"scale": Moments(*np.transpose(scales)), "theta": Moments(*np.transpose(theta))}


def rbf(times):
    return np.exp(-0.5 * np.square((times[:, None] - times) / 0.5))


def process(K, y):
    """Variance of a Gaussian process with few data."""
    variance = numpyro.sample("kernel_var", dist.HalfCauchy(1.0))
    covariance = variance * K + 0.09 * jnp.eye(len(y))
    numpyro.sample("y", dist.MultivariateNormal(jnp.zeros(len(y)), covariance), obs=y)


def process_truth():
    values, vectors = np.linalg.eigh(rbf(TIMES))
    log_v = np.linspace(-15.0, 40.0, 20_000)
    total = np.exp(log_v)[:, None] * values + 0.09
    log_p = log_v - np.logaddexp(0.0, 2.0 * log_v)
    log_p -= 0.5 * np.sum(np.log(total) + np.square(vectors.T @ CURVE) / total, axis=1)
    return on_grid(log_p, kernel_var=np.exp(log_v))


def exponentiated(y):
    x = numpyro.sample("x", dist.Normal(0.0, 2.5))
    numpyro.sample("y", dist.Normal(x, 2.5), obs=y)
    numpyro.deterministic("exp_x", jnp.exp(x))


def exponentiated_truth():
    """x is N(0.5, 3.125), and exp(x) log-normal."""
    exp_x = st.lognorm(np.sqrt(3.125), scale=np.exp(0.5))
    return {"x": Moments(0.5, np.sqrt(3.125)), "exp_x": Moments.of(exp_x)}


def one_success(y):
    """The density of x falls as x^-2.5: a mean, and no variance."""
    x = numpyro.sample("x", dist.StudentT(1.5, 0.0, 1.0))
    numpyro.sample("y", dist.Bernoulli(logits=x), obs=y)


def ratio(y):
    """The ratio of two normals has no mean."""
    ab = numpyro.sample("ab", dist.Normal(0.0, 3.0).expand([2]).to_event(1))
    numpyro.sample("y", dist.Normal(ab, 1.0), obs=y)
    numpyro.deterministic("ratio", ab[0] / ab[1])


def zoo_posterior(name, model, args, truth=None, **options) -> ZooPosterior:
    return ZooPosterior(name, "tails", model, args, truth, **options)


def robust_posterior(name, y, prior_sd) -> ZooPosterior:
    truth = lambda: robust_truth(y, prior_sd)  # noqa: E731
    return zoo_posterior(name, robust, (y, np.asarray(prior_sd)), truth)


def student_posterior(df) -> ZooPosterior:
    """Student's t in 4 dimensions, over a flat prior."""

    def model():
        real = dist.constraints.real_vector
        x = numpyro.sample("x", dist.ImproperUniform(real, (), (4,)))
        numpyro.factor("t", jnp.sum(dist.StudentT(df).log_prob(x)))

    truth = {"x": Moments(np.zeros(4), np.full(4, np.sqrt(df / (df - 2.0))))}
    name = f"StudentT({df:g}) density, 4 d"
    return zoo_posterior(name, model, (), lambda: truth, has_prior_draws=False)


POSTERIORS = [
    robust_posterior("StudentT(1.5) with outliers", OUTLIERS, 100.0),
    robust_posterior("StudentT(1.5), two points", PAIR, 1_000.0),
    robust_posterior("StudentT(1.5), two groups", np.array([-9.0, -8.0, 7.0, 8.0, 9.0]), 20.0),
    # A mode with 0.04 % of the mass carries half of the variance.
    robust_posterior("StudentT(1.5), a far small mode", FAR_MODE, 40.0),
    zoo_posterior("StudentT(3) prior", student_prior, (np.asarray(5.0),), student_prior_truth),
    zoo_posterior(
        "StudentT(1.5), location and scale",
        location_and_scale,
        (SPREAD,),
        location_and_scale_truth,
    ),
    student_posterior(3.0),
    student_posterior(2.2),
    zoo_posterior("HalfCauchy scale, 2 data", scale, (NOISE[:2],), lambda: scale_truth(NOISE[:2])),
    zoo_posterior("HalfCauchy scale, 3 data", scale, (NOISE,), lambda: scale_truth(NOISE)),
    zoo_posterior("horseshoe", horseshoe, (HORSESHOE_DATA,), horseshoe_truth),
    zoo_posterior("variance of a process", process, (rbf(TIMES), CURVE), process_truth),
    zoo_posterior("log-normal", exponentiated, (np.asarray(1.0),), exponentiated_truth),
    zoo_posterior("infinite sd: HalfCauchy scale, 1 datum", scale, (NOISE[:1],)),
    zoo_posterior("infinite sd: StudentT(1.5), one success", one_success, (1,)),
    zoo_posterior("infinite sd: ratio of normals", ratio, (np.array([1.0, 0.5]),)),
]
