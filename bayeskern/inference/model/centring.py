"""Forms of a model between its centred and its non-centred form.

A location-scale site x ~ N(loc, scale) with a latent scale makes a funnel: where the scale is
small, so is x - loc. With the centredness c of each element, the latent is instead

    x' ~ N(c loc, scale^c),    x = loc + scale^(1 - c) (x' - c loc).

c = 1 is the centred form x' = x, c = 0 the non-centred form x' ~ N(0, 1). A model that is written
in its non-centred form, with z ~ N(0, 1) and x = scale z, has the same forms: x' ~ N(0, scale^c).
`location_scale` has the forms of other distributions; a log-normal site is the exponential of a
normal x.

References:
    Papaspiliopoulos, Roberts and Skoeld (2007), "A general framework for the parametrization of
    hierarchical models"; Gorinova, Moore and Hoffman (2020), "Automatic reparameterisation of
    probabilistic programs".
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
from numpyro import handlers
from numpyro.distributions import Distribution, constraints
from numpyro.infer.reparam import Reparam

from bayeskern.core.batching import by_chunk
from bayeskern.inference.model.cost import is_costly
from bayeskern.inference.model.imputation import OWN_COMPUTATIONS
from bayeskern.inference.model.location_scale import (
    Elementwise,
    LocationScale,
    location_scale,
    transforms,
)
from bayeskern.inference.model.target import Target
from bayeskern.inference.model.trace.distribution_pytrees import sort_leaves
from bayeskern.inference.model.trace.enumeration import is_step
from bayeskern.inference.model.trace.imputed import Imputed
from bayeskern.inference.model.trace.sites import trace_at
from bayeskern.protocols import HasPlainForm, Marginal

# Suffix of the name of x', as in NumPyro's LocScaleReparam.
SUFFIX = "_decentered"
# Number of coordinates above which a model keeps its form, because Hessians are too large.
MAX_CENTRED_SIZE = 1000


class PartlyCentred(eqx.Module):
    """A model with some location-scale sites x, or standardised sites z, in the form x'.

    Attributes:
        model: The model.
        centredness: The centredness c of each element, by site, each of the shape of the site.
        scales: For standardised sites, names of the sites whose product is the scale.
    """

    model: Callable
    centredness: dict[str, jax.Array]
    scales: dict[str, tuple[str, ...]] = eqx.field(static=True)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        with _Centring(self):
            return self.model(*args, **kwargs)

    def core(self, name: str, fn: Distribution, values: dict[str, jax.Array]) -> LocationScale:
        """Distribution of x, from the distribution of its site and the values of its scales."""
        core = location_scale(fn)
        assert core is not None
        if name not in self.scales:
            return core
        assert isinstance(core, Elementwise)
        return core.moved(0.0, math.prod(values[scale] for scale in self.scales[name]))

    @property
    def evidence(self) -> dict[str, str]:
        """Evidence for a verdict: the centredness of each site, from the least to the largest."""
        ranges = [
            f"{k} {np.min(c):.2g} to {np.max(c):.2g}"
            for k, c in jax.device_get(self.centredness).items()
        ]
        return {"centredness": ", ".join(ranges)}

    def with_centredness(self, target: Target, centredness: dict[str, np.ndarray]) -> Target:
        """A target of this model with another centredness; nothing is compiled or traced again."""
        values = {name: jnp.asarray(c) for name, c in centredness.items()}
        model = PartlyCentred(self.model, values, self.scales)
        return dataclasses.replace(target, sorted_model=sort_leaves(model))


class _Centring(handlers.reparam):
    """Replaces sites of a partly centred model by x'."""

    def __init__(self, model: PartlyCentred) -> None:
        super().__init__(config=self._reparam)
        self._model, self._values = model, {}

    def _reparam(self, site: dict) -> Reparam | None:
        if site["name"] not in self._model.centredness:
            return None
        return _Decentring(self._model, self._values)

    def postprocess_message(self, msg: dict) -> None:
        self._values[msg["name"]] = msg["value"]


