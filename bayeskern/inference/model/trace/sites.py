"""What is known of each site of a model, and the trace of a model at one draw of its latents."""

from __future__ import annotations

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from numpyro import handlers
from numpyro.ops.provenance import eval_provenance

from bayeskern.core.tracing import by_one_thread
from bayeskern.hyperparameters import innermost
from bayeskern.inference.model.trace.arguments import without_static
from bayeskern.inference.model.trace.enumeration import is_step
from bayeskern.inference.model.trace.handlers import AtData, FullPlates
from bayeskern.inference.model.trace.validation import is_factor, is_observed, require_sample
from bayeskern.protocols import ConditionsOnData


class ModelSite(NamedTuple):
    """What is known of a site of a model.

    kind: "latent", "discrete" (a latent that is summed out), "deterministic" or "observed"; shape:
    of its value; names: of its axes, None where an axis has none; conditional: whether its
    distribution conditions new values on those that were observed.
    """

    kind: str
    shape: tuple[int, ...]
    names: tuple[str | None, ...]
    conditional: bool


def inspect_sites(target) -> dict[str, ModelSite]:
    """Every latent, discrete, deterministic and observed site, by name; nothing is computed."""
    sites = {}
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
            conditional = kind == "observed" and isinstance(innermost(site["fn"]), ConditionsOnData)
            if conditional and site["fn"] is not innermost(site["fn"]):
                raise ValueError(
                    f"the site {name!r} is a {type(innermost(site['fn'])).__name__} under a plate, "
                    "a mask or to_event; its values could not be conditioned on. Give each process "
                    "a site of its own (and mask= to the process)."
                )
            sites[name] = ModelSite(kind, shape, _names(site, shape), conditional)

    jax.eval_shape(run)
    return sites


def conditional_sites(target) -> tuple[str, ...]:
    """The observed sites whose distribution conditions new values on the old ones."""
    return tuple(name for name, site in inspect_sites(target).items() if site.conditional)


def observed_values(target, draw: dict) -> dict[str, np.ndarray]:
    """The values of the observed sites, in the order of the model."""
    values = jax.device_get(_observed(target, draw))
    return {
        name: values[name]
        for name, site in inspect_sites(target).items()
        if site.kind == "observed"
    }


@eqx.filter_jit
def _observed(target, draw):
    trace = trace_at(target.model, draw, jax.random.key(0), target.args, target.kwargs)
    return {name: jnp.asarray(site["value"]) for name, site in trace.items() if is_observed(site)}


class Upstream(NamedTuple):
    """Observed sites on whose values other sites depend.

    given: all of them, such as a covariate with a distribution of its own; fixed: those that
    depend on no latent, such as a parameter that `condition` holds at a value.
    """

    given: frozenset[str]
    fixed: frozenset[str]


def upstream_sites(target, args=None, kwargs=None, shapes: dict | None = None) -> Upstream:
    """The observed sites that others depend on, at these arguments or the model's own.

    By the provenance of the densities; nothing is computed. shapes: of the latents, where they are
    not those of the fit.
    """
    args, kwargs = (target.args, target.kwargs) if args is None else (args, kwargs)
    shapes = {s.name: s.shape for s in target.latents} | (shapes or {})
    latents = {s.name: jax.ShapeDtypeStruct(shapes[s.name], float) for s in target.latents}
    order, data = [], {}

    def look(draw):
        for name, site in trace_at(target.model, draw, jax.random.key(0), args, kwargs).items():
            if site["type"] != "sample" or is_factor(site):
                continue
            order.append(name)
            # The steps of a scan depend on one another only.
            if site["is_observed"] and not site.get("_control_flow_done", False):
                value = jnp.asarray(site["value"])
                data[name] = jax.ShapeDtypeStruct(value.shape, value.dtype)

    jax.eval_shape(look, latents)
    if not any(order.index(name) < len(order) - 1 for name in data):
        return Upstream(frozenset(), frozenset())

    def densities(**values):
        draw = {name: values[name] for name in latents}
        observed = {name: values[name] for name in data}
        model = AtData(target.model, observed)
        trace = trace_at(model, draw, jax.random.key(0), args, kwargs)
        return {name: trace[name]["fn"].log_prob(trace[name]["value"]).sum() for name in order}

    depends = eval_provenance(densities, **latents, **data)
    given = {n for n in data if any(n in depends[other] for other in order if other != n)}
    fixed = {n for n in given if not depends[n] & set(latents)}
    return Upstream(frozenset(given), frozenset(fixed))


@by_one_thread
def trace_at(model, draw: dict, key, args, kwargs, extend: bool = False) -> dict:
    """NumPyro's trace with latents at the values of `draw`, all else drawn, no plate subsampled.

    extend: draw the latents of those members of a plate that come after the ones in `draw`. Raises
    ValueError, naming the site, if a value does not have the shape of its site.
    """

    def place(site):
        if site["type"] not in ("sample", "param") or site["name"] not in draw:
            return None
        value = draw[site["name"]]
        if site["type"] == "sample":
            if extend and _has_new_members(site, jnp.shape(value)):
                require_sample(site["name"], site["fn"])
                fresh = site["fn"].sample(site["kwargs"]["rng_key"], _sample_shape(site))
                return fresh.at[tuple(map(slice, jnp.shape(value)))].set(value)
            _require_same_shape(site, jnp.shape(value))
        return value

    model = handlers.seed(FullPlates(model), key)
    return handlers.trace(handlers.substitute(model, substitute_fn=place)).get_trace(
        *without_static(args), **without_static(kwargs)
    )


def _sample_shape(site) -> tuple[int, ...]:
    return site["kwargs"].get("sample_shape", ())


def _has_new_members(site, shape) -> bool:
    """Whether a site has the shape of its draws but for plates, of which some are longer."""
    fn, expected = site["fn"], (*_sample_shape(site), *site["fn"].shape())
    if len(shape) != len(expected) or is_step(site):
        return False
    in_plates = {len(expected) - fn.event_dim + f.dim for f in site["cond_indep_stack"]}
    grown = {axis for axis, (n, m) in enumerate(zip(shape, expected, strict=True)) if n != m}
    return 0 < len(grown & in_plates) == len(grown) and all(shape[a] < expected[a] for a in grown)


def _require_same_shape(site, shape) -> None:
    expected = (*_sample_shape(site), *site["fn"].shape())
    if is_step(site):
        # One step of a scan, which takes its own part of the values.
        shape = shape[1:]
    if shape != tuple(expected):
        raise ValueError(
            f"the latent site {site['name']!r} has shape {tuple(expected)} at these arguments, but "
            f"its draws have shape {shape}: there are no draws of it for new groups or points. "
            "Keep its plate as it was; draw what is new at a site of another name; or, where its "
            "plate has new members after the old ones, take extend=True, which draws them from "
            "their prior given the draw."
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
