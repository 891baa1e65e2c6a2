"""Additive components centered over the data; one component carries the total level.

The data determine the total level of a sum of kernels, but not how it splits between the terms, so
that every term by itself looks uncertain. Here each component has its average over the observed
points subtracted, and one component, the level, gets all of these averages. Both steps are linear
in the Gaussian process, so that the posterior is exact, and the components still sum to f.
"""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax import Array

from bayeskern.gp.posterior import ConditionedGP
from bayeskern.gp.regression import GPRegression
from bayeskern.gp.regression_predictive import condition_at
from bayeskern.kernels.base import Kernel
from bayeskern.kernels.components import component, component_names
from bayeskern.kernels.compound import Sum
from bayeskern.prediction.mixture import Prediction, map_draws, thin


def centered_components(
    model: GPRegression, draws: dict[str, Array], data: tuple, X_new: Array, level: str
) -> dict[str, Prediction]:
    """Centered components of a `GPRegression` at X_new (m, d), mixed over draws.

    Args:
        model: The prepared model.
        draws: Draws of the hyperparameters by site.
        data: (X, y) or (X, y, mask), as `model.prepare` returned them.
        X_new: New points.
        level: Name of the component that gets the averages of the others; it comes first.
    """
    names = (level, *(name for name in component_names(model.kernel) if name != level))
    means, variances = _all_moments(model, thin(draws), data, X_new, names)
    return {
        name: Prediction.of(m, v)
        for name, m, v in zip(names, np.asarray(means), np.asarray(variances), strict=True)
    }


@eqx.filter_jit
def _all_moments(
    model: GPRegression, draws: dict[str, Array], data: tuple, X_new: Array, names: tuple[str, ...]
) -> tuple[Array, ...]:
    """Means and variances, (components, draws, points) each, with one factor per draw."""

    def at_draw(draw):
        gp = condition_at(model, draw, data)
        return [_moments(gp, X_new, name, names[0]) for name in names]

    moments = map_draws(at_draw, draws)
    return tuple(jnp.stack(values) for values in zip(*moments, strict=True))


def _moments(gp: ConditionedGP, X_new: Array, name: str, level: str) -> tuple[Array, Array]:
    """Mean and variance of one centered component at X_new: (m,), (m,).

    It is g - w' g(X) for a component g; for the level, g plus the averages w' h(X) of all other
    components h. `cross` (n, m) is its prior covariance with y.
    """
    names, n = component_names(gp.kernel), gp.X.shape[0]
    observed = jnp.ones(n) if gp.observed is None else gp.observed.astype(gp.X.dtype)
    # The average over the observed points is w' f(X).
    w = observed / jnp.sum(observed)

    def average(kernel: Kernel) -> tuple[Array, Array, Array]:
        """Covariances of the average w' g(X) with g(X) and g(X_new), and its variance."""
        with_data = kernel.evaluate(gp.X) @ w
        return with_data, kernel.evaluate(X_new, gp.X) @ w, w @ with_data

    cross, prior = jnp.zeros((n, X_new.shape[0])), jnp.zeros(X_new.shape[0])
    if name in names:
        kernel = component(gp.kernel, name)
        cross, prior = kernel.evaluate(gp.X, X_new), kernel.evaluate_diag(X_new)
    if name != level:
        with_data, with_new, variance = average(component(gp.kernel, name))
        cross, prior = cross - with_data[:, None], prior - 2.0 * with_new + variance
    elif others := tuple(component(gp.kernel, other) for other in names if other != level):
        with_data, _, variance = average(Sum(others))
        cross, prior = cross + with_data[:, None], prior + variance
    if gp.observed is not None:
        cross = jnp.where(gp.observed[:, None], cross, 0.0)
    explained_variance = jnp.sum(jnp.square(gp.factor.whiten(cross)), axis=0)
    return gp.weights @ cross, jnp.maximum(prior - explained_variance, 0.0)