class _Decentring(Reparam):
    """Replaces a site by x'.

    Args:
        model: The partly centred model.
        values: Values of earlier sites.
    """

    def __init__(self, model: PartlyCentred, values: dict[str, jax.Array]) -> None:
        self._model, self._values = model, values

    def __call__(
        self, name: str, fn: Distribution, obs: jax.Array | None
    ) -> tuple[Distribution | None, jax.Array | None]:
        _, shape, event_dim = self._unwrap(fn)
        core = self._model.core(name, fn, self._values)
        decentred = core.decentred(self._model.centredness[name])
        value = numpyro.sample(name + SUFFIX, self._wrap(decentred.fn, shape, event_dim))
        standardised = decentred.standardised(jnp.asarray(value))
        own = standardised if name in self._model.scales else core.located(standardised)
        for transform in transforms(fn):
            own = transform(own)
        # Without the barrier XLA would compute the powers again for each row of the data.
        return None, jax.lax.optimization_barrier(own)


def noncentred(target: Target) -> Marginal | None:
    """The model with location-scale sites of latent scale in their non-centred form.

    None if there is no such site, if the model has computations of its own, latents that are summed
    out or imputed, or subsampled plates, or if Hessians would be too costly.
    """
    if not _has_plain_sites(target.model) or target.discrete or target.subsampled:
        return None
    if not 0 < target.size <= MAX_CENTRED_SIZE or is_costly(target):
        return None
    shapes = {s.name: s.shape for s in target.latents}
    funnels, standardised, positive = _candidates(target)
    scales = {}
    if standardised and positive:
        scales = _scales_of(target, standardised, positive)
    centredness = {name: jnp.asarray(np.zeros(shapes[name])) for name in (*funnels, *scales)}
    if not centredness:
        return None
    names = (*shapes, *target.deterministics)
    form = PartlyCentred(target.model, centredness, scales)
    return Marginal(form, target.args, partial(_sites_of_model, names), target.kwargs)


def _has_plain_sites(model: object) -> bool:
    """True if all computations of a model are those of its sites."""
    if isinstance(model, HasPlainForm):
        return model.is_plain
    return not isinstance(model, (*OWN_COMPUTATIONS, Imputed))


def _sites_of_model(
    names: tuple[str, ...], draws: dict[str, jax.Array], key: jax.Array, mean: bool
) -> dict[str, jax.Array]:
    return {name: draws[name] for name in names}


def _candidates(target: Target) -> tuple[list[str], list[str], list[str]]:
    """Location-scale sites whose scale depends on latents, standardised and positive sites.

    All in the order of the model.
    """
    candidates: list[str] = []
    elementwise: list[str] = []
    positive: list[str] = []
    latents = {s.name for s in target.latents if not s.is_param}

    def classify(z: jax.Array) -> None:
        sites = {k: site for k, site in target.trace(z).items() if k in latents}
        # A power of the density, or a step of a scan, has no form of its own.
        own = [k for k, site in sites.items() if site["scale"] is None and not is_step(site)]
        fns = {k: sites[k]["fn"] for k in own}
        candidates[:] = [k for k, fn in fns.items() if location_scale(fn) is not None]
        elementwise[:] = [
            k
            for k in candidates
            if isinstance(location_scale(fns[k]), Elementwise) and not transforms(fns[k])
        ]
        supports = {k: sites[k]["fn"].support for k in own}
        positive[:] = [
            k
            for k, support in supports.items()
            if getattr(support, "base_constraint", support) is constraints.positive
        ]

    points = np.stack([np.zeros(target.size), np.linspace(0.1, 0.2, target.size)])
    eqx.filter_eval_shape(classify, points[0])
    if not candidates:
        return [], [], []
    cores = jax.device_get(_cores(target, tuple(candidates), points))
    roots, locs = ({k: core[i] for k, core in cores.items()} for i in (1, 0))
    funnels = [k for k in candidates if not np.array_equal(roots[k][0], roots[k][1])]
    standardised = [k for k in elementwise if np.all(roots[k] == 1) and np.all(locs[k] == 0)]
    return funnels, standardised, positive


