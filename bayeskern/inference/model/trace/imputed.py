"""A model whose observed sites have missing values."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
from numpyro import primitives
from numpyro.primitives import Messenger

from bayeskern.inference.model.trace.arguments import StaticArray
from bayeskern.inference.model.trace.missing_values import (
    MissingValues,
    entries,
    observed_part,
    separate,
    with_entries,
)
from bayeskern.inference.model.trace.validation import is_observed


class Gap(NamedTuple):
    """Missing values of an observed site.

    Attributes:
        site: Name of the site.
        missing: True for missing values, in the shape of the values.
        latent: True if other sites depend on the values, so that the missing ones are a latent.
    """

    site: str
    missing: StaticArray
    latent: bool

    @property
    def name(self) -> str:
        """Name of the missing values in draws."""
        return f"{self.site}_missing"


@jax.tree_util.register_pytree_node_class
class Imputed(Messenger):
    """Model whose missing values are latents, or are left out of the density.

    If other sites depend on the values of a site, its missing values are a latent
    `<site>_missing`, with their distribution given the observed values, and other sites receive the
    completed values. Otherwise the missing values are integrated out: the site has the density of
    its observed values. The entry "missing" of a site in a trace is the distribution of its missing
    values.

    Args:
        fn: The model.
        gaps: Its missing values.
    """

    def __init__(self, fn: Callable, gaps: tuple[Gap, ...]) -> None:
        super().__init__(fn)
        self.gaps = gaps

    def tree_flatten(self) -> tuple[tuple, tuple]:
        return (self.fn,), self.gaps

    @classmethod
    def tree_unflatten(cls, gaps: tuple[Gap, ...], children: tuple) -> Imputed:
        # JAX unflattens trees with placeholders, but a Messenger refuses objects that are not
        # callable.
        imputed = object.__new__(cls)
        (imputed.fn,), imputed.gaps = children, gaps
        if callable(imputed.fn):
            functools.update_wrapper(imputed, imputed.fn, updated=[])
        return imputed

    def process_message(self, msg: dict[str, Any]) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        if msg["type"] != "sample" or not is_observed(msg):
            return
        msg["imputed"] = True
        gap = next((gap for gap in self.gaps if gap.site == msg["name"]), None)
        value = jnp.asarray(msg["value"])
        # New data of another shape have gaps of their own.
        if gap is None or value.shape != gap.missing.value.shape:
            return
        missing = gap.missing.value
        core, mask, events = separate(msg["fn"], value.shape)
        # An observed value, which lies inside the support, for finite gradients; no result depends
        # on it.
        filler = value.ravel()[np.argmin(missing)] if not missing.all() else 0.0
        value = jnp.where(missing & jnp.isnan(value), filler, value)
        msg["missing"] = MissingValues(core, value, gap.missing)
        if gap.latent:
            values = self._sample_outside(gap.name, msg["missing"])
            # New data of the same shape may have a value here.
            is_new = ~jnp.isnan(entries(jnp.asarray(msg["value"]), missing))
            values = jnp.where(is_new, entries(value, missing), values)
            value = with_entries(value, missing, values)
        observed = observed_part(core, missing)
        observed = observed if isinstance(mask, bool) else observed.mask(mask)
        msg["fn"], msg["value"] = observed.to_event(events), value

    def _sample_outside(self, name: str, fn: MissingValues) -> jax.Array:
        """Sample site outside the plates and handlers that the model has entered."""
        stack = primitives._PYRO_STACK
        first = next(i for i, handler in enumerate(stack) if handler is self)
        inner = stack[first:]
        del stack[first:]
        try:
            return jnp.asarray(numpyro.sample(name, fn))
        finally:
            stack.extend(inner)


def gaps_of(model: Callable | None) -> tuple[Gap, ...]:
    """Missing values of a model; empty if there are none."""
    return model.gaps if isinstance(model, Imputed) else ()
