"""Likelihoods of classes: the common base class, Bernoulli and categorical."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import ClassVar, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jax import Array
from numpy.typing import ArrayLike

from bayeskern.likelihoods import labels
from bayeskern.likelihoods.base import Likelihood, Prepared
from bayeskern.likelihoods.distributions import BernoulliLogProbs
from bayeskern.likelihoods.links import LOG_PROBABILITIES, log_odds


def _plain_labels(classes: tuple | None) -> tuple | None:
    return None if classes is None else tuple(map(labels.plain, classes))


class Classifier(Likelihood):
    """Likelihood of K classes: booleans, whole numbers or text, coded as 0, ..., K - 1.

    `prepare` learns the classes from y and stores them, sorted, in `classes`; ordered pandas
    categories and polars enums keep their order. If `classes` is given, y may contain only these.
    """

    classes: tuple | None = eqx.field(
        static=True, default=None, kw_only=True, converter=_plain_labels
    )

    classifies: ClassVar = True

    def __check_init__(self):
        if self.classes is None:
            return
        if len(set(self.classes)) < len(self.classes):
            raise ValueError(f"classes must differ from each other, got {self.classes}.")
        if len(self.classes) < 2:
            raise ValueError(
                f"{type(self).__name__} needs two classes or more, got {self.classes}. If y has "
                "only one of the possible classes, name all of them in classes=(...)."
            )
        self._check_classes(self.classes)

    def _check_classes(self, classes: tuple) -> None:
        for label in classes:
            if isinstance(label, float):
                raise ValueError(
                    f"y has {label}, which is not a whole number: a class is a boolean, a whole "
                    "number or text. If y is a measurement, use Gaussian() or StudentT()."
                )

    def prepare(
        self, y: ArrayLike | None, n: int, extra: Mapping[str, ArrayLike] | None = None
    ) -> Prepared:
        """Read labels for n points, learn unknown classes, and set default priors.

        Args:
            y: Labels, one for each point, in an array or a column of a data frame; None for none.
            n: Number of points.
            extra: Values named in `needs`.

        Returns:
            The likelihood with its classes, the codes of the labels, and the extra values.

        Raises:
            ValueError: If labels are missing, if there is only one class, or if a label is not
                among the known classes.
        """
        if y is None:
            return super().prepare(None, n, extra)
        array, order = labels.read(y, n)
        likelihood = self._learn_classes(array, order) if self.classes is None else self
        codes = labels.encode(array, likelihood._known_classes())
        return super(Classifier, likelihood).prepare(codes, n, extra)

    def _learn_classes(self, y: np.ndarray, order: tuple | None) -> Self:
        """Copy with the classes in y, in the declared `order`; sorted if it is None."""
        return dataclasses.replace(self, classes=labels.learn(y, order))

    def read_targets(self, y: ArrayLike, n: int) -> Array:
        return jnp.asarray(y)

    def mean(self, eta: Array, **extra: Array) -> Array:
        """Probability of each class in place of a mean, which classes do not have: (n, K)."""
        return self.probabilities(eta, **extra)

    def _known_classes(self) -> tuple:
        if self.classes is None:
            raise ValueError(
                f"this {type(self).__name__} does not know its classes yet. Use the likelihood "
                "that prepare(y, n) returns, or give classes=(...)."
            )
        return self.classes

    def _arguments(self) -> list[str]:
        shown = [] if self.classes is None else [f"classes={self.classes!r}"]
        return [*super()._arguments(), *shown]


class Bernoulli(Classifier):
    """One of two classes: y ~ Bernoulli(g^-1(eta)).

    P(y = 1) = g^-1(eta), where 1 is the second of `classes`: True, the larger number, the label
    later in the alphabet, or the higher of two ordered categories. Any two whole numbers may be
    classes.

    Args:
        classes: The two labels; by default `prepare` learns them from y.
        link: "logit" (default), "probit" or "cloglog".

    Examples:
        >>> from bayeskern import likelihoods
        >>> likelihood, y, _ = likelihoods.Bernoulli().prepare(["no", "yes", "no"], n=3)
        >>> likelihood.classes, y.tolist()
        (('no', 'yes'), [0, 1, 0])
    """

    links: ClassVar = ("logit", "probit", "cloglog")

    def distribution(self, eta: Array) -> BernoulliLogProbs:
        return BernoulliLogProbs(*LOG_PROBABILITIES[self.link_name](eta))

    def natural_parameter(self, eta: Array) -> Array:
        return log_odds(self.link_name, eta)

    def log_normalizer(self, theta: Array) -> Array:
        return jax.nn.softplus(theta)

    def mean(self, eta: Array) -> Array:
        """Probability of the second class: (n,)."""
        return self.distribution(eta).mean

    def probabilities(self, eta: Array) -> Array:
        """Probabilities of the first and the second class given eta: (n, 2)."""
        log_p, log_q = LOG_PROBABILITIES[self.link_name](eta)
        return jnp.exp(jnp.stack([log_q, log_p], -1))

    def vanishing_tails(self, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return y == 0, y == 1

    def _check_classes(self, classes: tuple) -> None:
        if len(classes) > 2:
            shown = ", ".join(map(repr, classes[:5]))
            raise ValueError(
                f"Bernoulli takes two classes, but there are {len(classes)} ({shown}"
                f"{', ...' if len(classes) > 5 else ''}). Use Categorical(), or Ordered() if "
                "they have an order."
            )


class Categorical(Classifier):
    """One of K classes without an order: P(y = k) = softmax(eta)_k, eta of shape (n, K).

    Adding a number to all K predictors does not change P, so that only the prior determines their
    common level.

    Args:
        classes: The K labels; by default `prepare` learns them from y.
        link: "softmax", the only one.
    """

    multivariate: ClassVar = True
    links: ClassVar = ("softmax",)

    @property
    def outputs(self) -> int:
        return len(self._known_classes())

    def inverse_link(self, eta: Array) -> Array:
        """Probability of each class given eta: (n, K)."""
        return jax.nn.softmax(eta, -1)

    def distribution(self, eta: Array) -> dist.CategoricalLogits:
        return dist.CategoricalLogits(eta)

    def natural_parameter(self, eta: Array) -> Array:
        return eta

    def sufficient_statistic(self, y: Array) -> Array:
        return jax.nn.one_hot(y, self.outputs)

    def log_normalizer(self, theta: Array) -> Array:
        return jax.nn.logsumexp(theta, -1)

    def probabilities(self, eta: Array) -> Array:
        """Probability of each class given eta: (n, K)."""
        return jax.nn.softmax(eta, -1)
