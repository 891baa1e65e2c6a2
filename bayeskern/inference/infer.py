"""Inference for any NumPyro model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from bayeskern.core import validation
from bayeskern.core.timing import Stopwatch
from bayeskern.inference.methods import marginalization
from bayeskern.inference.methods.base import Method
from bayeskern.inference.methods.registry import as_method
from bayeskern.inference.model.bound import BoundModel
from bayeskern.inference.model.checks.indices import require_indices_in_range
from bayeskern.inference.model.checks.precision import warn_if_rounded
from bayeskern.inference.model.checks.reproducible import require_reproducible
from bayeskern.inference.model.imputation import imputed
from bayeskern.inference.model.target import Target
from bayeskern.inference.model.trace.arguments import model_arguments
from bayeskern.inference.posterior.missing import axes_of_missing
from bayeskern.inference.posterior.posterior import Posterior


def infer(
    model: Callable,
    *args: Any,
    method: str | Method = "auto",
    seed: int = 0,
    coords: dict | None = None,
    dims: dict | None = None,
    progress: bool = True,
    missing: str | None = None,
    model_kwargs: dict | None = None,
    **kwargs: Any,
) -> Posterior:
    """Fit a NumPyro model to data.

    Args:
        model: A NumPyro model: a function of the data, or an object such as `GPRegression`.
        *args: Positional arguments of the model, usually data: `infer(model, X, y)`.
        method: "auto", "exact", "map", "mle", "laplace", "svi", "importance", "pathfinder", "smc"
            or "nuts"; or an object with options, such as `MAP(starts=8)`. "auto" takes the
            cheapest method with a good verdict.
        seed: A whole number from 0 to 2**32 - 1 that determines all random numbers. The same
            seed gives the same numbers.
        coords: Labels along named axes, in ArviZ's form: `{"school": ["A", "B"]}`.
        dims: Names of the axes of sites that are not plates: `{"theta": ["school"]}`.
        progress: True to show a progress bar on a terminal.
        missing: "impute" to draw the NaN of observed sites, as `<site>_missing` in the draws. They
            are latents where other sites depend on them, and are integrated out elsewhere. None
            refuses NaN.
        model_kwargs: Named arguments of the model whose name is an option of `infer`, such as
            `{"seed": 7}`.
        **kwargs: Other named arguments of the model.

    Returns:
        The posterior: draws, a verdict on them (`posterior.trust`), predictions, and conversion to
        ArviZ.

    Raises:
        ValueError: If the method is unknown, the data are bad, or the model cannot be fitted, for
            example because its density changes between runs. Also if an option may be meant for an
            argument of the model with the same name. The message names the argument or the site,
            and a remedy. `DoesNotApplyError`, a ValueError, asks for another method.
        TypeError: If the model cannot be called, the method is neither a name nor a method, or
            coords or dims are not dicts.

    Examples:
        >>> import numpyro, numpyro.distributions as dist, bayeskern as bk
        >>> def coin(heads):
        ...     p = numpyro.sample("p", dist.Beta(1.0, 1.0))
        ...     numpyro.sample("heads", dist.Binomial(20, p), obs=heads)
        >>> posterior = bk.infer(coin, 14, method="laplace", seed=1)
        >>> print(posterior.draws["p"].mean().round(1))
        0.7
    """
    options = {"method": method, "seed": seed, "coords": coords, "dims": dims, "progress": progress}
    options |= {"missing": missing}
    kwargs = model_arguments(infer, model, args, kwargs, model_kwargs, options)
    method, seed = as_method(method), validation.seed(seed)
    if missing is not None:
        validation.one_of("missing", missing, ("impute",))
        model, args, kwargs = imputed(model, args, kwargs)
    warn_if_rounded(model, args, kwargs)
    bound = BoundModel.from_model(model, args, kwargs, coords, dims)
    with Stopwatch() as watch:
        target = bound.target()
        target.require_summable()
        require_reproducible(target)
        require_indices_in_range(target)
        labels, axes = axes_of_missing(target, bound.coords)
        named_axes = {"coords": bound.coords | labels, "dims": bound.dims | axes}
        posterior = fit_target(method, target, seed, progress, **named_axes)
    return replace(posterior, timing=posterior.timing | watch.seconds)


def fit_target(
    method: Method, target: Target, seed: int, progress: bool = False, **fields: Any
) -> Posterior:
    """Fit a target by a method.

    Args:
        method: The method.
        target: The log density.
        seed: Seed of all random numbers.
        progress: True to show a progress bar.
        **fields: Other fields of the Posterior.

    Returns:
        The posterior.
    """
    fit = marginalization.run(method, target, seed, progress)
    fields |= {"seed": seed, "made_by": method, "progress": progress}
    return Posterior.from_fit(fit, target, method.name, **fields)
