"""Calibration of the predicted probabilities of classes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

import numpy as np

from bayeskern.core.batching import evenly
from bayeskern.reports.blocks import Block, folded
from bayeskern.reports.observations import MIN_OBSERVATIONS, Observations
from bayeskern.reports.outcome_plots import Event, calibration, residuals
from bayeskern.reports.style import as_svg

block = partial(Block, "classes")
# Maximum number of panels with covariates.
MAX_COVARIATES = 4


def class_calibration(
    site: Observations, classes: Sequence | None, covariates: Mapping[str, np.ndarray]
) -> Iterator[Block]:
    """Calibration of the classes of a site, and residuals by covariates.

    Args:
        site: Observations of classes, coded as 0, ..., K - 1.
        classes: Labels of the classes; None if they are their codes.
        covariates: Covariates (n,) by name.
    """
    if site.predictions is None or len(site.y) < MIN_OBSERVATIONS:
        yield block("no_calibration", min_observations=MIN_OBSERVATIONS)
        return
    yield _brier(site) if site.outcome == "binary" else _likeliest(site)
    # ArviZ sorts by predictions, and equal predictions must not stay sorted by class.
    order = np.random.default_rng(0).permutation(len(site.y))
    events = _events(site, [] if classes is None else list(classes), order)
    checked = [event for event in events if _varies(event)]
    if not checked:
        chances = [float(event.draws.mean()) for event in events]
        shares = [float(event.y.mean()) for event in events]
        yield block("even_chances", names=[e.name for e in events], chances=chances, shares=shares)
        return
    details = block(
        "calibration",
        figure=as_svg(calibration, checked),
        event=checked[0].name,
        outcome=site.outcome,
        left_out=site.how == "left_out",
        more=_event_count(site, classes) - len(events),
    )
    yield from folded("Calibration of the probabilities", [details])
    by_covariate = {name: x[order] for name, x in list(covariates.items())[:MAX_COVARIATES]}
    if not by_covariate:
        return
    # The event with the most even odds is the most informative one.
    most_even = min(checked, key=lambda event: abs(event.y.mean() - 0.5))
    figure = as_svg(residuals, most_even, by_covariate)
    more = len(covariates) - len(by_covariate)
    details = block("residuals", figure=figure, event=most_even.name, more=more)
    yield from folded("Residuals by variable", [details])


# Minimum sd of predicted probabilities that can be compared with frequencies.
MIN_PROBABILITY_SD = 0.01


def _varies(event: Event) -> bool:
    """True if the predicted probabilities vary by more than the error of their draws."""
    p = event.draws.mean(axis=0)
    error = np.sqrt(np.mean(p * (1.0 - p)) / len(event.draws))
    return bool(np.std(p) > max(MIN_PROBABILITY_SD, 2.0 * error))


def _brier(site: Observations) -> Block:
    """Errors and Brier score of a binary outcome."""
    chance, how = site.mean, site.how
    assert chance is not None
    if site.loo is not None and len(site.loo.labels) == len(site.y):
        chance_of_y = np.clip(np.exp(site.loo.estimates.elpd), 0.0, 1.0)
        chance, how = np.where(site.y > 0.5, chance_of_y, 1.0 - chance_of_y), "left_out"
    return block(
        "brier",
        how=how,
        wrong=float(np.mean((chance > 0.5) != (site.y > 0.5))),
        score=np.mean(np.square(chance - site.y)),
        overall=overall_score(site.y, how == "left_out"),
    )


def overall_score(y: np.ndarray, left_out: bool) -> float:
    """Brier score if each y_i is predicted by the share of ones in y.

    left_out: True for the share without y_i, whose error is n / (n - 1) times larger.
    """
    n = len(y)
    return float(np.var(y)) * ((n / (n - 1)) ** 2 if left_out else 1.0)


def _likeliest(site: Observations) -> Block:
    """Share of observations whose likeliest class is right."""
    assert site.predictions is not None
    codes = np.arange(_count(site))
    chances = np.stack([(site.predictions == code).mean(axis=0) for code in codes], axis=1)
    return block(
        "likeliest_class", how=site.how, right=float(np.mean(chances.argmax(axis=1) == site.y))
    )


def _count(site: Observations) -> int:
    """Number of classes in the data and the predictions."""
    assert site.predictions is not None
    return int(max(site.y.max(), site.predictions.max())) + 1


def _event_count(site: Observations, classes: Sequence | None) -> int:
    """Number of events that the classes of a site define."""
    count = max(len(classes or ()), _count(site))
    return {"binary": 1, "ordinal": count - 1}.get(site.outcome, count)


# Maximum number of elements in the draws of an event, and of draws.
MAX_EVENT_NUMBERS, MAX_EVENT_DRAWS = 2_000_000, 4_000
# Maximum number of panels with events.
MAX_EVENTS = 9


def _events(site: Observations, classes: list, order: np.ndarray) -> list[Event]:
    """Events of a site: the second class, each class, or classes up to a limit.

    Args:
        site: Observations of classes.
        classes: Their labels; empty if they are their codes.
        order: Order of the observations, (n,).
    """
    assert site.predictions is not None
    max_draws = min(MAX_EVENT_DRAWS, max(100, MAX_EVENT_NUMBERS // len(order)))
    draws = site.predictions[evenly(len(site.predictions), max_draws)][:, order]
    y = site.y[order].astype(int)
    count = max(len(classes), _count(site))
    names = [repr(label) for label in classes] or [str(code) for code in range(count)]
    if site.outcome == "binary":
        return [Event(names[1] if count > 1 else "1", y, (draws == 1).astype(int))]
    if site.outcome == "ordinal":
        limits = evenly(count - 1, MAX_EVENTS)
        return [Event(f"at most {names[k]}", (y <= k) * 1, (draws <= k) * 1) for k in limits]
    largest = np.sort(np.argsort(-np.bincount(y, minlength=count), kind="stable")[:MAX_EVENTS])
    return [Event(names[k], (y == k) * 1, (draws == k) * 1) for k in largest]
