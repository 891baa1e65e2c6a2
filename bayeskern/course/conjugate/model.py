"""Base of conjugate families: model, posterior, evidence, updates and predictions.

A prior is conjugate if the posterior belongs to the same family, whatever the data. The posterior
is then the same model with other prior parameters.
"""

from __future__ import annotations

import dataclasses
from abc import abstractmethod
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
from numpy.typing import ArrayLike
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
from bayeskern.prediction.mixture import Quantiles
from bayeskern.protocols import ClosedForm


def above_0(name: str) -> Callable:
    """A converter for a field: a positive number, as an array to avoid recompilation."""
    return lambda value: np.asarray(validation.positive(value, name))


def finite(name: str) -> Callable:
    """A converter for a field: a finite number, as an array to avoid recompilation."""
    return lambda value: np.asarray(validation.number(value, name))


class ConjugateModel(eqx.Module):
    """Independent y_i ~ p(y | theta), with a conjugate prior on theta.

    p(y | theta) is an exponential family. The prior counts as `strength` observations of mean
    `mean`: after n observations of mean ybar, the expectation of the next one is

        (strength * mean + n * ybar) / (strength + n)

    (Diaconis and Ylvisaker 1979). A family defines `mean` and `strength`, as fields or as
    properties, and the five abstract methods.

    Attributes:
        mean: E[y] under the prior.
        strength: The number of observations that the prior is worth.
        likelihood: The likelihood that checks y.
        extra_defaults: Default values of the extra arguments of the likelihood.
        seen: log p(y) of all observations given to `update`; None if there are none.
    """

    seen: np.ndarray | None = eqx.field(default=None, kw_only=True)

    likelihood: ClassVar[Likelihood]
    extra_defaults: ClassVar[dict[str, float]] = {}

    if TYPE_CHECKING:
        # Fields in some families, properties in others.
        @property
        def mean(self) -> Any: ...
        @property
        def strength(self) -> Any: ...

    # -- defined by each family -------------------------------------------------------------------

    @abstractmethod
    def parameters(self) -> dict:
        """Sample theta from the prior: a value for each site."""

    @abstractmethod
    def observation(self, **values) -> Distribution:
        """The distribution of y, given theta and the extra values of the likelihood."""

    @abstractmethod
    def given(self, y, **extra) -> Self:
        """The model with the posterior as its prior.

        Args:
            y: Observations as `prepare` returned them, shape (n,); n may be 0.
            **extra: The extra values of the likelihood, each of shape (n,).
        """

    @abstractmethod
    def new(self, **extra) -> Any:
        """The SciPy distribution of a new observation, with theta integrated out."""

    @abstractmethod
    def marginals(self) -> dict[str, Distribution]:
        """The marginal distribution of each element of theta under the prior, by site."""

    # -- the NumPyro model ------------------------------------------------------------------------

    def __call__(self, y=None, extra=None, **named):
        n = 1 if y is None else len(y)
        extra = self._read_extra(named, n) if extra is None else extra
        theta = self.parameters()
        if self.seen is not None:
            numpyro.factor("seen", self.seen)
        y = None if y is None else jnp.asarray(y)
        return numpyro.sample("y", self.observation(**theta, **extra).expand([n]), obs=y)

    def prepare(self, y: ArrayLike | None = None, **extra) -> tuple[Self, tuple]:
        """Check the observations.

        Args:
            y: Observations, shape (n,); None if all were given to `update`.
            **extra: The extra values of the likelihood, by name: one number, or n of them.

        Returns:
            The model and its arguments: y, and a dict of arrays.

        Raises:
            ValueError: If y is empty, not finite or outside the support (the message names the
                row), or if there are no observations at all.
        """
        if y is None and self.seen is None:
            raise ValueError("there are no data: give y, or update the model with data first.")
        if y is None:
            empty = jnp.zeros(0, int)
            return self, (empty, dict.fromkeys(self.likelihood.needs, empty))
        n = len(np.atleast_1d(y))
        if n == 0:
            raise ValueError("y is empty: give at least one observation.")
        _, y, extra = self.likelihood.prepare(y, n, self._with_defaults(extra, n))
        return self, (y, extra)

    def restore(self, args: tuple, columns, classes) -> tuple[Self, tuple]:
        """The model and its arguments, from the arguments in a file."""
        y, extra = args
        return self.prepare(y if len(y) else None, **extra)

    def _read_extra(self, extra: dict, n: int) -> dict:
        return self.likelihood.read_extra(self._with_defaults(extra, n), n)

    def _with_defaults(self, extra: dict, n: int) -> dict:
        for name, value in extra.items():
            if np.ndim(value) and len(value) != n:
                raise ValueError(
                    f"{name} has {len(value)} values for {n} observations: give one number for "
                    "all observations, or one for each."
                )
        return {**self.extra_defaults, **extra}

    # -- the posterior ----------------------------------------------------------------------------

    def exact(self, y, extra: dict | None = None) -> ClosedForm:
        """The posterior, and log p of all observations, those given to `update` included.

        Args:
            y: Observations as `prepare` returned them, shape (n,).
            extra: The extra values of the likelihood.
        """
        posterior = self.given(y, **(extra or {}))
        log_evidence = self._log_evidence(posterior, y, extra)
        return ClosedForm(posterior.draw, log_evidence, marginals=posterior.marginals())

    @by_one_thread
    def _log_evidence(self, posterior: Self, y, extra) -> float:
        """log p(y) = log p(y, theta) - log p(theta | y), for any theta.

        This formula of Besag (1989), "A candidate's formula", needs no normalising constants. theta
        is the posterior mean, at which values far from 0 lose no digits.
        """
        at_mean: Any = init_to_mean()
        theta: Any = handlers.substitute(posterior.parameters, substitute_fn=at_mean)()
        joint, _ = log_density(self, (y, extra), {}, theta)
        return float(joint - log_density(posterior.parameters, (), {}, theta)[0])

    def draw(self, key: jax.Array, n: int) -> dict:
        """n draws of theta from the prior: site name -> array."""
        keys = jax.random.split(key, n)
        return jax.vmap(self._draw_one)(keys)

    @by_one_thread
    def _draw_one(self, key) -> dict:
        theta: Any = handlers.seed(self.parameters, key)()
        return theta

    def update(self, y: ArrayLike, **extra) -> Self:
        """Condition the model on observations: the posterior becomes its prior.

        `bk.infer(model)` conditions on all observations given to `update`, and `bk.infer(model, y)`
        on y as well. The log evidence is log p of all these observations.

        Args:
            y: Observations, shape (n,).
            **extra: The extra values of the likelihood, by name: one number, or n of them.

        Returns:
            The updated model.

        Raises:
            ValueError: If y is empty, not finite or outside the support (the message names the
                row).

        Examples:
            >>> import bayeskern as bk
            >>> bk.BetaBernoulli.of(mean=0.5, strength=10).update([1, 1, 0]).update([1, 1])
            BetaBernoulli(a=9, b=6), worth 15 observations of mean 0.6
        """
        _, (y, extra) = self.prepare(y, **extra)
        posterior = self.given(y, **extra)
        log_evidence = np.asarray(self._log_evidence(posterior, y, extra))
        return dataclasses.replace(posterior, seen=log_evidence)

    # -- prediction -------------------------------------------------------------------------------

    def predictive(
        self, draws: dict, data: tuple, n: int | None = None, seed: int = 0, **extra
    ) -> Quantiles:
        """Predict new observations.

        theta is integrated out in closed form, without the draws. A single draw is a point
        estimate: observations are then drawn given this theta.

        Args:
            draws: Posterior draws of theta, each of shape (S, ...).
            data: (y, extra), the arguments that the model was fitted to.
            n: The number of new observations; by default the number of values in `extra`, or 1.
            seed: The seed of the draws.
            **extra: The extra values of the likelihood, by name: one number, or n of them.

        Returns:
            A `ClosedFormPrediction`, or a `SampledPrediction` for a point estimate.
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
        """The prediction given one theta, repeated in `point`, from draws y (S, n)."""
        return SampledPrediction("y", y)

    def _prediction(self, n: int, extra: dict, seed: int):
        """The prediction of n observations under the prior; `seed` is for the draws."""
        distribution = self.new(**{name: np.asarray(value) for name, value in extra.items()})
        return ClosedFormPrediction(distribution, n, partial(self._draw_new, n, extra))

    def _draw_new(self, n: int, extra: dict, key: jax.Array, size: int) -> np.ndarray:
        """Joint draws of n observations under the prior: (size, n)."""
        key_theta, key_y = jax.random.split(key)
        return self._observe(self.draw(key_theta, size), n, extra, key_y)

    def _observe(self, draws: dict, n: int, extra: dict, key) -> np.ndarray:
        """n observations at each of S draws of theta: (S, n)."""

        def observe(theta, key):
            return self.observation(**theta, **extra).expand([n]).sample(key)

        keys = jax.random.split(key, len(next(iter(draws.values()))))
        return np.asarray(jax.vmap(observe)(draws, keys))

    def __repr__(self) -> str:
        names = [f.name for f in dataclasses.fields(self) if f.name != "seen"]
        arguments = ", ".join(f"{name}={_format(getattr(self, name))}" for name in names)
        prior_text = f"worth {_format(self.strength)} observations of mean {_format(self.mean)}"
        return f"{type(self).__name__}({arguments}), {prior_text}"


def _format(value) -> str:
    value = np.asarray(value)
    return f"[{', '.join(map(number, value))}]" if value.ndim else number(value)
