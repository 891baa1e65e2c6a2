"""Terms of a regression: their contract, and smooths, processes and monotone effects.

A term contributes X b to the linear predictor, with effects b = loc + T u, u ~ N(0, I), and a root
T that depends on the scales of the term.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pandas as pd
from jax import Array
from numpyro.distributions import Distribution

from bayeskern.formula.frame import Columns, require
from bayeskern.kernels import HilbertSpace, IntegratedBrownian
from bayeskern.linear.design import OpaqueStatic, as_opaque

# Default prior sd of a common effect in units of sd(eta) / sd(x), as in rstanarm.
COMMON_SDS = 2.5


class Term(eqx.Module):
    """Effects b = loc + T u of columns of the data.

    Attributes:
        name: Name of the term in the formula, and of the site of its effects.
        priors: Priors of the scales, by site.
    """

    name: str = eqx.field(static=True)
    priors: dict[str, Distribution]

    @abstractmethod
    def columns(self, frame: pd.DataFrame, name: str = "newdata") -> np.ndarray:
        """Columns of the rows of a data frame: (n, k)."""

    @property
    @abstractmethod
    def width(self) -> int:
        """Number of effects k."""

    @property
    def rank(self) -> int:
        """Number of standard normal numbers u."""
        return self.width

    @abstractmethod
    def prior(self) -> tuple[Array, Array]:
        """Sample the scales inside a NumPyro model.

        Returns:
            loc (k,), and T: (k,) for a diagonal root, otherwise (k, m).
        """

    def sample(self) -> Array:
        """Sample the effects (k,) and their scales inside a NumPyro model."""
        loc, root = self.prior()
        u = sampled(f"white({self.name})", standard_normal(root.shape[-1:]))
        b = loc + (root * u if root.ndim == 1 else root @ u)
        for site, value in self.sites(b).items():
            numpyro.deterministic(site, value)
        return b

    def recovered(self, b: Array, u: Array) -> dict[str, Array]:
        """Sites that `sample` has at effects b (..., k) and u (..., m)."""
        return {f"white({self.name})": u} | self.sites(b)

    def sample_groups(self, count: int) -> Array:
        """Sample effects (G, k) of G groups with the same scales inside a NumPyro model."""
        _, root = self.prior()
        u = sampled(f"white({self.name})", standard_normal((count, *root.shape[-1:])))
        b = u * root if root.ndim == 1 else u @ root.T
        for site, value in self.sites(b).items():
            numpyro.deterministic(site, value)
        return b

    def recovered_groups(self, b: Array, u: Array) -> dict[str, Array]:
        """Sites that `sample_groups` has at effects b (..., G, k) and u (..., G, m)."""
        return self.recovered(b, u)

    def sites(self, b: Array) -> dict[str, Array]:
        """Sites of effects b (..., k)."""
        return {self.name: b}

    def effects(self, sites: Mapping[str, Any]) -> Array:
        """Effects b (..., k) from their sites."""
        return sites[self.name]

    def contribution(
        self, sites: Mapping[str, np.ndarray], frame: pd.DataFrame, rng: np.random.Generator
    ) -> np.ndarray:
        """Contribution to the linear predictor of new rows at S draws of the sites: (S, m)."""
        return np.asarray(self.effects(sites)) @ self.columns(frame).T

    @property
    def labels(self) -> dict[str, list[str]]:
        """Labels of the elements of the sites with several effects, by site."""
        return {}

    @property
    def sites_of_groups(self) -> list[str]:
        """Sites of `sample_groups` with the groups as their first axis."""
        return [self.name]

    @property
    def axes_of_a_group(self) -> list[str]:
        """Names of the further axes of these sites."""
        return [f"{self.name} column"]


def sampled(site: str, prior: Distribution) -> Array:
    """Value of a site inside a NumPyro model, as an array."""
    return jnp.asarray(numpyro.sample(site, prior))


def standard_normal(shape: tuple[int, ...]) -> Distribution:
    """Independent standard normal values of this shape, as one event."""
    return dist.Normal().expand(shape).to_event(len(shape))


def numeric_columns(
    name: str, arguments: Sequence[str], frame: pd.DataFrame
) -> tuple[Columns, np.ndarray]:
    """Columns of the arguments of a function, (n, d), which vary and have one column each.

    Raises:
        ValueError: An argument is a factor or constant.
    """
    source, X = Columns.fit(f"0 + {' + '.join(arguments)}", frame)
    if X.shape[1] != len(arguments):
        raise ValueError(
            f"{name} needs numbers; its columns are factors: {', '.join(source.names)}."
        )
    if not np.ptp(X, axis=0).all():
        constant = arguments[int(np.argmin(np.ptp(X, axis=0)))]
        raise ValueError(f"{name} needs values that vary; {constant} is {X[0, 0]:g} in all rows.")
    return source, X


class Smooth(Term):
    """Smooth function s(x): a line and an integrated Brownian motion, a smoothing spline.

    The function deviates from a line like the cubic smoothing spline of Wahba (1978), with knots at
    quantiles of x.

    Attributes:
        source: The column x, a `Columns`.
        low, high: Range of x in the data, which is mapped to [0, 1].
        features: Fitted Nystrom features of the deviation.
        center: Means of the columns over the data, (k,).
        slope_sd: Prior sd of the slope of the line.
    """

    source: OpaqueStatic = eqx.field(static=True, converter=as_opaque)
    features: OpaqueStatic = eqx.field(static=True, converter=as_opaque)
    low: Array
    high: Array
    center: Array
    slope_sd: Array

    @classmethod
    def fit(
        cls, name: str, arguments: Sequence[str], frame: pd.DataFrame, scale: float, knots: int
    ) -> tuple[Smooth, np.ndarray]:
        """Smooth with default priors, and its columns (n, k)."""
        # scikit-learn takes long to import.
        from bayeskern.kernels.approximation import NystromFeatures

        source, X = numeric_columns(name, arguments, frame)
        low, high = X.min(), X.max()
        unit = (X[:, 0] - low) / (high - low)
        levels = np.unique(unit)
        landmarks = np.unique(np.quantile(levels, np.linspace(0.0, 1.0, knots)))[1:, None]
        features = NystromFeatures(IntegratedBrownian(), landmarks).fit(unit[:, None])
        # sd of the deviation at x = 1, where the variance of an integrated Brownian motion is 1/3.
        priors = {f"sd({name})": dist.Exponential(1.0 / (3.0**0.5 * scale))}
        numbers = map(jnp.asarray, (low, high, 0.0, 12.0**0.5 * scale))
        self = cls(name, priors, source, features, *numbers)
        columns = self.columns(frame)
        center = columns.mean(axis=0)
        return eqx.tree_at(lambda t: t.center, self, jnp.asarray(center)), columns - center

    def columns(self, frame: pd.DataFrame, name: str = "newdata") -> np.ndarray:
        low, high = float(self.low), float(self.high)
        unit = (self.source.value(frame, name) - low) / (high - low)
        # Beyond the data the function goes on as a line.
        inside = np.clip(unit, 0.0, 1.0)
        features = self.features.value.transform(inside)
        step = 1e-4
        for end, beyond in ((1.0, np.maximum(unit - 1.0, 0.0)), (0.0, np.minimum(unit, 0.0))):
            at_end, before = self.features.value.transform(np.array([[end], [abs(end - step)]]))
            slope = (at_end - before) / (end - abs(end - step))
            features = features + beyond * slope
        return np.concatenate([unit, features], axis=1) - np.asarray(self.center)

    @property
    def width(self) -> int:
        return len(self.center)

    def prior(self) -> tuple[Array, Array]:
        site = f"sd({self.name})"
        sd = sampled(site, self.priors[site])
        m = len(self.center) - 1
        root = jnp.concatenate([jnp.reshape(self.slope_sd, 1), jnp.full(m, sd)])
        return jnp.zeros(m + 1), root


class Process(Term):
    """Gaussian process gp(x, ...) with a stationary kernel, by eigenfunctions of a box.

    Attributes:
        source: The columns x, a `Columns`.
        lower: Lower corner of the data, (d,); each column is mapped to [0, 1].
        spans: Range of the data in each column, (d,).
        kernel: The kernel on [0, 1]^d, its hyperparameters 1.
    """

    source: OpaqueStatic = eqx.field(static=True, converter=as_opaque)
    lower: Array
    spans: Array
    kernel: HilbertSpace

    @classmethod
    def fit(
        cls, name: str, arguments: Sequence[str], frame: pd.DataFrame, scale: float, kernel: Any
    ) -> tuple[Process, np.ndarray]:
        """Process with default priors, and its columns (n, m)."""
        source, X = numeric_columns(name, arguments, frame)
        d = X.shape[1]
        lower, width = X.min(axis=0), np.ptp(X, axis=0)
        box = HilbertSpace(kernel(), [-BOX_MARGIN] * d, [1.0 + BOX_MARGIN] * d, FREQUENCIES[d - 1])
        # Median lengthscale a fifth of the range; 95 % between a fifteenth and two thirds of it.
        lengthscale = dist.LogNormal(jnp.log(0.2 * width), 0.6).to_event(1)
        priors = {
            f"sd({name})": dist.Exponential(1.0 / scale),
            f"lengthscale({name})": lengthscale
            if d > 1
            else dist.LogNormal(jnp.log(0.2 * width[0]), 0.6),
        }
        self = cls(name, priors, source, jnp.asarray(lower), jnp.asarray(width), box)
        return self, self.columns(frame)

    def columns(self, frame: pd.DataFrame, name: str = "newdata") -> np.ndarray:
        X = (self.source.value(frame, name) - np.asarray(self.lower)) / np.asarray(self.spans)
        return np.asarray(self.kernel.eigenfunctions(jnp.asarray(X), jnp.zeros(X.shape)))

    @property
    def width(self) -> int:
        return FREQUENCIES[len(self.spans) - 1] ** len(self.spans)

    def prior(self) -> tuple[Array, Array]:
        sites = f"sd({self.name})", f"lengthscale({self.name})"
        sd, lengthscale = (sampled(site, self.priors[site]) for site in sites)
        inner = eqx.tree_at(
            lambda k: (k.lengthscale, k.variance),
            self.kernel.inner,
            (jnp.asarray(lengthscale / jnp.squeeze(self.spans)), jnp.square(sd)),
        )
        box = eqx.tree_at(lambda k: k.inner, self.kernel, inner)
        root = box.amplitudes(len(self.spans))
        return jnp.zeros(root.shape), root


# Margin of the box of a process beyond the data, in widths of the data.
BOX_MARGIN = 0.5
# Frequencies in each of one, two and three dimensions.
FREQUENCIES = (40, 14, 8)


class Monotone(Term):
    """Monotone effect mo(x) of ordered levels: the steps between levels have the same sign.

    The effect of level j is b (z_1 + ... + z_j) with a simplex z, so that b is the difference
    between the highest and the lowest level (Buerkner and Charpentier 2020).

    Attributes:
        source: Name of the column.
        levels: The levels, from lowest to highest.
        sd: Prior standard deviation of b.
    """

    source: str = eqx.field(static=True)
    levels: tuple = eqx.field(static=True)
    sd: Array

    @classmethod
    def fit(
        cls, name: str, arguments: Sequence[str], frame: pd.DataFrame, scale: float
    ) -> tuple[Monotone, np.ndarray]:
        """Monotone effect with default priors, and its columns (n, D)."""
        source = arguments[0].strip("`")
        column = frame[source]
        declared = getattr(getattr(column, "cat", None), "categories", None)
        if declared is None and not pd.api.types.is_numeric_dtype(column):
            raise ValueError(
                f"{name} needs levels with an order; {source!r} is text. Make it numbers, or a "
                "pandas.Categorical with its categories in order."
            )
        levels = tuple(sorted(column.unique().tolist()) if declared is None else declared.tolist())
        if len(levels) < 2:
            raise ValueError(
                f"{name} needs two levels or more; {source!r} has {list(levels)} only."
            )
        priors: dict[str, Distribution] = {
            f"simplex({name})": dist.Dirichlet(jnp.ones(len(levels) - 1))
        }
        self = cls(name, priors, source, levels, jnp.asarray(COMMON_SDS * scale))
        return self, self.columns(frame)

    def columns(self, frame: pd.DataFrame, name: str = "newdata") -> np.ndarray:
        require([self.source], frame, self.name, name)
        ranks = pd.Index(self.levels).get_indexer(frame[self.source])
        if (ranks < 0).any():
            level = frame[self.source].tolist()[int(np.argmax(ranks < 0))]
            raise ValueError(
                f"{name} has the level {level!r} in {self.name}; the known levels are "
                f"{', '.join(map(repr, self.levels))}."
            )
        return (ranks[:, None] > np.arange(len(self.levels) - 1)).astype(float)

    @property
    def width(self) -> int:
        return len(self.levels) - 1

    @property
    def rank(self) -> int:
        return 1

    def prior(self) -> tuple[Array, Array]:
        site = f"simplex({self.name})"
        steps = sampled(site, self.priors[site])
        return jnp.zeros(len(self.levels) - 1), self.sd * steps[:, None]

    @property
    def axes_of_a_group(self) -> list[str]:
        return []

    def sites(self, b: Array) -> dict[str, Array]:
        return {self.name: jnp.sum(b, axis=-1)}

    def effects(self, sites: Mapping[str, Any]) -> Array:
        return jnp.asarray(sites[self.name])[..., None] * jnp.asarray(
            sites[f"simplex({self.name})"]
        )
