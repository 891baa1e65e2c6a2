"""The verdict on a single point: a sound optimum, but without a spread."""

from __future__ import annotations

from bayeskern.inference.optimization.modes import Optimum
from bayeskern.inference.verdict import Trust


def assess_point(optimum: Optimum) -> Trust:
    """`not assessable` where the optimum is sound, since a point has no spread; else `bad`."""
    problem = optimum.problem()
    if problem:
        return Trust("bad", problem, optimum.evidence())
    advice = (
        "A sound optimum, but a point carries no uncertainty about the hyperparameters: "
        "intervals built on it are somewhat too narrow."
    )
    return Trust("not assessable", advice, optimum.evidence())
