"""What conjugate families share: the NumPyro model, its posterior, evidence, updates, predictions.

A prior is conjugate if the posterior is of its family, whatever the data. So the posterior is the
model itself with other numbers in its prior, and everything follows from that.
"""

from __future__ import annotations

import dataclasses
from abc import abstractmethod
from collections.abc import Callable
from functools import partial
from typing import ClassVar, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
from numpyro import handlers
from numpyro.distributions import Distribution
from numpyro.infer import init_to_mean
from numpyro.infer.util import log_density

from bayeskern.core import validation
from bayeskern.core.formatting import number
from bayeskern.core.tracing import by_one_thread
from bayeskern.likelihoods import Likelihood
from bayeskern.prediction.closed_form import ClosedFormPrediction
from bayeskern.prediction.empirical import DRAWS_AT_A_POINT, SampledPrediction
from bayeskern.protocols import ClosedForm


def above_0(name: str) -> Callable:
    """A converter for a field: a positive number, as an array, so that others compile nothing."""
    return lambda value: np.asarray(validation.positive(value, name))


def finite(name: str) -> Callable:
    """A converter for a field: a finite number, as an array, so that others compile nothing."""
    return lambda value: np.asarray(validation.number(value, name))


class ConjugateModel(eqx.Module):
    """y_i ~ p(y | theta), independent, with a prior on theta that is conjugate to them.

    p(y | theta) is an exponential family. The prior counts as `strength` observations of mean
    `mean`, so that n observations whose mean is ybar move the expectation of the next one to

        (strength * mean + n * ybar) / (strength + n)

    (Diaconis and Ylvisaker 1979). A family has these two, as fields or as properties, and what
    stands under "what a family says".

    Attributes:
        mean: E[y] under the prior.
        strength: How many observations the prior is worth.
        likelihood: The likelihood whose checks y has to pass.
        extra_defaults: What the likelihood needs beside y, where it is not given.
        seen: log p(y) of all that `update` has shown the model; None where that is nothing.
    """

    seen: np.ndarray | None = eqx.field(default=None, kw_only=True)

    likelihood: ClassVar[Likelihood]
    extra_defaults: ClassVar[dict[str, float]] = {}

    # -- what a family says -----------------------------------------------------------------------

    @abstractmethod
    def parameters(self) -> dict:
        """Sample theta from the prior: a value for each site."""

    @abstractmethod
    def observation(self, **values) -> Distribution:
        """The distribution of y given theta and what the likelihood needs beside y."""

    @abstractmethod
    def given(self, y, **extra) -> Self:
        """The same model with the posterior in the place of the prior.

        Args:
            y: Observations as `prepare` returned them, shape (n,); n may be 0.
            **extra: What the likelihood needs beside y, each of shape (n,).
        """

    @abstractmethod
    def new(self, **extra):
        """The distribution of a new observation, theta integrated out: one of SciPy's."""

    # -- the NumPyro model ------------------------------------------------------------------------

    def __call__(self, y=None, extra=None, **named):
        n = 1 if y is None else len(y)
        extra = self._read_extra(named, n) if extra is None else extra
        theta = self.parameters()
        if self.seen is not None:
            numpyro.factor("seen", self.seen)
        y = None if y is None else jnp.asarray(y)
        return numpyro.sample("y", self.observation(**theta, **extra).expand([n]), obs=y)

    def prepare(self, y=None, **extra) -> tuple[Self, tuple]:
        """Check the observations.

        Args:
            y: Observations, shape (n,); None for no more than `update` has shown the model.
            **extra: What the likelihood needs beside y, by name: one number, or n of them.

        Returns:
            The model and its arguments: y, and a dict of arrays.

        Raises:
            ValueError: If y is empty, not finite or outside of the support, naming the row, or if
                there is no y, and the model has seen none.
        """
        if y is None and self.seen is None:
            raise ValueError("there are no data: give y, or a model that update has shown some.")
        if y is None:
            none = jnp.zeros(0, int)
            return self, (none, dict.fromkeys(self.likelihood.needs, none))
        n = len(np.atleast_1d(y))
        if n == 0:
            raise ValueError("y is empty: give at least one observation.")
        _, y, extra = self.likelihood.prepare(y, n, self._with_defaults(extra, n))
        return self, (y, extra)

    def restore(self, args: tuple, columns, classes) -> tuple[Self, tuple]:
        """The model and its arguments, from those that a file has kept."""
        y, extra = args
        return self.prepare(y if len(y) else None, **extra)

    def _read_extra(self, extra: dict, n: int) -> dict:
        return self.likelihood.read_extra(self._with_defaults(extra, n), n)

    def _with_defaults(self, extra: dict, n: int) -> dict:
        for name, value in extra.items():
            if np.ndim(value) and len(value) != n:
                raise ValueError(
                    f"{name} has {len(value)} values for {n} observations: give one number for "
                    "all of them, or one for each."
                )
        return {**self.extra_defaults, **extra}

    # -- what it knows of its posterior -----------------------------------------------------------

    def exact(self, y, extra=None) -> ClosedForm:
        """The posterior, and log p(y) of all observations, those seen before included.

        Args:
            y: Observations as `prepare` returned them, shape (n,).
            extra: What the likelihood needs beside y.
        """
        posterior = self.given(y, **(extra or {}))
        return ClosedForm(posterior.draw, self._log_evidence(posterior, y, extra))

    @by_one_thread
    def _log_evidence(self, posterior: Self, y, extra) -> float:
        """log p(y) = log p(y, theta) - log p(theta | y), whatever theta.

        This is the difference of the log normalizers of posterior and prior, in a form that needs
        neither: Besag (1989), A candidate's formula. At the posterior mean, values far from 0 lose
        no digits.
        """
        theta = handlers.substitute(posterior.parameters, substitute_fn=init_to_mean())()
        joint, _ = log_density(self, (y, extra), {}, theta)
        return float(joint - log_density(posterior.parameters, (), {}, theta)[0])

    def draw(self, key, n: int) -> dict:
        """n draws of theta from the prior, by site."""
        keys = jax.random.split(key, n)
        return jax.vmap(self._draw_one)(keys)

    @by_one_thread
    def _draw_one(self, key) -> dict:
        return handlers.seed(self.parameters, key)()

    def update(self, y, **extra) -> Self:
        """Return a model that has seen these observations too: its prior is the posterior.

        `bk.infer(model)` conditions on what it has seen so far, and `bk.infer(model, y)` on that
        and more. The log evidence is that of all of it.

        Args:
            y: Observations, shape (n,).
            **extra: What the likelihood needs beside y, by name: one number, or n of them.

        Raises:
            ValueError: If y is empty, not finite or outside of the support, naming the row.

        Examples:
            >>> import bayeskern as bk
            >>> bk.BetaBernoulli.of(mean=0.5, strength=10).update([1, 1, 0]).update([1, 1])
            BetaBernoulli(a=9, b=6), worth 15 observations of mean 0.6
        """
        _, (y, extra) = self.prepare(y, **extra)
        posterior = self.given(y, **extra)
        seen = np.asarray(self._log_evidence(posterior, y, extra))
        return dataclasses.replace(posterior, seen=seen)

    # -- prediction -------------------------------------------------------------------------------

    def predictive(self, draws: dict, data: tuple, n: int | None = None, seed: int = 0, **extra):
        """Predict new observations.

        theta is integrated out in closed form, whatever the draws; at a point estimate the
        observations are drawn at the point.

        Args:
            draws: Posterior draws of theta, each of shape (S, ...).
            data: The data that the model was fitted to.
            n: How many new observations; by default as many as `extra` has values, else 1.
            seed: The same seed gives the same draws.
            **extra: What the likelihood needs beside y, by name: one number, or n of them.

        Returns:
            A `ClosedFormPrediction`; a `SampledPrediction` at a point estimate.
        """
        if n is None:
            n = max([1, *map(np.size, extra.values())])
        extra = self._read_extra(extra, validation.positive_integer(n, "n"))
        if len(next(iter(draws.values()))) == 1:
            point = {name: jnp.repeat(v, DRAWS_AT_A_POINT, 0) for name, v in draws.items()}
            y = self._observe(point, n, extra, jax.random.key(seed))
            return self._prediction_at(point, y)
        y, seen_extra = data
        return self.given(y, **seen_extra)._prediction(n, extra, seed)

    def _prediction_at(self, point: dict, y):
        """The prediction at a value of theta, repeated, where y (S, n) was drawn."""
        return SampledPrediction("y", y)

    def _prediction(self, n: int, extra: dict, seed: int):
        """The prediction of n observations from the prior. seed: of what has to be drawn."""
        distribution = self.new(**{name: np.asarray(value) for name, value in extra.items()})
        return ClosedFormPrediction(distribution, n, partial(self._draw_new, n, extra))

    def _draw_new(self, n: int, extra: dict, key, size: int) -> np.ndarray:
        """Joint draws of n observations from the prior: (size, n)."""
        of_theta, of_y = jax.random.split(key)
        return self._observe(self.draw(of_theta, size), n, extra, of_y)

    def _observe(self, draws: dict, n: int, extra: dict, key) -> np.ndarray:
        """n observations at each of S draws of theta: (S, n)."""

        def at(theta, key):
            return self.observation(**theta, **extra).expand([n]).sample(key)

        keys = jax.random.split(key, len(next(iter(draws.values()))))
        return np.asarray(jax.vmap(at)(draws, keys))

    def __repr__(self) -> str:
        own = [f.name for f in dataclasses.fields(self) if f.name != "seen"]
        arguments = ", ".join(f"{name}={_shown(getattr(self, name))}" for name in own)
        worth = f"worth {_shown(self.strength)} observations of mean {_shown(self.mean)}"
        return f"{type(self).__name__}({arguments}), {worth}"


def _shown(value) -> str:
    value = np.asarray(value)
    return f"[{', '.join(map(number, value))}]" if value.ndim else number(value)
