"""A made-up table of learned quantities, so that tests do not depend on the shipped one."""

from bayeskern.forecast.model.kernels import TRENDS
from bayeskern.forecast.model.learned import Growth, Learned, Reliability, Weighing, Width
from bayeskern.forecast.model.structure import Choices

# Location and scale of the logarithm, for steps of size one.
PRIORS = {
    "trend.level.variance": (-1.4, 1.3),
    "trend.slope.lengthscale": (1.6, 1.1),
    "trend.slope.variance": (-3.9, 1.6),
    "trend.drift.variance": (-4.1, 1.4),
    "trend.memory.lengthscale": (1.3, 1.2),
    "trend.memory.variance": (-0.9, 1.0),
    "trend.bend.lengthscale": (2.6, 0.9),
    "trend.bend.variance": (0.2, 1.5),
    "cycles.long.rbf.lengthscale": (3.1, 1.0),
    "cycles.long.rbf.variance": (-1.1, 1.2),
    "cycles.long.cosine.period": (4.8, 0.8),
    "cycles.short.rbf.lengthscale": (1.2, 0.9),
    "cycles.short.rbf.variance": (-0.8, 1.1),
    "cycles.short.cosine.period": (3.4, 0.7),
    "season.size.constant.variance": (-0.7, 1.2),
    "season.size.brownian.variance": (-5.8, 1.3),
    "season.seasonal.lengthscale": (-0.6, 0.9),
    "noise": (-1.6, 1.3),
}
INTERCEPTS = {
    "slope": 0.4, "drift": 0.1, "reverting": -0.3, "smooth": -0.2,
    "slope log": 0.2, "drift log": 0.3, "reverting log": -0.1, "smooth log": -0.4,
}  # fmt: skip
WEIGHING = Weighing(
    INTERCEPTS, by_evidence=0.2, by_evidence_on_scale=0.1, by_error=4.5, half_count=50.0
)
WIDTH = Width(
    log_scale=0.1, prior_count=120.0, half_life=40.0, degrees=6.0, widening=0.2, horizon=9,
    past_scale=0.9,
)  # fmt: skip
RELIABILITY = Reliability(intercept=-1.2, by_lost_share=0.8, by_log_gap=-0.6)
GROWTH = Growth(intercept=-0.5, by_roughness=0.7)
TABLE = Learned({trend: PRIORS for trend in TRENDS}, WEIGHING, GROWTH, WIDTH, RELIABILITY)


def choices_for(**options) -> Choices:
    """Choices by the made-up table, of a local level with drift without seasons unless given."""
    known = {"trends": ("drift",), "seasons": {}, "logs": (False,), "learned": TABLE}
    return Choices(**(known | options))
