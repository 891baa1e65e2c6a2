"""The verdict on draws from an approximation: do they differ from the posterior itself?

The draws are weighted by p / q. k-hat says whether those weights can be believed; if they can, the
weighted draws show what the delivered ones, which is what people will use, have got wrong. Draws of
q alone cannot show what lies outside of q, so others are drawn from a wider Student t and from the
prior, and weighted together with them.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
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
from bayeskern.inference.assessment.density_tail import density_tail
from bayeskern.inference.assessment.overdispersed import OverdispersedSample, overdispersed_sample
from bayeskern.inference.assessment.tails import heavy_tail_advice
from bayeskern.inference.findings import Findings
from bayeskern.inference.model.cost import is_costly
from bayeskern.inference.optimization.modes import Optimum
from bayeskern.inference.verdict import Trust, effective

# The effective draws that a good approximation has, and the fewest that say anything. With k-hat
# above UNSTEADY the weights have no variance, so that their effective draws are overestimated.
LEAST_ESS, FEWEST_ESS = 400, 100
UNSTEADY, LEAST_IF_UNSTEADY = 0.5, 1000
# What a good approximation may differ by, in every number of every site, chance included: means by
# a quarter of an sd, sds by a quarter of themselves (as the log of their ratio). With 400 effective
# draws two standard errors leave 0.15 sd of it.
MOST = {"mean_shift": 0.25, "log_sd_ratio": float(np.log(1.25)), "ks": 0.1}
ERRORS = {"mean_shift": 2.0, "log_sd_ratio": np.sqrt(2.0), "ks": 0.0}
# How many draws of a density that costs much are weighed first, and how many where those leave it
# open; and the k-hat of few of them that more would not mend.
FEW, ENOUGH, BEYOND_DOUBT = 512, 2048, 1.0
# Beyond these it is bad.
HOPELESS_KHAT = 0.7
HOPELESS = {"mean_shift": 0.5, "log_sd_ratio": 0.5, "ks": 0.3}
# Differences beyond these are shown as such: a larger number says no more.
MAX_SHIFT_SDS, MAX_SD_FACTOR = 100.0, 10.0
# Draws of most weight in a wider sample, which are places for chains to visit.
MAX_PLACES = 20

CORRECT = "Correct it by bk.ImportanceSampling(proposal=this posterior), or take method='nuts'."


class Difference(NamedTuple):
    """How delivered draws differ from weighted ones, and how many effective draws show it.

    shift: for each number of each site.
    """

    shift: Shift
    ess: float


def assess_approximation(posterior, problem: str | None = None, doubt: str | None = None) -> Trust:
    """Assess equally weighted draws from a known density q.

    problem: what went wrong on the way, if anything, which makes the verdict bad; doubt: what makes
    it caution at best.
    """
    if problem:
        # Such draws may overflow whatever is computed from them.
        optimum = posterior.optimum
        return Trust("bad", problem, {} if optimum is None else optimum.evidence())
    count, target = posterior.z.shape[1], posterior.fitted_target
    if count <= FEW or not is_costly(target):
        sample = Sample(posterior.z[0], posterior.log_p, posterior.log_q)
        return _assess(posterior, sample, doubt)
    # A density that takes milliseconds is not asked for at thousands of draws, and at half as many
    # again around them, where a few hundred decide.
    for most in (FEW, min(ENOUGH, count)):
        z, log_q = posterior.z[0, :most], posterior.log_q[:most]
        trust = _assess(posterior, Sample(z, posterior.log_p_of_first(most), log_q), doubt)
        if trust.verdict == "good" or _more_cannot_help(trust.evidence):
            break
    return replace(trust, evidence={**trust.evidence, "draws_weighed": len(z)})


def _more_cannot_help(evidence: dict) -> bool:
    """Whether what FEW draws show would not be good if ENOUGH showed it."""
    error = evidence["error"]
    # A distance of distribution functions is overestimated by few draws.
    less = evidence | {"error": error * np.sqrt(FEW / ENOUGH), "ks": evidence["ks"] - error}
    return bool(
        evidence.get("modes_missed") or evidence["khat"] > BEYOND_DOUBT or too_different(less)
    )


def _assess(posterior, sample: Sample, doubt: str | None) -> Trust:
    """The verdict from draws of q, all of the posterior's or the first of them."""
    names, delivered = scalar_columns(posterior.fitted_draws)
    log_ratios = sample.log_p - sample.log_q
    own_weights, weighed = pareto_smooth(log_ratios), delivered[: len(log_ratios)]
    own_difference = Difference(
        weighted_difference(weighed, weighed, y_weights=own_weights.normal), own_weights.ess
    )
    wider, wide_difference = _against_overdispersed(posterior, sample, delivered, len(sample.z))
    wide_weights = wider.weights
    # Weights that cannot be relied on measure nothing, where there are others; but a density that
    # is NaN somewhere is no matter of reliance.
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
    }
    evidence |= {
        "elbo": float(np.mean(log_ratios)),
        "log_evidence_is": own_weights.log_evidence.value,
    }
    missed = _missed(posterior, evidence)
    shape = (
        f"The posterior has another shape than these draws (k-hat {evidence['khat']:.2g}, "
        f"{effective(evidence['ess_of_weights'])} after weighting). Take method='nuts'."
    )
    good = "Weighting these draws by the posterior's density changes next to nothing."
    # Where the wider sample can be relied on, it alone decides: it covers these draws too, while
    # minimizing KL(q || p) makes the tails of q a little too thin, and so its own k-hat large.
    deciding = [wide_weights] if wide_decides else [own_weights, wide_weights]
    trust = (
        _hopeless(evidence, missed, shape, deciding)
        or _caution(evidence, deciding, doubt)
        or _heavy(posterior, evidence)
        or Trust("good", good, evidence)
    )
    return with_places(trust, posterior, wider)


