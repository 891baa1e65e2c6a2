"""Dirichlet prior on the probabilities of several classes."""

from __future__ import annotations

import dataclasses
from typing import Self

import equinox as eqx
import jax
import numpy as np
import numpyro
import numpyro.distributions as dist
import scipy
from numpy.typing import ArrayLike

from bayeskern.core import validation
from bayeskern.course.conjugate.model import ConjugateModel
from bayeskern.likelihoods import Categorical
from bayeskern.prediction.response import ResponsePrediction


def _several_above_0(value, name: str) -> np.ndarray:
    values = np.asarray(validation.targets(value, name=name))
    if len(values) < 2 or not np.all(values > 0.0):
        raise ValueError(f"{name} must be positive numbers, one for each class, got {value!r}.")
    return values


class DirichletCategorical(ConjugateModel):
    """y_i ~ Categorical(p), p ~ Dirichlet(concentration): the posterior adds the counts.

    An instance is a NumPyro model, model(y=None), with the site `p` of shape (K,); y are classes
    0, ..., K - 1. The prior is worth sum(concentration) observations, concentration_k of them in
    class k. A new observation is categorical.

    Args:
        concentration: The number of observations of each class that the prior is worth, shape
            (K,), above 0.

    Raises:
        ValueError: If there are fewer than two concentrations, or one is not above 0.

    References:
        Gelman et al. (2013), Bayesian Data Analysis, section 3.4; Bishop (2006), Pattern
        Recognition and Machine Learning, section 2.2.1.

    Examples:
        >>> import bayeskern as bk
        >>> die = bk.DirichletCategorical.of(mean=[0.2, 0.3, 0.5], strength=10)
        >>> die
        DirichletCategorical(concentration=[2, 3, 5]), worth 10 observations of mean [0.2, 0.3, 0.5]
        >>> bk.infer(die, [0, 0, 2, 0, 2], method="exact").predict().probabilities.round(3)
        array([[0.333, 0.2  , 0.467]])
    """

    concentration: np.ndarray = eqx.field(
        converter=lambda value: _several_above_0(value, "concentration")
    )

    @classmethod
    def of(cls, mean: ArrayLike, strength: float) -> Self:
        """The model whose prior is worth `strength` observations in proportions `mean`.

        Args:
            mean: The prior mean of p, shape (K,), above 0; its sum is 1.
            strength: The number of observations that the prior is worth, above 0.

        Returns:
            The model.

        Raises:
            ValueError: If mean does not hold probabilities that sum to 1, or strength is not above
                0.
        """
        shares = _several_above_0(mean, "mean")
        if not np.isclose(shares.sum(), 1.0):
            raise ValueError(f"mean must be probabilities that sum to 1, got {mean!r}.")
        return cls(validation.positive(strength, "strength") * shares)

    @property
    def likelihood(self) -> Categorical:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The likelihood, whose classes are 0, ..., K - 1."""
        return Categorical(classes=tuple(range(len(self.concentration))))

    @property
    def mean(self) -> np.ndarray:
        """The prior mean of p: (K,)."""
        return self.concentration / self.strength

    @property
    def strength(self) -> np.floating:
        """The number of observations that the prior is worth: sum(concentration)."""
        return self.concentration.sum()

    def parameters(self) -> dict:
        prior = dist.Dirichlet(self.concentration)
        return {"p": numpyro.sample("p", prior, infer={"event_dims": ["class"]})}

    def marginals(self) -> dict[str, dist.Distribution]:
        return {"p": dist.Beta(self.concentration, self.strength - self.concentration)}

    def observation(self, p) -> dist.Distribution:
        return dist.Categorical(p)  # pyright: ignore[reportReturnType]

    def given(self, y) -> Self:
        counts = np.bincount(y, minlength=len(self.concentration))
        return dataclasses.replace(self, concentration=self.concentration + counts)

    def new(self):
        return scipy.stats.rv_discrete(values=(np.arange(len(self.mean)), self.mean))

    def _prediction(self, n, extra, seed):
        # Draws in addition to the exact probabilities.
        return self._class_prediction(
            self.mean, self._draw_new(n, extra, jax.random.key(seed), 4000)
        )

    def _prediction_at(self, point, y):
        return self._class_prediction(point["p"][0], y)

    def _class_prediction(self, p, y) -> ResponsePrediction:
        """The prediction of classes with probabilities p (K,), with draws y (S, n)."""
        probabilities = np.tile(p, (y.shape[1], 1))
        mean = probabilities if len(p) > 2 else probabilities[:, 1]
        return ResponsePrediction(y, mean, probabilities, tuple(range(len(p))))
