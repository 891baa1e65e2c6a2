"""The curvature that a model has through its parameters alone: Gauss-Newton's and Fisher's.

The Hessian of -log p(y | theta(z)) is J' H J, H being that in the parameters theta of the observed
distributions and J = d theta / d z, and a sum of slopes times second derivatives of theta, which
has no sign. Both leave that sum out. Fisher's has the mean of H over y in the place of H.
Gauss-Newton's takes parameters in which -log p(y | theta) is convex; for an exponential family
these are the natural ones, in which H does not depend on y, so that the two agree there (Martens
2020, section 9.2).

J' E[H] J is the Hessian of the mean of -log p(y | theta(z)) over y ~ p(y | theta(z0)), at z = z0,
where its slope in theta is 0; so no J is formed, and no inverse of theta is needed.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
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
from bayeskern.inference.model.trace.sites import upstream_sites
from bayeskern.inference.model.trace.validation import is_observed
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

KINDS = ("gauss_newton", "fisher")

# -- E[log q(y)] over y ~ p, up to what does not depend on q ---------------------------------------


def _at_mean(p, q):
    """For log densities that are linear in y, but for a term without parameters."""
    # The mean of a count is no count, which NumPyro's checks would refuse.
    q = copy.copy(q)
    q._validate_args = False
    return q.log_prob(p.mean)


def _over_classes(p, q):
    classes = jnp.arange(p.probs.shape[-1])
    return jnp.sum(p.probs * jax.vmap(q.log_prob, out_axes=-1)(classes), axis=-1)


def _divergence(of: Callable = lambda p: p) -> Callable:
    """By NumPyro's KL(p || q) of the distributions that `of` makes of them."""
    return lambda p, q: -kl_divergence(of(p), of(q))


def _student_t(p, q):
    """To second order around p, by the information of Lange, Little and Taylor (1989)."""
    df, loc, scale = q.df - p.df, (q.loc - p.loc) / p.scale, (q.scale - p.scale) / p.scale
    v = p.df
    of_df = 0.25 * (polygamma(1, 0.5 * v) - polygamma(1, 0.5 * (v + 1.0)))
    of_df -= 0.5 * (v + 5.0) / (v * (v + 1.0) * (v + 3.0))
    of_location_and_scale = ((v + 1.0) * loc**2 + 2.0 * v * scale**2) / (v + 3.0)
    of_both = -4.0 * df * scale / ((v + 1.0) * (v + 3.0))
    return -0.5 * (of_location_and_scale + of_both + of_df * df**2)


def _location_and_scale(of_location: float, of_scale: float) -> Callable:
    """To second order around p, by the information in units of the scale."""

    def expected(p, q):
        loc, scale = (q.loc - p.loc) / p.scale, (q.scale - p.scale) / p.scale
        return -0.5 * (of_location * loc**2 + of_scale * scale**2)

    return expected


