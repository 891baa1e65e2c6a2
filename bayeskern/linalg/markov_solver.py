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
from bayeskern.linalg.markov import MarkovFactor, Series, block_length
from bayeskern.linalg.markov_density import log_density
from bayeskern.linalg.smoother import variances, weighted_covariances

# A state of more numbers than this is none that people would want to wait for.
MOST_STATES = 200


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
        if space.size == 0:
            return "white noise alone has no state"
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
        n, space = X.shape[0], kernel.state_space()
        s, b = space.size, max(term.b for term in space.terms)
        # Two products with blocks of b x b, there and back; the state before each block of times,
        # and those of one block with all that its derivative takes.
        length = block_length(s)
        blocks = n / length + 3.0 * length
        return Cost(12.0 * n * s**2 * (b + 4.0), 8.0 * (blocks * s * (s + 1) + 8.0 * n))

    def error(self, kernel):
        return stated_error(self._cut(kernel))

    def prepare(self, kernel, X):
        return MarkovSolver(harmonics_of(kernel))

    def factor(self, kernel, X, noise, observed=None):
        kernel = self._cut(kernel)
        enough = certified(kernel)
        if not is_traced(enough) and not enough:
            raise ValueError(
                f"{kernel!r} has a lengthscale that asks for more harmonics: its covariances are "
                f"{stated_error(kernel)}. Prepare the model for it, or give more harmonics."
            )
        return MarkovFactor.compute(_series(kernel, X, noise, observed))

    def mean(self, kernel, part, X, weights, X_new):
        space = part_of(self._cut(kernel), part).state_space()
        if space.starts:
            # New times may lie before the start, where there is no such form.
            return super().mean(kernel, part, X, weights, X_new)
        if space.size == 0:
            return jnp.zeros(len(X_new))
        return weighted_covariances(space, X[:, 0], weights, X_new[:, 0])

    def variance(self, kernel, part, X, noise, factor, X_new, observed=None):
        kernel = self._cut(kernel)
        space, of_part = kernel.state_space(), part_of(kernel, part).state_space()
        if space.starts:
            return super().variance(kernel, part, X, noise, factor, X_new, observed)
        counted = np.ones(space.size) if part is None else _of_component(kernel, part)
        noise = noise + sum(space.white)
        # What is new about white noise at new times is all of it.
        new = sum(of_part.white)
        return variances(space, counted, X[:, 0], noise, observed, X_new[:, 0]) + new

    def multiply(self, kernel, X, noise, b, observed=None):
        # Not by the factor, which could only agree with itself.
        space, t = self._cut(kernel).state_space(), X[:, 0]
        given = b if observed is None else jnp.where(observed, b, 0.0)
        product = weighted_covariances(space, t, given, t) + (noise + sum(space.white)) * b
        return product if observed is None else jnp.where(observed, product, b)

    def log_density(self, kernel, X, noise, R, observed=None):
        kernel = self._cut(kernel)
        series = _series(kernel, X, noise, observed)
        density = jnp.vectorize(lambda r: log_density(series, r), signature="(n)->()")(R)
        return jnp.where(certified(kernel), density, -jnp.inf)

    def _cut(self, kernel):
        """The kernel with so many harmonics for each of its periodic kernels."""
        return with_harmonics(kernel, self.harmonics or harmonics_of(kernel))


def _series(kernel, X, noise, observed) -> Series:
    """The process at its times; white noise is noise."""
    space = kernel.state_space()
    return Series.of(space, X[:, 0], noise + sum(space.white), observed)


def _of_component(kernel, name: str) -> np.ndarray:
    """Which numbers of the state of the whole belong to a component, 0 or 1 of each: (s,)."""
    sizes = [term.state_space().size for _, term in kernel.terms_of_sum()]
    return np.repeat(np.array(in_component(kernel, name), float), sizes)
