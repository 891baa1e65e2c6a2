"""Ordered classes: cumulative logit and probit regression."""

from __future__ import annotations

from typing import ClassVar

import jax
import jax.numpy as jnp
import numpyro.distributions as dist
from jax.nn import log_sigmoid
from jax.scipy.special import gammaln, log_ndtr
from numpyro.distributions import Distribution, constraints

from bayeskern import hyperparameters as hyper
from bayeskern.hyperparameters import hyperparameter
from bayeskern.likelihoods import labels
from bayeskern.likelihoods.classes import Classifier
from bayeskern.likelihoods.links import log1mexp


class Ordered(Classifier):
    """P(y <= k) = F(c_k - eta): one of K classes in order, F being logistic or normal.

    cutpoints: c, K - 1 ascending numbers. By default they are the order statistics of K - 1 draws
    from F itself, which makes all divisions of probability between the classes equally likely at
    eta = 0 (the induced Dirichlet(1, ..., 1) of Betancourt 2019, "Ordinal regression").
    The cutpoints are the intercept: one in eta as well cannot be told from them.

    Numbers are put in their order. Text has one where it comes as ordered pandas categories or as a
    polars enum, or with classes=("low", "mid", "high"); without one it is refused.
    """

    cutpoints: jax.Array | None = hyperparameter(None, constraints.ordered_vector, scalar=False)

    links: ClassVar = ("logit", "probit")
    is_ordered: ClassVar = True
    takes_intercept: ClassVar = False

    def distribution(self, eta):
        return OrderedCategorical(eta, self.cutpoints, self.link_name)

    def probabilities(self, eta):
        """(n, K)."""
        return self.distribution(eta).probs

    def mean(self, eta):
        """A class has no mean: the chance of each, (n, K)."""
        return self.probabilities(eta)

    def restrained(self, y):
        return y < len(self._known()) - 1, y > 0

    def _learn_classes(self, found, order):
        if found.dtype.kind == "U" and order is None:
            some = ", ".join(map(repr, labels.learn(found, None)[:5]))
            raise ValueError(
                f"y is text without an order ({some}), and Ordered needs one. Name the classes "
                'from low to high, as in Ordered(classes=("low", "mid", "high")), or give ordered '
                "pandas categories or a polars enum."
            )
        return super()._learn_classes(found, order)

    def _learn(self, y):
        wanted = len(self._known()) - 1
        if self.cutpoints is None:
            base = dist.Logistic(0.0, 1.0) if self.link_name == "logit" else dist.Normal(0.0, 1.0)
            return self._default(cutpoints=OrderStatistics(base, wanted))
        if (shape := hyper.shape(self.cutpoints)) != (wanted,):
            raise ValueError(
                f"Ordered.cutpoints must have shape ({wanted},), one less than there are classes "
                f"({', '.join(map(repr, self.classes))}), got {shape}."
            )
        return self


class OrderedCategorical(Distribution):
    """P(y <= k) = F(c_k - eta), from differences that lose no digits.

    eta: (n,). cutpoints: (K - 1,).
    """

    arg_constraints: ClassVar = {
        "eta": constraints.real,
        "cutpoints": constraints.ordered_vector,
    }
    pytree_aux_fields = ("link",)

    def __init__(self, eta, cutpoints, link="logit", *, validate_args=None):
        self.eta, self.cutpoints, self.link = eta, jnp.asarray(cutpoints), link
        super().__init__(jnp.shape(eta), validate_args=validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self):
        return constraints.integer_interval(0, jnp.shape(self.cutpoints)[-1])

    def log_prob(self, value):
        value, top = jnp.asarray(value).astype(int), jnp.shape(self.cutpoints)[-1]
        first, last = value == 0, value == top
        below = self.cutpoints[jnp.maximum(value - 1, 0)]
        above = self.cutpoints[jnp.minimum(value, top - 1)]
        # The end classes have one cutpoint: any other will do for the second, if it differs.
        below = jnp.where(first, above - 1.0, below)
        above = jnp.where(last, below + 1.0, above)
        between = BETWEEN[self.link](below - self.eta, above - self.eta)
        log_cdf = LOG_CDF[self.link]
        ends = jnp.where(first, log_cdf(above - self.eta), log_cdf(self.eta - below))
        return jnp.where(first | last, ends, between)

    def sample(self, key, sample_shape=()):
        draw = jax.random.logistic if self.link == "logit" else jax.random.normal
        latent = self.eta + draw(key, sample_shape + self.batch_shape)
        return jnp.sum(latent[..., None] > self.cutpoints, -1)

    @property
    def probs(self):
        """(n, K)."""
        each = jnp.arange(jnp.shape(self.cutpoints)[-1] + 1)
        return jnp.exp(jax.vmap(self.log_prob, out_axes=-1)(each))


def _between_logistic(a, b):
    """log(F(b) - F(a)) = log F(b) + log F(-a) + log(1 - exp(a - b))."""
    return log_sigmoid(b) + log_sigmoid(-a) + log1mexp(b - a)


def _between_normal(a, b):
    """log(F(b) - F(a)), in the lower tail, where log F keeps its digits."""
    upper = a + b > 0.0
    a, b = jnp.where(upper, -b, a), jnp.where(upper, -a, b)
    return log_ndtr(b) + log1mexp(log_ndtr(b) - log_ndtr(a))


LOG_CDF = {"logit": log_sigmoid, "probit": log_ndtr}
BETWEEN = {"logit": _between_logistic, "probit": _between_normal}


class OrderStatistics(Distribution):
    """`count` independent draws of `base`, in ascending order: count! prod_k f(c_k)."""

    arg_constraints: ClassVar = {"base": constraints.dependent}
    support = constraints.ordered_vector

    def __init__(self, base, count, *, validate_args=None):
        self.base = base
        super().__init__((), (count,), validate_args=validate_args)

    def log_prob(self, value):
        return gammaln(self.event_shape[0] + 1.0) + jnp.sum(self.base.log_prob(value), -1)

    def sample(self, key, sample_shape=()):
        return jnp.sort(self.base.sample(key, sample_shape + self.event_shape), -1)
