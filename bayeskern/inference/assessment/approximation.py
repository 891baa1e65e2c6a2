"""Verdict on draws from an approximation q of a posterior p.

The draws are weighted by p / q. Pareto k-hat says whether the weights are reliable. Reliable
weighted draws measure the errors of the plain, unweighted draws, which are the result of a fit.
Draws of q cannot show mass outside q. Therefore further draws come from a wider Student t and from
the prior, and all draws are weighted together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from bayeskern.core.formatting import counted
from bayeskern.core.scalars import scalar_columns
from bayeskern.inference.approximation.proposals import Sample
from bayeskern.inference.approximation.psis import (
    Shift,
    Weights,
    pareto_smooth,
    weighted_difference,
)
from bayeskern.inference.assessment.overdispersed import OverdispersedSample, overdispersed_sample
from bayeskern.inference.assessment.tails import heavy_tail_caution, unreached_tail
from bayeskern.inference.findings import Findings
from bayeskern.inference.model.cost import is_costly
from bayeskern.inference.result import Fit
from bayeskern.inference.search.modes import Optimum
from bayeskern.inference.verdict import Trust, effective, worst_entry

# Fewest effective draws of reliable weights.
GOOD_WEIGHT_ESS = 400
# First number of draws weighted if the density is costly.
FIRST_WEIGHTED_DRAWS = 512
# Largest number of draws weighted if the density is costly or the first do not decide; SMC and the
# check of predictions weight no more draws of any density.
MAX_WEIGHTED_DRAWS = 2048
# k-hat of the first draws above which more draws would not help.
DECISIVE_KHAT = 1.0


class DifferenceLimit(NamedTuple):
    """Limits on one kind of difference between plain and weighted draws.

    Attributes:
        good: Largest difference of good draws, sampling error included.
        bad: Smallest difference of bad draws.
        error: Sampling error that is added to a difference, times sqrt(effective draws).
    """

    good: float
    bad: float
    error: float


# Differences of means, in sds, and of log sds, and the Kolmogorov-Smirnov distance. With 400
# effective draws, two standard errors of a mean are 0.1 sd: means may differ by 0.15 sd.
DIFFERENCE_LIMITS = {
    "mean_shift": DifferenceLimit(0.25, 0.5, 2.0),
    "log_sd_ratio": DifferenceLimit(float(np.log(1.25)), 0.5, float(np.sqrt(2.0))),
    "ks": DifferenceLimit(0.1, 0.3, 0.0),
}
REMEDY = "Correct it by bk.ImportanceSampling(proposal=this posterior), or take method='nuts'."


class Difference(NamedTuple):
    """Difference between delivered and weighted draws.

    Attributes:
        shift: Difference of each number of each site.
        ess: Effective number of the weighted draws.
    """

    shift: Shift
    ess: float


def assess_approximation(
    posterior: Fit, problem: str | None = None, doubt: str | None = None
) -> Trust:
    """Verdict on equally weighted draws from a known density q.

    Args:
        posterior: The draws, with log q of each.
        problem: Failure of the fit, which makes the verdict bad.
        doubt: Doubt about the fit, which makes the verdict caution at best.

    Returns:
        The verdict.
    """
    if problem:
        # Draws of a failed fit may overflow in any computation.
        optimum = posterior.optimum
        return Trust("bad", problem, {} if optimum is None else optimum.evidence())
    log_q, count = posterior.log_q, posterior.z.shape[1]
    assert log_q is not None
    if count <= FIRST_WEIGHTED_DRAWS or not is_costly(posterior.fitted_target):
        sample = Sample(posterior.z[0], posterior.log_p_of_first(count), log_q)
        return _assess(posterior, sample, doubt)
    # A few hundred evaluations of a costly density often decide.
    trust, n = None, 0
    for n in (FIRST_WEIGHTED_DRAWS, min(MAX_WEIGHTED_DRAWS, count)):
        log_p = posterior.log_p_of_first(n)
        trust = _assess(posterior, Sample(posterior.z[0, :n], log_p, log_q[:n]), doubt)
        if trust.verdict == "good" or _is_decisive(trust.evidence):
            break
    assert trust is not None
    return replace(trust, evidence={**trust.evidence, "draws_weighed": n})


def _is_decisive(evidence: dict) -> bool:
    """True if the verdict would not be good with more draws and the same differences."""
    error = evidence["error"]
    # Few draws overestimate the distance of distribution functions.
    with_more_draws = evidence | {
        "error": error * np.sqrt(FIRST_WEIGHTED_DRAWS / MAX_WEIGHTED_DRAWS),
        "ks": evidence["ks"] - error,
    }
    return bool(
        evidence.get("modes_missed")
        or evidence["khat"] > DECISIVE_KHAT
        or too_different(with_more_draws)
    )


def _assess(posterior: Fit, sample: Sample, doubt: str | None) -> Trust:
    """Verdict from a sample of q: all draws of the posterior, or the first draws."""
    names, delivered = scalar_columns(posterior.fitted_draws)
    log_ratios = sample.log_p - sample.log_q
    own_weights, plain = pareto_smooth(log_ratios), delivered[: len(log_ratios)]
    own_shift = weighted_difference(plain, plain, y_weights=own_weights.normal)
    own_difference = Difference(own_shift, own_weights.ess)
    if is_hopeless(own_weights.khat, posterior.fitted_target.size):
        evidence = differences_evidence(names, own_weights, [own_difference])
        evidence |= {"own_khat": own_weights.khat, "elbo": float(np.mean(log_ratios))}
        missed = _missed(posterior, evidence)
        return Trust("bad", missed_advice(len(missed)) if missed else _shape(evidence), evidence)
    wider, wide_difference = _against_overdispersed(posterior, sample, delivered, len(sample.z))
    wide_weights = wider.weights
    # If only the wider weights are reliable, they decide, unless the density is NaN at own draws.
    wide_decides = is_reliable(wide_weights) and not np.isnan(own_weights.khat)
    only_wide = wide_decides and not is_reliable(own_weights)
    evidence = differences_evidence(
        names, own_weights, [wide_difference] if only_wide else [own_difference, wide_difference]
    )
    if only_wide:
        evidence |= {"khat": wide_weights.khat, "ess_of_weights": wide_weights.ess}
    evidence |= {
        "own_khat": own_weights.khat,
        "wider_khat": wide_weights.khat,
        "wider_ess": wide_weights.ess,
        "elbo": float(np.mean(log_ratios)),
        "log_evidence_is": own_weights.log_evidence.value,
    }
    missed = _missed(posterior, evidence)
    good = (
        "Weighting these draws by the posterior's density changes no mean by more than "
        f"{evidence['mean_shift']:.2g} sd."
    )
    # A reliable wider sample decides alone, because it covers these draws too. Minimising
    # KL(q || p) makes the tails of q a little too thin, which suffices for a large k-hat of q.
    deciding = [wide_weights] if wide_decides else [own_weights, wide_weights]
    trust = (
        _useless(evidence, missed, _shape(evidence), deciding)
        or _caution(evidence, deciding, doubt)
        or unreached_tail(posterior, names, delivered, evidence)
        or heavy_tail_caution(posterior, names, delivered, evidence)
        or Trust("good", good, evidence)
    )
    return with_places(trust, posterior, wider)


# Number of coordinates up to which a wider sample, or a correction, can help draws with a decisive
# k-hat.
MAX_CORRECTABLE_SIZE = 10


def is_hopeless(khat: float, size: int) -> bool:
    """True if weights in many coordinates have no mean: further weighted draws would not help."""
    return khat > DECISIVE_KHAT and size > MAX_CORRECTABLE_SIZE


def _shape(evidence: dict) -> str:
    """Advice if draws have another shape than the posterior."""
    return (
        f"The posterior has another shape than these draws (k-hat {evidence['khat']:.2g}, "
        f"{effective(evidence['ess_of_weights'])} after weighting). Take method='nuts'."
    )


@dataclass(frozen=True, eq=False)
class WeightedAssessment:
    """Assessment of draws that were resampled from weighted draws of an approximation.

    Attributes:
        sample: The weighted draws.
        weights: Their weights.
        distinct: Number of distinct draws among the resampled draws.
        changing: Coordinate whose estimate still changed in the last round of adaptation.
    """

    sample: Sample
    weights: Weights
    distinct: int
    changing: str | None = None

    def __call__(self, posterior: Fit) -> Trust:
        """Verdict on the resampled draws."""
        sample, weights = self.sample, self.weights
        names, delivered = scalar_columns(posterior.fitted_draws)
        evidence = {
            "khat": weights.khat,
            "khat_threshold": weights.threshold,
            "ess_of_weights": weights.ess,
            "distinct_draws": self.distinct,
        }
        missed = _missed(posterior, evidence)
        uneven = (
            f"A few draws carry all the weight (k-hat {weights.khat:.2g}, "
            f"{effective(weights.ess)}): the proposal does not fit. Take more rounds (adapt=), a "
            "flow (proposal='svi'), or method='nuts'."
        )
        trust = _useless(evidence, missed, uneven, [weights])
        if trust:
            return trust
        count = len(sample.z)
        if is_costly(posterior.fitted_target):
            count = min(count, MAX_WEIGHTED_DRAWS)
        wider, difference = _against_overdispersed(posterior, sample, delivered, count)
        difference = difference._replace(ess=min(difference.ess, weights.ess))
        evidence = {**differences_evidence(names, weights, [difference]), **evidence}
        evidence |= {"wider_khat": wider.weights.khat, "wider_ess": wider.weights.ess}
        outside = (
            f"A wider sample finds mass where there are no draws (k-hat {wider.weights.khat:.2g}, "
            f"{effective(wider.weights.ess)}). Take method='nuts'."
        )
        good = "The weights are even enough: means, sds and quantiles of these draws can be used."
        trust = (
            _useless(evidence, [], outside, [wider.weights])
            or _caution(evidence, [wider.weights])
            or _unsettled(evidence, weights, self.distinct, self.changing)
            or unreached_tail(posterior, names, delivered, evidence)
            or heavy_tail_caution(posterior, names, delivered, evidence)
            or Trust("good", good, evidence)
        )
        return with_places(trust, posterior, wider)


def _unsettled(
    evidence: dict, weights: Weights, distinct: int, changing: str | None
) -> Trust | None:
    """`caution` if the adaptation did not settle or too few draws carry weight."""
    if changing:
        evidence["still_changing"] = changing
        advice = (
            f"The estimates, most at {changing}, still change from round to round: take more "
            "rounds (adapt=) or method='nuts'."
        )
        return Trust("caution", advice, evidence)
    if is_reliable(weights) and distinct >= GOOD_WEIGHT_ESS:
        return None
    advice = (
        f"Only {effective(weights.ess)} ({distinct} distinct): enough for means, too few for "
        "tails. Take more draws."
    )
    return Trust("caution", advice, evidence)


def still_changing(
    before: tuple[Sample, Weights], after: tuple[Sample, Weights], coordinates: Sequence[str]
) -> str | None:
    """Coordinate whose mean or sd changed between two rounds by more than sampling error.

    Args:
        before: Sample and weights of the earlier round.
        after: Sample and weights of the later round.
        coordinates: Name of each coordinate.

    Returns:
        The name of the coordinate that changed most, or None.
    """
    (first, first_weights), (last, last_weights) = before, after
    shift = weighted_difference(first.z, last.z, first_weights.normal, last_weights.normal)
    noise = 3.0 * np.sqrt(1.0 / first_weights.ess + 1.0 / last_weights.ess)
    for kind, values in (("mean_shift", shift.mean), ("log_sd_ratio", shift.log_sd)):
        values = np.where(np.isnan(values), np.inf, values)
        if np.max(values) > DIFFERENCE_LIMITS[kind].good + noise:
            return coordinates[int(np.argmax(values))]
    return None


# -- parts of a verdict ----------------------------------------------------------------------------


def _against_overdispersed(
    posterior: Fit, sample: Sample, delivered: np.ndarray, count: int
) -> tuple[OverdispersedSample, Difference]:
    """A wider sample with `count` draws of a Student t, and its difference from the draws."""
    q, z, progress = posterior.approximation, posterior.z[0], posterior.progress
    wider = overdispersed_sample(posterior.fitted_target, q, sample, z, count, progress)
    numbers, weights = scalar_columns(wider.draws)[1], wider.weights
    shift = weighted_difference(delivered, numbers, y_weights=weights.normal)
    return wider, Difference(shift, weights.ess)


def differences_evidence(
    names: Sequence[str], own: Weights, differences: Sequence[Difference]
) -> dict:
    """k-hat and effective draws of q's own weights, and the worst difference of each kind."""
    evidence = {"khat": own.khat, "khat_threshold": own.threshold, "ess_of_weights": own.ess}
    for i, kind in enumerate(DIFFERENCE_LIMITS):
        evidence |= worst_entry(kind, np.max([d.shift[i] for d in differences], axis=0), names)
    evidence["error"] = float(1.0 / np.sqrt(min(d.ess for d in differences)))
    return evidence


