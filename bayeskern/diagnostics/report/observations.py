"""Each observation beside its prediction: by leave-one-out where that can be done.

Vehtari, Gelman and Gabry (2017), "Practical Bayesian model evaluation using leave-one-out
cross-validation and WAIC"; Gelfand, Dey and Chang (1992) for the probability integral transform.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import ndtr, softmax

from bayeskern.diagnostics.loo import psis_loo, relative_efficiency
from bayeskern.forecast.combine.predictive import predictive_of_others
from bayeskern.inference.approximation.psis import has_even_tail, pareto_smooth

# The most observations of a site for which draws are weighted to leave out each of them.
MAX_WEIGHTED = 2000
# Replicates at a point estimate; those of sites that condition on the data are costly.
REPLICATES, COSTLY_REPLICATES = 1000, 100
# Fewer observations say nothing of shares; fewer draws have no tail of weights to smooth.
MIN_OBSERVATIONS, MIN_DRAWS = 20, 25
LEFT_OUT = "Each observation is predicted from all the others (leave-one-out)."
FITTED_WITH = (
    "Each observation is predicted from all the others, but at hyperparameters that were fitted "
    "with it too: with few observations or many hyperparameters this flatters the model."
)
IN_SAMPLE = (
    "These predictions have seen the observations that they are compared with, so they flatter "
    "the model: read misfit as real, and a good fit as unproven."
)

NO_SPREAD = "LOO needs a spread of the parameters, which a point estimate has not."


@dataclass(frozen=True, eq=False)
class Observations:
    """One observed site, laid flat.

    y: (n,). labels: a text for each of them. replicates: (S, n), new data as the model would make
    it, or None. mean: (n,), the prediction of each observation, or None. pit: (n,), the probability
    integral transform, which is uniform if the model is right, or None. how: LEFT_OUT, FITTED_WITH
    or IN_SAMPLE. log_density: (n,), of each y left out, where that has a closed form. loo: ArviZ's
    PSIS-LOO, or None. back: from values of y to the units of the data.
    """

    site: str
    y: np.ndarray
    labels: list[str]
    replicates: np.ndarray | None
    mean: np.ndarray | None
    pit: np.ndarray | None
    how: str
    log_density: np.ndarray | None = None
    loo: Any = None
    why_no_loo: str = ""
    back: Callable[[np.ndarray], np.ndarray] = np.asarray

    @property
    def binary(self) -> bool:
        """Whether y is one of two classes, 0 and 1."""
        values = [self.y] if self.replicates is None else [self.y, self.replicates]
        return all(np.isin(np.unique(x), (0, 1)).all() for x in values)

    @property
    def discrete(self) -> bool:
        """Whether all values are whole numbers, as far as the model goes."""
        values = self.y if self.replicates is None else self.replicates
        return bool(np.all(values == np.round(values)))


def observations(subject) -> list[Observations]:
    """Every observed site of a model."""
    processes = {p.site.replace("/", "."): p for p in subject.processes}
    if subject.forecast is not None:
        return [_of_forecast(subject, process) for process in processes.values()]
    tree = subject.tree.children
    at_point = _at_a_point(subject) if subject.posterior.is_point and subject.has_model else {}
    all_observations = []
    for name, values in tree.get("observed_data", {}).items():
        y, labels = np.asarray(values, float).ravel(), _labels(values)
        replicates = tree.get("posterior_predictive", {}).get(name)
        replicates = at_point.get(name) if replicates is None else _joined(replicates)
        if replicates is not None and replicates.shape[1] != len(y):
            replicates = None
        loo, why_no_loo = _loo(subject, name)
        if name in processes:
            site = _of_process(subject, processes[name], labels)
            if replicates is not None:
                site = replace(site, replicates=replicates)
        else:
            mean, pit, how = _predicted(subject, name, y, replicates)
            site = Observations(str(name), y, labels, replicates, mean, pit, how)
        all_observations.append(replace(site, site=str(name), loo=loo, why_no_loo=why_no_loo))
    return all_observations


def _of_forecast(subject, process) -> Observations:
    series = subject.forecast.series
    labels = subject.forecast.time_labels(series.times[series.observed])
    if subject.forecast.choices.likelihood is not None:
        return _of_counts(subject, process, labels)
    return replace(_of_process(subject, process, labels), back=subject.forecast.scale.back)


def _of_counts(subject, process, labels) -> Observations:
    """Each value of a forecast through a likelihood, predicted from all the others."""
    f, y, rng = subject.forecast, subject.forecast.leading.y, subject.rng()
    given_others = predictive_of_others(f.parts, f.seed)
    whole = f.choices.likelihood.whole
    low, high = given_others.below(y - 1.0 if whole else y), given_others.below(y)
    return Observations(
        process.site,
        y,
        labels,
        replicates=given_others.sample_each(COSTLY_REPLICATES, rng),
        mean=given_others.moments[0],
        # Czado, Gneiting and Held (2009), "Predictive model assessment for count data".
        pit=low + rng.random(len(y)) * (high - low),
        how=FITTED_WITH,
        log_density=given_others.log_density(y),
    )


def _of_process(subject, process, labels) -> Observations:
    """Each value of a Gaussian process, predicted from all the others in closed form."""
    means, variances, log_density = process.loo()
    # What the hyperparameters would be without it: truncated importance weights.
    w = softmax(-log_density, axis=0)
    w = np.minimum(w, w.mean(axis=0) * np.sqrt(len(w)))
    w /= w.sum(axis=0)
    sds, y = np.sqrt(variances), process.y
    rng = subject.rng()
    rows = rng.integers(len(means), size=COSTLY_REPLICATES)
    return Observations(
        process.site,
        y,
        labels,
        replicates=rng.normal(means[rows], sds[rows]),
        mean=(w * means).sum(0),
        pit=(w * ndtr((y - means) / sds)).sum(0),
        how=FITTED_WITH if len(means) == 1 else LEFT_OUT,
        log_density=np.log((w * np.exp(log_density)).sum(0)),
    )


def _joined(values) -> np.ndarray:
    """Draws (chains, draws, shape) as a matrix with a row for each draw."""
    values = np.asarray(values, float)
    return values.reshape(values.shape[0] * values.shape[1], -1)


def _labels(values) -> list[str]:
    """A name for each observation: its labels along the named axes."""
    axes = [[str(x) for x in np.asarray(values[d])] for d in values.dims]
    return [
        ", ".join(axis[i] for axis, i in zip(axes, place, strict=True))
        for place in np.ndindex(values.shape)
    ]


def _at_a_point(subject) -> dict[str, np.ndarray]:
    """New data at a point estimate, for sites whose observations are not masked."""
    conditional = {name for name, site in subject.sites.items() if site.conditional}
    if conditional and conditional == {process.site for process in subject.processes}:
        # Their left-out predictions serve as replicates.
        return {}
    count = COSTLY_REPLICATES if conditional else REPLICATES
    return {
        name.replace("/", "."): np.asarray(values, float).reshape(count, -1)
        for name, values in subject.posterior.replicates(count).items()
    }


# -- leaving out observations ----------------------------------------------------------------------


def _loo(subject, name):
    """ArviZ's PSIS-LOO of a site, and why there is none."""
    if subject.posterior.is_point:
        return None, NO_SPREAD
    group = subject.tree.children.get("log_likelihood", {})
    if name not in group:
        return None, "The model gives no log likelihood for each observation, so there is no LOO."
    if group[name][0, 0].size < 2:
        return None, "Leaving out the only observation leaves nothing to learn from."
    log_likelihood = _joined(group[name])
    why = _why_no_weights(log_likelihood)
    if why:
        return None, why
    efficiency = relative_efficiency(subject.posterior)
    if any(has_even_tail(-column, efficiency) for column in log_likelihood.T):
        return None, (
            "There are too few distinct draws to leave out an observation by weighting them, "
            "so there is no LOO."
        )
    return psis_loo(subject.tree, name, efficiency), ""


