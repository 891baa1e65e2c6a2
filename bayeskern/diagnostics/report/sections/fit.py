"""The fit: does data from the model look like the data, and are its intervals what they claim?"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from bayeskern.core.formatting import alike, counted
from bayeskern.diagnostics.report.blocks import Figure, Heading, Missing, Table, Text
from bayeskern.diagnostics.report.observations import (
    FITTED_WITH,
    IN_SAMPLE,
    LEFT_OUT,
    MIN_OBSERVATIONS,
    Observations,
)
from bayeskern.diagnostics.report.sections import fit_plots as plots
from bayeskern.diagnostics.report.style import LEVELS, svg
from bayeskern.diagnostics.report.wording import listed, percent
from bayeskern.inference.approximation.psis import khat_threshold
from bayeskern.protocols import classes_of

WORST = 8
# The fewest observations in a group, and the most groups.
MIN_GROUP, MAX_GROUPS = 15, 6
NAMES = {
    LEFT_OUT: "LOO-PIT",
    FITTED_WITH: "LOO-PIT, at hyperparameters that were fitted with each observation",
    IN_SAMPLE: "PIT",
}


def fit(subject) -> Iterator:
    if not subject.observations:
        yield Missing("The model observes nothing, so there is no fit to look at.")
    classes = None if subject.model is None else classes_of(subject.model)
    for site in subject.observations:
        if len(subject.observations) > 1:
            yield Heading(f"Observed site {site.site}")
        if subject.forecast is None:
            yield from _predictive(site)
            yield from _left_out(site)
        else:
            yield _worst(site, site.log_density, None)
            yield Text(_scale(subject.forecast))
        if site.binary:
            yield from _calibration(site, classes)
        elif classes is not None and len(classes) > 2:
            yield from _several_classes(site, classes)
        else:
            yield from _intervals(site, brief=subject.forecast is not None)


def _scale(f) -> str:
    seen = f.choices.likelihood
    if seen is not None:
        drawn = " Of whole numbers the PIT is drawn between those of the number and of one less."
        return f"The figures are of the values as they are.{drawn if seen.whole else ''}"
    return (
        f"The figures are on the scale that was fitted: {f.described}, brought to mean 0 and sd 1."
    )


def _predictive(site: Observations) -> Iterator:
    if site.replicates is None:
        yield Missing(
            f"New data for {site.site} cannot be drawn from the model, so there is no posterior "
            "predictive check."
        )
        return
    # Of a process without replicates they were made from the left-out predictions.
    by_value = site.log_density is not None and site.loo is None
    drawn = ", each value drawn by itself from what the others say of it" if by_value else ""
    yield Figure(
        svg(plots.predictive_check, site.y, site.replicates, site.discrete),
        f"Posterior predictive check{drawn}. Good: the observed data look like one of the data "
        "sets that the model would make.",
    )


def _left_out(site: Observations) -> Iterator:
    if site.loo is None:
        yield Missing(site.why_no_loo)
        if site.log_density is not None:
            yield _worst(site, site.log_density, None)
        return
    loo = site.loo
    k = np.asarray(loo.pareto_k).ravel()
    elpd = np.asarray(loo.elpd_i).ravel()
    threshold = khat_threshold(loo.n_samples)
    yield Table(
        ("leave-one-out", "value"),
        (
            ("elpd_loo (expected log predictive density)", f"{loo.elpd:.2f} ± {loo.se:.2f}"),
            ("p_loo (effective number of parameters)", f"{loo.p:.2f}"),
            ("observations", str(loo.n_data_points)),
            (f"with Pareto k-hat above {threshold:.2f}", str(int(np.sum(~(k <= threshold))))),
            ("largest Pareto k-hat", f"{np.max(k):.2f}"),
        ),
    )
    yield Figure(
        svg(plots.khat, k, threshold),
        "Pareto k-hat of each observation. Good: all below the dashed line; one above it pulls the "
        "posterior so hard that its own prediction cannot be computed from these draws.",
    )
    yield _worst(site, elpd, k)
    bad = np.flatnonzero(~(k <= threshold))
    if len(bad):
        names = [_label(site, i, len(k)) for i in bad]
        yield Text(
            f"Too influential: {listed(names, 10)}. Take a likelihood with heavier tails "
            "(StudentT), or fit again without them and see what changes."
        )


def _worst(site: Observations, log_density, khat) -> Table:
    """The observations that are predicted worst, by name."""
    count, rows = len(log_density), []
    means = np.full(len(site.y), np.nan) if site.mean is None else site.mean
    y, means = site.back(site.y), site.back(means)
    spread = 0.0 if site.discrete else float(np.std(y - means))
    for i in np.argsort(log_density, kind="stable")[:WORST]:
        value, mean = ("-", "-")
        if count == len(site.y):
            value, mean = alike((y[i], means[i]), spread)
        k = () if khat is None else (f"{khat[i]:.2f}",)
        rows.append((_label(site, i, count), value, mean, f"{log_density[i]:.2f}", *k))
    head = ("observation", "observed", "predicted", "log density")
    return Table(
        head if khat is None else (*head, "k-hat"),
        tuple(rows),
        "The observations that the model predicts worst. Look whether they are errors, or "
        f"something that the model leaves out.{_seen(site)}",
    )


def _label(site: Observations, i: int, count: int) -> str:
    """The name of observation i of `count`, which may be others than those of the site."""
    return site.labels[i] if count == len(site.y) else str(i)


def _seen(site: Observations) -> str:
    """A remark where a table of left-out observations shows what was fitted to them."""
    if site.how == FITTED_WITH:
        return " The hyperparameters were fitted with each of them."
    if site.how == IN_SAMPLE and site.mean is not None:
        return (
            " The log density is that of each left out; the predicted value has seen the "
            "observation itself."
        )
    return ""


def _calibration(site: Observations, classes) -> Iterator:
    chance = _chance(site)
    if chance is None or len(site.y) < MIN_OBSERVATIONS:
        yield Missing(
            "A calibration curve needs predicted chances and at least "
            f"{MIN_OBSERVATIONS} observations."
        )
        return
    event = repr(classes[1]) if classes is not None and len(classes) == 2 else "1"
    wrong = float(np.mean((chance > 0.5) != (site.y > 0.5)))
    left_out = site.loo is not None or site.how == LEFT_OUT
    yield Text(
        f"{LEFT_OUT if left_out else site.how} The likelier class is wrong for "
        f"{percent(wrong)} of the observations; the Brier score is "
        f"{np.mean(np.square(chance - site.y)):.3f} (always saying the overall share"
        f"{' of the others' if left_out else ''}: {_overall(site.y, left_out):.3f})."
    )
    yield Figure(
        svg(plots.calibration, chance, site.y),
        f"Calibration of the predicted chance of {event}. Good: the bars cross the dashed line; a "
        "curve steeper than it means chances that are too timid, a flatter one chances too bold.",
    )


def _overall(y, left_out: bool) -> float:
    """The Brier score of the share of ones, for each of y among all or among the others."""
    n = len(y)
    return float(np.var(y)) * ((n / (n - 1)) ** 2 if left_out else 1.0)


def _chance(site: Observations):
    """The chance of class 1 for each observation, left out if that chance is known."""
    if site.loo is not None and np.size(site.loo.elpd_i) == len(site.y):
        chance_of_y = np.clip(np.exp(np.asarray(site.loo.elpd_i).ravel()), 0.0, 1.0)
        return np.where(site.y > 0.5, chance_of_y, 1.0 - chance_of_y)
    return site.mean


def _several_classes(site: Observations, classes) -> Iterator:
    if site.replicates is None or len(site.y) < MIN_OBSERVATIONS:
        yield Missing("The chances of the classes cannot be computed, so there is no calibration.")
        return
    chances = np.stack([(site.replicates == c).mean(axis=0) for c in range(len(classes))], axis=1)
    best = chances.argmax(axis=1)
    right = (best == site.y).astype(float)
    yield Text(
        "These chances have seen the observations that they are compared with, so they flatter "
        f"the model. The likeliest class is right for {percent(float(right.mean()))} of them."
    )
    yield Figure(
        svg(plots.calibration, chances.max(axis=1), right),
        "How often the likeliest class is right, by its predicted chance. Good: the bars cross the "
        "dashed line.",
    )


def _intervals(site: Observations, brief: bool = False) -> Iterator:
    """brief: whether the figures that say the same in another way are left out."""
    if site.pit is None:
        yield Missing("Without predictions of single observations, intervals cannot be checked.")
        return
    yield Text(site.how)
    yield Figure(
        svg(plots.residuals, site.mean, site.y),
        "Residuals. Good: a cloud about zero without a curve, and as wide on the left as on the "
        "right.",
    )
    if len(site.y) < MIN_OBSERVATIONS:
        yield Missing(
            f"With {counted(len(site.y), 'observation')} nothing can be said of whether the "
            f"intervals hold what they claim; it takes {MIN_OBSERVATIONS} or more."
        )
        return
    shares = [float(np.mean(plots.inside_interval(site.pit, level))) for level in LEVELS]
    yield Table(
        ("interval", *(f"{100 * level:g} %" for level in LEVELS)),
        (("observations inside", *(percent(s) for s in shares)),),
    )
    yield Figure(
        svg(plots.pit, site.pit),
        f"{NAMES[site.how]}. Good: all bars end in the grey band; a hill means intervals that are "
        "too wide, a valley too narrow, a slope a bias.",
    )
    if brief:
        return
    yield Figure(
        svg(plots.coverage, site.pit),
        "Calibration of intervals. Good: the line stays in the grey band; below it the intervals "
        "are too narrow, above it too wide.",
    )
    groups = min(MAX_GROUPS, len(site.y) // MIN_GROUP)
    if groups < 2:
        yield Missing("There are too few observations to look at coverage by predicted value.")
        return
    yield Figure(
        svg(plots.coverage_by, site.mean, site.pit, groups),
        "Coverage by predicted value. Good: each series stays near its dashed line; one that falls "
        "shows where the noise is larger than the model says.",
    )
