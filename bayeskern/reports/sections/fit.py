"""Fit to the data: predictive checks, leave-one-out, calibration of intervals."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np
from matplotlib.figure import Figure
from scipy.special import bdtrik, betaincinv

from bayeskern.core.batching import evenly
from bayeskern.core.formatting import alike
from bayeskern.core.plotting import BLUE, COLORS, ORANGE
from bayeskern.diagnostics.drawing import density
from bayeskern.diagnostics.leave_one_out.result import CrossValidation
from bayeskern.forecast.evaluate.scores import COVERAGES
from bayeskern.protocols import classes_of, columns_of
from bayeskern.reports.blocks import Block, folded, heading, missing, text
from bayeskern.reports.observations import (
    CLASS_OUTCOMES,
    MIN_OBSERVATIONS,
    Observations,
    observations,
)
from bayeskern.reports.outcome_plots import rootogram
from bayeskern.reports.outcomes import Outcome
from bayeskern.reports.sections.classes import class_calibration
from bayeskern.reports.style import GREY, INK, as_svg, legend_above, panel, points
from bayeskern.reports.subject import Subject
from bayeskern.reports.wording import percent, with_error

block = partial(Block, "fit")
# Counts over a larger range are shown by their density.
MAX_COUNT_RANGE = 60


def fit(subject: Subject) -> Iterator[Block]:
    """Blocks of the section "Fit to the data"."""
    all_observations = observations(subject)
    if not all_observations:
        yield block("nothing_observed")
    for remark in subject.posterior.remarks:
        yield text(f"{remark}.")
    classes = None if subject.model is None else classes_of(subject.model)
    for site in all_observations:
        if len(all_observations) > 1:
            yield heading(f"Observed site {site.site}")
        yield from _predictive(site)
        yield from _leave_one_out(site)
        if site.has_classes:
            yield from class_calibration(site, classes, _covariates(subject, site))
        else:
            yield from intervals(site)


def _covariates(subject: Subject, site: Observations) -> dict[str, np.ndarray]:
    """Arguments of the model, or their columns, with a number for each observation."""
    shape = subject.group("observed_data")[site.site].shape
    columns = () if subject.model is None else columns_of(subject.model) or ()
    covariates = {}
    for name, values in subject.group("constant_data").items():
        x = np.asarray(values, float)
        if x.shape == shape:
            covariates[str(name)] = x.ravel()
        elif x.ndim == 2 and x.shape[:1] == shape:
            has_names = len(columns) == x.shape[1]
            names = columns if has_names else [f"{name}[{i}]" for i in range(x.shape[1])]
            covariates |= {str(column): x[:, i] for i, column in enumerate(names)}
    return {k: x for k, x in covariates.items() if np.isfinite(x).all() and np.ptp(x) > 0}


def _predictive(site: Observations) -> Iterator[Block]:
    if site.replicates is None:
        yield block("no_replicates", site=site.site)
        return
    figure = as_svg(predictive_check, site.y, site.replicates, site.outcome)
    # A process without joint draws has leave-one-out predictions as replicates.
    one_by_one = site.log_density is not None and site.loo is None
    is_rootogram = has_rootogram(site.y, site.replicates, site.outcome)
    yield block("predictive_check", figure=figure, one_by_one=one_by_one, rootogram=is_rootogram)


def _leave_one_out(site: Observations) -> Iterator[Block]:
    loo = site.loo
    if loo is None:
        yield missing(site.why_no_loo)
        if site.log_density is not None:
            yield from folded("Worst predictions", [worst(site, site.log_density)])
        return
    k, elpd = loo.estimates.khat, loo.estimates.elpd
    influential = _labels(site, loo.unreliable, len(k))
    unknown = _labels(site, np.flatnonzero(np.isnan(elpd)), len(k))
    yield block("leave_one_out", loo=loo, influential=influential, unknown=unknown)
    yield from map(text, loo.remarks)
    details = [
        block("leave_one_out_table", loo=loo, largest=np.max(k), elpd=with_error),
        block("khat", figure=as_svg(_khat, loo), matched=loo.matched),
        worst(site, elpd, k),
    ]
    yield from folded("Leave-one-out, and the worst predictions", details)


def worst(site: Observations, log_density: np.ndarray, khat: np.ndarray | None = None) -> Block:
    """Table of the eight observations with the lowest log density."""
    # An unknown density counts as the lowest.
    known = np.where(np.isnan(log_density), -np.inf, log_density)
    lowest = np.argsort(known, kind="stable")[:8]
    means = np.full(len(site.y), np.nan) if site.mean is None else site.mean
    y, means = site.back(site.y), site.back(means)
    spread = 0.0 if site.discrete else float(np.std(y - means))
    rows = []
    for i, label in zip(lowest, _labels(site, lowest, len(log_density)), strict=True):
        has_site_order = len(log_density) == len(site.y)
        values = alike((y[i], means[i]), spread) if has_site_order else ("-", "-")
        k = () if khat is None else (f"{khat[i]:.2f}",)
        rows.append((label, *values, with_error(float(log_density[i])), *k))
    return block("worst", rows=rows, how=site.how, has_mean=site.mean is not None)


def _labels(site: Observations, rows: np.ndarray, count: int) -> list[str]:
    """Labels of observations `rows` out of `count`; indices if y has another length."""
    return [site.labels[i] if count == len(site.y) else str(i) for i in rows]


def intervals(site: Observations, remark: Block | None = None) -> Iterator[Block]:
    """Coverage of the intervals of single observations, and residuals in a fold.

    remark: Explanation of the scale of the folded figures.
    """
    if site.pit is None or site.mean is None:
        yield block("no_intervals")
        return
    count = len(site.y)
    details = [] if remark is None else [remark]
    details += [block("residuals", figure=as_svg(residuals, site.mean, site.y))]
    if count < MIN_OBSERVATIONS:
        yield block("few_observations", count=count, min_observations=MIN_OBSERVATIONS)
    else:
        shares = [float(np.mean(_inside_interval(site.pit, level))) for level in COVERAGES]
        yield block("coverage", how=site.how, levels=COVERAGES, shares=shares)
        details.append(block("pit", how=site.how, figure=as_svg(_pit, site.pit)))
        # At least 15 observations in each of at most six groups.
        groups = min(6, count // 15)
        if groups > 1:
            figure = as_svg(_coverage_by_value, site.mean, site.pit, groups)
            details.append(block("coverage_by_value", figure=figure))
    yield from folded("Residuals and calibration", details)


# -- figures ---------------------------------------------------------------------------------------


def predictive_check(y: np.ndarray, replicates: np.ndarray, outcome: Outcome) -> Figure:
    """Plot observed data y (n,) among replicates (S, n) of the model."""
    fig, ax = panel(2.4)
    low, high = _shown(y, replicates)
    if has_rootogram(y, replicates, outcome):
        rootogram(ax, y, replicates, round(low), round(high))
    elif outcome in CLASS_OUTCOMES and high - low <= MAX_COUNT_RANGE:
        _counts(ax, y, replicates, np.arange(round(low), round(high) + 1))
    else:
        _densities(ax, y, replicates, low, high)
    outside = float(np.mean((replicates < low) | (replicates > high)))
    beyond = f" ({percent(outside)} of the simulated values lie outside)" if outside > 0.01 else ""
    ax.set_xlabel(f"value{beyond}")
    legend_above(fig, ax)
    return fig


def has_rootogram(y: np.ndarray, replicates: np.ndarray, outcome: Outcome) -> bool:
    """True for counts over a small range."""
    low, high = _shown(y, replicates)
    return outcome == "count" and high - low <= MAX_COUNT_RANGE


def _densities(ax, y: np.ndarray, replicates: np.ndarray, low: float, high: float) -> None:
    # At most 40 lines, because more could not be told apart.
    for row in replicates[evenly(len(replicates), 40)]:
        curve = density(row, low, high)
        if curve is not None:
            ax.plot(*curve, color=BLUE, alpha=0.3, linewidth=0.7, label="simulated by the model")
    observed = density(y, low, high)
    if observed is not None:
        ax.plot(*observed, color=INK, linewidth=1.8, label="observed")
    ax.set_yticks([])
    ax.set_xlim(low, high)


def _counts(ax, y: np.ndarray, replicates: np.ndarray, values: np.ndarray) -> None:
    """Draw the frequency of each of the whole numbers `values`."""
    counts = np.stack([(replicates == value).sum(axis=1) for value in values], axis=1)
    low, median, high = np.quantile(counts, (0.025, 0.5, 0.975), axis=0)
    observed = [np.sum(y == value) for value in values]
    ax.bar(values, observed, 0.8, color=GREY, alpha=0.45, label="observed")
    error = [median - low, high - median]
    ax.errorbar(values, median, error, fmt="o", color=BLUE, markersize=4, label="the model, 95 %")
    ax.set_ylabel("observations")
    for axis in (ax.xaxis, ax.yaxis):
        axis.get_major_locator().set_params(integer=True)


def _shown(y: np.ndarray, replicates: np.ndarray) -> tuple[float, float]:
    """Range of y and of 99 % of the replicates; very heavy tails are cut off."""
    finite = replicates[np.isfinite(replicates)]
    finite = finite if finite.size else y
    low, q25, q75, high = np.quantile(finite, (0.005, 0.25, 0.75, 0.995))
    pad = 2.0 * max(np.ptp(y), q75 - q25) or np.inf
    return min(y.min(), max(low, y.min() - pad)), max(y.max(), min(high, y.max() + pad))


def residuals(predicted: np.ndarray, y: np.ndarray) -> Figure:
    """Plot the residual of each observation by its prediction."""
    fig, ax = panel(2.4)
    ax.axhline(0.0, color=GREY, linewidth=0.9)
    points(ax, predicted, y - predicted)
    ax.set_xlabel("predicted")
    ax.set_ylabel("observed - predicted")
    return fig


def _pit(values: np.ndarray) -> Figure:
    """Plot the histogram of the PIT, with a 95 % band for a uniform PIT."""
    fig, ax = panel(2.1)
    bins = int(np.clip(len(values) // 10, 5, 20))
    ax.axhspan(*binomial_interval(len(values), 1.0 / bins), color=GREY, alpha=0.25, linewidth=0)
    ax.hist(values, bins=np.linspace(0, 1, bins + 1), color=BLUE, alpha=0.6, rwidth=0.94)
    ax.yaxis.get_major_locator().set_params(integer=True)
    ax.set_xlabel("quantile of the observation in its prediction")
    ax.set_ylabel("observations")
    return fig


def _inside_interval(pit_values: np.ndarray, level: float) -> np.ndarray:
    """Mask of the observations inside their central intervals, from their PIT."""
    return 2.0 * np.abs(pit_values - 0.5) <= level


def _coverage_by_value(predicted: np.ndarray, pit_values: np.ndarray, groups: int) -> Figure:
    """Plot the coverage at COVERAGES in groups of equal size by predicted value."""
    fig, ax = panel(2.5)
    parts = np.array_split(np.argsort(predicted, kind="stable"), groups)
    medians = [float(np.median(predicted[part])) for part in parts]
    # The levels are drawn side by side, so that no bar hides another.
    offset = 0.008 * np.ptp(medians)
    for i, (level, color) in enumerate(zip(COVERAGES, COLORS, strict=False)):
        inside = _inside_interval(pit_values, level)
        ax.axhline(100 * level, color=color, linestyle="--", linewidth=0.8)
        options = {"color": color, "linewidth": 1.0, "label": f"{100 * level:g} % intervals"}
        _shares(ax, np.add(medians, (i - 1) * offset), [inside[p] for p in parts], **options)
    ax.set_ylim(-4, 104)
    ax.set_xlabel("predicted")
    ax.set_ylabel("observations inside, %")
    legend_above(fig, ax)
    return fig


def _shares(ax, x: Sequence[float] | np.ndarray, groups: list, **options) -> None:
    """Draw the share of True by group in %, with intervals of Clopper and Pearson."""
    shares = np.array([group.mean() for group in groups])
    ends = [clopper_pearson(int(group.sum()), len(group)) for group in groups]
    error = 100 * np.abs(np.transpose(ends) - shares)
    ax.errorbar(x, 100 * shares, error, fmt="o-", markersize=4, **options)


# Two intervals that scipy.stats has, too; it is slow to import.


def binomial_interval(trials: int, probability: float) -> np.ndarray:
    """Central 95 % interval of a number of successes, (2,)."""
    return np.ceil(bdtrik([0.025, 0.975], trials, probability))


def clopper_pearson(successes: int, trials: int) -> tuple[float, float]:
    """Exact 95 % interval of a probability (Clopper and Pearson 1934), from beta quantiles."""
    failures = trials - successes
    low = betaincinv(successes, failures + 1, 0.025) if successes else 0.0
    high = betaincinv(successes + 1, failures, 0.975) if failures else 1.0
    return float(low), float(high)


def _khat(loo: CrossValidation) -> Figure:
    """Plot the Pareto k-hat of each observation, with that before moment matching."""
    fig, ax = panel(2.2)
    before, values = loo.estimates.psis_khat, loo.estimates.khat
    index = np.arange(len(values))
    high = ~(values <= loo.threshold)
    ax.axhline(loo.threshold, color=GREY, linestyle="--", linewidth=0.9)
    points(ax, index[~high], values[~high], label="good")
    if high.any():
        points(ax, index[high], values[high], ORANGE, size=16, alpha=1.0, label="too influential")
    moved = np.flatnonzero(before != values)
    if len(moved):
        ax.vlines(moved, values[moved], before[moved], color=GREY, linewidth=0.9)
        points(ax, moved, before[moved], GREY, size=16, alpha=1.0, label="before moment matching")
    if high.any() or len(moved):
        legend_above(fig, ax)
    ax.set_xlabel("observation")
    ax.set_ylabel("Pareto k-hat")
    return fig
