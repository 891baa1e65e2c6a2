"""The solver of processes with a state: where it fits, what it costs, and what it is made of."""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from bayeskern.core.validation import is_traced
from bayeskern.kernels.components import in_component, part_of
from bayeskern.kernels.state_space import NoStateSpaceError
from bayeskern.kernels.truncation import certified, harmonics_of, stated_error, with_harmonics
from bayeskern.linalg.factor import Cost, Solver
from bayeskern.linalg.markov import BLOCK, MarkovFactor, Series
from bayeskern.linalg.markov_density import log_density
from bayeskern.linalg.smoother import variances, weighted_covariances

# A state of more numbers than this is none that people would want to wait for.
MOST_STATES = 64


class MarkovSolver(Solver):
    """The Kalman filter: one input, a kernel that has a state.

    Attributes:
        harmonics: Of how many harmonics each of the periodic kernels is made; None until it is
            prepared.
    """

    harmonics: tuple[int, ...] | None = eqx.field(static=True, default=None)

    name = "markov"

    def obstacle(self, kernel, X):
        if X.shape[1] != 1:
            return f"there are {X.shape[1]} inputs, and time is one"
        try:
            space = kernel.state_space()
        except NoStateSpaceError as reason:
            return str(reason).rstrip(".")
        if space.size > MOST_STATES:
            return f"its state has {space.size:,} numbers, and {MOST_STATES} are the most"
        for start in space.starts:
            # In NumPy: what JAX computes is traced even where the numbers are known.
            if not (is_traced(start) or is_traced(X) or np.asarray(X).min() >= np.asarray(start)):
                return f"a trend starts at {float(start):g}, and not before the first time"
        return None

    def doubt(self, kernel, X):
        if any(is_traced(start) or is_traced(X) for start in kernel.state_space().starts):
            return "whether a trend starts before the first time is not known while compiling"
        return None

    def cost(self, kernel, X):
        n, s = X.shape[0], kernel.state_space().size
        # Two products of s x s matrices, there and back; the state before each block, and those of
        # one block with all that its derivative takes.
        blocks = n / BLOCK + 10.0 * BLOCK
        return Cost(12.0 * n * (s**3 + 4.0 * s**2), 8.0 * (blocks * s * (s + 1) + 8.0 * n))

    def error(self, kernel):
        return stated_error(self._cut(kernel))

    def prepare(self, kernel, X):
        return MarkovSolver(harmonics_of(kernel))

    def factor(self, kernel, X, noise, observed=None):
        kernel = self._cut(kernel)
        enough = certified(kernel)
        if not is_traced(enough) and not enough:
            raise ValueError(
                f"{kernel!r} has a lengthscale that asks for more harmonics: it is known "
                f"{stated_error(kernel)}. Prepare the model for it, or give more harmonics."
            )
        return MarkovFactor.compute(Series.of(kernel.state_space(), X[:, 0], noise, observed))

    def mean(self, kernel, part, X, weights, X_new):
        space = part_of(self._cut(kernel), part).state_space()
        if space.starts:
            # New times may lie before the start, where there is no such form.
            return super().mean(kernel, part, X, weights, X_new)
        return weighted_covariances(space, X[:, 0], weights, X_new[:, 0])

    def variance(self, kernel, part, X, noise, factor, X_new, observed=None):
        space = self._cut(kernel).state_space()
        if space.starts:
            return super().variance(kernel, part, X, noise, factor, X_new, observed)
        counted = np.ones(space.size) if part is None else _of_component(self._cut(kernel), part)
        return variances(space, counted, X[:, 0], noise, observed, X_new[:, 0])

    def multiply(self, kernel, X, noise, b, observed=None):
        # Not by the factor, which could only agree with itself.
        space, t = self._cut(kernel).state_space(), X[:, 0]
        given = b if observed is None else jnp.where(observed, b, 0.0)
        product = weighted_covariances(space, t, given, t) + noise * b
        return product if observed is None else jnp.where(observed, product, b)

    def log_density(self, kernel, X, noise, R, observed=None):
        kernel = self._cut(kernel)
        series = Series.of(kernel.state_space(), X[:, 0], noise, observed)
        density = jnp.vectorize(lambda r: log_density(series, r), signature="(n)->()")(R)
        return jnp.where(certified(kernel), density, -jnp.inf)

    def _cut(self, kernel):
        """The kernel with so many harmonics for each of its periodic kernels."""
        return with_harmonics(kernel, self.harmonics or harmonics_of(kernel))


def _of_component(kernel, name: str) -> np.ndarray:
    """Which numbers of the state of the whole belong to a component, 0 or 1 of each: (s,)."""
    sizes = [term.state_space().size for _, term in kernel.terms_of_sum()]
    return np.repeat(np.array(in_component(kernel, name), float), sizes)
