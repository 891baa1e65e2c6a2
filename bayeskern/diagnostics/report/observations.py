"""Each observation beside what the model says of it, left out of the data where that can be done.

Vehtari, Gelman and Gabry (2017), "Practical Bayesian model evaluation using leave-one-out
cross-validation and WAIC"; Gelfand, Dey and Chang (1992) for the probability integral transform.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np
from scipy.special import ndtr, softmax

from bayeskern.diagnostics.comparison.comparison import relative_efficiency
from bayeskern.inference.approximation.psis import has_even_tail, smooth
from bayeskern.inference.posterior import predictive

# Observations that are weighted one by one; more are thinned evenly.
MOST = 2000
# Replicates at a point estimate; of sites that condition on the data they are costly.
REPLICATES, COSTLY = 1000, 100
# Fewer observations say nothing of shares; fewer draws have no tail of weights to smooth.
FEW, FEWEST_DRAWS = 20, 25
LEFT_OUT = "Each observation is predicted from all the others (leave-one-out)."
FITTED_WITH = (
    "Each observation is predicted from all the others, but at hyperparameters that were fitted "
    "with it too: with few observations or many hyperparameters this flatters the model."
)
INSIDE = (
    "These predictions have seen the observations that they are compared with, so they flatter "
    "the model: read misfit as real, and a good fit as unproven."
)

NO_SPREAD = "LOO needs a spread of the parameters, which a point estimate has not."


@dataclass(frozen=True, eq=False)
class Observations:
    """One observed site, flat.

    y: (n,); labels: (n,) of text; replicates: (S, n), new data as the model would make it, or None;
    mean: (n,), the prediction of each, and pit: (n,), where in its prediction each y lies (uniform
    if the model is right), or None; how: LEFT_OUT, FITTED_WITH or INSIDE; log_density: of each y,
    left out, where that has a closed form; loo: ArviZ's, or None.
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

    @property
    def binary(self) -> bool:
        """Whether y is one of two classes, 0 and 1."""
        seen = [self.y] if self.replicates is None else [self.y, self.replicates]
        return all(np.isin(np.unique(x), (0, 1)).all() for x in seen)

    @property
    def discrete(self) -> bool:
        """Whether all values are whole numbers, as far as the model goes."""
        seen = self.y if self.replicates is None else self.replicates
        return bool(np.all(seen == np.round(seen)))


def observations(subject) -> list[Observations]:
    """Every observed site of a model."""
    gps = {p.site.replace("/", "."): p for p in subject.processes}
    if subject.forecast is not None:
        return [_of_forecast(subject, one) for one in gps.values()]
    tree, found = subject.tree.children, []
    at_point = _at_a_point(subject) if subject.posterior.is_point and subject.has_model else {}
    for name, values in tree.get("observed_data", {}).items():
        y, labels = np.asarray(values, float).ravel(), _labels(values)
        replicates = tree.get("posterior_predictive", {}).get(name)
        replicates = at_point.get(name) if replicates is None else _rows(replicates)
        loo, why = _loo(subject, name)
        if name in gps:
            own = _of_process(subject, gps[name], labels)
            if replicates is not None and replicates.shape[1] == len(y):
                own = replace(own, replicates=replicates)
            found.append(replace(own, site=str(name), loo=loo, why_no_loo=why))
            continue
        if replicates is not None and replicates.shape[1] != len(y):
            replicates = None
        mean, pit, how = _predicted(subject, name, y, replicates)
        one = Observations(str(name), y, labels, replicates, mean, pit, how, loo=loo)
        found.append(replace(one, why_no_loo=why))
    return found


def _of_forecast(subject, process) -> Observations:
    series = subject.forecast.series
    own = _of_process(subject, process, subject.forecast.time_labels(series.times[series.observed]))
    if subject.posterior.is_point:
        return replace(own, why_no_loo=NO_SPREAD)
    loo, why = _loo(subject, process.site)
    return replace(own, loo=loo, why_no_loo=why)


