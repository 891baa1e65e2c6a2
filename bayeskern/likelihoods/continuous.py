"""Likelihoods of real numbers: Gaussian, Student t, Laplace, Gaussian with a spread of its own."""

from __future__ import annotations

from typing import ClassVar, Self

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist

from bayeskern.hyperparameters import from_sd, hyperparameter
from bayeskern.likelihoods.base import Likelihood

#: the standard deviation of a Gaussian over its median absolute deviation
MAD = 1.4826022185056018


class Measured(Likelihood):
    """Those of real numbers, whose eta is in the units of y."""

    def level(self, y, extra):
        y = np.asarray(y)
        level, sd = np.mean(y), np.std(y)
        return float(level), _positive(sd, level)


class Robust(Measured):
    """Those with heavy tails and a `scale`, which a few outliers must not set."""

    def level(self, y, extra):
        y = np.asarray(y)
        level = np.median(y)
        return float(level), _positive(_median_deviation(y), level)

    def _learn(self, y):
        if self.scale is not None:
            return self
        mean = _scale(self, "scale", _spread(_median_deviation, y), y[0], len(y))
        return self._default(scale=dist.Exponential(1.0 / mean))


class Gaussian(Measured):
    """y ~ N(eta, noise); noise is a variance.

    By default its square root is Exponential with mean sd(y), in the units of y. A constant y has
    no scale: ValueError, unless noise is given.
    """

    noise: jax.Array | None = hyperparameter(None)

    def distribution(self, eta):
        return dist.Normal(eta, jnp.sqrt(self.noise))

    def with_default(self, sd: float, level: float, n: int) -> Self:
        """A copy whose noise has the default prior for n values of this sd, unless one is given.

        ValueError if sd is 0; level: the value that they then all have.
        """
        if self.noise is not None:
            return self
        mean = _scale(self, "noise", sd, level, n)
        return self._default(noise=from_sd(dist.Exponential(1.0 / mean)))

    def _learn(self, y):
        return self.with_default(_spread(np.std, y), y[0], len(y))


class StudentT(Robust):
    """y ~ eta + scale * t(df): a few observations may lie far off.

    By default df is Gamma(2, 0.1) (Juarez and Steel 2010, "Model-based clustering of non-Gaussian
    panel data") and scale Exponential with mean 1.4826 times the median absolute deviation of y,
    which outliers do not move (sd(y) where more than half of y is one value). A constant y has no
    scale: ValueError, unless scale is given. Not log-concave: the posterior of eta may have
    several modes. `mean` is eta, the mean for df > 1, the median always.
    """

    df: jax.Array = hyperparameter(dist.Gamma(2.0, 0.1))
    scale: jax.Array | None = hyperparameter(None)

    log_concave: ClassVar = False

    def distribution(self, eta):
        return dist.StudentT(self.df, eta, self.scale)

    def mean(self, eta):
        """eta: (n,)."""
        return eta


class Laplace(Robust):
    """y ~ Laplace(eta, scale), exp(-|y - eta| / scale) / (2 scale): regression to the median.

    By default scale is Exponential with mean 1.4826 times the median absolute deviation of y
    (sd(y) where more than half of y is one value). A constant y has no scale: ValueError, unless
    scale is given. The log density has a kink at eta = y, so its curvature says nothing.
    """

    scale: jax.Array | None = hyperparameter(None)

    kinked: ClassVar = True

    def distribution(self, eta):
        return dist.Laplace(eta, self.scale)


class Heteroscedastic(Measured):
    """y ~ N(eta_0, exp(eta_1)^2): the mean and the log sd each have a predictor; eta: (n, 2).

    It has no hyperparameters: log sd is in the units of y, and the prior on its predictor should
    be too.
    """

    log_concave: ClassVar = False

    @property
    def outputs(self) -> int:
        return 2

    def distribution(self, eta):
        return dist.Normal(eta[..., 0], jnp.exp(eta[..., 1]))

    def level(self, y, extra):
        """0 and one sd that is wide enough for either output: |mean(y)| + sd(y), or 1 if larger."""
        level, sd = super().level(y, extra)
        return 0.0, max(abs(level) + sd, 1.0)


def _positive(sd, level) -> float:
    """sd, or where y is constant the size of y."""
    return float(sd) if sd > 0.0 else max(abs(float(level)), 1.0)


def _median_deviation(y) -> float:
    return MAD * np.median(np.abs(y - np.median(y))) or np.std(y)


def _spread(measure, y) -> float:
    """A measure of spread; 0 for constant y, of which rounding might leave a little."""
    return 0.0 if np.ptp(y) == 0.0 else float(measure(y))


def _scale(likelihood, name: str, spread: float, level: float, n: int) -> float:
    """The spread of y, which a default prior takes for its mean. ValueError if y is constant."""
    if not spread > 0.0:
        kind = type(likelihood).__name__
        raise ValueError(
            f"y is constant ({float(level)} in all {n} rows): it sets no scale for the default "
            f"prior on {name}. Give one, as in {kind}({name}=1.0) or with a distribution."
        )
    return spread
