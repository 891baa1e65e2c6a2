"""A model and its data as a log density on R^d, and the map from z to its sites.

The bijection of its support maps every latent site to unconstrained values; the values of all sites
form one flat vector z. A `numpyro.param` site is a latent without a prior.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterable
from itertools import starmap
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from numpyro import handlers
from numpyro.distributions import biject_to
from numpyro.infer.util import compute_log_probs

from bayeskern.core.scalars import scalar_name
from bayeskern.core.tracing import by_one_thread
from bayeskern.inference.model.trace import arguments, validation
from bayeskern.inference.model.trace.distribution_pytrees import restore_leaves, sort_leaves
from bayeskern.inference.model.trace.enumeration import DiscreteModel, require_plates
from bayeskern.inference.model.trace.error_location import located
from bayeskern.inference.model.trace.handlers import (
    FullPlates,
    OneParamEach,
    ProperImputations,
    Unmasked,
    at_unconstrained,
    centre_improper,
    has_prior,
    is_network,
    support,
    without_data,
)
from bayeskern.inference.model.trace.sites import Latent, ModelSite, trace_at
from bayeskern.protocols import DoesNotApplyError, PreparesData


class Target(eqx.Module):
    """log p(z) for a NumPyro model and its arguments, z in R^d.

    A pytree: compiled functions that take a target do not recompile for new data of the same
    shapes. `Target.from_model` builds one from a model.

    Attributes:
        sorted_model: The model, with the leaves of its distributions in a fixed order.
        arguments: Positional and named arguments: traced arrays and static values.
        latents: Latent sites that z holds.
        without_prior: Latents with an improper prior or none, which cannot be drawn.
        without_scale: Latents of `without_prior` whose density has an arbitrary constant factor, so
            that the evidence is undefined.
        deterministics: Deterministic sites, in the order of the model.
        subsampled: True if the log density can be estimated from some rows: a plate is subsampled,
            no subsampled plate holds a latent, and no latent is discrete.
        discrete: Discrete latent sites, which are summed out.
        kinked: Sites whose density has kinks, where its curvature is meaningless.
        approximate: Observed sites that integrate a latent out approximately.
        nesting: Depth of nested plates.
        conditioned: True if the model has an observed site, a factor or an unnormalised density.
    """

    sorted_model: Callable
    arguments: tuple[tuple, dict]
    latents: tuple[Latent, ...] = eqx.field(static=True)
    without_prior: tuple[str, ...] = eqx.field(static=True)
    without_scale: tuple[str, ...] = eqx.field(static=True)
    deterministics: tuple[str, ...] = eqx.field(static=True, default=())
    subsampled: bool = eqx.field(static=True, default=False)
    discrete: tuple[str, ...] = eqx.field(static=True, default=())
    kinked: tuple[str, ...] = eqx.field(static=True, default=())
    approximate: tuple[str, ...] = eqx.field(static=True, default=())
    nesting: int = eqx.field(static=True, default=0)
    conditioned: bool = eqx.field(static=True, default=True)

    @classmethod
    def from_model(cls, model: Callable, args: tuple, kwargs: dict) -> Target:
        """Trace a model once, abstractly, and lay out its latent sites.

        Args:
            model: A NumPyro model.
            args: Its positional arguments.
            kwargs: Its named arguments.

        Returns:
            The log density.

        Raises:
            TypeError: If the model cannot be called.
            ValueError: If a site cannot be fitted; the message names it.
        """
        if not callable(model):
            kind = type(model).__name__
            raise TypeError(f"model must be a NumPyro model, a function of the data, got {kind}.")
        try:
            traced_arguments = _traceable(model, args, kwargs)
            try:
                return cls._from_trace(model, traced_arguments)
            except arguments.CONCRETIZATION_ERRORS:
                # The model reads the values of its arrays, as in len(np.unique(group)).
                with arguments.forbid_value_inspection():
                    return cls._from_trace(model, arguments.make_static(traced_arguments))
        except (IndexError, AttributeError, TypeError, ValueError) as error:
            explanation = arguments.explained(error, model, args, kwargs) or located(error)
            if explanation is None:
                raise
            raise explanation from error

    @classmethod
    def _from_trace(cls, model: Callable, traced_arguments: tuple[tuple, dict]) -> Target:
        """Target from an abstract trace of the model."""
        traced: dict[str, Any] = {}

        def run(traced_arguments: tuple[tuple, dict]) -> None:
            # Sites are read inside the trace, because the bounds of a support may be tracers.
            traced.update(_traced(model, *arguments.without_static(traced_arguments)))

        eqx.filter_eval_shape(run, traced_arguments)
        return cls(sort_leaves(traced.pop("model")), traced_arguments, **traced)

    @property
    def args(self) -> tuple:
        """Positional arguments of the model."""
        return arguments.without_static(self.arguments[0])

    @property
    def kwargs(self) -> dict:
        """Named arguments of the model."""
        return arguments.without_static(self.arguments[1])

    @property
    def holds_data(self) -> bool:
        """True if array arguments are static, because the model reads their values."""
        leaves = jax.tree.leaves(self.arguments, is_leaf=arguments.is_static)
        return any(isinstance(leaf, arguments.StaticArray) for leaf in leaves)

    @property
    def model(self) -> Callable:
        """The NumPyro model."""
        return restore_leaves(self.sorted_model)

    @property
    def size(self) -> int:
        """d, the number of unconstrained coordinates."""
        return sum(latent.size for latent in self.latents)

    @property
    def coordinates(self) -> list[str]:
        """A name for each coordinate of z: `site`, or `site[i, j]`."""
        return [
            scalar_name(s.name, index)
            for s in self.latents
            for index in np.ndindex(s.unconstrained_shape)
        ]

    # -- coordinates and sites --------------------------------------------------------------------

    def unravel(self, z: ArrayLike) -> dict[str, jax.Array]:
        """Unconstrained value of each latent site, from z (d,)."""
        ends = np.cumsum([s.size for s in self.latents])[:-1]
        parts = jnp.split(jnp.asarray(z), ends)
        return {
            s.name: part.reshape(s.unconstrained_shape)
            for s, part in zip(self.latents, parts, strict=True)
        }

    def ravel(self, unconstrained: dict[str, jax.Array]) -> jax.Array:
        """The inverse of `unravel`."""
        return jnp.concatenate([jnp.ravel(unconstrained[s.name]) for s in self.latents])

    def constrain(self, z: ArrayLike) -> dict[str, jax.Array]:
        """Values of all latent and deterministic sites at z (d,), latent sites first."""
        trace = self.trace(z)
        names = [*(s.name for s in self.latents), *self.deterministics]
        return {name: jnp.asarray(trace[name]["value"]) for name in names}

    @by_one_thread
    def unconstrain(self, values: dict) -> tuple[jax.Array, jax.Array]:
        """z (d,) at values of the latent sites, and log |d value / d z|."""
        # The support of one site may depend on the value of another.
        model = handlers.seed(FullPlates(self.model), jax.random.key(0))
        model = handlers.substitute(model, data=values)
        trace = handlers.trace(model).get_trace(*self.args, **self.kwargs)
        names = [latent.name for latent in self.latents]
        z = self.ravel({k: biject_to(support(trace[k])).inv(values[k]) for k in names})
        return z, self._log_det(z, trace)

    @by_one_thread
    def draw_prior(self, key: jax.Array, spread: ArrayLike) -> jax.Array:
        """One draw z (d,) from the prior.

        Coordinates without a proper prior are normal with sd `spread`, around the initial value of
        a param site or around 0.
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

    # -- log densities ----------------------------------------------------------------------------

    def log_density(self, z: ArrayLike, jacobian: bool = True, prior: bool = True) -> jax.Array:
        """Log density at z (d,), with all rows of subsampled plates.

        A `numpyro.param` site contributes neither a density nor a Jacobian.

        Args:
            z: Unconstrained coordinates, (d,).
            jacobian: True for the density of z, False for the density of the constrained values.
            prior: False to leave out the densities of the latent sites: log p(data | z).

        Returns:
            log p(z).
        """
        if self.discrete:
            log_joint = self._summed_log_density(self.model, z, jacobian)
            if prior:
                return log_joint
            return log_joint - self._summed_log_density(without_data(self.model), z, jacobian)
        latents = set() if prior else {s.name for s in self.latents}
        return self._log_density(
            FullPlates(self.model), z, jacobian, lambda name: name not in latents
        )

    def noisy_log_density(self, z: ArrayLike, key: jax.Array) -> jax.Array:
        """Estimate of log p(z) from random rows of subsampled plates, drawn with `key`."""
        return self._log_density(self.model, z, key=key)

    def log_density_without(self, sites: Collection[str], z: ArrayLike) -> jax.Array:
        """log p(z) without the log densities of the sites with these names."""
        return self._log_density(FullPlates(self.model), z, includes=lambda name: name not in sites)

    def log_prior(self, z: ArrayLike) -> jax.Array:
        """Log prior density at z (d,), which `draw_prior` draws from."""
        if self.discrete:
            return self._summed_log_density(without_data(self.model), z, True)
        latents = {s.name for s in self.latents}
        model = Unmasked(FullPlates(self.model))
        return self._log_density(model, z, includes=lambda name: name in latents)

    @by_one_thread
    def _log_density(
        self,
        model: Callable,
        z: ArrayLike,
        jacobian: bool = True,
        includes: Callable[[str], bool] = lambda name: True,
        key: jax.Array | None = None,
    ) -> jax.Array:
        """Sum of the log densities of sites and, with `jacobian`, log |d value / d z|.

        Args:
            model: The model.
            z: Unconstrained coordinates, (d,).
            jacobian: As in `log_density`.
            includes: True for the name of a site whose density is in the sum.
            key: Random key for the rows of subsampled plates.
        """
        model_at_z = self._model_at(model, z, key)
        log_probs, trace = compute_log_probs(model_at_z, self.args, self.kwargs, {})
        total = sum((v for name, v in log_probs.items() if includes(name)), jnp.zeros(()))
        return total + self._log_det(z, trace) if jacobian else total

    @by_one_thread
    def _summed_log_density(self, model: Callable, z: ArrayLike, jacobian: bool) -> jax.Array:
        """Log density with discrete sites summed out."""
        total = self._summed_out(self._model_at(model, z)).log_density()
        return total + self._log_det(z, self.trace(z)) if jacobian else total

    def _model_at(self, model: Callable, z: ArrayLike, key: jax.Array | None = None) -> Callable:
        """The model with its latents fixed at z (d,); `key` seeds all other draws."""
        key = jax.random.key(0) if key is None else key
        return at_unconstrained(ProperImputations(model), self.unravel(z), key)

    def _log_det(self, z: ArrayLike, trace: dict[str, dict]) -> jax.Array:
        """log |d value / d z|, from the supports of the sites in a trace at z."""
        unconstrained, total = self.unravel(z), jnp.zeros(())
        for name in (s.name for s in self.latents if not s.is_param):
            site, u = trace[name], unconstrained[name]
            total += jnp.sum(biject_to(support(site)).log_abs_det_jacobian(u, site["value"]))
        return total

    @by_one_thread
    def site_log_probs(self, draw: dict) -> dict[str, jax.Array]:
        """Total log density of each sample site, at one draw of the latents."""
        model = handlers.seed(ProperImputations(FullPlates(self.model)), jax.random.key(0))
        log_probs, _ = compute_log_probs(model, self.args, self.kwargs, draw)
        return {name: jnp.sum(value) for name, value in log_probs.items()}

    # -- traces -----------------------------------------------------------------------------------

    @by_one_thread
    def trace(self, z: ArrayLike) -> dict[str, dict]:
        """NumPyro's trace at z (d,)."""
        model = self._model_at(FullPlates(self.model), z)
        return handlers.trace(model).get_trace(*self.args, **self.kwargs)

    def trace_at(self, draw: dict, key: jax.Array | None = None) -> dict[str, dict]:
        """NumPyro's trace with latents at the values of a draw, and full plates.

        Everything else is drawn from the key. Raises ValueError, naming the site, if a value does
        not have the shape of its site.
        """
        key = jax.random.key(0) if key is None else key
        return trace_at(self.model, draw, key, self.args, self.kwargs)

    def sites(self) -> dict[str, ModelSite]:
        """Latent, discrete, deterministic and observed sites, by name."""
        return dict(eqx.filter_eval_shape(_sites, self))

    def observed(self, draw: dict) -> dict[str, np.ndarray]:
        """Values of the observed sites at one draw of the latents, in the order of the model."""
        values = jax.device_get(_observed(self, draw))
        return {name: values[name] for name, s in self.sites().items() if s.kind == "observed"}

    def with_arguments(self, *args: Any, **kwargs: Any) -> Target:
        """Copy with other data of the same shapes; the sites are not traced again."""
        return dataclasses.replace(self, arguments=(args, kwargs))

    # -- discrete latents -------------------------------------------------------------------------

    def _summed_out(self, model: Callable) -> DiscreteModel:
        """A model with these arguments, with discrete sites summed out."""
        return DiscreteModel(model, self.args, self.kwargs, self.discrete, self.nesting)

    def _at_draw(self, draw: dict, key: jax.Array) -> DiscreteModel:
        """The model at values of the latents, with full plates."""
        model = handlers.seed(FullPlates(self.model), key)
        return self._summed_out(handlers.substitute(model, data=draw))

    @by_one_thread
    def draw_discrete(self, draw: dict, key: jax.Array) -> dict[str, jax.Array]:
        """Draw of the discrete sites given the data and values of the latents."""
        model_key, key = jax.random.split(key)
        return self._at_draw(draw, model_key).draw(key)

    @by_one_thread
    def pointwise(self, draw: dict, observed: Iterable[str]) -> dict[str, jax.Array]:
        """log p(y_i | the rest) at the sites `observed`, with discrete sites summed out."""
        return self._at_draw(draw, jax.random.key(0)).pointwise(observed)

    @by_one_thread
    def require_summable(self) -> None:
        """Raise ValueError, naming the site, if discrete latents cannot be summed out."""
        if self.discrete and self.latents:
            # Random values, because equal parameters could hide a mistake.
            z = np.random.default_rng(0).normal(size=self.size)
            self._summed_out(self._model_at(FullPlates(self.model), z)).require_summable()

    # -- requirements of methods ------------------------------------------------------------------

    def require_latents(self) -> None:
        """Raise ValueError if the model has no latent site."""
        if not self.latents:
            summed_out = f" beside {self.discrete}, which are summed out" if self.discrete else ""
            raise ValueError(
                f"the model has no latent site{summed_out}, so there is nothing to infer. Give a "
                "parameter a prior (a NumPyro distribution) or Free(init)."
            )

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
                f"{method} needs the curvature of the density, but the density of the site "
                f"{', '.join(map(repr, self.kinked))} has kinks (a Laplace distribution). Take "
                "method='nuts', or method='map' for the mode alone."
            )


