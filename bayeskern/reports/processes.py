"""Observed Gaussian processes: leave-one-out predictions, function, components.

A `GPRegression` and a hand-written model that observes a `GaussianProcess` are both traced at draws
of their latents.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from bayeskern.core.batching import evenly
from bayeskern.forecast.combine.components import equal_draws
from bayeskern.forecast.fit.modes import FittedStructure
from bayeskern.forecast.model.building import build_kernel_and_noise
from bayeskern.forecast.result import Forecast
from bayeskern.gp.components import centered_components
from bayeskern.gp.process import GaussianProcess
from bayeskern.gp.regression import GPRegression
from bayeskern.gp.regression_predictive import condition_at, predict_over, predictive_at
from bayeskern.hyperparameters import replace, sites
from bayeskern.inference import Posterior, Target
from bayeskern.inference.model.trace.sites import ModelSite
from bayeskern.kernels import Kernel
from bayeskern.kernels.components import component_names
from bayeskern.linalg import Solver
from bayeskern.prediction.mixture import Prediction, map_draws

# Number of function draws at the ends of the data, per draw of the hyperparameters.
PATHS = 50


class ProcessModel(eqx.Module):
    """An observed process as a `GPRegression` at each draw.

    Attributes:
        target: The model and its data.
        kernel: The kernel at one draw, for the names of its components.
        site: Name of the observed site.
        prepared: The solver of the process, as a `GPRegression` has it.
    """

    target: Target
    kernel: Kernel
    site: str = eqx.field(static=True)
    prepared: Solver

    def at(self, draw: dict) -> GPRegression:
        """The process at one draw of the latents."""
        fn = self.target.trace_at(draw)[self.site]["fn"]
        return GPRegression(fn.kernel, fn.noise, fn.prior_mean, prepared=self.prepared)


class Process(NamedTuple):
    """An observed Gaussian process at draws of its hyperparameters.

    Attributes:
        site: Name of the observed site.
        model: The process at each draw.
        draws: Draws of the latents, (S, ...).
        data: X (n, d), y (n,) and optionally a mask of the observed rows (n,).
        kernels: The kernel, with S values of every hyperparameter.
    """

    site: str
    model: ProcessModel
    draws: dict
    data: tuple[Any, ...]
    kernels: Kernel

    @property
    def X(self) -> np.ndarray:
        """Observed points, (m, d)."""
        return np.asarray(self.data[0])[self.observed]

    @property
    def y(self) -> np.ndarray:
        """Observed values, (m,)."""
        return np.asarray(self.data[1])[self.observed]

    @property
    def observed(self) -> np.ndarray:
        """Mask of the observed points, (n,)."""
        _, y, *mask = self.data
        return np.asarray(mask[0]) if mask else np.ones(len(y), bool)

    @property
    def names(self) -> list[str]:
        """Names of the additive components; the first, `trend` if present, has the level."""
        return sorted(component_names(self.model.kernel), key=lambda name: name != "trend")

    def loo(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Mean, variance and log density of each observation given the rest, (S, m) each."""
        predictions = jax.device_get(_loo(self.model, self.draws, self.data))
        means, variances, log_densities = (np.asarray(x)[:, self.observed] for x in predictions)
        return means, variances, log_densities

    def function(self, X_new: np.ndarray) -> Prediction:
        """The function without noise at X_new (m, d)."""
        # ProcessModel has the methods of GPRegression that are called.
        return predict_over(
            self.model,  # pyright: ignore[reportArgumentType]
            self.draws,
            self.data,
            jnp.asarray(X_new),
        )

    def components(self, X_new: np.ndarray) -> dict[str, Prediction]:
        """Each component at X_new (m, d); all but the first are centred over the data."""
        return centered_components(
            self.model,  # pyright: ignore[reportArgumentType]
            self.draws,
            self.data,
            jnp.asarray(X_new),
            self.names[0],
        )

    def changes(self, name: str, ends: np.ndarray) -> np.ndarray:
        """Draws of the change of a component between two points (2, d): (S * PATHS,)."""
        changes = _changes(self.model, self.draws, self.data, ends, name, jax.random.key(0))
        return np.asarray(changes).ravel()

    def noise(self) -> float:
        """Noise variance, averaged over points and draws."""
        return float(np.mean(_noise(self.model, self.draws)))


