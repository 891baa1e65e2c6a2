"""Schedule of the filter for measured rows: order of starts and ends."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from bayeskern.core.validation import is_traced
from bayeskern.kernels.measured.kernel import RowArrays, RowKinds
from bayeskern.kernels.state_space.space import StateSpace
from bayeskern.linalg.factor import AnyArray
from bayeskern.linalg.markov.factor import ObservedProcess, take
from bayeskern.linalg.markov.steps import MeasuredSteps

# Times that differ by less than this number of rounding errors count as equal.
MAX_ROUNDING_ERRORS = 4.0


class Schedule(eqx.Module):
    """Order of the N steps of the filter for n measured rows of one input.

    Each row is observed in one step, an interval at its end. An interval starts between two steps.
    If intervals start at several times between two rows, there are more steps, which observe
    nothing.

    Attributes:
        order: Row that each step observes, n for none, shape (N,).
        start: Row of an interval that starts just before the step, n for none, shape (N,).
        observing: Steps that observe a row, shape (n,).
        is_interval: Mask of the rows with a slot, shape (n,).
        open_before: 1.0 for slots that are open from the last step to `start`, shape (N, K).
        open_after: 1.0 for slots that are open from `start` to the step, shape (N, K).
        slots: 1.0 for the slot that the step observes, shape (N, K).
        spans_starts: Whether an interval is open when another one starts; static.
    """

    order: jax.Array
    start: jax.Array
    observing: jax.Array
    is_interval: jax.Array
    open_before: jax.Array
    open_after: jax.Array
    slots: jax.Array
    spans_starts: bool = eqx.field(static=True)

    @property
    def n_slots(self) -> int:
        """Number of slots K: the largest number of intervals open at the same time."""
        return self.slots.shape[1]

    @classmethod
    def of(cls, X: AnyArray) -> Schedule:
        """Schedule of rows X (n, 2, 2), which are known numbers."""
        rows, is_start, is_interval = _events(X)
        n, lower = len(is_interval), np.asarray(X)[:, 0, 0]
        # A start belongs to the next step. It is a step of its own if a start at a different time
        # follows, or if it is the last start before the first row.
        another = is_start[:-1] & is_start[1:] & (lower[rows[:-1]] != lower[rows[1:]])
        is_step = ~is_start
        is_step[:-1] |= another
        first_row = int(np.argmax(~is_start))
        if first_row > 0:
            is_step[first_row - 1] = True
        step = np.cumsum(is_step) - is_step
        N = int(np.sum(is_step))
        order, start = np.full(N, n), np.full(N, n)
        order[step[~is_start]] = rows[~is_start]
        start[step[is_start]] = rows[is_start]
        slot, n_slots = _slots(rows, is_start, is_interval)
        opened, closed = np.zeros((N, n_slots)), np.zeros((N, n_slots))
        ends = ~is_start & is_interval[rows]
        opened[step[is_start], slot[rows[is_start]]] = 1.0
        closed[step[ends], slot[rows[ends]]] = 1.0
        still_open = np.cumsum(opened - closed, axis=0)
        before = np.concatenate([np.zeros((1, n_slots)), still_open[:-1]])
        masks = before, before + opened, closed
        arrays = order, start, np.flatnonzero(order < n), is_interval, *masks
        return cls(*map(jnp.asarray, arrays), spans_starts=bool(np.any(before[start < n])))

    def process(
        self,
        space: StateSpace,
        kinds: RowKinds,
        X: AnyArray,
        noise: ArrayLike,
        observed: AnyArray | None = None,
    ) -> ObservedProcess:
        """Process observed in measured rows.

        Args:
            space: State-space model of the process.
            kinds: Kinds of the rows.
            X: Rows, shape (n, 2, 2), which may be traced.
            noise: Noise variance, a number or shape (n,).
            observed: Mask of the observed rows, shape (n,); None for all.
        """
        n = len(self.is_interval)
        observed = jnp.ones(n) if observed is None else jnp.asarray(observed, float)
        return ObservedProcess(
            space=space,
            steps=self.steps(kinds, X),
            noise=take(jnp.broadcast_to(noise, n), self.order),
            observed=take(observed, self.order),
            order=self.order,
            with_rows=self.observing,
        )

    def steps(self, kinds: RowKinds, X: AnyArray) -> MeasuredSteps:
        """Steps of the filter at rows X (n, 2, 2), which may be traced.

        Derivatives with respect to X are correct for changes that keep equal times equal.
        """
        rows = RowArrays.of(jnp.asarray(X))
        lower, side = rows.lower[:, 0], rows.sides[:, 0]
        end, rest = _sum(lower, side)
        observes, starts = self.order < len(lower), self.start < len(lower)
        # Each time is a sum of two numbers: short intervals at late times keep their digits.
        t = jnp.where(observes, take(end, self.order), take(lower, self.start))
        t_rest = take(rest, self.order)
        s = jnp.where(starts[1:], take(lower, self.start)[1:], t[:-1])
        s_rest = jnp.where(starts[1:], 0.0, t_rest[:-1])
        gap = (s - t[:-1]) + (s_rest - t_rest[:-1])
        d = (t[1:] - s) + (t_rest[1:] - s_rest)
        is_point, is_slope = ~self.is_interval, rows.is_derivative
        per_side = rows.factor / jnp.where(self.is_interval, side, 1.0)
        return MeasuredSteps(
            t=t,
            gap=_to_next(jnp.where(gap > 0.0, gap, 0.0)),
            d=_to_next(jnp.where(d > 0.0, d, 0.0)),
            open_before=_to_next(self.open_before[1:]),
            open_after=_to_next(self.open_after[1:]),
            value=take(jnp.where(is_point & ~is_slope, rows.factor, 0.0), self.order),
            slope=take(jnp.where(is_point & is_slope, rows.factor, 0.0), self.order),
            slots=self.slots * take(per_side, self.order)[:, None],
            spans_starts=self.spans_starts,
            has_derivatives=kinds.has_derivatives,
            nodes=kinds.nodes,
        )

    def may_be_of(self, X: AnyArray) -> bool:
        """True unless rows X (n, 2, 2) are known to have another schedule."""
        if len(self.is_interval) != X.shape[0]:
            return False
        if is_traced(X) or is_traced(self.order) or isinstance(X, jax.ShapeDtypeStruct):
            return True
        # Under `jit`, JAX would trace known rows too.
        with jax.ensure_compile_time_eval():
            other = Schedule.of(X)
        pairs = (self.order, other.order), (self.start, other.start)
        return all(np.array_equal(ours, theirs) for ours, theirs in pairs)


def count_slots(X: AnyArray) -> int:
    """Largest number of intervals of rows X (n, 2, 2) that are open at the same time."""
    rows, is_start, is_interval = _events(X)
    return _largest_overlap(rows, is_start, is_interval)


def _events(X: AnyArray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Starts of intervals and ends of rows, sorted in time.

    Returns:
        Row of each event, whether the event is a start, and the mask (n,) of the rows that are
        intervals.
    """
    lower, side = np.asarray(X)[:, :, 0].T
    rounding = MAX_ROUNDING_ERRORS * np.finfo(float).eps * (np.abs(lower) + side)
    # An interval shorter than its rounding error counts as a value.
    is_interval = side > rounding
    n, intervals = len(lower), np.flatnonzero(is_interval)
    # At equal times, up to rounding, ends come before starts: both intervals can share a slot.
    ends = np.where(is_interval, lower + side - rounding, lower)
    times = np.concatenate([ends, lower[intervals]])
    rows, is_start = np.concatenate([np.arange(n), intervals]), np.arange(len(times)) >= n
    order = np.lexsort((is_start, times))
    return rows[order], is_start[order], is_interval


