"""Observed sites on whose values other sites of a model depend."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from numpyro import handlers
from numpyro.ops.provenance import eval_provenance

from bayeskern.inference.model.target import Target
from bayeskern.inference.model.trace.sites import trace_at
from bayeskern.inference.model.trace.validation import is_factor, is_observed


def conditional_sites(target: Target) -> tuple[str, ...]:
    """Observed sites whose distribution conditions new values on the observed ones."""
    return tuple(name for name, site in target.sites().items() if site.conditional)


class Upstream(NamedTuple):
    """Observed sites on whose values other sites depend.

    Attributes:
        given: All such sites, for example a covariate with its own distribution.
        fixed: Sites of `given` that depend on no latent, such as a parameter that `condition`
            fixes.
    """

    given: frozenset[str]
    fixed: frozenset[str]


def upstream_sites(
    target: Target,
    arguments: tuple[tuple, dict] | None = None,
    shapes: dict[str, tuple[int, ...]] | None = None,
) -> Upstream:
    """Observed sites on which other sites depend, from the inputs of all densities.

    Args:
        target: The model.
        arguments: Positional and named arguments; by default, the arguments of the fit.
        shapes: Shapes of latents that differ from the fit.

    Returns:
        The sites, from abstract traces.
    """
    args, kwargs = arguments or target.arguments
    shapes = {s.name: (shapes or {}).get(s.name, s.shape) for s in target.latents}
    provenance, data = _provenance(target, args, kwargs, shapes, is_density)
    given = _used(provenance, data)
    fixed = {n for n in given if not provenance[n] & set(shapes)}
    return Upstream(given, frozenset(fixed))


def used_values(target: Target) -> frozenset[str]:
    """Observed sites on which any site depends, also factors and deterministics."""
    shapes = {s.name: s.shape for s in target.latents}
    kinds = ("sample", "deterministic")
    provenance, data = _provenance(
        target, *target.arguments, shapes, lambda site: site["type"] in kinds
    )
    return _used(provenance, data)


def _used(provenance: dict[str, frozenset[str]], data: set[str]) -> frozenset[str]:
    """Observed sites on which other sites depend, from `_provenance`."""
    return frozenset(
        name
        for name in data
        if any(name in inputs for other, inputs in provenance.items() if other != name)
    )


def is_density(site: dict) -> bool:
    """True for a sample site that is not a factor."""
    return site["type"] == "sample" and not is_factor(site)


def _provenance(
    target: Target,
    args: tuple,
    kwargs: dict,
    shapes: dict[str, tuple[int, ...]],
    includes: Callable[[dict], bool],
) -> tuple[dict[str, frozenset[str]], set[str]]:
    """Latents and observed sites on which each site depends; observed sites.

    Args:
        target: The model.
        args: Its positional arguments.
        kwargs: Its named arguments.
        shapes: Shapes of the latents.
        includes: Predicate for the sites whose inputs are traced: those of a density, or of the
            value of a deterministic site.
    """
    latents = {name: jax.ShapeDtypeStruct(shape, float) for name, shape in shapes.items()}
    names: list[str] = []
    data: dict[str, jax.ShapeDtypeStruct] = {}

    def collect(draw: dict) -> None:
        for name, site in trace_at(target.model, draw, jax.random.key(0), args, kwargs).items():
            if not includes(site):
                continue
            names.append(name)
            # Data in a scan are left out: only other steps of the scan depend on them.
            in_scan = site.get("_control_flow_done", False)
            if site["type"] == "sample" and is_observed(site) and not in_scan:
                value = jnp.asarray(site["value"])
                data[name] = jax.ShapeDtypeStruct(value.shape, value.dtype)

    jax.eval_shape(collect, latents)
    # Without a site after the data, no site depends on them.
    if not any(names.index(name) < len(names) - 1 for name in data):
        return {}, set()

    def outputs(**values: jax.Array) -> dict[str, jax.Array]:
        draw = {name: values[name] for name in latents}
        model = handlers.condition(target.model, {name: values[name] for name in data})
        trace = trace_at(model, draw, jax.random.key(0), args, kwargs)
        return {name: _output(trace[name]) for name in names}

    # Site -> latents and data on which it depends.
    return eval_provenance(outputs, **latents, **data), set(data)


def _output(site: dict) -> jax.Array:
    """Density of a sample site, or value of a deterministic one."""
    if site["type"] == "deterministic":
        return jnp.asarray(site["value"])
    return site["fn"].log_prob(site["value"]).sum()
