"""Inverse links: from eta to a mean, a log mean, or log probabilities.

Each is computed from eta directly, without a rounded intermediate result, so that log densities and
their first two derivatives are accurate in the tails.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array
from jax.nn import log_sigmoid
from jax.scipy.special import log_ndtr, ndtr


def log1mexp(x: Array) -> Array:
    """log(1 - exp(-x)) for x > 0; constant above 40, where it is 0 up to rounding."""
    # For large x, the derivative of jax.nn.log1mexp is inf / inf.
    return jax.nn.log1mexp(jnp.minimum(x, 40.0))


# JAX differentiates both branches of a `where`. In each function below, the branch not taken
# therefore gets a constant argument at which it is finite.


def log_softplus(eta: Array) -> Array:
    """log(log(1 + exp(eta)))."""
    small = eta < -12.0
    t = jnp.exp(jnp.where(small, eta, -12.0))
    series = eta - t / 2.0 + 5.0 * t**2 / 24.0
    return jnp.where(small, series, jnp.log(jax.nn.softplus(jnp.where(small, -12.0, eta))))


def log_cloglog(eta: Array) -> Array:
    """log(1 - exp(-exp(eta)))."""
    small = eta < -9.0
    t = jnp.exp(jnp.where(small, eta, -9.0))
    series = eta - t / 2.0 + t**2 / 24.0
    # Above 4 the value rounds to 0, and larger arguments would overflow in exp.
    moderate = jnp.where(small, -9.0, jnp.minimum(eta, 4.0))
    return jnp.where(small, series, log1mexp(jnp.exp(moderate)))


#: eta -> E[y]
LINKS = {
    "identity": lambda eta: eta,
    "log": jnp.exp,
    "inverse": lambda eta: 1.0 / eta,
    "softplus": jax.nn.softplus,
    "logit": jax.nn.sigmoid,
    "probit": ndtr,
    "cloglog": lambda eta: -jnp.expm1(-jnp.exp(eta)),
}

#: eta -> log E[y], for positive means
LOG_MEANS = {
    "log": lambda eta: eta,
    "softplus": log_softplus,
    "identity": jnp.log,
    "inverse": lambda eta: -jnp.log(eta),
}

#: eta -> (log p, log(1 - p)), for probabilities and proportions
LOG_PROBABILITIES = {
    "logit": lambda eta: (log_sigmoid(eta), log_sigmoid(-eta)),
    "probit": lambda eta: (log_ndtr(eta), log_ndtr(-eta)),
    "cloglog": lambda eta: (log_cloglog(eta), -jnp.exp(jnp.minimum(eta, 700.0))),
}


def log_odds(link: str, eta: Array) -> Array:
    """log p - log(1 - p) under a link of probabilities; eta itself under the canonical logit."""
    log_p, log_q = LOG_PROBABILITIES[link](eta)
    return log_p - log_q