def assess_weighted(
    posterior,
    sample: Sample,
    weights: Weights,
    distinct: int,
    moved: str | None = None,
) -> Trust:
    """Assess draws that were resampled from a weighted sample of `posterior.approximation`.

    distinct: how many of them differ; moved: the coordinate whose estimate still changed in the
    last round of adaptation, if one did.
    """
    names, delivered = scalar_columns(posterior.fitted_draws)
    evidence = {
        "khat": weights.khat,
        "khat_threshold": weights.threshold,
        "ess_of_weights": weights.ess,
        "distinct_draws": int(distinct),
    }
    missed = _missed(posterior, evidence)
    few = (
        f"A few draws carry all the weight (k-hat {weights.khat:.2g}, {effective(weights.ess)}): "
        "the proposal does not fit. Take more rounds (adapt=), a flow (proposal='svi'), or "
        "method='nuts'."
    )
    verdict = _hopeless(evidence, missed, few, [weights])
    if verdict:
        return verdict
    around = len(sample.z)
    if is_costly(posterior.fitted_target):
        around = min(around, ENOUGH)
    wider, wide_difference = _against_overdispersed(posterior, sample, delivered, around)
    wide_weights = wider.weights
    wide_difference = wide_difference._replace(ess=min(wide_difference.ess, weights.ess))
    evidence = {**differences_evidence(names, weights, [wide_difference]), **evidence}
    evidence |= {"wider_khat": wide_weights.khat, "wider_ess": wide_weights.ess}
    trust = _on_weighted(posterior, [weights, wide_weights], distinct, moved, evidence)
    return with_places(trust, posterior, wider)


