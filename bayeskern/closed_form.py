"""A posterior in closed form, as a model offers it from `exact(*data)`."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax


class ClosedForm(NamedTuple):
    """What `exact(*data)` returns.

    draw: (key, n) -> independent draws, each site (n, shape); log_evidence: log p(data); residual:
    the relative residual of the linear solve behind it, 0 where there was none.
    """

    draw: Callable[[jax.Array, int], dict]
    log_evidence: float
    residual: float = 0.0


class NoClosedFormError(ValueError):
    """The model has no closed form as it stands; the message says why."""
