"""Forms of a model between its centred and its non-centred form.

A location-scale site x ~ N(loc, scale) with a latent scale makes a funnel: where the scale is
small, so is x - loc. With the centredness c of each element, the latent is instead

    x' ~ N(c loc, scale^c),    x = loc + scale^(1 - c) (x' - c loc).

c = 1 is the centred form x' = x, c = 0 the non-centred form x' ~ N(0, 1). A model that is written
in its non-centred form, with z ~ N(0, 1) and x = scale z, has the same forms: x' ~ N(0, scale^c).
Student t, Cauchy and Laplace distributions have them too. A random walk is multivariate normal, and
a log-normal site is the exponential of a normal x.

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
from jax.scipy.linalg import solve_triangular
from jax.typing import ArrayLike
from numpyro import handlers
from numpyro.distributions import (
    Cauchy,
    Distribution,
    ExpandedDistribution,
    GaussianRandomWalk,
    Independent,
    Laplace,
    MultivariateNormal,
    Normal,
    StudentT,
    TransformedDistribution,
    constraints,
)
from numpyro.distributions.transforms import Transform
from numpyro.infer.reparam import Reparam

from bayeskern.core.batching import by_chunk
from bayeskern.inference.model.cost import is_costly
from bayeskern.inference.model.imputation import OWN_COMPUTATIONS
from bayeskern.inference.model.target import Target
from bayeskern.inference.model.trace.distribution_pytrees import sort_leaves
from bayeskern.inference.model.trace.enumeration import is_step
from bayeskern.inference.model.trace.imputed import Imputed
from bayeskern.inference.model.trace.sites import trace_at
from bayeskern.protocols import Marginal

type Elementwise = Normal | StudentT | Cauchy | Laplace
type LocationScale = Elementwise | MultivariateNormal

# Suffix of the name of x', as in NumPyro's LocScaleReparam.
SUFFIX = "_decentered"
# Number of coordinates above which a model keeps its form, because Hessians are too large.
MAX_SIZE = 1000


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
        core = _core(fn)
        assert core is not None
        if name not in self.scales:
            return core
        assert not isinstance(core, MultivariateNormal)
        return _moved(core, 0.0, math.prod(values[scale] for scale in self.scales[name]))

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
        decentred = _decentred(core, self._model.centredness[name])
        value = numpyro.sample(name + SUFFIX, self._wrap(decentred, shape, event_dim))
        standardised = _standardised(decentred, jnp.asarray(value))
        own = standardised if name in self._model.scales else _located(core, standardised)
        for transform in _transforms(fn):
            own = transform(own)
        # Without the barrier XLA would compute the powers again for each row of the data.
        return None, jax.lax.optimization_barrier(own)


def noncentred(target: Target) -> Marginal | None:
    """The model with location-scale sites of latent scale in their non-centred form.

    None if there is no such site, if the model has computations of its own, latents that are summed
    out or imputed, or subsampled plates, or if Hessians would be too costly.
    """
    model = target.model
    if isinstance(model, (*OWN_COMPUTATIONS, Imputed)) or target.discrete or target.subsampled:
        return None
    if not 0 < target.size <= MAX_SIZE or is_costly(target):
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
    form = PartlyCentred(model, centredness, scales)
    return Marginal(form, target.args, partial(_sites_of_model, names), target.kwargs)


def _sites_of_model(
    names: tuple[str, ...], draws: dict[str, jax.Array], key: jax.Array, mean: bool
) -> dict[str, jax.Array]:
    return {name: draws[name] for name in names}


def _candidates(target: Target) -> tuple[list[str], list[str], list[str]]:
    """Location-scale sites whose scale depends on latents, standardised and positive sites.

    All in the order of the model.
    """
    location_scale: list[str] = []
    elementwise: list[str] = []
    positive: list[str] = []
    latents = {s.name for s in target.latents if not s.is_param}

    def classify(z: jax.Array) -> None:
        sites = {k: site for k, site in target.trace(z).items() if k in latents}
        # A power of the density, or a step of a scan, has no form of its own.
        own = [k for k, site in sites.items() if site["scale"] is None and not is_step(site)]
        location_scale[:] = [k for k in own if _core(sites[k]["fn"]) is not None]
        fns = {k: sites[k]["fn"] for k in location_scale}
        elementwise[:] = [
            k
            for k, fn in fns.items()
            if not (_transforms(fn) or isinstance(_core(fn), MultivariateNormal))
        ]
        supports = {k: sites[k]["fn"].support for k in own}
        positive[:] = [
            k
            for k, support in supports.items()
            if getattr(support, "base_constraint", support) is constraints.positive
        ]

    points = np.stack([np.zeros(target.size), np.linspace(0.1, 0.2, target.size)])
    eqx.filter_eval_shape(classify, points[0])
    if not location_scale:
        return [], [], []
    cores = jax.device_get(_cores(target, tuple(location_scale), points))
    roots, locs = ({k: core[i] for k, core in cores.items()} for i in (1, 0))
    funnels = [k for k in location_scale if not np.array_equal(roots[k][0], roots[k][1])]
    standardised = [k for k in elementwise if np.all(roots[k] == 1) and np.all(locs[k] == 0)]
    return funnels, standardised, positive


@eqx.filter_jit
def _cores(
    target: Target, names: tuple[str, ...], points: np.ndarray
) -> dict[str, tuple[jax.Array, jax.Array]]:
    """Location and root of the distributions of sites at points (n, d): each (n, ...)."""

    def at_point(z: jax.Array) -> dict[str, tuple[jax.Array, jax.Array]]:
        trace = target.trace(z)
        cores = {name: _core(trace[name]["fn"]) for name in names}
        return {k: (jnp.asarray(c.loc), _root(c)) for k, c in cores.items() if c is not None}

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


def _core(fn: Distribution) -> LocationScale | None:
    """Distribution of one event before `_transforms`, if it is a location-scale one; else None."""
    fn = _event(fn)
    if isinstance(fn, TransformedDistribution):
        is_elementwise = all(t.domain.event_dim == t.codomain.event_dim == 0 for t in fn.transforms)
        return _core(fn.base_dist) if is_elementwise else None
    if isinstance(fn, GaussianRandomWalk):
        steps = jnp.tril(jnp.ones((fn.num_steps, fn.num_steps)))
        root = jnp.asarray(fn.scale)[..., None, None] * steps
        return MultivariateNormal(jnp.zeros(fn.num_steps), scale_tril=root)
    families = (Normal, StudentT, Cauchy, Laplace, MultivariateNormal)
    return fn if isinstance(fn, families) else None


def _transforms(fn: Distribution) -> list[Transform]:
    """Transforms of a location-scale site, such as the exponential of a log-normal one."""
    fn = _event(fn)
    if not isinstance(fn, TransformedDistribution):
        return []
    return [*_transforms(fn.base_dist), *fn.transforms]


def _event(fn: Distribution) -> Distribution:
    """Distribution of one event."""
    while isinstance(fn, Independent | ExpandedDistribution):
        fn = fn.base_dist
    return fn


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
            for transform in reversed(_transforms(fn)):
                value = jnp.asarray(transform.inv(value))
            standardised = value if name in model.scales else _standardised(core, value)
            values[name + SUFFIX] = _located(_decentred(core, centredness), standardised)
        return new.unconstrain({s.name: values[s.name] for s in new.latents})[0]

    return jax.lax.map(recentre, z)


def _decentred(core: LocationScale, c: jax.Array) -> LocationScale:
    """Distribution of x', for the distribution of x and the centredness c of each element."""
    loc = c * jnp.asarray(core.loc)
    if isinstance(core, MultivariateNormal):
        # Rows of the root have the sds as lengths; the rest is a root of the correlations.
        root = jnp.asarray(core.scale_tril)
        sds, c = jnp.linalg.norm(root, axis=-1, keepdims=True), c[..., None]
        mixed = c * root / sds + (1.0 - c) * jnp.eye(root.shape[-1])
        return MultivariateNormal(loc, scale_tril=_power(sds, c) * mixed)
    return _moved(core, loc, _power(jnp.asarray(core.scale), c))


