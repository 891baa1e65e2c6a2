"""Random walk rw(t) and stationary autoregression ar(t) over the times of the data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pandas as pd
from jax import Array
from numpyro.distributions import Distribution

from bayeskern.formula.frame import Columns
from bayeskern.formula.terms import Term, sampled
from bayeskern.linear.design import OpaqueStatic, as_opaque

# Number of distinct times up to which a process is factored as a matrix.
MAX_TIMES = 1_000


class Walk(Term):
    """Markov process with the values b at the distinct times of the data.

    With steps d between times, in units of their median, a random walk has increments
    N(0, sd^2 d), and mean 0 over the times; an autoregression has the correlation rho^d and the
    stationary standard deviation sd.

    Attributes:
        source: The column of times, a `Columns`.
        kind: "rw" or "ar".
        times: The distinct times in units of their median step, (m,).
        step: The median step, in units of the column.
    """

    source: OpaqueStatic = eqx.field(static=True, converter=as_opaque)
    kind: str = eqx.field(static=True)
    times: Array
    step: Array

    @classmethod
    def fit(
        cls, name: str, kind: str, arguments: Sequence[str], frame: pd.DataFrame, scale: float
    ) -> tuple[Walk, np.ndarray]:
        """Process with default priors, and its columns (n, m).

        Raises:
            ValueError: There is one time only, or more than `MAX_TIMES`.
        """
        source, X = Columns.fit(f"0 + {arguments[0]}", frame)
        times = np.unique(X)
        if not 1 < len(times) <= MAX_TIMES:
            raise ValueError(
                f"{name} has {len(times):,} distinct times; it takes 2 to {MAX_TIMES:,}. Round "
                f"them, or take gp({arguments[0]})."
            )
        step = np.median(np.diff(times))
        # A random walk of m steps is sqrt(m) sds away from its start.
        spread = scale / (len(times) ** 0.5 if kind == "rw" else 1.0)
        priors: dict[str, Distribution] = {f"sd({name})": dist.Exponential(1.0 / spread)}
        if kind == "ar":
            priors[f"rho({name})"] = dist.Beta(2.0, 2.0)
        self = cls(name, priors, source, kind, jnp.asarray(times / step), jnp.asarray(step))
        return self, self.columns(frame)

    def _times(self, frame: pd.DataFrame, name: str = "newdata") -> np.ndarray:
        return self.source.value(frame, name)[:, 0] / float(self.step)

    def columns(self, frame: pd.DataFrame, name: str = "newdata") -> np.ndarray:
        times = np.asarray(self.times)
        lags = np.abs(self._times(frame, name)[:, None] - times)
        columns = (lags < 1e-9 * np.max(np.abs(times))).astype(float)
        unknown = columns.sum(axis=1) == 0.0
        if unknown.any():
            # Without groups `contribution` draws the values at new times.
            row = int(np.argmax(unknown))
            raise ValueError(
                f"{name} has a time in row {row} that the data of {self.name} do not have; a "
                "process in each group is known at the times of the fit only."
            )
        return columns

    @property
    def width(self) -> int:
        return len(self.times)

    def prior(self) -> tuple[Array, Array]:
        m, site = len(self.times), f"sd({self.name})"
        sd = sampled(site, self.priors[site])
        steps = jnp.diff(self.times)
        if self.kind == "rw":
            sums = jnp.tril(jnp.ones((m, m))) * jnp.sqrt(jnp.concatenate([jnp.zeros(1), steps]))
            return jnp.zeros(m), sd * (sums - jnp.mean(sums, axis=0))
        site = f"rho({self.name})"
        log_rho = jnp.log(sampled(site, self.priors[site]))
        lags = jnp.maximum(self.times[:, None] - self.times, 0.0)
        innovations = jnp.concatenate([jnp.ones(1), jnp.sqrt(-jnp.expm1(2.0 * log_rho * steps))])
        return jnp.zeros(m), sd * jnp.tril(jnp.exp(log_rho * lags)) * innovations

    def contribution(
        self, sites: Mapping[str, np.ndarray], frame: pd.DataFrame, rng: np.random.Generator
    ) -> np.ndarray:
        """Values at known times, and draws given the neighbours at other times."""
        at, rows = np.unique(self._times(frame), return_inverse=True)
        times, b = np.asarray(self.times), np.asarray(sites[self.name])
        sd = np.asarray(sites[f"sd({self.name})"])
        rho = None if self.kind == "rw" else np.asarray(sites[f"rho({self.name})"])
        values, left = np.zeros((len(b), len(at))), None
        for j, t in enumerate(at):
            i = int(np.searchsorted(times, t - 1e-9))
            if i < len(times) and abs(times[i] - t) < 1e-9 * np.max(np.abs(times)):
                values[:, j] = b[:, i]
            else:
                before = None if i == 0 else (times[i - 1], b[:, i - 1])
                if left is not None and (before is None or left[0] > before[0]):
                    before = left
                after = None if i == len(times) else (times[i], b[:, i])
                mean, variance = _bridge(t, before, after, sd, rho)
                values[:, j] = mean + np.sqrt(variance) * rng.standard_normal(len(b))
            left = t, values[:, j]
        return values[:, rows]


def _bridge(t: float, before: Any, after: Any, sd: np.ndarray, rho: Any) -> tuple[Any, Any]:
    """Mean and variance of the process at t given its values at the neighbouring times."""
    # The stationary prior counts once; a random walk has none.
    precision = 0.0 if rho is None else 1.0 / np.square(sd)
    weighted = 0.0
    for neighbour in (before, after):
        if neighbour is not None:
            lag, value = abs(t - neighbour[0]), neighbour[1]
            decay = 1.0 if rho is None else rho**lag
            variance = lag if rho is None else (1.0 - decay**2) / decay**2
            precision = precision + 1.0 / (np.square(sd) * variance)
            weighted = weighted + value / decay / (np.square(sd) * variance)
    return weighted / precision, 1.0 / precision
