"""The posterior in closed form, from models that offer it."""

from __future__ import annotations

from dataclasses import dataclass

import equinox as eqx
import jax
import numpy as np

from bayeskern.inference.estimate import Estimate
from bayeskern.inference.known_marginal import known_marginals
from bayeskern.inference.methods.base import Method
from bayeskern.inference.model.target import Target
from bayeskern.inference.result import Fit, KnownVerdict
from bayeskern.inference.verdict import Trust
from bayeskern.protocols import HasClosedForm, NoClosedFormError

# Largest relative residual of the linear solve that rounding can explain.
MAX_RELATIVE_RESIDUAL = 1e-6


@dataclass(frozen=True)
class Exact(Method):
    """Independent draws from the posterior itself, in closed form.

    Args:
        draws: Number of draws.

    Raises:
        ValueError: If draws is not a whole number of at least 1.
        NoClosedFormError: In `infer`, if there is no closed form, with the reason.
    """

    draws: int = 4000

    name = "exact"
    use = "`GPRegression` with fixed hyperparameters, conjugate models, linear regression"
    counts = ("draws",)
    takes_marginal = False

    def run(self, target: Target, seed: int, progress: bool) -> Fit:
        model = target.model
        if not isinstance(model, HasClosedForm):
            name = getattr(model, "__name__", type(model).__name__)
            raise NoClosedFormError(
                f"{name} has no method exact(*data), so no closed form of its posterior is known. "
                "Take method='auto', which finds the cheapest method that fits."
            )
        form = model.exact(*target.args, **target.kwargs)
        draws = form.draw(jax.random.key(seed), self.draws)
        draws = {name: np.asarray(values) for name, values in draws.items()}
        latents = {s.name: draws[s.name] for s in target.latents}
        z = np.asarray(_unconstrain(target, latents)) if latents else np.zeros((self.draws, 0))

        return Fit(
            z=z[None],
            assess=KnownVerdict(_verdict(float(form.residual))),
            draws={name: values[None] for name, values in draws.items()},
            log_evidence=Estimate(float(form.log_evidence), 0.0),
            marginals=known_marginals(
                form.marginals, {name: values.shape[1:] for name, values in draws.items()}
            ),
        )


def _verdict(residual: float) -> Trust:
    """Verdict on draws in closed form, from the relative residual of the linear solve."""
    if residual < MAX_RELATIVE_RESIDUAL:
        advice = "Independent draws from the posterior in closed form."
        return Trust("good", advice, {"residual": residual})
    advice = (
        f"The linear solve left a relative residual of {residual:.2g}: the problem is too "
        "ill-conditioned. Add noise, or drop nearly equal inputs."
    )
    return Trust("bad", advice, {"residual": residual})


@eqx.filter_jit
def _unconstrain(target, values):
    return jax.vmap(lambda sites: target.unconstrain(sites)[0])(values)
