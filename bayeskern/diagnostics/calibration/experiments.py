"""Simulated data sets with known truths, from the prior or given data."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from bayeskern.core.batching import evenly
from bayeskern.diagnostics.calibration.augmented import augmented_target, simulate_given
from bayeskern.diagnostics.calibration.calibration import LIKELIHOOD
from bayeskern.diagnostics.calibration.refit import refit, refit_template
from bayeskern.inference import Method, Posterior, Target, as_method
from bayeskern.inference.assessment.approximation import is_reliable
from bayeskern.inference.methods.registry import METHODS
from bayeskern.inference.model.bound import BoundModel
from bayeskern.inference.model.trace.validation import CannotDrawError
from bayeskern.inference.prior_predictive import simulate
from bayeskern.protocols import DoesNotApplyError


class Experiment(NamedTuple):
    """Simulated data sets with known truths, and the fits of a method to them.

    Attributes:
        truths: True values by site, (simulations, *site), of all latents of the fitted models.
        ranked: Names of the sites whose elements are ranked.
        fits: A function for each data set that fits it.
        left_out: Sites without a rank.
    """

    truths: dict[str, np.ndarray]
    ranked: tuple[str, ...]
    fits: Iterator[Callable[[], Posterior]]
    left_out: tuple[str, ...]


def over_prior(bound_model: BoundModel, method: Method, simulations: int, seed: int) -> Experiment:
    """Truths from the prior, and fits of data sets drawn at them."""
    target = bound_model.target()
    _require_rankable(target)
    truths, data = simulate(target, simulations, seed)
    latents = tuple(s.name for s in target.latents)
    fits = refit(bound_model, target, data, method, _seeds(seed, simulations))
    return Experiment({k: truths[k] for k in latents}, latents, fits, target.discrete)


def given_data(
    posterior: Posterior, method: str | Method | None, simulations: int, seed: int
) -> Experiment:
    """Truths from a posterior, and fits of its data together with data drawn at them.

    The model has the form in which it was fitted, such as with latents integrated out.
    """
    if posterior.target is None:
        raise ValueError(
            "calibrate simulates from the model, and this posterior was loaded without it. Load it "
            "with bk.load(path, model=...)."
        )
    if posterior.is_point:
        raise ValueError(
            f"calibrate needs draws from the posterior, and {posterior.method!r} gives a point. "
            "Take a method with draws, such as 'laplace' or 'nuts'."
        )
    method = _method_of(posterior) if method is None else checked_method(method)
    if method.reads_arguments:
        raise DoesNotApplyError(
            f"{method.name} with a hand-written guide reads the arguments of the model, which hold "
            "one data set only. Take a guide by name, or calibrate(model, ..., method=...)."
        )
    target = posterior.fitted_target
    _require_rankable(target)
    flat = posterior.fitted_draws
    total = len(next(iter(flat.values())))
    if total < simulations:
        raise ValueError(
            f"the posterior has {total} draws, and each of simulations={simulations} needs one. "
            "Reduce simulations=, or let the method give more draws."
        )
    rows = _truth_rows(posterior, simulations)
    truths = {name: values[rows] for name, values in flat.items()}
    latents = {s.name: truths[s.name] for s in target.latents}
    try:
        data = simulate_given(target, latents, seed)
    except CannotDrawError as reason:
        form = "" if posterior.marginalized is None else ", with latents integrated out"
        raise DoesNotApplyError(
            f"new data cannot be drawn from {_name(posterior.known_target.model)} as it was fitted"
            f"{form}: {reason} Check the method on average over the prior instead: "
            "bk.calibrate(model, X, y, method=...)."
        ) from reason
    template = augmented_target(target, data)
    fits = refit_template(template, data, method, _seeds(seed, simulations))
    # Sites of the fitted form, such as rotated weights, are not sites of the model.
    ranked = [name for name in latents if name in posterior.draws]
    if posterior.marginalized is not None:
        ranked += [name for name in target.deterministics if name in posterior.draws]
    left_out = [s.name for s in posterior.known_target.latents if s.name not in ranked]
    return Experiment(truths, tuple(ranked), fits, (*left_out, *target.discrete))


def _truth_rows(posterior: Posterior, count: int) -> np.ndarray:
    """Indices of `count` draws of a posterior, resampled if they have weights.

    Truths from a wrong posterior hide its fault; systematic resampling by reliable weights corrects
    them.
    """
    weights = posterior.importance_weights
    if weights is None or not is_reliable(weights):
        return evenly(len(posterior.z.reshape(-1, posterior.z.shape[-1])), count)
    return np.searchsorted(np.cumsum(weights.normal), (np.arange(count) + 0.5) / count)


def _require_rankable(target: Target) -> None:
    """Raise ValueError if a model has no latents, or one has a reserved name."""
    target.require_latents()
    target.require_summable()
    if any(s.name == LIKELIHOOD for s in target.latents):
        raise ValueError(
            f"the name {LIKELIHOOD!r} is reserved for the log density of the data; rename the site."
        )


def _name(model: Callable) -> str:
    return getattr(model, "__name__", type(model).__name__)


def _seeds(seed: int, count: int) -> list[int]:
    return np.random.SeedSequence(seed).generate_state(count).tolist()


def checked_method(method: str | Method) -> Method:
    """The method; raises ValueError for a point estimate."""
    method = as_method(method)
    if method.is_point:
        raise ValueError(
            f"method={method.name!r} gives a point, which cannot rank the truth. Take a method "
            "with draws, such as 'laplace' or 'nuts'."
        )
    return method


def _method_of(posterior: Posterior) -> Method:
    """The method that made a posterior, with its options if they are known.

    Raises ValueError if the method cannot be repeated.
    """
    if posterior.method == "exact":
        raise DoesNotApplyError(
            "the draws of this posterior come from a closed form, which is not known for your data "
            "and simulated data together. Check another method at these data, as in "
            "calibrate(posterior, method='nuts'), or the closed form over the prior: "
            "calibrate(model, ..., method='exact')."
        )
    method = posterior.made_by
    if method is None and posterior.method not in METHODS:
        raise ValueError(
            f"calibrate cannot repeat the method {posterior.method!r} of this posterior. Name the "
            "method to check, as in calibrate(posterior, method='nuts')."
        )
    method = checked_method(method or posterior.method)
    if getattr(method, "checkpoint", None) is not None:
        # The checkpoint belongs to the fit of the posterior.
        method = dataclasses.replace(method, checkpoint=None)  # pyright: ignore
    return method
