"""Predictions of a `GPRegression` from draws of its hyperparameters."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Protocol, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import ArrayLike

from bayeskern.gp.noise import Extra, NoiseModel
from bayeskern.gp.outputs import IndependentProcesses, OutputsPredictive
from bayeskern.gp.posterior import ConditionedGP, ProcessPredictive
from bayeskern.gp.prior import Inputs
from bayeskern.gp.process import GaussianProcess
from bayeskern.kernels.components import component_names
from bayeskern.kernels.measured.kernel import RowKinds
from bayeskern.linalg import Solver
from bayeskern.linalg.select import structure_of
from bayeskern.prediction.mixture import (
    MAX_MIXTURE_DRAWS,
    Mixture,
    Prediction,
    count_draws,
    map_draws,
)
from bayeskern.protocols import NewValues


class RegressionModel(Protocol):
    """Attributes of a `GPRegression` that its predictions use."""

    # A Kernel: for the type checker, a field with a converter has no type of its own.
    kernel: Any
    prepared: Solver | None

    @property
    def noise_model(self) -> NoiseModel: ...

    def at(self, values: dict) -> Self: ...

    def process(
        self, X: Inputs, mask: ArrayLike | None = None, extra: Extra | None = None
    ) -> GaussianProcess: ...


def condition_at(model: RegressionModel, draw: dict[str, Array], data: tuple) -> ConditionedGP:
    """Process of a GPRegression at one draw of its hyperparameters, given data."""
    X, y, *rest = data
    return model.at(draw).process(X, *rest).condition(y)


def predictive_at(
    model: RegressionModel,
    data: tuple,
    X_new: Array,
    name: str | None,
    kinds: RowKinds | None,
    draw_and_noise: tuple[dict[str, Array], Array],
    rows: Any,
) -> NewValues:
    """Distribution of the process at rows of X_new, given one draw.

    `name` selects a component, without the prior mean. `noise` is the noise variance at X_new, a
    number or (m,). `kinds` are the kinds of the rows of X_new; None for points. With several
    outputs, the output index runs fastest.
    """
    (draw, noise), (X, y, *rest) = draw_and_noise, data
    gps = condition_columns(model.at(draw).process(X, *rest), y)
    gps, X_new = [gp.measured(kinds) for gp in gps], X_new[rows]
    mean = gps[0].new_mean(None, X_new) if name is None else jnp.zeros(())
    noise = noise if noise.ndim == 0 else noise[rows]
    return join([ProcessPredictive(gp, name, X_new, mean, noise) for gp in gps])


def condition_columns(process: GaussianProcess, y: Array) -> tuple[ConditionedGP, ...]:
    """Condition the process on y (n,), or on each column of y (n, k)."""
    if y.ndim == 1:
        return (process.condition(y),)
    return IndependentProcesses(process, y.shape[1]).condition(y)


def join(parts: Sequence[ProcessPredictive]) -> ProcessPredictive | OutputsPredictive:
    """Joint distribution of independent processes, or the only process itself."""
    return parts[0] if len(parts) == 1 else OutputsPredictive(tuple(parts))


def predict_over(
    model: RegressionModel,
    draws: dict[str, Array],
    data: tuple,
    X_new: Array,
    noise: Array | None = None,
    name: str | None = None,
    kinds: RowKinds | None = None,
) -> Prediction:
    """Prediction of the process, or of its component `name`, mixed over S draws.

    noise: Noise variances of new observations at X_new, (S,) or (S, m); None to predict f.
    kinds: Kinds of the rows of X_new; None for points.
    """
    noise = jnp.zeros(count_draws(draws)) if noise is None else noise
    conditional_at = eqx.Partial(predictive_at, model, data, X_new, name, kinds)
    rows, n = np.arange(X_new.shape[0]), data[0].shape[0]
    if kinds is None and model.prepared is not None:
        n = model.prepared.numbers_per_point(structure_of(model.kernel), n)
    if name is not None:
        return Mixture(conditional_at, (draws, noise), rows, n)
    component = partial(predict_over, model, draws, data, X_new, None, kinds=kinds)
    names = tuple(component_names(model.kernel))
    return Mixture(conditional_at, (draws, noise), rows, n, component, names)


def with_new_noise(
    model: RegressionModel,
    draws: dict[str, Array],
    X: Array,
    X_new: Array,
    extra: Extra,
    seed: int,
) -> tuple[dict[str, Array], Array]:
    """Draws, and the noise variance at X_new for each of the S draws: (S,) or (S, m).

    If the noise is random given a draw, draws are repeated up to `MAX_MIXTURE_DRAWS`, each with a
    new draw of the noise.
    """
    repeats = MAX_MIXTURE_DRAWS // count_draws(draws) if model.noise_model.is_random else 1
    draws = {name: jnp.repeat(values, repeats, axis=0) for name, values in draws.items()}
    key = jax.random.key(seed)
    return draws, _new_noise(model, draws, X, X_new, extra, key)


@eqx.filter_jit
def _new_noise(model, draws, X, X_new, extra, key):
    def at_draw(draw, key):
        return model.at(draw).noise_model.of_new_rows(X, X_new, extra, key)

    return map_draws(at_draw, draws, key)