def _missed(posterior: Fit, evidence: dict) -> list[Optimum]:
    """Modes that the draws do not cover; adds facts about the search to the evidence."""
    if not posterior.findings.searches:
        return []
    missed = posterior.findings.missed(posterior.fitted_target.coordinates, posterior.z[0])
    evidence["modes_missed"] = len(missed)
    if posterior.optimum is not None:
        evidence |= posterior.optimum.search_evidence
    return missed


# Number of heaviest draws that chains visit after a bad verdict.
MAX_VISITED_DRAWS = 20


def with_places(trust: Trust, posterior: Fit, wider: OverdispersedSample) -> Trust:
    """Add the heaviest draws of a wider sample to a bad verdict, as findings.

    Other verdicts are returned unchanged: findings would only cost visits. So are those whose
    weights have no mean: then the heaviest draws are far from the others by chance.
    """
    if trust.verdict != "bad" or not wider.weights.khat < 1.0:
        return trust
    coordinates = posterior.fitted_target.coordinates
    return replace(trust, findings=Findings.at(coordinates, wider.heaviest(MAX_VISITED_DRAWS)))


def missed_advice(count: int) -> str:
    """Advice if draws do not cover some modes that a search found."""
    verb = "lies" if count == 1 else "lie"
    return (
        f"{counted(count, 'mode')} that a search found {verb} where there are no draws. Take "
        "method='nuts' or 'smc', or 'importance' with a proposal at each mode."
    )


