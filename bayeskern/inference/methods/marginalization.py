"""Run a method on a suitable form of a model, with latents integrated out if possible."""

from __future__ import annotations

import dataclasses

import jax
import numpy as np

from bayeskern.core.threads import blas_threads_for
from bayeskern.inference.methods.base import Method
from bayeskern.inference.methods.exact import Exact
from bayeskern.inference.model.centring import noncentred
from bayeskern.inference.model.marginalized import Marginalized
from bayeskern.inference.model.target import Target
from bayeskern.inference.result import Fit, KnownVerdict
from bayeskern.inference.verdict import Trust
from bayeskern.protocols import HasMarginal, Marginal


def run(method: Method, target: Target, seed: int, progress: bool, centring: bool = False) -> Fit:
    """Fit a target by a method, on the form of the model for this method.

    Args:
        method: The method.
        target: The model in its original form.
        seed: Seed of all random numbers.
        progress: True to show a progress bar.
        centring: True to run on the form with non-centred location-scale sites; without it, only
            methods that centre do.
    """
    if not method.takes_marginal:
        return method.run(target, seed, progress)
    target, marginal = form_of(method, target)
    if marginal is None and (centring or method.centres):
        marginal = noncentred(target)
    if marginal is None:
        with blas_threads_for(target.size):
            fit = method.run(target, seed, progress)
        return dataclasses.replace(fit, target=target)
    marginal_target = Target.from_model(marginal.model, marginal.args, marginal.kwargs or {})
    marginalized = Marginalized(marginal_target, marginal.recover, seed)
    if not marginal_target.latents:
        return _without_latents(method, target, marginalized, seed, progress)
    # Integrated latents mostly stand in many small matrices: their number is not the size of one.
    with blas_threads_for(marginal_target.size):
        fit = method.run(marginal_target, seed, progress)
    return dataclasses.replace(fit, target=target, marginalized=marginalized)


def form_of(method: Method, target: Target) -> tuple[Target, Marginal | None]:
    """Form of the model for a method, and the marginal of this form, if it has one."""
    target, marginal = method.form_of(target), None
    if isinstance(target.model, HasMarginal):
        marginal = target.model.marginal(*target.args, **target.kwargs)
    return target, marginal


def _without_latents(
    method: Method, target: Target, marginalized: Marginalized, seed: int, progress: bool
) -> Fit:
    """Fit in closed form of a model whose marginal has no latents."""
    if not method.is_point:
        fit = Exact().run(target, seed, progress)
        return dataclasses.replace(fit, method="exact", target=target)
    mean = marginalized.recover({}, jax.random.key(seed), True)
    advice = "Mode in closed form; a point estimate has no uncertainty."
    return Fit(
        z=np.zeros((1, 1, 0)),
        assess=KnownVerdict(Trust("not assessable", advice, {})),
        draws={name: np.asarray(values)[None] for name, values in mean.items()},
        target=target,
        marginalized=marginalized,
    )
