"""Steps of the Kalman filter: at points in time, or at measured rows.

An interval needs one more number in the state: the integral of f since the start of the interval.
Intervals that overlap need one such number each, a slot, and an interval takes a free slot at its
start. The filter observes the interval at its end.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Self

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from bayeskern.kernels.state_space.blocks import Repeated, Weighted
from bayeskern.kernels.state_space.bordered import Bordered, BorderedCovariance, bordered
from bayeskern.kernels.state_space.space import StateSpace

Transition = Repeated | Bordered
Noise = Weighted | BorderedCovariance


class Steps(eqx.Module):
    """N steps of a filter, sorted in time; or one step, without the axis N.

    Attributes:
        t: Times, shape (N,).
    """

    t: eqx.AbstractVar[jax.Array]

    @abstractmethod
    def size(self, space: StateSpace) -> int:
        """Size of the state of the filter."""

    @abstractmethod
    def transition(self, space: StateSpace) -> tuple[Transition, Noise]:
        """Transition matrix A and noise covariance Q from one step to the next."""

    @abstractmethod
    def h(self, space: StateSpace) -> Float[Array, " s"]:
        """Coefficients of the state in the value at one step."""

    @abstractmethod
    def prior(self, space: StateSpace, P: jax.Array) -> Float[Array, "s s"]:
        """Prior covariance of the state at one step.

        P: the covariance by propagation from the step before.
        """

    def initial(self, space: StateSpace) -> Float[Array, "s s"]:
        """Covariance of the state at the first of N steps; NaN if a term starts later."""
        first: Self = jax.tree.map(lambda x: x[0], self)
        P = first.prior(space, jnp.zeros((self.size(space),) * 2))
        for start in space.starts:
            P = jnp.where(first.t >= start, P, jnp.nan)
        return P


class PointSteps(Steps):
    """Steps at points in time.

    Attributes:
        t: Times, shape (N,).
        d: Times to the next step, 0 for the last, shape (N,).
    """

    t: jax.Array
    d: jax.Array

    @classmethod
    def at(cls, t: jax.Array) -> PointSteps:
        """Steps at sorted times (N,)."""
        return cls(t, jnp.diff(t, append=t[-1:]))

    def size(self, space: StateSpace) -> int:
        return space.size

    def transition(self, space: StateSpace) -> tuple[Transition, Noise]:
        return space.step(self.t, self.d)

    def h(self, space: StateSpace) -> jax.Array:
        return space.h(self.t)

    def prior(self, space: StateSpace, P: jax.Array) -> jax.Array:
        return space.covariance(self.t)


class MeasuredSteps(Steps):
    """Steps at measured rows: values, derivatives, and means over intervals.

    The state is (x, z), with the state x of the process and K slots z. If new intervals start
    between two steps, the process moves over `gap`; their slots become 0; and it moves over `d`.
    Otherwise `gap` is 0.

    Attributes:
        t: Times, shape (N,).
        gap: Times to the start of new intervals, shape (N,).
        d: Times from there to the next step, shape (N,).
        open_before: 1.0 for slots whose interval covers the gap, otherwise 0.0, shape (N, K).
        open_after: 1.0 for slots whose interval covers `d`, shape (N, K).
        value: Coefficient of f in the value, shape (N,).
        slope: Coefficient of the derivative of f, shape (N,).
        slots: Coefficients of the slots, shape (N, K).
        spans_starts: Whether an interval is open when another one starts; static.
        has_derivatives: Whether some row is a derivative; static.
        nodes: Gauss-Legendre nodes for integrals without closed form; static.
    """

    t: jax.Array
    gap: jax.Array
    d: jax.Array
    open_before: jax.Array
    open_after: jax.Array
    value: jax.Array
    slope: jax.Array
    slots: jax.Array
    spans_starts: bool = eqx.field(static=True)
    has_derivatives: bool = eqx.field(static=True)
    nodes: int = eqx.field(static=True)

    @property
    def n_slots(self) -> int:
        """Number of slots K."""
        return self.slots.shape[-1]

    def size(self, space: StateSpace) -> int:
        return space.size + self.n_slots

    def transition(self, space: StateSpace) -> tuple[Transition, Noise]:
        if self.n_slots == 0:
            return space.step(self.t, self.gap + self.d)
        start = self.t + self.gap
        parts = (
            space.step(self.t, self.gap),
            space.step(start, self.d),
            space.integral(start, self.d, self.nodes),
        )
        # The barrier keeps XLA from computing each part several times.
        (A, Q), (B, R), after = jax.lax.optimization_barrier(parts)
        # The state moves from x to y = A x + w, and to B y + v; the integral of f over the second
        # part is b'y + e = b'A x + b'w + e.
        b, mask = after.coefficients, self.open_after
        Qb = Q.times(b)
        G = jnp.outer(mask, A.T.times(b))
        cross = jnp.outer(B.times(Qb) + after.covariance, mask)
        corner = (b @ Qb + after.variance) * jnp.outer(mask, mask)
        if self.spans_starts:
            # The integral over the gap is a'x + g.
            before, mask_before = space.integral(self.t, self.gap, self.nodes), self.open_before
            G = G + jnp.outer(mask_before, before.coefficients)
            cross = cross + jnp.outer(B.times(before.covariance), mask_before)
            both = (b @ before.covariance) * jnp.outer(mask_before, mask)
            variance = before.variance * jnp.outer(mask_before, mask_before)
            corner = corner + variance + both + both.T
        return bordered(
            Bordered(B.after(A), G, self.open_before),
            BorderedCovariance(Q.propagated(B, R), cross, corner),
        )

    def h(self, space: StateSpace) -> jax.Array:
        h = self.value * space.h(self.t)
        if self.has_derivatives:
            h = h + self.slope * space.slope(self.t)
        return jnp.concatenate([h, self.slots])

    def prior(self, space: StateSpace, P: jax.Array) -> jax.Array:
        s = space.size
        return P.at[:s, :s].set(space.covariance(self.t))