@eqx.filter_jit
def _cores(
    target: Target, names: tuple[str, ...], points: np.ndarray
) -> dict[str, tuple[jax.Array, jax.Array]]:
    """Location and root of the distributions of sites at points (n, d): each (n, ...)."""

    def at_point(z: jax.Array) -> dict[str, tuple[jax.Array, jax.Array]]:
        trace = target.trace(z)
        cores = {name: location_scale(trace[name]["fn"]) for name in names}
        return {name: (core.loc, core.root) for name, core in cores.items() if core is not None}

    return jax.lax.map(at_point, jnp.asarray(points))


def _scales_of(
    target: Target, standardised: list[str], positive: list[str]
) -> dict[str, tuple[str, ...]]:
    """The sites that multiply each standardised site z, for sites that have such scales.

    A scale s multiplies z if the other sites depend on the product only. Then their log density L
    has z dL/dz = s dL/ds (Euler), summed over the elements of z with the same scale.
    """
    z = np.linspace(0.1, 0.2, target.size)
    products = _products(target, (*standardised, *positive), z)
    names = list(target.sites())
    scales = {
        name: tuple(
            scale
            for scale in positive
            if names.index(scale) < names.index(name)
            and _are_equal(np.asarray(products[name]), np.asarray(products[scale]))
        )
        for name in standardised
    }
    return {name: found for name, found in scales.items() if found}


@eqx.filter_jit
def _products(target: Target, moved: tuple[str, ...], z: np.ndarray) -> dict[str, jax.Array]:
    """Values of sites, times the derivative of the log density of the other sites."""
    sites = target.constrain(z)
    values = {s.name: sites[s.name] for s in target.latents}

    def log_density(changed: dict[str, jax.Array]) -> jax.Array:
        log_probs = target.site_log_probs(values | changed)
        return sum((v for name, v in log_probs.items() if name not in moved), jnp.zeros(()))

    slopes = jax.grad(log_density)({name: values[name] for name in moved})
    return {name: values[name] * slope for name, slope in slopes.items()}


def _are_equal(of_elements: np.ndarray, of_scale: np.ndarray) -> bool:
    """True if products of elements with slopes sum up to those of their scale, which are not 0."""
    leading = tuple(range(of_elements.ndim - of_scale.ndim))
    shapes = zip(of_elements.shape[len(leading) :], of_scale.shape, strict=False)
    if of_scale.ndim > of_elements.ndim or any(n not in (1, m) for m, n in shapes):
        return False
    kept = tuple(i for i, n in enumerate(of_scale.shape) if n == 1)
    sums = np.sum(np.sum(of_elements, axis=leading), axis=kept, keepdims=True)
    return bool(np.any(of_scale != 0.0)) and np.allclose(sums, of_scale, rtol=1e-6, atol=0.0)


def recentred(old: Target, new: Target, z: np.ndarray) -> np.ndarray:
    """Coordinates in `new` of points z (n, d) in `old`, forms with different centredness."""
    return by_chunk(lambda part: _recentred(old, new, jnp.asarray(part)), z, new.size)


@eqx.filter_jit
def _recentred(old: Target, new: Target, z: jax.Array) -> jax.Array:
    def recentre(z: jax.Array) -> jax.Array:
        values = old.constrain(z)
        model = new.model
        trace = trace_at(model.model, values, jax.random.key(0), old.args, old.kwargs)
        for name, centredness in model.centredness.items():
            fn, value = trace[name]["fn"], values[name]
            core = model.core(name, fn, values)
            for transform in reversed(transforms(fn)):
                value = jnp.asarray(transform.inv(value))
            standardised = value if name in model.scales else core.standardised(value)
            values[name + SUFFIX] = core.decentred(centredness).located(standardised)
        return new.unconstrain({s.name: values[s.name] for s in new.latents})[0]

    return jax.lax.map(recentre, z)
