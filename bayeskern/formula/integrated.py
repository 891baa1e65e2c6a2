"""Regressions with their effects integrated out, and the recovery of the effects."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpyro
from jax import Array
from numpyro import handlers

from bayeskern.core.tracing import by_one_thread
from bayeskern.formula.field import Design, Roots, effects_of
from bayeskern.formula.gaussian import GaussianRows
from bayeskern.formula.laplace import Field, LaplaceObservations
from bayeskern.formula.structure import Structure
from bayeskern.likelihoods import Likelihood
from bayeskern.protocols import Marginal


class Rows(eqx.Module):
    """Columns of the rows of a table.

    Attributes:
        design: Columns of the effects.
        offset: Offsets of the linear predictor, (n,).
        weights: Weights of the rows, (n,); None if all are 1.
        parameters: Columns for each distributional parameter, (n, k).
    """

    design: Design
    offset: Array
    weights: Array | None
    parameters: tuple[Array, ...]

    @property
    def all_weights(self) -> Array:
        """Weights of the rows, (n,)."""
        return jnp.ones(self.offset.shape) if self.weights is None else self.weights


class Integrated(eqx.Module):
    """NumPyro model of the scales, with the effects integrated out."""

    model: Structure
    rows: Rows

    def __call__(self, *data: Any):
        model = self.model
        likelihood = model.sample_likelihood(self.rows.parameters)
        loc, dense, groups = model.priors()
        roots = dense, tuple(model.roots_by_factor(groups))
        if model.is_gaussian:
            rows, noise, shift = self._gaussian(data, likelihood)
            log_density = rows.log_density(loc, roots, noise) + shift
            # Where scales differ by more than float64 resolves, the Schur complement is lost.
            safe = jnp.where(jnp.isnan(log_density), -jnp.inf, log_density)
            numpyro.factor("log_marginal_likelihood", safe)
        else:
            y, extra = data
            numpyro.sample("y", self._observations(loc, roots, likelihood, extra), obs=y)

    def _observations(
        self, loc: Array, roots: Roots, likelihood: Likelihood, extra: dict[str, Array]
    ) -> LaplaceObservations:
        rows = self.rows
        field = Field(rows.design, roots, rows.offset + rows.design.dense @ loc)
        return LaplaceObservations(field, likelihood, extra, rows.all_weights)

    def _gaussian(self, data: tuple, likelihood: Likelihood) -> tuple[GaussianRows, Array, Array]:
        """Sums over rows, the noise of a row of weight 1, and a constant of the log density."""
        noise: Any = likelihood.noise_variance
        if len(data) == 1:
            return data[0], noise, jnp.zeros(())
        w, rows = self.rows.all_weights, self.rows
        sums = GaussianRows.of(rows.design, data[0] - rows.offset, w / noise, jnp.sum(w))
        return sums, jnp.ones(()), -0.5 * jnp.sum(w * jnp.log(noise))

    @by_one_thread
    def at(self, draw: dict) -> tuple[Likelihood, tuple]:
        """The likelihood, and the result of `Structure.priors`, at one draw of the scales."""

        def scales():
            return self.model.sample_likelihood(self.rows.parameters), self.model.priors()

        return handlers.substitute(handlers.seed(scales, jax.random.key(0)), data=draw)()  # pyright: ignore

    def recover(self, data: tuple, draw: dict, white: Array) -> dict[str, Array]:
        """Sites of the full model at one draw of the scales; the means of the effects for white 0.

        Args:
            data: Arguments of the integrated model.
            draw: The scales.
            white: Standard normal numbers, one for each effect.
        """
        model = self.model
        likelihood, (loc, dense, groups) = self.at(draw)
        roots = dense, tuple(model.roots_by_factor(groups))
        if model.is_gaussian:
            rows, noise, _ = self._gaussian(data, likelihood)
            precision, u = rows.posterior(loc, roots, noise)
        else:
            y, extra = data
            observed = self._observations(loc, roots, likelihood, extra).observed(y)
            mode = observed.mode()
            # JAX cannot raise while it traces: without a mode, all effects are NaN.
            u = jax.tree.map(lambda u: jnp.where(mode.usable, u, jnp.nan), mode.u)
            precision = observed.precision(mode.u)
        u = jax.tree.map(jnp.add, u, precision.deviation(white))
        b = effects_of(u, roots, self.rows.design.sizes)
        sites, start, first = {}, 0, 0
        terms = (model.common, *model.terms)
        for term, root, size in zip(terms, dense, self.rows.design.sizes, strict=True):
            effects_b = b.dense[start : start + size] + loc[start : start + size]
            sites |= term.recovered(effects_b, u.dense[first : first + root.shape[-1]])
            start, first = start + size, first + root.shape[-1]
        values = zip(
            model.groups,
            model.by_term(b.groups, None),
            model.by_term(u.groups, groups),
            strict=True,
        )
        for term, effects_b, white in values:
            sites |= term.recovered(effects_b, white)
        return sites

    @property
    def size(self) -> int:
        """Number of effects u."""
        model = self.model
        dense = sum(term.rank for term in (model.common, *model.terms))
        return dense + sum(term.count * term.effects.rank for term in model.groups)


def marginal(structure: Structure, rows: Rows, y: Array, extra: dict[str, Array]) -> Marginal:
    """The model of the scales, and the recovery of the effects."""
    integrated = Integrated(structure, rows)
    data: Any = (y, extra)
    if structure.is_gaussian and "sigma" not in structure.distributional:
        w = rows.all_weights
        data = (GaussianRows.of(rows.design, y - rows.offset, w, jnp.sum(w)),)
    return Marginal(integrated, data, eqx.Partial(_recover, integrated, data))


def _recover(integrated: Integrated, data: tuple, draws: dict, key: Array, mean: bool) -> dict:
    """Add the effects to S draws of the scales: draws, or means if `mean`."""
    shape = len(next(iter(draws.values()), [0])), integrated.size
    white = jnp.zeros(shape) if mean else jax.random.normal(key, shape)
    sites = {**draws, **_recovered(integrated, data, draws, white)}
    # Tables begin with the common effects and end with those of single groups.
    first = [site for site, _, _ in integrated.model.common.slices]
    last = [s for term in integrated.model.groups for s in term.effects.sites_of_groups]
    order = [*first, *(s for s in sites if s not in {*first, *last}), *last]
    return {site: sites[site] for site in order}


@eqx.filter_jit
def _recovered(integrated: Integrated, data: tuple, draws: dict, white: Array) -> dict:
    return jax.lax.map(lambda item: integrated.recover(data, *item), (draws, white))
