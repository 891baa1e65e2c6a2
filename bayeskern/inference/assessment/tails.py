"""Heavy tails, whose sd or even mean cannot be estimated from draws."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Literal

import numpy as np

from bayeskern.inference.approximation.psis import khat_threshold
from bayeskern.inference.assessment.density_tail import TAIL_SHARE, Tail, density_tail
from bayeskern.inference.model.cost import is_costly
from bayeskern.inference.result import Fit
from bayeskern.inference.verdict import Trust

# Upper limit of the change of a log sd by the density beyond the draws.
MAX_LOG_SD_RATIO = 0.2


def heavy_tail_caution(
    posterior: Fit,
    names: list[str],
    x: np.ndarray,
    evidence: dict,
    efficiency: float = 1.0,
) -> Trust | None:
    """Verdict `caution` if `heavy_tail_advice` doubts a number of a posterior; else None."""
    density = partial(density_tail, posterior)
    advice = heavy_tail_advice(names, x, evidence, efficiency, density)
    return Trust("caution", advice, evidence) if advice else None


# Share of the draws in one tail, whose moments are computed from the density, if the draws may not
# reach the tail.
UNTRUSTED_TAIL_SHARE = 0.4
# Skewness of the draws of an approximation from which their tail is checked.
MIN_SKEWNESS = 0.5
# Maximum number of skewed numbers whose density is followed, by decreasing skewness.
MAX_SKEWED_NUMBERS = 6
# Number of coordinates above which the density of no skewed number is followed.
MAX_SKEWED_SIZE = 50


def unreached_tail(posterior: Fit, names: list[str], x: np.ndarray, evidence: dict) -> Trust | None:
    """Verdict on an approximation that does not reach a tail; None if it reaches all tails.

    Weights do not show a tail that no proposal reaches: where the sd of groups is large, their
    standardised effects lie in a narrow ridge. The density along the ridge shows it. The verdict is
    `bad` if the tail makes an sd larger, `caution` if there is no sd. The density of skewed numbers
    is followed unless it is costly.

    Args:
        posterior: The draws of an approximation, or draws resampled from one.
        names: Name of each number, m of them.
        x: Draws, (S, m).
        evidence: Receives "tail_log_sd_ratio" and the name of the worst number.
    """
    target, limit = posterior.fitted_target, MAX_LOG_SD_RATIO
    if target.size > MAX_SKEWED_SIZE or is_costly(target):
        return None
    # Powers of very large numbers would overflow.
    largest = np.maximum(np.max(np.abs(x), axis=0), np.finfo(float).tiny)
    centred = x / largest - np.mean(x / largest, axis=0)
    sds = np.std(centred, axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        skewness = np.nan_to_num(np.abs(np.mean(np.power(centred / sds, 3), axis=0)))
    by_skewness = np.argsort(-skewness, kind="stable")[:MAX_SKEWED_NUMBERS]
    tails, ratios = {}, {}
    for i in by_skewness[skewness[by_skewness] > MIN_SKEWNESS].tolist():
        sd = float(largest[i] * sds[i])
        tails[i] = density_tail(posterior, names[i], UNTRUSTED_TAIL_SHARE)
        # Unknown tails have no index; a density that does not fall is left to `heavy_tail_caution`.
        ratios[i] = _log_sd_ratio(tails[i], sd) if tails[i].index > 0.0 else 0.0
        # Laplace's marginal density is wrong between modes. Beyond them it is right, and half of
        # the change must come from there.
        if ratios[i] > limit:
            beyond = density_tail(posterior, names[i])
            if not (beyond.index > 0.0 and _log_sd_ratio(beyond, sd) >= limit / 2.0):
                ratios[i] = 0.0
    worst = max(ratios, key=lambda i: ratios[i], default=None)
    if worst is None:
        return None
    name, ratio = names[worst], ratios[worst]
    evidence |= {"tail_log_sd_ratio": ratio, "tail_log_sd_ratio_at": name}
    if np.isinf(ratio):
        return Trust("caution", _advice_by_density(names, tails, ratios, evidence) or "", evidence)
    if ratio < limit:
        return None
    advice = (
        f"The draws do not reach the tail of {name}: by the density there, its sd is "
        f"{np.exp(ratio):.2g} times the sd of the draws. Take method='nuts'."
    )
    return Trust("bad", advice, evidence)


# Share of a tail, the outermost, that confirms what its density says.
CONFIRMING_SHARE = 0.1


def _confirmed(density: Callable[[float], Tail], sd: float) -> Tail:
    """Tail by the density; unknown if its outermost part does not confirm a change of the sd.

    Laplace's marginal density is wrong between modes, and right beyond them.
    """
    tail, limit = density(TAIL_SHARE), MAX_LOG_SD_RATIO
    if not np.isfinite(tail.sd) or abs(np.log(tail.sd / sd)) < limit:
        return tail
    outermost = density(CONFIRMING_SHARE * TAIL_SHARE)
    return tail if abs(np.log(outermost.sd / sd)) > limit / 2.0 else Tail(np.nan, np.nan)


# Tail index below which thousands of draws do not determine an sd, although there is one above 2:
# most are wrong at 2.2 and few at 2.5, benchmarks/results/tails.txt.
MIN_TAIL_INDEX = 2.4


def _log_sd_ratio(tail: Tail, sd: float) -> float:
    """Log ratio of the sd of a tail to an sd of draws; infinite if they do not determine it."""
    return np.inf if tail.index < MIN_TAIL_INDEX else float(np.log(tail.sd / sd))


# Numbers without a draw this many sds from their mean are not checked; Gaussian draws are closer.
MIN_OUTLIER_DISTANCE_SDS = 5.5
# A smaller relative standard error of an sd is accepted, whatever the tail.
MIN_SD_ERROR = 0.05
# A number with fewer distinct values, as a share of its draws, is discrete and has no tail.
MIN_DISTINCT_SHARE = 0.05
# Maximum number of numbers whose density is followed, by decreasing k-hat.
MAX_FOLLOWED_NUMBERS = 3
# Upper limit of the k-hat of an sd. Vehtari et al. take 0.7 for an average, at which many correct
# sds would be doubted: benchmarks/results/tails.txt.
MAX_SD_KHAT = 0.85
# The same limit if the density beyond the draws confirms the sd; from 1 on there is no variance.
MAX_KNOWN_SD_KHAT = 1.0


def heavy_tail_advice(
    names: list[str],
    x: np.ndarray,
    evidence: dict,
    efficiency: float = 1.0,
    density: Callable[[str, float], Tail] | None = None,
) -> str | None:
    """Advice if draws cannot estimate the mean or the sd of a number; else None.

    An sd is an average of squares, whose Pareto k-hat is twice the k-hat k of the draws. Its k-hat
    is the average of 2 k and the k-hat of the squares, since each is uncertain by 0.1 or more. A
    mean is doubted if k >= min(1 - 1/log10 S, 0.7), with S effective draws. Latent numbers are also
    judged by their density beyond the draws.

    Args:
        names: Name of each number, m of them.
        x: Draws, (S, m).
        evidence: Receives "sd_khat", "tail_log_sd_ratio" and the names of the worst numbers.
        efficiency: Effective draws per draw.
        density: Function from a name and the share of the draws in a tail to the tail of the
            marginal density, as `density_tail`.

    Returns:
        One sentence that names the number, or None.

    References:
        Vehtari, Simpson, Gelman, Yao and Gabry (2024), "Pareto smoothed importance sampling",
        section 3.2 and appendix on generic draws.
    """
    # Squares of very large numbers would overflow.
    largest = np.maximum(np.max(np.abs(x), axis=0), np.finfo(float).tiny)
    x = x / largest
    squared = np.square(x - np.mean(x, axis=0))
    with np.errstate(invalid="ignore", divide="ignore"):
        squared = squared / np.mean(squared, axis=0)
    sd_error = 0.5 * np.std(squared, axis=0) / np.sqrt(efficiency * len(x))
    has_outlier = np.max(squared, axis=0) > MIN_OUTLIER_DISTANCE_SDS**2
    khats = {
        int(i): (_khat(x[:, i], "both", efficiency), _khat(squared[:, i], "right", efficiency))
        for i in np.flatnonzero(has_outlier & (sd_error > MIN_SD_ERROR))
        if len(np.unique(x[:, i])) > MIN_DISTINCT_SHARE * len(x)
    }
    if not khats:
        return None
    sd_khats = {i: k + 0.5 * k_squared for i, (k, k_squared) in khats.items()}
    tails: dict[int, Tail] = {}
    if density is not None:
        by_khat = sorted(sd_khats, key=lambda i: sd_khats[i], reverse=True)
        tails = {
            i: _confirmed(partial(density, names[i]), float(largest[i] * np.std(x[:, i])))
            for i in by_khat[:MAX_FOLLOWED_NUMBERS]
        }
    known = {i: tail for i, tail in tails.items() if not np.isnan(tail.sd)}
    ratios = {i: _log_sd_ratio(t, float(largest[i] * np.std(x[:, i]))) for i, t in known.items()}
    advice = _advice_by_density(names, known, ratios, evidence) if known else None
    max_khats = {i: MAX_KNOWN_SD_KHAT if i in known else MAX_SD_KHAT for i in sd_khats}
    worst = max(sd_khats, key=lambda i: sd_khats[i] - max_khats[i])
    khat, name = sd_khats[worst], names[worst]
    evidence |= {"sd_khat": khat, "sd_khat_at": name}
    if advice or khat < max_khats[worst]:
        return advice
    moments = "sd" if khats[worst][0] < khat_threshold(efficiency * len(x)) else "mean and sd"
    return (
        f"{name} has so heavy a tail (k-hat of its sd {khat:.2g}) that its {moments} "
        "may be far off, and may not exist: use medians and quantiles of it, or a tighter prior."
    )


def _advice_by_density(
    names: list[str],
    tails: dict[int, Tail],
    log_sd_ratios: dict[int, float],
    evidence: dict,
) -> str | None:
    """Advice if the density beyond the draws changes an sd; ratios are relative to the draws."""
    worst = max(log_sd_ratios, key=lambda i: abs(log_sd_ratios[i]))
    ratio = log_sd_ratios[worst]
    evidence |= {"tail_log_sd_ratio": abs(ratio), "tail_log_sd_ratio_at": names[worst]}
    if abs(ratio) < MAX_LOG_SD_RATIO:
        return None
    change = f"its sd is {np.exp(ratio):.2g} times the sd of the draws"
    if np.isinf(ratio):
        index = tails[worst].index
        lack = "it has no sd" if index <= 2.0 else "draws do not determine its sd"
        change = f"with tail index {index:.2g} {lack}"
    return (
        f"Followed beyond the draws, the density of {names[worst]} has a heavy tail: {change}. Use "
        "medians and quantiles of it, or a tighter prior."
    )


def _khat(values: np.ndarray, tail: Literal["both", "right"], efficiency: float) -> float:
    """Pareto k-hat of one or both tails of values (S,); infinite if it cannot be fitted."""
    # arviz_stats takes a while to import.
    from arviz_stats.base.array import array_stats

    khat = float(array_stats.pareto_khat(values[None], r_eff=efficiency, tail=tail))  # pyright: ignore[reportArgumentType]
    return np.inf if np.isnan(khat) else khat
