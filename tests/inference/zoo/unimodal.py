"""Ordinary models with one mode, which a verdict should call good."""

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import scipy.stats as st

from tests.inference.zoo.moments import Moments, gaussian, grid, on_grid
from tests.inference.zoo.posterior import ZooPosterior

RNG = np.random.default_rng(37)
COUNTS = np.array([3, 1, 4, 2, 0, 5, 2, 3])
VALUES = RNG.normal(1.5, 2.0, 12)
CATEGORIES = np.array([12, 7, 20, 4])
X = RNG.normal(size=(60, 2))
Y_BINARY = (RNG.random(60) < 1.0 / (1.0 + np.exp(-(0.5 + X @ [1.0, -1.5])))).astype(int)
Y_COUNTS = RNG.poisson(np.exp(0.3 + 0.6 * X[:, 0]))
Y_OUTLIERS = 1.0 + 2.0 * X[:, 0] + 0.5 * RNG.standard_t(4, 60)
Y_OVERDISPERSED = RNG.poisson(RNG.gamma(2.0, 2.0, 40))
FEATURES = RNG.normal(size=(50, 20)) + RNG.normal(size=(50, 1))
Y_FEATURES = FEATURES @ RNG.normal(size=20) + RNG.normal(size=50)


def autoregression(n=60, coefficient=0.7):
    y = np.zeros(n)
    for t in range(1, n):
        y[t] = coefficient * y[t - 1] + RNG.normal(0.0, 0.8)
    return y


Y_AUTOREGRESSION = autoregression()


def beta_binomial(successes):
    p = numpyro.sample("p", dist.Beta(2.0, 3.0))
    numpyro.sample("y", dist.Binomial(20, p), obs=successes)


def gamma_poisson(y):
    rate = numpyro.sample("rate", dist.Gamma(2.0, 1.0))
    numpyro.sample("y", dist.Poisson(rate), obs=y)


def gamma_poisson_truth():
    posterior = st.gamma(2.0 + COUNTS.sum(), scale=1.0 / (1.0 + len(COUNTS)))
    return {"rate": Moments.of(posterior)}


def known_noise(y):
    mu = numpyro.sample("mu", dist.Normal(0.0, 5.0))
    numpyro.sample("y", dist.Normal(mu, 2.0), obs=y)


def known_noise_truth():
    precision = 1.0 / 25.0 + len(VALUES) / 4.0
    return {"mu": Moments(VALUES.sum() / 4.0 / precision, precision**-0.5)}


def mean_and_sd(y):
    mu = numpyro.sample("mu", dist.Normal(0.0, 5.0))
    sigma = numpyro.sample("sigma", dist.HalfNormal(3.0))
    numpyro.sample("y", dist.Normal(mu, sigma), obs=y)


def mean_and_sd_truth():
    mu, sigma = grid(np.linspace(-4.0, 8.0, 400), np.linspace(0.3, 10.0, 400))
    squares = np.square(VALUES - VALUES.mean()).sum() + len(VALUES) * (VALUES.mean() - mu) ** 2
    log_p = st.norm(0.0, 5.0).logpdf(mu) + st.norm(0.0, 3.0).logpdf(sigma)
    log_p = log_p - len(VALUES) * np.log(sigma) - 0.5 * squares / sigma**2
    return on_grid(log_p, mu=mu, sigma=sigma)


def normal_gamma(y):
    precision = numpyro.sample("precision", dist.Gamma(3.0, 2.0))
    mu = numpyro.sample("mu", dist.Normal(0.0, 1.0 / jnp.sqrt(0.1 * precision)))
    numpyro.sample("y", dist.Normal(mu, 1.0 / jnp.sqrt(precision)), obs=y)


def normal_gamma_truth():
    """Conjugate: Murphy (2007), "Conjugate Bayesian analysis of the Gaussian distribution"."""
    n, mean = len(VALUES), VALUES.mean()
    weight, shape = 0.1 + n, 3.0 + n / 2.0
    rate = 2.0 + 0.5 * np.square(VALUES - mean).sum() + 0.5 * 0.1 * n * mean**2 / weight
    precision = st.gamma(shape, scale=1.0 / rate)
    mu = st.t(2.0 * shape, n * mean / weight, np.sqrt(rate / (shape * weight)))
    return {"precision": Moments.of(precision), "mu": Moments.of(mu)}


def linear(X, y):
    w = numpyro.sample("w", dist.Normal(0.0, 2.0).expand([X.shape[1]]).to_event(1))
    numpyro.sample("y", dist.Normal(X @ w, 1.0), obs=y)


def linear_truth(X, y):
    return {"w": gaussian(X.T @ X + np.eye(X.shape[1]) / 4.0, X.T @ y)}


