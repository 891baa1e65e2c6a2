"""Sums and products of kernels."""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import reduce
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from bayeskern.kernels import column_groups, feature_maps, spectral_density
from bayeskern.kernels.base import Kernel
from bayeskern.kernels.column_groups import Columns
from bayeskern.kernels.constant import Constant
from bayeskern.kernels.description import InputAxis
from bayeskern.kernels.means.boxes import Boxes
from bayeskern.kernels.state_space.space import StateSpace


class CompoundKernel(Kernel):
    """Base of kernels that combine several kernels by an operation on Gram matrices.

    Args:
        terms: The kernels, as a tuple.
    """

    terms: tuple[Kernel, ...]

    branches: ClassVar[bool] = True
    takes_levels: ClassVar[bool] = True
    depends_on_lag: ClassVar[bool] = True
    operation: ClassVar[Callable]

    def children(self) -> list[tuple[tuple, Kernel]]:
        return [(("terms", i), term) for i, term in enumerate(self.terms)]

    def evaluate(self, X: jax.Array, Z: jax.Array | None = None) -> jax.Array:
        return reduce(self.operation, (k.evaluate(X, Z) for k in self.terms))

    def evaluate_diag(self, X: jax.Array) -> jax.Array:
        return reduce(self.operation, (k.evaluate_diag(X) for k in self.terms))

    def _frequencies_of_terms(self, key, n, d, orthogonal):
        keys = jax.random.split(key, len(self.terms))
        return [
            k.frequencies(key, n, d, orthogonal) for k, key in zip(self.terms, keys, strict=True)
        ]


class Sum(CompoundKernel):
    """Sum k1(x, z) + k2(x, z) + ... Nested sums are flattened.

    Args:
        terms: The kernels, as a tuple.
    """

    precedence: ClassVar[int] = 1
    operation = staticmethod(operator.add)

    def frequencies(self, key: jax.Array, n: int, d: int, orthogonal: bool = False) -> jax.Array:
        # A mixture: each row comes from a random term, with probability proportional to variance.
        key, key_choice = jax.random.split(key)
        variances = jnp.stack([spectral_density.variance(k, d) for k in self.terms])
        choice = jax.random.categorical(key_choice, jnp.log(variances), shape=(n,))
        frequencies = jnp.stack(self._frequencies_of_terms(key, n, d, orthogonal))
        return frequencies[choice, jnp.arange(n)]

    def state_space(self) -> StateSpace:
        return reduce(operator.add, (term.state_space() for term in self.terms))

    def features(self, X: jax.Array, degree: int | None) -> jax.Array:
        return jnp.concatenate([term.features(X, degree) for term in self.terms], axis=1)

    def by_columns(self, d: int) -> dict[Columns, Kernel]:
        columns = [column_groups.joined(term.by_columns(d)) for term in self.terms]
        return {column_groups.joined(columns): self}

    def evaluate_means(self, X: Boxes, Z: Boxes) -> jax.Array:
        return reduce(operator.add, (term.evaluate_means(X, Z) for term in self.terms))

    def features_of_means(self, X: Boxes) -> jax.Array:
        return jnp.concatenate([term.features_of_means(X) for term in self.terms], axis=1)

    @staticmethod
    def numpy_gram(parts, values, pairs):
        grams, pullbacks = zip(*(part.evaluate(values, pairs) for part in parts), strict=True)
        # Numbers and functions of the lag alone are added before the sum is spread over the pairs.
        at_lags = [K for K in grams if K.ndim == 0]
        at_lags += [K for K in grams if K.shape == pairs.lag.shape]
        at_pairs = [K for K in grams if K.ndim and K.shape != pairs.lag.shape]
        if at_lags:
            total = reduce(operator.add, at_lags)
            at_pairs = [*at_pairs, pairs.spread(total) if at_pairs else total]
        total = reduce(operator.add, at_pairs)
        return total, lambda w: [slope for pull in pullbacks for slope in pull(w)]

    def describe(self, axis: InputAxis) -> str:
        # A constant beside other terms adds nothing to the shape of a function.
        shapes = [k for k in self.terms if not isinstance(k.bare(), Constant)] or self.terms
        return ", and ".join(dict.fromkeys(k.describe(axis) for k in shapes))

    def terms_of_sum(self) -> list[tuple[tuple[str, ...], Kernel]]:
        return [item for term in self.terms for item in term.terms_of_sum()]

    def __repr__(self):
        return " + ".join(term._show_in(2) for term in self.terms)


class Product(CompoundKernel):
    """Product k1(x, z) k2(x, z) ..., elementwise. Nested products are flattened.

    Args:
        terms: The kernels, as a tuple.
    """

    precedence: ClassVar[int] = 2
    operation = staticmethod(operator.mul)

    def frequencies(self, key: jax.Array, n: int, d: int, orthogonal: bool = False) -> jax.Array:
        return reduce(operator.add, self._frequencies_of_terms(key, n, d, orthogonal))

    def state_space(self) -> StateSpace:
        return reduce(operator.mul, (term.state_space() for term in self.terms))

    def features(self, X: jax.Array, degree: int | None) -> jax.Array:
        return feature_maps.pairwise_products(self, [k.features(X, degree) for k in self.terms])

    def by_columns(self, d: int) -> dict[Columns, Kernel]:
        factors = (factor for term in self.terms for factor in term.by_columns(d).items())
        return column_groups.merge_overlapping(factors)

    @staticmethod
    def numpy_gram(parts, values, pairs):
        grams, pullbacks = zip(*(part.evaluate(values, pairs) for part in parts), strict=True)
        if any(K.ndim and K.shape != pairs.lag.shape for K in grams):
            grams = [pairs.spread(K) for K in grams]

        def pullback(w):
            slopes = []
            for i, pull in enumerate(pullbacks):
                slopes += pull(w.times(reduce(operator.mul, [*grams[:i], *grams[i + 1 :]])))
            return slopes

        return reduce(operator.mul, grams), pullback

    def describe(self, axis: InputAxis) -> str:
        terms = [k.bare() for k in self.terms]
        waves, others = ([k for k in terms if k.is_wave == is_wave] for is_wave in (True, False))
        shapes = " and ".join(k.describe(axis) for k in waves)
        if waves and others and all(k.is_radial for k in others):
            # The lengthscale of the other factor is the time over which the wave keeps its shape.
            lengthscale = np.asarray(others[0].lengthscale, float)
            memory = axis.span(lengthscale)
            shortest = min(float(np.median(k.period)) for k in waves)
            # With a memory below half a period, nothing repeats.
            if lengthscale.ndim == 1 and float(np.median(lengthscale)) < 0.5 * shortest:
                return f"wanders, with a memory of about {memory}"
            return f"{shapes}; it changes over about {memory}"
        factors = ", times one that ".join(k.describe(axis) for k in others)
        return f"{shapes}; its size {factors}" if waves and others else shapes or factors

    def __repr__(self):
        return " * ".join(term._show_in(3) for term in self.terms)
