"""Prior of a Gaussian process in time and of its hyperparameters, in NumPy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy
from typing import NamedTuple, Protocol

import numpy as np
import numpyro.distributions as dist
from numpyro.distributions import Distribution
from numpyro.distributions.transforms import AffineTransform, ExpTransform

from bayeskern.core.constants import LOG_2PI
from bayeskern.hyperparameters import is_specified
from bayeskern.kernels import Kernel
from bayeskern.kernels.components import component_names
from bayeskern.kernels.numpy_gram import Gram
from bayeskern.kernels.pairs import Pairs, PairWeights

# (A, b) -> gradient in z, (d,), of 1/2 sum_ij A_ij k(x_i, x_j) + 1/2 b noise + log p(z), with
# weights A (n, n) and b.
Gradient = Callable[[np.ndarray, float], np.ndarray]


class ProcessPrior(Protocol):
    """Prior of y(x) = f(x) + e, with f ~ GP(0, k) and e ~ N(0, noise).

    The hyperparameters, including the noise, are functions of unconstrained coordinates z (d,).

    Attributes:
        names: Name of each coordinate.
        component_names: Names of the additive components of k.
        middle: Prior median of z, (d,).
        prior_sd: Prior sd of z, (d,); 1 where it is unknown.
    """

    names: tuple[str, ...]
    component_names: tuple[str, ...]

    @property
    def middle(self) -> np.ndarray: ...

    @property
    def prior_sd(self) -> np.ndarray: ...

    def values(self, z: np.ndarray) -> dict[str, np.ndarray]:
        """Hyperparameters by name, for z (..., d)."""
        ...

    def noise(self, z: np.ndarray) -> float:
        """Variance of the noise at z (d,)."""
        ...

    def log_density(self, z: np.ndarray) -> float:
        """log p(z), for z (d,)."""
        ...

    def covariance(self, z: np.ndarray, pairs: Pairs) -> tuple[np.ndarray, Gradient]:
        """k at z (d,), at the pairs or their distinct lags, and `Gradient` at z."""
        ...

    def components(self, z: np.ndarray, pairs: Pairs) -> dict[str, np.ndarray]:
        """Component name -> its covariance at z (d,), at the pairs."""
        ...


class LogNormalPrior(NamedTuple):
    """Prior of a hyperparameter least + exp(z), with z ~ N(location, scale^2)."""

    location: float
    scale: float
    least: float = 0.0

    @classmethod
    def of(cls, prior: object) -> LogNormalPrior | None:
        """Convert a NumPyro prior; None if it is no LogNormal, possibly shifted."""
        # A LogNormal is an ExpTransform of a Normal; only shifts may follow.
        if not isinstance(prior, dist.TransformedDistribution) or prior.batch_shape != ():
            return None
        base, (first, *others) = prior.base_dist, prior.transforms
        if not isinstance(base, dist.Normal) or not isinstance(first, ExpTransform):
            return None
        shifts = [t for t in others if isinstance(t, AffineTransform) and t.scale == 1.0]
        if len(shifts) < len(others):
            return None
        least = float(sum(float(np.asarray(t.loc)) for t in shifts))
        return cls(float(np.asarray(base.loc)), float(np.asarray(base.scale)), least)


class LogNormalPriors:
    """Independent priors of hyperparameters least + exp(z), z ~ N(location, scale^2).

    Args:
        priors: Name -> prior of each of d hyperparameters.

    Attributes:
        names: Names of the hyperparameters.
    """

    def __init__(self, priors: Mapping[str, LogNormalPrior]):
        self.names = tuple(priors)
        columns = np.array(list(priors.values()), float).reshape(-1, 3).T
        self._location, self._scale, self._least = columns

    @property
    def middle(self) -> np.ndarray:
        """Median of z: (d,)."""
        return self._location

    @property
    def prior_sd(self) -> np.ndarray:
        """Standard deviation of z: (d,)."""
        return self._scale

    def each(self, z: np.ndarray) -> np.ndarray:
        """Hyperparameters, for z (..., d): (..., d)."""
        return self._least + np.exp(z)

    def values(self, z: np.ndarray) -> dict[str, np.ndarray]:
        """Hyperparameters by name, for z (..., d)."""
        values = self.each(z)
        return {name: values[..., i] for i, name in enumerate(self.names)}

    def log_density(self, z: np.ndarray) -> float:
        """log p(z), for z (d,)."""
        standard = (z - self._location) / self._scale
        value = -0.5 * (standard @ standard) - np.log(self._scale).sum()
        return float(value - 0.5 * len(z) * LOG_2PI)

    def slope(self, z: np.ndarray) -> np.ndarray:
        """Gradient of log p(z), for z (d,)."""
        return (self._location - z) / np.square(self._scale)

    @property
    def information(self) -> np.ndarray:
        """Minus the Hessian of log p(z): (d, d)."""
        return np.diag(1.0 / np.square(self._scale))


class NumpyPrior(LogNormalPriors):
    """`ProcessPrior` of a kernel with a Gram matrix in NumPy.

    Hyperparameters with a prior are least + exp(z), in the order of the sites of a `GPRegression`,
    with the noise last.

    Args:
        kernel: Covariance function; hyperparameters are numbers or LogNormal priors, possibly
            shifted.
        noise: Variance of the noise, a number or a LogNormal prior, possibly shifted.

    Raises:
        NotImplementedError: The kernel has no NumPy formula, or a prior is of another kind.
    """

    def __init__(self, kernel: Kernel, noise: float | Distribution):
        self._gram, self.component_names = Gram(kernel), tuple(component_names(kernel))
        values = {**kernel.hyperparameters(), "noise": noise}
        priors = {n: p for n, v in values.items() if (p := LogNormalPrior.of(v)) is not None}
        fixed = {n: v for n, v in values.items() if n not in priors}
        if any(is_specified(v) or np.ndim(v) for v in fixed.values()):
            raise NotImplementedError("hyperparameters must be numbers or have LogNormal priors.")
        super().__init__(priors)
        self._indices = {name: i for i, name in enumerate(values)}
        self._free = np.array([self._indices[name] for name in priors], int)
        self._values = np.array([float(fixed.get(name, 0.0)) for name in values])

    def with_numbers(self, numbers: Mapping[str, float]) -> NumpyPrior:
        """Copy with other values of fixed hyperparameters, by name."""
        clone = copy(self)
        clone._values = self._values.copy()
        clone._values[[self._indices[name] for name in numbers]] = list(numbers.values())
        return clone

    def with_priors(self, priors: Mapping[str, tuple[float, float]]) -> NumpyPrior:
        """Copy with other priors, name -> (location, scale) of z; ignore unknown names."""
        clone = copy(self)
        clone._location, clone._scale = self._location.copy(), self._scale.copy()
        for i, name in enumerate(self.names):
            if name in priors:
                clone._location[i], clone._scale[i] = priors[name]
        return clone

    def noise(self, z: np.ndarray) -> float:
        """Variance of the noise at z (d,)."""
        return self._all_values(z)[-1]

    def covariance(self, z: np.ndarray, pairs: Pairs) -> tuple[np.ndarray, Gradient]:
        """k at z (d,), at the pairs or their distinct lags, and `Gradient` at z."""
        *values, _ = self._all_values(z)
        K, pullback = self._gram(iter(values), pairs)

        def gradient(A, b):
            slopes = [*pullback(PairWeights(pairs, lambda: A)), lambda: b]
            value_slopes = np.array([slopes[i]() for i in self._free])
            return 0.5 * value_slopes * np.exp(z) + self.slope(z)

        return K, gradient

    def components(self, z: np.ndarray, pairs: Pairs) -> dict[str, np.ndarray]:
        """Component name -> its covariance at z (d,), at the pairs."""
        *values, _ = self._all_values(z)
        return self._gram.of_components(iter(values), pairs)

    @property
    def fixed_values(self) -> dict[str, float]:
        """Fixed hyperparameters by name."""
        return {n: self._values[i] for n, i in self._indices.items() if n not in self.names}

    def all_values(self, z: np.ndarray) -> dict[str, float]:
        """All hyperparameters of the kernel and the noise variance by name, for z (d,)."""
        return dict(zip(self._indices, self._all_values(z).tolist(), strict=True))

    def chain(self, z: np.ndarray, slopes: Mapping[str, float]) -> np.ndarray:
        """Gradient in z of a function and log p(z), from its slopes in the hyperparameters."""
        return np.array([slopes[name] for name in self.names]) * np.exp(z) + self.slope(z)

    def _all_values(self, z: np.ndarray) -> np.ndarray:
        """All hyperparameters of the kernel, fixed or free, then the noise variance."""
        values = self._values.copy()
        values[self._free] = self.each(z)
        return values