def _traceable(model: Callable, args: tuple, kwargs: dict) -> tuple[tuple, dict]:
    """Arguments as traced arrays and static values."""
    # A model with `prepare` has converted its data, which may be large: do not copy them again.
    return (args, kwargs) if isinstance(model, PreparesData) else arguments.as_jax((args, kwargs))


@by_one_thread
def _first_trace(model: Callable, args: tuple, kwargs: dict) -> dict[str, dict]:
    handled = handlers.substitute(model, substitute_fn=centre_improper)
    return handlers.trace(handlers.seed(handled, jax.random.key(0))).get_trace(*args, **kwargs)


def _traced(model: Callable, args: tuple, kwargs: dict) -> dict[str, Any]:
    """The model, and the fields of a Target that describe its sites, from a trace.

    A param site that holds a network is replaced by one param site for each of its arrays.
    """
    trace = _first_trace(model, args, kwargs)
    if any(map(is_network, trace.values())):
        model = OneParamEach(model)
        trace = _first_trace(model, args, kwargs)
    subsampled = validation.subsampled(trace)
    if subsampled:
        trace = _first_trace(FullPlates(model), args, kwargs)
    return {"model": model} | _site_fields(trace, subsampled)


def _site_fields(trace: dict[str, dict], subsampled: set[str]) -> dict[str, Any]:
    """The fields of a Target that describe its sites.

    Args:
        trace: The first trace of the model, with full plates.
        subsampled: Plates that take a part of their rows at a time.
    """
    for name, site in trace.items():
        validation.require_valid(name, site)
    samples = {name: site for name, site in trace.items() if site["type"] == "sample"}
    discrete = tuple(n for n, site in samples.items() if validation.is_discrete_latent(site))
    for name, site in samples.items() if discrete else ():
        require_plates(name, site, discrete)
    latent_sites = {n: s for n, s in trace.items() if n not in discrete and _is_latent(n, s, trace)}
    params = {name for name, site in latent_sites.items() if site["type"] == "param"}
    improper = {
        name
        for name, site in latent_sites.items()
        if name not in params and validation.is_improper(site["fn"])
    }
    unnormalized = {n for n, site in samples.items() if validation.is_unnormalized(site["fn"])}
    # A latent in a subsampled plate has a value for every row, so that all rows are needed.
    latent_plates = {f.name for s in latent_sites.values() for f in s["cond_indep_stack"]}
    deterministics = tuple(n for n, site in trace.items() if site["type"] == "deterministic")
    nesting = [-f.dim for site in trace.values() for f in site.get("cond_indep_stack", ())]
    return {
        "latents": tuple(starmap(Latent.from_site, latent_sites.items())),
        "without_prior": tuple(n for n in latent_sites if n in params | improper),
        "without_scale": tuple(n for n in latent_sites if n in params | (improper - unnormalized)),
        # Deterministics may depend on discrete latents, which are summed out.
        "deterministics": () if discrete else deterministics,
        "subsampled": bool(subsampled) and not discrete and not subsampled & latent_plates,
        "discrete": discrete,
        "kinked": tuple(name for name, site in trace.items() if validation.is_kinked(site)),
        "approximate": tuple(n for n, site in trace.items() if validation.is_approximate(site)),
        "nesting": max(nesting, default=0),
        "conditioned": bool(unnormalized) or any(s["is_observed"] for s in samples.values()),
    }


