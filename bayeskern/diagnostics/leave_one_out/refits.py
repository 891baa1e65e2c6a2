"""Leave-one-out by refits of a model without one observation."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from numpyro.distributions import Distribution
from numpyro.primitives import Messenger

from bayeskern.diagnostics.leave_one_out.estimates import LeftOut
from bayeskern.diagnostics.leave_one_out.moment_matching import Observation, as_proposal, left_out
from bayeskern.diagnostics.leave_one_out.psis import relative_efficiency
from bayeskern.hyperparameters import innermost
from bayeskern.inference import Method, Target, Trust
from bayeskern.inference.approximation.moment_matching import match_moments
from bayeskern.inference.infer import fit_target
from bayeskern.inference.model.evaluation import log_densities
from bayeskern.inference.model.trace.handlers import FullPlates
from bayeskern.inference.posterior.log_likelihood import density, site_densities
from bayeskern.protocols import HasLogLikelihood, HasPointwise


def template_without(target: Target, site: str) -> Target:
    """Target of a model without one observation, whose index is its argument.

    Args:
        target: The model and its data.
        site: Name of the observed site.

    Raises:
        ValueError: If the model gives its own log likelihood, so that its observations are not
            independent given the draws.
    """
    if isinstance(target.model, HasLogLikelihood):
        raise ValueError(
            f"the site {site!r} cannot be refitted without an observation: the model has its own "
            "pointwise log likelihood. Fit the model to fewer data yourself, or take "
            "refit='never'."
        )
    draw = {s.name: jax.ShapeDtypeStruct(s.shape, float) for s in target.latents}
    shape = eqx.filter_eval_shape(_log_densities, target, draw)[site].shape
    return Target.from_model(ModelWithoutOne(target, site, shape), (jnp.asarray(0),), {})


def _log_densities(target: Target, draw: dict) -> dict[str, jax.Array]:
    return {name: log_probs for name, (log_probs, _) in site_densities(target, draw).items()}


def refit_without(
    template: Target, observation: Observation, method: Method, seed: int
) -> tuple[LeftOut, Trust]:
    """Estimate log p(y_i | other observations) by a fit without the observation.

    The estimate is the mean of p(y_i | draw) over the draws of this fit. For an outlier, a few
    draws dominate this mean. The draws are then moved towards the posterior of all observations,
    p(y_i | draw) times the density of the fit, and weighted.

    Args:
        template: Result of `template_without`.
        observation: The observation.
        method: The method of the fit.
        seed: Seed of the fit.

    Returns:
        The estimate, and the verdict on the fit.
    """
    target = template.with_arguments(jnp.asarray(observation.index))
    posterior = fit_target(method, target, seed)
    proposal = as_proposal(posterior, posterior.shape[1], relative_efficiency(posterior))

    def log_target(z: np.ndarray) -> np.ndarray:
        return log_densities(target, z) + observation.power * observation.densities(z)[1]

    matched = match_moments(proposal, log_target)
    log_likelihood = observation.densities(matched.z)[1]
    log_ratios = matched.weights.raw - observation.power * log_likelihood
    estimate = left_out(matched, log_ratios, log_likelihood, proposal.efficiency)
    return estimate, posterior.trust


class ModelWithoutOne(eqx.Module):
    """A model as a function of the index of an observation that it leaves out."""

    target: Target
    site: str = eqx.field(static=True)
    shape: tuple[int, ...] = eqx.field(static=True)

    def __call__(self, index: jax.Array) -> Any:
        model = FullPlates(self.target.model)
        by_event = bool(self.target.discrete)
        return _WithoutOne(model, self.site, index, self.shape, by_event)(
            *self.target.args, **self.target.kwargs
        )


class _WithoutOne(Messenger):
    """Messenger that leaves an observation out of the density of its site."""

    def __init__(self, fn, site: str, index: jax.Array, shape: tuple[int, ...], by_event: bool):
        self.site, self.index, self.shape, self.by_event = site, index, shape, by_event
        super().__init__(fn)

    def process_message(self, msg: Any) -> None:
        if msg["type"] == "sample" and msg["name"] == self.site and msg["is_observed"]:
            msg["fn"] = WithoutOne(msg["fn"], self.index, self.shape, self.by_event)


class WithoutOne(Distribution):
    """Density of the values of a site without one of them.

    Args:
        base: Distribution of the site.
        index: Index of the value in its log densities, flattened.
        shape: Shape of the log densities.
        by_event: True if an event is one observation.
    """

    pytree_data_fields = ("base", "index")
    pytree_aux_fields = ("density_shape", "by_event")

    def __init__(
        self,
        base: Distribution,
        index: jax.Array,
        shape: tuple[int, ...],
        by_event: bool,
        *,
        validate_args: bool | None = None,
    ):
        self.base, self.index, self.density_shape, self.by_event = base, index, shape, by_event
        super().__init__(base.batch_shape, base.event_shape, validate_args=validate_args)

    @property
    def support(self):  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.base.support

    def sample(self, key: jax.Array, sample_shape: tuple[int, ...] = ()) -> jax.Array:
        return jnp.asarray(self.base.sample(key, sample_shape))

    def log_prob(self, value: jax.Array) -> jax.Array:
        """Log density of the other values.

        It is log p(y) - log p(y_i | y_-i) if the values are dependent.
        """
        total = jnp.asarray(self.base.log_prob(value))
        if isinstance(innermost(self.base), HasPointwise):
            log_prob = density(self.base, value)[0].reshape(-1)[self.index]
            return total - log_prob / total.size
        log_probs, counted = (total, None) if self.by_event else density(self.base, value)
        # With discrete latents summed out, their values lie along axes to the left.
        size = int(np.prod(self.density_shape))
        kept = (jnp.arange(size) != self.index).reshape(self.density_shape)
        kept = kept if counted is None else kept & counted
        log_probs = jnp.where(kept, log_probs, 0.0)
        return jnp.sum(log_probs, axis=tuple(range(total.ndim, log_probs.ndim)))
