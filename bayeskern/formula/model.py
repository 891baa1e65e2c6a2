"""Regression models by formula."""

from __future__ import annotations

import dataclasses
from typing import Any, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
from jax import Array
from jax.scipy.linalg import block_diag
from numpyro import handlers
from numpyro.distributions import Distribution

from bayeskern.core.tracing import by_one_thread
from bayeskern.formula.field import Design, Effects, Roots, effects_of
from bayeskern.formula.gaussian import GaussianRows
from bayeskern.formula.groups import GroupTerm
from bayeskern.formula.laplace import Field, LaplaceObservations
from bayeskern.formula.predictive import new_rows, responses
from bayeskern.formula.terms import Common, Term
from bayeskern.likelihoods import Gaussian, Likelihood
from bayeskern.linear.design import OpaqueStatic
from bayeskern.linear.prediction import thinned_draws
from bayeskern.prediction.empirical import DRAWS_AT_A_POINT, SampledPrediction
from bayeskern.prediction.response import ResponsePrediction
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


class Regression(eqx.Module):
    """Regression model of a formula and data, as `bk.regression` returns it.

    y ~ likelihood(eta), eta = offset + X b + sum_g Z_g b_g. It is itself a NumPyro model,
    model(y, extra), and holds its data: `bk.infer(model)`. Its sites are the effects by the names
    of their terms, their scales as `sd(x | group)`, and the parameters of the likelihood.

    Attributes:
        formulas: The formulas, as text.
        likelihood: The likelihood; a Gaussian one has the parameter `sigma`.
        sigma: Prior of the sd of Gaussian noise; None for other likelihoods, for a given noise, and
            for `sigma ~ ...`.
        common: Common effects.
        terms: Smooths, processes and monotone effects.
        groups: Effects that vary between groups; terms with the same groups follow each other.
        distributional: Effects on other parameters of the likelihood, by parameter.
        rows: The columns of the data.
        y: The observations, (n,).
        extra: Values that the likelihood needs of each row.
        source: What reads new data, a `FormulaReader`.
        integrate: True to integrate the effects out, False to sample them; None to let the
            inference method decide.
    """

    formulas: tuple[str, ...] = eqx.field(static=True)
    likelihood: Likelihood
    sigma: Distribution | None
    common: Common
    terms: tuple[Term, ...]
    groups: tuple[GroupTerm, ...]
    distributional: dict[str, Common]
    rows: Rows
    y: Array
    extra: dict[str, Array]
    source: OpaqueStatic = eqx.field(static=True)
    integrate: bool | None = eqx.field(static=True, default=None)

    # -- the NumPyro model -------------------------------------------------------------------------

    def __call__(self, y: Array | None = None, extra: dict[str, Array] | None = None):
        likelihood = self.sample_likelihood(self.rows.parameters)
        dense = [self.common.sample(), *(term.sample() for term in self.terms)]
        groups = [term.sample() for term in self.groups]
        b = Effects(jnp.concatenate(dense), tuple(self.by_factor(groups)))
        eta = self.rows.offset + self.rows.design @ b
        observed = likelihood.distribution(eta, **(self.extra if extra is None else extra))
        if self.rows.weights is None or y is None:
            return numpyro.sample("y", observed, obs=y)
        with handlers.scale(scale=self.rows.weights):  # pyright: ignore[reportArgumentType]
            return numpyro.sample("y", observed, obs=y)

    def sample_likelihood(self, columns: tuple[Array, ...]) -> Likelihood:
        """Sample the parameters of the likelihood inside a NumPyro model.

        Args:
            columns: Columns of each distributional parameter, (n, k).
        """
        values = {}
        if self.sigma is not None:
            values["sigma"] = numpyro.sample("sigma", self.sigma)
        for (name, effects), X in zip(self.distributional.items(), columns, strict=True):
            values[name] = jnp.exp(X @ effects.sample())
        if "sigma" in values:
            values["noise"] = jnp.square(values.pop("sigma"))
        return self.likelihood.with_hyperparameters(**values).sample("")

    def priors(self) -> tuple[Array, tuple[Array, ...], list[Array]]:
        """Sample the scales inside a NumPyro model.

        Returns:
            loc of the dense effects (k,), the roots of the dense terms, and those of one group of
            each group term.
        """
        locs, dense = zip(*(term.prior() for term in (self.common, *self.terms)), strict=True)
        return jnp.concatenate(locs), dense, [term.effects.prior()[1] for term in self.groups]

    @property
    def priors_used(self) -> dict[str, Distribution]:
        """Priors by site; that of the intercept is at the mean of the columns unless given."""
        priors = {
            name: p
            for c in (self.common, *self.distributional.values())
            for name, p in c.priors_used().items()
        }
        for term in (*self.terms, *(group.effects for group in self.groups)):
            priors |= term.priors
        if self.sigma is not None:
            priors["sigma"] = self.sigma
        own = self.likelihood.hyperparameters().items()
        return priors | {name: value for name, value in own if isinstance(value, Distribution)}

    # -- groups with the same factor ---------------------------------------------------------------

    @property
    def factors(self) -> dict[str, list[int]]:
        """Indices of the group terms of each grouping factor."""
        factors: dict[str, list[int]] = {}
        for i, term in enumerate(self.groups):
            factors.setdefault(term.group, []).append(i)
        return factors

    def by_factor(self, groups: list[Array]) -> list[Array]:
        """Join the effects (..., G, q) of the terms of each grouping factor."""
        members = self.factors.values()
        return [jnp.concatenate([groups[i] for i in indices], axis=-1) for indices in members]

    def by_term(self, factors: tuple[Array, ...], roots: list[Array] | None) -> list[Array]:
        """Split arrays (..., G, m) of each grouping factor by term: the inverse of `by_factor`.

        Args:
            factors: The arrays.
            roots: Roots of the terms if m counts u, None if it counts effects.
        """
        parts = []
        for (_, indices), joined in zip(self.factors.items(), factors, strict=True):
            start = 0
            for i in indices:
                width = self.groups[i].effects.width if roots is None else roots[i].shape[-1]
                parts.append(joined[..., start : start + width])
                start += width
        return parts

    def roots_by_factor(self, roots: list[Array]) -> list[Array]:
        joined = []
        for indices in self.factors.values():
            parts = [roots[i] for i in indices]
            if all(part.ndim == 1 for part in parts):
                joined.append(jnp.concatenate(parts))
            else:
                joined.append(block_diag(*(jnp.diag(p) if p.ndim == 1 else p for p in parts)))
        return joined

    # -- protocols ---------------------------------------------------------------------------------

    def prepare(self, *args: Any, y: Any = None, **kwargs: Any) -> tuple[Self, tuple]:
        """Return the model and its arguments, the observations and their extra values.

        Args:
            *args: None.
            y: Other observations of the same rows, such as simulated ones, (n,).
            **kwargs: None.

        Raises:
            TypeError: If arguments are given: the model has its data.
        """
        if args or kwargs:
            raise TypeError(
                "a regression has its data already: write bk.infer(bk.regression(formula, data))."
            )
        if y is None:
            return self, (self.y, self.extra)
        if self.classes is not None:
            y = [self.classes.index(label) for label in np.asarray(y).tolist()]
        return self, (jnp.asarray(y, self.y.dtype), self.extra)

    def restore(self, args: tuple, columns: Any, classes: tuple | None) -> tuple[Self, tuple]:
        """Return the model and the saved arguments; `bk.load(path, model)` calls it."""
        return self, args

    @property
    def is_gaussian(self) -> bool:
        """True if the effects can be integrated out exactly."""
        return isinstance(self.likelihood, Gaussian)

    def for_method(self, name: str, samples_latents: bool) -> Self:
        """Copy that integrates the effects out or samples them, as the method requires.

        Under Gaussian noise they are always integrated out.
        """
        likelihood = self.likelihood
        smooth = likelihood.log_concave and not likelihood.kinked and likelihood.outputs is None
        integrate = self.is_gaussian or (smooth and not samples_latents)
        if self.integrate is not None or integrate == self.integrate:
            return self
        return dataclasses.replace(self, integrate=integrate)

    def marginal(self, y: Array, extra: dict[str, Array] | None = None) -> Marginal | None:
        """The model with its effects integrated out; None if they are sampled."""
        if self.integrate is False:
            return None
        integrated = Integrated(self)
        data: Any = (y, self.extra if extra is None else extra)
        if self.is_gaussian and "sigma" not in self.distributional:
            data = (GaussianRows.of(self.rows.design, y - self.rows.offset, self._weights()),)
        return Marginal(integrated, data, eqx.Partial(_recover, integrated, data))

    def predictive(
        self,
        draws: dict[str, np.ndarray],
        data: tuple,
        newdata: Any = None,
        latent: bool = False,
        groups: str = "known",
        seed: int = 0,
        **extra: Any,
    ) -> SampledPrediction:
        """Predict new observations, or the linear predictor, at the rows of a table.

        Args:
            draws: Posterior draws of all sites, each (S, *site).
            data: Arguments of the model; not used.
            newdata: A table with the columns of the formula; the data of the fit by default.
            latent: True to predict the linear predictor.
            groups: "known": rows of known groups have their effects, and a group that is not known
                is drawn from the population. "new": all groups are new. "none": group effects are
                0.
            seed: Seed of new observations and of the effects of new groups.
            **extra: Values that the likelihood needs of each row, such as `trials`.

        Returns:
            A `ResponsePrediction`; with `latent=True`, a `SampledPrediction` of eta.
        """
        frame = self.source.value.table(newdata)
        count = len(next(iter(draws.values())))
        if count == 1 and not latent:
            # A point estimate still gives a distribution of y: repeat it.
            indices = np.zeros(DRAWS_AT_A_POINT, int)
        else:
            indices = thinned_draws(count, len(frame))
        draws = {site: np.asarray(values)[indices] for site, values in draws.items()}
        rows = new_rows(self, draws, frame, groups, seed, extra)
        if latent:
            return SampledPrediction("eta", rows.eta)
        y, mean, probabilities = responses(self, draws, rows, seed)
        ordered = self.likelihood.is_ordered
        mean = probabilities if probabilities is not None and mean.ndim > 2 else mean.mean(axis=0)
        return ResponsePrediction(y, mean, probabilities, self.classes, ordered)

    def _weights(self) -> Array:
        return jnp.ones(len(self.y)) if self.rows.weights is None else self.rows.weights

    @property
    def classes(self) -> tuple | None:
        """Labels of the classes of y; None if y has no classes."""
        return self.likelihood.classes

    @property
    def coords(self) -> dict[str, Any]:
        """Labels of the groups of each factor, and of the columns of terms with several."""
        coords: dict[str, Any] = {}
        for term in (self.common, *self.terms, *self.distributional.values()):
            coords |= {f"{site} column": labels for site, labels in term.labels.items()}
        return coords | {term.group: term.levels.value for term in self.groups}

    @property
    def dims(self) -> dict[str, list[str]]:
        """Names of the axes of the sites."""
        dims = {}
        for term in (self.common, *self.terms, *self.distributional.values()):
            dims |= {site: [f"{site} column"] for site in term.labels}
        for term in self.groups:
            dims |= {site: [term.group] for site in term.effects.sites_of_groups}
        return dims