def _largest_overlap(rows, is_start, is_interval) -> int:
    change = np.where(is_start, 1, -1) * is_interval[rows]
    return int(np.max(np.cumsum(change), initial=0))


def _slots(rows, is_start, is_interval) -> tuple[np.ndarray, int]:
    """Slot of each row, not shared while its interval is open; number of slots."""
    n_slots = _largest_overlap(rows, is_start, is_interval)
    slot = np.zeros(len(is_interval), int)
    if n_slots <= 1:
        return slot, n_slots
    free, has_slot = list(range(n_slots)), is_interval[rows]
    for row, starts in zip(rows[has_slot].tolist(), is_start[has_slot].tolist(), strict=True):
        if starts:
            slot[row] = free.pop()
        else:
            free.append(int(slot[row]))
    return slot, n_slots


def _sum(a: jax.Array, b: jax.Array) -> tuple[jax.Array, jax.Array]:
    """a + b and its rounding error.

    Knuth (1998), "The Art of Computer Programming", section 4.2.2.
    """
    total = a + b
    b_rounded = total - a
    return total, (a - (total - b_rounded)) + (b - b_rounded)


def _to_next(x: jax.Array) -> jax.Array:
    """Rows (N - 1, ...), and a row of zeros."""
    return jnp.concatenate([x, jnp.zeros((1, *x.shape[1:]))])