EXPONENTIAL = {
    dist.Normal: _divergence(),
    dist.LogNormal: _divergence(lambda p: dist.Normal(p.loc, p.scale)),
    dist.MultivariateNormal: _divergence(),
    dist.Gamma: _divergence(),
    dist.InverseGamma: _divergence(lambda p: dist.Gamma(p.concentration, p.rate)),
    GammaLogMean: _divergence(
        lambda p: dist.Gamma(p.concentration, p.concentration * jnp.exp(-p.log_mean))
    ),
    dist.Beta: _divergence(),
    BetaLogMean: _divergence(
        lambda p: dist.Beta(p.precision * jnp.exp(p.log_p), p.precision * jnp.exp(p.log_q))
    ),
    dist.Dirichlet: _divergence(),
    DirichletLogMean: _divergence(
        lambda p: dist.Dirichlet(jnp.expand_dims(p.precision, -1) * jnp.exp(p.log_mean))
    ),
    dist.CategoricalLogits: _over_classes,
    dist.CategoricalProbs: _over_classes,
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
EXPECTED = {
    "gauss_newton": EXPONENTIAL,
    "fisher": {
        **EXPONENTIAL,
        dist.StudentT: _student_t,
        dist.Cauchy: _location_and_scale(1.0 / 2.0, 1.0 / 2.0),
        dist.Logistic: _location_and_scale(1.0 / 3.0, (3.0 + np.pi**2) / 9.0),
        dist.OrderedLogistic: _over_classes,
        OrderedCategorical: _over_classes,
    },
}

# -- parameters in which -log p(y | theta) is convex -----------------------------------------------


class Convex(NamedTuple):
    """Parameters of a distribution in which -log p is convex, whatever y, and the way back."""

    parameters: Callable
    distribution: Callable


# Burridge (1981) for the location and the scale, Pratt (1981) for the cutpoints.
CONVEX = {
    "gauss_newton": {
        dist.Logistic: Convex(
            lambda p: (p.loc / p.scale, 1.0 / p.scale),
            lambda p, shifted, inverse: dist.Logistic(shifted / inverse, 1.0 / inverse),
        ),
        dist.OrderedLogistic: Convex(
            lambda p: (p.predictor, p.cutpoints),
            lambda p, predictor, cutpoints: dist.OrderedLogistic(predictor, cutpoints),
        ),
        OrderedCategorical: Convex(
            lambda p: (p.eta, p.cutpoints),
            lambda p, eta, cutpoints: OrderedCategorical(eta, cutpoints, p.link),
        ),
    },
    "fisher": {},
}

# -- the density with that curvature ---------------------------------------------------------------


class LocalDensity(eqx.Module):
    """A function of z whose Hessian at z0 is Gauss-Newton's or Fisher's of -log p.

    The densities of observed sites are averaged over y ~ p(y | z0), or taken with parameters that
    are linear in z - z0. Priors, factors and the Jacobian are as they are.
    """

    target: Target
    z0: jax.Array
    kind: str = eqx.field(static=True)
    #: observed sites that depend on latents
    sites: tuple[str, ...] = eqx.field(static=True)

    @classmethod
    def of(cls, target: Target, z0, kind: str) -> LocalDensity:
        return cls(target, z0, kind, tuple(_kinds(target)))

    def __call__(self, z):
        expected, convex = EXPECTED[self.kind], CONVEX[self.kind]

        def parameters(z):
            trace = self.target.trace(z)
            observed = {name: innermost(trace[name]["fn"]) for name in self.sites}
            linear = {name: q for name, q in observed.items() if type(q) in convex}
            return {name: convex[type(q)].parameters(q) for name, q in linear.items()}

        start, change = jax.jvp(parameters, (self.z0,), (z - self.z0,))
        linear = jax.tree.map(jnp.add, start, change)
        at_z0, at_z = self.target.trace(self.z0), self.target.trace(z)
        total = self.target.log_density_without(self.sites, z)
        for name in self.sites:
            site, p = at_z[name], innermost(at_z0[name]["fn"])
            if name in linear:
                local = convex[type(p)].distribution(p, *linear[name])
            else:
                q = innermost(site["fn"])
                local = _Given(expected[type(p)](p, q), q)
            log_probs = _replace_innermost(site["fn"], local).log_prob(site["value"])
            scale = 1.0 if site["scale"] is None else site["scale"]
            total += jnp.sum(scale * log_probs)
        return -total


class _Given(Distribution):
    """The log probabilities that are given, whatever the values."""

    # A mask looks for a value in the support.
    support = constraints.real

    def __init__(self, log_probs, like: Distribution):
        self.log_probs = log_probs
        super().__init__(like.batch_shape, like.event_shape, validate_args=False)

    def log_prob(self, value):
        batch = jnp.shape(value)[: jnp.ndim(value) - self.event_dim]
        return jnp.broadcast_to(self.log_probs, jnp.broadcast_shapes(batch, self.batch_shape))


def _replace_innermost(fn: Distribution, base: Distribution) -> Distribution:
    """`base` inside of what NumPyro has put around the distribution of a single value."""
    if not isinstance(fn, WRAPPERS):
        return base
    outer = copy.copy(fn)
    outer.base_dist = _replace_innermost(fn.base_dist, base)
    return outer


def _kinds(target: Target) -> dict[str, type]:
    """Of what kind the distribution of each observed site is; those that depend on no latent not.

    By an abstract trace: nothing is computed.
    """
    fixed, kinds = upstream_sites(target).fixed, {}

    def look(z):
        for name, site in target.trace(z).items():
            if is_observed(site) and name not in fixed:
                kinds[name] = type(innermost(site["fn"]))

    jax.eval_shape(look, jax.ShapeDtypeStruct((target.size,), float))
    return kinds


def require_information(target: Target, kind: str) -> None:
    """Raise DoesNotApplyError, naming the site, if the model has no such curvature."""
    if target.discrete:
        raise DoesNotApplyError(
            f"hessian={kind!r} needs the distribution of each observation, but "
            f"{', '.join(map(repr, target.discrete))} is summed out of it. Take hessian='exact'."
        )
    for name, found in _kinds(target).items():
        takers = [k for k in KINDS if found in EXPECTED[k] or found in CONVEX[k]]
        if kind not in takers:
            others = " or ".join(f"hessian={other!r}" for other in [*takers, "exact"])
            raise DoesNotApplyError(
                f"hessian={kind!r} is not known for the site {name!r}, a {found.__name__}. Take "
                f"{others}."
            )
