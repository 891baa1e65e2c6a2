"""Mixed models by formula, beside Bambi and NumPyro: CPU seconds of a whole script.

    uv run python -m benchmarks.mixed_models [--repeats 3] [--many-rows]

Every contestant fits `Reaction ~ Days + (Days | Subject)` to the sleep study (180 rows, 18
subjects) in a fresh process, imports included, with an empty cache on disk ("cold") and with what
the first run left there ("warm"). CPU seconds count all threads. bayeskern's include its verdict.
Bambi needs `pip install bambi nutpie`; it is left out where it is missing.

With `--many-rows`, bayeskern alone fits 73,421 rows with 2,972 x 1,128 crossed groups, and a
million rows with 10,000 groups: CPU seconds and peak memory of the first run.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

DATA = Path(__file__).parents[2] / "shared" / "regression" / "sleepstudy.csv.gz"
FORMULA = "Reaction ~ Days + (Days | Subject)"

CONTESTANTS = {
    "bayeskern": f"""
import bayeskern as bk
posterior = bk.infer(bk.regression({FORMULA!r}, {str(DATA)!r}), progress=False)
print(posterior.trust.verdict, posterior.draws["Days"].mean(), posterior.draws["Days"].std())
""",
    "Bambi, nutpie": f"""
import bambi, pandas
model = bambi.Model({FORMULA!r}, pandas.read_csv({str(DATA)!r}))
result = model.fit(inference_method="nutpie", random_seed=0, progressbar=False)
print("-", float(result.posterior["Days"].mean()), float(result.posterior["Days"].std()))
""",
    "Bambi, PyMC": f"""
import bambi, pandas
model = bambi.Model({FORMULA!r}, pandas.read_csv({str(DATA)!r}))
result = model.fit(random_seed=0, progressbar=False)
print("-", float(result.posterior["Days"].mean()), float(result.posterior["Days"].std()))
""",
    "NumPyro by hand": f"""
import jax, numpyro, numpyro.distributions as dist, pandas, jax.numpy as jnp
from numpyro.infer import MCMC, NUTS
jax.config.update("jax_enable_x64", True)
frame = pandas.read_csv({str(DATA)!r})
subject = jnp.array(frame.Subject.astype("category").cat.codes)
days, y = jnp.array(frame.Days), jnp.array(frame.Reaction)
def model():
    a = numpyro.sample("a", dist.Normal(y.mean(), 2.5 * y.std()))
    b = numpyro.sample("b", dist.Normal(0.0, 2.5 * y.std() / days.std()))
    sd = numpyro.sample("sd", dist.Exponential(jnp.array([1.0, days.std()]) / y.std()).to_event(1))
    L = numpyro.sample("L", dist.LKJCholesky(2, 2.0))
    u = numpyro.sample("u", dist.Normal().expand([18, 2]).to_event(2)) @ (sd[:, None] * L).T
    sigma = numpyro.sample("sigma", dist.Exponential(1.0 / y.std()))
    eta = a + u[subject, 0] + (b + u[subject, 1]) * days
    numpyro.sample("y", dist.Normal(eta, sigma), obs=y)
mcmc = MCMC(NUTS(model), num_warmup=1000, num_samples=1000, num_chains=4,
            chain_method="sequential", progress_bar=False)
mcmc.run(jax.random.key(0))
draws = mcmc.get_samples()["b"]
print("-", float(draws.mean()), float(draws.std()))
""",
}

PEAK = """
import resource
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
scales = {site: x.mean().round(3).item() for site, x in posterior.draws.items() if site[0] == "s"}
print(posterior.trust.verdict, scales, f"{peak:.1f} GiB")
"""
MANY_ROWS = {
    "InstEval": f"""
import bayeskern as bk
formula = "y ~ service + (1 | s) + (1 | d) + (1 | dept)"
data = {str(DATA.with_name("InstEval.csv.gz"))!r}
posterior = bk.infer(bk.regression(formula, data), progress=False)
{PEAK}""",
    "a million rows": f"""
import numpy as np, bayeskern as bk
rng = np.random.default_rng(0)
g, x = rng.integers(0, 10_000, 1_000_000), rng.normal(size=1_000_000)
y = 1.0 + 0.5 * x + 0.7 * rng.normal(size=10_000)[g] + rng.normal(size=1_000_000)
model = bk.regression("y ~ x + (1 | g)", {{"x": x, "y": y, "g": g}})
posterior = bk.infer(model, progress=False)
{PEAK}""",
}


def cpu_seconds(source: str, cache: str) -> tuple[float, str] | None:
    """CPU seconds of a script in a fresh process, and what it printed; None if it failed."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = os.environ | {
        "XDG_CACHE_HOME": cache,
        "PYTENSOR_FLAGS": f"base_compiledir={cache}",
    }
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", source],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if run.returncode:
        return None
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return seconds, run.stdout.strip().splitlines()[-1]


def main() -> None:
    """Print a table of CPU seconds and ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--many-rows", action="store_true")
    arguments = parser.parse_args()
    if arguments.many_rows:
        for name, source in MANY_ROWS.items():
            with tempfile.TemporaryDirectory() as cache:
                seconds, words = cpu_seconds(source, cache) or (float("nan"), "failed")
            print(f"{name:<18}{seconds:8.1f}  {words}")
        return
    repeats = arguments.repeats
    print(f"{'contestant':<18}{'cold':>8}{'warm':>8}{'x ours, warm':>14}  verdict, slope, its sd")
    ours = None
    for name, source in CONTESTANTS.items():
        with tempfile.TemporaryDirectory() as cache:
            runs = [cpu_seconds(source, cache) for _ in range(repeats + 1)]
        cold, *warm = runs
        if cold is None or None in warm:
            print(f"{name:<18} failed or is not installed")
            continue
        fastest = min(run[0] for run in warm if run is not None)
        ours = fastest if ours is None else ours
        print(f"{name:<18}{cold[0]:8.1f}{fastest:8.1f}{fastest / ours:14.1f}  {cold[1]}")


if __name__ == "__main__":
    main()
