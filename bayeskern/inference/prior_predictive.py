"""Joint draws of parameters and data from the prior of a model."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import jax
import numpy as np

from bayeskern.core import validation
from bayeskern.inference.model.target import Target
from bayeskern.inference.model.trace.arguments import forbid_value_inspection, model_arguments
from bayeskern.inference.model.trace.axes import dataset
from bayeskern.inference.model.trace.handlers import DrawObserved
from bayeskern.inference.model.trace.sites import ModelSite, trace_at
from bayeskern.inference.model.trace.validation import is_factor
from bayeskern.inference.posterior.predictive import from_prior
from bayeskern.inference.problem import Problem, bind

if TYPE_CHECKING:
    # xarray takes a while to import.
    import xarray as xr


def prior_predictive(
    problem: Problem | Callable,
    *args: Any,
    draws: int = 1000,
    seed: int = 0,
    model_kwargs: dict | None = None,
    **kwargs: Any,
) -> xr.DataTree:
    """Draw parameters from the prior, and data given these parameters.

    Args:
        problem: A NumPyro model with its arguments, `prior_predictive(model, X, y)`, or a
            `Problem`. The data determine which sites are observed, and their shapes; the values
            affect only default priors.
        *args: Arguments of the model.
        draws: Number of draws.
        seed: A whole number that determines all random numbers.
        model_kwargs: Named arguments of the model whose name is an option of this function.
        **kwargs: Other named arguments of the model.

    Returns:
        An xarray DataTree in ArviZ's layout, with one chain. Its groups are prior (latents,
        discrete ones too, and deterministics), prior_predictive (the observed sites, masked
        observations included), and observed_data.

    Raises:
        ValueError: If a prior is improper or missing (`Free`), nothing is observed, or the
            model has a `numpyro.factor`; the message names the site. Also if an option may be
            meant for an argument of the model with the same name.
    """
    import xarray as xr

    validation.positive_integer(draws, "draws")
    options = {"draws": draws, "seed": seed}
    # A Problem has its own data. It has no signature, so that `kwargs` come back unchanged.
    model = cast("Callable", problem)
    kwargs = model_arguments(prior_predictive, model, args, kwargs, model_kwargs, options)
    bound = bind(problem, args, kwargs)
    target = bound.target()
    prior, data = simulate(target, draws, seed)
    observed = target.observed({s.name: prior[s.name][0] for s in target.latents})
    to_dataset = partial(
        dataset, method="prior", sites=target.sites(), coords=bound.coords, dims=bound.dims
    )
    groups = {}
    if prior:
        groups["prior"] = to_dataset({name: v[None] for name, v in prior.items()})
    groups["prior_predictive"] = to_dataset({name: v[None] for name, v in data.items()})
    groups["observed_data"] = to_dataset(observed, sample_dims=[])
    return xr.DataTree.from_dict(groups)


def simulate(
    target: Target, count: int, seed: int
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Draw latents and deterministics from the prior, and data given these.

    Returns:
        Latents (also discrete latents) and deterministics by name, and observed sites by name;
        each (count, *site).

    Raises:
        ValueError: If a site cannot be drawn; the message names it.
    """
    sites = _drawable(target)
    size = sum(int(np.prod(site.shape)) for site in sites.values())
    keys = jax.random.split(jax.random.key(validation.seed(seed)), count)
    draws = from_prior(target, keys, tuple(sites), size)

    def of_kind(kind: str) -> dict[str, np.ndarray]:
        return {name: draws[name] for name in sites if sites[name].kind == kind}

    latents = {s.name: draws[s.name] for s in target.latents}
    return latents | of_kind("discrete") | of_kind("deterministic"), of_kind("observed")


def _drawable(target: Target) -> dict[str, ModelSite]:
    """Sites of the model, by name. Raises ValueError if one of them cannot be drawn."""
    if target.without_prior:
        raise ValueError(
            f"{', '.join(map(repr, target.without_prior))} has no prior to draw from: it is "
            "improper or flat, Free, or a numpyro.param. Give it a proper prior, or a number."
        )
    sites = target.sites()
    if not any(site.kind == "observed" for site in sites.values()):
        raise ValueError(
            "the model observes nothing with these arguments, so there are no data to draw. Pass "
            "the same data as to infer: they determine the observed sites and their shapes."
        )
    factors: list[str] = []

    def run() -> None:
        model = DrawObserved(target.model)
        trace = trace_at(model, {}, jax.random.key(0), target.args, target.kwargs)
        samples = {name: site for name, site in trace.items() if site["type"] == "sample"}
        factors.extend(name for name, site in samples.items() if is_factor(site))

    with forbid_value_inspection():
        jax.eval_shape(run)
    if factors:
        raise ValueError(
            f"{', '.join(map(repr, factors))} is a numpyro.factor, which cannot be drawn from. "
            "Write it as a distribution, observed or latent."
        )
    return sites
