"""The evidence of a verdict in words: what each number means, and when it is good."""

from __future__ import annotations

from collections.abc import Iterator

from bayeskern.core.formatting import number

# When each number is good, as a reader is told it; {threshold} is that of k-hat for these draws.
GOOD = {
    "rhat": "below 1.01",
    "ess_bulk": "above 400",
    "ess_tail": "above 400",
    "bfmi": "above 0.3",
    "khat": "below {threshold}",
    "ess_of_weights": "above 400",
    "distinct_draws": "close to all",
    "own_khat": "below {threshold}",
    "wider_khat": "below {threshold}",
    "wider_ess": "above 400",
    "divergences_could_change": "below 0.05",
    "mean_shift": "below 0.25",
    "log_sd_ratio": "below 0.22",
    "ks": "below 0.1",
    "modes_missed": "0",
    "inner_khat": "below 0.7",
    "rhat_sorted": "below 1.01",
    "sd_khat": "below 0.85, or 1 where the density is followed",
    "tail_log_sd_ratio": "below 0.2",
    "drift": "below 0.1",
    "acceptance": "above 0.4",
    "unmoved": "below 0.1",
    "log_evidence_error": "below 0.5",
    "places_left": "0",
    "residual": "below 1e-6",
}
# For the verdict: {} is the number, {at} where it is worst, {good} when it is good.
SENTENCES = {
    "rhat": "R-hat is at most {}, worst at {at} (good {good}).",
    "ess_bulk": "Effective draws in the bulk: at least {}, fewest at {at} (good {good}).",
    "ess_tail": "Effective draws in the tails: at least {}, fewest at {at} (good {good}).",
    "divergences": "Divergent draws: {} (best: none).",
    "divergences_could_change": "As much again there would move the mean of {at} by {} sd, and no "
    "other by more (good {good}).",
    "bfmi": "Energy is explored at E-BFMI {} (good {good}).",
    "khat": "Pareto k-hat of the weights is {} (good {good}).",
    "ess_of_weights": "Effective draws left after weighting: {} (good {good}).",
    "mean_shift": "Weighting moves means by at most {} sd, most at {at} (good {good}).",
    "log_sd_ratio": "It changes the log of sds by at most {}, most at {at} (good {good}).",
    "ks": "It moves distribution functions by at most {}, most at {at} (good {good}).",
    "distinct_draws": "Distinct draws: {}.",
    "modes_missed": "Modes that the starts found but the draws do not cover: {} (good: none).",
    "unexplained_draws_followed": "Searches that began where the known modes did not explain the "
    "density: {}.",
    "rhat_sorted": "Of chains sorted into one order R-hat is at most {} (good {good}).",
    "exchangeable": "Can change places without a change of the density: {}.",
    "places_left": "Places that no chain came near and that were not visited: {} (good: none).",
    "sd_khat": "Pareto k-hat of the sds is at most {}, at {at} (good {good}).",
    "tail_log_sd_ratio": "The density beyond the draws changes the log of an sd by at most {}, at "
    "{at} (good {good}).",
    "log_evidence_error": "The log marginal likelihood is uncertain by {} (good {good}).",
    "drift": "Moves at the posterior change means and log sds by at most {} sd, most at {at} "
    "(good {good}).",
    "acceptance": "They are accepted with probability {} (good {good}).",
    "unmoved": "Share of the particles that did not move: {} (good {good}).",
    "inner_khat": "Integrating out the latent function has k-hat {}.",
    "gradient_norm": "The largest slope at the optimum is {} (good: next to 0).",
    "residual": "The linear system is solved to a relative residual of {}.",
}
# For the table of what was checked of an approximation.
CHECKS = {
    "khat": "k-hat of the weights",
    "ess_of_weights": "effective draws after weighting",
    "distinct_draws": "distinct draws",
    "own_khat": "k-hat of these draws alone",
    "wider_khat": "k-hat of a wider sample",
    "wider_ess": "effective draws of the wider sample",
    "mean_shift": "largest shift of a mean by weighting, in sd",
    "log_sd_ratio": "largest change of a log sd by weighting",
    "ks": "largest distance of distribution functions",
    "modes_missed": "modes found but not covered",
    "unexplained_draws_followed": "searches begun where the density was unexplained",
    "exchangeable": "members that can change places",
    "sd_khat": "largest k-hat of an sd",
    "tail_log_sd_ratio": "largest change of a log sd by the density beyond the draws",
    "log_evidence_error": "standard error of the log marginal likelihood",
    "drift": "largest change by moves at the posterior, in sd",
    "acceptance": "acceptance of moves at the posterior",
    "unmoved": "share of particles that did not move",
    "inner_khat": "k-hat of the latent function",
}


def sentences(evidence: dict, label_of: dict[str, str]) -> tuple[str, ...]:
    """The evidence that SENTENCES has words for. label_of: as `Subject.label_of`."""
    return tuple(
        SENTENCES[name].format(value, at=at, good=good)
        for name, value, at, good in _with_values(SENTENCES, evidence, label_of)
    )


def checks(evidence: dict, label_of: dict[str, str]) -> tuple[tuple[str, ...], ...]:
    """Rows of a table: the check, its value, where it is worst, and when it is good."""
    return tuple(
        (CHECKS[name], value, at, good)
        for name, value, at, good in _with_values(CHECKS, evidence, label_of)
    )


def _with_values(names, evidence: dict, label_of) -> Iterator[tuple[str, str, str, str]]:
    """(name, value, where it is worst, when it is good) for each of the names in the evidence."""
    threshold = number(evidence.get("khat_threshold", 0.7), 2)
    for name in names:
        value = evidence.get(name)
        if isinstance(value, int | float | str):
            at = str(evidence.get(f"{name}_at", ""))
            good = GOOD.get(name, "").format(threshold=threshold)
            yield name, _text(name, value), label_of.get(at, at), good


def _text(name: str, value: float | str) -> str:
    if isinstance(value, str):
        return value
    # A k-hat is minus infinity where all weights of the tail are the same.
    if name.endswith("khat") and value == float("-inf"):
        return "far below 0"
    return number(value)