class Integrated(eqx.Module):
    """NumPyro model of the scales, with the effects integrated out."""

    model: Regression

    def __call__(self, *data: Any):
        model = self.model
        likelihood = model.sample_likelihood(model.rows.parameters)
        loc, dense, groups = model.priors()
        roots = dense, tuple(model.roots_by_factor(groups))
        if model.is_gaussian:
            rows, noise, shift = self._gaussian(data, likelihood)
            effects = rows.posterior(loc, roots, noise)
            numpyro.factor("log_marginal_likelihood", effects.log_density + shift)
        else:
            y, extra = data
            observed = LaplaceObservations(self._field(loc, roots), likelihood, extra)
            numpyro.sample("y", observed, obs=y)

    def _field(self, loc: Array, roots: Roots) -> Field:
        rows = self.model.rows
        return Field(rows.design, roots, rows.offset + rows.design.dense @ loc)

    def _gaussian(self, data: tuple, likelihood: Likelihood) -> tuple[GaussianRows, Array, Array]:
        """Sums over rows, the noise of a row of weight 1, and a constant of the log density."""
        noise: Any = likelihood.noise_variance
        if len(data) == 1:
            return data[0], noise, jnp.zeros(())
        w, rows = self.model._weights(), self.model.rows
        sums = GaussianRows.of(rows.design, data[0] - rows.offset, w / noise)
        count = jnp.sum(w)
        sums = dataclasses.replace(sums, count=count)
        return sums, jnp.ones(()), -0.5 * jnp.sum(w * jnp.log(noise))

    @by_one_thread
    def at(self, draw: dict) -> tuple[Likelihood, tuple]:
        """The likelihood, and the result of `Regression.priors`, at one draw of the scales."""

        def scales():
            return self.model.sample_likelihood(self.model.rows.parameters), self.model.priors()

        return handlers.substitute(handlers.seed(scales, jax.random.key(0)), data=draw)()  # pyright: ignore

    def recover(self, data: tuple, draw: dict, key: Array, mean: bool) -> dict[str, Array]:
        """Sites of the full model at one draw of the scales."""
        model = self.model
        likelihood, (loc, dense, groups) = self.at(draw)
        roots = dense, tuple(model.roots_by_factor(groups))
        if model.is_gaussian:
            rows, noise, _ = self._gaussian(data, likelihood)
            effects = rows.posterior(loc, roots, noise)
            precision, u = effects.precision, effects.mean
        else:
            y, extra = data
            observed = LaplaceObservations(self._field(loc, roots), likelihood, extra).observed(y)
            u = observed.mode().u
            precision = observed.precision(u)
        if not mean:
            u = jax.tree.map(jnp.add, u, precision.deviation(key)[0])
        b = effects_of(u, roots, model.rows.design.sizes)
        sites, start, first = {}, 0, 0
        terms = (model.common, *model.terms)
        for term, root, size in zip(terms, dense, model.rows.design.sizes, strict=True):
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


def _recover(integrated: Integrated, data: tuple, draws: dict, key: Array, mean: bool) -> dict:
    """Add the effects to S draws of the scales: draws, or means if `mean`."""
    # Results hold this function, and compiled functions do not pickle.
    return _compiled_recover(integrated, data, draws, key, mean)


@eqx.filter_jit
def _compiled_recover(
    integrated: Integrated, data: tuple, draws: dict, key: Array, mean: bool
) -> dict:
    count = len(next(iter(draws.values()), [0]))
    keys = jax.random.split(key, count)
    sites = jax.lax.map(
        lambda item: integrated.recover(data, item[0], item[1], mean), (draws, keys), batch_size=16
    )
    return {**draws, **sites}
