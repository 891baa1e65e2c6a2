"""Observations and their predictions, from leave-one-out where possible.

Vehtari, Gelman and Gabry (2017), "Practical Bayesian model evaluation using leave-one-out
cross-validation and WAIC"; Gelfand, Dey and Chang (1992) for the probability integral transform.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from scipy.special import ndtr, softmax

from bayeskern.diagnostics.leave_one_out.loo import loo_by_site
from bayeskern.diagnostics.leave_one_out.result import CrossValidation
from bayeskern.forecast.combine.predictive import predictive_of_others
from bayeskern.inference.approximation.psis import pareto_smooth
from bayeskern.inference.model.trace.axes import netcdf_name
from bayeskern.inference.posterior.log_likelihood import powers_of
from bayeskern.prediction.response_mixture import ResponseMixture
from bayeskern.reports.outcomes import Outcome, outcomes
from bayeskern.reports.processes import ForecastProcess, Process
from bayeskern.reports.subject import ForecastSubject, Subject

if TYPE_CHECKING:
    import xarray as xr

# Number of replicates if they condition on the data, which is costly.
COSTLY_REPLICATES = 100
# Minimum number of observations for shares to be shown.
MIN_OBSERVATIONS = 20
# Outcomes whose values are classes.
CLASS_OUTCOMES = ("binary", "ordinal", "categorical")

How = Literal["left_out", "fitted_with", "in_sample"]


@dataclass(frozen=True, eq=False)
class Observations:
    """One observed site, flattened.

    Attributes:
        site: Name of the site.
        y: Observed values, (n,).
        labels: Name of each observation.
        replicates: New data drawn from the model, (S, n), or None.
        mean: Prediction of each observation, (n,), or None.
        pit: Probability integral transform, (n,), uniform if the model is right; or None.
        outcome: Kind of the observations.
        how: "left_out" if each observation is predicted from all the others; "fitted_with" if it
            is, but at hyperparameters fitted to all observations; "in_sample" if it is part of the
            fit.
        predictions: Draws of each observation of a class from its prediction, (S, n), or None.
        log_density: Log density of each left-out y, (n,), if it has a closed form.
        loo: Leave-one-out, or None.
        why_no_loo: Reason for a missing `loo`.
        back: Map from values of y to the units of the data.
    """

    site: str
    y: np.ndarray
    labels: list[str]
    replicates: np.ndarray | None
    mean: np.ndarray | None
    pit: np.ndarray | None
    how: How
    outcome: Outcome = "continuous"
    predictions: np.ndarray | None = None
    log_density: np.ndarray | None = None
    loo: CrossValidation | None = None
    why_no_loo: str = ""
    back: Callable[[np.ndarray], np.ndarray] = np.asarray

    @property
    def has_classes(self) -> bool:
        """True if the observations are classes."""
        return self.outcome in CLASS_OUTCOMES

    @property
    def discrete(self) -> bool:
        """True if the observations are whole numbers."""
        return self.outcome != "continuous"


def observations(subject: Subject) -> list[Observations]:
    """Observed sites of a model."""
    processes = {netcdf_name(p.site): p for p in subject.processes}
    at_point = (
        _replicates_at_point(subject) if subject.posterior.is_point and subject.has_model else {}
    )
    kinds: dict[str, Outcome] = {}
    if subject.has_model:
        by_site = outcomes(subject.posterior.known_target)
        kinds = {netcdf_name(name): kind for name, kind in by_site.items()}
    all_observations = []
    predictive = subject.group("posterior_predictive")
    for key, values in subject.group("observed_data").items():
        name = str(key)
        y, labels = np.asarray(values, float).ravel(), _labels(values)
        replicates = _joined(predictive[name]) if name in predictive else at_point.get(name)
        if replicates is not None and replicates.shape[1] != len(y):
            replicates = None
        # Events may be missing in part.
        if (observed := ~np.isnan(y)).sum() < len(y):
            y, labels = y[observed], [labels[i] for i in np.flatnonzero(observed)]
            replicates = None if replicates is None else replicates[:, observed]
        loo, why_no_loo = _loo(subject, name)
        if name in processes:
            site = _of_process(processes[name], labels, subject.rng())
            if replicates is not None:
                site = replace(site, replicates=replicates)
        else:
            outcome = _outcome(kinds.get(name), y, replicates)
            predicted = _predicted(subject, name, y, replicates, outcome in CLASS_OUTCOMES)
            site = Observations(name, y, labels, replicates, outcome=outcome, **predicted)
        all_observations.append(replace(site, site=name, loo=loo, why_no_loo=why_no_loo))
    return all_observations


def _outcome(kind: Outcome | None, y: np.ndarray, replicates: np.ndarray | None) -> Outcome:
    """Kind of observations, from their distribution or else from their values.

    kind: Kind by the distribution of the site; None if unknown.
    """
    arrays = [y] if replicates is None else [y, replicates]
    if kind != "continuous" and all(np.isin(x, (0, 1)).all() for x in arrays):
        return "binary"
    if kind is not None:
        return kind
    return "count" if all(np.array_equal(x, np.round(x)) for x in arrays) else "continuous"


def observations_of_forecast(subject: ForecastSubject) -> Observations:
    """Observed values of the series of a forecast, with their predictions."""
    f, process, rng = subject.forecast, subject.process, np.random.default_rng(subject.seed)
    labels = f.time_labels(f.series.times[f.series.observed])
    if f.choices.likelihood is None:
        return replace(_of_process(process, labels, rng), back=f.scale.back)
    # With a likelihood each value is predicted from all the others by a mixture.
    y, given_others = process.fitted.y, predictive_of_others(f.parts, f.seed)
    assert isinstance(given_others, ResponseMixture)
    # P(Y < y) and P(Y <= y), between which the PIT of a whole number is drawn.
    low = given_others.below(y - 1.0 if f.choices.likelihood.whole else y)
    high = given_others.below(y)
    return Observations(
        process.site,
        y,
        labels,
        replicates=given_others.sample_each(COSTLY_REPLICATES, rng),
        mean=given_others.mean,
        # Czado, Gneiting and Held (2009), "Predictive model assessment for count data".
        pit=low + rng.random(len(y)) * (high - low),
        how="fitted_with",
        outcome="count" if f.choices.likelihood.whole else "continuous",
        log_density=given_others.log_density(y),
    )


def _of_process(
    process: Process | ForecastProcess, labels: list[str], rng: np.random.Generator
) -> Observations:
    """Values of a Gaussian process, each predicted from all the others in closed form."""
    means, variances, log_density = process.loo()
    # Weights 1 / p(y_i | others, draw) for leave-one-out, truncated at sqrt(S) times their mean.
    w = softmax(-log_density, axis=0)
    w = np.minimum(w, w.mean(axis=0) * np.sqrt(len(w)))
    w /= w.sum(axis=0)
    sds, y = np.sqrt(variances), process.y
    rows = rng.integers(len(means), size=COSTLY_REPLICATES)
    return Observations(
        process.site,
        y,
        labels,
        replicates=rng.normal(means[rows], sds[rows]),
        mean=(w * means).sum(0),
        pit=(w * ndtr((y - means) / sds)).sum(0),
        how="fitted_with" if len(means) == 1 else "left_out",
        log_density=np.log((w * np.exp(log_density)).sum(0)),
    )


def _joined(values: xr.DataArray) -> np.ndarray:
    """Draws (chains, draws, shape) as a matrix with a row for each draw."""
    draws = np.asarray(values, float)
    return draws.reshape(draws.shape[0] * draws.shape[1], -1)


def _labels(values: xr.DataArray) -> list[str]:
    """Names of observations: their labels along the axes."""
    axes = [[str(x) for x in np.asarray(values[d])] for d in values.dims]
    return [
        ", ".join(axis[i] for axis, i in zip(axes, index, strict=True))
        for index in np.ndindex(values.shape)
    ]


def _replicates_at_point(subject: Subject) -> dict[str, np.ndarray]:
    """Replicates at a point estimate, for sites whose observations are not masked."""
    conditional = {name for name, site in subject.sites.items() if site.conditional}
    if conditional and conditional == {process.site for process in subject.processes}:
        # Left-out predictions of the processes serve as replicates.
        return {}
    count = COSTLY_REPLICATES if conditional else 1000
    return {
        netcdf_name(name): np.asarray(values, float).reshape(count, -1)
        for name, values in subject.posterior.replicates(count).items()
    }


# -- leave-one-out --------------------------------------------------------------------------------


def _loo(subject: Subject, name: str) -> tuple[CrossValidation | None, str]:
    """Leave-one-out of a site, or None with the reason."""
    group = subject.group("log_likelihood")
    if subject.posterior.is_point:
        loo = "LOO needs a spread of the parameters, and a point estimate has none."
    elif name not in group:
        loo = "The model gives no log likelihood of single observations, so LOO is unavailable."
    else:
        # Names in the groups of ArviZ have no slashes.
        site = next((s for s in subject.sites if netcdf_name(s) == name), name)
        loo = loo_by_site(subject.posterior, {site: group[name].values})[site]
    return (None, loo) if isinstance(loo, str) else (loo, "")


def _predicted(
    subject: Subject, name: str, y: np.ndarray, replicates: np.ndarray | None, classes: bool
) -> dict[str, Any]:
    """Fields of `Observations` that concern predictions; None without replicates.

    classes: Add draws from the predictions.
    """
    if replicates is None:
        return {"mean": None, "pit": None, "how": "in_sample"}
    weights = _loo_weights(subject, name, replicates.shape)
    how: How = "in_sample" if weights is None else "left_out"

    def mean(values: np.ndarray) -> np.ndarray:
        return np.mean(values, axis=0) if weights is None else np.sum(weights * values, axis=0)

    # P(new < y) + u P(new = y) for uniform u is uniform for discrete data too.
    p_less, p_equal = mean(replicates < y), mean(replicates == y)
    pit = np.clip(p_less + subject.rng().uniform(size=len(y)) * p_equal, 0.0, 1.0)
    fields = {"mean": mean(replicates), "pit": pit, "how": how}
    if classes:
        fields["predictions"] = (
            replicates if weights is None else _resampled(replicates, weights, subject.rng())
        )
    return fields


def _resampled(replicates: np.ndarray, weights: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Resample weighted draws (S, n) of each column systematically."""
    count, columns = replicates.shape
    points = (rng.permutation(count) + 0.5) / count
    return np.stack(
        [
            replicates[np.searchsorted(np.cumsum(weights[:, i]) / weights[:, i].sum(), points), i]
            for i in range(columns)
        ],
        axis=1,
    )


def _loo_weights(subject: Subject, name: str, shape: tuple[int, ...]) -> np.ndarray | None:
    """Leave-one-out weights (S, n) of the draws; None if they are unknown."""
    group = subject.group("log_likelihood")
    conditional = any(s.conditional and netcdf_name(k) == name for k, s in subject.sites.items())
    # More than 2000 observations would take too long.
    if name not in group or conditional or shape[1] > 2000:
        return None
    log_likelihood = _joined(group[name])
    if log_likelihood.shape != shape:
        return None
    powers = powers_of(subject.posterior) if subject.posterior.target is not None else {}
    named = {netcdf_name(site): power.ravel() for site, power in powers.items()}
    powered = log_likelihood * named.get(name, 1.0)
    return np.stack([pareto_smooth(-column).normal for column in powered.T], axis=1)
