"""Terms of a regression with their priors, without data."""

from __future__ import annotations

import re

import equinox as eqx
import jax.numpy as jnp
import numpyro
from jax import Array
from jax.scipy.linalg import block_diag
from numpyro.distributions import Distribution

from bayeskern import hyperparameters as hyper
from bayeskern.formula.common import Common
from bayeskern.formula.groups import GroupTerm
from bayeskern.formula.terms import Term
from bayeskern.likelihoods import Gaussian, Likelihood
from bayeskern.linear.design import OpaqueStatic


class Structure(eqx.Module):
    """Terms of a regression: eta = offset + X b + sum_g Z_g b_g, y ~ likelihood(eta).

    Attributes:
        formulas: The formulas, as text.
        likelihood: The likelihood; a Gaussian one has the parameter `sigma`.
        sigma: Prior of the sd of Gaussian noise; None for other likelihoods, for a given noise, and
            for `sigma ~ ...`.
        common: Common effects.
        terms: Smooths, processes and monotone effects.
        groups: Effects that vary between groups; terms with the same groups follow each other.
        distributional: Effects on other parameters of the likelihood, by parameter.
        source: What reads new data, a `RowReader`.
    """

    formulas: tuple[str, ...] = eqx.field(static=True)
    likelihood: Likelihood
    sigma: Distribution | None
    common: Common
    terms: tuple[Term, ...]
    groups: tuple[GroupTerm, ...]
    distributional: dict[str, Common]
    source: OpaqueStatic = eqx.field(static=True)

    @property
    def is_gaussian(self) -> bool:
        """True if the effects can be integrated out exactly."""
        return isinstance(self.likelihood, Gaussian)

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

    def describe(self) -> str:
        """The model in mathematics: the distribution of y, the linear predictor, and all priors."""
        syntax, family = self.source.value.syntax, type(self.likelihood).__name__
        parameters = ["eta", *self.distributional, *(["sigma"] if self.sigma is not None else [])]
        parameters += [name for name in self.likelihood.hyperparameters() if name != "noise"]
        link = f"link {self.likelihood.link_name}"
        terms = [site for site, _, _ in self.common.slices] + [term.name for term in self.terms]
        terms += [f"({g.effects.name})" for g in self.groups]
        terms += [str(call) for call in syntax.calls if call.name == "offset"]
        lines = [f"{syntax.response} ~ {family}({', '.join(parameters)}), {link}"]
        lines.append(f"eta = {' + '.join(terms)}")
        for name, effects in self.distributional.items():
            lines.append(f"log {name} = {' + '.join(site for site, _, _ in effects.slices)}")
        for site, prior in self.priors_used.items():
            shown = re.sub(r"\d+\.\d+", lambda digits: f"{float(digits[0]):.4g}", hyper.show(prior))
            lines.append(f"{site} ~ {shown}")
        return "\n".join(lines)

    @property
    def has_scales(self) -> bool:
        """True if anything but Gaussian effects is to be inferred."""
        effects = {site for site, _, _ in self.common.slices} - self.common.priors.keys()
        return bool(self.priors_used.keys() - effects)

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
