"""The contract that every factored covariance matrix follows."""

from __future__ import annotations

from abc import abstractmethod

import equinox as eqx
import jax
from jaxtyping import Array, Float


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
