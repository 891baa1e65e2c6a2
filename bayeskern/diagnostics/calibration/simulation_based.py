"""Simulation-based calibration of a method, on average over the prior of a model."""

from __future__ import annotations

from collections import Counter
from typing import Any

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
from bayeskern.inference import Method, Posterior, as_method
from bayeskern.inference.model.trace.arguments import model_arguments
from bayeskern.inference.prior_predictive import simulate
from bayeskern.inference.problem import bind
from bayeskern.protocols import DoesNotApplyError


def calibrate(
    problem: Any,
    *args: Any,
    method: str | Method = "auto",
    simulations: int = 200,
    seed: int = 0,
    draws: int = 99,
    level: float = 0.95,
    progress: bool = True,
    model_kwargs: dict | None = None,
    **kwargs: Any,
) -> Calibration:
    """Check a method by simulation-based calibration: `calibrate(model, X, y)`.

    Parameters and data are drawn from the model, `simulations` times. Each data set is fitted, and
    the truth is ranked among evenly thinned draws of the posterior. If the method is right, the
    ranks are uniform for every parameter, and for the log likelihood, which exposes methods that
    ignore the data and return the prior.

    Fits that raise an error or have non-finite draws are counted and reported. With fewer than ten
    fits there is no verdict. Discrete latents are summed out and have no rank.
    SVI fits a plain NumPyro model to several data sets at once, by vmap. NUTS does not, because
    each chain would wait for the longest.

    Args:
        problem: A `Problem`, or a NumPyro model with its arguments as in `infer`. The data define
            the observed sites and their shapes. Their values matter only if the model also uses
            them elsewhere, such as for default priors or lagged values.
        *args: Arguments of the model.
        method: Method to check, as in `infer`, except for point estimates.
        simulations: Number of simulated data sets, at least ten.
        seed: Seed of the simulations and of the fits.
        draws: Number of draws among which the truth is ranked.
        level: Least probability that no parameter has a fault if the method is right.
        progress: True to show a progress bar.
        model_kwargs: Named arguments of the model whose names are options of `calibrate` too.
        **kwargs: Other named arguments of the model.

    Returns:
        The ranks, and a verdict on the method.

    Raises:
        ValueError: If the prior of a site cannot be sampled; if the method gives a point or
            fewer draws than `draws`; if no data set could be fitted; if an option has the
            name of an argument of the model.

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
    level, method = validation.level(level), as_method(method)
    if method.is_point:
        raise ValueError(
            f"method={method.name!r} gives a point, which cannot rank the truth. Take a method "
            "with draws, such as 'laplace' or 'nuts'."
        )
    if validation.positive_integer(simulations, "simulations") < MIN_SIMULATIONS:
        raise ValueError(
            f"simulations must be at least {MIN_SIMULATIONS}, since fewer show no fault; got "
            f"{simulations}."
        )
    bound_model = bind(problem, args, kwargs)
    target = bound_model.target()
    target.require_latents()
    target.require_summable()
    if any(s.name == LIKELIHOOD for s in target.latents):
        raise ValueError(
            f"the name {LIKELIHOOD!r} is reserved for the log density of the data; rename the site."
        )
    truths, data = simulate(target, simulations, seed)
    truths = {s.name: truths[s.name] for s in target.latents}
    seeds = np.random.SeedSequence(seed).generate_state(simulations).tolist()
    ranked, failures = [], {}
    methods, verdicts = Counter[str](), Counter[str]()
    with Progress("calibrate", simulations, progress) as bar:
        for i, fit in enumerate(refit(bound_model, target, data, method, seeds)):
            try:
                posterior = fit()
                ranks, verdict = _rank(posterior, row(truths, i), draws), posterior.trust.verdict
                ranked.append(ranks)
                methods[posterior.method] += 1
                verdicts[verdict] += 1
            except DoesNotApplyError:
                # Every simulation would raise the same error.
                raise
            except FAILURES as error:
                failures[i] = str(error)
            bar.to(i + 1, f"{len(failures)} failed" if failures else "")
    if not ranked:
        raise ValueError(
            f"none of the {simulations} simulated data sets could be fitted; the first error: "
            f"{failures[0]}"
        )
    return Calibration(
        method=", ".join(methods),
        draws=draws,
        level=level,
        **_ranks(ranked, draws, seed),
        verdicts=dict(verdicts),
        failures=failures,
        left_out=tuple(target.discrete),
    )


def _rank(posterior: Posterior, truth: dict, count: int) -> dict[str, np.ndarray]:
    """Rank the true value of each latent, and the log likelihood, among `count` draws.

    Returns:
        By parameter, the log likelihood last: an array of the truth, the number of draws below it,
        the number equal to it, the posterior mean and the posterior sd, (5,).
    """
    target = posterior.target
    assert target is not None
    # Latents may have been integrated out of the model, or replaced for a method.
    latents = [s.name for s in target.latents if s.name in truth]
    flat = {name: posterior.flat[name] for name in latents}
    total = len(next(iter(flat.values())))
    if total < count:
        raise DoesNotApplyError(
            f"{posterior.method} gives {total} draws, but the truth is ranked among draws={count}. "
            "Let the method give more draws, or reduce draws=."
        )
    rows = evenly(total, count)
    truth_first = {name: np.concatenate([truth[name][None], flat[name][rows]]) for name in latents}
    names, values = scalar_columns(truth_first)
    log_likelihoods = np.asarray(_log_likelihoods(target, truth_first))
    names, values = [*names, LIKELIHOOD], np.column_stack([values, log_likelihoods])
    if not np.all(np.isfinite(values)):
        wrong = names[int(np.argmax(~np.all(np.isfinite(values), axis=0)))]
        raise FloatingPointError(f"the draws or the truth of {wrong!r} are not finite")
    _, all_draws = scalar_columns(flat)
    true_values, ranked = values[0], values[1:]
    n_below, n_equal = np.sum(ranked < true_values, axis=0), np.sum(ranked == true_values, axis=0)
    mean = np.append(all_draws.mean(axis=0), ranked[:, -1].mean())
    sd = np.append(all_draws.std(axis=0), ranked[:, -1].std())
    columns = np.column_stack([true_values, n_below, n_equal, mean, sd])
    return dict(zip(names, columns, strict=True))


@eqx.filter_jit
def _log_likelihoods(target, values):
    """Log likelihoods (S,) for values of each latent (S, shape)."""

    def log_likelihood(value):
        return target.log_density(target.unconstrain(value)[0], jacobian=False, prior=False)

    return jax.lax.map(log_likelihood, jax.tree.map(jnp.asarray, values), batch_size=BATCH)


def _ranks(ranked: list[dict[str, np.ndarray]], draws: int, seed: int) -> dict[str, Any]:
    """Truths, ranks and scores of all simulations, by parameter."""
    # Parameters of all fits: method="auto" may integrate different latents out of each fit.
    names = [name for name in ranked[0] if all(name in values for values in ranked)]
    values = np.array([[values[name] for name in names] for values in ranked])
    truth, n_below, n_equal, mean, sd = np.moveaxis(values, -1, 0)
    rng = np.random.default_rng([seed, len(ranked)])
    # Ties with the truth are broken at random.
    ranks = n_below.astype(int) + rng.integers(0, n_equal.astype(int) + 1)
    uniforms = (ranks + rng.random(ranks.shape)) / (draws + 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        # A single truth has no variance.
        prior_variance = truth.var(axis=0, ddof=1) if len(truth) > 1 else np.nan
        columns = {
            "truth": truth,
            "ranks": ranks,
            "uniforms": uniforms,
            "z_scores": (mean - truth) / sd,
            "shrinkage": np.square(sd) / prior_variance,
        }
    return {key: dict(zip(names, x.T, strict=True)) for key, x in columns.items()}
