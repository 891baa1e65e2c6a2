"""The sites of a model at one draw of its latents, with all data, and what is known of each."""

from __future__ import annotations

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from numpyro import handlers
from numpyro.distributions import Unit
from numpyro.primitives import Messenger

from bayeskern.inference.model.arguments import release
from bayeskern.inference.model.target import Whole
from bayeskern.inference.model.validation import innermost


class Site(NamedTuple):
    """kind: latent, discrete (a latent that is summed out), deterministic or observed.

    names: of its axes, None where an axis has none.

    conditional: its distribution conditions new values on those that were observed.
    """

    kind: str
    shape: tuple[int, ...]
    names: tuple[str | None, ...]
    conditional: bool


def look(target) -> dict[str, Site]:
    """Every latent, discrete, deterministic and observed site, by name; nothing is computed."""
    found = {}
    latents = [s.name for s in target.latents]

    def run():
        draw = {s.name: jnp.zeros(s.shape) for s in target.latents}
        trace = trace_at(target.model, draw, jax.random.key(0), target.args, target.kwargs)
        for name, site in trace.items():
            if name in latents:
                kind = "latent"
            elif name in target.discrete:
                kind = "discrete"
            elif site["type"] == "deterministic":
                kind = "deterministic"
            elif is_observed(site):
                kind = "observed"
            else:
                continue
            shape = jnp.shape(site["value"])
            conditional = kind == "observed" and hasattr(innermost(site["fn"]), "given")
            if conditional and site["fn"] is not innermost(site["fn"]):
                raise ValueError(
                    f"the site {name!r} is a {type(innermost(site['fn'])).__name__} under a plate, "
                    "a mask or to_event; its values could not be conditioned on. Give each process "
                    "a site of its own (and mask= to the process)."
                )
            found[name] = Site(kind, shape, _names(site, shape), conditional)

    jax.eval_shape(run)
    return found


def observed(target, draw: dict) -> dict[str, np.ndarray]:
    """The values of the observed sites, in the order of the model."""
    found = jax.device_get(_observed(target, draw))
    return {name: found[name] for name, site in look(target).items() if site.kind == "observed"}


@eqx.filter_jit
def _observed(target, draw):
    trace = trace_at(target.model, draw, jax.random.key(0), target.args, target.kwargs)
    return {name: jnp.asarray(site["value"]) for name, site in trace.items() if is_observed(site)}


def trace_at(model, draw: dict, key, args, kwargs) -> dict:
    """NumPyro's trace with latents at the values of `draw`, all else drawn, no plate subsampled.

    Raises ValueError, naming the site, if a value does not have the shape of its site.
    """

    def place(site):
        if site["type"] not in ("sample", "param") or site["name"] not in draw:
            return None
        value = draw[site["name"]]
        if site["type"] == "sample":
            _same_shape(site, jnp.shape(value))
        return value

    model = handlers.seed(Whole(model), key)
    return handlers.trace(handlers.substitute(model, substitute_fn=place)).get_trace(
        *release(args), **release(kwargs)
    )


def is_observed(site) -> bool:
    """Whether a site holds data; a `numpyro.factor` does not."""
    return site["type"] == "sample" and site["is_observed"] and not is_factor(site)


def is_factor(site) -> bool:
    return isinstance(innermost(site["fn"]), Unit)


class Unobserved(Messenger):
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


def _same_shape(site, shape) -> None:
    expected = (*site["kwargs"].get("sample_shape", ()), *site["fn"].shape())
    if "_scan_current_index" in site["infer"]:
        # One step of a scan, which takes its own part of the values.
        shape = shape[1:]
    if shape != tuple(expected):
        raise ValueError(
            f"the latent site {site['name']!r} has shape {tuple(expected)} at these arguments, but "
            f"its draws have shape {shape}: there are no draws of it for new groups or points. "
            "Keep its plate as it was, or draw what is new at a site of another name."
        )


def _names(site, shape) -> tuple[str | None, ...]:
    """The names of the axes of a site: of its plates, and of `infer={"event_dims": [...]}`."""
    names: list[str | None] = [None] * len(shape)
    batch = len(shape) - (site["fn"].event_dim if site["type"] == "sample" else 0)
    for frame in site["cond_indep_stack"]:
        axis = batch + frame.dim
        if axis >= 0 and shape[axis] == frame.size:
            names[axis] = frame.name
    events = list((site.get("infer") or {}).get("event_dims", []))[-len(shape) or None :]
    return tuple(names[: len(shape) - len(events)] + events) if events else tuple(names)
