"""Posteriors with symmetries: switched labels, signs, and products of which only one is known."""

from math import factorial

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import scipy.stats as st

from tests.inference.zoo.moments import Moments, grid, on_grid
from tests.inference.zoo.posterior import ZooPosterior

RNG = np.random.default_rng(3)
MEANS_PRIOR_SD, NOISE, LOADING_NOISE = 5.0, 0.5, 0.5
TWO_GROUPS = np.concatenate([RNG.normal(m, 1.0, 30) for m in (-2.0, 2.0)])
THREE_GROUPS = np.concatenate(
    [RNG.normal(m, 1.0, n) for m, n in ((-3.0, 33), (0.0, 33), (3.5, 34))]
)
FACTOR_DATA = np.outer(RNG.normal(size=30), [1.0, -0.8, 0.6]) + 0.5 * RNG.normal(size=(30, 3))
PRODUCTS = RNG.normal(1.0, NOISE, 10)


def components(count):
    """Normals of sd 1 with equal weights and unknown means, which may be permuted."""

    def model(y):
        with numpyro.plate("component", count):
            means = numpyro.sample("means", dist.Normal(0.0, MEANS_PRIOR_SD))
        weights = dist.Categorical(probs=jnp.full(count, 1.0 / count))
        with numpyro.plate("row", len(y)):
            numpyro.sample("y", dist.MixtureSameFamily(weights, dist.Normal(means, 1.0)), obs=y)

    return model


def components_truth(count, y):
    """On the grid points in increasing order, each with the number of its permutations."""
    axis = np.linspace(-6.0, 6.0, 85)
    index = np.indices((len(axis),) * count).reshape(count, -1)
    index = index[:, np.all(np.diff(index, axis=0) >= 0, axis=0)]
    density = st.norm(axis[:, None], 1.0).pdf(y)
    log_p = np.sum(np.log(sum(density[i] for i in index)), axis=1)
    means = axis[index]
    log_p += st.norm(0.0, MEANS_PRIOR_SD).logpdf(means).sum(axis=0)
    ties = np.ones(index.shape[1])
    for i in range(count):
        ties *= np.sum(index[: i + 1] == index[i], axis=0)
    log_p += np.log(factorial(count) / ties)
    # By symmetry all components have the moments of their average and average square.
    mean, square = (
        float(on_grid(log_p, v=v)["v"].mean) for v in (means.mean(0), (means**2).mean(0))
    )
    return {"means": Moments(np.full(count, mean), np.full(count, np.sqrt(square - mean**2)))}


def product(y):
    a = numpyro.sample("a", dist.Normal(0.0, 2.0))
    b = numpyro.sample("b", dist.Normal(0.0, 2.0))
    numpyro.sample("y", dist.Normal(a * b, NOISE), obs=y)


def product_truth():
    """With b integrated out: the mean of y is N(0, 4 a^2 + NOISE^2 / n); a and b are alike."""
    a = np.linspace(-16.0, 16.0, 20_001)
    variance = 4.0 * a**2 + NOISE**2 / len(PRODUCTS)
    log_p = st.norm(0.0, 2.0).logpdf(a) + st.norm(0.0, np.sqrt(variance)).logpdf(PRODUCTS.mean())
    own = on_grid(log_p, a=a)["a"]
    return {"a": own, "b": own}


def square(y):
    x = numpyro.sample("x", dist.Normal(0.0, 3.0))
    numpyro.sample("y", dist.Normal(x**2, 0.5), obs=y)


def square_truth():
    x = np.linspace(-4.0, 4.0, 20_001)
    return on_grid(st.norm(0.0, 3.0).logpdf(x) + st.norm(x**2, 0.5).logpdf(4.0), x=x)


def factor(y):
    """One factor, integrated out: its loadings w may change their signs together."""
    w = numpyro.sample("w", dist.Normal(0.0, 1.0).expand([3]).to_event(1))
    covariance = jnp.outer(w, w) + LOADING_NOISE**2 * jnp.eye(3)
    numpyro.sample("y", dist.MultivariateNormal(jnp.zeros(3), covariance), obs=y)


def factor_truth():
    """By the matrix determinant lemma and the Sherman-Morrison formula."""
    w = grid(*[np.linspace(-3.0, 3.0, 81)] * 3)
    S, noise = FACTOR_DATA.T @ FACTOR_DATA, LOADING_NOISE**2
    norm = sum(v**2 for v in w)
    explained = sum(S[i, j] * w[i] * w[j] for i in range(3) for j in range(3))
    log_p = -0.5 * norm - 0.5 * len(FACTOR_DATA) * np.log(noise + norm)
    return on_grid(log_p + 0.5 * explained / (noise * (noise + norm)), w=list(w))


def zoo_posterior(name, model, y, truth) -> ZooPosterior:
    return ZooPosterior(name, "exchangeable", model, (np.asarray(y),), truth)


POSTERIORS = [
    zoo_posterior(
        "two components", components(2), TWO_GROUPS, lambda: components_truth(2, TWO_GROUPS)
    ),
    zoo_posterior(
        "three components", components(3), THREE_GROUPS, lambda: components_truth(3, THREE_GROUPS)
    ),
    zoo_posterior("product", product, PRODUCTS, product_truth),
    zoo_posterior("square", square, 4.0, square_truth),
    zoo_posterior("loadings", factor, FACTOR_DATA, factor_truth),
]
