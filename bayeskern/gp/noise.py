"""Models of the noise of a `GPRegression`: the noise variance of each row.

A noise model has hyperparameters, like a kernel. Inside a NumPyro model, `sample` makes it
concrete; `of_rows` and `of_new_rows` are the variances at one draw. Known variances of the rows,
such as squared error bars, are added to those of the model.
"""

from __future__ import annotations

import dataclasses
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from jax import Array
from numpy.typing import ArrayLike
from numpyro.distributions import constraints

from bayeskern import hyperparameters as hyper
from bayeskern.core import validation
from bayeskern.gp.prior import positive_definite, read_noise_of_rows
from bayeskern.kernels.base import Kernel
from bayeskern.likelihoods import labels
from bayeskern.linalg.dense import DenseFactor
from bayeskern.linalg.root import draw

# Further arrays with an entry per row: "variances", known variances, and "groups", group indices.
Extra = dict[str, Array]


class NoiseModel(eqx.Module):
    """Noise variance of each row of a `GPRegression`.

    Attributes:
        is_random: True if the variances at new points are random, given the hyperparameters.
        reason_against_mle: Clause that says why maximum likelihood does not apply; None if it does.
    """

    is_random: ClassVar[bool] = False
    reason_against_mle: ClassVar[str | None] = None

    @property
    def varies(self) -> bool:
        """True if the variance may differ from row to row."""
        return True

    @property
    def is_correlated(self) -> bool:
        """True if the noise of the rows has a covariance matrix."""
        return False

    @abstractmethod
    def hyperparameters(self) -> dict[str, Any]:
        """Hyperparameters by site name, each a number, a distribution or `Free`."""

    @abstractmethod
    def at(self, values: Mapping[str, Any]) -> Any:
        """Argument `noise` of `GPRegression` with hyperparameters set, by site name."""

    @abstractmethod
    def sample(self, X: Array) -> NoiseModel:
        """Concrete copy with sampled hyperparameters, inside a NumPyro model at X (n, d)."""

    @abstractmethod
    def variance(self, X: Array, extra: Extra) -> Array:
        """Noise of the rows of X (n, d) without known variances: (), (n,) or (n, n).

        The hyperparameters must be numbers.
        """

    def variance_at_new(self, X: Array, X_new: Array, extra: Extra, key: Array) -> Array:
        """Noise variance of new rows X_new (m, d) without known variances: () or (m,).

        X: Rows of the data, (n, d).
        extra: Groups of the new rows.
        key: Random key, for a model with `is_random`.
        """
        return self.variance(X_new, extra)

    def of_rows(self, X: Array, extra: Extra) -> Array:
        """Noise of the rows of X (n, d), known variances included: (), (n,) or (n, n)."""
        return _with_known(self.variance(X, extra), extra)

    def of_new_rows(self, X: Array, X_new: Array, extra: Extra, key: Array) -> Array:
        """Noise variance of new observations, with the arguments of `variance_at_new`."""
        return _with_known(self.variance_at_new(X, X_new, extra, key), extra)

    def resolve(self, columns: tuple[str, ...] | None) -> Self:
        """Copy for data frames with these columns."""
        return self

    def with_default_priors(self, y: Array, observed: Array | None) -> Self:
        """Copy with default priors from y, (n,) or (n, k), in the observed rows (n,)."""
        return self

    def starting_values(self, variance: float) -> dict[str, float]:
        """Starts of hyperparameters by site: noise of a tenth of the variance of y."""
        return dict.fromkeys(self.hyperparameters(), 0.1 * variance)

    def require_length(self, n: int) -> None:
        """Raise ValueError if the model has variances for a number of rows other than n."""

    def is_zero(self, extra: Extra) -> np.ndarray:
        """True where the variance of this model is known to be 0: () or (n,)."""
        return np.zeros((), bool)

    def read_extra(
        self, n: int, variances: ArrayLike | None = None, groups: Sequence | ArrayLike | None = None
    ) -> Extra:
        """Read the known variances and the groups of n rows.

        Raises:
            ValueError: If a length is wrong, a variance is negative or NaN, a group is unknown, or
                the total variance of a row is 0.
        """
        extra = self.read_groups(groups, n)
        if variances is None:
            return extra
        known = read_variances("variances", variances, n)
        if not validation.is_traced(known):
            _require_noise(np.asarray(known), self.is_zero(extra))
        return {**extra, "variances": known}

    def read_new_extra(
        self,
        m: int,
        variances: ArrayLike | None,
        groups: Sequence | ArrayLike | None,
        fitted: Extra,
    ) -> Extra:
        """Read the known variances and the groups of m new rows, to predict observations.

        fitted: `extra` of the rows of the data. If it has known variances, new rows need them too.
        """
        if variances is None and self.needs_variances(fitted):
            raise ValueError(
                "the training noise differs from row to row, so the noise of new observations is "
                "unknown: give variances=..., the noise variance known for each new row (0 for "
                "none), or latent=True to predict the function without noise."
            )
        extra = self.read_groups(groups, m, " Or give latent=True to predict without noise.")
        if variances is None:
            return extra
        return {**extra, "variances": read_variances("variances", variances, m)}

    def needs_variances(self, fitted: Extra) -> bool:
        """True if new observations need variances, given `extra` of the data."""
        return "variances" in fitted

    def read_groups(self, groups: Sequence | ArrayLike | None, n: int, hint: str = "") -> Extra:
        """`{"groups": indices of the groups of n rows}`; empty for a model without groups.

        hint: Further advice in the error for missing groups.
        """
        if groups is not None:
            raise ValueError(
                f"groups are for a noise variance per group, but noise is {self!r}. Give "
                "GPRegression noise={'name of a group': its variance or prior, ...}."
            )
        return {}


