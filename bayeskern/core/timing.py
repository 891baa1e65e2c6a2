"""Wall time of a fit, split into compilation and run."""

from __future__ import annotations

import time
from typing import Self

import jax

_COMPILATION_EVENTS = (
    "/jax/core/compile/jaxpr_trace_duration",
    "/jax/core/compile/jaxpr_to_mlir_module_duration",
    "/jax/core/compile/backend_compile_duration",
)
_running: list[Stopwatch] = []


class Stopwatch:
    """Context manager that times a block, split into compilation and run.

    `with Stopwatch() as watch: ...` fills watch.seconds: {"compile": s, "run": s, "total": s}.
    Compilation is the time that JAX reports for tracing, lowering and compiling.
    """

    def __enter__(self) -> Self:
        self.seconds: dict[str, float] = {}
        self._spans, self._start = [], time.perf_counter()
        _running.append(self)
        return self

    def __exit__(self, *exc: object) -> None:
        _running.remove(self)
        # Traces are nested and run on several threads: overlapping spans count once.
        compiling, covered = 0.0, self._start
        for start, end in sorted(self._spans):
            compiling += max(0.0, end - max(start, covered))
            covered = max(covered, end)
        total = time.perf_counter() - self._start
        self.seconds |= {"compile": compiling, "run": total - compiling, "total": total}

    def add_compilation(self, duration: float) -> None:
        """Count a compilation that has just ended."""
        end = time.perf_counter()
        self._spans.append((end - duration, end))


def _listen(event: str, duration_secs: float, **_: str | int) -> None:
    if event in _COMPILATION_EVENTS:
        for watch in list(_running):
            watch.add_compilation(duration_secs)


jax.monitoring.register_event_duration_secs_listener(_listen)
