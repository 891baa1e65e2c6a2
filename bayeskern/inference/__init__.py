"""Any NumPyro model in, a posterior out."""

from __future__ import annotations

from bayeskern import checks
from bayeskern.inference import reduced, sites, tree
from bayeskern.inference.auto import Auto
from bayeskern.inference.exact import Exact
from bayeskern.inference.importance import ImportanceSampling
from bayeskern.inference.laplace import Laplace
from bayeskern.inference.map import MAP, MLE
from bayeskern.inference.modes import Optimum
from bayeskern.inference.nuts import NUTS
from bayeskern.inference.pathfinder import Pathfinder
from bayeskern.inference.posterior import Posterior
from bayeskern.inference.prior import prior_predictive
from bayeskern.inference.storage import load
from bayeskern.inference.svi import SVI
from bayeskern.inference.target import Target
from bayeskern.inference.timing import Stopwatch
from bayeskern.inference.trust import Trust

__all__ = [
    "MAP",
    "METHODS",
    "MLE",
    "NUTS",
    "SVI",
    "Auto",
    "Exact",
    "ImportanceSampling",
    "Laplace",
    "Optimum",
    "Pathfinder",
    "Posterior",
    "Target",
    "Trust",
    "infer",
    "load",
    "prior_predictive",
]

METHODS = {
    method.name: method
    for method in (Auto, Exact, MAP, MLE, Laplace, SVI, ImportanceSampling, Pathfinder, NUTS)
}


def infer(
    model,
    *args,
    method="auto",
    seed: int = 0,
    coords: dict | None = None,
    dims: dict | None = None,
    progress: bool = True,
    **kwargs,
) -> Posterior:
    """Fit a NumPyro model to data: `infer(model, X, y)`.

    method: a name from METHODS or an object with options, such as `MAP(starts=8)`. coords, dims:
    names for the axes of sites, as ArviZ takes them, beside those that plates give. Raises
    ValueError on an unknown method, on bad data, and on a model that cannot be fitted, naming the
    site.
    """
    method, seed = as_method(method), checks.seed(seed)
    for name, value in (("coords", coords), ("dims", dims)):
        if value is not None and not hasattr(value, "items"):
            raise TypeError(
                f"{name} must be a dict, as ArviZ takes it, got {type(value).__name__}."
            )
    if hasattr(model, "prepare"):
        model, args = model.prepare(*args, **kwargs)
        kwargs = {}
    with Stopwatch() as watch:
        target = Target.of(model, args, kwargs)
        target.require_summable()
        coords = {**getattr(model, "coords", {}), **(coords or {})}
        if coords or dims:
            tree.require_axes(sites.look(target), coords, dims or {})
        fit = reduced.run(method, target, seed, progress)
        return Posterior.of(method.name, fit, target, watch.seconds, coords, dims, seed, progress)


def as_method(method):
    """The method itself, or a new one of that name."""
    if isinstance(method, str):
        return METHODS[checks.one_of("method", method, METHODS)]()
    if isinstance(method, type) and method in METHODS.values():
        raise TypeError(f"method must be an object: bk.{method.__name__}(), with the parentheses.")
    if not hasattr(method, "run") or not hasattr(method, "name") or isinstance(method, type):
        raise TypeError(
            f"method must be one of {', '.join(METHODS)}, or an object such as bk.NUTS(chains=4); "
            f"got {method!r}."
        )
    return method
