"""The zoo of tests/inference/zoo: verdicts beside exact moments, by method.

    uv run python -m benchmarks.zoo [--seeds 3] [--methods auto nuts] [--family tails shapes]
        [--log zoo.jsonl] [--no-peer] > benchmarks/results/zoo.txt

A fit is right if each mean is within 0.25 sds and each log sd within 0.25 of the truth; where there
is no posterior, or an sd is infinite, no fit is right. Random mixtures are fitted with one seed
each. With --log a run that was killed goes on from the fits that are in the file.
"""

import argparse
import json
import sys
import textwrap
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import jax
from numpyro import infer

import bayeskern as bk
from bayeskern.protocols import DoesNotApplyError
from tests.inference.methods.cases import DRAWING
from tests.inference.zoo.mixtures import NEEDLES
from tests.inference.zoo.zoo import FAMILIES, POSTERIORS, seeds

NAMES = [*DRAWING, "auto"]
PEER = "NumPyro"
CHAINS, WARMUP, DRAWS = 4, 1000, 1000
HEADER = f"""\
Verdicts beside exact moments. "Right" and "good of right" in per cent: of the fits of posteriors
that have moments, and of the right fits. "Refused": the method does not apply, or there is no
posterior. "CPU": median ratio of the CPU seconds of a fit with its verdict to those of NumPyro's
NUTS ({CHAINS} chains, one after the other, {WARMUP} + {DRAWS}); second calls of both, compiled."""
COLUMNS = (
    f"{'fits':>5}{'right':>7}{'':>5}{'good':>6}{'wrongly':>9}{'right called':>14}{'good of':>9}"
    f"{'refused':>9}{'failed':>8}{'CPU':>7}"
)
SECOND_LINE = f"{'':>5}{'':>7}{'%':>5}{'':>6}{'good':>9}{'bad':>14}{'right %':>9}"


def cpu_seconds(function) -> tuple[float, object]:
    start = time.process_time()
    result = jax.block_until_ready(function())
    return time.process_time() - start, result


def fit(posterior, method: str, seed: int) -> dict:
    """Verdict, correctness and CPU seconds of one fit, or why there is none."""

    def run():
        fitted = bk.infer(
            posterior.model, *posterior.args, method=method, seed=seed, progress=False
        )
        return fitted.draws, fitted.trust.verdict

    try:
        seconds, (draws, verdict) = cpu_seconds(run)
    except Exception as error:
        refused = isinstance(error, DoesNotApplyError)
        refused |= posterior.truth is None and isinstance(error, ValueError)
        message = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
        return {"refused" if refused else "failure": message}
    return {"verdict": verdict, "right": posterior.is_right(draws), "cpu": seconds}


def peer(posterior) -> dict:
    """CPU seconds of NumPyro's NUTS, the second call."""
    mcmc = infer.MCMC(
        infer.NUTS(posterior.model),
        num_warmup=WARMUP,
        num_samples=DRAWS,
        num_chains=CHAINS,
        chain_method="sequential",
        progress_bar=False,
    )
    args = jax.tree.map(jax.numpy.asarray, posterior.args)

    def run(seed):
        mcmc.run(jax.random.key(seed), *args)
        return mcmc.get_samples()

    try:
        run(0)
        return {"cpu": cpu_seconds(lambda: run(1))[0]}
    except Exception as error:
        return {"failure": f"{type(error).__name__}: {str(error).splitlines()[0]}"}


def records(posteriors, methods, count: int, log: Path | None, with_peer: bool) -> Iterator[dict]:
    """Results of all fits, from the log where it has them; new ones are appended to it."""
    lines = log.read_text().splitlines() if log is not None and log.exists() else []
    known = {(r["posterior"], r["method"], r["seed"]): r for r in map(json.loads, lines)}
    for number, posterior in enumerate(posteriors, 1):
        fits = [(method, seed) for method in methods for seed in seeds(posterior, count)]
        # A ratio needs a second call and a posterior to sample.
        has_ratio = posterior.truth is not None and len(seeds(posterior, count)) > 1
        if has_ratio and (with_peer or (posterior.name, PEER, 1) in known):
            fits.append((PEER, 1))
        compiled = set()
        for method, seed in fits:
            key = (posterior.name, method, seed)
            if key not in known:
                start = time.perf_counter()
                result = peer(posterior) if method == PEER else fit(posterior, method, seed)
                known[key] = {
                    "posterior": posterior.name,
                    "family": posterior.family,
                    "has_truth": posterior.truth is not None,
                    "method": method,
                    "seed": seed,
                    "compiled": method in compiled or method == PEER,
                    **result,
                }
                compiled.add(method)
                if log is not None:
                    with log.open("a") as file:
                        file.write(json.dumps(known[key]) + "\n")
                elapsed = time.perf_counter() - start
                print(
                    f"{number}/{len(posteriors)} {posterior.name}, {method}, seed {seed}: "
                    f"{result} ({elapsed:.1f} s)",
                    file=sys.stderr,
                    flush=True,
                )
            yield known[key]
        # Executables take memory maps, of which a process has a limited number.
        jax.clear_caches()