def read_noise(noise: Any) -> Any:
    """Read the argument `noise` of `GPRegression`.

    Args:
        noise: A number, an array (n,) or (n, n), a distribution or `Free`; a dict of numbers or
            priors by group; a kernel; or a noise model.

    Returns:
        A noise model for a dict or a kernel; other arguments as a hyperparameter.
    """
    if isinstance(noise, NoiseModel):
        return noise
    if isinstance(noise, Kernel):
        return NoiseProcess(noise)
    if isinstance(noise, Mapping):
        return GroupNoise(tuple(map(labels.plain, noise)), tuple(noise.values()))
    return hyper.as_hyperparameter(noise, "noise")


def noise_model(noise: Any) -> NoiseModel:
    """The noise model for an argument that `read_noise` returned."""
    return noise if isinstance(noise, NoiseModel) else GivenNoise(noise)


def read_variances(name: str, value: ArrayLike, n: int | None, allow_zero: bool = True) -> Array:
    """Read one variance or n variances as an array (n,).

    n: Number of rows; None for the length of the array.
    """
    if n is not None and np.ndim(value) == 0:
        value = np.full(n, value)
    array = validation.targets(value, n, name)
    if not validation.is_traced(array):
        numbers = np.asarray(array)
        bad = ~(numbers >= 0.0 if allow_zero else numbers > 0.0)
        if bad.any():
            row = int(np.argmax(bad))
            accepted = "0 or more" if allow_zero else "above 0"
            raise ValueError(
                f"{name} must be {accepted} in every row; row {row} has {numbers[row]:g}. They "
                "are variances: square the standard deviations."
            )
    return array


def _with_known(noise: Array, extra: Extra) -> Array:
    """Noise of a model plus the known variances in `extra`, if there are any."""
    if "variances" not in extra:
        return noise
    known = extra["variances"]
    return noise + (jnp.diag(known) if noise.ndim == 2 else known)


def _require_noise(variances: np.ndarray, is_zero: np.ndarray) -> None:
    noiseless = (variances == 0.0) & is_zero
    if noiseless.any():
        raise ValueError(
            f"row {int(np.argmax(noiseless))} has no noise: its value in variances is 0, and noise "
            "is 0 too. Give it a variance above 0, or GPRegression a noise."
        )


class GivenNoise(NoiseModel):
    """One noise variance for all rows, or known variances or covariances of the rows.

    Args:
        value: A number, an array (n,) or (n, n), a distribution or `Free`.
    """

    value: Any

    def __check_init__(self):
        if hyper.is_specified(self.value) or not self.varies:
            hyper.check("noise", self.value, constraints.nonnegative)
        elif self.is_correlated:
            validation.covariance(self.value, None, "noise")
        else:
            read_variances("noise", self.value, None, allow_zero=False)

    @property
    def varies(self) -> bool:
        return hyper.shape(self.value) != ()

    @property
    def is_correlated(self) -> bool:
        return len(hyper.shape(self.value)) == 2

    def hyperparameters(self) -> dict[str, Any]:
        return {"noise": self.value}

    def at(self, values: Mapping[str, Any]) -> Any:
        return values.get("noise", self.value)

    def sample(self, X: Array) -> GivenNoise:
        return GivenNoise(hyper.sample_value("noise", self.value, constraints.nonnegative))

    def variance(self, X: Array, extra: Extra) -> Array:
        return read_noise_of_rows(self.value, X.shape[0])

    def variance_at_new(self, X: Array, X_new: Array, extra: Extra, key: Array) -> Array:
        # Variances given for the rows of the data do not apply to new rows.
        return jnp.zeros(()) if self.varies else jnp.asarray(self.value)

    def needs_variances(self, fitted: Extra) -> bool:
        return self.varies or super().needs_variances(fitted)

    def require_length(self, n: int) -> None:
        shape = hyper.shape(self.value)
        if shape not in ((), (n,), (n, n)):
            raise ValueError(
                f"noise has the shape {shape} but X has {n} points: give one variance, one for "
                "each point, or their covariance matrix."
            )

    def is_zero(self, extra: Extra) -> np.ndarray:
        known = not hyper.is_specified(self.value) and not validation.is_traced(self.value)
        if not known:
            return np.zeros((), bool)
        value = np.asarray(self.value)
        return (np.diagonal(value) if value.ndim == 2 else value) == 0.0

    def __repr__(self) -> str:
        if hyper.is_specified(self.value) or not hyper.shape(self.value):
            return hyper.show(self.value)
        shape = hyper.shape(self.value)
        return f"<covariance matrix {shape}>" if self.is_correlated else f"<{shape[0]} variances>"