def _is_latent(name: str, site: dict, trace: dict[str, dict]) -> bool:
    """True for a latent sample site, or a param site whose value no sample site draws."""
    if site["type"] == "param":
        return not has_prior(name, trace)
    return site["type"] == "sample" and not site["is_observed"]


# Compiled, because JAX caches its trace for later targets of the same model and shapes. A list,
# because JAX sorts dictionaries by name.
@eqx.filter_jit
def _sites(target: Target) -> list[tuple[str, ModelSite]]:
    draw = {s.name: jnp.zeros(s.shape) for s in target.latents}
    kinds = dict.fromkeys(target.discrete, "discrete") | dict.fromkeys(draw, "latent")
    sites = []
    for name, site in target.trace_at(draw).items():
        is_computed = site["type"] == "deterministic"
        kind = kinds.get(name) or ("deterministic" if is_computed else "observed")
        if name in kinds or is_computed or validation.is_observed(site):
            sites.append((name, ModelSite.in_trace(name, site, kind)))
    return sites


@eqx.filter_jit
def _observed(target: Target, draw: dict) -> dict[str, jax.Array]:
    trace = target.trace_at(draw)
    observed = {name: site for name, site in trace.items() if validation.is_observed(site)}
    return {name: jnp.asarray(site["value"]) for name, site in observed.items()}
