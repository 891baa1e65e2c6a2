"""Discrete latent sites, summed out by funsor where it is installed."""

from __future__ import annotations

from importlib.util import find_spec

import jax.numpy as jnp
import numpy as np
from numpyro import handlers


def require_enumerable(name: str, site: dict) -> None:
    """Raise ValueError if a discrete latent site cannot be summed out."""
    instead = (
        "If it is data, pass them (its obs was None). Otherwise sum it out in the model (for "
        "example with dist.MixtureSameFamily)"
    )
    if not site["fn"].has_enumerate_support:
        raise ValueError(
            f"the latent site {name!r} is discrete and has infinitely many values, so it cannot be "
            f"summed out. {instead}, or give it a bounded support."
        )
    if find_spec("funsor") is None:
        raise ValueError(
            f"the latent site {name!r} is discrete, and these backends need continuous latents. "
            f"{instead}, or let funsor do it: pip install 'bayeskern[discrete]'."
        )


def require_plates(name: str, site: dict, discrete: list[str]) -> None:
    """Raise ValueError if a sample site has an axis outside a plate, beside discrete latents.

    The values of discrete latents are enumerated along an axis of their own, and an axis outside a
    plate would be mistaken for it: with another size the model fails, and with the same size its
    density is silently wrong.
    """
    if is_step(site):
        # The steps of a scan are told apart.
        return
    value, fn = np.shape(site["value"]), site["fn"]
    batch = np.broadcast_shapes(fn.batch_shape, value[: len(value) - fn.event_dim])
    inside = {frame.dim for frame in site["cond_indep_stack"]}
    for axis in range(-len(batch), 0):
        if batch[axis] != 1 and axis not in inside:
            raise ValueError(
                f"the site {name!r} has an axis of {batch[axis]} outside a plate. Where discrete "
                f"latents ({', '.join(map(repr, discrete))}) are summed out, every axis must lie "
                f"in a plate: put the site under `with numpyro.plate('rows', {batch[axis]}):`."
            )


# How many random assignments of values to the discrete sites are compared.
TRIED = 4


def require_summable(model, args: tuple, kwargs: dict, nesting: int, discrete) -> None:
    """Raise ValueError, naming the site, if a density is wrong with all discrete values at once.

    The densities are compared with those at single assignments of values: a model that sums over
    the axis of the values, or takes it for one of its own, would be silently wrong. Models with a
    scan are not checked. model: with values at its continuous latents.
    """
    sampled = _sampled(model, args, kwargs)
    if any(map(is_step, sampled.values())):
        return
    names = ", ".join(map(repr, discrete))
    try:
        enumerated = _factors(model, args, kwargs, nesting)
    except Exception as reason:
        raise ValueError(
            f"the model cannot be computed for all values of {names} at once, which lie along an "
            f"axis of their own, to the left of all others ({type(reason).__name__}: {reason}). "
            "Before an axis of an event write z[..., None]; put observations in a plate."
        ) from reason
    rng = np.random.default_rng(0)
    for _ in range(TRIED):
        values, indices = {}, {}
        for name in discrete:
            support = sampled[name]["fn"].enumerate_support(expand=False).reshape(-1)
            index = rng.integers(len(support), size=np.shape(sampled[name]["value"]))
            values[name] = support[index]
            indices[name] = _index_funsor(index, len(support), sampled[name])
        assigned = _sampled(handlers.substitute(model, data=values), args, kwargs)
        for name, site in assigned.items():
            if not _agree(enumerated[name](**indices), site):
                raise ValueError(
                    f"the site {name!r} has another density with all values of {names} at once "
                    "than with one of each, so that they cannot be summed out. The values lie "
                    "along an axis of their own, to the left of all others: keep it (no sum over "
                    "a plate, no use outside of its plate, z[..., None] before an axis of an "
                    "event), and let a DiscreteUniform begin at 0."
                )


def require_no_scan(model, args: tuple, kwargs: dict) -> None:
    """Raise ValueError, naming a site of it, where a model with discrete sites has a scan."""
    for name, site in _sampled(model, args, kwargs).items():
        if is_step(site):
            raise ValueError(
                f"discrete sites cannot be drawn beside a scan (the site {name!r} is in one): "
                "NumPyro sums them out there, and does not draw them. Write the steps as a loop in "
                "Python, under numpyro.contrib.funsor.markov."
            )


def is_step(site) -> bool:
    """Whether a site is in a scan."""
    return "_scan_current_index" in site["infer"]


def _sampled(model, args, kwargs) -> dict:
    trace = handlers.trace(model).get_trace(*args, **kwargs)
    return {name: site for name, site in trace.items() if site["type"] == "sample"}


