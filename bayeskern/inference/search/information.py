"""Gauss-Newton and Fisher matrices, by the parameters of observed distributions.

Let theta(z) be these parameters, J = d theta / d z, and H the Hessian of l = -log p(y | theta) in
theta. The Hessian of l in z is J' H J + sum_i (d l / d theta_i) d^2 theta_i / d z^2. The sum may be
indefinite, and both matrices leave it out. The Fisher matrix is J' E[H] J, with the mean over y.
The Gauss-Newton matrix is J' H J with parameters theta in which l is convex. For an exponential
family these are the natural parameters, in which H does not depend on y: the two matrices agree
(Martens 2020, section 9.2).

J' E[H] J is computed as the Hessian at z = z0 of the mean of l(z) over y ~ p(y | theta(z0)). The
gradient of this mean in theta is 0 at z0, so that neither J nor the inverse of theta(z) is needed.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jax.scipy.special import polygamma
from numpyro.distributions import Distribution, constraints, kl_divergence

from bayeskern.hyperparameters import WRAPPERS, innermost
from bayeskern.inference.model.target import Target
from bayeskern.inference.model.trace.validation import is_observed
from bayeskern.inference.model.upstream import upstream_sites
from bayeskern.likelihoods.distributions import (
    BernoulliLogProbs,
    BetaLogMean,
    BinomialLogProbs,
    DirichletLogMean,
    GammaLogMean,
    PoissonLogMean,
)
from bayeskern.likelihoods.ordered import OrderedCategorical
from bayeskern.protocols import DoesNotApplyError

CURVATURES = ("gauss_newton", "fisher")

# -- E[log q(y)] over y ~ p, up to terms that do not depend on q -----------------------------------


def _at_mean(p, q):
    """Log density of q at the mean of p: E[log q(y)] if log q is linear in y."""
    # The mean of counts is not a whole number, which NumPyro's validation would reject.
    q = copy.copy(q)
    q._validate_args = False
    return q.log_prob(p.mean)


def _over_classes(p, q):
    """Mean of log q over the classes, weighted by the probabilities of p."""
    classes = jnp.arange(p.probs.shape[-1])
    return jnp.sum(p.probs * jax.vmap(q.log_prob, out_axes=-1)(classes), axis=-1)


# Equivalent distributions, of a transformed value or with other parameters, whose Kullback-Leibler
# divergence NumPyro has.
STANDARD_FORMS: dict[type, Callable] = {
    dist.LogNormal: lambda p: dist.Normal(p.loc, p.scale),
    dist.InverseGamma: lambda p: dist.Gamma(p.concentration, p.rate),
    GammaLogMean: lambda p: dist.Gamma(p.concentration, p.concentration * jnp.exp(-p.log_mean)),
    BetaLogMean: lambda p: dist.Beta(
        p.precision * jnp.exp(p.log_p), p.precision * jnp.exp(p.log_q)
    ),
    DirichletLogMean: lambda p: dist.Dirichlet(
        jnp.expand_dims(p.precision, -1) * jnp.exp(p.log_mean)
    ),
}


def _minus_divergence(p, q):
    """-KL(p || q), by NumPyro."""
    if type(p) in STANDARD_FORMS:
        p, q = (STANDARD_FORMS[type(p)](x) for x in (p, q))
    return -kl_divergence(p, q)


def _student_t(p, q):
    """Second-order expansion of E[log q] around q = p (Lange, Little and Taylor, 1989)."""
    df, loc, scale = q.df - p.df, (q.loc - p.loc) / p.scale, (q.scale - p.scale) / p.scale
    v = p.df
    df_information = 0.25 * (polygamma(1, 0.5 * v) - polygamma(1, 0.5 * (v + 1.0)))
    df_information -= 0.5 * (v + 5.0) / (v * (v + 1.0) * (v + 3.0))
    location_and_scale = ((v + 1.0) * loc**2 + 2.0 * v * scale**2) / (v + 3.0)
    df_and_scale = -4.0 * df * scale / ((v + 1.0) * (v + 3.0))
    return -0.5 * (location_and_scale + df_and_scale + df_information * df**2)


def _location_and_scale(p, q, location_information: float, scale_information: float):
    """Second-order expansion of E[log q] around q = p; information at a scale of 1."""
    loc, scale = (q.loc - p.loc) / p.scale, (q.scale - p.scale) / p.scale
    return -0.5 * (location_information * loc**2 + scale_information * scale**2)


EXPONENTIAL_FAMILIES: dict[type, Callable] = {
    **dict.fromkeys(
        (
            dist.Normal,
            dist.MultivariateNormal,
            dist.Gamma,
            dist.Beta,
            dist.Dirichlet,
            *STANDARD_FORMS,
        ),
        _minus_divergence,
    ),
    **dict.fromkeys((dist.CategoricalLogits, dist.CategoricalProbs), _over_classes),
    **dict.fromkeys(
        (
            dist.Exponential,
            dist.Poisson,
            PoissonLogMean,
            dist.BernoulliLogits,
            dist.BernoulliProbs,
            BernoulliLogProbs,
            dist.BinomialLogits,
            dist.BinomialProbs,
            BinomialLogProbs,
            dist.GeometricLogits,
            dist.GeometricProbs,
            dist.MultinomialLogits,
            dist.MultinomialProbs,
        ),
        _at_mean,
    ),
}
# Distributions whose Hessian in their parameters depends on y.
OTHER_FAMILIES: dict[type, Callable] = {
    dist.StudentT: _student_t,
    dist.Cauchy: partial(
        _location_and_scale, location_information=1.0 / 2.0, scale_information=1.0 / 2.0
    ),
    dist.Logistic: partial(
        _location_and_scale,
        location_information=1.0 / 3.0,
        scale_information=(3.0 + np.pi**2) / 9.0,
    ),
    dist.OrderedLogistic: _over_classes,
    OrderedCategorical: _over_classes,
}

# -- parameters in which -log p(y | theta) is convex -----------------------------------------------


class ConvexForm(NamedTuple):
    """Parameters in which -log p is convex for every y.

    Attributes:
        parameters: Distribution -> these parameters, a tuple.
        distribution: (distribution of the same type, *parameters) -> distribution.
    """

    parameters: Callable
    distribution: Callable


# Convexity: Burridge (1981) for the location and the scale, Pratt (1981) for the cutpoints.
CONVEX_FORMS: dict[type, ConvexForm] = {
    dist.Logistic: ConvexForm(
        lambda p: (p.loc / p.scale, 1.0 / p.scale),
        lambda p, shifted, inverse: dist.Logistic(shifted / inverse, 1.0 / inverse),
    ),
    dist.OrderedLogistic: ConvexForm(
        lambda p: (p.predictor, p.cutpoints),
        lambda p, predictor, cutpoints: dist.OrderedLogistic(predictor, cutpoints),
    ),
    OrderedCategorical: ConvexForm(
        lambda p: (p.eta, p.cutpoints),
        lambda p, eta, cutpoints: OrderedCategorical(eta, cutpoints, p.link),
    ),
}
# Distributions that each kind supports besides the exponential families.
FURTHER_FAMILIES = {"gauss_newton": CONVEX_FORMS, "fisher": OTHER_FAMILIES}

# -- a function with this curvature ----------------------------------------------------------------


class LocalDensity(eqx.Module):
    """A function whose Hessian at z0 is the Gauss-Newton or Fisher matrix of -log p.

    The log densities of observed sites are averaged over y ~ p(y | z0), or evaluated at parameters
    linearised around z0. Priors, factors and the Jacobian of the supports are exact.

    Attributes:
        target: The model.
        z0: The point of the expansion, (d,).
        kind: One of `CURVATURES`.
        sites: Observed sites that depend on latents.
    """

    target: Target
    z0: jax.Array | np.ndarray
    kind: str = eqx.field(static=True)
    sites: tuple[str, ...] = eqx.field(static=True)

    @classmethod
    def at_point(cls, target: Target, z0: jax.Array | np.ndarray, kind: str) -> LocalDensity:
        """The function at the point z0 of a target."""
        return cls(target, z0, kind, tuple(_observed_types(target)))

    def __call__(self, z: jax.Array) -> jax.Array:
        """Minus the local log density at z: (d,) -> ()."""
        expected = EXPONENTIAL_FAMILIES | OTHER_FAMILIES
        convex = CONVEX_FORMS if self.kind == "gauss_newton" else {}

        def convex_parameters(z):
            trace = self.target.trace(z)
            observed = {name: innermost(trace[name]["fn"]) for name in self.sites}
            linear = {name: q for name, q in observed.items() if type(q) in convex}
            return {name: convex[type(q)].parameters(q) for name, q in linear.items()}

        start, change = jax.jvp(convex_parameters, (self.z0,), (z - self.z0,))
        linear = jax.tree.map(jnp.add, start, change)
        at_z0, at_z = self.target.trace(self.z0), self.target.trace(z)
        total = self.target.log_density_without(self.sites, z)
        for name in self.sites:
            site, p = at_z[name], innermost(at_z0[name]["fn"])
            if name in linear:
                local = convex[type(p)].distribution(p, *linear[name])
            else:
                q = innermost(site["fn"])
                local = _FixedLogProbs(expected[type(p)](p, q), q)
            log_probs = _replace_innermost(site["fn"], local).log_prob(site["value"])
            scale = 1.0 if site["scale"] is None else site["scale"]
            total += jnp.sum(scale * log_probs)
        return -total


class _FixedLogProbs(Distribution):
    """A distribution with the same log probabilities for every value."""

    # A mask replaces masked values by a value in the support.
    support = constraints.real  # pyright: ignore[reportAssignmentType]

    def __init__(self, log_probs: jax.Array, like: Distribution):
        self.log_probs = log_probs
        super().__init__(like.batch_shape, like.event_shape, validate_args=False)

    def log_prob(self, value: jax.Array) -> jax.Array:
        """The given log probabilities, in the shape of a batch of values."""
        batch = jnp.shape(value)[: jnp.ndim(value) - self.event_dim]
        return jnp.broadcast_to(self.log_probs, jnp.broadcast_shapes(batch, self.batch_shape))


def _replace_innermost(fn: Distribution, base: Distribution) -> Distribution:
    """`fn` with `base` in place of the distribution inside all wrappers."""
    if not isinstance(fn, WRAPPERS):
        return base
    outer = copy.copy(fn)
    outer.base_dist = _replace_innermost(fn.base_dist, base)
    return outer


def _observed_types(target: Target) -> dict[str, type]:
    """Distribution type of each observed site that depends on latents."""
    fixed, types = upstream_sites(target).fixed, {}

    def collect(z):
        for name, site in target.trace(z).items():
            if is_observed(site) and name not in fixed:
                types[name] = type(innermost(site["fn"]))

    jax.eval_shape(collect, jax.ShapeDtypeStruct((target.size,), float))
    return types


def require_information(target: Target, kind: str) -> None:
    """Raise DoesNotApplyError if the model has no curvature of this kind.

    Args:
        target: The model.
        kind: One of `CURVATURES`.

    Raises:
        DoesNotApplyError: The message names the site.
    """
    if target.discrete:
        raise DoesNotApplyError(
            f"hessian={kind!r} needs the distribution of each observation, but "
            f"{', '.join(map(repr, target.discrete))} is summed out of it. Take hessian='exact'."
        )
    for name, type_ in _observed_types(target).items():
        kinds = [k for k in CURVATURES if type_ in EXPONENTIAL_FAMILIES | FURTHER_FAMILIES[k]]
        if kind not in kinds:
            others = " or ".join(f"hessian={other!r}" for other in [*kinds, "exact"])
            raise DoesNotApplyError(
                f"hessian={kind!r} is not known for the site {name!r}, a {type_.__name__}. Take "
                f"{others}."
            )