class GroupNoise(NoiseModel):
    """A noise variance for each group of rows, such as the sensor that measured them.

    Its sites are `noise.<group>`.

    Args:
        names: Labels of the groups.
        values: Variance of each group: a number, a distribution or `Free`.
    """

    names: tuple = eqx.field(static=True)
    values: tuple = eqx.field(converter=lambda vs: tuple(map(hyper.as_hyperparameter, vs)))

    def __check_init__(self):
        if not self.names:
            raise ValueError("noise={} has no groups; give each group a variance or a prior.")
        for site, value in zip(self._sites(), self.values, strict=True):
            hyper.check(site, value, constraints.nonnegative)
            if hyper.shape(value) != ():
                raise ValueError(f"{site} must be one number, got shape {hyper.shape(value)}.")

    def _sites(self) -> list[str]:
        return [f"noise.{name}" for name in self.names]

    def hyperparameters(self) -> dict[str, Any]:
        return dict(zip(self._sites(), self.values, strict=True))

    def at(self, values: Mapping[str, Any]) -> GroupNoise:
        updated = {**self.hyperparameters(), **values}
        return GroupNoise(self.names, tuple(updated.values()))

    def sample(self, X: Array) -> GroupNoise:
        return self.at(
            {
                site: hyper.sample_value(site, value, constraints.nonnegative)
                for site, value in self.hyperparameters().items()
            }
        )

    def variance(self, X: Array, extra: Extra) -> Array:
        unset = [k for k, value in self.hyperparameters().items() if hyper.is_specified(value)]
        if unset:
            raise TypeError(f"{', '.join(unset)} have no value yet; set them with model.at.")
        return jnp.stack([jnp.asarray(value) for value in self.values])[extra["groups"]]

    def read_groups(self, groups: Sequence | ArrayLike | None, n: int, hint: str = "") -> Extra:
        if groups is None:
            raise ValueError(
                "the noise has a variance for each group: give groups=..., the group of each of "
                f"the {n} rows, one of {', '.join(map(repr, self.names))}.{hint}"
            )
        read, _ = labels.read(groups, n, "groups")
        codes = labels.encode(read, self.names, "groups", ("group", "groups"))
        return {"groups": jnp.asarray(codes)}

    def is_zero(self, extra: Extra) -> np.ndarray:
        zeros = [bool(GivenNoise(value).is_zero(extra)) for value in self.values]
        return np.array(zeros)[np.asarray(extra["groups"])]

    def __repr__(self) -> str:
        shown = zip(self.names, map(hyper.show, self.values), strict=True)
        return "{" + ", ".join(f"{name!r}: {value}" for name, value in shown) + "}"


