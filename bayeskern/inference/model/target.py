"""A model and its data as a log density on R^d, and the way back.

Every latent site is mapped to the real line by the bijection of its support, and all of them are
laid out in one flat vector z. A `numpyro.param` site takes part as a value without a prior.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from numpyro import handlers
from numpyro.distributions import biject_to
from numpyro.infer.util import compute_log_probs

from bayeskern.core.scalars import scalar_name
from bayeskern.core.tracing import by_one_thread
from bayeskern.inference.model.trace import arguments, validation
from bayeskern.inference.model.trace.distribution_pytrees import restore_leaves, sort_leaves
from bayeskern.inference.model.trace.enumeration import (
    draw_discrete,
    log_density,
    pointwise,
    require_no_scan,
    require_plates,
    require_summable,
)
from bayeskern.inference.model.trace.error_location import located
from bayeskern.inference.model.trace.handlers import (
    FullPlates,
    OneParamEach,
    Unmasked,
    at_unconstrained,
    centre_improper,
    has_prior,
    is_network,
    support,
    without_data,
)
from bayeskern.inference.model.trace.sites import (
    ModelSite,
    inspect_sites,
    observed_values,
    trace_at,
)
from bayeskern.protocols import DoesNotApplyError, PreparesData


class Latent(NamedTuple):
    """A latent site: its name, its shape before and after the map to the real line."""

    name: str
    is_param: bool
    shape: tuple[int, ...]
    unconstrained_shape: tuple[int, ...]

    @property
    def size(self) -> int:
        return int(np.prod(self.unconstrained_shape, dtype=int))


class Target(eqx.Module):
    """log p(z) for a NumPyro model and its arguments, z in R^d.

    A pytree: passed to a compiled function, new data of the same shapes do not recompile. Made by
    `of`.
    """

    sorted_model: Callable
    arguments: tuple[tuple, dict]
    latents: tuple[Latent, ...] = eqx.field(static=True)
    #: latents whose prior is improper, or that have none, and so cannot be drawn from it
    without_prior: tuple[str, ...] = eqx.field(static=True)
    #: those of them whose density has no scale, so that the evidence has none
    without_scale: tuple[str, ...] = eqx.field(static=True)
    #: deterministic sites, in the order of the model
    deterministics: tuple[str, ...] = eqx.field(static=True, default=())
    #: whether a plate takes part of its data at a time, and no latent site with it
    subsampled: bool = eqx.field(static=True, default=False)
    #: discrete latent sites, which are summed out
    discrete: tuple[str, ...] = eqx.field(static=True, default=())
    #: sites whose density has kinks, so that its curvature says nothing
    kinked: tuple[str, ...] = eqx.field(static=True, default=())
    #: observed sites that integrate a latent out by an approximation
    approximate: tuple[str, ...] = eqx.field(static=True, default=())
    #: how deep plates are nested
    nesting: int = eqx.field(static=True, default=0)
    #: whether a site is observed, or a factor or an unnormalised density stands for data
    conditioned: bool = eqx.field(static=True, default=True)

    @classmethod
    def of(cls, model: Callable, args: tuple, kwargs: dict) -> Target:
        """Trace the model once, abstractly, and lay out its latent sites.

        Raises TypeError if the model cannot be called, and ValueError, naming the site, if one
        cannot be fitted.
        """
        if not callable(model):
            kind = type(model).__name__
            raise TypeError(f"model must be a NumPyro model, a function of the data, got {kind}.")
        try:
            model, arguments_read, site_fields = _read_model(model, args, kwargs)
        except (IndexError, AttributeError, TypeError, ValueError) as error:
            explanation = arguments.explained(error, model, args, kwargs) or located(error)
            if explanation is None:
                raise
            raise explanation from error
        return cls(sort_leaves(model), arguments_read, **site_fields)

    @property
    def args(self) -> tuple:
        return arguments.without_static(self.arguments[0])

    @property
    def kwargs(self) -> dict:
        return arguments.without_static(self.arguments[1])

    @property
    def holds_data(self) -> bool:
        """Whether its arrays are constants, since the model looks at their values."""
        leaves = jax.tree.leaves(
            self.arguments, is_leaf=lambda x: isinstance(x, arguments.StaticArray)
        )
        return any(isinstance(x, arguments.StaticArray) for x in leaves)

    @property
    def model(self) -> Callable:
        return restore_leaves(self.sorted_model)

    @property
    def size(self) -> int:
        """d, the number of unconstrained coordinates."""
        return sum(latent.size for latent in self.latents)

    @property
    def coordinates(self) -> list[str]:
        """A name for each coordinate of z: `site`, or `site[i,j]`."""
        return [
            scalar_name(s.name, index)
            for s in self.latents
            for index in np.ndindex(s.unconstrained_shape)
        ]

    def unravel(self, z) -> dict:
        """The unconstrained value of each latent site, from z (d,)."""
        ends = np.cumsum([s.size for s in self.latents])[:-1]
        parts = jnp.split(z, ends)
        return {
            s.name: part.reshape(s.unconstrained_shape)
            for s, part in zip(self.latents, parts, strict=True)
        }

    def ravel(self, unconstrained: dict):
        """The inverse of `unravel`."""
        return jnp.concatenate([jnp.ravel(unconstrained[s.name]) for s in self.latents])

    def log_density(self, z, jacobian: bool = True, prior: bool = True):
        """log p(z): of the model's own parameters, or with `jacobian` of the unconstrained ones.

        prior=False leaves out the densities of the latent sites: log p(data | z). Values without
        a prior (param sites) have no Jacobian and no density of their own. A subsampled plate
        counts with all its rows.
        """
        if self.discrete:
            joint = self._summed(self.model, z, jacobian)
            return joint if prior else joint - self._summed(without_data(self.model), z, jacobian)
        latents = set() if prior else {s.name for s in self.latents}
        return self._log_density(
            FullPlates(self.model), z, jacobian, lambda name: name not in latents
        )

    def noisy_log_density(self, z, key):
        """log p(z) of the unconstrained parameters, with plates subsampled at random by `key`."""
        return self._log_density(self.model, z, key=key)

    def log_density_without(self, sites, z):
        """log p(z) of the unconstrained parameters, less the densities of some sites, by name."""
        return self._log_density(FullPlates(self.model), z, includes=lambda name: name not in sites)

    @by_one_thread
    def _log_density(self, model, z, jacobian=True, includes=lambda name: True, key=None):
        """The sum of the log densities of sites and, with `jacobian`, log |d value / d z|.

        includes: from the name of a site, whether its density is in the sum.
        """
        key = jax.random.key(0) if key is None else key
        placed = at_unconstrained(model, self.unravel(z), key)
        log_probs, trace = compute_log_probs(placed, self.args, self.kwargs, {})
        total = sum((v for name, v in log_probs.items() if includes(name)), jnp.zeros(()))
        return total + self._log_det(z, trace) if jacobian else total

    @by_one_thread
    def _summed(self, model, z, jacobian):
        """The log density with discrete sites summed out."""
        placed = at_unconstrained(model, self.unravel(z), jax.random.key(0))
        total = log_density(placed, self.args, self.kwargs, self.nesting)
        return total + self._log_det(z, self.trace(z)) if jacobian else total

    def _log_det(self, z, trace):
        """log |d value / d z|, from the supports of the sites in a trace at z."""
        placed, total = self.unravel(z), jnp.zeros(())
        for name in (s.name for s in self.latents if not s.is_param):
            site, u = trace[name], placed[name]
            total += jnp.sum(biject_to(support(site)).log_abs_det_jacobian(u, site["value"]))
        return total

    def log_prior(self, z):
        """The log density that `draw_prior` draws the unconstrained parameters from."""
        if self.discrete:
            return self._summed(without_data(self.model), z, True)
        latents = {s.name for s in self.latents}
        model = Unmasked(FullPlates(self.model))
        return self._log_density(model, z, includes=lambda name: name in latents)

    def constrain(self, z) -> dict:
        """Values of all latent and deterministic sites at z, the latent ones first."""
        trace = self.trace(z)
        names = [*(s.name for s in self.latents), *self.deterministics]
        return {name: jnp.asarray(trace[name]["value"]) for name in names}

    @by_one_thread
    def unconstrain(self, values: dict):
        """z at given values of the latent sites, and log |d value / d z|."""
        # The support of one site may depend on the value of another.
        model = handlers.seed(FullPlates(self.model), jax.random.key(0))
        model = handlers.substitute(model, data=values)
        trace = handlers.trace(model).get_trace(*self.args, **self.kwargs)
        z = self.ravel(
            {k: biject_to(support(trace[k])).inv(values[k]) for k in (s.name for s in self.latents)}
        )
        return z, self._log_det(z, trace)

    @by_one_thread
    def trace(self, z) -> dict:
        """NumPyro's trace at z."""
        model = at_unconstrained(FullPlates(self.model), self.unravel(z), jax.random.key(0))
        return handlers.trace(model).get_trace(*self.args, **self.kwargs)

    def trace_at(self, draw: dict, key=None) -> dict:
        """NumPyro's trace with latents at the values of one draw, no plate subsampled.

        Everything else is drawn from the key. Raises ValueError, naming the site, if a value does
        not have the shape of its site.
        """
        key = jax.random.key(0) if key is None else key
        return trace_at(self.model, draw, key, self.args, self.kwargs)

    def sites(self) -> dict[str, ModelSite]:
        """What is known of every latent, discrete, deterministic and observed site, by name."""
        return inspect_sites(self)

    def observed(self, draw: dict) -> dict[str, np.ndarray]:
        """The values of the observed sites at one draw of the latents."""
        return observed_values(self, draw)

    @by_one_thread
    def site_log_probs(self, draw: dict) -> dict[str, jax.Array]:
        """The log density of each sample site, summed, at one draw of the latents."""
        model = handlers.seed(FullPlates(self.model), jax.random.key(0))
        log_probs, _ = compute_log_probs(model, self.args, self.kwargs, draw)
        return {name: jnp.sum(value) for name, value in log_probs.items()}

    def with_arguments(self, *args, **kwargs) -> Target:
        """The same model given other data of the same shapes, not traced again for its sites."""
        return dataclasses.replace(self, arguments=(args, kwargs))

    def require_latents(self) -> None:
        """Raise ValueError if the model has no latent site."""
        if self.discrete and not self.latents:
            raise ValueError(
                f"the model has no continuous latent site: {', '.join(map(repr, self.discrete))} "
                "is summed out, and nothing is left to infer. Sum it by hand, or give a parameter "
                "a prior."
            )
        if not self.latents:
            raise ValueError(
                "the model has no latent site: every hyperparameter is a number, so there is "
                "nothing to infer. Give one a prior (a NumPyro distribution) or Free(init)."
            )

    @by_one_thread
    def require_summable(self) -> None:
        """Raise ValueError, naming the site, where discrete latents cannot be summed out."""
        if self.discrete and self.latents:
            # At random, so that no two parameters are equal, which could hide a mistake.
            z = jnp.asarray(np.random.default_rng(0).normal(size=self.size))
            model = at_unconstrained(FullPlates(self.model), self.unravel(z), jax.random.key(0))
            require_summable(model, self.args, self.kwargs, self.nesting, self.discrete)

    @by_one_thread
    def require_no_scan(self) -> None:
        """Raise ValueError, naming the site, where discrete latents are the states of a scan."""
        require_no_scan(handlers.seed(self.model, 0), self.args, self.kwargs)

    @by_one_thread
    def draw_discrete(self, draw: dict, key) -> dict:
        """The discrete sites that are summed out, given the data and values of the latents."""
        model_key, key = jax.random.split(key)
        model = self._placed(draw, model_key)
        return draw_discrete(model, key, self.args, self.kwargs, self.nesting, self.discrete)

    @by_one_thread
    def pointwise(self, draw: dict, observed) -> dict:
        """log p(y_i | the rest) at the sites `observed`, with discrete sites summed out."""
        model = self._placed(draw, jax.random.key(0))
        return pointwise(model, self.args, self.kwargs, self.nesting, self.discrete, observed)

    def _placed(self, draw: dict, key):
        """The model at values of the latents, no plate subsampled."""
        return handlers.substitute(handlers.seed(FullPlates(self.model), key), data=draw)

    def require_priors(self, method: str) -> None:
        """Raise ValueError, naming the sites, if one has no prior (Free, or numpyro.param)."""
        self.require_latents()
        free = [s.name for s in self.latents if s.is_param]
        if free:
            raise ValueError(
                f"{', '.join(map(repr, free))} has no prior (Free, or numpyro.param), and {method} "
                "needs one. Give it a prior, or take method='map' or 'mle'."
            )

    def require_curvature(self, method: str) -> None:
        """Raise DoesNotApplyError, naming the sites, if some densities have kinks."""
        if self.kinked:
            raise DoesNotApplyError(
                f"{method} needs the curvature of the density, but that of the site "
                f"{', '.join(map(repr, self.kinked))} has kinks (a Laplace distribution), where it "
                "has none. Take method='nuts', or method='map' for the mode alone."
            )

    @by_one_thread
    def draw_prior(self, key, spread) -> jax.Array:
        """One z (d,) from the prior.

        Coordinates without a proper prior are normal around their first value, with sd `spread`.
        """
        key, jitter = jax.random.split(key)
        model = handlers.substitute(FullPlates(self.model), substitute_fn=centre_improper)
        model = handlers.seed(model, key)
        trace = handlers.trace(model).get_trace(*self.args, **self.kwargs)
        unconstrained = {}
        for i, latent in enumerate(self.latents):
            site = trace[latent.name]
            value = jnp.asarray(biject_to(support(site)).inv(site["value"]))
            if latent.name in self.without_prior:
                noise = jax.random.normal(jax.random.fold_in(jitter, i), value.shape)
                value = value + spread * noise.astype(value.dtype)
            unconstrained[latent.name] = value
        return self.ravel(unconstrained)


