"""The verdict on particles: do the islands agree, are enough independent, is a mode left out?"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from bayeskern.core.scalars import scalar_columns
from bayeskern.inference.approximation.proposals import Approximation, Sample
from bayeskern.inference.approximation.psis import pareto_smooth, weighted_difference
from bayeskern.inference.assessment.approximation import (
    ENOUGH,
    HOPELESS,
    Difference,
    difference_advice,
    differences_evidence,
    is_reliable,
    missed_advice,
    too_different,
    with_places,
)
from bayeskern.inference.assessment.clusters import effective_sizes
from bayeskern.inference.assessment.convergence import (
    ESS,
    ESS_OF_USE,
    advice_if_not_finite,
    advice_if_running_away,
    varies,
)
from bayeskern.inference.assessment.density_tail import density_tail
from bayeskern.inference.assessment.modes import missed_modes
from bayeskern.inference.assessment.overdispersed import OverdispersedSample, overdispersed_sample
from bayeskern.inference.assessment.tails import heavy_tail_advice
from bayeskern.inference.estimate import Estimate
from bayeskern.inference.verdict import Trust, effective

# The share of the particles that may not have moved at the last temperature, and the least mean
# acceptance probability there.
MAX_UNMOVED, MIN_ACCEPTANCE = 0.1, 0.4
# The standard error of the log marginal likelihood from which the shares of islands mean little.
MAX_LOG_EVIDENCE_ERROR, HOPELESS_LOG_EVIDENCE_ERROR = 0.5, 1.0
# The change of a mean, in sds, or of a log sd by the moves at the last temperature that is of no
# account, and the one that means a posterior without an integral.
MAX_DRIFT, HOPELESS_DRIFT = 0.1, 0.5
# The column that stands for the log density beside the numbers of the sites.
LOG_DENSITY = "log density"


@dataclass(frozen=True, eq=False)
class ParticleRecord:
    """Ancestry, densities and moves of the draws of a particle sampler.

    Attributes:
        ancestors: Number of the ancestor of each draw, (S,).
        islands: Number of the island of each draw, (S,).
        log_density: log p of each draw, (S,).
        log_evidence: Log marginal likelihood, with its standard error.
        acceptance: Mean acceptance probability at the last temperature.
        unmoved: Share of the particles that did not move there.
        exhausted: True where the moves there ended at their largest number.
        before: Each draw before the moves there, in unconstrained coordinates, (S, d).
        temperature: The last temperature; 1 where the posterior was reached.
        temperatures: Number of temperatures.
        evaluations: Gradients of the log density, over all particles.
        start: The start distribution.
        first: Its draws, with their densities.
    """

    ancestors: np.ndarray
    islands: np.ndarray
    log_density: np.ndarray
    log_evidence: Estimate
    acceptance: float
    unmoved: float
    exhausted: bool
    before: np.ndarray
    temperature: float
    temperatures: int
    evaluations: int
    start: Approximation
    first: Sample


def assess_particles(posterior, record: ParticleRecord) -> Trust:
    """Assess equally weighted draws of a particle sampler, over all sites.

    Good asks for what good chains have: 400 effective draws of every number in bulk and tails. With
    K islands, R-hat of their means is about sqrt(1 + K / ESS), so that R-hat below 1.01 for eight
    islands is the same condition. Weighted draws of the start distribution, of a wider Student t
    and of the prior must agree with the particles wherever their weights can be relied on.
    """
    names, x = scalar_columns(posterior.flat)
    varying = varies(x[None])
    evidence = _convergence(names, x, varying, record) | {
        "ancestors": len(np.unique(record.ancestors)),
        "log_evidence_error": record.log_evidence.error,
        "acceptance": record.acceptance,
        "unmoved": record.unmoved,
        "temperatures": record.temperatures,
        "gradients": record.evaluations,
        "constants_left_out": int(np.sum(~varying)),
    }
    missed = missed_modes(posterior, record.first, record.log_evidence.value)
    evidence |= {"modes_missed": len(missed)} | posterior.optimum.search_evidence
    broken = (
        advice_if_not_finite(names, x[None])
        or advice_if_running_away(posterior.fitted_target.coordinates, posterior.z)
        or _unfinished(record)
        or (missed_advice(len(missed)) if missed else None)
    )
    if broken:
        return Trust("bad", broken, evidence)
    drift = _drift(posterior, record, evidence)
    differences, wider = _compared(posterior, record, evidence)
    tail = heavy_tail_advice(
        names,
        x,
        evidence,
        min(1.0, evidence["ess_tail"] / len(x)),
        partial(density_tail, posterior),
    )
    verdicts = [drift, _on_differences(differences, evidence), _on_particles(evidence)]
    if tail:
        verdicts.append(Trust("caution", tail, evidence))
    good = (
        "The islands of particles agree, and weighted draws from around them do not contradict: "
        "means, sds and quantiles can be used."
    )
    order = ("bad", "caution")
    problems = sorted(filter(None, verdicts), key=lambda trust: order.index(trust.verdict))
    trust = problems[0] if problems else Trust("good", good, evidence)
    return with_places(replace(trust, evidence=evidence), posterior, wider)


def _convergence(names, x, varying, record: ParticleRecord) -> dict:
    """The worst effective sample sizes, and where they are; the log density is one of the numbers.

    Components of different widths at one place change no mean if their shares are wrong, but the
    log density.
    """
    columns = [*(n for n, v in zip(names, varying, strict=True) if v), LOG_DENSITY]
    both = np.column_stack([x[:, varying], record.log_density])
    evidence = {}
    if not np.all(np.isfinite(both)):
        return {"ess_bulk": 0.0, "ess_bulk_at": names[0], "ess_tail": 0.0, "ess_tail_at": names[0]}
    sizes = effective_sizes(both, record.ancestors, record.islands)
    for what, values in zip(("ess_bulk", "ess_tail"), sizes, strict=True):
        # A constant has as many as there are draws; NaN is the worst of all otherwise.
        at = int(np.argmin(np.where(np.isnan(values), -np.inf, values)))
        evidence[what], evidence[f"{what}_at"] = float(values[at]), columns[at]
    return evidence


def _drift(posterior, record: ParticleRecord, evidence: dict) -> Trust | None:
    """The verdict where moves at the last temperature changed the distribution of the particles.

    Reweighted particles have the distribution of the posterior already, and moves leave it as it
    is. A posterior without an integral has none, and particles spread for as long as they move.
    """
    shift = weighted_difference(record.before, posterior.z[0])
    changes = np.nan_to_num(np.maximum(shift.mean, shift.log_sd), nan=np.inf)
    at = int(np.argmax(changes))
    name = posterior.fitted_target.coordinates[at]
    evidence |= {"drift": float(changes[at]), "drift_at": name, "exhausted": record.exhausted}
    if not changes[at] < MAX_DRIFT:
        advice = (
            f"The particles still spread at the posterior, most along {name}: it may have no "
            "integral, or tails that the start distribution does not reach. Give every site a "
            "proper prior, or take more particles."
        )
        return Trust("caution" if changes[at] < HOPELESS_DRIFT else "bad", advice, evidence)
    if record.exhausted:
        advice = "The moves ended before the particles had moved far enough: raise max_moves."
        return Trust("caution", advice, evidence)
    return None


def _compared(
    posterior, record: ParticleRecord, evidence: dict
) -> tuple[list[Difference], OverdispersedSample]:
    """The draws against weighted draws of the start distribution and of a wider sample."""
    target, z = posterior.fitted_target, posterior.z[0]
    names, delivered = scalar_columns(posterior.fitted_draws)
    some = Sample(*(part[:ENOUGH] for part in record.first))
    wider = overdispersed_sample(
        target, record.start, some, z, min(len(z), ENOUGH), posterior.progress
    )
    numbers = scalar_columns(wider.draws)[1]
    own = pareto_smooth(record.first.log_p - record.first.log_q)
    evidence |= {"start_khat": own.khat, "start_ess": own.ess}
    evidence |= {"wider_khat": wider.weights.khat, "wider_ess": wider.weights.ess}
    differences = []
    if is_reliable(wider.weights):
        shift = weighted_difference(delivered, numbers, y_weights=wider.weights.normal)
        ess = min(wider.weights.ess, evidence["ess_bulk"])
        differences.append(Difference(shift, ess))
        evidence |= differences_evidence(names, wider.weights, differences)
    return differences, wider


def _on_differences(differences: list[Difference], evidence: dict) -> Trust | None:
    """The verdict where reliable weighted draws differ from the particles."""
    wrong = too_different(evidence) if differences else []
    if not wrong:
        return None
    bad = any(not evidence[what] < most for what, most in HOPELESS.items())
    return Trust("bad" if bad else "caution", difference_advice(wrong, evidence), evidence)


def _on_particles(e: dict) -> Trust | None:
    """The verdict where the particles are too few, too alike or did not move."""
    part = "bulk" if e["ess_bulk"] <= e["ess_tail"] else "tail"
    size, at = e[f"ess_{part}"], e[f"ess_{part}_at"]
    error = e["log_evidence_error"]
    # Comparisons are written so that NaN fails them.
    if not (size >= ESS and error < MAX_LOG_EVIDENCE_ERROR):
        of_use = size >= ESS_OF_USE and error < HOPELESS_LOG_EVIDENCE_ERROR
        advice = (
            f"The islands of particles disagree, or few particles are independent: "
            f"{effective(size)} in the {part} of {at}, log marginal likelihood ± {error:.2g}. Take "
            "more particles, or method='nuts' where there is one mode."
        )
        return Trust("caution" if of_use else "bad", advice, e)
    if not (e["unmoved"] < MAX_UNMOVED and e["acceptance"] > MIN_ACCEPTANCE):
        advice = (
            f"{100.0 * e['unmoved']:.0f} % of the particles did not move at the last temperature "
            f"(acceptance {e['acceptance']:.2g}), so that details may be missing: raise max_moves, "
            "or take more particles."
        )
        return Trust("caution", advice, e)
    return None


def _unfinished(record: ParticleRecord) -> str | None:
    if record.temperature == 1.0:
        return None
    return (
        f"The particles did not reach the posterior: after {record.temperatures} temperatures they "
        f"are at {record.temperature:.2g} of the way. The density may have no bound; give it "
        "tighter priors."
    )
