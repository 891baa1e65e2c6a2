"""Effects that vary between groups: (effects | group), and functions with by=group."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pandas as pd
from jax import Array
from numpyro.distributions import Distribution
from numpyro.distributions.constraints import unit_interval
from numpyro.distributions.transforms import AffineTransform

from bayeskern.formula.calls import GroupCall
from bayeskern.formula.frame import Columns, group_labels
from bayeskern.formula.terms import Term, sampled
from bayeskern.linear.design import OpaqueStatic, as_opaque

# Concentration of the default LKJ prior: correlations near -1 and 1 are less likely than 0.
LKJ_CONCENTRATION = 2.0


class GroupTerm(eqx.Module):
    """A term with effects of its own for each group; the groups are draws from one population.

    Attributes:
        effects: The term, with the effects of one group.
        group: Source of the grouping factor, such as "school:class".
        levels: Labels of the groups, a sequence.
        count: Number of groups.
    """

    effects: Term
    group: str = eqx.field(static=True)
    levels: OpaqueStatic = eqx.field(static=True, converter=as_opaque)
    count: int = eqx.field(static=True)

    @classmethod
    def fit(cls, effects: Term, group: str, frame: pd.DataFrame) -> tuple[GroupTerm, np.ndarray]:
        """Term for the groups of a data frame, and the group of each row (n,)."""
        codes, levels = pd.factorize(group_labels(group, frame, "data"), sort=True)
        return cls(effects, group, levels, len(levels)), codes

    def codes(self, frame: pd.DataFrame) -> np.ndarray:
        """Group of each row of a data frame, (m,); `count` for a group that is not known."""
        labels = group_labels(self.group, frame)
        codes = pd.Index(self.levels.value).get_indexer(labels)
        unknown = labels[codes < 0]
        as_text = set(map(str, self.levels.value)) if len(unknown) else set()
        for label in unknown:
            if str(label) in as_text:
                raise ValueError(
                    f"newdata has the group {label!r} of {self.group!r}, which the data of the fit "
                    f"have as {type(self.levels.value[0]).__name__}, not as "
                    f"{type(label).__name__}. Convert the column; else it would count as new."
                )
        return np.where(codes < 0, self.count, codes)

    def sample(self) -> Array:
        """Sample the effects (G, q) and their scales inside a NumPyro model."""
        return self.effects.sample_groups(self.count)

    def recovered(self, b: Array, u: Array) -> dict[str, Array]:
        """Sites that `sample` has at effects b (..., G, q) and u (..., G, m)."""
        return self.effects.recovered_groups(b, u)


class Varying(Term):
    """Effects (1 + x | group), correlated within a group, with a standard deviation each.

    Sites: `x | group`, the effects of a coefficient in each group; `sd(x | group)`;
    `cor(Intercept, x | group)`; and for more than two effects `lkj(...)`, the Cholesky factor of
    their correlations.

    Attributes:
        source: The columns, a `Columns`.
        group: Source of the grouping factor.
        correlated: False if the effects of a group are independent.
    """

    source: OpaqueStatic = eqx.field(static=True, converter=as_opaque)
    names: tuple[str, ...] = eqx.field(static=True)
    group: str = eqx.field(static=True)
    correlated: bool = eqx.field(static=True)

    @classmethod
    def fit(cls, call: GroupCall, frame: pd.DataFrame, scale: float) -> tuple[Varying, np.ndarray]:
        """Effects with default priors, and their columns (n, q)."""
        source, Z = Columns.fit(call.effects, frame)
        names, q = source.names, len(source.names)
        priors: dict[str, Distribution] = {
            f"sd({name} | {call.group})": dist.Exponential(_spread(column) / scale)
            for name, column in zip(names, Z.T, strict=True)
        }
        correlated = call.correlated and q > 1
        if correlated:
            site, prior = _correlation_prior(names, call.group)
            priors[site] = prior
        return cls(str(call), priors, source, names, call.group, correlated), Z

    def columns(self, frame: pd.DataFrame, name: str = "newdata") -> np.ndarray:
        return self.source.value(frame, name)

    @property
    def width(self) -> int:
        return len(self.names)

    @property
    def sites_of_groups(self) -> list[str]:
        return [f"{name} | {self.group}" for name in self.names]

    @property
    def axes_of_a_group(self) -> list[str]:
        return []

    def prior(self) -> tuple[Array, Array]:
        sds = [sampled(f"sd({s})", self.priors[f"sd({s})"]) for s in self.sites_of_groups]
        sd = jnp.stack(sds)
        if not self.correlated:
            return jnp.zeros(len(sds)), sd
        site, _ = _correlation_prior(self.names, self.group)
        value = sampled(site, self.priors[site])
        if len(sds) == 2:
            L = jnp.array([[1.0, 0.0], [value, jnp.sqrt(1.0 - jnp.square(value))]])
            return jnp.zeros(2), sd[:, None] * L
        R = value @ value.T
        for (i, first), (j, second) in combinations(enumerate(self.names), 2):
            numpyro.deterministic(f"cor({first}, {second} | {self.group})", R[i, j])
        return jnp.zeros(len(sds)), sd[:, None] * value

    def sample_groups(self, count: int) -> Array:
        """Sample effects (G, q) of G groups inside a NumPyro model, each given those before it."""
        _, root = self.prior()
        L = jnp.diag(root) if root.ndim == 1 else root
        effects, white = [], []
        for j, site in enumerate(self.sites_of_groups):
            loc = sum((L[j, k] * w for k, w in enumerate(white)), jnp.zeros(count))
            effects.append(numpyro.sample(site, dist.Normal(loc, L[j, j]).to_event(1)))
            white.append((effects[-1] - loc) / L[j, j])
        return jnp.stack(effects, axis=-1)

    def recovered_groups(self, b: Array, u: Array) -> dict[str, Array]:
        return {site: b[..., j] for j, site in enumerate(self.sites_of_groups)}

    def effects(self, sites: Mapping[str, Any]) -> Array:
        return jnp.stack([jnp.asarray(sites[s]) for s in self.sites_of_groups], axis=-1)


def _correlation_prior(names: tuple[str, ...], group: str) -> tuple[str, Distribution]:
    """Site and LKJ prior of the correlation of two effects, or of the Cholesky factor of more."""
    joined = f"{', '.join(names)} | {group}"
    if len(names) > 2:
        return f"lkj({joined})", dist.LKJCholesky(len(names), LKJ_CONCENTRATION)
    beta = dist.Beta(LKJ_CONCENTRATION, LKJ_CONCENTRATION)
    return f"cor({joined})", dist.TransformedDistribution(
        beta, AffineTransform(-1.0, 2.0, domain=unit_interval)
    )


def _spread(x: np.ndarray) -> float:
    """sd of a column with more than two values, else its range, or 1 for a constant column."""
    levels = np.unique(x)
    return float(np.std(x)) if len(levels) > 2 else float(np.ptp(x)) or 1.0
