"""Linear regression beside its peers: NUTS, the exact posterior, least squares.

    uv run python -m benchmarks.linear [nuts] [exact] [solvers]

Everything in one process, float64; the ratios are what lasts. NUTS: the smallest bulk ESS of all
weights, the intercept and the noise for each second of sampling: warmup counts on both sides, half
of the iterations on each, compilation on neither. What the first fit compiled, and how long a whole
`infer` takes on data of shapes that it has seen, stand beside it. Ours runs its chains in threads,
NumPyro one after the other, as each does by default. JAX's cache on disk is off.

On a busy machine set OPENBLAS_NUM_THREADS=1: threads that wait for one another make small
factorisations hundreds of times slower, and only ours has any.
"""

import argparse
import time
import tracemalloc

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro import infer
from sklearn.linear_model import LinearRegression, Ridge

import bayeskern as bk
from bayeskern.core.timing import Stopwatch
from bayeskern.course import least_squares
from bayeskern.linear.statistics import SufficientStatistics
from benchmarks.timing import smallest_ess

# Rows, features, NumPyro's chains, and its draws of each, as many as its warmup.
SIZES = ((1_000, 10, 4, 1000), (100_000, 20, 2, 200))
EXACT = (1_000_000, 50)
SQUARES = (100_000, 50)
CHUNK = 10_000
MB = 2.0**20

MODEL = bk.BayesianLinearRegression(
    prior_sd=1.0,
    intercept=dist.Normal(0.0, 5.0),
    noise_variance=bk.from_sd(dist.HalfNormal(1.0)),
)


def plain(X, y):
    intercept = numpyro.sample("intercept", dist.Normal(0.0, 5.0))
    weights = numpyro.sample("weights", dist.Normal(0.0, 1.0).expand([X.shape[1]]).to_event(1))
    noise = numpyro.sample("noise", bk.from_sd(dist.HalfNormal(1.0)))
    with numpyro.plate("rows", len(y)):
        numpyro.sample("y", dist.Normal(intercept + X @ weights, jnp.sqrt(noise)), obs=y)


