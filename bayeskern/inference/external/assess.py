"""Verdict on the inference of another program."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from bayeskern.core import validation
from bayeskern.core.formatting import printable
from bayeskern.core.timing import Stopwatch
from bayeskern.inference.external.arviz import read_groups
from bayeskern.inference.external.draws import read_draws
from bayeskern.inference.external.fit import fit_draws
from bayeskern.inference.external.guide import fit_guide
from bayeskern.inference.model.bound import BoundModel
from bayeskern.inference.model.checks.reproducible import require_reproducible
from bayeskern.inference.model.target import Target
from bayeskern.inference.model.trace.arguments import model_arguments
from bayeskern.inference.posterior.posterior import Posterior
from bayeskern.inference.result import Fit


def assess(
    model: Callable,
    *args: Any,
    draws: Mapping[str, Any] | None = None,
    guide: tuple[Callable, Mapping[str, Any]] | None = None,
    idata: Any = None,
    seed: int = 0,
    coords: dict | None = None,
    dims: dict | None = None,
    progress: bool = True,
    model_kwargs: dict | None = None,
    **kwargs: Any,
) -> Posterior:
    """Judge the inference of another program: PyMC, Stan, NumPyro, or any other.

    The model is written in NumPyro, and its density is the reference. Draws of a guide are weighted
    by p / q, as for SVI. Chains are judged by R-hat, effective draws and the statistics of their
    steps, and modes that they miss are visited, as for NUTS. In addition, chains and draws without
    an order are compared with draws weighted by the density of the model. If these weights are not
    reliable, they are compared with the same draws after steps of NUTS. Give exactly one of
    `draws`, `guide` and `idata`.

    Args:
        model: A NumPyro model with the latent sites of the fit.
        *args: Positional arguments of the model, usually data.
        draws: Arrays by site, each (chains, draws, *site), or (draws, *site) for draws without an
            order. Values are in the model's own parameters. Other sites are ignored; deterministic
            sites must agree with the model.
        guide: A NumPyro guide and the values of its parameters: `(guide, svi_result.params)`.
        idata: A DataTree or InferenceData of ArviZ with the group posterior; divergences and
            energies are read from the group sample_stats. A single chain without these counts as
            draws without an order.
        seed: A whole number from 0 to 2**32 - 1 that determines all random numbers.
        coords: Labels along named axes, as in `infer`.
        dims: Names of the axes of sites, as in `infer`.
        progress: True to show a progress bar on a terminal.
        model_kwargs: Named arguments of the model whose name is an option of `assess`.
        **kwargs: Other named arguments of the model.

    Returns:
        A posterior with these draws: its `trust` is the verdict, and predictions, LOO, comparison
        and reports work as for a fit by `infer`.

    Raises:
        ValueError: If names or shapes of the draws do not fit the model, with both lists; if draws
            are not finite, outside a support, or not of this model; if a guide has other sites.
        TypeError: If an argument has a wrong type.

    Examples:
        >>> import numpy as np, numpyro, numpyro.distributions as dist, bayeskern as bk
        >>> def coin(heads):
        ...     p = numpyro.sample("p", dist.Beta(1.0, 1.0))
        ...     numpyro.sample("heads", dist.Binomial(20, p), obs=heads)
        >>> exact = np.random.default_rng(0).beta(15.0, 7.0, size=4000)
        >>> bk.assess(coin, 14, draws={"p": exact}).trust.verdict
        'good'
        >>> bk.assess(coin, 14, draws={"p": exact**2}).trust.verdict
        'bad'
    """
    given = {"draws": draws, "guide": guide, "idata": idata}
    options = given | {"seed": seed, "coords": coords, "dims": dims, "progress": progress}
    kwargs = model_arguments(assess, model, args, kwargs, model_kwargs, options)
    names = [name for name, value in given.items() if value is not None]
    if len(names) != 1:
        passed = " and ".join(names) or "none of them"
        raise ValueError(f"assess takes exactly one of draws=, guide= and idata=; got {passed}.")
    seed = validation.seed(seed)
    bound = BoundModel.from_model(model, args, kwargs, coords, dims)
    with Stopwatch() as watch:
        target = bound.target()
        target.require_summable()
        target.require_priors("a verdict on draws")
        require_reproducible(target)
        if guide is not None:
            method, fit = "guide", _fit_of_guide(target, guide, seed, progress)
        else:
            method, fit = _fit_of_draws(target, draws, idata, seed, progress)
        known = {"seed": seed, "progress": progress, "coords": bound.coords, "dims": bound.dims}
        posterior = Posterior.from_fit(fit, target, method, **known)
    return replace(posterior, timing=posterior.timing | watch.seconds)


def _fit_of_guide(target: Target, guide: Any, seed: int, progress: bool) -> Fit:
    if not isinstance(guide, tuple | list) or len(guide) != 2 or not callable(guide[0]):
        raise TypeError(
            "guide must be a pair of a NumPyro guide and its parameters, such as "
            f"guide=(guide, svi_result.params); got {type(guide).__name__}."
        )
    function, params = guide
    return fit_guide(target, function, params, seed, progress)


def _fit_of_draws(
    target: Target, draws: Mapping[str, Any] | None, idata: Any, seed: int, progress: bool
) -> tuple[str, Fit]:
    """Name of the source of the draws, and their fit."""
    source, statistics = "draws", {}
    if idata is not None:
        draws, statistics, library = read_groups(idata)
        source = printable(library) or source
    assert draws is not None
    return source, fit_draws(target, read_draws(target, draws), statistics, seed, progress)
