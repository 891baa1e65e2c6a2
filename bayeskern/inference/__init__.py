"""Any NumPyro model in, a posterior out."""

from __future__ import annotations

from bayeskern import checks
from bayeskern.inference.auto import Auto
from bayeskern.inference.exact import Exact
from bayeskern.inference.importance import ImportanceSampling
from bayeskern.inference.laplace import Laplace
from bayeskern.inference.map import MAP, MLE
from bayeskern.inference.modes import Optimum
from bayeskern.inference.nuts import NUTS
from bayeskern.inference.pathfinder import Pathfinder
from bayeskern.inference.posterior import Posterior
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
    if isinstance(method, str):
        method = METHODS[checks.one_of("method", method, METHODS)]()
    if hasattr(model, "prepare"):
        model, args = model.prepare(*args, **kwargs)
        kwargs = {}
    with Stopwatch() as watch:
        target = Target.of(model, args, kwargs)
        fit = method.run(target, seed, progress)
        return Posterior.of(method.name, fit, target, watch.seconds, coords, dims)
