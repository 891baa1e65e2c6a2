"""Gaussian processes that a model observes: left-out predictions, the function, its components.

A `GPRegression` and a hand-written model that observes a `GaussianProcess` are treated alike, by
tracing the model at draws of its latents.
"""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from bayeskern.core.batching import evenly
from bayeskern.forecast.combine.components import equal_draws
from bayeskern.forecast.model.building import build_kernel_and_noise
from bayeskern.forecast.result import Forecast
from bayeskern.gp.components import centered_components
from bayeskern.gp.process import GaussianProcess
from bayeskern.gp.regression import GPRegression, condition_at, predict_over, predictive_at
from bayeskern.hyperparameters import replace, sites
from bayeskern.kernels import Kernel
from bayeskern.kernels.components import component_names
from bayeskern.linalg import Choice, Solver
from bayeskern.prediction.mixture import Prediction, map_draws

# Each draw costs O(n^3).
DRAWS = 40
# Draws of the function at the ends of the data, for each draw of the hyperparameters.
PATHS = 50
# The component that carries the level, if one has this name.
LEVEL = "trend"


class ProcessModel(eqx.Module):
    """An observed process as a `GPRegression` at each draw.

    kernel: at some draw, for the names of its components; solver: that of the process.
    """

    target: eqx.Module
    kernel: Kernel
    site: str = eqx.field(static=True)
    solver: Solver

    def at(self, draw: dict) -> GPRegression:
        process = self.target.trace_at(draw)[self.site]["fn"]
        return GPRegression(process.kernel, process.noise, process.prior_mean, prepared=self.solver)


