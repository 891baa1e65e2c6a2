"""Methods run on the marginal that a model offers, and what was integrated out comes back."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import NamedTuple

import jax
import numpy as np

from bayeskern.inference.methods.exact import Exact
from bayeskern.inference.model.constrain import constrain
from bayeskern.inference.model.target import Target
from bayeskern.inference.result import Fit
from bayeskern.inference.verdict import Trust

# Folded into the seed, so that what is recovered does not repeat the draws it is recovered from.
KEY = 3


class Reduced(NamedTuple):
    """The target that a method ran on, and the way back to the model as it was written."""

    target: Target
    recover: Callable
    seed: int

    def draws(self, z) -> dict[str, np.ndarray]:
        """Every site of the full model at z (chains, draws, d): each (chains, draws, shape)."""
        chains, count = z.shape[:2]
        found = constrain(self.target, z)
        flat = {name: v.reshape(-1, *v.shape[2:]) for name, v in found.items()}
        key = jax.random.fold_in(jax.random.key(self.seed), KEY)
        whole = self.recover(flat, key, chains * count == 1)
        return {k: np.asarray(v).reshape(chains, count, *v.shape[1:]) for k, v in whole.items()}


def run(method, target: Target, seed: int, progress: bool) -> Fit:
    """Run a method on what the model offers for it: a form of its own, or its marginal.

    The model offers `for_method(name)`, a model of the same arguments, or `marginal(*data)`, or
    neither. A method that is `as_written` takes the model as it is.
    """
    if getattr(method, "as_written", False):
        return method.run(target, seed, progress)
    if hasattr(target.model, "for_method"):
        model = target.model.for_method(method.name)
        target = Target.of(model, target.args, target.kwargs)
    marginal = None
    if hasattr(target.model, "marginal"):
        marginal = target.model.marginal(*target.args, **target.kwargs)
    if marginal is None:
        return dataclasses.replace(method.run(target, seed, progress), target=target)
    reduced = Reduced(Target.of(marginal.model, marginal.args, {}), marginal.recover, seed)
    if not reduced.target.latents:
        return _settled(method, target, reduced, seed, progress)
    fit = method.run(reduced.target, seed, progress)
    return dataclasses.replace(fit, target=target, reduced=reduced)


def _settled(method, target, reduced: Reduced, seed, progress) -> Fit:
    """The fit of a model whose marginal has nothing left to infer, so that it is exact."""
    if not getattr(method, "is_point", False):
        fit = Exact().run(target, seed, progress)
        return dataclasses.replace(fit, method="exact", target=target)
    mean = reduced.recover({}, jax.random.key(seed), True)
    advice = "The mode in closed form; a point carries no uncertainty."
    return Fit(
        z=np.zeros((1, 1, 0)),
        judge=lambda _: Trust("not assessable", advice, {}),
        draws={k: np.asarray(v)[None] for k, v in mean.items()},
        target=target,
        reduced=reduced,
    )
