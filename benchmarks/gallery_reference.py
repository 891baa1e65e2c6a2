"""Long runs of NUTS on the gallery, which its tests measure every other method against.

    uv run python -m benchmarks.gallery_reference [name ...]

Writes the mean and the sd of every number of every site to tests/gallery/reference/NAME.json, and
what vouches for them. Where NUTS cannot be trusted the answer is known: the funnel is its own
prior, and of the two modes the moments are found by quadrature.
"""

import json
import sys
import time
from pathlib import Path

import numpy as np
from scipy.integrate import quad

import bayeskern as bk
from bayeskern import gallery
from bayeskern.core.scalars import scalar_columns
from bayeskern.inference.assessment.convergence import worst_convergence
from models import bimodal, funnel

FOLDER = Path(__file__).resolve().parents[1] / "tests" / "gallery" / "reference"
LONG = bk.NUTS(chains=4, warmup=700, draws=1500, target_accept=0.9)
# Its lengthscale moves slowly.
LONGER = {"coal_mining": bk.NUTS(chains=4, warmup=700, draws=2500, target_accept=0.9)}
# What the long run must have, where a heavy tail or a rare divergence makes the verdict caution.
RHAT, ESS, DIVERGENCES = 1.01, 1000, 0.001


def of_funnel() -> dict:
    """x | v ~ N(0, exp(v)), v ~ N(0, 9), so that Var(x) = E[exp(v)] = exp(4.5)."""
    size = funnel.SIZE
    x = {"mean": [0.0] * size, "sd": [float(np.exp(2.25))] * size}
    return {"log_variance": {"mean": 0.0, "sd": 3.0}, "x": x}


def of_bimodal() -> dict:
    """By symmetry the mean is 0, and the variance the second moment."""

    def moment(k):
        def density(x):
            off = (abs(x) - bimodal.SIZE) / bimodal.ERROR
            return x**k * np.exp(-0.5 * off**2 - 0.5 * (x / 10.0) ** 2)

        return 2.0 * quad(density, 0.0, 20.0)[0]

    return {"x": {"mean": 0.0, "sd": float(np.sqrt(moment(2) / moment(0)))}}


def of_network() -> dict:
    """By symmetry the means of weights are 0, and the second moments of all units the same."""
    posterior = gallery.load("bayesian_network").fit(LONG, seed=20, progress=False)
    squares = {f"{site}^2": np.mean(posterior.flat[site] ** 2, axis=-1) for site in ("u", "b", "v")}
    kept = {site: posterior.flat[site] for site in ("a", "f")}
    names, flat = scalar_columns(kept | squares)
    evidence = worst_convergence(names, flat.reshape(*posterior.z.shape[:2], -1))
    _require("bayesian_network", evidence, posterior.trust.evidence["divergences"], len(flat))
    found = _moments(kept)
    for site in ("u", "b", "v"):
        sd = np.full(posterior.flat[site].shape[1:], np.sqrt(squares[f"{site}^2"].mean()))
        found[site] = {"mean": np.zeros(sd.shape).tolist(), "sd": _digits(sd)}
    return found


KNOWN = {"funnel": of_funnel, "bimodal": of_bimodal, "bayesian_network": of_network}


def by_nuts(name: str) -> dict:
    """Means and sds by site. Raises RuntimeError if the long run is not to be trusted."""
    posterior = gallery.load(name).fit(LONGER.get(name, LONG), seed=20, progress=False)
    trust, count = posterior.trust, posterior.z.shape[0] * posterior.z.shape[1]
    print(f"{name}: {trust!r}", flush=True)
    _require(name, trust.evidence, trust.evidence["divergences"], count)
    return _moments(posterior.flat)


def _require(name, evidence, divergences, count) -> None:
    rhat, *ess = (evidence[part] for part in ("rhat", "ess_bulk", "ess_tail"))
    if not (rhat < RHAT and min(ess) >= ESS and divergences <= DIVERGENCES * count):
        raise RuntimeError(f"{name}: R-hat {rhat:.3g}, ESS {min(ess):.0f}, {divergences} diverged.")


def _moments(draws) -> dict:
    return {
        site: {"mean": _digits(values.mean(axis=0)), "sd": _digits(values.std(axis=0))}
        for site, values in draws.items()
    }


def _digits(values):
    return np.vectorize(lambda x: float(f"{x:.6g}"))(values).tolist()


def main(names=()):
    FOLDER.mkdir(exist_ok=True)
    failed = []
    for name in names or gallery.names():
        started = time.perf_counter()
        try:
            found = KNOWN[name]() if name in KNOWN else by_nuts(name)
        except RuntimeError as reason:
            failed.append(str(reason))
            continue
        text = json.dumps(found, indent=1)
        (FOLDER / f"{name}.json").write_text(text + "\n", encoding="utf-8")
        print(f"{name}: {time.perf_counter() - started:.0f} s", flush=True)
    if failed:
        sys.exit("\n".join(failed))


if __name__ == "__main__":
    main(sys.argv[1:])
