"""Expectations under the posterior, with their Monte Carlo standard error."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import numpy as np

from bayeskern.inference.approximation.moment_matching import Matched, Proposal, match_moments
from bayeskern.inference.approximation.proposals import Evaluable
from bayeskern.inference.approximation.psis import khat_threshold, pareto_smooth
from bayeskern.inference.assessment.clusters import variance_of_mean
from bayeskern.inference.estimate import Estimate
from bayeskern.inference.model.evaluation import join_chains, log_densities
from bayeskern.inference.model.trace.arguments import CONCRETIZATION_ERRORS
from bayeskern.inference.posterior.missing import sites_at
from bayeskern.inference.result import ANCESTOR, ISLAND, Fit


class Expectation(NamedTuple):
    """E[f] under a posterior, and its Monte Carlo standard error.

    Attributes:
        value: Mean of f over the draws, of the shape of f.
        error: Its standard error, of the same shape; NaN for a point estimate.
        khat: For weighted draws, Pareto k-hat of the weights times |f|, of the same shape; from
            `threshold` on the error is unreliable. None for unweighted draws.
        threshold: Largest k-hat at which this number of draws gives reliable means.
        matched: True if the draws were moved by moment matching.
    """

    value: np.ndarray
    error: np.ndarray
    khat: np.ndarray | None = None
    threshold: float | None = None
    matched: bool = False

    def __repr__(self) -> str:
        estimates = map(Estimate, np.ravel(self.value), np.ravel(self.error))
        shown = [repr(estimate) for estimate in estimates]
        text = shown[0] if np.ndim(self.value) == 0 else f"[{', '.join(shown)}]"
        if self.khat is None or self.threshold is None or np.all(self.khat < self.threshold):
            return text
        worst = np.max(np.where(np.isnan(self.khat), np.inf, self.khat))
        remedy = "" if self.matched else "; match=True moves the draws first"
        return f"{text}, not reliable: k-hat {worst:.2g} of weights times |f|{remedy}"


def expectation(posterior: Fit, f: Callable, match: bool = False) -> Expectation:
    """E[f] under the posterior, as `Posterior.expectation` documents it."""
    if match:
        draws, matched = _matched(posterior)
        return _self_normalised(_values(f, draws), matched.weights.log, matched.khat)
    draws, log_weights = posterior.weighted or (posterior.flat, None)
    values = _values(f, draws)
    if posterior.is_point:
        return Expectation(values[0], np.full_like(values[0], np.nan))
    if log_weights is not None:
        return _self_normalised(values, log_weights)
    value = np.mean(values, axis=0)
    if posterior.has_chains:
        return Expectation(value, _mcse(values.reshape(*posterior.shape, *value.shape)))
    if ANCESTOR in posterior.sample_stats:
        ancestors, islands = (posterior.sample_stats[name].ravel() for name in (ANCESTOR, ISLAND))
        variance = variance_of_mean(values.reshape(len(values), -1), ancestors, islands)
        return Expectation(value, np.sqrt(variance).reshape(value.shape))
    return Expectation(value, np.std(values, axis=0, ddof=1) / np.sqrt(len(values)))


def _values(f: Callable, draws: dict[str, np.ndarray]) -> np.ndarray:
    """f at each draw: (S, *shape of f)."""
    try:
        values = np.asarray(jax.jit(jax.vmap(f))(draws), float)
    except CONCRETIZATION_ERRORS as error:
        raise TypeError(
            "f must be written in JAX, which cannot trace NumPy's functions, float() or `if`. Take "
            "jax.numpy and jnp.where."
        ) from error
    except KeyError as error:
        raise ValueError(f"no site {error}: f takes a dict of {', '.join(draws)}.") from error
    bad = ~np.isfinite(values.reshape(len(values), -1)).all(axis=1)
    if bad.any():
        raise ValueError(
            f"f is NaN or infinite at {bad.sum()} of {len(values)} draws, the first at draw "
            f"{np.argmax(bad)}: it has no mean. Check its logarithms, roots and quotients."
        )
    return values


def _matched(posterior: Fit) -> tuple[dict[str, np.ndarray], Matched]:
    """Draws of the proposal after moment matching, as sites (S, *site), and with their weights."""
    target, q = posterior.fitted_target, posterior.approximation
    if not isinstance(q, Evaluable):
        raise ValueError(
            f"match=True moves draws from a proposal with a known density, and {posterior.method} "
            "has none (a file does not keep it). Fit by method='laplace', 'svi' or 'importance', "
            "or leave match=False."
        )
    z = posterior.z[0] if posterior.weighted_z is None else posterior.weighted_z[0]
    proposal = Proposal(z, q.log_density(z), q.log_density)
    matched = match_moments(proposal, partial(log_densities, target))
    return join_chains(sites_at(posterior, matched.z[None])), matched


def _self_normalised(
    values: np.ndarray, log_weights: np.ndarray, matched_khat: float | None = None
) -> Expectation:
    """sum w f, and its error by the delta method: Owen (2013), equations 9.6 and 9.8.

    matched_khat: k-hat of moment matching; None if the draws were not moved.
    """
    by_draw = values.reshape(len(values), -1)
    weights = np.exp(log_weights)
    mean = weights @ by_draw
    error = np.sqrt(np.square(weights) @ np.square(by_draw - mean))
    with np.errstate(divide="ignore"):
        logs = log_weights[:, None] + np.log(np.abs(by_draw))
    khat = np.array([pareto_smooth(column).khat for column in logs.T])
    mean, error, khat = (part.reshape(values.shape[1:]) for part in (mean, error, khat))
    if matched_khat is not None:
        khat = np.maximum(khat, matched_khat)
    return Expectation(mean, error, khat, khat_threshold(len(values)), matched_khat is not None)


def _mcse(values: np.ndarray) -> np.ndarray:
    """Standard error of the mean of chains (chains, draws, *shape), by their effective size."""
    # arviz_stats takes a while to import.
    from arviz_stats.base.array import array_stats

    error = array_stats.mcse(values, chain_axis=0, draw_axis=1, method="mean")
    # A constant has no error.
    return np.where(np.ptp(values, axis=(0, 1)) == 0.0, 0.0, error)
