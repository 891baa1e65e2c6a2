"""What a model offers that knows more than its density: its posterior, or its marginal."""

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


class Marginal(NamedTuple):
    """What `marginal(*data)` returns: a model with latents integrated out, or moved to better axes.

    model, args: what the backends run. recover: (draws, key, mean) -> draws of every site of the
    full model, given those of this one, each (S, shape); with `mean` the conditional mean of what
    was integrated out, else a draw of it.
    """

    model: Callable
    args: tuple
    recover: Callable[[dict, jax.Array, bool], dict]


class DoesNotApplyError(ValueError):
    """A method does not apply to this model; the message says why, and what to take instead."""


class NoClosedFormError(DoesNotApplyError):
    """The model has no closed form as it stands; the message says why."""
