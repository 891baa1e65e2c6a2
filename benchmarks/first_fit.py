"""CPU seconds of a first fit in a fresh process: ours with its verdict, NumPyro's without one.

    uv run python -m benchmarks.first_fit

A regression with three parameters, imports not counted. "First" compiles everything, "second" is
another process that finds on disk what the first has compiled; the fastest of several. NumPyro's
NUTS has four chains of 1,000 + 1,000 draws, one after the other, and its summary.
"""

import os
import subprocess
import sys
import tempfile

SCRIPT = """
import time
import numpy as np
import numpyro
import numpyro.distributions as dist

def regression(x, y):
    level = numpyro.sample("level", dist.Normal(0.0, 5.0))
    slope = numpyro.sample("slope", dist.Normal(0.0, 2.0))
    sigma = numpyro.sample("sigma", dist.HalfNormal(2.0))
    with numpyro.plate("row", len(y)):
        numpyro.sample("y", dist.Normal(level + slope * x, sigma), obs=y)

rng = np.random.default_rng(0)
x = rng.normal(size=60)
y = 1.0 + 0.7 * x + 0.5 * rng.normal(size=60)
"""
OURS = """
import bayeskern as bk
start = time.process_time()
posterior = bk.infer(regression, x, y, method={method!r}, progress=False)
verdict = posterior.trust.verdict
posterior.summary()
print(time.process_time() - start, verdict)
"""
NUTS = """
import jax
from numpyro.infer import MCMC, NUTS
jax.config.update("jax_enable_x64", True)
start = time.process_time()
mcmc = MCMC(NUTS(regression), num_warmup=1000, num_samples=1000, num_chains=4,
            chain_method="sequential", progress_bar=False)
mcmc.run(jax.random.key(0), x, y)
numpyro.diagnostics.summary(mcmc.get_samples(group_by_chain=True))
print(time.process_time() - start)
"""
GUIDE = """
import jax
from numpyro.infer import SVI, Trace_ELBO
from numpyro.infer.autoguide import {guide}
jax.config.update("jax_enable_x64", True)
start = time.process_time()
guide = {guide}(regression)
svi = SVI(regression, guide, numpyro.optim.Adam(0.01), Trace_ELBO())
found = svi.run(jax.random.key(0), 5000, x, y, progress_bar=False)
guide.sample_posterior(jax.random.key(1), found.params, sample_shape=(4000,))
print(time.process_time() - start)
"""
RUNS = {
    "NumPyro, NUTS": NUTS,
    "NumPyro, AutoLaplaceApproximation": GUIDE.format(guide="AutoLaplaceApproximation"),
    "NumPyro, AutoMultivariateNormal": GUIDE.format(guide="AutoMultivariateNormal"),
    **{
        method: OURS.format(method=method)
        for method in ("laplace", "importance", "svi", "nuts", "auto")
    },
}


def run(code: str, cache: str) -> tuple[float, str]:
    """CPU seconds and verdict of a fresh process that keeps compiled functions in that folder."""
    environment = {
        **os.environ,
        "JAX_COMPILATION_CACHE_DIR": cache,
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    }
    command = [sys.executable, "-c", SCRIPT + code]
    shown = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment)
    seconds, _, verdict = shown.stdout.strip().partition(" ")
    return float(seconds), verdict


def main(repeats: int = 3):
    print(f"{'':36}{'first':>8}{'second':>8}   CPU seconds")
    nuts = None
    for name, code in RUNS.items():
        pairs = []
        for _ in range(repeats):
            with tempfile.TemporaryDirectory() as cache:
                (first, verdict), (second, _) = run(code, cache), run(code, cache)
                pairs.append((first, second))
        first, second = (min(column) for column in zip(*pairs, strict=True))
        nuts = nuts or first
        print(f"{name:36}{first:8.1f}{second:8.1f}   {first / nuts:5.2f} x  {verdict}", flush=True)


if __name__ == "__main__":
    main()