def _of_process(subject, process, labels) -> Observations:
    """Each value of a Gaussian process, predicted from all the others in closed form."""
    means, variances, log_density = process.loo()
    # What the hyperparameters would be without it: truncated importance weights.
    w = softmax(-log_density, axis=0)
    w = np.minimum(w, w.mean(axis=0) * np.sqrt(len(w)))
    w /= w.sum(axis=0)
    sds, y = np.sqrt(variances), process.y
    rng = subject.rng()
    rows = rng.integers(len(means), size=COSTLY)
    return Observations(
        process.site,
        y,
        labels,
        replicates=rng.normal(means[rows], sds[rows]),
        mean=(w * means).sum(0),
        pit=(w * ndtr((y - means) / sds)).sum(0),
        how=FITTED_WITH if subject.posterior.is_point else LEFT_OUT,
        log_density=np.log((w * np.exp(log_density)).sum(0)),
    )


def _rows(values) -> np.ndarray:
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
    p, target = subject.posterior, subject.posterior.target
    given = tuple(name for name, site in subject.sites.items() if site.conditional)
    gps = {p.site for p in subject.processes}
    if (hasattr(target.model, "pointwise") and not given) or (given and gps == set(given)):
        return {}
    count = COSTLY if given else REPLICATES
    draws = {k: np.broadcast_to(v, (count, *v.shape[1:])) for k, v in predictive.latents(p).items()}
    shapes = predictive.shapes_of(target, draws, target.arguments, given)
    made = predictive.replicates(target, draws, count, given, shapes)
    made = {name: np.asarray(jax.device_get(x), float) for name, x in made.items()}
    return {name.replace("/", "."): x.reshape(count, -1) for name, x in made.items()}


def _loo(subject, name):
    """ArviZ's PSIS-LOO of a site, and why there is none."""
    import arviz as az

    if subject.posterior.is_point:
        return None, NO_SPREAD
    group = subject.tree.children.get("log_likelihood", {})
    if name not in group:
        return None, "The model gives no log likelihood for each observation, so there is no LOO."
    if group[name][0, 0].size < 2:
        return None, "Leaving out the only observation leaves nothing to learn from."
    why = _why_no_weights(_rows(group[name]))
    if why:
        return None, why
    with warnings.catch_warnings():
        # The k-hats are shown.
        warnings.simplefilter("ignore")
        reff = relative_efficiency(subject.posterior)
        if any(has_even_tail(-column, reff) for column in _rows(group[name]).T):
            return None, (
                "There are too few distinct draws to leave out an observation by weighting them, "
                "so there is no LOO."
            )
        return az.loo(subject.tree, var_name=name, pointwise=True, reff=reff), ""


def _why_no_weights(log_likelihood) -> str:
    """Why draws cannot be weighted to leave out observations, if they cannot: (S, n)."""
    count = len(log_likelihood)
    if count < FEWEST_DRAWS:
        return f"LOO takes {FEWEST_DRAWS} draws or more to weight them, and there are {count}."
    broken = ~np.isfinite(log_likelihood).all(axis=1)
    if broken.any():
        return (
            f"The log likelihood is not finite at {broken.sum():,} of {count:,} draws, so there is "
            "no LOO: look at what the model computes there."
        )
    return ""


def _predicted(subject, name, y, replicates):
    """The predicted mean and the probability integral transform of each observation, and how."""
    if replicates is None:
        return None, None, INSIDE
    rng = subject.rng()
    log_lik = subject.tree.children.get("log_likelihood", {}).get(name)
    sites = {k.replace("/", "."): s for k, s in subject.sites.items()} if subject.has_model else {}
    conditional = name in sites and sites[name].conditional
    if log_lik is None or conditional or _rows(log_lik).shape != replicates.shape or len(y) > MOST:
        return replicates.mean(0), _pit(replicates, y, None, rng), INSIDE
    log_lik = _rows(log_lik)
    w = np.stack([smooth(-column).normal for column in log_lik.T], axis=1)
    return (w * replicates).sum(0), _pit(replicates, y, w, rng), LEFT_OUT


def _pit(replicates, y, weights, rng) -> np.ndarray:
    """P(new < y) + u P(new = y), u uniform: it is uniform for discrete data too."""
    w = np.full_like(replicates, 1.0 / len(replicates)) if weights is None else weights
    less, same = (w * (replicates < y)).sum(0), (w * (replicates == y)).sum(0)
    return np.clip(less + rng.uniform(size=len(y)) * same, 0.0, 1.0)
