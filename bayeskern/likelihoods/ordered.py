"""Ordered classes: cumulative logit and probit regression."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, NamedTuple, Self

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jax import Array
from jax.nn import log_sigmoid
from jax.scipy.special import gammaln, log_ndtr
from jax.typing import ArrayLike
from numpyro.distributions import Distribution, constraints

from bayeskern import hyperparameters as hyper
from bayeskern.hyperparameters import DefaultedHyperparameter, hyperparameter
from bayeskern.likelihoods import labels
from bayeskern.likelihoods.classes import Classifier
from bayeskern.likelihoods.links import log1mexp


class Ordered(Classifier):
    """One of K ordered classes: P(y <= k) = F(c_k - eta), F logistic or normal.

    The cutpoints c replace the intercept: the data cannot distinguish an intercept in eta from a
    shift of all cutpoints.

    Args:
        cutpoints: K - 1 ascending numbers, by default with the prior of K - 1 sorted draws from F;
            at eta = 0 the class probabilities are then uniform on the simplex.
        classes: The K labels in order. By default `prepare` learns them from y: numbers in
            ascending order, ordered pandas categories and polars enums in their declared order.
            Text without a declared order raises ValueError.
        link: "logit" (default) or "probit".

    References:
        Betancourt (2019), Ordinal regression, on the induced Dirichlet(1, ..., 1) prior.
    """

    cutpoints: DefaultedHyperparameter = hyperparameter(
        None, constraints.ordered_vector, scalar=False
    )

    links: ClassVar = ("logit", "probit")
    is_ordered: ClassVar = True
    takes_intercept: ClassVar = False

    def distribution(self, eta: Array) -> OrderedCategorical:
        return OrderedCategorical(eta, self.cutpoints, self.link_name)

    def probabilities(self, eta: Array) -> Array:
        """Probability of each class given eta: (n, K)."""
        return self.distribution(eta).probs

    def vanishing_tails(self, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return y < len(self._known_classes()) - 1, y > 0

    def _learn_classes(self, y: np.ndarray, order: tuple | None) -> Self:
        if y.dtype.kind == "U" and order is None:
            examples = ", ".join(map(repr, labels.learn(y, None)[:5]))
            raise ValueError(
                f"y is text without an order ({examples}), which Ordered needs. Name the classes "
                'from low to high, as in Ordered(classes=("low", "mid", "high")), or give ordered '
                "pandas categories or a polars enum."
            )
        return super()._learn_classes(y, order)

    def with_default_priors(self, y: np.ndarray) -> Self:
        classes = self._known_classes()
        count = len(classes) - 1
        if self.cutpoints is None:
            base = dist.Logistic(0.0, 1.0) if self.link_name == "logit" else dist.Normal(0.0, 1.0)
            return self.with_hyperparameters(cutpoints=OrderStatistics(base, count))
        if (shape := hyper.shape(self.cutpoints)) != (count,):
            raise ValueError(
                f"Ordered.cutpoints must have shape ({count},), one fewer than the classes "
                f"({', '.join(map(repr, classes))}), got {shape}."
            )
        return self


class OrderedCategorical(Distribution):
    """Distribution with P(y <= k) = F(c_k - eta), computed without cancellation.

    Args:
        eta: Linear predictor, (n,).
        cutpoints: c, (K - 1,).
        link: "logit" for logistic F, "probit" for normal F.
    """

    arg_constraints: ClassVar = {"eta": constraints.real, "cutpoints": constraints.ordered_vector}
    pytree_aux_fields = ("link",)

    def __init__(self, eta: Array, cutpoints: ArrayLike, link: str = "logit"):
        self.eta, self.cutpoints, self.link = eta, jnp.asarray(cutpoints), link
        super().__init__(jnp.shape(eta))

    @constraints.dependent_property(is_discrete=True, event_dim=0)  # pyright: ignore[reportArgumentType]
    def support(self) -> constraints.Constraint:
        return constraints.integer_interval(0, jnp.shape(self.cutpoints)[-1])

    def log_prob(self, value: ArrayLike) -> Array:
        value, top = jnp.asarray(value).astype(int), jnp.shape(self.cutpoints)[-1]
        first, last = value == 0, value == top
        below = self.cutpoints[jnp.maximum(value - 1, 0)]
        above = self.cutpoints[jnp.minimum(value, top - 1)]
        # The end classes have one cutpoint. The second is arbitrary, and `where` discards it.
        below = jnp.where(first, above - 1.0, below)
        above = jnp.where(last, below + 1.0, above)
        noise = LATENT_NOISES[self.link]
        between = noise.log_probability_between(below - self.eta, above - self.eta)
        ends = jnp.where(first, noise.log_cdf(above - self.eta), noise.log_cdf(self.eta - below))
        return jnp.where(first | last, ends, between)

    def sample(self, key: Array, sample_shape: tuple[int, ...] = ()) -> Array:
        noise = LATENT_NOISES[self.link].draw(key, sample_shape + self.batch_shape)
        return jnp.sum((self.eta + noise)[..., None] > self.cutpoints, -1)

    @property
    def probs(self) -> Array:
        """Probability of each class: (n, K)."""
        codes = jnp.arange(jnp.shape(self.cutpoints)[-1] + 1)
        return jnp.exp(jax.vmap(self.log_prob, out_axes=-1)(codes))


def _log_logistic_between(a: Array, b: Array) -> Array:
    """log(F(b) - F(a)) = log F(b) + log F(-a) + log(1 - exp(a - b))."""
    return log_sigmoid(b) + log_sigmoid(-a) + log1mexp(b - a)


def _log_normal_between(a: Array, b: Array) -> Array:
    """log(F(b) - F(a)), reflected to the lower tail, where log F is accurate."""
    upper = a + b > 0.0
    a, b = jnp.where(upper, -b, a), jnp.where(upper, -a, b)
    return log_ndtr(b) + log1mexp(log_ndtr(b) - log_ndtr(a))


class LatentNoise(NamedTuple):
    """Noise e of the latent eta + e, whose class is set by the cutpoints."""

    log_cdf: Callable[[Array], Array]
    log_probability_between: Callable[[Array, Array], Array]
    draw: Callable[[Array, tuple[int, ...]], Array]


#: noise by the name of the link
LATENT_NOISES = {
    "logit": LatentNoise(log_sigmoid, _log_logistic_between, jax.random.logistic),
    "probit": LatentNoise(log_ndtr, _log_normal_between, jax.random.normal),
}


class OrderStatistics(Distribution):
    """Order statistics of `count` draws of `base`: density count! prod_k f(c_k)."""

    arg_constraints: ClassVar = {
        "base": constraints.dependent,
        "count": constraints.positive_integer,
    }
    support = constraints.ordered_vector  # pyright: ignore[reportAssignmentType]

    def __init__(self, base: Distribution, count: int):
        self.base, self.count = base, count
        super().__init__((), (count,))

    def log_prob(self, value: Array) -> Array:
        return gammaln(self.event_shape[0] + 1.0) + jnp.sum(self.base.log_prob(value), -1)

    def sample(self, key: Array, sample_shape: tuple[int, ...] = ()) -> Array:
        return jnp.sort(self.base.sample(key, sample_shape + self.event_shape), -1)
