"""Forms of a model between its centred and its non-centred form.

A location-scale site x ~ N(loc, scale) with a latent scale makes a funnel: where the scale is
small, so is x - loc. With the centredness c of each element, the latent is instead

    x' ~ N(c loc, scale^c),    x = loc + scale^(1 - c) (x' - c loc).

c = 1 is the centred form x' = x, c = 0 the non-centred form x' ~ N(0, 1).

References:
    Papaspiliopoulos, Roberts and Skoeld (2007), "A general framework for the parametrization of
    hierarchical models"; Gorinova, Moore and Hoffman (2020), "Automatic reparameterisation of
    probabilistic programs".
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
from jax.scipy.linalg import solve_triangular
from numpyro import handlers
from numpyro.distributions import (
    Distribution,
    ExpandedDistribution,
    Independent,
    MultivariateNormal,
    Normal,
    StudentT,
)
from numpyro.infer.reparam import Reparam

from bayeskern.inference.model.imputation import OWN_COMPUTATIONS
from bayeskern.inference.model.target import Target
from bayeskern.inference.model.trace.distribution_pytrees import sort_leaves
from bayeskern.inference.model.trace.enumeration import is_step
from bayeskern.inference.model.trace.imputed import Imputed
from bayeskern.inference.model.trace.sites import trace_at
from bayeskern.protocols import Marginal

type LocationScale = Normal | StudentT | MultivariateNormal

# Suffix of the name of x', as in NumPyro's LocScaleReparam.
SUFFIX = "_decentered"
# Number of coordinates above which a model keeps its form, because Hessians are too large.
MAX_SIZE = 1000


class PartlyCentred(eqx.Module):
    """A model with some location-scale sites x in the form x'.

    Attributes:
        model: The model.
        centredness: The centredness c of each element, by site, each of the shape of the site.
    """

    model: Callable
    centredness: dict[str, jax.Array]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        config: dict[str, Reparam] = {k: _Decentring(c) for k, c in self.centredness.items()}
        with handlers.reparam(config=config):
            return self.model(*args, **kwargs)

    @property
    def evidence(self) -> dict[str, str]:
        """Evidence for a verdict: the centredness of each site, from the least to the largest."""
        ranges = [f"{k} {np.min(c):.2g} to {np.max(c):.2g}" for k, c in self.centredness.items()]
        return {"centredness": ", ".join(ranges)}

    def with_centredness(self, target: Target, centredness: dict[str, np.ndarray]) -> Target:
        """A target of this model with another centredness; nothing is compiled or traced again."""
        model = PartlyCentred(self.model, {k: jnp.asarray(c) for k, c in centredness.items()})
        return dataclasses.replace(target, sorted_model=sort_leaves(model))


class _Decentring(Reparam):
    """Replaces a location-scale site x by x', with the centredness of each element."""

    def __init__(self, centredness: jax.Array) -> None:
        self.centredness = centredness

    def __call__(
        self, name: str, fn: Distribution, obs: jax.Array | None
    ) -> tuple[Distribution | None, jax.Array | None]:
        _, shape, event_dim = self._unwrap(fn)
        core = _core(fn)
        assert core is not None
        decentred = _decentred(core, self.centredness)
        value = numpyro.sample(name + SUFFIX, self._wrap(decentred, shape, event_dim))
        return None, _located(core, _standardised(decentred, jnp.asarray(value)))


def noncentred(target: Target) -> Marginal | None:
    """The model with location-scale sites of latent scale in their non-centred form.

    None if there is no such site, if the model has computations of its own, latents that are summed
    out or imputed, or subsampled plates, or if it has too many coordinates for Hessians.
    """
    model = target.model
    if isinstance(model, (*OWN_COMPUTATIONS, Imputed)) or target.discrete or target.subsampled:
        return None
    if not 0 < target.size <= MAX_SIZE:
        return None
    shapes = {s.name: s.shape for s in target.latents}
    centredness = {name: jnp.zeros(shapes[name]) for name in _funnels(target)}
    if not centredness:
        return None
    names = (*shapes, *target.deterministics)
    form = PartlyCentred(partial(model, **target.kwargs), centredness)
    return Marginal(form, target.args, partial(_sites_of_model, names))


def _sites_of_model(
    names: tuple[str, ...], draws: dict[str, jax.Array], key: jax.Array, mean: bool
) -> dict[str, jax.Array]:
    return {name: draws[name] for name in names}


def _funnels(target: Target) -> list[str]:
    """Names of the location-scale sites whose scale depends on latents."""
    names = [s.name for s in target.latents if not s.is_param]
    traces = [target.trace(z) for z in (np.zeros(target.size), np.linspace(0.1, 0.2, target.size))]
    cores = {name: [_core(trace[name]["fn"]) for trace in traces] for name in names}
    return [
        name
        for name, (first, second) in cores.items()
        if first is not None
        and second is not None
        and not np.array_equal(_root(first), _root(second))
        and traces[0][name]["scale"] is None
        and not is_step(traces[0][name])
    ]


def _core(fn: Distribution) -> LocationScale | None:
    """Distribution of one event, if it is a location-scale distribution; else None."""
    while isinstance(fn, Independent | ExpandedDistribution):
        fn = fn.base_dist
    return fn if isinstance(fn, Normal | StudentT | MultivariateNormal) else None


def recentred(old: Target, new: Target, z: np.ndarray) -> np.ndarray:
    """Coordinates in `new` of points z (n, d) in `old`, forms with different centredness."""
    return np.asarray(_recentred(old, new, jnp.asarray(z)))


@eqx.filter_jit
def _recentred(old: Target, new: Target, z: jax.Array) -> jax.Array:
    def recentre(z: jax.Array) -> jax.Array:
        values = old.constrain(z)
        trace = trace_at(new.model.model, values, jax.random.key(0), old.args, {})
        for name, centredness in new.model.centredness.items():
            core = _core(trace[name]["fn"])
            assert core is not None
            decentred = _decentred(core, centredness)
            values[name + SUFFIX] = _located(decentred, _standardised(core, values[name]))
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
        return MultivariateNormal(loc, scale_tril=sds**c * mixed)
    scale = jnp.asarray(core.scale) ** c
    return StudentT(core.df, loc, scale) if isinstance(core, StudentT) else Normal(loc, scale)


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