class Process(NamedTuple):
    """An observed Gaussian process at draws of its hyperparameters.

    draws: of the latents, (S, ...); data: X (n, d), y (n,) and perhaps a mask; kernels: a kernel
    that has S values of every hyperparameter, one for each draw.
    """

    site: str
    model: ProcessModel
    draws: dict
    data: tuple
    kernels: Kernel

    @property
    def X(self) -> np.ndarray:
        """The points that were observed: (m, d)."""
        return np.asarray(self.data[0])[self.observed]

    @property
    def y(self) -> np.ndarray:
        """The values that were observed: (m,)."""
        return np.asarray(self.data[1])[self.observed]

    @property
    def observed(self) -> np.ndarray:
        """The mask of the observed points: (n,)."""
        return np.asarray(self.data[2]) if len(self.data) > 2 else np.ones(len(self.data[1]), bool)

    @property
    def names(self) -> list[str]:
        """The additive components, the one that carries the level first."""
        names = component_names(self.model.kernel)
        return [LEVEL, *(n for n in names if n != LEVEL)] if LEVEL in names else names

    def loo(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Mean, variance and log density of each observation, given the others: (S, m) each."""
        predictions = jax.device_get(_loo(self.model, self.draws, self.data))
        return tuple(np.asarray(x)[:, self.observed] for x in predictions)

    def function(self, X_new) -> Prediction:
        """The function itself, without noise, at X_new (m, d)."""
        return predict_over(self.model, self.draws, self.data, X_new, latent=True)

    def components(self, X_new) -> dict[str, Prediction]:
        """Each component at X_new (m, d), about zero over the data but for the first."""
        return centered_components(self.model, self.draws, self.data, X_new, self.names[0])

    def changes(self, name: str, ends) -> np.ndarray:
        """Draws of how much a component changes between two points (2, d): (S * PATHS,)."""
        changes = _changes(self.model, self.draws, self.data, ends, name, jax.random.key(0))
        return np.asarray(changes).ravel()

    def noise(self) -> float:
        """The noise variance, averaged over points and draws."""
        return float(np.mean(_noise(self.model, self.draws)))

    def explain(self, kernel) -> Choice:
        """The solver of its covariance matrix, for a kernel of numbers."""
        draw = {name: value[0] for name, value in self.draws.items()}
        process = self.model.target.trace_at(draw)[self.site]["fn"]
        given = {"mask": process.observed, "solver": process.solver}
        return GaussianProcess(kernel, process.X, process.noise, **given).explain()


class ForecastProcess(NamedTuple):
    """The most probable structure of a forecast, as a report looks at a `Process`.

    z: draws of its hyperparameters, (S, d), in unconstrained coordinates; kernels: a kernel that
    has S values of every hyperparameter.
    """

    forecast: Forecast
    z: np.ndarray
    kernels: Kernel

    site: ClassVar[str] = "y"

    @classmethod
    def of(cls, forecast: Forecast) -> ForecastProcess:
        draws = forecast.parts[0].draws
        z = equal_draws(draws, forecast.seed)
        values = draws.fitted.evidence.values(z)
        leading = forecast.leading
        about = leading.structure, leading.x, leading.scale, leading.y
        kernel, _ = build_kernel_and_noise(forecast.choices, *about)
        paths = {s.name: s.path for s in sites(kernel) if s.name in values}
        first = kernel.at({name: values[name][0] for name in paths})
        # Only the hyperparameters differ from draw to draw.
        repeated = jax.tree.map(lambda leaf: np.stack([leaf] * len(z)), first)
        own = [np.asarray(values[name]) for name in paths]
        return cls(forecast, z, replace(repeated, [*paths.values()], own))

    @property
    def X(self) -> np.ndarray:
        return self.forecast.leading.x[:, None]

    @property
    def y(self) -> np.ndarray:
        return self.forecast.scale.forward(self.forecast.leading.y)

    @property
    def names(self) -> list[str]:
        return list(self.forecast.components)

    def loo(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return self.forecast.leading.evidence.loo(self.z)

    def components(self, X_new) -> dict[str, Prediction]:
        parts = self.forecast.leading.evidence.components(self.z, X_new[:, 0], self.names[0])
        # The default arguments bind the values of this turn of the loop.
        return {
            name: Prediction(lambda m=m: m, lambda m=m, v=v: (m, v), draw=None)
            for name, (m, v) in parts.items()
        }

    def changes(self, name: str, ends) -> np.ndarray:
        means, variances = self.forecast.leading.evidence.changes(self.z, name, ends[:, 0])
        standard = np.random.default_rng(self.forecast.seed).standard_normal((PATHS, len(means)))
        return (means + standard * np.sqrt(variances)).ravel()

    def noise(self) -> float | None:
        """None where the values are seen through a likelihood."""
        noise = self.forecast.leading.evidence.values(self.z).get("noise")
        return None if noise is None else float(np.mean(noise))


def processes(subject) -> list[Process]:
    """Every Gaussian process that the model observes with Gaussian noise."""
    if subject.forecast is not None:
        return [ForecastProcess.of(subject.forecast)]
    posterior = subject.posterior
    target, flat = posterior.target, posterior.flat
    rows = evenly(len(next(iter(flat.values()))), DRAWS)
    draws = {s.name: jnp.asarray(flat[s.name][rows]) for s in target.latents}
    gaussian_processes = []
    for name, site in subject.sites.items():
        if site.kind != "observed" or not site.conditional or len(site.shape) != 1:
            continue
        traced = target.trace_at({k: v[0] for k, v in draws.items()})[name]
        process, y = traced["fn"], traced["value"]
        if not isinstance(process, GaussianProcess):
            # Seen through a likelihood, or by inducing points.
            continue
        model = ProcessModel(target, process.kernel, name, process.solver)
        data = (process.X, y) if process.observed is None else (process.X, y, process.observed)
        gaussian_processes.append(Process(name, model, draws, data, _kernels(model, draws)))
    return gaussian_processes


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
def _changes(model, draws, data, ends, name, key):
    def change(draw, key):
        paths = predictive_at(model, data, True, name, draw, ends).sample(key, PATHS)
        return paths[:, 1] - paths[:, 0]

    return map_draws(change, draws, key)
