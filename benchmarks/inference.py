"""Inference beside its peers: NUTS and Laplace beside NumPyro, MAP beside SciPy.

    uv run python -m benchmarks.inference

Everything in one process, float64, results waited for before the clock is read; the ratios are what
lasts. "First" is a model that was never seen, so that it is compiled; "again" has new data of the
same shapes. JAX's cache on disk is off.
"""

import time

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro import infer
from numpyro.infer.autoguide import AutoLaplaceApproximation
from scipy.optimize import minimize
from scipy.special import expit

import bayeskern as bk
from bayeskern.core.timing import Stopwatch
from models import eight_schools

CHAINS, WARMUP, DRAWS = 4, 1000, 1000


def regression(X, y):
    intercept = numpyro.sample("intercept", dist.Normal(0.0, 5.0))
    weights = numpyro.sample("weights", dist.Normal(0.0, 1.0).expand([X.shape[1]]).to_event(1))
    sigma = numpyro.sample("sigma", dist.HalfNormal(1.0))
    with numpyro.plate("rows", len(y)):
        numpyro.sample("y", dist.Normal(intercept + X @ weights, sigma), obs=y)


def logistic(X, y):
    weights = numpyro.sample("weights", dist.Normal(0.0, 1.0).expand([X.shape[1]]).to_event(1))
    with numpyro.plate("rows", len(y)):
        numpyro.sample("y", dist.Bernoulli(logits=X @ weights), obs=y)


def regression_data(seed, n=500, d=10):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, X @ rng.normal(size=d) + rng.normal(size=n)


def logistic_data(seed, n=2000, d=20):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, (rng.random(n) < expit(X @ rng.normal(size=d))).astype(float)


def schools_data(seed):
    rng = np.random.default_rng(seed)
    effect, error = eight_schools.data()
    return effect + rng.normal(size=8), error


def seconds(function) -> float:
    start = time.perf_counter()
    jax.block_until_ready(function())
    return time.perf_counter() - start


def sampling(function) -> float:
    """Seconds without compilation, as JAX reports it: NumPyro compiles anew in each run."""
    with Stopwatch() as watch:
        jax.block_until_ready(function())
    return watch.seconds["run"]


def show(what, ours, peer, name):
    print(f"{what:<46} {ours:8.3f} s {peer:8.3f} s ({name}) {ours / peer:6.2f} x")


def nuts(model, data, title):
    """First, again, and what of that is sampling.

    NumPyro runs chains one after the other where it has one device; the same for ours, and beside
    it the default, a thread for each chain.
    """
    fits = []

    def peer(**options):
        sizes = {"num_warmup": WARMUP, "num_samples": DRAWS, "num_chains": CHAINS}
        kernel = infer.NUTS(model)
        options |= {"chain_method": "sequential", "progress_bar": False}
        return infer.MCMC(kernel, **sizes, **options)

    def theirs(seed, mcmc):
        mcmc.run(jax.random.key(seed), *data(seed), extra_fields=("num_steps",))
        return mcmc.get_samples()

    def ours(seed, chain_method="sequential"):
        method = bk.NUTS(CHAINS, WARMUP, DRAWS, chain_method=chain_method)
        fits.append(bk.infer(model, *data(seed), method=method, seed=seed, progress=False))
        return fits[-1].draws

    def best(function, clock) -> float:
        return min(clock(lambda seed=seed: function(seed)) for seed in (1, 2, 3))

    first = seconds(lambda: ours(0)), seconds(lambda: theirs(0, peer()))
    show(f"NUTS, {title}: first", *first, "NumPyro")
    again = peer()
    pairs = [best(ours, clock) for clock in (seconds, sampling)]
    peers = [best(lambda seed: theirs(seed, again), clock) for clock in (seconds, sampling)]
    show(f"NUTS, {title}: again", pairs[0], peers[0], "NumPyro")
    show(f"NUTS, {title}: sampling alone", pairs[1], peers[1], "NumPyro")
    threads = best(lambda seed: ours(seed, "parallel"), sampling)
    show(f"NUTS, {title}: sampling in threads", threads, peers[1], "NumPyro")
    steps = [fits[-1].sample_stats["n_steps"], again.get_extra_fields()["num_steps"]]
    print(
        f"{'':<46} leapfrog steps for each draw: {np.mean(steps[0]):.1f}, {np.mean(steps[1]):.1f}"
    )


def mode(n, d):
    """From four starts each; compiled before, as SciPy's part is. Ours also finds its starts."""

    def value_and_gradient(w, X, y):
        eta = X @ w
        value = np.sum(np.logaddexp(0.0, eta)) - y @ eta + 0.5 * w @ w
        return value, X.T @ (expit(eta) - y) + w

    method = bk.MAP()
    bk.infer(logistic, *logistic_data(0, n, d), method=method, progress=False)
    ours, theirs = [], []
    for seed in range(1, 6):
        X, y = logistic_data(seed, n, d)
        starts = np.random.default_rng(seed).normal(size=(4, X.shape[1]))

        def with_scipy(X=X, y=y, starts=starts):
            options = {"gtol": 1e-5, "maxiter": 1000, "ftol": 0.0}
            return [
                minimize(value_and_gradient, w, (X, y), "L-BFGS-B", jac=True, options=options).x
                for w in starts
            ]

        theirs.append(seconds(with_scipy))
        ours.append(
            seconds(lambda X=X, y=y: bk.infer(logistic, X, y, method=method, progress=False).draws)
        )
    show(f"MAP, logistic, {n:,} x {d}, four starts", min(ours), min(theirs), "SciPy L-BFGS-B")


def laplace():
    def ours(seed):
        posterior = bk.infer(logistic, *logistic_data(seed), method="laplace", progress=False)
        return posterior.draws

    def theirs(seed):
        guide = AutoLaplaceApproximation(logistic)
        svi = infer.SVI(logistic, guide, numpyro.optim.Adam(0.02), infer.Trace_ELBO())
        data = logistic_data(seed)
        found = svi.run(jax.random.key(seed), 2000, *data, progress_bar=False)
        return guide.sample_posterior(jax.random.key(1), found.params, *data, sample_shape=(4000,))

    show(
        "Laplace, logistic, 2,000 x 20: first",
        seconds(lambda: ours(10)),
        seconds(lambda: theirs(10)),
        "AutoLaplace, 2,000 Adam steps",
    )
    show(
        "Laplace, logistic, 2,000 x 20: again",
        min(seconds(lambda s=s: ours(s)) for s in (11, 12)),
        min(seconds(lambda s=s: theirs(s)) for s in (11, 12)),
        "AutoLaplace, 2,000 Adam steps",
    )


def main():
    jax.config.update("jax_enable_compilation_cache", False)
    # Neither side pays for the start of JAX.
    small = regression_data(0, 20, 2)
    bk.infer(regression, *small, method=bk.NUTS(warmup=10, draws=10), progress=False)
    infer.MCMC(infer.NUTS(regression), num_warmup=10, num_samples=10, progress_bar=False).run(
        jax.random.key(0), *small
    )
    print(f"{'':<46} {'bayeskern':>10} {'peer':>10}")
    for size in ((2_000, 20), (20_000, 50)):
        mode(*size)
    laplace()
    nuts(regression, regression_data, "regression, 500 x 10")
    nuts(eight_schools.noncentred, schools_data, "eight schools")


if __name__ == "__main__":
    assert jnp.zeros(()).dtype == jnp.float64
    main()
