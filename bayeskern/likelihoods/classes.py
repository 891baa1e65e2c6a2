"""Likelihoods of classes without an order: Bernoulli, categorical; what all of classes share."""

from __future__ import annotations

import dataclasses
from abc import abstractmethod
from typing import ClassVar, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpyro.distributions as dist

from bayeskern.likelihoods import labels
from bayeskern.likelihoods.base import Likelihood, Prepared
from bayeskern.likelihoods.distributions import BernoulliLogProbs
from bayeskern.likelihoods.links import LOG_PROBABILITIES


class Classifier(Likelihood):
    """y is one of K classes: booleans, whole numbers or text, in an array or a data frame's column.

    `prepare` learns the classes that occur in y and keeps them, sorted, as `classes`; ordered
    pandas categories and polars enums keep their order. They may also be given, and then y may
    have no others. y becomes 0, ..., K - 1.
    """

    classes: tuple | None = eqx.field(
        static=True,
        default=None,
        kw_only=True,
        converter=lambda found: None if found is None else tuple(map(labels.plain, found)),
    )

    classifies: ClassVar = True

    def __check_init__(self):
        if self.classes is None:
            return
        if len(set(self.classes)) < len(self.classes):
            raise ValueError(f"classes must differ from each other, got {self.classes}.")
        if len(self.classes) == 0:
            raise ValueError("classes is empty: name at least two.")
        if len(self.classes) == 1:
            raise ValueError(
                f"{type(self).__name__} needs two classes or more, but y is {self.classes[0]!r} in "
                "every row. If others were possible, name them all in classes=(...)."
            )
        self._check_classes()

    def _check_classes(self) -> None:
        for label in self.classes:
            if isinstance(label, float):
                raise ValueError(
                    f"y has {label}, which is not a whole number: a class is a boolean, a whole "
                    "number or text. Is y a measurement? Gaussian() and others take those."
                )

    @abstractmethod
    def probabilities(self, eta):
        """The chance of each class: (n, K)."""

    def prepare(self, y, n: int, extra: dict | None = None) -> Prepared:
        """Read labels for n points, learn the classes where they are not known, set default priors.

        Raises ValueError on missing labels, on one class alone, on labels not among the classes.
        """
        if y is None:
            return super().prepare(None, n, extra)
        found, order = labels.read(y, n)
        known = self._learn_classes(found, order) if self.classes is None else self
        return super(Classifier, known).prepare(labels.encode(found, known.classes), n, extra)

    def _learn_classes(self, found, order: tuple | None) -> Self:
        """A copy that knows the classes that occur; order: as y declares it, None without one."""
        return dataclasses.replace(self, classes=labels.learn(found, order))

    def _read(self, y, n):
        return jnp.asarray(y)

    def _known(self) -> tuple:
        if self.classes is None:
            raise ValueError(
                f"this {type(self).__name__} does not know its classes yet. Use the likelihood "
                "that prepare(y, n) returns, or name them in classes=(...)."
            )
        return self.classes

    def _arguments(self):
        shown = [] if self.classes is None else [f"classes={self.classes!r}"]
        return [*super()._arguments(), *shown]


class Bernoulli(Classifier):
    """y ~ Bernoulli(g^-1(eta)): one of two classes, P(y = 1) = g^-1(eta).

    1 is the second of `classes`: True, the larger number, the later in the alphabet, or the higher
    of two ordered categories. Numbers other than 0 and 1 are taken, if there are two of them.
    """

    links: ClassVar = ("logit", "probit", "cloglog")

    def distribution(self, eta):
        return BernoulliLogProbs(*LOG_PROBABILITIES[self.link_name](eta))

    def probabilities(self, eta):
        """(n, 2): of the first class, and of the second."""
        log_p, log_q = LOG_PROBABILITIES[self.link_name](eta)
        return jnp.exp(jnp.stack([log_q, log_p], -1))

    def restrained(self, y):
        return y == 0, y == 1

    def _check_classes(self):
        if len(self.classes) > 2:
            shown = ", ".join(map(repr, self.classes[:5]))
            raise ValueError(
                f"Bernoulli takes two classes, but there are {len(self.classes)} ({shown}"
                f"{', ...' if len(self.classes) > 5 else ''}). Use Categorical(), or Ordered() if "
                "they have an order."
            )


class Categorical(Classifier):
    """P(y = k) = softmax(eta)_k: one of K classes without an order; eta: (n, K).

    A number added to all K predictors changes nothing: their prior decides between them.
    """

    links: ClassVar = ("softmax",)

    @property
    def outputs(self) -> int:
        return len(self._known())

    def inverse_link(self, eta):
        """The chance of each class: (n, K)."""
        return jax.nn.softmax(eta, -1)

    def distribution(self, eta):
        return dist.CategoricalLogits(eta)

    def probabilities(self, eta):
        """(n, K)."""
        return jax.nn.softmax(eta, -1)

    def mean(self, eta):
        """A class has no mean: the chance of each, (n, K)."""
        return self.probabilities(eta)
