"""How long a fit took, and how much of that was compilation."""

from __future__ import annotations

import time

import jax

_COMPILATION_EVENTS = (
    "/jax/core/compile/jaxpr_trace_duration",
    "/jax/core/compile/jaxpr_to_mlir_module_duration",
    "/jax/core/compile/backend_compile_duration",
)
_running: list[Stopwatch] = []


class Stopwatch:
    """`with Stopwatch() as watch: ...` fills watch.seconds: {"compile": s, "run": s, "total": s}.

    Compilation is the time that JAX reports for tracing, lowering and compiling.
    """

    def __enter__(self):
        self.seconds: dict[str, float] = {}
        self._spans, self._start = [], time.perf_counter()
        _running.append(self)
        return self

    def __exit__(self, *exc):
        _running.remove(self)
        # Traces are nested and run on several threads: count the time that they cover once.
        compiling, covered = 0.0, self._start
        for start, end in sorted(self._spans):
            compiling += max(0.0, end - max(start, covered))
            covered = max(covered, end)
        total = time.perf_counter() - self._start
        self.seconds |= {"compile": compiling, "run": total - compiling, "total": total}

    def add(self, duration: float) -> None:
        """Count a compilation that has just ended."""
        end = time.perf_counter()
        self._spans.append((end - duration, end))


def _listen(event: str, duration: float, **_) -> None:
    if event in _COMPILATION_EVENTS:
        for watch in list(_running):
            watch.add(duration)


jax.monitoring.register_event_duration_secs_listener(_listen)
