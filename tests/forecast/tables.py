"""A made-up table of learned quantities, so that tests do not depend on the shipped one."""

from bayeskern.forecast.model.learned import (
    LOG,
    Growth,
    IntervalWidth,
    Learned,
    Reliability,
    StructureWeights,
)
from bayeskern.forecast.model.structure import StructureChoices
from bayeskern.forecast.model.trends import HYPERPARAMETERS, TRENDS
from tests.forecast.trend_cases import CASES

# Location and scale of the logarithm, for steps of size one.
PRIORS = {name: (h.location + 0.1, 0.9 * h.scale) for name, h in HYPERPARAMETERS.items()}
INTERCEPTS = {
    trend + log: intercept
    for trend, case in CASES.items()
    for log, intercept in zip(("", LOG), case.intercepts, strict=True)
}
WEIGHING = StructureWeights(
    INTERCEPTS, by_evidence=0.2, by_evidence_on_scale=0.1, by_error=4.5, half_count=50.0
)
WIDTH = IntervalWidth(
    log_scale=0.1, prior_count=120.0, half_life=40.0, degrees=6.0, widening=0.2, horizon=9,
    past_scale=0.9,
)  # fmt: skip
RELIABILITY = Reliability(intercept=-1.2, by_lost_share=0.8, by_log_gap=-0.6)
GROWTH = Growth(intercept=-0.5, by_roughness=0.7)
TABLE = Learned({trend: PRIORS for trend in TRENDS}, WEIGHING, GROWTH, WIDTH, RELIABILITY)


def choices_for(**options) -> StructureChoices:
    """Choices by the made-up table, of a local level with drift without seasons unless given."""
    known = {"trends": ("drift",), "seasons": {}, "logs": (False,), "learned": TABLE}
    return StructureChoices(**(known | options))
