"""Forecasts and joint draws for alternative values of the future regressors.

The alternatives are draws of uncertain regressors, or scenarios. They share the structures and the
draws of the hyperparameters; joint draws share the function of time, the coefficients and the
noise too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np

from bayeskern.core import validation
from bayeskern.core.threads import side_by_side
from bayeskern.forecast.combine.elements import ElementMoments, SumDesign
from bayeskern.forecast.combine.stacking import (
    MIXTURE_DRAWS,
    Combination,
    Part,
    response_mixture,
)
from bayeskern.prediction.average_mixture import AverageMixture
from bayeskern.prediction.quantile_average import QuantileAverage
from bayeskern.prediction.response_mixture import ResponseMixture


@dataclass(frozen=True, eq=False)
class Alternatives:
    """Forecasts of all structures for A alternatives of the standardised columns.

    Attributes:
        combination: The structures with their weights.
        x_new: Future times, (m,).
        Z: Columns of the effects, (A, m, k).
        seed: Seed of the choices of draws.
    """

    combination: Combination
    x_new: np.ndarray
    Z: np.ndarray
    seed: int

    @cached_property
    def design(self) -> SumDesign:
        """Elements of each future value."""
        effects = self.combination.choices.effects
        assert effects is not None
        return SumDesign.from_columns(effects, self.Z)

    @property
    def parts(self) -> tuple[Part, ...]:
        """The structures."""
        return self.combination.parts

    @cached_property
    def weights(self) -> np.ndarray:
        """Weights of the structures, (K,)."""
        return np.array([part.weight for part in self.parts])

    @cached_property
    def elements(self) -> list[ElementMoments]:
        """Moments of the elements of each structure."""

        def moments(part: Part) -> ElementMoments:
            return ElementMoments.from_draws(part.draws, self.x_new, self.design.values)

        return side_by_side(moments, self.parts, len(self.parts[0].fitted.y))

    @cached_property
    def means(self) -> np.ndarray:
        """Means of the transformed values of each structure, (K, A, m)."""
        return np.array([self.design.means(e.mean) for e in self.elements])

    @cached_property
    def sds(self) -> np.ndarray:
        """Standard deviations of the transformed values of each structure, (K, A, m)."""
        return np.sqrt([self.design.variances(e.covariance) for e in self.elements])

    def predictive(self, steps: np.ndarray) -> AverageMixture | ResponseMixture:
        """Equally weighted mixture over the alternatives, `steps` (m,) ahead from 0."""
        A, K = len(self.Z), len(self.parts)
        means, sds = self.means.reshape(K, -1), self.sds.reshape(K, -1)
        parts = self._average(means, sds).with_errors(self.combination.errors(np.tile(steps, A)))
        return AverageMixture(parts, A, partial(self._paths, steps))

    def _paths(self, steps: np.ndarray, n: int, seed: int) -> np.ndarray:
        """Joint draws `steps` (m,) ahead from 0, over all alternatives: (n, m)."""
        rng, A = np.random.default_rng(seed), len(self.Z)
        rows = np.concatenate([rng.permutation(A) for _ in range(-(-n // A))])[:n]
        return self.sample(rows[None], steps, (), rng)[0]

    def sample(
        self,
        rows: np.ndarray,
        steps: np.ndarray,
        predictives: Sequence[Any],
        rng: np.random.Generator,
    ) -> np.ndarray:
        """Joint draws under several alternatives at once.

        Each draw takes its errors from one structure, chosen with the probability of its weight.
        The correlation of the errors is thus the average over the structures.

        Args:
            rows: Alternatives of each draw, (J, n).
            steps: Steps ahead, counted from 0, (m,).
            predictives: Predictive distribution of each of the J scenarios, for counts.
            rng: Generator of the draws.

        Returns:
            Shape (J, n, m): entries [:, i] share the function of time, coefficients and noise.
        """
        J, n = rows.shape
        m = len(self.x_new)
        structures = rng.choice(len(self.parts), n, p=self.weights / self.weights.sum())
        errors = np.empty((J, n, m))
        for k, elements in enumerate(self.elements):
            chosen = np.flatnonzero(structures == k)
            standard = rng.standard_normal((len(chosen), len(elements.mean)))
            deviations = elements.deviations(standard)
            for j in range(J):
                alternatives = rows[j, chosen]
                sums = self.design.sums(alternatives, deviations)
                errors[j, chosen] = sums / np.maximum(self.sds[k, alternatives], 1e-150)
        distribution = self.combination.errors(steps)
        errors *= distribution.factors(n, rng) * distribution.scales
        values = [
            self._average(self.means[:, r], self.sds[:, r]).values(e)
            for r, e in zip(rows, errors, strict=True)
        ]
        return np.array(values)

    def _average(self, means: np.ndarray, sds: np.ndarray) -> QuantileAverage:
        """Average of the structures with these means and sds, (K, ...)."""
        scales = [part.fitted.scale for part in self.parts]
        bounds = self.combination.choices.bounds
        return QuantileAverage(self.weights, scales, means, sds, bounds=bounds)


# Pairs of a draw of the hyperparameters and a draw of the regressors in a mixture of counts.
RESPONSE_PAIRS = 192


@dataclass(frozen=True, eq=False)
class LatentAlternatives(Alternatives):
    """Forecasts of counts or shares for A alternatives at C hyperparameter draws."""

    @cached_property
    def members(self) -> list[tuple[Part, int]]:
        """Structure and row of each draw of the hyperparameters."""
        return [(part, int(row)) for part in self.parts for row in part.mixture_rows(self.seed)]

    @cached_property
    def weights(self) -> np.ndarray:
        """Weight of each draw of the hyperparameters, (C,)."""
        rows = [part.mixture_rows(self.seed) for part in self.parts]
        pairs = zip(self.parts, rows, strict=True)
        return np.concatenate([np.full(len(r), part.weight / len(r)) for part, r in pairs])

    @cached_property
    def elements(self) -> list[ElementMoments]:
        """Moments of the elements at each draw, computed once for equal draws."""
        known: dict[tuple[int, int], ElementMoments] = {}
        for part, row in self.members:
            if (id(part), row) not in known:
                moments = ElementMoments.at_draw(
                    part.draws, part.draws.z[row], self.x_new, self.design.values
                )
                known[id(part), row] = moments
        return [known[id(part), row] for part, row in self.members]

    def predictive(self, steps: np.ndarray) -> ResponseMixture:
        """Mixture over pairs of a draw of the hyperparameters and an alternative."""
        C, A = len(self.members), len(self.Z)
        count = max(1, -(-RESPONSE_PAIRS // C)) if A > 1 else 1
        rng = np.random.default_rng(self.seed)
        chosen = np.concatenate([rng.permutation(A) for _ in range(-(-C * count // A))])
        chosen = chosen[: C * count].reshape(C, count)
        fits, zs, pairs = [], [], []
        for c, (part, row) in enumerate(self.members):
            fits += [part.fitted] * count
            zs += [part.draws.z[row]] * count
            pairs += [(c, a) for a in chosen[c]]
        moments = [
            np.array([values[c, a] for c, a in pairs]) for values in (self.means, self.sds**2)
        ]
        weights = np.repeat(self.weights / count, count)
        return response_mixture(fits, weights, zs, moments, partial(self._latent_paths, pairs))

    def _latent_paths(
        self, pairs: Sequence[tuple[int, int]], i: int, n: int, seed: int
    ) -> np.ndarray:
        """Joint draws of the latent process for the i-th pair of member and alternative: (n, m)."""
        c, a = pairs[i]
        elements = self.elements[c]
        standard = np.random.default_rng(seed).standard_normal((n, len(elements.mean)))
        return self._latent_draws(c, np.full(n, a), elements.deviations(standard))

    def _latent_draws(self, c: int, alternatives: np.ndarray, deviations: np.ndarray) -> np.ndarray:
        """Latent process under alternatives (n,), from deviations (n, p) of elements."""
        scale = self.members[c][0].fitted.scale
        g = self.means[c, alternatives] + self.design.sums(alternatives, deviations)
        return scale.shift + scale.size * g

    def sample(
        self,
        rows: np.ndarray,
        steps: np.ndarray,
        predictives: Sequence[Any],
        rng: np.random.Generator,
    ) -> np.ndarray:
        # All scenarios use the same quantile of the distribution of a value given its latent
        # process.
        J, n = rows.shape
        members = rng.choice(len(self.members), n, p=self.weights / self.weights.sum())
        uniform = rng.random((n, len(self.x_new)))
        values = np.empty((J, *uniform.shape))
        likelihood = predictives[0].likelihood
        for c, (part, row) in enumerate(self.members):
            chosen = np.flatnonzero(members == c)
            standard = rng.standard_normal((len(chosen), len(self.elements[c].mean)))
            deviations = self.elements[c].deviations(standard)
            theta = part.draws.z[row][: predictives[0].thetas.shape[1]]
            for j in range(J):
                f = predictives[j].tempered(self._latent_draws(c, rows[j, chosen], deviations))
                values[j, chosen] = likelihood.quantile(uniform[chosen], f, theta)
        return values


# Matrices of the size of the joint covariance that are kept for each structure, and temporary ones
# in all threads.
KEPT_MATRICES, TEMPORARY_MATRICES = 2, 16
# Bytes for each step of the joint draws of two scenarios.
DRAW_BYTES_PER_STEP = 1e6


def require_memory(combination: Combination, Z: np.ndarray) -> None:
    """Raise ValueError if joint draws for Z (A, m, k) do not fit into memory."""
    effects = combination.choices.effects
    assert effects is not None
    m, nonlinear = Z.shape[1], np.moveaxis(Z[..., effects.linear :], -1, 0)
    p = m + effects.linear + sum(len(np.unique(column)) for column in nonlinear)
    count = len(combination.parts)
    if combination.choices.likelihood is not None:
        count = max(count, MIXTURE_DRAWS)
    # The memory for m steps is a m^2 + b m bytes.
    a = 8.0 * (KEPT_MATRICES * count + TEMPORARY_MATRICES) * (p / m) ** 2
    b, memory = DRAW_BYTES_PER_STEP, validation.machine_memory()
    needed = a * m**2 + b * m
    if needed <= memory:
        return
    max_steps = int((np.sqrt(b**2 + 4.0 * a * memory) - b) / (2.0 * a))
    raise ValueError(
        "uncertain regressors and comparisons of scenarios take memory in the square of the "
        f"horizon: about {needed / 1e9:,.0f} GB for {m:,} steps, and this machine has "
        f"{memory / 1e9:,.0f} GB. Forecast at most {max_steps:,} steps, or longer ones "
        "(every='week'). A scenario with one known value for each time has no such limit."
    )


def alternatives_of(
    combination: Combination, x_new: np.ndarray, Z: np.ndarray, seed: int
) -> Alternatives:
    """Alternatives of a forecast: columns Z (A, m, k) at times x_new (m,).

    Raises:
        ValueError: The joint covariance of the future values does not fit into memory.
    """
    require_memory(combination, Z)
    is_latent = combination.choices.likelihood is not None
    kind = LatentAlternatives if is_latent else Alternatives
    return kind(combination, x_new, Z, seed)