def _on_weighted(
    posterior, both: list[Weights], distinct: int, moved: str | None, evidence: dict
) -> Trust:
    """The verdict on resampled draws from their weights and those of a wider sample."""
    weights, wide_weights = both
    elsewhere = (
        f"A wider look finds mass where there are no draws (k-hat {wide_weights.khat:.2g}, "
        f"{effective(wide_weights.ess)}). Take method='nuts'."
    )
    verdict = _hopeless(evidence, [], elsewhere, [wide_weights]) or _caution(
        evidence, [wide_weights]
    )
    if verdict:
        return verdict
    if moved:
        evidence["still_changing"] = moved
        advice = (
            f"The estimates, most at {moved}, still change from round to round: take more rounds "
            "(adapt=) or method='nuts'."
        )
        return Trust("caution", advice, evidence)
    if not (is_reliable(weights) and distinct >= LEAST_ESS):
        advice = (
            f"Only {effective(weights.ess)} ({distinct} distinct): enough for means, too few for "
            "tails. Take more draws."
        )
        return Trust("caution", advice, evidence)
    good = "The weights are even enough: means, sds and quantiles of these draws can be used."
    return _heavy(posterior, evidence) or Trust("good", good, evidence)


def still_changing(before, after, coordinates) -> str | None:
    """The coordinate whose mean or sd changed from one round to the next by more than chance.

    before, after: the sample and its weights, of each round.
    """
    (first, w0), (last, w1) = before, after
    shift = weighted_difference(first.z, last.z, w0.normal, w1.normal)
    noise = 3.0 * np.sqrt(1.0 / w0.ess + 1.0 / w1.ess)
    for values, most in ((shift.mean, MOST["mean_shift"]), (shift.log_sd, MOST["log_sd_ratio"])):
        values = np.where(np.isnan(values), np.inf, values)
        if np.max(values) > most + noise:
            return coordinates[int(np.argmax(values))]
    return None


# -- pieces ----------------------------------------------------------------------------------------


def _against_overdispersed(
    posterior, sample, delivered, count
) -> tuple[OverdispersedSample, Difference]:
    """A wider sample, `count` around the draws, and how these differ from it."""
    q, z, progress = posterior.approximation, posterior.z[0], posterior.progress
    wider = overdispersed_sample(posterior.fitted_target, q, sample, z, count, progress)
    numbers, weights = scalar_columns(wider.draws)[1], wider.weights
    shift = weighted_difference(delivered, numbers, y_weights=weights.normal)
    return wider, Difference(shift, weights.ess)


def differences_evidence(names, own: Weights, differences: list[Difference]) -> dict:
    """k-hat and effective draws of q's own weights, and the worst difference of each kind."""
    evidence = {"khat": own.khat, "khat_threshold": own.threshold, "ess_of_weights": own.ess}
    for i, what in enumerate(MOST):
        values = np.max([d.shift[i] for d in differences], axis=0)
        # NaN is the worst of all.
        at = int(np.argmax(np.where(np.isnan(values), np.inf, values)))
        evidence[what], evidence[f"{what}_at"] = float(values[at]), names[at]
    evidence["error"] = float(1.0 / np.sqrt(min(d.ess for d in differences)))
    return evidence


def _missed(posterior, evidence) -> list[Optimum]:
    """The modes that the draws do not cover; what is known of the search goes into evidence."""
    if not posterior.findings.searches:
        return []
    missed = posterior.findings.missed(posterior.fitted_target.coordinates, posterior.z[0])
    evidence["modes_missed"] = len(missed)
    if posterior.optimum is not None:
        evidence |= posterior.optimum.search_evidence
    return missed


def with_places(trust: Trust, posterior, wider: OverdispersedSample) -> Trust:
    """The verdict with the heaviest draws of a wider sample, which refute it, among its findings.

    A verdict that is not bad has no use for them: they would only cost visits.
    """
    if trust.verdict != "bad":
        return trust
    coordinates = posterior.fitted_target.coordinates
    return replace(trust, findings=Findings.at(coordinates, wider.heaviest(MAX_PLACES)))