def _read_model(model, args: tuple, kwargs: dict) -> tuple[Callable, tuple, dict]:
    """The model, its arguments as compiled functions take them, and the fields of its sites."""
    # A model has prepared its data for its own use; large arrays are not copied again.
    prepared = isinstance(model, PreparesData)
    arguments_read = (args, kwargs) if prepared else arguments.as_jax((args, kwargs))
    try:
        model, site_fields = _describe_sites(model, arguments_read)
    except arguments.CONCRETIZATION_ERRORS:
        # The model looks at the values of its arrays, as in len(np.unique(group)).
        arguments_read = arguments.make_static(arguments_read)
        with arguments.forbid_value_inspection():
            model, site_fields = _describe_sites(model, arguments_read)
    return model, arguments_read, site_fields


def _describe_sites(model, argument_trees) -> tuple[Callable, dict]:
    """The model, and the fields of a Target that describe its sites, by an abstract trace.

    Nothing is computed. Where a param site holds a network, the model has one for each of its
    arrays. Raises ValueError, naming the site, if one cannot be fitted.
    """
    latents, without_prior, without_scale, deterministics, discrete = [], [], [], [], []
    kinked, approximate, subsampled_plates, nesting, data_sites = [], [], set(), [0], []

    def run(argument_trees):
        nonlocal model
        args, kwargs = arguments.without_static(argument_trees)
        # Inside the abstract trace, since the bounds of a support may be traced values themselves.
        trace = _first_trace(model, args, kwargs)
        if any(map(is_network, trace.values())):
            model = OneParamEach(model)
            trace = _first_trace(model, args, kwargs)
        subsampled_plates.update(validation.subsampled(trace))
        if subsampled_plates:
            trace = _first_trace(FullPlates(model), args, kwargs)
        for name, site in trace.items():
            validation.look_at(name, site)
            nesting.extend(-frame.dim for frame in site.get("cond_indep_stack", ()))
            if validation.is_kinked(site):
                kinked.append(name)
            if validation.is_approximate(site):
                approximate.append(name)
            if site["type"] == "deterministic":
                deterministics.append(name)
            is_sample = site["type"] == "sample"
            if is_sample and (site["is_observed"] or validation.is_unnormalized(site["fn"])):
                data_sites.append(name)
            if site["type"] != "param" and (site["type"] != "sample" or site["is_observed"]):
                continue
            if site["type"] == "param" and has_prior(name, trace):
                continue
            if validation.is_discrete_latent(site):
                discrete.append(name)
                continue
            latents.append(_latent(name, site))
            if latents[-1].is_param or validation.is_improper(site["fn"]):
                without_prior.append(name)
                if latents[-1].is_param or not validation.is_unnormalized(site["fn"]):
                    without_scale.append(name)
            # Such a latent has values for all rows, so that no part of the rows can be taken alone.
            if any(frame.name in subsampled_plates for frame in site["cond_indep_stack"]):
                subsampled_plates.clear()
        for name, site in trace.items():
            if discrete and site["type"] == "sample":
                require_plates(name, site, discrete)

    eqx.filter_eval_shape(run, argument_trees)
    return model, {
        "latents": tuple(latents),
        "without_prior": tuple(without_prior),
        "without_scale": tuple(without_scale),
        # Deterministics may follow from values that were summed out.
        "deterministics": () if discrete else tuple(deterministics),
        "subsampled": bool(subsampled_plates) and not discrete,
        "discrete": tuple(discrete),
        "kinked": tuple(kinked),
        "approximate": tuple(approximate),
        "nesting": max(nesting),
        "conditioned": bool(data_sites),
    }


@by_one_thread
def _first_trace(model, args, kwargs) -> dict:
    handled = handlers.substitute(model, substitute_fn=centre_improper)
    return handlers.trace(handlers.seed(handled, jax.random.key(0))).get_trace(*args, **kwargs)


def _latent(name, site) -> Latent:
    shape = jnp.shape(site["value"])
    unconstrained_shape = biject_to(support(site)).inverse_shape(shape)
    return Latent(name, site["type"] == "param", shape, unconstrained_shape)
