"""Errors that name the cause of an infinite or NaN density: site, argument, row, value."""

from __future__ import annotations

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.interpreters.partial_eval import dce_jaxpr
from jax.typing import ArrayLike
from numpyro.distributions import Distribution, MaskedDistribution, constraints

from bayeskern.core.formatting import counted
from bayeskern.core.scalars import scalar_name
from bayeskern.hyperparameters import innermost
from bayeskern.inference.model.target import Target
from bayeskern.inference.model.trace.arguments import named_arrays
from bayeskern.inference.model.trace.validation import is_observed

# Advice on NaN among observations, and among arguments that are no observations.
IMPUTE = "; missing='impute' draws them"
AS_SITE = (
    "; or make it a site with a distribution, as in x = numpyro.sample('x', dist.Normal(mu, sd), "
    "obs=x), and pass missing='impute'"
)


class Parameter(NamedTuple):
    """A parameter of a distribution; `is_allowed` is True where its constraint holds."""

    name: str
    value: jax.Array
    is_allowed: jax.Array


class ObservedSite(NamedTuple):
    """Values of an observed site, mask of its support, and name of its distribution."""

    value: jax.Array
    is_inside: jax.Array
    kind: str


class SampleSite(NamedTuple):
    """Log density of a sample site, its gradient, shape of its value, its distribution."""

    value: jax.Array
    gradient: jax.Array
    shape: tuple[int, ...]
    kind: str
    parameters: list[Parameter]


def refuse_bad_data(target: Target, z: ArrayLike) -> None:
    """Raise ValueError if the data alone make every density infinite or NaN.

    They do so if observed values are NaN or infinite, or lie outside a support that depends on no
    latent.
    """
    sites = jax.device_get(_observed(target, z))
    for name, site in sites.items():
        _refuse_nonfinite_values(f"the observed site {name!r}", site.value, IMPUTE)
    # One output for each site; without dead code, the program shows which outputs depend on z.
    program = jax.make_jaxpr(lambda z: [s.is_inside for s in _observed(target, z).values()])(
        jnp.asarray(z)
    )
    for (name, site), output in zip(sites.items(), np.eye(len(sites), dtype=bool), strict=True):
        _, (depends_on_latents,) = dce_jaxpr(program.jaxpr, output.tolist())
        if not depends_on_latents:
            _refuse_outside(name, site)


def refuse_nonfinite(target: Target, z: ArrayLike) -> None:
    """Raise ValueError naming the sites at which the density, or its gradient, is not finite.

    Called only if no start has a finite density, so that the checks cost nothing otherwise. The
    message names a known cause: bad data, NaN among the arguments or invalid parameters.
    """
    z = jnp.asarray(z)
    refuse_bad_data(target, z)
    sites = jax.device_get(_sample_sites(target, z))
    for quantity, field in (("log density", "value"), ("gradient", "gradient")):
        wrong = {k: v for k, v in sites.items() if not np.all(np.isfinite(getattr(v, field)))}
        if wrong:
            shown = ", ".join(
                f"{k!r} ({float(v.value):.4g}, shape {v.shape})" for k, v in wrong.items()
            )
            place = f"the {quantity} is not finite where the fit would start, at site {shown}"
            for argument, array in named_arrays(target.model, target.args, target.kwargs):
                _refuse_nonfinite_values(f"{place}; the argument {argument!r}", array, AS_SITE)
            for site in wrong.values():
                _refuse_parameters(place, site)
            for name, site in jax.device_get(_observed(target, z)).items():
                _refuse_outside(name, site)
            raise ValueError(
                f"{place}. Check the data of that site, and the support and the scale of its prior."
            )
    raise ValueError(
        "the log density is not finite at any start, although the log density of each site is: "
        "their sum overflows. Rescale the data to about 1."
    )


def _refuse_nonfinite_values(owner: str, values: ArrayLike, advice: str) -> None:
    """Raise ValueError for values that are NaN, with advice on missing values, or infinite."""
    # Report infinite values only if no value is NaN: NaN may be their cause.
    for kind, is_bad in (("NaN", np.isnan), ("infinite", np.isinf)):
        bad = is_bad(np.asarray(values, float))
        if bad.any():
            count = counted(bad.sum(), "value that is", "values that are")
            first = f", the first in row {np.argwhere(bad)[0][0]}" if bad.ndim else ""
            raise ValueError(
                f"{owner} has {count} {kind}{first}. Drop those rows, or fill them in before the "
                f"call{advice if kind == 'NaN' else ''}."
            )