def is_wrongly_good(record) -> bool:
    return record.get("verdict") == "good" and not record["right"]


def is_right_called_bad(record) -> bool:
    return record.get("verdict") == "bad" and record["right"]


def percent(part: int, whole: int) -> str:
    return f"{100.0 * part / whole:.0f}" if whole else "-"


def row(title: str, fits: list[dict], peers: dict[str, float]) -> str:
    right = [r for r in fits if r.get("right")]
    good = [r for r in fits if r.get("verdict") == "good"]
    ratios = [
        r["cpu"] / peers[r["posterior"]]
        for r in fits
        if r["compiled"] and "cpu" in r and r["posterior"] in peers
    ]
    ratio = f"{median(ratios):.2f}" if ratios else "-"
    return (
        f"{title:<17}{len(fits):>5}{len(right):>7}"
        f"{percent(len(right), sum(r['has_truth'] for r in fits)):>5}{len(good):>6}"
        f"{sum(map(is_wrongly_good, fits)):>9}{sum(map(is_right_called_bad, fits)):>14}"
        f"{percent(sum(r['right'] for r in good), len(right)):>9}"
        f"{sum('refused' in r for r in fits):>9}{sum('failure' in r for r in fits):>8}{ratio:>7}"
    )


def table(title: str, results: list[dict], key: str) -> Iterator[str]:
    """Lines of a table with a row for each value of a key."""
    peers = {r["posterior"]: r["cpu"] for r in results if r["method"] == PEER and "cpu" in r}
    fits = [r for r in results if r["method"] != PEER]
    yield f"\n{title:<17}{COLUMNS}\n{'':<17}{SECOND_LINE}"
    for value in dict.fromkeys(r[key] for r in fits):
        yield row(value, [r for r in fits if r[key] == value], peers)


def listing(title: str, lines: list[str]) -> Iterator[str]:
    yield f"\n{title}: {len(lines)}"
    yield from (f"  {line}" for line in lines)


def report(results: list[dict]) -> Iterator[str]:
    """Lines of the tables and lists."""

    def named(condition):
        return [
            f"{r['posterior']}, {r['method']}, seed {r['seed']}" for r in results if condition(r)
        ]

    yield HEADER
    yield from table("method", results, "method")
    yield from table("family", results, "family")
    yield from listing("Wrongly good", named(is_wrongly_good))
    yield from listing("Right fits called bad", named(is_right_called_bad))
    failures = [r for r in results if "failure" in r]
    messages = [
        f"{r['posterior']}, {r['method']}, seed {r['seed']}: {r['failure']}" for r in failures
    ]
    yield from listing("Failures", messages)
    needles = ", ".join(needle.name for needle in NEEDLES)
    yield textwrap.fill(f"\nNeedles, left out: {needles}.", 100, replace_whitespace=False)


def main():
    parser = argparse.ArgumentParser(prog="python -m benchmarks.zoo")
    parser.add_argument("--seeds", type=int, default=3, help="fits of a posterior by a method")
    parser.add_argument("--methods", nargs="+", choices=NAMES, default=NAMES)
    parser.add_argument("--family", nargs="+", choices=FAMILIES, default=FAMILIES)
    parser.add_argument("--log", type=Path, help="file of results, from which a run goes on")
    parser.add_argument(
        "--no-peer", action="store_true", help="do not run NumPyro: CPU ratios where --log has them"
    )
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    jax.config.update("jax_enable_compilation_cache", False)
    posteriors = [p for p in POSTERIORS if p.family in options.family]
    results = records(posteriors, options.methods, options.seeds, options.log, not options.no_peer)
    print("\n".join(report(list(results))))


if __name__ == "__main__":
    main()