def make(n, d, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, 1.0 + X @ rng.normal(size=d) + 0.7 * rng.normal(size=n)


def in_turn(functions: dict, rounds: int = 9) -> dict:
    """The least seconds of each, run one after another so that all meet the same neighbours."""
    seconds = {name: [] for name in functions}
    for _ in range(rounds):
        for name, function in functions.items():
            start = time.perf_counter()
            jax.block_until_ready(function())
            seconds[name].append(time.perf_counter() - start)
    # The first round is to warm up.
    return {name: min(values[1:]) for name, values in seconds.items()}


# -- NUTS ------------------------------------------------------------------------------------------


def ours(data, seed):
    posterior = bk.infer(MODEL, *data, method="nuts", seed=seed, progress=False)
    draws = {name: posterior.draws[name] for name in ("weights", "intercept", "noise")}
    return draws, posterior.timing


def theirs(data, chains, size):
    sizes = {"num_warmup": size, "num_samples": size, "num_chains": chains}
    options = {"chain_method": "sequential", "progress_bar": False}
    mcmc = infer.MCMC(infer.NUTS(plain), **sizes, **options)
    with Stopwatch() as watch:
        mcmc.run(jax.random.key(0), *map(jnp.asarray, data))
        draws = jax.block_until_ready(mcmc.get_samples(group_by_chain=True))
    return draws, watch.seconds


def nuts():
    head = f"{'least ESS':>10} {'sampling':>10} {'whole run':>10} {'compile':>9} {'ESS / s':>10}"
    print(f"\n{'NUTS':<22} {head}")
    for n, d, chains, size in SIZES:
        first = ours(make(n, d, 0), 0)[1]["compile"]
        runs = [ours(make(n, d, seed), seed) for seed in (1, 2, 3)]
        # The median run.
        draws, seconds = sorted(runs, key=lambda run: run[1]["sampling"])[1]
        peer, peer_seconds = theirs(make(n, d, 1), chains, size)
        print(f"{n:,} x {d}")
        rate = show("  bayeskern", draws, seconds["sampling"], seconds["run"], first)
        run = peer_seconds["run"]
        other = show(f"  NumPyro, {chains} x {size}", peer, run, run, peer_seconds["compile"])
        print(f"{'  ratio':<22} {rate / other:53.1f} x")


def show(name, draws, sampling, run, compiling) -> float:
    """A line about a run, and its effective draws for each second of sampling."""
    ess = smallest_ess(draws)
    seconds = f"{sampling:8.3f} s {run:8.3f} s {compiling:7.2f} s"
    print(f"{name:<22} {ess:10.0f} {seconds} {ess / sampling:10.0f}")
    return ess / sampling


# -- exact -----------------------------------------------------------------------------------------


def exact():
    n, d = EXACT
    X, y = make(n, d)
    model = bk.BayesianLinearRegression(noise_variance=0.5)

    def fit(*data, model=model):
        return bk.infer(model, *data, method="exact", progress=False)

    seconds = in_turn(
        {
            "X.T @ X": lambda: X.T @ X,
            "sufficient statistics": lambda: SufficientStatistics.of(X, y),
            "bk.infer, with 4,000 draws": lambda: fit(X, y).draws,
        }
    )
    print(f"\nexact posterior, {n:,} x {d}")
    for name, found in seconds.items():
        print(f"{name:<42} {found:7.3f} s {found / seconds['X.T @ X']:6.2f} x")
    chunks = zip(X.reshape(-1, CHUNK, d), y.reshape(-1, CHUNK), strict=True)
    tracemalloc.start()
    streamed = model.stream(chunks)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    evidences = [found.log_evidence.value for found in (fit(model=streamed), fit(X, y))]
    assert np.isclose(*evidences, rtol=1e-10, atol=0.0), evidences
    beyond = f"{peak / MB:.1f} MB beyond the {(X.nbytes + y.nbytes) / MB:.0f} MB of the data"
    print(f"{f'streamed, {CHUNK:,} rows at a time':<42} {beyond}")


# -- least squares ---------------------------------------------------------------------------------


def solvers():
    n, d = SQUARES
    X, y = make(n, d)
    peers = {
        "numpy.linalg.lstsq": lambda: np.linalg.lstsq(X, y, rcond=None)[0],
        "LinearRegression": lambda: LinearRegression(fit_intercept=False).fit(X, y).coef_,
        "Ridge, cholesky": lambda: (
            Ridge(1.0, fit_intercept=False, solver="cholesky").fit(X, y).coef_
        ),
        "Ridge, svd": lambda: Ridge(1.0, fit_intercept=False, solver="svd").fit(X, y).coef_,
    }
    calls = dict(peers)
    for solver in ("cholesky", "qr", "svd", "lms", "sgd"):
        calls[solver] = lambda s=solver: least_squares(X, y, s).coefficients
        calls[f"{solver}, penalty 1"] = lambda s=solver: least_squares(X, y, s, 1.0).coefficients
    seconds = in_turn(calls, rounds=4)
    print(f"\n{f'least squares, {n:,} x {d}':<34} {'time':>10} {'lstsq':>8} {'largest error':>15}")
    truth = {False: peers["numpy.linalg.lstsq"](), True: peers["Ridge, cholesky"]()}
    for name, call in calls.items():
        wanted = truth["Ridge" in name or "penalty" in name]
        off = np.max(np.abs(call() - wanted)) / np.max(np.abs(wanted))
        ratio = seconds[name] / seconds["numpy.linalg.lstsq"]
        print(f"{name:<34} {seconds[name]:8.3f} s {ratio:6.2f} x {off:15.1e}")


def main():
    jax.config.update("jax_enable_compilation_cache", False)
    parts = {"nuts": nuts, "exact": exact, "solvers": solvers}
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("part", nargs="*", choices=[*parts, []], help="by default all of them")
    for part in parser.parse_args().part or parts:
        parts[part]()


if __name__ == "__main__":
    main()
