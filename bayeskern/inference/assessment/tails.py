"""Tails so heavy that the sd, or even the mean, of draws says little."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from bayeskern.inference.approximation.psis import khat_threshold

# Only numbers with a draw more sds from their mean are checked: those of a Gaussian have none.
MIN_DISTANCE_SDS = 5.5
# An sd with a smaller relative standard error is known well enough, whatever the tail.
MIN_SD_ERROR = 0.05
# The k-hat of an sd from which on it is not believed. Vehtari et al. take 0.7 for an average, which
# doubts many sds that are right: benchmarks/results/tails.txt.
MAX_SD_KHAT = 0.85
# By the density the tail index is known, and so is k-hat: the limit is that of Vehtari et al. The
# density is followed for this many numbers, those with the largest k-hat.
MAX_KNOWN_SD_KHAT, MAX_FOLLOWED = 0.7, 3
# A number that takes fewer different values than this share of its draws is discrete.
MIN_DISTINCT_SHARE = 0.05


def heavy_tail_advice(
    names: list[str],
    x: np.ndarray,
    evidence: dict,
    efficiency: float = 1.0,
    index: Callable[[str], float] | None = None,
) -> str | None:
    """Advice, if the mean or the sd of a number cannot be estimated by its draws; else None.

    The sd is an average of squares, whose Pareto k-hat is twice that of the draws. Both estimates
    are averaged, since each of them is uncertain by 0.1 and more. The largest goes into the
    evidence. A mean is not believed from min(1 - 1/log10 S, 0.7) on, S the effective draws. Draws
    that have not come to the tail yet say nothing of it, but the density may: with a tail index of
    alpha the k-hat of an sd is 2 / alpha.

    Args:
        names: The name of each number.
        x: Draws, (S, m).
        evidence: Gets "sd_khat" and "sd_khat_at", and "tail_index" and "tail_index_at".
        efficiency: Effective draws per draw.
        index: Tail index of a number by the density, infinite where it is not known; as
            `tail_index`.

    Returns:
        One sentence that names the number, or None.

    References:
        Vehtari, Simpson, Gelman, Yao and Gabry (2024), "Pareto smoothed importance sampling",
        section 3.2 and appendix on generic draws.
    """
    # Squares of very large numbers would overflow.
    x = x / np.maximum(np.max(np.abs(x), axis=0), np.finfo(float).tiny)
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
    at = max(sd_khats, key=sd_khats.get)
    evidence["sd_khat"], evidence["sd_khat_at"] = sd_khats[at], names[at]
    if sd_khats[at] < MAX_SD_KHAT:
        return _advice_by_density(names, sd_khats, evidence, index) if index is not None else None
    moments = "sd" if khats[at][0] < khat_threshold(efficiency * len(x)) else "mean and sd"
    return (
        f"{names[at]} has so heavy a tail (k-hat of its sd {sd_khats[at]:.2g}) that its {moments} "
        "may be far off, and may not exist: use medians and quantiles of it, or a tighter prior."
    )


def _advice_by_density(names, sd_khats, evidence, index) -> str | None:
    """Advice, if the density says that an sd does not exist, or that draws tell little of it."""
    order = sorted(sd_khats, key=sd_khats.get, reverse=True)[:MAX_FOLLOWED]
    alphas = {names[i]: index(names[i]) for i in order}
    at = min(alphas, key=alphas.get)
    if not np.isfinite(alphas[at]):
        return None
    alpha = evidence["tail_index"] = alphas[at]
    evidence["tail_index_at"] = at
    if alpha > 2.0 / MAX_KNOWN_SD_KHAT:
        return None
    moments = "mean and sd" if alpha < 1.0 else "sd"
    says = "does not exist" if alpha < 2.0 else "may be far off"
    return (
        f"The density of {at} falls as slowly as |{at}|^-{1.0 + alpha:.2g} beyond the draws (tail "
        f"index {alpha:.2g}), so that its {moments} {says}: use medians and quantiles of it, or a "
        "tighter prior."
    )


def _khat(values: np.ndarray, tail: str, efficiency: float) -> float:
    """Pareto k-hat of one or both tails of values (S,); infinite where it cannot be fitted."""
    from arviz_stats.base import array_stats

    khat = float(array_stats.pareto_khat(values[None], r_eff=efficiency, tail=tail))
    return np.inf if np.isnan(khat) else khat
