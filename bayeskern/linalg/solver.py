"""Interface of a solver for the covariance matrix k(X) + noise I."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float
from numpyro.distributions import Distribution

from bayeskern.core import validation
from bayeskern.core.functions import compiled
from bayeskern.hyperparameters import Free
from bayeskern.kernels.base import Kernel
from bayeskern.kernels.components import in_component, part_of
from bayeskern.linalg.factor import AnyArray, Factor, scale_rows
from bayeskern.linalg.prior_draws import prior_draws
from bayeskern.linalg.root import draw

# From this number of points on, a Cholesky factor of their covariance matrix takes minutes.
MIN_POINTS_OF_FUNCTIONS = 20_000
POINTS_PER_BLOCK = 1_000
# A noise variance, n of them, or a covariance matrix (n, n); or a prior of a variance.
Noise = ArrayLike | Distribution | Free


class Cost(NamedTuple):
    """Approximate cost of one evaluation of the log density and its gradient.

    Attributes:
        operations: Floating-point operations.
        bytes: Peak memory.
    """

    operations: float
    bytes: float


class Fits(NamedTuple):
    """Answer of a solver that can compute with a matrix.

    Attributes:
        cost: Cost of the log density with its gradient.
        accuracy: Error bound of the covariances in words; None if they are exact.
        unverified: Condition that cannot be checked, such as one on traced times, in words. The
            automatic choice then skips the solver; it has to be requested by name.
    """

    cost: Cost
    accuracy: str | None = None
    unverified: str | None = None


class Refused(NamedTuple):
    """Answer of a solver that cannot compute with a matrix.

    Attributes:
        reason: Clause that completes "the solver does not fit: ...".
    """

    reason: str


class NoisyGram(NamedTuple):
    """Covariance matrix k(X) + noise I, or k(X) + noise, of observations at points X.

    Unobserved rows and columns are replaced by those of the identity matrix.

    Attributes:
        kernel: A kernel whose hyperparameters are numbers.
        X: Points, shape (n, d), a NumPy or JAX array.
        noise: Noise variance, a number or shape (n,); or a covariance matrix, shape (n, n), for
            solvers with `takes_noise_matrix`.
        observed: Mask of the observed rows, shape (n,); None for all rows.
    """

    kernel: Kernel
    X: jax.Array
    noise: ArrayLike
    observed: jax.Array | None = None

    def dense(self) -> jax.Array:
        """The matrix itself, shape (n, n)."""
        K = self.kernel.evaluate(self.X)
        K = K + (self.noise if jnp.ndim(self.noise) == 2 else jnp.diag(self.noise_of_rows()))
        if self.observed is None:
            return K
        both = self.observed[:, None] & self.observed[None, :]
        return jnp.where(both, K, jnp.eye(len(K), dtype=K.dtype))

    def noise_of_rows(self) -> jax.Array:
        """Noise variance of each row, shape (n,)."""
        if jnp.ndim(self.noise) == 2:
            return jnp.diagonal(self.noise)
        return jnp.broadcast_to(self.noise, self.X.shape[:1])

    def cross(self, part: str | None, X_new: AnyArray) -> jax.Array:
        """Covariances of the observations with f, or a component, at X_new: (n, m)."""
        K = part_of(self.kernel, part).evaluate(self.X, jnp.asarray(X_new))
        return K if self.observed is None else jnp.where(self.observed[:, None], K, 0.0)

    def without_unobserved(self, log_density: jax.Array) -> jax.Array:
        """Log density of the observed rows, given the log density of all rows.

        The residuals of the other rows are 0, so each contributes -1/2 log 2 pi.
        """
        if self.observed is None:
            return log_density
        return log_density + 0.5 * jnp.sum(~self.observed) * jnp.log(2.0 * jnp.pi)


class Solver(eqx.Module):
    """Method to compute with a `NoisyGram`; `linalg.select` chooses a solver.

    A solver may need facts about the inputs: an order, a grid, neighbours. `prepare` computes them
    once, before JAX traces the model, and stores them in fields of the solver. In the methods
    below, `part` is the name of an additive component of the kernel, or None for the whole process
    f.

    Attributes:
        name: Name of the solver for the argument `solver` of models.
        approximate: Whether the solver approximates the matrix.
        takes_noise_matrix: Whether the noise may be a covariance matrix.
    """

    name: ClassVar[str]
    approximate: ClassVar[bool] = False
    takes_noise_matrix: ClassVar[bool] = False

    @abstractmethod
    def applicability(
        self, kernel: Kernel, X, noise: Noise = 0.0, observed: AnyArray | None = None
    ) -> Fits | Refused:
        """`Fits` with the cost, or `Refused` with the reason, for k(X) + noise I.

        Args:
            kernel: The kernel; hyperparameters without a value are NaN.
            X: Points, shape (n, d); an array, a traced array or a `jax.ShapeDtypeStruct`.
            noise: Noise variance, a number or shape (n,), or a prior of this shape.
            observed: Mask of the observed rows, shape (n,); None for all rows.
        """

    def prepare(self, kernel: Kernel, X) -> Solver:
        """Copy of the solver with the facts that it needs about these inputs."""
        return self

    @abstractmethod
    def factor(self, C: NoisyGram) -> Factor:
        """Factor the matrix.

        Raises:
            NotPositiveDefiniteError: The matrix is not positive definite. Under `jax.jit` the
                factor is NaN instead.
        """

    @abstractmethod
    def multiply(self, C: NoisyGram, b) -> Float[Array, " n"]:
        """The matrix, or its approximation, times a vector b (n,)."""

    def solution_errors(self, C: NoisyGram, weights, r) -> np.ndarray:
        """C weights - r for values r and weights (n,), from products without the factor."""
        return np.asarray(compiled(self.multiply, C, weights)) - np.asarray(r)

    @abstractmethod
    def log_density(self, C: NoisyGram, R) -> Float[Array, "..."]:
        """log N(r; 0, C) of each row r of R (..., n); r is 0 at unobserved rows.

        -inf, with a gradient of 0, if the matrix is not positive definite.
        """

    def mean(
        self, C: NoisyGram, part: str | None, factor: Factor | None, r, weights, X_new
    ) -> Float[Array, " m"]:
        """Posterior mean of f, or of a component, at X_new.

        Args:
            C: Covariance matrix of the observations.
            part: Name of a component, or None.
            factor: Factor of C; None for a sum of covariances with any weights.
            r: Residuals, shape (n,); exact solvers do not need them.
            weights: C^-1 r, shape (n,).
            X_new: Points, shape (m, d).
        """
        return weights @ part_of(C.kernel, part).evaluate(C.X, X_new)

    def variance(self, C: NoisyGram, part: str | None, factor: Factor, X_new) -> Float[Array, " m"]:
        """Posterior variance of f, or of a component, at X_new.

        Rasmussen and Williams (2006), algorithm 2.1.
        """
        whitened = factor.whiten(C.cross(part, X_new))
        prior = part_of(C.kernel, part).evaluate_diag(X_new)
        return difference(prior, jnp.sum(jnp.square(whitened), axis=0))

    def covariance(
        self, C: NoisyGram, part: str | None, factor: Factor, X_new
    ) -> Float[Array, "m m"]:
        """Posterior covariance matrix of f, or of a component, at X_new."""
        validation.joint_points(len(X_new))
        whitened = factor.whiten(C.cross(part, X_new))
        return part_of(C.kernel, part).evaluate(X_new) - whitened.T @ whitened

    def deviations(
        self, C: NoisyGram, part: str | None, factor: Factor, X_new, key: jax.Array, size: int
    ) -> Float[Array, "size m"]:
        """Joint posterior draws of f, or a component, minus the posterior mean.

        By the covariance matrix of the points. From `MIN_POINTS_OF_FUNCTIONS` points on, where the
        terms of the kernel are stationary or have finitely many features, by approximate draws of
        the prior as functions, each corrected by the data exactly (Wilson and others 2020,
        "Efficiently sampling functions from Gaussian process posteriors").
        """
        if len(X_new) < MIN_POINTS_OF_FUNCTIONS:
            return draw(self.covariance(C, part, factor, X_new), key, size)
        key, key_noise = jax.random.split(key)
        try:
            draws = prior_draws(C.kernel, C.X.shape[1], key, size)
        except ValueError:  # A term has no such draws.
            return draw(self.covariance(C, part, factor, X_new), key, size)
        is_in = [True] * len(draws) if part is None else in_component(C.kernel, part)
        if jnp.ndim(C.noise) == 2:
            errors = draw(jnp.asarray(C.noise), key_noise, size).T
        else:
            errors = jax.random.normal(key_noise, (len(C.X), size))
            errors = scale_rows(jnp.sqrt(C.noise_of_rows()), errors)
        simulated = errors + sum(term.at(C.X) for term in draws)
        if C.observed is not None:
            simulated = jnp.where(C.observed[:, None], simulated, 0.0)
        weights = factor.solve(simulated)

        def at(X):
            prior = sum(term.at(X) for term, used in zip(draws, is_in, strict=True) if used)
            return prior - C.cross(part, X).T @ weights

        # Some points at a time; the last ones are padded.
        m, d = X_new.shape
        blocks = jnp.pad(X_new, [(0, -m % POINTS_PER_BLOCK), (0, 0)]).reshape(
            -1, POINTS_PER_BLOCK, d
        )
        return jax.lax.map(at, blocks).reshape(-1, size)[:m].T

    def numbers_per_point(self, kernel: Kernel, n: int) -> int:
        """Array elements that predictions from n data points hold for each new point."""
        return n

    def error_estimate(self, C: NoisyGram) -> float:
        """Expected loss of log density per point by the approximation; 0 if exact."""
        return 0.0


def difference(prior: jax.Array, reduction: jax.Array) -> jax.Array:
    """Prior variances minus reductions, at least machine precision times the prior variances.

    Rounding errors can make small variances negative. NaN stays NaN.
    """
    return jnp.maximum(prior - reduction, jnp.finfo(prior.dtype).eps * prior)
