"""Stage of a group of chains: states, metrics, draws and transitions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import jax
import jax.numpy as jnp
import numpy as np

from bayeskern.inference.mcmc.kernel import ChainState, InitialPoint, Transitions
from bayeskern.inference.mcmc.metric import Metric
from bayeskern.inference.mcmc.warmup import RecentDraws, final_steps, has_settled, recent_count

# Steps before which the warmup does not end early.
MIN_WARMUP_STEPS = 100


@dataclass(frozen=True)
class Stage:
    """Stage of a chain, or of several chains that run together by vmap.

    Attributes:
        states: State of each chain.
        metrics: Metric of each chain.
        estimates: Metric of least Fisher divergence of each chain, which `metrics` widen.
        recent: Recent draws of each chain in its warmup.
        warmup: Steps of the warmup; fewer than planned once all metrics have settled.
        last_window: End of the last window.
        settled: Number of window ends in a row at which all metrics had settled.
        together: True for chains that run together.
        leapfrog_steps: Leapfrog steps of all chains so far, one gradient each.
        done: Steps of the warmup, and draws after it, so far.
        rows: Transitions after warmup, stretch by stretch, (chains, n, ...) each.
    """

    states: tuple[ChainState, ...]
    metrics: tuple[Metric, ...]
    estimates: tuple[Metric, ...]
    recent: tuple[RecentDraws, ...]
    warmup: int
    last_window: int = 0
    settled: int = 0
    together: bool = False
    leapfrog_steps: int = 0
    done: int = 0
    rows: tuple[Transitions, ...] = ()

    @classmethod
    def at(cls, point: InitialPoint, metric: Metric, key: jax.Array, warmup: int) -> Self:
        """Stage of a chain at its start."""
        empty = np.zeros((0, len(point.z)))
        state = ChainState.at(point, metric, key)
        return cls((state,), (metric,), (metric,), (RecentDraws(empty, empty),), warmup)

    @classmethod
    def of_all(cls, stages: list[Self]) -> Self:
        """Stage of several chains that run together."""
        parts = [(s.states, s.metrics, s.estimates, s.recent) for s in stages]
        members = (sum(part, ()) for part in zip(*parts, strict=True))
        return cls(*members, warmup=stages[0].warmup, together=True)

    @property
    def chains(self) -> int:
        """Number of chains."""
        return len(self.states)

    @property
    def stacked(self) -> tuple[ChainState, Metric]:
        """State and metric, with a leading axis of chains if they run together."""
        if not self.together:
            return self.states[0], self.metrics[0]
        return _stacked(self.states), _stacked(self.metrics)

    def by_chain(self, values: np.ndarray | jax.Array) -> np.ndarray:
        """Values with a leading axis of chains."""
        array = np.asarray(values)
        return array if self.together else array[None]

    def after_warmup(self, state: ChainState, rows: Transitions, gradients: np.ndarray) -> Stage:
        """Stage after steps of the warmup.

        Args:
            state: State after the steps, stacked.
            rows: Transitions of the steps, (chains, n, ...).
            gradients: Gradients of -log p at these draws, (chains, n, d).
        """
        recent = tuple(
            draws.joined(z, g) for draws, z, g in zip(self.recent, rows.z, gradients, strict=True)
        )
        return replace(self._after(state, rows), recent=recent)

    def after_draws(self, state: ChainState, rows: Transitions) -> Stage:
        """Stage after draws with transitions (chains, n, ...)."""
        return replace(self._after(state, rows), rows=(*self.rows, rows))

    def with_new_metrics(self) -> Stage:
        """Stage with metrics estimated from recent draws; the warmup may then end early."""
        recent = tuple(draws.last(recent_count(self.done)) for draws in self.recent)
        estimates = tuple(
            draws.update(metric) for draws, metric in zip(recent, self.estimates, strict=True)
        )
        metrics = tuple(
            draws.widen(metric) for draws, metric in zip(recent, estimates, strict=True)
        )
        # The estimates decide, because wider metrics are noisier and settle later.
        settled = self.settled + 1 if all(map(has_settled, self.estimates, estimates)) else 0
        warmup = self.warmup
        if settled >= 2 and self.done >= MIN_WARMUP_STEPS:
            warmup = min(warmup, self.done + final_steps(warmup))
        states = tuple(
            state.moved(old, new)
            for state, old, new in zip(self.states, self.metrics, metrics, strict=True)
        )
        return replace(
            self,
            states=states,
            metrics=metrics,
            estimates=estimates,
            recent=recent,
            warmup=warmup,
            last_window=self.done,
            settled=settled,
        )

    def without_recent_draws(self) -> Stage:
        """Stage after the warmup, whose draws are no longer needed."""
        return replace(self, recent=tuple(draws.last(0) for draws in self.recent))

    def before_draws(self) -> Stage:
        """Stage at the last window end, from which only the step size adapts."""
        states = tuple(
            state.moved(metric, metric)
            for state, metric in zip(self.states, self.metrics, strict=True)
        )
        return replace(self, states=states, done=self.last_window, rows=())

    def with_rows(self, rows: Transitions, index: int) -> Stage:
        """Stage whose transitions are views of the transitions of all chains.

        Args:
            rows: Transitions of all chains, (chains, draws, ...).
            index: Index of this stage among the stages.
        """
        own = slice(None) if self.together else slice(index, index + 1)
        return replace(self, rows=(Transitions(*(x[own] for x in rows)),))

    def _after(self, state: ChainState, rows: Transitions) -> Stage:
        states = (state,)
        if self.together:
            states = tuple(jax.tree.map(lambda x, i=i: x[i], state) for i in range(self.chains))
        return replace(
            self,
            states=states,
            leapfrog_steps=self.leapfrog_steps + int(np.sum(rows.n_steps)),
            done=self.done + rows.z.shape[1],
        )


def joined_rows(stages: list[Stage]) -> Transitions:
    """Transitions after warmup of all chains, (chains, draws, ...)."""
    return Transitions.joined([Transitions.joined(s.rows, axis=1) for s in stages], axis=0)


def divergent_draws(stages: Sequence[Stage]) -> np.ndarray:
    """True for divergent draws so far of all chains, (number of draws,)."""
    parts = [np.ravel(rows.diverging) for stage in stages for rows in stage.rows]
    return np.concatenate([np.zeros(0, bool), *parts])


def _stacked[Tree](trees: tuple[Tree, ...]) -> Tree:
    return jax.tree.map(lambda *leaves: jnp.stack([jnp.asarray(x) for x in leaves]), *trees)