# Share of the weight beyond the largest weight below which the shape of the tail does not matter:
# at a distance of four sds this share moves a mean by 0.08 sd and a log sd by 0.14.
MAX_UNSEEN_SHARE = 0.02
# k-hat at and above which weights have no variance, so that their effective draws are
# overestimated, and fewest effective draws of reliable weights with such a k-hat.
HEAVY_WEIGHT_KHAT, GOOD_HEAVY_WEIGHT_ESS = 0.5, 1000


def is_reliable(weights: Weights) -> bool:
    """True if weights are reliable; False if k-hat is unknown (NaN)."""
    heavy = not weights.khat < HEAVY_WEIGHT_KHAT
    min_ess = GOOD_HEAVY_WEIGHT_ESS if heavy else GOOD_WEIGHT_ESS
    is_light = weights.khat < weights.threshold or weights.unseen < MAX_UNSEEN_SHARE
    return bool(is_light and weights.ess >= min_ess)


# k-hat at and above which, and effective draws below which, weights are useless.
MAX_WEIGHT_KHAT, MIN_WEIGHT_ESS = 0.7, 100


def is_useless(weights: Weights) -> bool:
    """True if weights carry no information, or k-hat is unknown (NaN)."""
    is_light = weights.khat < MAX_WEIGHT_KHAT or weights.unseen < MAX_UNSEEN_SHARE
    return not (is_light and weights.ess >= MIN_WEIGHT_ESS)


