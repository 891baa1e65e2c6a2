"""Everyday models: right or wrong, the verdict, and CPU seconds beside NumPyro's NUTS.

    uv run python -m benchmarks.everyday [METHODS] [SEEDS] [MODEL ...]

METHODS with commas, "auto,nuts,numpyro" by default; "numpyro" is NumPyro's NUTS with its defaults
and four chains, "nutpie" (uv sync --group bench) nutpie's with four chains of 1,000 draws. SEEDS of
data with commas, "0" by default; the fit has the same seed. Each fit runs in a process of its own,
without JAX's cache on disk, so that its CPU seconds contain compilation. A fit is right if each
mean and log sd of a latent is within MAX_ERROR of a reference: 4 x 5,000 draws of NumPyro's NUTS
with a dense mass matrix, computed once and kept in FOLDER, or quadrature where at most two
parameters are left once the others are integrated out. Where a latent has no sd, as under a
horseshoe, no fit is right.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from bayeskern.core.formatting import aligned

FOLDER = Path(tempfile.gettempdir()) / "bayeskern-everyday"
# Errors of a mean in sds, and of a log sd, that a good verdict promises to avoid.
MAX_ERROR = 0.25


def fit(name: str, method: str, seed: int) -> dict:
    """Moments, verdict and CPU seconds of one fit."""
    import jax
    import numpyro

    import bayeskern as bk
    from benchmarks.everyday_models import BY_NAME

    model, start = BY_NAME[name](np.random.default_rng(seed)), time.process_time()
    verdict, attempts, advice, ess = "", "", "", np.nan
    if method in ("numpyro", "reference"):
        numpyro.enable_x64()
        long = method == "reference"
        kernel = numpyro.infer.NUTS(
            model, dense_mass=long, target_accept_prob=0.95 if long else 0.8
        )
        warmup, draws = (2000, 5000) if long else (1000, 1000)
        mcmc = numpyro.infer.MCMC(
            kernel, num_warmup=warmup, num_samples=draws, num_chains=4,
            chain_method="sequential", progress_bar=False,
        )  # fmt: skip
        mcmc.run(jax.random.key(seed))
        sites = mcmc.get_samples(group_by_chain=True)
    elif method == "nutpie":
        from bayeskern.inference.model.evaluation import constrain
        from bayeskern.inference.model.target import Target
        from benchmarks.samplers_run import with_nutpie

        target = Target.from_model(model, (), {})
        sites = constrain(target, with_nutpie(target, None, seed).z)
    else:
        posterior = bk.infer(model, method=method, seed=seed, progress=False)
        verdict, advice = posterior.trust.verdict, posterior.trust.advice
        sites = posterior.draws
        attempts = ", ".join(a.method for a in posterior.attempts or ())
    seconds = time.process_time() - start
    sites = {k: np.asarray(v) for k, v in sites.items()}
    flat = {k: v.reshape(v.shape[0] * v.shape[1], -1) for k, v in sites.items()}
    if min(len(v) for v in sites.values()) > 1:
        from benchmarks.timing import smallest_ess

        ess = smallest_ess(sites)
    return {
        "mean": {k: v.mean(axis=0).tolist() for k, v in flat.items()},
        "sd": {k: v.std(axis=0).tolist() for k, v in flat.items()},
        "verdict": verdict, "advice": advice, "attempts": attempts, "seconds": seconds, "ess": ess,
    }  # fmt: skip


def in_process(name: str, method: str, seed: int) -> dict | None:
    """Result of `fit` in a new process; None if it fails."""
    arguments = [sys.executable, "-m", "benchmarks.everyday", "--fit", name, method, str(seed)]
    environment = {**os.environ, "JAX_ENABLE_COMPILATION_CACHE": "false"}
    run = subprocess.run(arguments, env=environment, capture_output=True, text=True, check=False)
    if run.returncode:
        print(f"{name}, {method}, seed {seed}: {run.stderr[-500:]}", file=sys.stderr)
        return None
    return json.loads(run.stdout.splitlines()[-1])


def reference(name: str, seed: int) -> dict | None:
    """Moments by quadrature where that is possible, else by a long run, kept in FOLDER."""
    from benchmarks.everyday_models import EXACT

    if name in EXACT:
        moments = EXACT[name](np.random.default_rng(seed)).items()
        return {
            "mean": {site: np.atleast_1d(m.mean).tolist() for site, m in moments},
            "sd": {site: np.atleast_1d(m.sd).tolist() for site, m in moments},
        }
    path = FOLDER / f"{name}-{seed}.json"
    if not path.exists():
        FOLDER.mkdir(exist_ok=True)
        result = in_process(name, "reference", seed)
        if result is None:
            return None
        path.write_text(json.dumps(result))
    return json.loads(path.read_text())


def error(result: dict, truth: dict) -> tuple[float, str]:
    """Largest error of a mean in sds, or of a log sd, and its site."""
    errors = {}
    for site in truth["mean"].keys() & result["mean"].keys():
        mean = truth["mean"][site]
        sd = np.asarray(truth["sd"][site])
        changes = sd > 1e-12
        shift = np.abs(np.subtract(result["mean"][site], mean)) / np.where(changes, sd, 1.0)
        with np.errstate(divide="ignore"):
            ratio = np.abs(np.log(np.asarray(result["sd"][site]) / np.where(changes, sd, 1.0)))
        errors[site] = float(np.max(np.where(changes, np.maximum(shift, ratio), 0.0), initial=0.0))
    worst = max(errors, key=lambda site: errors[site])
    return errors[worst], worst


def main(methods: str = "auto,nuts,numpyro", seeds: str = "0", *names: str) -> None:
    """Print the table."""
    from benchmarks.everyday_models import BY_NAME

    rows = [["model", "seed", "method", "right", "error", "at", "verdict", "CPU s", "ESS", "tried"]]
    for name in names or BY_NAME:
        for seed in map(int, seeds.split(",")):
            truth = reference(name, seed)
            for method in methods.split(","):
                result = in_process(name, method, seed)
                if result is None or truth is None:
                    rows.append([name, str(seed), method, "failed", *[""] * 6])
                    continue
                worst, site = error(result, truth)
                right = "yes" if worst < MAX_ERROR else "NO"
                rows.append(
                    [
                        name, str(seed), method, right, f"{worst:.2f}", site, result["verdict"],
                        f"{result['seconds']:.1f}", f"{result['ess']:.0f}", result["attempts"],
                    ]
                )  # fmt: skip
                print("  ".join(rows[-1]), result["advice"][:160], flush=True)
    print("\n".join(aligned(rows)))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--fit"]:
        os.environ.setdefault("JAX_PLATFORMS", "cpu")
        print(json.dumps(fit(sys.argv[2], sys.argv[3], int(sys.argv[4]))))
    else:
        main(*sys.argv[1:])
