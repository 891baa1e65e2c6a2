"""NUTS on the hyperparameters of a process, beside the same model by hand in NumPyro.

    uv run python -m benchmarks.chains [long]

500 points in two dimensions, an RBF with its lengthscale, variance and noise: seconds for 1,000
effective draws of the one that has fewest, chains one after the other. Compiling is left out on
both sides; the search for modes before and the looks around after sampling count on ours.
`long`: 100,000 irregular times, Matern32 by the Markov solver, four chains; all of it counts.
"""

import sys
import time

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist

import bayeskern as bk
from bayeskern.kernels import RBF, Matern32
from benchmarks.table import OURS, Row, show
from benchmarks.timing import smallest_ess

CHAINS, WARMUP, DRAWS = 2, 200, 200
SITES = ("lengthscale", "variance", "noise")
PRIORS = {"lengthscale": dist.LogNormal(0.0, 1.0), "variance": dist.HalfNormal(2.0)}
NOISE = dist.HalfNormal(0.5)


def data(n):
    X = np.random.default_rng(0).uniform(-2.0, 2.0, size=(n, 2))
    return X, np.sin(2.0 * X[:, 0]) * X[:, 1] + 0.2 * np.random.default_rng(1).normal(size=n)


def by_hand(X, y):
    scale, variance = (numpyro.sample(name, prior) for name, prior in PRIORS.items())
    noise = numpyro.sample("noise", NOISE)
    squares = jnp.sum(jnp.square((X[:, None] - X) / scale), axis=-1)
    K = variance * jnp.exp(-0.5 * squares) + (noise + 1e-10) * jnp.eye(len(X))
    numpyro.sample("y", dist.MultivariateNormal(jnp.zeros(len(X)), K), obs=y)


def effective(draws) -> float:
    return smallest_ess({name: draws[name] for name in SITES})


def with_ours(X, y):
    model = bk.GPRegression(RBF(**PRIORS), NOISE)
    given = {"chains": CHAINS, "chain_method": "sequential", "warmup": WARMUP, "draws": DRAWS}
    posterior = bk.infer(model, X, y, method=bk.NUTS(**given), progress=False)
    return posterior.timing["run"] / effective(posterior.draws)


def with_numpyro(X, y):
    kernel = numpyro.infer.NUTS(by_hand)
    given = {"num_chains": CHAINS, "chain_method": "sequential", "progress_bar": False}
    mcmc = numpyro.infer.MCMC(kernel, num_warmup=WARMUP, num_samples=DRAWS, **given)
    for seed in range(2):
        start = time.perf_counter()
        mcmc.run(jax.random.key(seed), X, y)
        draws = jax.block_until_ready(mcmc.get_samples(group_by_chain=True))
        seconds = time.perf_counter() - start
    return seconds / effective(draws)


def rows():
    X, y = data(500)
    task = "NUTS, RBF in two dimensions: 1,000 effective draws"
    for name, seconds in ((OURS, with_ours), ("NumPyro", with_numpyro)):
        yield Row(task, len(X), name, 1_000.0 * seconds(X, y))


def long():
    t = np.sort(np.random.default_rng(0).uniform(0.0, 2_000.0, 100_000))
    y = np.sin(t) + 0.1 * np.random.default_rng(1).normal(size=len(t))
    model = bk.GPRegression(Matern32(**PRIORS), NOISE, solver="markov")
    start = time.perf_counter()
    posterior = bk.infer(model, t, y, method=bk.NUTS(warmup=300, draws=300), progress=False)
    seconds = time.perf_counter() - start
    print(
        f"{len(t):,} times, four chains of 300 + 300: {seconds / 60.0:.1f} minutes, smallest ESS "
        f"{effective(posterior.draws):.0f}, {posterior.trust.verdict}"
    )


if __name__ == "__main__":
    long() if sys.argv[1:] == ["long"] else show(rows())