def _useless(
    evidence: dict, missed: list[Optimum], advice: str, weights: list[Weights]
) -> Trust | None:
    """`bad` if modes are missed, or with `advice` if some weights are useless."""
    if missed:
        return Trust("bad", missed_advice(len(missed)), evidence)
    return Trust("bad", advice, evidence) if any(map(is_useless, weights)) else None


def _caution(evidence: dict, weights: list[Weights], doubt: str | None = None) -> Trust | None:
    """`caution` for differences, unreliable weights or a doubt; `bad` for large differences."""
    trust = difference_verdict(evidence)
    if trust:
        return trust
    if not all(map(is_reliable, weights)):
        worst = max(weights, key=lambda w: np.inf if np.isnan(w.khat) else w.khat)
        advice = (
            f"The weights are too uneven to be sure (k-hat {worst.khat:.2g}, {effective(worst.ess)}"
            f"): the tails may be too thin. {REMEDY}"
        )
        return Trust("caution", advice, evidence)
    return Trust("caution", doubt, evidence) if doubt else None


def difference_verdict(evidence: dict, remedy: str = REMEDY) -> Trust | None:
    """`bad` or `caution` if plain and weighted draws differ; otherwise None."""
    kinds = too_different(evidence)
    if not kinds:
        return None
    bad = any(not evidence[kind] < limit.bad for kind, limit in DIFFERENCE_LIMITS.items())
    return Trust("bad" if bad else "caution", difference_advice(kinds, evidence, remedy), evidence)


