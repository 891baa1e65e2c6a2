"""The prior of a Gaussian process in time and of its hyperparameters, in NumPy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy
from typing import NamedTuple, Protocol

import numpy as np
import numpyro.distributions as dist
from numpyro.distributions import transforms

from bayeskern.gp.time_series.predictive import LOG_2PI
from bayeskern.hyperparameters import is_specified
from bayeskern.kernels import Kernel
from bayeskern.kernels.components import component_names
from bayeskern.kernels.derivatives import Gram, Pairs, PairWeights

# From weights A (n, n) and b to the gradient (d,) of 1/2 sum_ij A_ij k(x_i, x_j) + 1/2 b noise
# + log p(z) in z.
Gradient = Callable[[np.ndarray, float], np.ndarray]


class ProcessPrior(Protocol):
    """y(x) = f(x) + e, with f ~ GP(0, k) and e ~ N(0, noise), before any data.

    The hyperparameters, the noise among them, are functions of unconstrained coordinates z (d,).

    Attributes:
        names: A name for each coordinate.
        component_names: Names of the additive components of k.
        middle: Median of z: (d,).
    """

    names: tuple[str, ...]
    component_names: tuple[str, ...]
    middle: np.ndarray

    def values(self, z) -> dict[str, np.ndarray]:
        """Hyperparameters by name, for z (..., d)."""

    def noise(self, z) -> float:
        """Variance of the noise at z (d,)."""

    def log_density(self, z) -> float:
        """log p(z), of z (d,)."""

    def covariance(self, z, pairs: Pairs) -> tuple[np.ndarray, Gradient]:
        """k at z (d,), at the pairs or their lags, and the gradient of sums of k over them."""

    def components(self, z, pairs: Pairs) -> dict[str, np.ndarray]:
        """Each component of k at z (d,), at the pairs, by its name."""


class LogNormalPrior(NamedTuple):
    """value = least + exp(z), with z ~ N(location, scale^2)."""

    location: float
    scale: float
    least: float = 0.0

    @classmethod
    def of(cls, prior) -> LogNormalPrior | None:
        """The prior of a hyperparameter in this form, or None if it has another one."""
        # A LogNormal is the exponential of a Normal, and stays so with a shift after it.
        if not isinstance(prior, dist.TransformedDistribution) or prior.batch_shape != ():
            return None
        base, (first, *others) = prior.base_dist, prior.transforms
        is_exponential = type(base) is dist.Normal and type(first) is transforms.ExpTransform
        if not (is_exponential and all(map(_is_shift, others))):
            return None
        return cls(float(base.loc), float(base.scale), float(sum(t.loc for t in others)))


def _is_shift(transform) -> bool:
    return type(transform) is transforms.AffineTransform and transform.scale == 1.0


class NumpyPrior:
    """The `ProcessPrior` of a kernel with formulas in `bayeskern.kernels.derivatives`.

    The hyperparameters that are no numbers are least + exp(z), in the order of the sites of a
    `GPRegression`; the noise comes last.

    Args:
        kernel: Covariance function with numbers and LogNormal priors, maybe shifted.
        noise: Variance of the noise, a number or such a prior.

    Raises:
        NotImplementedError: For a kernel without a formula, or a hyperparameter of another kind.
    """

    def __init__(self, kernel: Kernel, noise):
        self._gram, self.component_names = Gram(kernel), tuple(component_names(kernel))
        values = {**kernel.hyperparameters(), "noise": noise}
        priors = {n: LogNormalPrior.of(v) for n, v in values.items() if is_specified(v)}
        fixed = {n: v for n, v in values.items() if n not in priors}
        if None in priors.values() or any(map(np.ndim, fixed.values())):
            raise NotImplementedError("a hyperparameter that is no number and no LogNormal")
        self.names = tuple(priors)
        self._places = {name: i for i, name in enumerate(values)}
        self._free = np.array([self._places[name] for name in priors], int)
        self._values = np.array([float(fixed.get(name, 0.0)) for name in values])
        priors = np.array(list(priors.values()), float).reshape(-1, 3)
        self._location, self._scale, self._least = priors.T

    def with_numbers(self, numbers: Mapping[str, float]) -> NumpyPrior:
        """A copy with other values of fixed hyperparameters, by name."""
        other = copy(self)
        other._values = self._values.copy()
        other._values[[self._places[name] for name in numbers]] = list(numbers.values())
        return other

    def with_priors(self, priors: Mapping[str, tuple[float, float]]) -> NumpyPrior:
        """A copy with z ~ N(location, scale^2) for these names, those that there are."""
        other = copy(self)
        other._location, other._scale = self._location.copy(), self._scale.copy()
        for i, name in enumerate(self.names):
            if name in priors:
                other._location[i], other._scale[i] = priors[name]
        return other

    @property
    def middle(self) -> np.ndarray:
        return self._location

    def values(self, z) -> dict[str, np.ndarray]:
        values = self._least + np.exp(z)
        return {name: values[..., i] for i, name in enumerate(self.names)}

    def noise(self, z) -> float:
        return self._at(z)[-1]

    def log_density(self, z) -> float:
        standard = (z - self._location) / self._scale
        value = -0.5 * (standard @ standard) - np.log(self._scale).sum()
        return float(value - 0.5 * len(z) * LOG_2PI)

    def covariance(self, z, pairs: Pairs) -> tuple[np.ndarray, Gradient]:
        *values, _ = self._at(z)
        K, pullback = self._gram(values, pairs)

        def gradient(A, b):
            slopes = [*pullback(PairWeights(pairs, lambda: A)), lambda: b]
            slopes = [slopes[i]() for i in self._free]
            by_prior = (z - self._location) / np.square(self._scale)
            return 0.5 * np.array(slopes) * np.exp(z) - by_prior

        return K, gradient

    def components(self, z, pairs: Pairs) -> dict[str, np.ndarray]:
        *values, _ = self._at(z)
        return self._gram.of_components(values, pairs)

    def _at(self, z) -> np.ndarray:
        """The values of all hyperparameters of the kernel, and the noise."""
        values = self._values.copy()
        values[self._free] = self._least + np.exp(z)
        return values