def _factors(model, args, kwargs, nesting) -> dict:
    """The log density of each site as a funsor of its plates and the discrete sites."""
    import funsor
    from numpyro.contrib import funsor as numpyro_funsor
    from numpyro.contrib.funsor.infer_util import plate_to_enum_plate

    with plate_to_enum_plate():
        trace = numpyro_funsor.trace(_enumerated(model, nesting)).get_trace(*args, **kwargs)
    sites = {name: site for name, site in trace.items() if site["type"] == "sample"}
    densities = {name: site["fn"].log_prob(site["value"]) for name, site in sites.items()}
    return {
        name: funsor.to_funsor(densities[name], funsor.Real, site["infer"]["dim_to_name"])
        for name, site in sites.items()
    }


def _index_funsor(index, count: int, site):
    """Which of `count` values a site takes, as a funsor of its plates."""
    import funsor

    return funsor.to_funsor(jnp.asarray(index), funsor.Bint[count], _plates(site))


def _plates(site) -> dict[int, str]:
    return {frame.dim: frame.name for frame in site["cond_indep_stack"]}


def _agree(log_prob, site) -> bool:
    """Whether a funsor has the log density of a site."""
    import funsor

    plates = _plates(site)
    if set(log_prob.inputs) - set(plates.values()):
        return False
    log_prob = funsor.to_data(log_prob, name_to_dim={name: dim for dim, name in plates.items()})
    expected = site["fn"].log_prob(site["value"])
    return np.allclose(*np.broadcast_arrays(log_prob, expected), rtol=1e-6, equal_nan=True)


def _enumerated(model, nesting: int):
    from numpyro.contrib import funsor

    return funsor.enum(funsor.config_enumerate(model), first_available_dim=-nesting - 1)


def log_density(model, args: tuple, kwargs: dict, nesting: int):
    """The log density of a model with its discrete sites summed out.

    nesting: how deep plates are nested, since the values are enumerated to the left of them.
    """
    from numpyro.contrib import funsor

    return funsor.log_density(_enumerated(model, nesting), args, kwargs, {})[0]


def draw_discrete(model, key, args: tuple, kwargs: dict, nesting: int, discrete) -> dict:
    """The discrete sites given all else in the model, by backward sampling."""
    from numpyro.contrib import funsor

    drawn = funsor.infer_discrete(
        funsor.config_enumerate(model), first_available_dim=-nesting - 1, rng_key=key
    )
    trace = handlers.trace(drawn).get_trace(*args, **kwargs)
    return {name: trace[name]["value"] for name in discrete}


# -- the density of each observation ---------------------------------------------------------------


class NoPointwiseError(ValueError):
    """Observations have no density of their own once discrete sites are summed out."""


def pointwise(model, args: tuple, kwargs: dict, nesting: int, discrete, observed) -> dict:
    """log p(y_i | the rest of the data), with discrete sites summed out: each (*batch of the site).

    observed: the names of the sites. Where a discrete latent and the observations that it decides
    on have the same plates, as in a mixture, it is log p(y_i) but for other observations of the
    same latent.

    Raises:
        NoPointwiseError: If a discrete latent decides on several observations of a site, or the
            model has a scan, whose steps are not told apart.
    """
    sampled = _sampled(model, args, kwargs)
    for name, site in sampled.items():
        if is_step(site):
            raise NoPointwiseError(
                "the observations have no log likelihood of their own where discrete sites are "
                f"summed out beside a scan (the site {name!r} is in one)."
            )
    factors = _factors(model, args, kwargs, nesting)
    return {name: _given_the_rest(name, sampled, factors, set(discrete)) for name in observed}


def _given_the_rest(name: str, sampled: dict, factors: dict, discrete: set):
    """log p(y_i | the rest) of one site, from all factors that its discrete latents reach."""
    import funsor
    from funsor import ops

    reached, latents = {name}, set()
    while True:
        latents = discrete.intersection(*[set().union(*(factors[n].inputs for n in reached))])
        more = {n for n, factor in factors.items() if latents & set(factor.inputs)} | {name}
        if more == reached:
            break
        reached = more
    plates = {frame.name: frame.dim for frame in sampled[name]["cond_indep_stack"]}
    for other in sorted(reached):
        of_other = set(_plates(sampled[other]).values())
        if not of_other <= set(plates) or (other in latents and of_other != set(plates)):
            raise NoPointwiseError(
                f"the observations of {name!r} have no log likelihood of their own: the discrete "
                f"latents ({', '.join(map(repr, sorted(latents)))}) tie several of them together. "
                "LOO takes a latent for each observation, in the plate of the observations."
            )
    rest = [factors[n] for n in sorted(reached - {name})]
    with funsor.interpretations.lazy:
        joint = sum(rest, factors[name]).reduce(ops.logaddexp, frozenset(latents))
    density = funsor.optimizer.apply_optimizer(joint)
    if rest:
        with funsor.interpretations.lazy:
            others = sum(rest[1:], rest[0]).reduce(ops.logaddexp, frozenset(latents))
        density = density - funsor.optimizer.apply_optimizer(others)
    site = sampled[name]
    value = np.shape(site["value"])
    batch = np.broadcast_shapes(site["fn"].batch_shape, value[: len(value) - site["fn"].event_dim])
    return jnp.broadcast_to(funsor.to_data(density, name_to_dim=plates), batch)
