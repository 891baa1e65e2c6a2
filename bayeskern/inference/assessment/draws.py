"""Verdict on draws of another program, whose density is unknown.

R-hat compares chains with each other, not with the posterior: chains of another model agree as
well. Therefore the draws are also compared with the density of the model: with weighted draws from
a Student t around them and from the prior; or, if these weights are not reliable, with the draws
themselves after steps of NUTS, which leave only draws of the posterior unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from bayeskern.core.scalars import scalar_columns
from bayeskern.core.verdict import VERDICTS
from bayeskern.inference.approximation.proposals import Sample
from bayeskern.inference.approximation.psis import Shift, Weights, weighted_difference
from bayeskern.inference.assessment.approximation import (
    MAX_WEIGHTED_DRAWS,
    Difference,
    difference_verdict,
    differences_evidence,
    is_reliable,
    with_places,
)
from bayeskern.inference.assessment.convergence import (
    MAX_DIVERGENT_SHARE,
    MAX_MEAN_CHANGE_SDS,
    advice_if_not_finite,
    could_change,
)
from bayeskern.inference.assessment.mcmc import missing_mass
from bayeskern.inference.assessment.overdispersed import overdispersed_sample
from bayeskern.inference.assessment.persistence import mode_persistence, rank_persistence
from bayeskern.inference.assessment.regions import ChainAssessment
from bayeskern.inference.assessment.tails import heavy_tail_caution
from bayeskern.inference.model.cost import is_costly
from bayeskern.inference.model.evaluation import constrain, log_densities
from bayeskern.inference.model.exchangeable import Exchanges
from bayeskern.inference.model.target import Target
from bayeskern.inference.result import Explored, Fit, MovedDraws
from bayeskern.inference.search.modes import Optimum
from bayeskern.inference.verdict import Trust, worst_entry

FIT_REMEDY = (
    "Check that the draws belong to this model, with these priors and data; if they do, fit again, "
    "for example by bk.infer(..., method='nuts')."
)
CONFIRMED = "weighting them by the density of the model changes next to nothing"
UNMOVED = "steps of NUTS from them change next to nothing"
# Largest correlation of moved draws with their starts at and above which they are too similar to
# these to confirm them.
MAX_PERSISTENCE = 0.5

# Minimum and maximum number of reference draws from the Student t, if the density is not costly.
MIN_REFERENCE_DRAWS, MAX_REFERENCE_DRAWS = 4000, 8000
# Batches of draws that are moved if the first batch differs, which may be chance: the sd of a
# heavy-tailed number is uncertain.
MOVED_BATCHES = 4
# Largest correlation of moved draws with their starts below which no further steps are taken.
GOAL_PERSISTENCE = 0.25

# Function of a target, draws (S, d) and the number of a batch to the draws of this batch after more
# and more steps of NUTS.
type Move = Callable[[Target, np.ndarray, int], Iterable[MovedDraws]]


@dataclass(frozen=True, eq=False)
class DrawsAssessment:
    """Assessment of draws of unknown density: Markov chains, or draws without an order.

    Attributes:
        explored: Result of the search for regions.
        modes: Modes with a curvature that may hold much of the posterior, in one order of
            exchangeable members.
        move: Moves draws by steps of NUTS.
    """

    explored: Explored
    modes: Sequence[Optimum]
    move: Move

    def __call__(self, posterior: Fit) -> Trust:
        """The worse of two verdicts.

        The first is on the chains or, for draws without an order, on the regions that they miss;
        the second is a comparison with the density of the model.
        """
        first = ChainAssessment(self.explored) if posterior.is_mcmc else self._unordered
        trust = first(posterior)
        if trust.verdict == "bad":
            other = " Or the draws belong to another model, or to other data."
            is_elsewhere = "share_elsewhere" in trust.evidence
            return replace(trust, advice=trust.advice + other) if is_elsewhere else trust
        density = self._compared_with_density(posterior)
        if VERDICTS.index(density.verdict) > VERDICTS.index(trust.verdict):
            return replace(density, evidence=trust.evidence | density.evidence)
        advice = trust.advice
        if trust.verdict == "good":
            advice = f"{density.advice} {trust.advice}"
        return replace(trust, advice=advice, evidence=trust.evidence | density.evidence)

    def _unordered(self, posterior: Fit) -> Trust:
        """Verdict on draws without an order, by missed regions and heavy tails."""
        explored, evidence = self.explored, dict(self.explored.evidence)
        names, flat = scalar_columns(posterior.flat)
        broken = advice_if_not_finite(names, flat[None])
        if broken:
            return Trust("bad", broken, evidence)
        missing = missing_mass(posterior, explored, evidence)
        if missing:
            return missing
        if explored.in_one_order:
            advice = (
                f"The {explored.exchanges} can change places without a change of the density, and "
                "the draws do not have all orders: use only results that do not depend on the "
                "order, such as predictions."
            )
            return Trust("caution", advice, evidence)
        good = Trust("good", "Means, sds and quantiles can be used.", evidence)
        return heavy_tail_caution(posterior, names, flat, evidence) or good

    def _compared_with_density(self, posterior: Fit) -> Trust:
        """Verdict on draws by comparison with the density of the model.

        Exchangeable members are sorted into one order before the comparison. With a bad
        verdict, the findings are the heaviest weighted draws.
        """
        target, exchanges = posterior.fitted_target, self.explored.exchanges
        z = exchanges.sorted(posterior.z.reshape(-1, posterior.z.shape[-1]))
        names, values = _numbers(posterior, z)
        differences = []
        if exchanges and not self.explored.in_one_order:
            differences.append(_difference_of_orders(posterior, exchanges))
        count = int(np.clip(len(z), MIN_REFERENCE_DRAWS, MAX_REFERENCE_DRAWS))
        if is_costly(target):
            count = MAX_WEIGHTED_DRAWS
        no_draws = Sample(z[:0], np.zeros(0), np.zeros(0))
        reference = overdispersed_sample(target, None, no_draws, z, count, posterior.progress)
        weights = reference.weights
        if is_reliable(weights):
            _, weighted = _numbers(posterior, exchanges.sorted(reference.z))
            shift = weighted_difference(values, weighted, y_weights=weights.normal)
            differences.append(Difference(shift, weights.ess))
            evidence = differences_evidence(names, weights, differences)
            order = np.argsort(reference.log_p)
            half = np.searchsorted(np.cumsum(weights.normal[order]), 0.5)
            trust = _verdict_on_differences(
                posterior, evidence, float(reference.log_p[order[half]])
            )
            trust = trust or Trust("good", f"The draws fit the model: {CONFIRMED}.", evidence)
        else:
            trust = self._moved(posterior, (z, values), differences, weights)
        return with_places(trust, posterior, reference)

    def _moved(
        self,
        posterior: Fit,
        draws: tuple[np.ndarray, np.ndarray],
        differences: list[Difference],
        weights: Weights,
    ) -> Trust:
        """Verdict from draws after steps of NUTS.

        Args:
            posterior: The draws.
            draws: All draws z (S, d) and the numbers of their sites (S, m), sorted into one order.
            differences: Other differences.
            weights: Unreliable importance weights.
        """
        z, values = draws
        moved = self._moved_enough(posterior, z, 0)
        others = (differences, weights)
        trust, evidence = self._verdict_on_moved(posterior, values, moved, *others)
        if trust and trust.verdict == "caution" and not is_costly(posterior.fitted_target):
            batches = range(1, MOVED_BATCHES)
            further = [self._moved_enough(posterior, z, batch) for batch in batches]
            moved = MovedDraws.pooled([moved, *further])
            trust, evidence = self._verdict_on_moved(posterior, values, moved, *others)
        if trust:
            return trust
        if not evidence["persistence"] < MAX_PERSISTENCE:
            advice = (
                f"The draws cannot be confirmed: importance weights are not reliable (k-hat "
                f"{weights.khat:.2g}), and {moved.steps} steps of NUTS hardly change "
                f"{evidence['persistence_at']}. Compare with bk.infer(..., method='nuts'), or "
                "reparametrise the model."
            )
            return Trust("caution", advice, evidence)
        if "diverging" not in posterior.sample_stats and moved.diverged.any():
            hidden = _divergence_caution(posterior, moved, evidence)
            if hidden:
                return hidden
        return Trust("good", f"The draws fit the model: {UNMOVED}.", evidence)

    def _moved_enough(self, posterior: Fit, z: np.ndarray, batch: int) -> MovedDraws:
        """Draws of a batch after the first moves that leave hardly any trace of their starts."""
        for moved in self.move(posterior.fitted_target, z, batch):
            persistence = np.max(self._persistence(posterior, moved))
            if not persistence > GOAL_PERSISTENCE:
                break
        return moved

    def _persistence(self, posterior: Fit, moved: MovedDraws) -> np.ndarray:
        """Persistence of the numbers of all sites, and of the nearest mode, (m + 1,)."""
        points = [self.explored.exchanges.sorted(z) for z in (moved.start, moved.end)]
        (_, start), (_, end) = (_numbers(posterior, z) for z in points)
        return np.append(rank_persistence(start, end), mode_persistence(self.modes, *points))

    def _verdict_on_moved(
        self,
        posterior: Fit,
        values: np.ndarray,
        moved: MovedDraws,
        differences: list[Difference],
        weights: Weights,
    ) -> tuple[Trust | None, dict]:
        """Verdict `bad` or `caution` if moved draws differ, or None, with the evidence.

        If the moved draws have the correlation r with their starts, the steps reduce the error e of
        a mean to r e. The mean changes by (1 - r) e, so e is this change divided by 1 - r.
        """
        names, end = _numbers(posterior, self.explored.exchanges.sorted(moved.end))
        persistence = self._persistence(posterior, moved)
        kept = 1.0 - np.minimum(persistence[:-1], MAX_PERSISTENCE)
        shift = Shift(*(part / kept for part in weighted_difference(values, end)))
        effective = len(end) * np.square(np.min(kept))
        evidence = differences_evidence(
            names, weights, [*differences, Difference(shift, effective)]
        )
        evidence["steps_moved"] = moved.steps
        evidence |= worst_entry("persistence", persistence, [*names, "the nearest mode"])
        log_p = log_densities(posterior.fitted_target, moved.end)
        return _verdict_on_differences(posterior, evidence, float(np.median(log_p))), evidence


# -- the density of the model ----------------------------------------------------------------------


def _difference_of_orders(posterior: Fit, exchanges: Exchanges) -> Difference:
    """Difference of draws from the same draws with members in random order."""
    z = posterior.z.reshape(-1, posterior.z.shape[-1])
    shuffled = exchanges.shuffled(z, np.random.default_rng(0))
    shift = weighted_difference(_numbers(posterior, z)[1], _numbers(posterior, shuffled)[1])
    return Difference(shift, len(z))


def _numbers(posterior: Fit, z: np.ndarray) -> tuple[list[str], np.ndarray]:
    """Names and values (n, m) of all numbers of the sites at points z (n, d)."""
    sites = constrain(posterior.fitted_target, z[None])
    return scalar_columns({name: values[0] for name, values in sites.items()})


# Gap between the median log densities of reference draws and of the draws, in nats per coordinate,
# below which draws are good. Normal draws whose sds are all 25 % too large have this gap.
GOOD_LOG_DENSITY_GAP = 0.28
# Gap at and above which draws are bad; sds that are 65 % too large have it.
BAD_LOG_DENSITY_GAP = 0.86


def _verdict_on_differences(posterior: Fit, evidence: dict, median_log_p: float) -> Trust | None:
    """`bad` or `caution` if draws differ from reference draws; otherwise None.

    The marginal distributions may be right while the dependence between them is wrong. The draws
    then have low densities. Medians of the log densities are compared, because some densities are
    wrong at draws that are rounded to the edge of a support.

    Args:
        posterior: The draws.
        evidence: Differences of the numbers; receives the gap of the log densities.
        median_log_p: Median log density of the reference draws.
    """
    z, log_p = posterior.z, posterior.sample_stats["lp"]
    gap = float((median_log_p - np.median(log_p)) / z.shape[-1])
    evidence["log_density_gap"] = gap
    trust = difference_verdict(evidence, FIT_REMEDY)
    if gap < GOOD_LOG_DENSITY_GAP or (trust and trust.verdict == "bad"):
        return trust
    advice = (
        f"The density of the model at the draws is too low, by {gap:.2g} nats for each coordinate: "
        f"they miss the dependence between parameters, or belong to another model. {FIT_REMEDY}"
    )
    is_bad = not gap < BAD_LOG_DENSITY_GAP
    return Trust("bad" if is_bad else "caution", advice, evidence)


def _divergence_caution(posterior: Fit, moved: MovedDraws, evidence: dict) -> Trust | None:
    """Verdict `caution` if moves diverge where they could hide mass; else None."""
    change = could_change(moved.end, moved.diverged)
    share = float(np.mean(moved.diverged) / moved.steps)
    evidence["moves_diverging"] = share
    evidence |= worst_entry("divergences_could_change", change, posterior.fitted_target.coordinates)
    are_few = share < MAX_DIVERGENT_SHARE
    if are_few and evidence["divergences_could_change"] < MAX_MEAN_CHANGE_SDS:
        return None
    advice = (
        f"NUTS diverges in {100.0 * share:.2g} % of its steps from these draws, so part of the "
        "posterior may be missing, most likely in the tails of "
        f"{evidence['divergences_could_change_at']}. Pass the sample statistics of the chains "
        "(idata=), which show their own divergences, or write the model in a non-centred form."
    )
    return Trust("caution", advice, evidence)
