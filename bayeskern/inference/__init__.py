"""Any NumPyro model in, a posterior out."""

from __future__ import annotations

import time

from bayeskern import checks
from bayeskern.inference.map import MAP, Optimum
from bayeskern.inference.posterior import Posterior
from bayeskern.inference.target import Target
from bayeskern.inference.trust import Trust

__all__ = ["MAP", "METHODS", "Optimum", "Posterior", "Target", "Trust", "infer"]

METHODS = {method.name: method for method in (MAP,)}


def infer(model, *args, method="map", seed: int = 0, progress: bool = True, **kwargs) -> Posterior:
    """Fit a NumPyro model to data: `infer(model, X, y, method="map")`.

    method: a name from METHODS or an object with options, such as `MAP(starts=8)`. Raises
    ValueError on an unknown method, on bad data, and on a model without continuous latents.
    """
    if isinstance(method, str):
        method = METHODS[checks.one_of("method", method, METHODS)]()
    if hasattr(model, "prepare"):
        model, args = model.prepare(*args, **kwargs)
        kwargs = {}
    started = time.perf_counter()
    target = Target.of(model, args, kwargs)
    draws, judge, optimum = method.run(target, seed, progress)
    return Posterior(
        method=method.name,
        draws={name: value[None] for name, value in draws.items()},
        judge=judge,
        target=target,
        timing={"total": time.perf_counter() - started},
        optimum=optimum,
    )
