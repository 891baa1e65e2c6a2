"""Learn the defaults of `forecast`: priors, weights of structures, widths, reliability.

    uv run python -m benchmarks.learn_default_priors [--data FOLDER] [--limit 100] [--rounds 4]
        [--priors smooth] [--left-out benchmarks/results/left_out.json]

The shipped table was made in two runs: with --limit 60 --rounds 2, from the priors before it, and
with --limit 300 --priors --left-out benchmarks/results/left_out.json.

Writes bayeskern/forecast/model/learned.json, from the half `learn` of M1, of the corpus and of the
long series. The script `benchmarks.board` judges on the other half. For each frequency, and for
series too short to show its season:

1. Priors of the hyperparameters of each structure, by the EM algorithm (empirical Bayes: Dempster,
   Laird and Rubin, 1977), from those of the table or, for a new trend, of the register: the next
   prior is the normal distribution with the moments of the Laplace approximations of all series.
   Series with many zeros are left out.
2. `StructureWeights`, by the least mean log quantile loss of the averaged
   forecasts of held-out values. The logarithm limits the effect of single series. All frequencies
   have one set of coefficients, and intercepts of their own with a normal prior, so that few series
   move them little. At the same time, the share of a log-scale forecast that grows linearly above
   the largest value (`Growth`).
3. `IntervalWidth`: the priors of the squared scale and of the degrees of freedom,
   and the half-life of past errors, by the highest mean log density of standardised errors of
   held-out values; and the sd of past errors, by the share of past values inside 80 % intervals.
4. Chance of a smaller error than seasonal naive (`Reliability`), by logistic regression over all
   series.

--left-out names a file for weights and widths that are learned without any series of each kind in
turn; `benchmarks.board --left-out` judges with these.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from joblib import Parallel, delayed

from bayeskern.forecast.fit.modes import FittedStructure
from bayeskern.forecast.model import learned
from bayeskern.forecast.model.learned import ANY
from bayeskern.forecast.model.trends import HYPERPARAMETERS, TRENDS
from benchmarks import corpus
from benchmarks.learn_weights import averaged, learn_weights_and_widths
from benchmarks.lessons import HORIZONS, Lesson, example_of, fits_of, kind_of, lesson_of

# Number of series that the start counts as, and limits of the learned scales.
START_SERIES, MIN_SCALE, MAX_SCALE = 5.0, 0.4, 3.0
# Smallest curvature of the log posterior at a mode.
MIN_CURVATURE = 0.1
# Smallest number of series of a learned frequency.
MIN_SERIES = 15


def posterior_moments(
    lesson: Lesson, priors, trends: Sequence[str]
) -> dict[str, list[tuple[str, float, float]]]:
    """Trend -> name, mode and variance of each hyperparameter, in units of the table."""
    rows: dict[str, tuple[float, list]] = {}
    for fitted in fits_of(lesson, priors, trends):
        trend = fitted.structure.trend
        if trend in rows and rows[trend][0] > fitted.log_evidence:
            continue
        values, vectors = np.linalg.eigh(np.nan_to_num(fitted.hessian))
        covariance = (vectors / np.maximum(values, MIN_CURVATURE)) @ vectors.T
        # Prior and mode are in the units of the series.
        shift = fitted.density.middle - np.array(
            [priors[trend][_shared(n, fitted)][0] for n in fitted.density.names]
        )
        mode = fitted.mode - shift
        names = [_shared(n, fitted) for n in fitted.density.names]
        rows[trend] = (
            fitted.log_evidence,
            list(zip(names, mode.tolist(), np.diag(covariance).tolist(), strict=True)),
        )
    return {trend: row for trend, (_, row) in rows.items()}


def _shared(name: str, fitted: FittedStructure) -> str:
    """Name of a hyperparameter in the table, which is the same for all seasons."""
    first, _, rest = name.partition(".")
    # The shape of a day within the week has the prior of all seasons.
    rest = rest.replace("periodic", "seasonal")
    return f"season.{rest}" if first in fitted.choices.seasons else name


def next_priors(moments, old) -> dict[str, dict[str, tuple[float, float]]]:
    """Normal distributions with the moments of the hyperparameters of all series."""
    new = {}
    for trend in old:
        by_name: dict[str, list] = {}
        for rows in moments:
            for name, location, variance in rows.get(trend, ()):
                by_name.setdefault(name, []).append((location, variance))
        new[trend] = dict(old[trend])
        for name, rows in by_name.items():
            (*_, start_mean, spread), (modes, variances) = HYPERPARAMETERS[name], np.array(rows).T
            total = len(rows) + START_SERIES
            mean = (modes.sum() + START_SERIES * start_mean) / total
            square = np.sum(np.square(modes - mean) + variances)
            square += START_SERIES * (spread**2 + (start_mean - mean) ** 2)
            scale = np.clip(np.sqrt(square / total), MIN_SCALE, MAX_SCALE)
            new[trend][name] = round(float(mean), 3), round(float(scale), 3)
    return new


def learn_priors(
    lessons: Sequence[Lesson], known: dict, trends: Sequence[str], rounds: int, pool: Parallel
) -> dict:
    """Priors of the hyperparameters of one frequency.

    Args:
        lessons: Its series.
        known: Priors to start from, and to keep of other trends.
        trends: Trends to learn.
        rounds: Rounds of the EM algorithm.
        pool: Workers.
    """
    priors = {
        trend: {name: known.get(trend, {}).get(name, h[2:]) for name, h in entry.learned.items()}
        for trend, entry in TRENDS.items()
    }
    for _ in range(rounds if trends else 0):
        moments = pool(delayed(posterior_moments)(lesson, priors, trends) for lesson in lessons)
        priors = next_priors(moments, priors)
    return priors


def pooled_priors(entries: Sequence[dict]) -> dict:
    """Priors of other frequencies, with the pooled moments of all learned ones."""
    priors = {}
    for trend, entry in TRENDS.items():
        priors[trend] = {}
        for name in entry.learned:
            rows = np.array([e["priors"][trend][name] for e in entries])
            location = float(np.mean(rows[:, 0]))
            spread = np.mean(np.square(rows[:, 0] - location) + np.square(rows[:, 1]))
            priors[trend][name] = round(location, 3), round(float(np.sqrt(spread)), 3)
    return priors


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/forecasting"))
    parser.add_argument("--limit", type=int, default=100, help="series of each cell")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument(
        "--priors", nargs="*", choices=TRENDS, default=list(TRENDS), metavar="TREND",
        help="trends whose priors are learned; without a name, weights and widths only",
    )  # fmt: skip
    parser.add_argument("--left-out", type=Path, help="file of weights without each kind")
    arguments = parser.parse_args()
    path = Path(learned.__file__).with_name("learned.json")
    by_frequency: dict[str, list[Lesson]] = {}
    for series in corpus.load(arguments.data).values():
        for selected in corpus.select(series, "learn", arguments.limit, 1):
            lesson = lesson_of(selected)
            if lesson is not None:
                by_frequency.setdefault(lesson.frequency, []).append(lesson)
    known, examples = learned.table(), []
    table = {}
    with Parallel(n_jobs=arguments.workers) as pool:
        for frequency, lessons in by_frequency.items():
            if len(lessons) < MIN_SERIES:
                continue
            start = known.get(frequency, known[ANY])["priors"]
            priors = learn_priors(lessons, start, arguments.priors, arguments.rounds, pool)
            table[frequency] = {"priors": priors}
            examples += pool(delayed(example_of)(lesson, priors) for lesson in lessons)
            print(f"{frequency}: {len(lessons)} series", flush=True)
    examples = [e for e in examples if e is not None]
    for frequency, entry in learn_weights_and_widths(examples).items():
        table[frequency] |= entry
        print(frequency, entry, flush=True)
    entries = [table[f] for f in HORIZONS if f in table]
    table[ANY] = {"priors": pooled_priors(entries)} | averaged(entries)
    path.write_text(json.dumps(table, indent=1) + "\n")
    if arguments.left_out is None:
        return
    kinds = sorted({kind_of(e) for e in examples})
    left_out = {}
    for kind in kinds:
        entries = learn_weights_and_widths([e for e in examples if kind_of(e) != kind])
        left_out[kind] = entries | {ANY: averaged([entries[f] for f in HORIZONS if f in entries])}
    arguments.left_out.write_text(json.dumps(left_out, indent=1) + "\n")


if __name__ == "__main__":
    main()
