"""Verdict on a point estimate."""

from __future__ import annotations

from bayeskern.inference.optimization.modes import Optimum
from bayeskern.inference.verdict import Trust


def assess_point(optimum: Optimum) -> Trust:
    """`bad` for an unsound optimum, else `not assessable`, since a point has no spread."""
    problem = optimum.problem()
    if problem:
        return Trust("bad", problem, optimum.evidence())
    advice = (
        "A sound optimum, but a point carries no uncertainty about the hyperparameters: "
        "intervals built on it are somewhat too narrow."
    )
    return Trust("not assessable", advice, optimum.evidence())
