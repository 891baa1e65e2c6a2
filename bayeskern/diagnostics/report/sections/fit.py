"""Fit to the data: posterior predictive checks, leave-one-out, calibration of intervals."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np

from bayeskern.core.formatting import alike
from bayeskern.diagnostics.report.blocks import Block, heading, missing
from bayeskern.diagnostics.report.figures import fit as plots
from bayeskern.diagnostics.report.figures.style import drawn
from bayeskern.diagnostics.report.observations import (
    MIN_OBSERVATIONS,
    Observations,
    observations,
)
from bayeskern.diagnostics.report.subject import Subject
from bayeskern.forecast.evaluate.scores import COVERAGES
from bayeskern.inference.approximation.psis import khat_threshold
from bayeskern.protocols import classes_of

block = partial(Block, "fit")


def fit(subject: Subject) -> Iterator[Block]:
    """Blocks of the section "Fit to the data"."""
    all_observations = observations(subject)
    if not all_observations:
        yield block("nothing_observed")
    classes = None if subject.model is None else classes_of(subject.model)
    for site in all_observations:
        if len(all_observations) > 1:
            yield heading(f"Observed site {site.site}")
        if subject.forecast is None:
            yield from _predictive(site)
            yield from _leave_one_out(site)
        else:
            if site.log_density is not None:
                yield _worst(site, site.log_density)
            yield block("scale", f=subject.forecast)
        if site.binary:
            yield from _calibration(site, classes)
        elif classes is not None and len(classes) > 2:
            yield from _several_classes(site, classes)
        else:
            yield from _intervals(site, brief=subject.forecast is not None)


def _predictive(site: Observations) -> Iterator[Block]:
    if site.replicates is None:
        yield block("no_replicates", site=site.site)
        return
    figure = drawn(plots.predictive_check, site.y, site.replicates, site.discrete)
    # Without draws of a process, the left-out predictions stand for replicates.
    one_by_one = site.log_density is not None and site.loo is None
    yield block("predictive_check", figure=figure, one_by_one=one_by_one)


def _leave_one_out(site: Observations) -> Iterator[Block]:
    loo = site.loo
    if loo is None:
        yield missing(site.why_no_loo)
        if site.log_density is not None:
            yield _worst(site, site.log_density)
        return
    k, elpd = np.asarray(loo.pareto_k).ravel(), np.asarray(loo.elpd_i).ravel()
    threshold = khat_threshold(loo.n_samples)
    bad = np.flatnonzero(~(k <= threshold))
    yield block("leave_one_out", loo=loo, threshold=threshold, bad=len(bad), largest=np.max(k))
    yield block("khat", figure=drawn(plots.khat, k, threshold))
    yield _worst(site, elpd, k)
    if len(bad):
        yield block("too_influential", names=_labels(site, bad, len(k)))


def _worst(site: Observations, log_density: np.ndarray, khat: np.ndarray | None = None) -> Block:
    """Table of the eight observations that are predicted worst."""
    worst = np.argsort(log_density, kind="stable")[:8]
    means = np.full(len(site.y), np.nan) if site.mean is None else site.mean
    y, means = site.back(site.y), site.back(means)
    spread = 0.0 if site.discrete else float(np.std(y - means))
    rows = []
    for i, label in zip(worst, _labels(site, worst, len(log_density)), strict=True):
        has_site_order = len(log_density) == len(site.y)
        values = alike((y[i], means[i]), spread) if has_site_order else ("-", "-")
        k = () if khat is None else (f"{khat[i]:.2f}",)
        rows.append((label, *values, f"{log_density[i]:.2f}", *k))
    return block("worst", rows=rows, how=site.how, has_mean=site.mean is not None)


def _labels(site: Observations, rows: np.ndarray, count: int) -> list[str]:
    """Names of some of `count` observations; numbers, if the site has another count."""
    return [site.labels[i] if count == len(site.y) else str(i) for i in rows]


def _calibration(site: Observations, classes: Sequence | None) -> Iterator[Block]:
    chance = _chance(site)
    if chance is None or len(site.y) < MIN_OBSERVATIONS:
        yield block("no_calibration", min_observations=MIN_OBSERVATIONS)
        return
    left_out = site.loo is not None or site.how == "left_out"
    yield block(
        "brier",
        how="left_out" if left_out else site.how,
        wrong=float(np.mean((chance > 0.5) != (site.y > 0.5))),
        score=np.mean(np.square(chance - site.y)),
        overall=_overall(site.y, left_out),
    )
    yield block(
        "calibration",
        figure=drawn(plots.calibration, chance, site.y),
        event=repr(classes[1]) if classes is not None and len(classes) == 2 else "1",
    )


def _overall(y: np.ndarray, left_out: bool) -> float:
    """Brier score of the share of ones, for each of y among all or among the others."""
    n = len(y)
    return float(np.var(y)) * ((n / (n - 1)) ** 2 if left_out else 1.0)


def _chance(site: Observations) -> np.ndarray | None:
    """Probability of class 1 for each observation, left out if that is known."""
    if site.loo is not None and np.size(site.loo.elpd_i) == len(site.y):
        chance_of_y = np.clip(np.exp(np.asarray(site.loo.elpd_i).ravel()), 0.0, 1.0)
        return np.where(site.y > 0.5, chance_of_y, 1.0 - chance_of_y)
    return site.mean


def _several_classes(site: Observations, classes: Sequence) -> Iterator[Block]:
    if site.replicates is None or len(site.y) < MIN_OBSERVATIONS:
        yield block("no_chances")
        return
    chances = np.stack([(site.replicates == c).mean(axis=0) for c in range(len(classes))], axis=1)
    right = (chances.argmax(axis=1) == site.y).astype(float)
    figure = drawn(plots.calibration, chances.max(axis=1), right)
    yield block("likeliest_class", figure=figure, right=float(right.mean()))


def _intervals(site: Observations, brief: bool = False) -> Iterator[Block]:
    """brief: whether to leave out figures that show the same in another way."""
    if site.pit is None or site.mean is None:
        yield block("no_intervals")
        return
    count = len(site.y)
    yield block("residuals", how=site.how, figure=drawn(plots.residuals, site.mean, site.y))
    if count < MIN_OBSERVATIONS:
        yield block("few_observations", count=count, min_observations=MIN_OBSERVATIONS)
        return
    shares = [float(np.mean(plots.inside_interval(site.pit, level))) for level in COVERAGES]
    figure = drawn(plots.pit, site.pit)
    yield block("pit", how=site.how, levels=COVERAGES, shares=shares, figure=figure)
    if brief:
        return
    yield block("coverage", figure=drawn(plots.coverage, site.pit))
    # At least 15 observations in each of at most six groups.
    groups = min(6, count // 15)
    if groups < 2:
        yield block("few_groups")
    else:
        figure = drawn(plots.coverage_by, site.mean, site.pit, groups)
        yield block("coverage_by_value", figure=figure)
