"""Tails so heavy that the sd, or even the mean, of draws says little."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from bayeskern.inference.approximation.psis import khat_threshold
from bayeskern.inference.assessment.density_tail import Tail

# Only numbers with a draw more sds from their mean are checked: those of a Gaussian have none.
MIN_DISTANCE_SDS = 5.5
# An sd with a smaller relative standard error is known well enough, whatever the tail.
MIN_SD_ERROR = 0.05
# The k-hat of an sd from which on it is not believed. Vehtari et al. take 0.7 for an average, which
# doubts many sds that are right: benchmarks/results/tails.txt.
MAX_SD_KHAT = 0.85
# The same where the density beyond the draws does not change the sd: from 1 on there is none.
MAX_KNOWN_SD_KHAT = 1.0
# Change of a log sd by the density beyond the draws from which on it is not believed. The density
# is followed for this many numbers, those with the largest k-hat.
MAX_LOG_SD_RATIO, MAX_FOLLOWED = 0.2, 3
# A number that takes fewer different values than this share of its draws is discrete.
MIN_DISTINCT_SHARE = 0.05


def heavy_tail_advice(
    names: list[str],
    x: np.ndarray,
    evidence: dict,
    efficiency: float = 1.0,
    density: Callable[[str], Tail] | None = None,
) -> str | None:
    """Advice, if the mean or the sd of a number cannot be estimated by its draws; else None.

    The sd is an average of squares, whose Pareto k-hat is twice that of the draws. Both estimates
    are averaged, since each of them is uncertain by 0.1 and more. The largest goes into the
    evidence. A mean is not believed from min(1 - 1/log10 S, 0.7) on, S the effective draws. Latent
    numbers are judged by their density beyond the draws, too.

    Args:
        names: The name of each number.
        x: Draws, (S, m).
        evidence: Gets "sd_khat", "tail_log_sd_ratio" and where they are worst.
        efficiency: Effective draws per draw.
        density: The tail of a number by the density, as `density_tail`.

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
    error = 0.5 * np.std(squared, axis=0) / np.sqrt(efficiency * len(x))
    far = np.max(squared, axis=0) > MIN_DISTANCE_SDS**2
    khats = {
        i: (_khat(x[:, i], "both", efficiency), _khat(squared[:, i], "right", efficiency))
        for i in np.flatnonzero(far & (error > MIN_SD_ERROR))
        # A number that takes few values, such as an indicator, has no tail.
        if len(np.unique(x[:, i])) > MIN_DISTINCT_SHARE * len(x)
    }
    if not khats:
        return None
    sd_khats = {i: k + 0.5 * k_squared for i, (k, k_squared) in khats.items()}
    order = sorted(sd_khats, key=sd_khats.get, reverse=True)
    tails = {i: density(names[i]) for i in order[:MAX_FOLLOWED]} if density is not None else {}
    known = {i: tail for i, tail in tails.items() if not np.isnan(tail.sd)}
    sds = {i: largest[i] * np.std(x[:, i]) for i in known}
    advice = _advice_by_density(names, known, sds, evidence) if known else None
    limits = {i: MAX_KNOWN_SD_KHAT if i in known else MAX_SD_KHAT for i in sd_khats}
    at = max(sd_khats, key=lambda i: sd_khats[i] - limits[i])
    evidence["sd_khat"], evidence["sd_khat_at"] = sd_khats[at], names[at]
    if advice or sd_khats[at] < limits[at]:
        return advice
    moments = "sd" if khats[at][0] < khat_threshold(efficiency * len(x)) else "mean and sd"
    return (
        f"{names[at]} has so heavy a tail (k-hat of its sd {sd_khats[at]:.2g}) that its {moments} "
        "may be far off, and may not exist: use medians and quantiles of it, or a tighter prior."
    )


def _advice_by_density(
    names: list[str], tails: dict[int, Tail], sds: dict[int, float], evidence: dict
) -> str | None:
    """Advice, if with the tails by the density an sd is another one, or does not exist.

    sds: of the draws.
    """
    ratios = {i: float(np.log(tail.sd / sds[i])) for i, tail in tails.items()}
    at = max(ratios, key=lambda i: abs(ratios[i]))
    evidence["tail_log_sd_ratio"], evidence["tail_log_sd_ratio_at"] = abs(ratios[at]), names[at]
    if abs(ratios[at]) < MAX_LOG_SD_RATIO:
        return None
    says = f"its sd is {np.exp(ratios[at]):.2g} times that of the draws"
    if np.isinf(ratios[at]):
        says = f"with tail index {tails[at].index:.2g} it has no sd"
    return (
        f"Followed beyond the draws, the density of {names[at]} has a heavy tail: {says}. Use "
        "medians and quantiles of it, or a tighter prior."
    )


def _khat(values: np.ndarray, tail: str, efficiency: float) -> float:
    """Pareto k-hat of one or both tails of values (S,); infinite where it cannot be fitted."""
    from arviz_stats.base import array_stats

    khat = float(array_stats.pareto_khat(values[None], r_eff=efficiency, tail=tail))
    return np.inf if np.isnan(khat) else khat
