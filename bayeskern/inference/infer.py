"""Any NumPyro model in, a posterior out."""

from __future__ import annotations

from bayeskern.core import validation
from bayeskern.core.timing import Stopwatch
from bayeskern.inference.methods import marginalization
from bayeskern.inference.methods.auto import Auto
from bayeskern.inference.methods.exact import Exact
from bayeskern.inference.methods.importance import ImportanceSampling
from bayeskern.inference.methods.laplace import Laplace
from bayeskern.inference.methods.map import MAP, MLE
from bayeskern.inference.methods.nuts import NUTS
from bayeskern.inference.methods.pathfinder import Pathfinder
from bayeskern.inference.methods.svi import SVI
from bayeskern.inference.model import sites
from bayeskern.inference.model.target import Target
from bayeskern.inference.posterior import arviz
from bayeskern.inference.posterior.posterior import Posterior

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
    method, seed = as_method(method), validation.seed(seed)
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
            arviz.require_axes(sites.look(target), coords, dims or {})
        fit = marginalization.run(method, target, seed, progress)
        return Posterior.of(method.name, fit, target, watch.seconds, coords, dims, seed, progress)


def as_method(method):
    """The method itself, or a new one of that name."""
    if isinstance(method, str):
        return METHODS[validation.one_of("method", method, METHODS)]()
    if isinstance(method, type) and method in METHODS.values():
        raise TypeError(f"method must be an object: bk.{method.__name__}(), with the parentheses.")
    if not hasattr(method, "run") or not hasattr(method, "name") or isinstance(method, type):
        raise TypeError(
            f"method must be one of {', '.join(METHODS)}, or an object such as bk.NUTS(chains=4); "
            f"got {method!r}."
        )
    return method
