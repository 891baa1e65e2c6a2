"""Simulation-based calibration: is a method right on average over a model's own prior?"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from bayeskern.core import validation
from bayeskern.core.batching import BATCH, evenly
from bayeskern.core.progress import Progress
from bayeskern.core.scalars import scalar_columns
from bayeskern.diagnostics.calibration.calibration import (
    LIKELIHOOD,
    MIN_SIMULATIONS,
    Calibration,
)
from bayeskern.diagnostics.calibration.refit import FAILURES, refit, row
from bayeskern.inference import Posterior, as_method
from bayeskern.inference.model.trace.arguments import model_arguments
from bayeskern.inference.prior_predictive import simulate
from bayeskern.inference.problem import bind
from bayeskern.protocols import DoesNotApplyError


def calibrate(
    problem,
    *args,
    method="auto",
    simulations: int = 200,
    seed: int = 0,
    draws: int = 99,
    level: float = 0.95,
    progress: bool = True,
    model_kwargs: dict | None = None,
    **kwargs,
) -> Calibration:
    """Whether a method recovers what a model's data were simulated from: `calibrate(model, X, y)`.

    Parameters and data are drawn from the model, `simulations` times. Each data set is fitted, and
    the truth is ranked among draws of its posterior, thinned evenly. Where the method is right, the
    ranks are uniform: for every latent number, and for the log likelihood, without which the prior
    in the place of the posterior would pass.

    A fit that raises an error is counted and reported, and so is one whose draws are not finite.
    Where fewer than ten simulations could be fitted, nothing is said of the method. Discrete
    latents are summed out, so they have no rank. SVI fits a plain function of sites to several data
    sets at once, by vmap; NUTS does not, since each chain would wait for the longest.

    Args:
        problem: A `Problem`, or a NumPyro model with its arguments as `infer` takes them. The data
            say which sites are observed and in what shape. Their values matter only where the model
            uses them otherwise (as for default priors, or lagged values); there they stay what they
            are.
        *args: The arguments of the model.
        method: The method to check, as in `infer`; no point estimate.
        simulations: How many data sets are simulated, at least ten.
        seed: Of the simulations and of the fits.
        draws: Among how many draws the truth is ranked.
        level: Of the verdict: the probability that a method that is right is not faulted is at
            least this, however many parameters there are.
        progress: Whether to show a progress bar.
        model_kwargs: Named arguments of the model that have the name of an option here.
        **kwargs: Other named arguments of the model.

    Returns:
        The ranks, and a verdict on the method.

    Raises:
        ValueError: If the prior of a site, which is named, cannot be drawn from; if the method
            gives a point or fewer draws than `draws`; if no data set could be fitted; if an option
            may be meant for the model.

    References:
        Talts, Betancourt, Simpson, Vehtari and Gelman (2018), "Validating Bayesian inference
        algorithms with simulation-based calibration"; Modrak et al. (2023), "Simulation-based
        calibration checking for Bayesian computation: the choice of test quantities shapes
        sensitivity".
    """
    options = {"method": method, "simulations": simulations, "seed": seed, "draws": draws}
    options |= {"level": level, "progress": progress}
    kwargs = model_arguments(calibrate, problem, args, kwargs, model_kwargs, options)
    validation.positive_integer(draws, "draws")
    level, method = validation.level(level), _method_with_draws(method)
    if validation.positive_integer(simulations, "simulations") < MIN_SIMULATIONS:
        raise ValueError(
            f"simulations must be at least {MIN_SIMULATIONS}, since fewer tell nothing; got "
            f"{simulations}."
        )
    bound_model = bind(problem, args, kwargs)
    target = bound_model.target()
    target.require_latents()
    target.require_summable()
    if any(s.name == LIKELIHOOD for s in target.latents):
        raise ValueError(
            f"a site is named {LIKELIHOOD!r}, as the log density of the data is here. Rename it."
        )
    truths, data = simulate(target, simulations, seed)
    truths = {s.name: truths[s.name] for s in target.latents}
    seeds = np.random.SeedSequence(seed).generate_state(simulations).tolist()
    ranked, failures = [], {}
    with Progress("calibrate", simulations, progress) as bar:
        for i, fit in enumerate(refit(bound_model, target, data, method, seeds)):
            try:
                ranked.append(_rank(fit(), row(truths, i), draws))
            except (DoesNotApplyError, TooFewDrawsError):
                # It would be the same for every simulation.
                raise
            except FAILURES as error:
                failures[i] = str(error)
            bar.to(i + 1, f"{len(failures)} failed" if failures else "")
    if not ranked:
        raise ValueError(
            f"none of the {simulations} simulated data sets could be fitted; the first failed so: "
            f"{failures[0]}"
        )
    return _calibration(ranked, failures, draws, level, seed, target.discrete)


class TooFewDrawsError(ValueError):
    """There are fewer draws than the truth is to be ranked among."""


def _method_with_draws(method):
    """The method itself, or a new one of that name; refused where it gives a point."""
    method = as_method(method)
    if method.is_point:
        raise ValueError(
            f"method={method.name!r} gives a point, among which the truth has no rank. Take one "
            "that gives draws, such as 'laplace' or 'nuts'."
        )
    return method


# -- one simulation --------------------------------------------------------------------------------


class RankedTruth(NamedTuple):
    """The truth among the draws of one posterior.

    truth: the values; below, equal: how many draws are below it and equal to it; mean, sd: of the
    posterior. Each is (parameters,), the last of which is the log likelihood.
    """

    method: str
    names: list[str]
    truth: np.ndarray
    below: np.ndarray
    equal: np.ndarray
    mean: np.ndarray
    sd: np.ndarray
    verdict: str


def _rank(posterior: Posterior, truth: dict, count: int) -> RankedTruth:
    """Rank the truth of each latent of the posterior, and its log likelihood, among `count` draws.

    truth: the value of each latent.
    """
    # Latents may have been integrated out of the model, or replaced for a method.
    latents = [s.name for s in posterior.target.latents if s.name in truth]
    flat = {name: posterior.flat[name] for name in latents}
    total = len(next(iter(flat.values())))
    if total < count:
        raise TooFewDrawsError(
            f"{posterior.method} gives {total} draws, fewer than the {count} that the truth is to "
            "be ranked among. Take more draws of it, or a smaller draws=."
        )
    rows = evenly(total, count)
    truth_first = {name: np.concatenate([truth[name][None], flat[name][rows]]) for name in latents}
    names, values = scalar_columns(truth_first)
    log_likelihoods = np.asarray(_log_likelihoods(posterior.target, truth_first))
    names, values = [*names, LIKELIHOOD], np.column_stack([values, log_likelihoods])
    if not np.all(np.isfinite(values)):
        wrong = names[int(np.argmax(~np.all(np.isfinite(values), axis=0)))]
        raise FloatingPointError(f"the draws or the truth of {wrong!r} are not finite")
    _, all_draws = scalar_columns(flat)
    true_values, drawn = values[0], values[1:]
    return RankedTruth(
        posterior.method,
        names,
        true_values,
        np.sum(drawn < true_values, axis=0),
        np.sum(drawn == true_values, axis=0),
        np.append(all_draws.mean(axis=0), drawn[:, -1].mean()),
        np.append(all_draws.std(axis=0), drawn[:, -1].std()),
        posterior.trust.verdict,
    )


@eqx.filter_jit
def _log_likelihoods(target, values):
    """log p(data | values), for values of each latent (S, shape): (S,)."""

    def log_likelihood(value):
        return target.log_density(target.unconstrain(value)[0], jacobian=False, prior=False)

    return jax.lax.map(log_likelihood, jax.tree.map(jnp.asarray, values), batch_size=BATCH)


# -- all of them -----------------------------------------------------------------------------------


def _calibration(ranked: list[RankedTruth], failures, draws, level, seed, left_out) -> Calibration:
    # With method="auto" what is integrated out may differ from fit to fit.
    names = [n for n in ranked[0].names if all(n in r.names for r in ranked)]

    def stacked(field) -> np.ndarray:
        by_name = [dict(zip(r.names, getattr(r, field), strict=True)) for r in ranked]
        return np.array([[values[name] for name in names] for values in by_name])

    truth, below, equal = stacked("truth"), stacked("below"), stacked("equal")
    mean, sd = stacked("mean"), stacked("sd")
    rng = np.random.default_rng([seed, len(ranked)])
    ranks = below + rng.integers(0, equal + 1)
    uniforms = (ranks + rng.random(ranks.shape)) / (draws + 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        z_scores = (mean - truth) / sd
        # A single truth has no variance.
        prior_variance = truth.var(axis=0, ddof=1) if len(truth) > 1 else np.nan
        shrinkage = np.square(sd) / prior_variance

    def by_name(values):
        return dict(zip(names, values.T, strict=True))

    return Calibration(
        method=", ".join(Counter(r.method for r in ranked)),
        draws=draws,
        level=level,
        truth=by_name(truth),
        ranks=by_name(ranks),
        uniforms=by_name(uniforms),
        z_scores=by_name(z_scores),
        shrinkage=by_name(shrinkage),
        verdicts=dict(Counter(r.verdict for r in ranked)),
        failures=failures,
        left_out=tuple(left_out),
    )
