"""Draws of parameters and data together, from a model's prior."""

from __future__ import annotations

import jax
import numpy as np

from bayeskern.core import validation
from bayeskern.inference.model.target import Target
from bayeskern.inference.model.trace.arguments import forbid_value_inspection, model_arguments
from bayeskern.inference.model.trace.axes import DatasetMaker
from bayeskern.inference.model.trace.handlers import DrawObserved
from bayeskern.inference.model.trace.sites import ModelSite, trace_at
from bayeskern.inference.model.trace.validation import is_factor
from bayeskern.inference.posterior.predictive import from_prior
from bayeskern.inference.problem import bind


def prior_predictive(
    problem,
    *args,
    draws: int = 1000,
    seed: int = 0,
    model_kwargs: dict | None = None,
    **kwargs,
):
    """Parameters from the prior, and data given them.

    Args:
        problem: A NumPyro model with its arguments, `prior_predictive(model, X, y)`, or a
            `Problem`. The data say which sites are observed and in what shape; their values matter
            only to default priors.
        *args: The arguments of the model.
        draws: How many.
        seed: A whole number from which everything random follows.
        model_kwargs: Named arguments of the model that have the name of an option here.
        **kwargs: Other named arguments of the model.

    Returns:
        An xarray DataTree as ArviZ takes it, with one chain. Its groups are prior (latents,
        discrete ones too, and deterministics), prior_predictive (the observed sites, masked-out
        observations included), and observed_data.

    Raises:
        ValueError: If a prior is improper or missing (`Free`), nothing is observed, or the
            model has a `numpyro.factor`; the message names the site. If an option may be meant for
            the model.
    """
    # xarray takes a while to import.
    import xarray as xr

    validation.positive_integer(draws, "draws")
    options = {"draws": draws, "seed": seed}
    kwargs = model_arguments(prior_predictive, problem, args, kwargs, model_kwargs, options)
    bound = bind(problem, args, kwargs)
    target = bound.target()
    prior, data = simulate(target, draws, seed)
    observed = target.observed({s.name: prior[s.name][0] for s in target.latents})
    maker = DatasetMaker("prior", target.sites(), bound.coords, bound.dims)
    groups = {}
    if prior:
        groups["prior"] = maker.dataset({name: v[None] for name, v in prior.items()})
    groups["prior_predictive"] = maker.dataset({name: v[None] for name, v in data.items()})
    groups["observed_data"] = maker.dataset(observed, sample_dims=[])
    return xr.DataTree.from_dict(groups)


def simulate(target: Target, count: int, seed: int) -> tuple[dict, dict]:
    """Latents (discrete ones too) and deterministics, and the data, each (count, *site), together.

    Raises ValueError, naming the site, where they cannot be drawn.
    """
    sites = _drawable(target)
    size = sum(int(np.prod(site.shape)) for site in sites.values())
    keys = jax.random.split(jax.random.key(validation.seed(seed)), count)
    draws = from_prior(target, keys, tuple(sites), size)

    def of_kind(kind):
        return {name: draws[name] for name in sites if sites[name].kind == kind}

    latents = {s.name: draws[s.name] for s in target.latents}
    return latents | of_kind("discrete") | of_kind("deterministic"), of_kind("observed")


def _drawable(target: Target) -> dict[str, ModelSite]:
    """The sites of the model, by name. Raises ValueError if one of them cannot be drawn."""
    if target.without_prior:
        raise ValueError(
            f"{', '.join(map(repr, target.without_prior))} has no prior that could be drawn from: "
            "it is improper or flat, Free, or a numpyro.param. Give it a proper prior, or a number."
        )
    sites = target.sites()
    if not any(site.kind == "observed" for site in sites.values()):
        raise ValueError(
            "the model observes nothing with these arguments, so there are no data to draw. Give "
            "data as for infer: they say which sites are observed, and in what shape."
        )
    factors = []

    def run():
        model = DrawObserved(target.model)
        trace = trace_at(model, {}, jax.random.key(0), target.args, target.kwargs)
        samples = {name: site for name, site in trace.items() if site["type"] == "sample"}
        factors.extend(name for name, site in samples.items() if is_factor(site))

    with forbid_value_inspection():
        jax.eval_shape(run)
    if factors:
        raise ValueError(
            f"{', '.join(map(repr, factors))} is a numpyro.factor: a density of nothing that could "
            "be drawn. Write it as a distribution, observed or latent."
        )
    return sites