class ForecastProcess(NamedTuple):
    """The structure with the largest weight, with the interface of a `Process`.

    Attributes:
        forecast: The forecast.
        fitted: The fitted structure.
        z: Draws of its hyperparameters in unconstrained coordinates, (S, d).
        kernels: Its kernel, with S values of every hyperparameter.
    """

    forecast: Forecast
    fitted: FittedStructure
    z: np.ndarray
    kernels: Kernel

    @classmethod
    def from_forecast(cls, forecast: Forecast) -> ForecastProcess:
        """The process of the first part of a forecast, the one with the largest weight."""
        draws = forecast.parts[0].draws
        fitted, z = draws.fitted, equal_draws(draws, forecast.seed)
        values = fitted.density.values(z)
        kernel, _ = build_kernel_and_noise(
            forecast.choices, fitted.structure, fitted.x, fitted.scale, fitted.y
        )
        paths = {s.name: s.path for s in sites(kernel) if s.name in values}
        first = kernel.at({name: values[name][0] for name in paths})
        # Only the hyperparameters differ from draw to draw.
        repeated = jax.tree.map(lambda leaf: np.stack([leaf] * len(z)), first)
        hyperparameters = [np.asarray(values[name]) for name in paths]
        return cls(forecast, fitted, z, replace(repeated, [*paths.values()], hyperparameters))

    @property
    def site(self) -> str:
        """Name of the observed site."""
        return "y"

    @property
    def X(self) -> np.ndarray:
        """Observed times, (m, 1)."""
        return self.fitted.x[:, None]

    @property
    def y(self) -> np.ndarray:
        """Observed values on the scale of the fit, (m,)."""
        return self.forecast.scale.forward(self.fitted.y)

    @property
    def names(self) -> list[str]:
        """Names of the components."""
        return list(self.forecast.components)

    @property
    def values(self) -> dict[str, np.ndarray]:
        """Draws of the hyperparameters by name."""
        return self.fitted.density.values(self.z)

    def loo(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Mean, variance and log density of each observation given the rest, (S, m) each."""
        return self.fitted.density.loo(self.z)

    def components(self, X_new: np.ndarray) -> dict[str, Prediction]:
        """Each component at X_new (m, 1)."""
        parts = self.fitted.density.components(self.z, X_new[:, 0], self.names[0])
        return {name: Prediction.of(*moments) for name, moments in parts.items()}

    def changes(self, name: str, ends: np.ndarray) -> np.ndarray:
        """Draws of the change of a component between two times (2, 1)."""
        means, variances = self.fitted.density.changes(self.z, name, ends[:, 0])
        standard = np.random.default_rng(self.forecast.seed).standard_normal((PATHS, len(means)))
        return (means + standard * np.sqrt(variances)).ravel()

    def noise(self) -> float | None:
        """Noise variance, averaged over draws; None with a likelihood."""
        noise = self.values.get("noise")
        return None if noise is None else float(np.mean(noise))


def processes(
    posterior: Posterior, target: Target, model_sites: Mapping[str, ModelSite]
) -> list[Process]:
    """Gaussian processes that a model observes with Gaussian noise."""
    flat = posterior.flat
    # At most 40 draws, because each costs O(n^3).
    rows = evenly(len(next(iter(flat.values()))), 40)
    draws = {s.name: jnp.asarray(flat[s.name][rows]) for s in target.latents}
    gaussian_processes = []
    for name, site in model_sites.items():
        if site.kind != "observed" or not site.conditional or len(site.shape) != 1:
            continue
        traced = target.trace_at({k: v[0] for k, v in draws.items()})[name]
        process, y = traced["fn"], traced["value"]
        if not isinstance(process, GaussianProcess):
            # The process has a likelihood or inducing points.
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
        at_ends = predictive_at(model, data, ends, name, None, (draw, jnp.zeros(())), slice(None))
        paths = at_ends.sample(key, PATHS)
        return paths[:, 1] - paths[:, 0]

    return map_draws(change, draws, key)
