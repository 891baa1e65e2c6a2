"""Likelihoods of classes, and two without an order: Bernoulli and categorical."""

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
    """A likelihood of K classes: booleans, whole numbers or text, coded as 0, ..., K - 1.

    `prepare` learns the classes that occur in y and keeps them, sorted, as `classes`; ordered
    pandas categories and polars enums keep their order. If they are given, y may have no others.
    """

    classes: tuple | None = eqx.field(
        static=True,
        default=None,
        kw_only=True,
        converter=lambda names: None if names is None else tuple(map(labels.plain, names)),
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
        """The probability of each class given eta: (n, K)."""

    def prepare(self, y, n: int, extra: dict | None = None) -> Prepared:
        """Read labels for n points, learn the classes unless they are known, set default priors.

        Args:
            y: The labels, one for each point, in an array or a data frame's column; None if there
                are none.
            n: The number of points.
            extra: The values named in `needs`.

        Returns:
            The likelihood that knows its classes, the codes of the labels, and the extra values.

        Raises:
            ValueError: If labels are missing, if there is one class alone, or if a label is not
                among the classes that are known.
        """
        if y is None:
            return super().prepare(None, n, extra)
        y, order = labels.read(y, n)
        likelihood = self._learn_classes(y, order) if self.classes is None else self
        codes = labels.encode(y, likelihood.classes)
        return super(Classifier, likelihood).prepare(codes, n, extra)

    def _learn_classes(self, y, order: tuple | None) -> Self:
        """A copy that knows the classes in y; order: the one that y declares, or None."""
        return dataclasses.replace(self, classes=labels.learn(y, order))

    def read_targets(self, y, n):
        return jnp.asarray(y)

    def _known_classes(self) -> tuple:
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
    """One of two classes: y ~ Bernoulli(g^-1(eta)).

    P(y = 1) = g^-1(eta), where 1 is the second of `classes`: True, the larger number, the later in
    the alphabet, or the higher of two ordered categories. Any two numbers will do.

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

    def distribution(self, eta):
        return BernoulliLogProbs(*LOG_PROBABILITIES[self.link_name](eta))

    def probabilities(self, eta):
        """The probabilities of the first class and the second given eta: (n, 2)."""
        log_p, log_q = LOG_PROBABILITIES[self.link_name](eta)
        return jnp.exp(jnp.stack([log_q, log_p], -1))

    def vanishing_tails(self, y):
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
    """One of K classes without an order: P(y = k) = softmax(eta)_k, eta of shape (n, K).

    A number added to all K predictors changes nothing, so that their prior decides between them.

    Args:
        classes: The K labels; by default `prepare` learns them from y.
        link: "softmax", the only one.
    """

    links: ClassVar = ("softmax",)

    @property
    def outputs(self) -> int:
        return len(self._known_classes())

    def inverse_link(self, eta):
        """The probability of each class given eta: (n, K)."""
        return jax.nn.softmax(eta, -1)

    def distribution(self, eta):
        return dist.CategoricalLogits(eta)

    def probabilities(self, eta):
        """The probability of each class given eta: (n, K)."""
        return jax.nn.softmax(eta, -1)

    def mean(self, eta):
        """The probability of each class, since a class has no mean: (n, K)."""
        return self.probabilities(eta)
