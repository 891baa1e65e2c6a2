"""Gram matrices of kernels of time, and their derivatives, in NumPy.

Nothing is compiled: for a few hundred values this takes less time than JAX needs to look up a
compiled program. The formulas are the methods `numpy_gram` of the kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from bayeskern.kernels.base import Kernel
from bayeskern.kernels.components import component_names
from bayeskern.kernels.compound import Sum
from bayeskern.kernels.pairs import Evaluation, Pairs


class Gram:
    """Gram matrix of a kernel and of its additive components, in NumPy.

    Args:
        kernel: The kernel.

    Raises:
        NotImplementedError: A part of the kernel has no Gram matrix in NumPy.
    """

    def __init__(self, kernel: Kernel):
        terms = kernel.terms if isinstance(kernel, Sum) else (kernel,)
        if any(len(component_names(term)) > 1 for term in terms):
            raise NotImplementedError("a product or a multiple of several named terms")
        self._formula = Formula.of(kernel)
        self._components = [(*component_names(term), Formula.of(term)) for term in terms]

    def __call__(self, values: Iterator[float], pairs: Pairs) -> Evaluation:
        """k(s, t) and its pullback; at the lags if k depends on the lag alone, else at the pairs.

        Args:
            values: Values of the `sites` of the kernel, in their order, which is also the order of
                the slopes. They replace the values in the kernel.
            pairs: The pairs of times.
        """
        K, pullback = self._formula.evaluate(iter(values), pairs)
        return K if K.ndim else np.full(pairs.lag.shape, K), pullback

    def of_components(self, values: Iterator[float], pairs: Pairs) -> dict[str, np.ndarray]:
        """Dictionary from the name of a component to its k(s, t) at the pairs."""
        values, grams = iter(values), {}
        for name, formula in self._components:
            K = pairs.spread(formula.evaluate(values, pairs)[0])
            grams[name] = grams.get(name, 0.0) + K
        shape = np.broadcast_shapes(np.shape(pairs.s), np.shape(pairs.t))
        return {name: np.broadcast_to(K, shape) for name, K in grams.items()}


class Formula(NamedTuple):
    """Formula of a kernel, with the formulas of its parts.

    It is looked up once for the many evaluations of a fit.

    Attributes:
        rule: The method `numpy_gram` of the kernel.
        parts: Formulas of the kernels of which the kernel is composed.
    """

    rule: Callable[..., Evaluation]
    parts: tuple[Formula, ...]

    @classmethod
    def of(cls, kernel: Kernel) -> Formula:
        """Formula of a kernel.

        Raises:
            NotImplementedError: A part of the kernel has none.
        """
        kind = type(kernel)
        # A subclass may compute something else, and does not take the formula of its parent.
        if "numpy_gram" not in vars(kind):
            raise NotImplementedError(
                f"{kind.__name__} has no Gram matrix in NumPy; define its method numpy_gram, or "
                "let JAX compute the Gram matrix."
            )
        parts = (part for _, part in kernel.children() if isinstance(part, Kernel))
        return cls(kind.numpy_gram, tuple(cls.of(part) for part in parts))

    def evaluate(self, values: Iterator[float], pairs: Pairs) -> Evaluation:
        """Gram matrix and pullback."""
        return self.rule(self.parts, values, pairs)
