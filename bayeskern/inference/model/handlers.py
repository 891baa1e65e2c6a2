"""NumPyro effect handlers: values at latent sites, all rows of a plate, data drawn anew."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from numpyro import handlers
from numpyro.distributions import biject_to, constraints
from numpyro.primitives import Messenger

from bayeskern.inference.model.validation import is_factor


class FullPlates(Messenger):
    """Makes every plate of a model take all of its rows, whatever its subsample_size."""

    def process_message(self, msg):
        if msg["type"] == "plate":
            size = msg["args"][0]
            msg["args"], msg["value"] = (size, size), jnp.arange(size)


class DrawObserved(Messenger):
    """Draws the observed sites too, in the shape of their data; those in `zero` become zero."""

    def __init__(self, fn, zero=()):
        self.zero = zero
        super().__init__(fn)

    def process_message(self, msg):
        if msg["type"] != "sample" or is_factor(msg):
            return
        if msg["name"] in self.zero:
            msg["value"], msg["is_observed"] = jnp.zeros(msg["fn"].shape()), False
        elif msg["is_observed"]:
            fn = msg["fn"]
            shape = jnp.shape(msg["value"])
            batch = shape[: max(0, len(shape) - fn.event_dim)]
            msg["fn"] = fn.expand(np.broadcast_shapes(batch, fn.batch_shape))
            msg["value"], msg["is_observed"] = None, False


def without_data(model):
    """The model without its observed sites, whose density is that of the prior."""
    return handlers.block(
        model, hide_fn=lambda site: site["type"] == "sample" and site["is_observed"]
    )


def at_unconstrained(model, values: dict, key):
    """The model with its latent sites at the images of unconstrained values.

    Whatever it draws beside them is drawn from the key.
    """

    def substitute(site):
        if site["name"] not in values or site["type"] not in ("sample", "param"):
            return None
        transform, u = biject_to(support(site)), values[site["name"]]
        if site["type"] == "param":
            return transform(u)
        step = site["infer"].get("_scan_current_index")
        event_dims = transform.domain.event_dim - transform.codomain.event_dim
        if step is not None and jnp.ndim(u) > len(site["fn"].shape()) + event_dims:
            # One step of a scan takes its own part.
            u = u[step]
        return transform(u)

    return handlers.substitute(handlers.seed(model, key), substitute_fn=substitute)


def centre_improper(site):
    """A value for a site that cannot be sampled: the image of 0. For `substitute_fn`."""
    fn = site.get("fn")
    if site["type"] != "sample" or type(fn).__name__ != "ImproperUniform":
        return None
    transform = biject_to(fn.support)
    return transform(jnp.zeros(transform.inverse_shape(fn.batch_shape + fn.event_shape)))


def support(site) -> constraints.Constraint:
    """Where the values of a sample or a param site lie."""
    if site["type"] == "param":
        return site["kwargs"].get("constraint", constraints.real)
    return site["fn"].support
