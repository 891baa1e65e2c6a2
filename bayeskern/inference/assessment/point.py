"""Verdict on a point estimate."""

from __future__ import annotations

from bayeskern.inference.result import Fit
from bayeskern.inference.search.modes import Optimum
from bayeskern.inference.verdict import Trust


def assess_optimum(posterior: Fit) -> Trust:
    """Verdict on a posterior that is the best mode of its search."""
    assert posterior.optimum is not None
    return assess_point(posterior.optimum)


def assess_point(optimum: Optimum) -> Trust:
    """Verdict on a point estimate: bad for an invalid optimum, otherwise not assessable."""
    problem = optimum.problem()
    if problem:
        return Trust("bad", problem, optimum.evidence())
    remarks = f"{optimum.remarks} " if optimum.remarks else ""
    if optimum.starts == 1:
        remarks += "One search was made: several (starts=4) would show whether it is the highest. "
    advice = (
        f"{remarks}The optimum is valid, but a point estimate ignores the uncertainty of the "
        "parameters: intervals based on it are too narrow."
    )
    return Trust("not assessable", advice, optimum.evidence())