def too_different(evidence: dict) -> list[str]:
    """Kinds of difference, keys of DIFFERENCE_LIMITS, that are too large or too uncertain."""
    return [
        kind
        for kind, limit in DIFFERENCE_LIMITS.items()
        if not evidence[kind] + limit.error * evidence["error"] < limit.good
    ]


def difference_advice(kinds: Sequence[str], evidence: dict, remedy: str = REMEDY) -> str:
    """Advice on the worst of several kinds of difference, keys of DIFFERENCE_LIMITS."""

    def excess(kind: str) -> float:
        """Difference in units of its limit, infinite for NaN."""
        # A shift also moves the distribution functions, so the shape is named only if its excess
        # is clearly larger.
        scale = 0.8 if kind == "ks" else 1.0
        return np.nan_to_num(scale * evidence[kind] / DIFFERENCE_LIMITS[kind].good, nan=np.inf)

    worst = max(kinds, key=excess)
    size, name = evidence[worst], evidence[f"{worst}_at"]
    if not np.isfinite(size):
        return (
            f"{name} is not finite in some draws, or has no spread, so it cannot be assessed. "
            "Check how the model computes it."
        )
    if worst == "ks":
        only_shape = list(kinds) == ["ks"]
        start = "The moments match but the shape does not" if only_shape else "The shape is off"
        use = "trust means and sds, not intervals" if only_shape else "do not use intervals"
        return (
            f"{start}, most at {name} (distance of the distribution functions {size:.2g}): {use}. "
            f"{remedy}"
        )
    # The exact size of a large difference does not matter.
    if worst == "mean_shift":
        shown = f"{size:.2g} sd" if size < 100.0 else "more than 100 sds"
        return f"The mean of {name} is off by {shown}. {remedy}"
    shown = f"{100.0 * np.expm1(size):.0f} %" if size < np.log(10.0) else "more than a factor of 10"
    return f"The sd of {name} is off by {shown}. {remedy}"
