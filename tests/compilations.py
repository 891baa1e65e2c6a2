"""Compilations of this process: one event for each program that XLA has compiled."""

import jax

compilations: list[str] = []
jax.monitoring.register_event_duration_secs_listener(
    lambda event, seconds, **_: compilations.append(event) if "backend_compile" in event else None
)
