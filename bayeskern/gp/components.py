"""Additive components, each about zero over the data, with the level of them all in one.

The terms of a sum of kernels share their level: the data say what it is in all, not how much of it
belongs to which term, so that every term by itself looks uncertain. Here each component is taken
minus its own average over the observed points, and the averages go to one component that carries
the level. Both are linear in the Gaussian process, so their posterior is exact, and the components
still add up to the whole.
"""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from bayeskern.gp.regression import condition_at
from bayeskern.kernels.base import Sum
from bayeskern.kernels.components import component, component_names
from bayeskern.prediction.mixture import Prediction, map_draws, thin


def centered_components(
    model, draws: dict, data: tuple, X_new, level: str
) -> dict[str, Prediction]:
    """The components of a `GPRegression` at X_new (m, d), mixed over draws of its hyperparameters.

    level: the component that carries the averages of the others; it is first. data: as
    `model.prepare` returned them.
    """
    names = (level, *(name for name in component_names(model.kernel) if name != level))
    means, variances = _all_moments(model, thin(draws), data, X_new, names)
    # The default arguments bind the values of this turn of the loop.
    return {
        name: Prediction(lambda m=m: m, lambda m=m, v=v: (m, v), _no_draws)
        for name, m, v in zip(names, np.asarray(means), np.asarray(variances), strict=True)
    }


def _no_draws(key, n):
    raise NotImplementedError("joint draws of centered components are not offered.")


@eqx.filter_jit
def _all_moments(model, draws, data, X_new, names):
    """Means and variances: (components, draws, points) each; one factor a draw serves them all."""

    def at_draw(draw):
        gp = condition_at(model, draw, data)
        return [_moments(gp, X_new, name, names[0]) for name in names]

    moments = map_draws(at_draw, draws)
    return tuple(jnp.stack(values) for values in zip(*moments, strict=True))


def _moments(gp, X_new, name, level):
    """Mean and variance of one component at X_new: (m,), (m,)."""
    names, n = component_names(gp.kernel), gp.X.shape[0]
    observed = jnp.ones(n) if gp.observed is None else gp.observed.astype(gp.X.dtype)
    # The average over the observed points is w' f(X).
    w = observed / jnp.sum(observed)

    def average(kernel):
        """Covariances of the average over the data: with y, with f(X_new), and its variance."""
        with_data = kernel.evaluate(gp.X) @ w
        return with_data, kernel.evaluate(X_new, gp.X) @ w, w @ with_data

    cross, prior = jnp.zeros((n, X_new.shape[0])), jnp.zeros(X_new.shape[0])
    if name in names:
        kernel = component(gp.kernel, name)
        cross, prior = kernel.evaluate(gp.X, X_new), kernel.evaluate_diag(X_new)
    if name != level:
        with_data, with_new, variance = average(kernel)
        cross, prior = cross - with_data[:, None], prior - 2.0 * with_new + variance
    elif others := tuple(component(gp.kernel, other) for other in names if other != level):
        with_data, _, variance = average(Sum(others))
        cross, prior = cross + with_data[:, None], prior + variance
    if gp.observed is not None:
        cross = jnp.where(gp.observed[:, None], cross, 0.0)
    explained = jnp.sum(jnp.square(gp.factor.whiten(cross)), axis=0)
    return gp.weights @ cross, jnp.maximum(prior - explained, 0.0)