class NoiseProcess(NoiseModel):
    """Noise whose log variance is a Gaussian process: log noise(x) = level + g(x).

    g ~ GP(0, kernel), as in Goldberg, Williams and Bishop (1997). `GPRegression(noise=kernel)` is
    short for `noise=NoiseProcess(kernel)`. The sites are `noise.level`, the hyperparameters of the
    kernel with the prefix `noise.`, `noise.white` (n,), standard normal, and the deterministic
    `noise` = exp(level + L white), (n,), with k(X) = L L'. The cost is O(n^3) operations. At m new
    points, the noise is drawn once for each draw of the posterior, in O(n^2 m + m^3) operations. A
    mean or an integral has the noise at the midpoint of its interval.

    Args:
        kernel: Covariance function of the log noise variance. With variance 1, the noise variance
            lies within a factor of about 7 of exp(level) with probability 0.95.
        level: Mean of the log noise variance: a number, a distribution or `Free`. By default
            N(log(v / 10), 2^2) for the variance v of y, set by `prepare`: the noise sd lies between
            4 % and 220 % of the sd of y with probability 0.95.
        white: Values of `noise.white`, (n,); None to infer them.

    Raises:
        TypeError: If `kernel` is not a Kernel.
        ValueError: If the kernel is not positive definite by construction.

    References:
        Goldberg, Williams and Bishop (1997), "Regression with input-dependent noise: a Gaussian
        process treatment".

    Examples:
        >>> import numpyro.distributions as dist
        >>> import bayeskern as bk
        >>> from bayeskern.kernels import RBF
        >>> noise = bk.NoiseProcess(RBF(lengthscale=2.0), level=dist.Normal(-3.0, 1.0))
        >>> list(noise.hyperparameters())
        ['noise.level', 'noise.lengthscale', 'noise.variance', 'noise.white']
        >>> model = bk.GPRegression(RBF(lengthscale=dist.LogNormal()), noise)
    """

    is_random: ClassVar[bool] = True
    reason_against_mle: ClassVar[str | None] = (
        "the noise variance of every row is a latent, which only its prior ties to the others"
    )

    kernel: Kernel = eqx.field(converter=positive_definite)
    level: Any = eqx.field(
        default=None, converter=lambda v: None if v is None else hyper.as_hyperparameter(v)
    )
    white: Any = eqx.field(default=None, kw_only=True)

    def __check_init__(self):
        hyper.check("noise.level", self.level, constraints.real)
        clash = {"level", "white"} & set(self.kernel.hyperparameters())
        if clash:
            raise ValueError(
                f"the kernel of the noise has a hyperparameter called {clash.pop()!r}; rename it."
            )

    def hyperparameters(self) -> dict[str, Any]:
        kernel = {f"noise.{name}": value for name, value in self.kernel.hyperparameters().items()}
        white = dist.Normal() if self.white is None else self.white
        return {"noise.level": self.level, **kernel, "noise.white": white}

    def at(self, values: Mapping[str, Any]) -> NoiseProcess:
        by_name = {name.removeprefix("noise."): value for name, value in values.items()}
        level, white = by_name.pop("level", self.level), by_name.pop("white", self.white)
        return NoiseProcess(self.kernel.at(by_name), level, white=white)

    def sample(self, X: Array) -> NoiseProcess:
        if self.level is None:
            raise ValueError(
                "noise.level has a default prior from the data, which is not set yet. Use the "
                "model that model.prepare(X, y) returns, or NoiseProcess(kernel, level=prior)."
            )
        kernel = hyper.sample(self.kernel, "noise")
        level = hyper.sample_value("noise.level", self.level, constraints.real)
        white = numpyro.sample("noise.white", dist.Normal().expand(X.shape[:1]).to_event(1))
        concrete = NoiseProcess(kernel, level, white=white)
        numpyro.deterministic("noise", concrete.variance(X, {}))
        return concrete

    def variance(self, X: Array, extra: Extra) -> Array:
        return jnp.exp(self._level() + self._factor(X).sqrt_mul(self.white))

    def variance_at_new(self, X: Array, X_new: Array, extra: Extra, key: Array) -> Array:
        validation.joint_points(len(X_new))
        # The mean k(X_new, X) K^-1 g with g = L white is A' white for A = L^-1 k(X, X_new).
        A = self._factor(X).whiten(self.kernel.evaluate(X, X_new))
        (deviation,) = draw(self.kernel.evaluate(X_new) - A.T @ A, key, 1)
        return jnp.exp(self._level() + self.white @ A + deviation)

    def _level(self) -> Array:
        if self.level is None or hyper.is_specified(self.level) or self.white is None:
            raise TypeError(
                f"the noise {self!r} has no value yet: set noise.level and noise.white with "
                "model.at."
            )
        return self.level

    def _factor(self, X: Array) -> DenseFactor:
        return DenseFactor.compute(self.kernel.require_concrete().evaluate(X))

    def resolve(self, columns: tuple[str, ...] | None) -> Self:
        return dataclasses.replace(self, kernel=self.kernel.resolve(columns))

    def with_default_priors(self, y: Array, observed: Array | None) -> Self:
        if self.level is not None or validation.is_traced(y):
            return self
        values = np.asarray(y if observed is None else y[observed])
        variance = np.var(values, axis=0).mean()
        if not variance > 0.0:
            raise ValueError(
                "y is constant, so the default prior on the level of the noise has no scale. Give "
                "it a prior: noise=NoiseProcess(kernel, level=...)."
            )
        return dataclasses.replace(self, level=dist.Normal(np.log(0.1 * variance), 2.0))

    def starting_values(self, variance: float) -> dict[str, float]:
        return {"noise.level": float(np.log(0.1 * variance))}

    def __repr__(self) -> str:
        level = "" if self.level is None else f", level={hyper.show(self.level)}"
        return f"NoiseProcess({self.kernel!r}{level})"
