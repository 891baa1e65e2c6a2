"""Inverse links: from the linear predictor eta to the mean."""

import jax
import jax.numpy as jnp
from jax.scipy.special import ndtr

LINKS = {
    "identity": lambda eta: eta,
    "log": jnp.exp,
    "inverse": lambda eta: 1.0 / eta,
    "softplus": jax.nn.softplus,
    "logit": jax.nn.sigmoid,
    "probit": ndtr,
    "cloglog": lambda eta: -jnp.expm1(-jnp.exp(eta)),
}
