"""The fit: does data from the model look like the data, and are its intervals what they claim?"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from bayeskern.core.formatting import alike, counted
from bayeskern.diagnostics.report.blocks import (
    Figure,
    Heading,
    Missing,
    Table,
    Text,
    listed,
    percent,
)
from bayeskern.diagnostics.report.observations import (
    FEW,
    FITTED_WITH,
    INSIDE,
    LEFT_OUT,
    Observations,
)
from bayeskern.diagnostics.report.sections import fit_plots as plots
from bayeskern.diagnostics.report.style import LEVELS, svg
from bayeskern.inference.approximation.psis import khat_threshold

WORST = 8
# Observations in a group, at least.
GROUP = 15
NAMES = {
    LEFT_OUT: "LOO-PIT",
    FITTED_WITH: "LOO-PIT, at hyperparameters that were fitted with each observation",
    INSIDE: "PIT",
}


def fit(subject) -> Iterator:
    if subject.posterior is None:
        yield Missing("Nothing was fitted, so there is no fit to look at.")
        return
    found = subject.observations
    if not found:
        yield Missing("The model observes nothing, so there is no fit to look at.")
    for one in found:
        if len(found) > 1:
            yield Heading(f"Observed site {one.site}")
        classes = getattr(getattr(subject.posterior.target, "model", None), "classes", None)
        if subject.forecast is not None:
            yield Text(_scale(subject.forecast))
        yield from _predictive(one)
        yield from _left_out(one)
        if one.binary:
            yield from _calibration(one, classes)
        elif classes is not None and len(classes) > 2:
            yield from _several_classes(one, classes)
        else:
            yield from _intervals(one)


def _scale(f) -> str:
    of = "the logarithm of the values" if f.scale.log else "the values"
    return f"All of this section is on the scale that was fitted: {of}, brought to mean 0 and sd 1."


def _predictive(one: Observations) -> Iterator:
    if one.replicates is None:
        yield Missing(
            f"New data for {one.site} cannot be drawn from the model, so there is no posterior "
            "predictive check."
        )
        return
    # Of a process without replicates they were made from the left-out predictions.
    by_value = one.log_density is not None and one.loo is None
    drawn = ", each value drawn by itself from what the others say of it" if by_value else ""
    yield Figure(
        svg(plots.predictive_check, one.y, one.replicates, one.discrete),
        f"Posterior predictive check{drawn}. Good: the observed data look like one of the data "
        "sets that the model would make.",
    )


def _left_out(one: Observations) -> Iterator:
    if one.loo is None:
        yield Missing(one.why_no_loo)
        if one.log_density is not None:
            yield _worst(one, one.log_density, None)
        return
    loo = one.loo
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
    same = len(k) == len(one.y)
    yield _worst(one, elpd, k)
    bad = np.flatnonzero(~(k <= threshold))
    if len(bad):
        names = [one.labels[i] if same else str(i) for i in bad]
        yield Text(
            f"Too influential: {listed(names, 10)}. Take a likelihood with heavier tails "
            "(StudentT), or fit again without them and see what changes."
        )


def _worst(one: Observations, log_density, khat) -> Table:
    """The observations that are predicted worst, by name."""
    same, rows = len(log_density) == len(one.y), []
    means = np.full(len(one.y), np.nan) if one.mean is None else one.mean
    apart = 0.0 if one.discrete else float(np.std(one.y - means))
    for i in np.argsort(log_density, kind="stable")[:WORST]:
        value, mean = alike((one.y[i], means[i]), apart) if same else ("-", "-")
        k = "-" if khat is None else f"{khat[i]:.2f}"
        rows.append((one.labels[i] if same else str(i), value, mean, f"{log_density[i]:.2f}", k))
    return Table(
        ("observation", "observed", "predicted", "log density", "k-hat"),
        tuple(rows),
        "The observations that the model predicts worst. Look whether they are errors, or "
        f"something that the model leaves out.{_seen(one)}",
    )


def _seen(one: Observations) -> str:
    """What of a table of observations was fitted to them, though the log density is not."""
    if one.how == FITTED_WITH:
        return " The hyperparameters were fitted with each of them."
    if one.how == INSIDE and one.mean is not None:
        return (
            " The log density is that of each left out; the predicted value has seen the "
            "observation itself."
        )
    return ""


def _calibration(one: Observations, classes) -> Iterator:
    chance = _chance(one)
    if chance is None or len(one.y) < FEW:
        yield Missing(
            f"A calibration curve needs predicted chances and at least {FEW} observations."
        )
        return
    of = f"of {classes[1]!r}" if classes is not None and len(classes) == 2 else "of 1"
    wrong = float(np.mean((chance > 0.5) != (one.y > 0.5)))
    left_out = one.loo is not None or one.how == LEFT_OUT
    yield Text(
        f"{LEFT_OUT if left_out else one.how} The likelier class is wrong for "
        f"{percent(wrong)} of the observations; the Brier score is "
        f"{np.mean(np.square(chance - one.y)):.3f} (always saying the overall share"
        f"{' of the others' if left_out else ''}: {_overall(one.y, left_out):.3f})."
    )
    yield Figure(
        svg(plots.calibration, chance, one.y),
        f"Calibration of the predicted chance {of}. Good: the bars cross the dashed line; a curve "
        "steeper than it means chances that are too timid, a flatter one chances too bold.",
    )


def _overall(y, left_out: bool) -> float:
    """The Brier score of the share of ones, for each of y among all or among the others."""
    n = len(y)
    return float(np.var(y)) * ((n / (n - 1)) ** 2 if left_out else 1.0)


def _chance(one: Observations):
    """The chance of class 1 for each observation, left out where that is known."""
    if one.loo is not None and np.size(one.loo.elpd_i) == len(one.y):
        own = np.clip(np.exp(np.asarray(one.loo.elpd_i).ravel()), 0.0, 1.0)
        return np.where(one.y > 0.5, own, 1.0 - own)
    return one.mean


def _several_classes(one: Observations, classes) -> Iterator:
    if one.replicates is None or len(one.y) < FEW:
        yield Missing("The chances of the classes cannot be computed, so there is no calibration.")
        return
    chances = np.stack([(one.replicates == c).mean(axis=0) for c in range(len(classes))], axis=1)
    best = chances.argmax(axis=1)
    right = (best == one.y).astype(float)
    yield Text(
        "These chances have seen the observations that they are compared with, so they flatter "
        f"the model. The likeliest class is right for {percent(float(right.mean()))} of them."
    )
    yield Figure(
        svg(plots.calibration, chances.max(axis=1), right),
        "How often the likeliest class is right, by its predicted chance. Good: the bars cross the "
        "dashed line.",
    )


def _intervals(one: Observations) -> Iterator:
    if one.pit is None:
        yield Missing("Without predictions of single observations, intervals cannot be checked.")
        return
    yield Text(one.how)
    yield Figure(
        svg(plots.residuals, one.mean, one.y),
        "Residuals. Good: a cloud about zero without a curve, and as wide on the left as on the "
        "right.",
    )
    if len(one.y) < FEW:
        yield Missing(
            f"With {counted(len(one.y), 'observation')} nothing can be said of whether the "
            f"intervals hold what they claim; it takes {FEW} or more."
        )
        return
    shares = [float(np.mean(2.0 * np.abs(one.pit - 0.5) <= level)) for level in LEVELS]
    yield Table(
        ("interval", *(f"{100 * level:g} %" for level in LEVELS)),
        (("observations inside", *(percent(s) for s in shares)),),
    )
    yield Figure(
        svg(plots.pit, one.pit),
        f"{NAMES[one.how]}. Good: all bars end in the grey band; a hill means intervals that are "
        "too wide, a valley too narrow, a slope a bias.",
    )
    yield Figure(
        svg(plots.coverage, one.pit),
        "Calibration of intervals. Good: the line stays in the grey band; below it the intervals "
        "are too narrow, above it too wide.",
    )
    groups = min(6, len(one.y) // GROUP)
    if groups < 2:
        yield Missing("There are too few observations to look at coverage by predicted value.")
        return
    yield Figure(
        svg(plots.coverage_by, one.mean, one.pit, groups),
        "Coverage by predicted value. Good: each series stays near its dashed line; one that falls "
        "shows where the noise is larger than the model says.",
    )