def regression(name, y, likelihood, log_likelihood, low, high):
    """A regression with two weights, whose moments are sums over a grid from low to high.

    likelihood: distribution given the linear predictor. log_likelihood: of the predictor and y.
    """

    def model(X, y):
        w = numpyro.sample("w", dist.Normal(0.0, 3.0).expand([2]).to_event(1))
        numpyro.sample("y", likelihood(X @ w), obs=y)

    def truth():
        a, b = grid(np.linspace(low, high, 150), np.linspace(low, high, 150))
        log_p = -0.5 * (a**2 + b**2) / 9.0
        for (x0, x1), value in zip(X, y, strict=True):
            log_p = log_p + log_likelihood(a * x0 + b * x1, value)
        return on_grid(log_p, w=[a, b])

    return zoo_posterior(name, model, (X, y), truth)


def overdispersed(y):
    mean = numpyro.sample("mean", dist.Exponential(0.2))
    concentration = numpyro.sample("concentration", dist.LogNormal(0.5, 0.7))
    numpyro.sample("y", dist.NegativeBinomial2(mean, concentration), obs=y)


def overdispersed_truth():
    mean, shape = grid(np.linspace(0.5, 12.0, 200), np.exp(np.linspace(-3.0, 5.0, 200)))
    # Cells of equal width in log(shape): the Jacobian cancels the 1 / shape of the LogNormal.
    log_p = -0.2 * mean - 0.5 * np.square((np.log(shape) - 0.5) / 0.7)
    for y in Y_OVERDISPERSED:
        log_p = log_p + st.nbinom.logpmf(y, shape, shape / (shape + mean))
    return on_grid(log_p, mean=mean, concentration=shape)


def dirichlet(y):
    p = numpyro.sample("p", dist.Dirichlet(jnp.ones(4)))
    numpyro.sample("y", dist.Multinomial(int(CATEGORIES.sum()), p), obs=y)


def first_order(y):
    phi = numpyro.sample("phi", dist.Uniform(-1.0, 1.0))
    sigma = numpyro.sample("sigma", dist.HalfNormal(1.0))
    numpyro.sample("y", dist.Normal(phi * y[:-1], sigma), obs=y[1:])


def first_order_truth():
    phi, sigma = grid(np.linspace(-0.999, 0.999, 400), np.linspace(0.3, 2.5, 300))
    past, present = Y_AUTOREGRESSION[:-1], Y_AUTOREGRESSION[1:]
    squares = np.square(present[:, None, None] - past[:, None, None] * phi).sum(axis=0)
    log_p = -0.5 * sigma**2 - len(past) * np.log(sigma) - 0.5 * squares / sigma**2
    return on_grid(log_p, phi=phi, sigma=sigma)


def zoo_posterior(name, model, args, truth, **options) -> ZooPosterior:
    return ZooPosterior(name, "unimodal", model, args, truth, **options)


POSTERIORS = [
    zoo_posterior(
        "beta-binomial", beta_binomial, (14,), lambda: {"p": Moments.of(st.beta(16.0, 9.0))}
    ),
    zoo_posterior("gamma-Poisson", gamma_poisson, (COUNTS,), gamma_poisson_truth),
    zoo_posterior("mean, known noise", known_noise, (VALUES,), known_noise_truth),
    zoo_posterior("mean and sd", mean_and_sd, (VALUES,), mean_and_sd_truth),
    zoo_posterior("normal-gamma", normal_gamma, (VALUES,), normal_gamma_truth),
    zoo_posterior(
        "linear regression, 2 d", linear, (X, Y_OUTLIERS), lambda: linear_truth(X, Y_OUTLIERS)
    ),
    zoo_posterior(
        "linear regression, 20 d",
        linear,
        (FEATURES, Y_FEATURES),
        lambda: linear_truth(FEATURES, Y_FEATURES),
        has_prior_draws=False,
    ),
    regression(
        "logistic regression",
        Y_BINARY,
        lambda eta: dist.Bernoulli(logits=eta),
        lambda eta, y: y * eta - np.logaddexp(0.0, eta),
        -6.0,
        6.0,
    ),
    regression(
        "Poisson regression",
        Y_COUNTS,
        lambda eta: dist.Poisson(jnp.exp(eta)),
        lambda eta, y: y * eta - np.exp(eta),
        -2.0,
        3.0,
    ),
    regression(
        "Student-t regression",
        Y_OUTLIERS,
        lambda eta: dist.StudentT(4.0, eta, 0.5),
        lambda eta, y: -2.5 * np.log1p(np.square((y - eta) / 0.5) / 4.0),
        -2.0,
        4.0,
    ),
    zoo_posterior("negative binomial", overdispersed, (Y_OVERDISPERSED,), overdispersed_truth),
    zoo_posterior(
        "Dirichlet-multinomial",
        dirichlet,
        (CATEGORIES,),
        lambda: {"p": Moments.of(st.dirichlet(1.0 + CATEGORIES))},
    ),
    zoo_posterior("autoregression", first_order, (Y_AUTOREGRESSION,), first_order_truth),
]