def _refuse_outside(name: str, site: ObservedSite) -> None:
    """Raise ValueError naming the first value outside the support of a distribution."""
    if np.all(site.is_inside):
        return
    # A scalar that stands for many observations has no index; value[index] may be an event.
    value, outside = np.asarray(site.value), ~np.asarray(site.is_inside)
    index = tuple(np.argwhere(outside)[0]) if np.ndim(value) >= outside.ndim else ()
    others = f" ({counted(outside.sum() - 1, 'other is', 'others are')} too)"
    raise ValueError(
        f"{scalar_name(name, index)} = {_shown(value[index])} is outside the support of "
        f"{site.kind}{others if outside.sum() > 1 else ''}. Check the data of {name!r}, or take "
        "another distribution."
    )


def _refuse_parameters(place: str, site: SampleSite) -> None:
    """Raise ValueError naming the first parameter that is not allowed."""
    for parameter, value, is_allowed in site.parameters:
        if np.all(is_allowed):
            continue
        index = tuple(np.argwhere(~np.asarray(is_allowed))[0])
        # NumPyro gives a single number the shape (1,).
        parameter_name = scalar_name(parameter, index if np.size(value) > 1 else ())
        raise ValueError(
            f"{place}; {parameter_name} of its {site.kind} is {_shown(np.asarray(value)[index])}, "
            "which is not allowed. Check how the model computes it."
        )


def _shown(value: np.ndarray) -> str:
    return f"{value:.6g}" if np.ndim(value) == 0 else np.array2string(value, precision=6)


def kind_of(fn: Distribution) -> str:
    """Name of the constructor of a distribution: Bernoulli, not BernoulliLogits."""
    return type(innermost(fn)).__name__.removesuffix("Logits").removesuffix("Probs")


@eqx.filter_jit
def _observed(target: Target, z: ArrayLike) -> dict[str, ObservedSite]:
    """Observed sites by name."""
    return {
        name: ObservedSite(jnp.asarray(site["value"]), _is_inside(site), kind_of(site["fn"]))
        for name, site in target.trace(z).items()
        if is_observed(site)
    }


def _is_inside(site: dict) -> jax.Array:
    """True for observed values that lie inside the support, or are masked."""
    fn, value = innermost(site["fn"]), jnp.asarray(site["value"])
    inside = fn.support(value) if fn.support is not None else jnp.ones(())
    wrapper = site["fn"]
    while wrapper is not fn:
        if isinstance(wrapper, MaskedDistribution):
            mask = jnp.asarray(wrapper._mask)
            events = wrapper.event_dim - fn.event_dim
            inside = inside | ~mask.reshape(mask.shape + (1,) * events)
        wrapper = wrapper.base_dist  # pyright: ignore[reportAttributeAccessIssue]
    return jnp.asarray(inside)


@eqx.filter_jit
def _sample_sites(target: Target, z: jax.Array) -> dict[str, SampleSite]:
    """Sample sites by name.

    Compiled, because outside a trace NumPyro rejects invalid parameters without naming their site.
    """

    def densities(z: jax.Array) -> tuple[dict[str, jax.Array], dict[str, dict]]:
        sites = {k: v for k, v in target.trace(z).items() if v["type"] == "sample"}
        return {k: jnp.sum(v["fn"].log_prob(v["value"])) for k, v in sites.items()}, sites

    (values, sites), gradients = densities(z), jax.jacrev(lambda z: densities(z)[0])(z)
    return {
        name: SampleSite(
            values[name],
            gradients[name],
            jnp.shape(site["value"]),
            kind_of(site["fn"]),
            _parameters(innermost(site["fn"])),
        )
        for name, site in sites.items()
    }


def _parameters(fn: Distribution) -> list[Parameter]:
    return [
        Parameter(name, jnp.asarray(value), jnp.asarray(fn.arg_constraints[name](value)))
        for name, value in fn.get_args().items()
        if not constraints.is_dependent(fn.arg_constraints[name])
    ]