def missed_advice(count: int) -> str:
    """Advice where draws do not cover some modes that a search found."""
    verb = "lies" if count == 1 else "lie"
    return (
        f"{counted(count, 'mode')} that a search found {verb} where there are no draws. Take "
        "method='nuts', or 'importance', which starts from all of them."
    )


def is_reliable(weights: Weights) -> bool:
    """Whether weights can be relied on; with an unknown k-hat (NaN) they cannot."""
    least = LEAST_ESS if weights.khat < UNSTEADY else LEAST_IF_UNSTEADY
    return bool(weights.khat < weights.threshold and weights.ess >= least)


def _hopeless(evidence, missed, advice, weights: list[Weights]) -> Trust | None:
    """`bad` where modes are missed or weights are useless, the latter with this advice."""
    if missed:
        return Trust("bad", missed_advice(len(missed)), evidence)
    # Comparisons are written so that NaN fails them.
    if not all(w.khat < HOPELESS_KHAT and w.ess >= FEWEST_ESS for w in weights):
        return Trust("bad", advice, evidence)
    return None


def _caution(evidence, weights: list[Weights], doubt: str | None = None) -> Trust | None:
    """`caution`, or `bad` for a large difference, where something keeps the draws from `good`."""
    wrong = too_different(evidence)
    if wrong:
        bad = any(not evidence[w] < most for w, most in HOPELESS.items())
        return Trust("bad" if bad else "caution", difference_advice(wrong, evidence), evidence)
    if not all(is_reliable(w) for w in weights):
        worst = max(weights, key=lambda w: np.inf if np.isnan(w.khat) else w.khat)
        advice = (
            f"The weights are too uneven to be sure (k-hat {worst.khat:.2g}, {effective(worst.ess)}"
            f"): the tails may be too thin. {CORRECT}"
        )
        return Trust("caution", advice, evidence)
    return Trust("caution", doubt, evidence) if doubt else None


def too_different(evidence) -> list[str]:
    """The differences, keys of MOST, that are too large or not known well enough to be good."""
    error = evidence["error"]
    return [w for w, most in MOST.items() if not evidence[w] + ERRORS[w] * error < most]


def difference_advice(wrong, evidence) -> str:
    """Advice on the worst of the differences in `wrong`, which are keys of MOST."""
    # The difference that exceeds its limit by the largest factor, infinite ones first. A shift
    # moves the distribution functions by that factor too: the shape must be clearly worse.
    clearly = {"ks": 0.8}
    what = max(
        wrong,
        key=lambda w: np.nan_to_num(clearly.get(w, 1.0) * evidence[w] / MOST[w], nan=np.inf),
    )
    size, at = evidence[what], evidence[f"{what}_at"]
    if not np.isfinite(size):
        return (
            f"{at} is not finite in some draws, or has no spread: nothing can be said of it. Look "
            "at what the model computes there."
        )
    if what == "ks":
        says = "The moments match but the shape does not" if wrong == ["ks"] else "The shape is off"
        return (
            f"{says}, most at {at} (distance of the distribution functions {size:.2g}): trust "
            f"means and sds, not intervals. {CORRECT}"
        )
    if what == "mean_shift":
        off = f"{size:.2g} sd" if size < MAX_SHIFT_SDS else f"more than {MAX_SHIFT_SDS:.0f} sds"
        return f"The mean of {at} is off by {off}. {CORRECT}"
    off = f"more than a factor of {MAX_SD_FACTOR:.0f}"
    if size < np.log(MAX_SD_FACTOR):
        off = f"{100.0 * np.expm1(size):.0f} %"
    return f"The sd of {at} is off by {off}. {CORRECT}"


def _heavy(posterior, evidence) -> Trust | None:
    names, delivered = scalar_columns(posterior.fitted_draws)
    density = partial(density_tail, posterior)
    advice = heavy_tail_advice(names, delivered, evidence, density=density)
    return Trust("caution", advice, evidence) if advice else None
