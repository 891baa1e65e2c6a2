"""Common effects of a regression: the columns of a formula, with a site for each of its terms."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pandas as pd
from jax import Array
from numpyro.distributions import Distribution

from bayeskern.formula.frame import Columns
from bayeskern.formula.terms import COMMON_SDS, Term, sampled
from bayeskern.linear.design import OpaqueStatic, as_opaque


class Common(Term):
    """Effects of the columns of a formula, with a site for each of its terms.

    The intercept is that at x = 0; its default prior is on the linear predictor at the mean of x,
    the `center` of the columns. Gaussian effects are integrated out; effects with other priors are
    sampled, in the place of `loc`.

    Attributes:
        source: The columns, a `Columns`.
        skip: Number of first columns that are left out: 1 if cutpoints replace the intercept.
        slices: First and last column of the effects at each site.
        intercept: Site of the intercept; None if there is none.
        center: Subtracted from the columns, (k,); 0 for the intercept.
        loc: Prior means of the Gaussian effects, (k,).
        sd: Their prior standard deviations, (k,); 0 for effects with other priors.
    """

    source: OpaqueStatic = eqx.field(static=True, converter=as_opaque)
    skip: int = eqx.field(static=True)
    slices: tuple[tuple[str, int, int], ...] = eqx.field(static=True)
    intercept: str | None = eqx.field(static=True)
    center: Array
    loc: Array
    sd: Array

    @classmethod
    def fit(
        cls,
        formula: str,
        frame: pd.DataFrame,
        has_intercept: bool,
        location_scale: tuple[float, float],
        priors: Mapping[str, Distribution],
        prefix: str = "",
    ) -> tuple[Common, np.ndarray]:
        """Common effects with default priors, and their columns (n, k).

        Args:
            formula: The columns, such as "1 + x".
            frame: The data.
            has_intercept: False to drop the intercept, for likelihoods with cutpoints.
            location_scale: Location and scale of the linear predictor.
            priors: Priors of the user, by site.
            prefix: Prefix of the names of the sites.
        """
        source, X = Columns.fit(formula, frame)
        terms, skip = dict(source.terms), 0
        if not has_intercept and "Intercept" in terms:
            skip, X = 1, X[:, 1:]
            del terms["Intercept"]
            terms = {term: slice(s.start - 1, s.stop - 1) for term, s in terms.items()}
        terms = {prefix + term: s for term, s in terms.items()}
        intercept = f"{prefix}Intercept" if f"{prefix}Intercept" in terms else None
        location, scale = location_scale
        k, spreads = X.shape[1], X.std(axis=0)
        sd = COMMON_SDS * scale / np.where(spreads > 0.0, spreads, 1.0)
        loc, center = np.zeros(k), np.zeros(k)
        if intercept is not None and intercept not in priors:
            first = terms[intercept].start
            center = X.mean(axis=0)
            center[first], loc[first], sd[first] = 0.0, location, COMMON_SDS * scale
        other_priors = {}
        for site in terms.keys() & priors.keys():
            prior, columns = priors[site], terms[site]
            if isinstance(prior, dist.Normal):
                loc[columns], sd[columns] = np.asarray(prior.loc), np.asarray(prior.scale)
            else:
                size = columns.stop - columns.start
                other_priors[site] = prior if size == 1 else prior.expand((size,)).to_event(1)
                sd[columns] = 0.0
        slices = tuple((site, s.start, s.stop) for site, s in terms.items())
        arrays = map(jnp.asarray, (center, loc, sd))
        name = f"{prefix}common effects"
        return cls(name, other_priors, source, skip, slices, intercept, *arrays), X - center

    def priors_used(self) -> dict[str, Distribution]:
        """Priors of the effects by site; that of a default intercept is at the mean of x."""
        normals = {
            site: dist.Normal(*(_squeezed(x[start:stop]) for x in (self.loc, self.sd)))
            for site, start, stop in self.slices
            if site not in self.priors
        }
        return normals | self.priors

    def columns(self, frame: pd.DataFrame, name: str = "newdata") -> np.ndarray:
        return self.source.value(frame, name)[:, self.skip :] - np.asarray(self.center)

    @property
    def width(self) -> int:
        return len(self.sd)

    def prior(self) -> tuple[Array, Array]:
        loc = self.loc
        for term, start, stop in self.slices:
            if term in self.priors:
                loc = loc.at[start:stop].set(sampled(term, self.priors[term]))
        return loc, self.sd

    def sample(self) -> Array:
        b = self.loc
        # The intercept comes last, because its prior is relative to the other effects.
        for term, start, stop in sorted(self.slices, key=lambda s: s[0] == self.intercept):
            if term in self.priors:
                value = sampled(term, self.priors[term])
            elif term == self.intercept:
                at_zero = self.loc[start] - self.center @ b
                value = sampled(term, dist.Normal(at_zero, self.sd[start]))
                value = value + self.center @ b
            elif stop - start == 1:
                value = sampled(term, dist.Normal(self.loc[start], self.sd[start]))
            else:
                normal = dist.Normal(self.loc[start:stop], self.sd[start:stop])
                value = sampled(term, normal.to_event(1))
            b = b.at[start:stop].set(value)
        return b

    def recovered(self, b: Array, u: Array) -> dict[str, Array]:
        return self.sites(b)

    def sites(self, b: Array) -> dict[str, Array]:
        sites = {}
        for term, start, stop in self.slices:
            value = b[..., start:stop] if stop - start > 1 else b[..., start]
            sites[term] = value - b @ self.center if term == self.intercept else value
        return sites

    def effects(self, sites: Mapping[str, Any]) -> Array:
        parts = [jnp.asarray(sites[term]) for term, _, _ in self.slices]
        pairs = zip(parts, self.slices, strict=True)
        columns = [p[..., None] if stop - start == 1 else p for p, (_, start, stop) in pairs]
        b = jnp.concatenate(columns, axis=-1)
        for term, start, _ in self.slices:
            if term == self.intercept:
                b = b.at[..., start].add(b @ self.center)
        return b

    @property
    def labels(self) -> dict[str, list[str]]:
        names = self.source.value.names[self.skip :]
        return {
            site: list(map(_level, names[start:stop]))
            for site, start, stop in self.slices
            if stop - start > 1
        }


def _level(column: str) -> str:
    """Level in the name of a column of one factor: "2" for "C(period)[T.2]"."""
    level = re.fullmatch(r"[^\[:]+\[(?:T\.)?([^\]]+)\]", column)
    return column if level is None else level[1]


def _squeezed(x: Array) -> Array:
    return x[0] if len(x) == 1 else x
