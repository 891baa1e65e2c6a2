"""The solver of processes with a state: where it fits, what it costs, and what it is made of."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from bayeskern.core.validation import is_traced
from bayeskern.kernels.components import in_component, part_of, without
from bayeskern.kernels.state_space import NoStateSpaceError
from bayeskern.linalg.factor import Cost, Solver
from bayeskern.linalg.markov import BLOCK, MarkovFactor, Series, log_density
from bayeskern.linalg.smoother import product, variances, weighted_covariances

# A state of more numbers than this is none that people would want to wait for.
MOST_STATES = 64
# The numbers of draws that are made at a time: 128 MB of them.
AT_A_TIME = 2**24


class MarkovSolver(Solver):
    """The Kalman filter: one input, a kernel that has a state."""

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

    def factor(self, kernel, X, noise, observed=None):
        return MarkovFactor.compute(Series.of(kernel.state_space(), X[:, 0], noise, observed))

    def mean(self, kernel, part, X, noise, r, weights, X_new, observed=None):
        space = part_of(kernel, part).state_space()
        if space.starts:
            # New times may lie before the start, where there is no such form.
            return super().mean(kernel, part, X, noise, r, weights, X_new, observed)
        return weighted_covariances(space, X[:, 0], weights, X_new[:, 0])

    def variance(self, kernel, part, X, noise, factor, X_new, observed=None):
        space = kernel.state_space()
        if space.starts:
            return super().variance(kernel, part, X, noise, factor, X_new, observed)
        h = jnp.asarray(space.h) if part is None else _of_component(kernel, part)
        return variances(space, h, X[:, 0], noise, observed, X_new[:, 0])

    def deviations(self, kernel, part, X, noise, factor, X_new, key, size, observed=None):
        """By Matheron's rule: draws from the prior, less what values like them would say of f.

        Journel and Huijbregts (1978), "Mining Geostatistics", section VII.A.
        """
        if kernel.state_space().starts:
            return super().deviations(kernel, part, X, noise, factor, X_new, key, size, observed)
        own, others = part_of(kernel, part), None if part is None else without(kernel, part)
        n, times = len(X), jnp.concatenate([X[:, 0], X_new[:, 0]])
        roots = [_root(own, times)] + ([] if others is None else [_root(others, X[:, 0])])

        def one(key):
            noise_key, *keys = jax.random.split(key, 1 + len(roots))
            drawn = [
                root.sqrt_mul(jax.random.normal(key, root.sd.shape))
                for root, key in zip(roots, keys, strict=True)
            ]
            y = sum(f[:n] for f in drawn) + jnp.sqrt(noise) * jax.random.normal(noise_key, (n,))
            y = y if observed is None else jnp.where(observed, y, 0.0)
            return drawn[0][n:] - self.mean(kernel, part, X, factor.solve(y), X_new)

        at_a_time = max(1, AT_A_TIME // len(times))
        return jax.lax.map(one, jax.random.split(key, size), batch_size=min(at_a_time, size))

    def multiply(self, kernel, X, noise, b, observed=None):
        # Not by the factor, which could only agree with itself.
        series = Series.of(kernel.state_space(), X[:, 0], noise, observed)
        multiplied = product(series, b) + noise * b
        return multiplied if observed is None else jnp.where(observed, multiplied, b)

    def log_density(self, kernel, X, noise, R, observed=None):
        series = Series.of(kernel.state_space(), X[:, 0], noise, observed)
        return jnp.vectorize(lambda r: log_density(series, r), signature="(n)->()")(R)


def _root(kernel, t) -> MarkovFactor:
    """The covariance matrix of f itself at the times t, with the jitter that rounding asks for."""
    jitter = max(len(t), 16) * jnp.finfo(t.dtype).eps * jnp.mean(kernel.evaluate_diag(t[:, None]))
    return MarkovFactor.compute(Series.of(kernel.state_space(), t, jitter))


def _of_component(kernel, name: str) -> jax.Array:
    """What a component is of the state of the whole: (s,)."""
    terms = [term.state_space() for _, term in kernel.terms_of_sum()]
    kept = zip(terms, in_component(kernel, name), strict=True)
    return jnp.concatenate([term.h * is_in for term, is_in in kept])
