"""The contracts that covariance matrices follow: how they are factored, and what a factor does."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from bayeskern.core import validation
from bayeskern.kernels.components import part_of
from bayeskern.linalg.root import draw


class Factor(eqx.Module):
    """A positive definite matrix K = L L' of size n, factored once and used many times.

    Attributes:
        jitter: What was added to the diagonal to make the factorization succeed.
    """

    jitter: eqx.AbstractVar[jax.Array]

    @abstractmethod
    def solve(self, B: Float[Array, "n *m"]) -> Float[Array, "n *m"]:
        """K^-1 B."""

    @abstractmethod
    def whiten(self, B: Float[Array, "n *m"]) -> Float[Array, "n *m"]:
        """L^-1 B, so that |L^-1 b|^2 = b' K^-1 b."""

    @abstractmethod
    def sqrt_mul(self, B: Float[Array, "n *m"]) -> Float[Array, "n *m"]:
        """L B, which turns independent normal draws into draws with covariance K."""

    @abstractmethod
    def logdet(self) -> Float[Array, ""]:
        """log |K|."""

    @abstractmethod
    def inv_diag(self) -> Float[Array, " n"]:
        """The diagonal of K^-1."""


class Cost(NamedTuple):
    """What an evaluation of the log density and its gradient takes, about.

    Attributes:
        operations: Floating-point operations.
        bytes: The most memory at a time.
    """

    operations: float
    bytes: float


class Solver(eqx.Module):
    """A way to compute with k(X) + noise I. `linalg.select` chooses among them.

    X: (n, d). noise: () or (n,). observed: which rows count, (n,), or None for all; the others are
    rows of the identity. What it has to know of the inputs (an order, a grid, neighbours) are its
    fields: `prepare` finds it once, before anything is traced.
    """

    name: ClassVar[str]
    #: whether it computes with another matrix, near the one asked for
    approximate: ClassVar[bool] = False

    @abstractmethod
    def obstacle(self, kernel, X) -> str | None:
        """What keeps it from this kernel at these inputs; None if nothing does."""

    def doubt(self, kernel, X) -> str | None:
        """What cannot be known of them while JAX traces, so that it has to be asked for."""
        return None

    def misfit(self, X, noise, observed) -> str | None:
        """What keeps it from noise or a mask like these, or, once prepared, from these inputs.

        noise: a number or (n,), or a prior of that shape.
        """
        return None

    def error(self, kernel) -> str | None:
        """How near its covariances are to those of the kernel; None if they are these."""
        return None

    @abstractmethod
    def cost(self, kernel, X) -> Cost:
        """What these inputs cost, where there is no obstacle."""

    def prepare(self, kernel, X) -> Solver:
        """The solver with what it has to know of these inputs, which are looked at as numbers."""
        return self

    @abstractmethod
    def factor(self, kernel, X, noise, observed=None) -> Factor:
        """k(X) + noise I, factored. Raises NotPositiveDefiniteError, but not under `jax.jit`."""

    def mean(
        self, kernel, part: str | None, X, noise, r, weights, X_new, observed=None
    ) -> Float[Array, " m"]:
        """The mean of f, or of a component of it, at X_new given the residuals r at X.

        weights'k(X, X_new), the weights being (k(X) + noise I)^-1 r, of which exact solvers need
        no r.
        """
        return weights @ part_of(kernel, part).evaluate(X, X_new)

    def variance(
        self, kernel, part: str | None, X, noise, factor: Factor, X_new, observed=None
    ) -> Float[Array, " m"]:
        """The variance of f, or of a component of it, at X_new given the values at X.

        Rasmussen and Williams (2006), algorithm 2.1.
        """
        kernel = part_of(kernel, part)
        whitened = factor.whiten(cross_covariance(kernel, X, X_new, observed))
        return kernel.evaluate_diag(X_new) - jnp.sum(jnp.square(whitened), axis=0)

    def covariance(
        self, kernel, part: str | None, X, noise, factor: Factor, X_new, observed=None
    ) -> Float[Array, "m m"]:
        """The joint covariance of f, or of a component of it, at X_new given the values at X."""
        validation.joint_points(len(X_new))
        kernel = part_of(kernel, part)
        whitened = factor.whiten(cross_covariance(kernel, X, X_new, observed))
        return kernel.evaluate(X_new) - whitened.T @ whitened

    def deviations(
        self, kernel, part: str | None, X, noise, factor: Factor, X_new, key, size, observed=None
    ) -> Float[Array, "size m"]:
        """Joint draws of f, or of a component, at X_new given the values at X, less the mean."""
        joint = self.covariance(kernel, part, X, noise, factor, X_new, observed)
        return draw(joint, key, size)

    def loss(self, kernel, X, noise, observed=None) -> float:
        """What the log density loses to the approximation, on average per point; 0 if exact."""
        return 0.0

    @abstractmethod
    def multiply(self, kernel, X, noise, b, observed=None) -> Float[Array, " n"]:
        """(k(X) + noise I) b, b (n,), or the matrix near it of an approximate solver times b."""

    @abstractmethod
    def log_density(self, kernel, X, noise, R, observed=None) -> Float[Array, "..."]:
        """log N(r; 0, k(X) + noise I) of each row r of R (..., n), 0 where it is not observed.

        -inf, with a gradient of 0, where the matrix is not positive definite.
        """


def cross_covariance(kernel, X, X_new, observed=None) -> Float[Array, "n m"]:
    """k(X, X_new), with rows of zeros where nothing is observed."""
    K = kernel.evaluate(X, X_new)
    return K if observed is None else jnp.where(observed[:, None], K, 0.0)