def _moved(core: Elementwise, loc: ArrayLike, scale: ArrayLike) -> Elementwise:
    """Distribution of the same family with another location and scale."""
    if isinstance(core, StudentT):
        return StudentT(core.df, loc, scale)
    return type(core)(loc, scale)


def _power(scale: jax.Array, c: jax.Array) -> jax.Array:
    """scale^c; XLA computes an exponential faster than a power."""
    return jnp.exp(c * jnp.log(scale))


def _root(core: LocationScale) -> jax.Array:
    """The scale, or the root of a covariance."""
    return jnp.asarray(core.scale_tril if isinstance(core, MultivariateNormal) else core.scale)


def _standardised(core: LocationScale, value: jax.Array) -> jax.Array:
    """Values with location 0 and scale 1."""
    deviation, root = value - jnp.asarray(core.loc), _root(core)
    if not isinstance(core, MultivariateNormal):
        return deviation / root
    root = jnp.broadcast_to(root, (*deviation.shape, deviation.shape[-1]))
    return solve_triangular(root, deviation[..., None], lower=True)[..., 0]


def _located(core: LocationScale, standardised: jax.Array) -> jax.Array:
    """The inverse of `_standardised`."""
    loc, root = jnp.asarray(core.loc), _root(core)
    if not isinstance(core, MultivariateNormal):
        return loc + root * standardised
    return loc + (root @ standardised[..., None])[..., 0]
