"""The posterior in closed form, from models that know theirs."""

from __future__ import annotations

from dataclasses import dataclass

import equinox as eqx
import jax
import numpy as np

from bayeskern.core import validation
from bayeskern.inference.model.target import Target
from bayeskern.inference.result import Estimate, Fit
from bayeskern.inference.verdict import Trust
from bayeskern.protocols import NoClosedFormError

# The largest relative residual of the solve that is rounding.
RESIDUAL = 1e-6


@dataclass(frozen=True)
class Exact:
    """Independent draws from the posterior itself, where the model offers `exact(*data)`.

    draws: how many. Raises NoClosedFormError, with the reason, where there is no closed form.
    """

    draws: int = 4000

    name = "exact"
    as_written = True

    def __post_init__(self):
        validation.positive_integer(self.draws, "draws")

    def run(self, target: Target, seed: int, progress: bool) -> Fit:
        model = target.model
        if not hasattr(model, "exact"):
            name = getattr(model, "__name__", type(model).__name__)
            raise NoClosedFormError(
                f"{name} offers no exact(*data), so its posterior has no closed form here. Take "
                "method='auto', which finds the cheapest method that fits."
            )
        form = model.exact(*target.args, **target.kwargs)
        drawn = {k: np.asarray(v) for k, v in form.draw(jax.random.key(seed), self.draws).items()}
        latents = {s.name: drawn[s.name] for s in target.latents}
        z = np.asarray(_unconstrain(target, latents)) if latents else np.zeros((self.draws, 0))

        def judge(posterior) -> Trust:
            evidence = {"residual": float(form.residual)}
            if not form.residual < RESIDUAL:
                advice = (
                    f"The linear solve left a relative residual of {form.residual:.2g}: the "
                    "problem is too ill-conditioned. Give it more noise, or drop near copies."
                )
                return Trust("bad", advice, evidence)
            return Trust("good", "Independent draws from the posterior in closed form.", evidence)

        return Fit(
            z=z[None],
            judge=judge,
            draws={k: v[None] for k, v in drawn.items()},
            log_evidence=Estimate(float(form.log_evidence), 0.0),
        )


@eqx.filter_jit
def _unconstrain(target, values):
    return jax.vmap(lambda one: target.unconstrain(one)[0])(values)
