"""Model of a second data set with the same latents as the given data."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import equinox as eqx
import jax
import numpy as np
from numpyro import handlers
from numpyro.primitives import CondIndepStackFrame

from bayeskern.diagnostics.calibration.refit import Condition, arrays_of
from bayeskern.inference import Target
from bayeskern.inference.model.trace.enumeration import is_step
from bayeskern.inference.model.trace.handlers import FullPlates
from bayeskern.inference.model.trace.imputed import gaps_of
from bayeskern.inference.model.trace.validation import CannotDrawError
from bayeskern.inference.posterior.predictive import at_own_data
from bayeskern.protocols import DoesNotApplyError

#: Ending of the names of the sites of the second data set.
REPLICATE = " (replicate)"


class AugmentedModel(eqx.Module):
    """Model of a second data set y' with the latents z of the data y.

    Its log density is log p(z | y) + log p(y' | z). The model runs twice: with its own data, and
    with the data y' at the same values of its continuous latents. The second run adds only its
    observed sites, so that a `numpyro.factor` counts once. Discrete latents of the second run are
    independent of those of the first; they are summed out, as when y' is drawn. The density of y'
    is neither scaled nor subsampled, because y' is drawn from the distribution itself.

    Attributes:
        target: The model and its data y.
    """

    target: Target

    def __call__(self, data: dict[str, jax.Array]) -> None:
        model, args, kwargs = self.target.model, self.target.args, self.target.kwargs
        trace = handlers.trace(model).get_trace(*args, **kwargs)
        latents = {s.name: trace[s.name]["value"] for s in self.target.latents}
        replicate = handlers.substitute(FullPlates(Condition(model, data)), data=latents)
        _Replicate(replicate, {*data, *self.target.discrete})(*args, **kwargs)


class _Replicate(handlers.block):
    """Messenger that hides all sites but `shown`, which it renames and unscales."""

    def __init__(self, fn: Any, shown: Collection[str]) -> None:
        super().__init__(fn, hide_fn=lambda msg: self._is_hidden(msg, shown))

    @staticmethod
    def _is_hidden(msg: Any, shown: Collection[str]) -> bool:
        # NumPyro prefixes the names of the first steps of a scan.
        is_site = msg["type"] in ("sample", "deterministic", "param")
        return is_site and msg["name"].replace("_PREV_", "") not in shown

    def process_message(self, msg: Any) -> None:
        super().process_message(msg)
        if msg["type"] not in ("sample", "plate") or msg.get("stop"):
            return
        msg["name"] += REPLICATE
        if msg["type"] == "sample":
            msg["scale"] = None
            msg["cond_indep_stack"] = [
                CondIndepStackFrame(f.name + REPLICATE, f.dim, f.size)
                for f in msg["cond_indep_stack"]
            ]


def augmented_target(target: Target, data: dict[str, np.ndarray]) -> Target:
    """Target of the augmented model at the first data set of (simulations, *site).

    Raises DoesNotApplyError for discrete states in a scan, which cannot be summed out twice, and
    for missing values that are latents, which the second data set does not have.
    """
    imputed = [gap.site for gap in gaps_of(target.model) if gap.latent]
    if imputed:
        raise DoesNotApplyError(
            f"the missing values of {', '.join(map(repr, imputed))} are latents, which belong to "
            "one data set only. Check the method on complete data: bk.calibrate(model, ..., "
            "method=...)."
        )
    steps: list[str] = []

    def run() -> None:
        sites = {n: s for n, s in target.trace_at({}).items() if s["type"] == "sample"}
        steps.extend(name for name, site in sites.items() if is_step(site))

    jax.eval_shape(run)
    if target.discrete and steps:
        raise DoesNotApplyError(
            f"{', '.join(map(repr, target.discrete))} is summed out beside a scan (the site "
            f"{steps[0]!r} is in one), which works for one data set only. Check the method on "
            "average over the prior: bk.calibrate(model, ..., method=...)."
        )
    return Target.from_model(AugmentedModel(target), (arrays_of(data, 0),), {})


def simulate_given(
    target: Target, draws: dict[str, np.ndarray], seed: int
) -> dict[str, np.ndarray]:
    """New data at each draw of the latents, by observed site: (simulations, *site).

    A Gaussian process is drawn from its prior at the hyperparameters of the draw.

    Raises:
        CannotDrawError: If the model observes nothing that can be drawn.
    """
    model = at_own_data(target, conditional=False)
    shapes = model.shapes(draws)
    if not shapes:
        raise CannotDrawError("no observed site has a distribution that can be drawn.")
    count = len(next(iter(draws.values())))
    keys = jax.random.split(jax.random.key(seed), count)
    size = sum(int(np.prod(shape)) for shape in shapes.values())
    return model.samples(draws, keys, size)
