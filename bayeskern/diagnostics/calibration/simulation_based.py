"""Simulation-based calibration of a method, at given data or over the prior."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, cast

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
from bayeskern.diagnostics.calibration.experiments import checked_method, given_data, over_prior
from bayeskern.diagnostics.calibration.refit import FAILURES, row
from bayeskern.inference import Method, Posterior
from bayeskern.inference.model.trace.arguments import model_arguments
from bayeskern.inference.problem import Problem, bind
from bayeskern.protocols import DoesNotApplyError


def calibrate(
    problem: Posterior | Problem | Callable,
    *args: Any,
    method: str | Method | None = None,
    simulations: int = 200,
    seed: int = 0,
    draws: int = 99,
    level: float = 0.95,
    progress: bool = True,
    model_kwargs: dict | None = None,
    **kwargs: Any,
) -> Calibration:
    """Check a method by simulation-based calibration, at your data or over the prior.

    `calibrate(posterior)` checks the method that made the posterior at its own data y (posterior
    SBC). For draws z of the posterior, new data y' are drawn from p(y' | z). The model is fitted to
    y and y' together, with the same latents, and z is ranked among evenly thinned draws from
    p(z | y, y'). `calibrate(model, X, y)` draws z from the prior and fits y' alone: it checks the
    method on average over data that the prior finds plausible. If the method is right, the ranks
    are uniform for every parameter, and for the log likelihood, which exposes methods that ignore
    the data.

    If the posterior itself is wrong, so are the true values z, and the fault is harder to detect.
    Draws with reliable importance weights are resampled by them. Otherwise take z from a method
    that you trust: `calibrate(nuts_posterior, method="svi")` checks SVI at the same data.

    The cost is that of `simulations` fits, without compilation after the first one. Fits that raise
    an error or have non-finite draws are counted and reported. With fewer than ten fits there is no
    verdict. Discrete latents are summed out and have no rank. SVI fits a plain NumPyro model to
    several data sets at once, by vmap. NUTS does not, because each chain would wait for the
    longest.

    Args:
        problem: A posterior; or a NumPyro model with its arguments as in `infer`, or a `Problem`.
            The data of a model define the observed sites and their shapes. Their values matter only
            if the model also uses them elsewhere, such as for default priors or lagged values.
        *args: Arguments of the model.
        method: Method to check, as in `infer`, except for point estimates. By default the method
            of the posterior, and "auto" for a model.
        simulations: Number of simulated data sets, at least ten.
        seed: Seed of the simulations and of the fits.
        draws: Number of draws among which the truth is ranked.
        level: Minimum probability that no fault is reported if the method is right.
        progress: True to show a progress bar.
        model_kwargs: Named arguments of the model whose names are also options of `calibrate`.
        **kwargs: Other named arguments of the model.

    Returns:
        The ranks, and a verdict on the method.

    Raises:
        ValueError: If the posterior has no model, is a point or has a closed form; if the prior of
            a site, or the data, cannot be drawn; if the method gives a point or fewer draws than
            `draws`; if no data set could be fitted; if an option has the name of an argument of the
            model.
        TypeError: If a posterior comes with arguments of a model.

    References:
        Saeilynoja, Schmitt, Buerkner and Vehtari (2025), "Posterior SBC: simulation-based
        calibration checking conditional on data"; Talts, Betancourt, Simpson, Vehtari and Gelman
        (2018), "Validating Bayesian inference algorithms with simulation-based calibration"; Modrak
        et al. (2023), "Simulation-based calibration checking for Bayesian computation: the choice
        of test quantities shapes sensitivity".
    """
    validation.positive_integer(draws, "draws")
    level, seed = validation.level(level), validation.seed(seed)
    if validation.positive_integer(simulations, "simulations") < MIN_SIMULATIONS:
        raise ValueError(
            f"simulations must be at least {MIN_SIMULATIONS}, since fewer show no fault; got "
            f"{simulations}."
        )
    if isinstance(problem, Posterior):
        if args or kwargs or model_kwargs:
            raise TypeError(
                "a posterior holds its model and data, and calibrate(posterior) takes no others. "
                "For another model, use calibrate(model, X, y)."
            )
        experiment = given_data(problem, method, simulations, seed)
    else:
        options = {"method": method, "simulations": simulations, "seed": seed, "draws": draws}
        options |= {"level": level, "progress": progress}
        # A Problem has no signature, so that `kwargs` come back unchanged.
        model = cast("Callable", problem)
        kwargs = model_arguments(calibrate, model, args, kwargs, model_kwargs, options)
        bound_model = bind(problem, args, kwargs)
        experiment = over_prior(bound_model, checked_method(method or "auto"), simulations, seed)
    ranked, failures = [], {}
    methods, verdicts = Counter[str](), Counter[str]()
    with Progress("calibrate", simulations, progress) as bar:
        for i, fit in enumerate(experiment.fits):
            try:
                posterior, truth = fit(), row(experiment.truths, i)
                ranks = _rank(posterior, truth, experiment.ranked, draws)
                verdict = posterior.trust_in_draws.verdict
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
        left_out=experiment.left_out,
        at_data=isinstance(problem, Posterior),
    )


def _rank(
    posterior: Posterior, truth: dict, ranked: tuple[str, ...], count: int
) -> dict[str, np.ndarray]:
    """Rank the true value of each site, and the log likelihood, among `count` draws.

    Args:
        posterior: The posterior.
        truth: True values of its latents, and of the other ranked sites.
        ranked: Names of the sites to rank.
        count: Number of draws among which the truth is ranked.

    Returns:
        An array (5,) for each parameter, and last for the log likelihood: the truth, the number of
        draws below it, the number of draws equal to it, the posterior mean and the posterior sd.
    """
    target = posterior.target
    assert target is not None
    # Latents may have been integrated out of the model, or replaced for a method.
    latents = [s.name for s in target.latents if s.name in truth]
    flat = {name: values for name, values in posterior.flat.items() if name in truth}
    total = len(next(iter(flat.values())))
    if total < count:
        raise DoesNotApplyError(
            f"{posterior.method} gives {total} draws, but the truth is ranked among draws={count}. "
            "Let the method give more draws, or reduce draws=."
        )
    rows = evenly(total, count)
    truth_first = {k: np.concatenate([truth[k][None], v[rows]]) for k, v in flat.items()}
    log_likelihoods = np.asarray(
        _log_likelihoods(target, {name: truth_first[name] for name in latents})
    )
    shown = [name for name in ranked if name in flat]
    names, values = scalar_columns({name: truth_first[name] for name in shown})
    names, values = [*names, LIKELIHOOD], np.column_stack([values, log_likelihoods])
    if not np.all(np.isfinite(values)):
        wrong = names[int(np.argmax(~np.all(np.isfinite(values), axis=0)))]
        raise FloatingPointError(f"the draws or the truth of {wrong!r} are not finite")
    _, all_draws = scalar_columns({name: flat[name] for name in shown})
    true_values, drawn = values[0], values[1:]
    n_below, n_equal = np.sum(drawn < true_values, axis=0), np.sum(drawn == true_values, axis=0)
    mean = np.append(all_draws.mean(axis=0), drawn[:, -1].mean())
    sd = np.append(all_draws.std(axis=0), drawn[:, -1].std())
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
