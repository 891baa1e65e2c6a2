"""Gaussian processes that a model observes: left-out predictions, the function, its components.

A `GPRegression` and a hand-written model that observes a `GaussianProcess` are looked at alike, by
tracing the model at draws of its latents.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from bayeskern.core.batching import evenly
from bayeskern.gp.components import centred_components
from bayeskern.gp.regression import condition_at, predict_over, predictive_at
from bayeskern.inference.model import sites
from bayeskern.kernels import Kernel
from bayeskern.kernels.components import component_names
from bayeskern.prediction.mixture import Prediction, map_draws

# Each draw costs O(n^3).
DRAWS = 40
# Draws of the function at the ends of the data, for each draw of the hyperparameters.
PATHS = 50
# The component that carries the level, where there is one of this name.
LEVEL = "trend"


class Traced(eqx.Module):
    """A site of a model as something that has a kernel, noise and a mean at each draw."""

    target: eqx.Module
    kernel: Kernel
    site: str = eqx.field(static=True)

    def at(self, draw: dict):
        t = self.target
        fn = sites.trace_at(t.model, draw, jax.random.key(0), t.args, t.kwargs)[self.site]["fn"]
        return SimpleNamespace(kernel=fn.kernel, noise=fn.noise, mean=fn.prior_mean)


class Process(NamedTuple):
    """A Gaussian process at draws of its hyperparameters.

    draws: of the latents, (S, ...); data: X (n, d), y (n,) and perhaps a mask; kernels: with one
    value of every hyperparameter for each draw.
    """

    site: str
    model: Traced
    draws: dict
    data: tuple
    kernels: Kernel

    @property
    def X(self) -> np.ndarray:
        """The points that were observed: (m, d)."""
        return np.asarray(self.data[0])[self.observed]

    @property
    def y(self) -> np.ndarray:
        return np.asarray(self.data[1])[self.observed]

    @property
    def observed(self) -> np.ndarray:
        return np.asarray(self.data[2]) if len(self.data) > 2 else np.ones(len(self.data[1]), bool)

    @property
    def names(self) -> list[str]:
        """The additive components, the one that carries the level first."""
        names = component_names(self.model.kernel)
        return [LEVEL, *(n for n in names if n != LEVEL)] if LEVEL in names else names

    def loo(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Means, variances and log densities of each observation, given the others: (S, m)."""
        found = jax.device_get(_loo(self.model, self.draws, self.data))
        return tuple(np.asarray(x)[:, self.observed] for x in found)

    def function(self, X_new) -> Prediction:
        """The function itself, without noise, at X_new (m, d)."""
        return predict_over(self.model, self.draws, self.data, X_new, latent=True)

    def components(self, X_new) -> dict[str, Prediction]:
        """Each component at X_new (m, d), about zero over the data but for the first."""
        return centred_components(self.model, self.draws, self.data, X_new, self.names[0])

    def changes(self, name: str, X_two) -> np.ndarray:
        """Draws of how much a component changes between two points: (S * PATHS,)."""
        found = _changes(self.model, self.draws, self.data, X_two, name, jax.random.key(0))
        return np.asarray(found).ravel()

    def noise(self) -> float:
        return float(np.mean(_noise(self.model, self.draws)))


def processes(subject) -> list[Process]:
    """Every Gaussian process that the model observes with Gaussian noise."""
    p = subject.posterior
    found = []
    for name, site in subject.sites.items():
        if site.kind != "observed" or not site.conditional or len(site.shape) != 1:
            continue
        rows = evenly(len(next(iter(p.flat.values()))), DRAWS)
        draws = {s.name: jnp.asarray(p.flat[s.name][rows]) for s in p.target.latents}
        middle = {k: v[0] for k, v in draws.items()}
        t = p.target
        trace = sites.trace_at(t.model, middle, jax.random.key(0), t.args, t.kwargs)
        fn, y = trace[name]["fn"], trace[name]["value"]
        if not all(hasattr(fn, part) for part in ("condition", "prior_mean", "kernel")):
            # Seen through a likelihood, or by inducing points.
            continue
        model = Traced(p.target, fn.kernel, name)
        data = (fn.X, y) if fn.observed is None else (fn.X, y, fn.observed)
        found.append(Process(name, model, draws, data, _kernels(model, draws)))
    return found


@eqx.filter_jit
def _kernels(model, draws):
    return map_draws(lambda draw: model.at(draw).kernel, draws)


@eqx.filter_jit
def _noise(model, draws):
    return map_draws(lambda draw: jnp.mean(model.at(draw).noise), draws)


@eqx.filter_jit
def _loo(model, draws, data):
    return map_draws(lambda draw: tuple(condition_at(model, draw, data).loo()), draws)


@eqx.filter_jit
def _changes(model, draws, data, X_two, name, key):
    def change(draw, key):
        ends = predictive_at(model, data, True, name, draw, X_two).sample(key, PATHS)
        return ends[:, 1] - ends[:, 0]

    return map_draws(change, draws, key)
