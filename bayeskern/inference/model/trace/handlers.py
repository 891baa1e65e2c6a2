"""NumPyro effect handlers: values of latents, full plates, new draws of data."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
from numpyro import handlers
from numpyro.contrib.control_flow.scan import scan_wrapper
from numpyro.distributions import (
    Distribution,
    ExpandedDistribution,
    Independent,
    MaskedDistribution,
    biject_to,
    constraints,
)
from numpyro.primitives import Messenger

from bayeskern.inference.model.trace.missing_values import drawn_where_missing
from bayeskern.inference.model.trace.validation import is_factor, is_improper, require_sample


class FullPlates(Messenger):
    """Make every plate of a model take all of its rows, whatever its subsample_size."""

    def process_message(self, msg: dict) -> None:
        if msg["type"] == "plate":
            size = msg["args"][0]
            msg["args"], msg["value"] = (size, size), jnp.arange(size)


class OneParamEach(Messenger):
    """Replace a param site that holds a network by one site for each of its arrays.

    The sites are called `<net>$params.<array>`. Arrays have the names that NumPyro gives to arrays
    with a prior, such as `layers[0].weight`.
    """

    def process_message(self, msg: dict) -> None:
        if msg["type"] != "param" or msg["value"] is not None:
            return
        network = msg["fn"](*msg["args"], **msg["kwargs"])
        if isinstance(network, jax.Array | np.ndarray | float):
            return
        arrays, structure = jax.tree_util.tree_flatten_with_path(network)
        values = [
            numpyro.param(f"{msg['name']}.{_path(path)}", array, **msg["kwargs"])
            for path, array in arrays
        ]
        # The outer handlers see the sites of the arrays, and not the network.
        msg["value"], msg["stop"] = jax.tree.unflatten(structure, values), True


def _path(path: Iterable[Any]) -> str:
    """Name of an array, from its path in the tree of a network."""
    parts = (f".{part.key}" if hasattr(part, "key") else str(part) for part in path)
    return "".join(parts).lstrip(".")


def is_network(site: dict) -> bool:
    """True if a param site holds a tree of arrays, such as a network."""
    return site["type"] == "param" and not jax.tree_util.all_leaves([site["value"]])


def has_prior(name: str, trace: dict) -> bool:
    """True if another site draws the network array of this param site from a prior."""
    net, _, array = name.partition("$params.")
    return f"{net}/{array}" in trace


class Unmasked(Messenger):
    """Remove masks and scales from the densities of sample sites."""

    def process_message(self, msg: dict) -> None:
        if msg["type"] != "sample":
            return
        while isinstance(msg["fn"], MaskedDistribution):
            msg["fn"] = msg["fn"].base_dist
        msg["scale"] = None


class ProperImputations(Messenger):
    """Give the latent of `numpyro.sample(..., obs_mask=)` its density in all rows.

    NumPyro splits such a site into `<name>_observed` and a latent `<name>_unobserved`, whose
    density is masked in observed rows. There it would be flat, and nothing holds a search or a
    chain. The density of the row instead leaves the posterior of all else as it is, because it
    integrates to 1.
    """

    def __init__(self, fn: Callable) -> None:
        self._observed: set[str] = set()
        super().__init__(fn)

    def process_message(self, msg: dict) -> None:
        if msg["type"] != "sample":
            return
        name = msg["name"]
        if msg["is_observed"] and name.endswith("_observed"):
            self._observed.add(name.removesuffix("_observed"))
        elif name.endswith("_unobserved") and name.removesuffix("_unobserved") in self._observed:
            msg["fn"] = _without_masks(msg["fn"])


def _without_masks(fn: Distribution) -> Distribution:
    if isinstance(fn, MaskedDistribution):
        return _without_masks(fn.base_dist)
    if isinstance(fn, ExpandedDistribution):
        return _without_masks(fn.base_dist).expand(fn.batch_shape)
    if isinstance(fn, Independent):
        return _without_masks(fn.base_dist).to_event(fn.reinterpreted_batch_ndims)
    return fn


class DrawObserved(Messenger):
    """Draw the observed sites too, in the shape of their data.

    Each step of a scan is drawn given the steps before it. If there are fewer data than steps, the
    first steps keep their data. Raises CannotDrawError if a distribution has no `sample`.

    Args:
        fn: The model.
        zero: Observed sites that are set to zero.
        given: Observed sites that keep their data.
    """

    def __init__(
        self, fn: Callable, zero: Collection[str] = (), given: Collection[str] = ()
    ) -> None:
        self.zero, self.given = zero, given
        # Sites with fewer data than steps of their scan.
        self._continued: set[str] = set()
        super().__init__(fn)

    def process_message(self, msg: dict) -> None:
        if msg["type"] == "control_flow" and msg["fn"] is scan_wrapper:
            self._enter(msg)
        if msg["type"] == "sample" and msg["name"] in self.given and msg.get("imputed", False):
            # Missing values at new arguments.
            key: Any = numpyro.prng_key()
            msg["value"] = drawn_where_missing(msg["fn"], msg["value"], key)
        if msg["type"] != "sample" or is_factor(msg) or msg["name"] in self.given:
            return
        if msg.get("_control_flow_done", False):
            # The site was drawn inside the scan.
            msg["is_observed"] = msg["is_observed"] and msg["name"] not in self._continued
        elif msg["name"] in self.zero:
            msg["value"], msg["is_observed"] = jnp.zeros(msg["fn"].shape()), False
        elif msg["is_observed"]:
            fn = msg["fn"]
            require_sample(msg["name"], fn)
            shape = jnp.shape(msg["value"])
            batch = shape[: max(0, len(shape) - fn.event_dim)]
            msg["fn"] = fn.expand(np.broadcast_shapes(batch, fn.batch_shape))
            msg["value"], msg["is_observed"] = None, False

    def _enter(self, scan: dict) -> None:
        """Remove the data of a scan, and apply this handler to its steps."""
        step, start, xs, length, reverse = scan["args"]
        steps = length if length is not None else len(jax.tree.leaves(xs)[0])
        scan["args"] = (DrawObserved(step, self.zero, self.given), start, xs, length, reverse)
        scan["kwargs"]["substitute_stack"] = [
            (kind, self._without_data(values, steps) if kind == "condition" else values)
            for kind, values in scan["kwargs"]["substitute_stack"]
        ]

    def _without_data(self, values: Callable | dict, steps: int) -> Callable | dict:
        """Values that a scan keeps: given sites, and data that cover its first steps only."""
        if callable(values):
            return lambda site: values(site) if site["name"] in self.given else None
        short = {name for name, v in values.items() if 0 < len(jnp.atleast_1d(v)) < steps}
        self._continued |= short - set(self.given)
        return {name: v for name, v in values.items() if name in short or name in self.given}


def without_data(model: Callable) -> Callable:
    """The model without its observed sites: its density is the prior density."""
    return handlers.block(
        model, hide_fn=lambda site: site["type"] == "sample" and site["is_observed"]
    )


def at_unconstrained(model: Callable, values: dict[str, jax.Array], key: jax.Array) -> Callable:
    """The model with latent sites fixed at given unconstrained values.

    Args:
        model: The model.
        values: Unconstrained values by site.
        key: Random key for all other draws.
    """

    def substitute(site: dict) -> jax.Array | None:
        if site["name"] not in values or site["type"] not in ("sample", "param"):
            return None
        transform, u = biject_to(support(site)), values[site["name"]]
        if site["type"] == "param":
            return transform(u)
        step = site["infer"].get("_scan_current_index")
        event_dims = transform.domain.event_dim - transform.codomain.event_dim
        if step is not None and jnp.ndim(u) > len(site["fn"].shape()) + event_dims:
            # The value at one step of a scan.
            u = u[step]
        return transform(u)

    return handlers.substitute(handlers.seed(model, key), substitute_fn=substitute)


def centre_improper(site: dict) -> jax.Array | None:
    """Image of 0 for an improper site, else None; for `substitute_fn`."""
    fn = site.get("fn")
    if fn is None or site["type"] != "sample" or not is_improper(fn):
        return None
    transform = biject_to(fn.support)
    return transform(jnp.zeros(transform.inverse_shape(fn.batch_shape + fn.event_shape)))


def support(site: dict) -> constraints.Constraint:
    """Support of the values of a sample or a param site."""
    if site["type"] == "param":
        return site["kwargs"].get("constraint", constraints.real)
    return site["fn"].support