def _why_no_weights(log_likelihood) -> str:
    """Why draws cannot be weighted to leave out observations, if they cannot: (S, n)."""
    count = len(log_likelihood)
    if count < MIN_DRAWS:
        return f"LOO takes {MIN_DRAWS} draws or more to weight them, and there are {count}."
    broken = ~np.isfinite(log_likelihood).all(axis=1)
    if broken.any():
        return (
            f"The log likelihood is not finite at {broken.sum():,} of {count:,} draws, so there is "
            "no LOO: look at what the model computes there."
        )
    return ""


def _predicted(subject, name, y, replicates):
    """The mean and the probability integral transform of each observation, and how it was left out.

    Both are None without replicates.
    """
    if replicates is None:
        return None, None, IN_SAMPLE
    weights = _loo_weights(subject, name, replicates.shape)
    how = IN_SAMPLE if weights is None else LEFT_OUT
    if weights is None:
        weights = np.full_like(replicates, 1.0 / len(replicates))
        mean = replicates.mean(0)
    else:
        mean = (weights * replicates).sum(0)
    return mean, _pit(replicates, y, weights, subject.rng()), how


def _loo_weights(subject, name, shape) -> np.ndarray | None:
    """The weights (S, n) of draws with each observation left out; None where they are not known."""
    log_likelihood = subject.tree.children.get("log_likelihood", {}).get(name)
    sites = {k.replace("/", "."): s for k, s in subject.sites.items()} if subject.has_model else {}
    conditional = name in sites and sites[name].conditional
    if log_likelihood is None or conditional or shape[1] > MAX_WEIGHTED:
        return None
    log_likelihood = _joined(log_likelihood)
    if log_likelihood.shape != shape:
        return None
    return np.stack([pareto_smooth(-column).normal for column in log_likelihood.T], axis=1)


def _pit(replicates, y, weights, rng) -> np.ndarray:
    """P(new < y) + u P(new = y), u uniform: it is uniform for discrete data too."""
    less, same = (weights * (replicates < y)).sum(0), (weights * (replicates == y)).sum(0)
    return np.clip(less + rng.uniform(size=len(y)) * same, 0.0, 1.0)
