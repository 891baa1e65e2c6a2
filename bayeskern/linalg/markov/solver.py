"""The solver of processes with a state: where it fits, what it costs, and what it is made of."""

from __future__ import annotations

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from bayeskern.core.validation import is_traced
from bayeskern.kernels.components import in_component, part_of, without
from bayeskern.kernels.state_space.processes import NoStateSpaceError
from bayeskern.kernels.truncation import certified, harmonics_of, stated_error, with_harmonics
from bayeskern.linalg.factor import Cost, Solver
from bayeskern.linalg.markov.density import log_density
from bayeskern.linalg.markov.factor import MarkovFactor, ObservedProcess, block_length
from bayeskern.linalg.markov.smoother import product, variances, weighted_covariances

# A state of more numbers than this is none that people would want to wait for.
MOST_STATES = 200
# The numbers of draws that are made at a time: 128 MB of them.
AT_A_TIME = 2**24


class MarkovSolver(Solver):
    """The Kalman filter: one input, a kernel that has a state.

    Attributes:
        harmonics: Of how many harmonics each of the periodic kernels is made; None until it is
            prepared.
        order: The order of the times, (n,); None where they are not known yet. To sort them within
            a program takes longer than the filter, and where they are constants of the program XLA
            would sort them while it compiles, for minutes.
    """

    harmonics: tuple[int, ...] | None = eqx.field(static=True, default=None)
    order: jax.Array | None = None

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

    def misfit(self, X, noise, observed):
        if self.order is None:
            return None
        known = not (is_traced(X) or is_traced(self.order))
        if len(self.order) != X.shape[0] or (
            known and np.any(np.diff(np.asarray(X)[np.asarray(self.order), 0]) < 0.0)
        ):
            return "it is prepared for other times"
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
        if is_traced(X):
            return MarkovSolver(harmonics_of(kernel))
        order = np.argsort(np.asarray(X)[:, 0], kind="stable")
        return MarkovSolver(harmonics_of(kernel), jnp.asarray(order))

    def factor(self, kernel, X, noise, observed=None):
        kernel = self._cut(kernel)
        enough = certified(kernel)
        if not is_traced(enough) and not enough:
            raise ValueError(
                f"{kernel!r} has a lengthscale that asks for more harmonics: its covariances are "
                f"{stated_error(kernel)}. Prepare the model for it, or give more harmonics."
            )
        return MarkovFactor.compute(self._series(kernel, X, noise, observed))

    def mean(self, kernel, part, X, noise, r, weights, X_new, observed=None):
        space = part_of(self._cut(kernel), part).state_space()
        if space.starts:
            # New times may lie before the start, where there is no such form.
            return super().mean(kernel, part, X, noise, r, weights, X_new, observed)
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

    def deviations(self, kernel, part, X, noise, factor, X_new, key, size, observed=None):
        """By Matheron's rule: draws from the prior, less what values like them would say of f.

        Journel and Huijbregts (1978), "Mining Geostatistics", section VII.A.
        """
        kernel = self._cut(kernel)
        space, own = kernel.state_space(), part_of(kernel, part)
        if space.starts:
            return super().deviations(kernel, part, X, noise, factor, X_new, key, size, observed)
        others = None if part is None else without(kernel, part)
        n, t = len(X), X[:, 0]
        times, noise = jnp.concatenate([t, X_new[:, 0]]), noise + sum(space.white)
        white = sum(own.state_space().white)
        draw_own, draw_others = _sampler(own, times), _sampler(others, t)

        def one(key):
            keys = jax.random.split(key, 4)
            f = draw_own(keys[0])
            error = jnp.sqrt(noise) * jax.random.normal(keys[1], (n,))
            y = f[:n] + draw_others(keys[2]) + error
            y = y if observed is None else jnp.where(observed, y, 0.0)
            explained = self.mean(kernel, part, X, noise, y, factor.solve(y), X_new, observed)
            # What is new about white noise at new times is all of it.
            new = jnp.sqrt(white) * jax.random.normal(keys[3], explained.shape)
            return f[n:] - explained + new

        at_a_time = max(1, AT_A_TIME // len(times))
        return jax.lax.map(one, jax.random.split(key, size), batch_size=min(at_a_time, size))

    def multiply(self, kernel, X, noise, b, observed=None):
        # Not by the factor, which could only agree with itself.
        series = self._series(self._cut(kernel), X, noise, observed)
        multiplied = product(series, b) + series.unsorted(series.noise) * b
        return multiplied if observed is None else jnp.where(observed, multiplied, b)

    def log_density(self, kernel, X, noise, R, observed=None):
        kernel = self._cut(kernel)
        series = self._series(kernel, X, noise, observed)
        density = jnp.vectorize(lambda r: log_density(series, r), signature="(n)->()")(R)
        return jnp.where(certified(kernel), density, -jnp.inf)

    def _cut(self, kernel):
        """The kernel with so many harmonics for each of its periodic kernels."""
        return with_harmonics(kernel, self.harmonics or harmonics_of(kernel))

    def _series(self, kernel, X, noise, observed) -> ObservedProcess:
        """The process at its times; white noise is noise."""
        space = kernel.state_space()
        return ObservedProcess.of(space, X[:, 0], noise + sum(space.white), observed, self.order)


def _sampler(kernel, t) -> Callable:
    """Draws of the process at times t (n,) by a key, without white noise; 0 if there is no more."""
    if kernel is None or kernel.state_space().size == 0:
        return lambda key: jnp.zeros(t.shape)
    # The jitter that rounding asks for.
    jitter = max(len(t), 16) * jnp.finfo(t.dtype).eps * jnp.mean(kernel.evaluate_diag(t[:, None]))
    root = MarkovFactor.compute(ObservedProcess.of(kernel.state_space(), t, jitter))
    return lambda key: root.sqrt_mul(jax.random.normal(key, t.shape))


def _of_component(kernel, name: str) -> np.ndarray:
    """Which numbers of the state of the whole belong to a component, 0 or 1 of each: (s,)."""
    sizes = [term.state_space().size for _, term in kernel.terms_of_sum()]
    return np.repeat(np.array(in_component(kernel, name), float), sizes)
