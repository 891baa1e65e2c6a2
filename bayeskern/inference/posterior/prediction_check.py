"""Draws that predictions average, and a verdict on predictions by other draws."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from bayeskern.core.batching import evenly
from bayeskern.core.verdict import VERDICTS, Verdict
from bayeskern.inference.approximation.psis import pareto_smooth, resample
from bayeskern.inference.assessment.approximation import DIFFERENCE_LIMITS, MAX_WEIGHTED_DRAWS
from bayeskern.inference.result import Fit
from bayeskern.prediction.mixture import Quantiles, thinned_rows

# Draws of the second prediction: their sampling error is 1 / sqrt(1,000) of an sd.
OTHER_DRAWS = 1_000
MIN_OTHER_DRAWS = 100


def with_rows(posterior: Fit, rows: np.ndarray) -> Fit:
    """The posterior with some of its draws, in one chain."""
    draws = {name: values[rows][None] for name, values in posterior.flat.items()}
    return replace(posterior, draws=draws)


def rows_to_average(posterior: Fit, most: int | None) -> np.ndarray:
    """Rows of at most `most` draws, evenly spaced; of all draws if None."""
    flat = posterior.flat
    latents = {s.name: flat[s.name] for s in posterior.fitted_target.latents if s.name in flat}
    latents = latents or flat
    return thinned_rows(latents, len(next(iter(latents.values()))) if most is None else most)


@dataclass(frozen=True)
class PredictionCheck:
    """Comparison of a prediction with one from other draws of the same posterior.

    Attributes:
        posterior: The posterior.
        rows: Rows of the draws that the prediction averages.
        predict: Posterior -> prediction at the same points.
    """

    posterior: Fit
    rows: np.ndarray
    predict: Callable[[Fit], Quantiles]

    def __call__(self, prediction: Quantiles) -> Verdict:
        """Verdict on the means and sds of a prediction, no better than that on the posterior."""
        trust = self.posterior.trust
        if trust.verdict in ("bad", "not assessable"):
            return Verdict(trust.verdict, f"The posterior itself: {trust.advice}")
        others = self._other_rows()
        if others is None:
            reason = (
                f"There are too few draws to predict a second time from {MIN_OTHER_DRAWS} others. "
                "Draw more, or pass fewer `draws` to predict."
            )
            return Verdict("not assessable", reason)
        source, *samples = others
        first, *second = (self.predict(with_rows(self.posterior, rows)) for rows in samples)
        # Two halves differ by twice the error of their average.
        reference, share = (second[0], 0.5) if second else (prediction, 1.0)
        sd = np.maximum(reference.sd, np.finfo(float).tiny)
        shift = share * np.max(np.abs(reference.mean - first.mean) / sd)
        ratio = share * np.max(np.abs(np.log(np.maximum(first.sd, np.finfo(float).tiny) / sd)))
        evidence = {
            "mean_shift": float(shift),
            "log_sd_ratio": float(ratio),
            "draws": len(self.rows),
            "compared_with": source,
        }
        verdict = max(trust.verdict, _verdict(evidence), key=VERDICTS.index)
        return Verdict(verdict, _advice(evidence, verdict, trust), evidence)

    def _other_rows(self) -> tuple | None:
        """The kind of other draws, and their rows; the rows of both halves if all are averaged."""
        posterior = self.posterior
        count = len(next(iter(posterior.flat.values())))
        if posterior.log_q is not None and posterior.log_q.shape == (count,):
            first = min(count, MAX_WEIGHTED_DRAWS)
            ratios = posterior.log_p_of_first(first) - posterior.log_q[:first]
            rng = np.random.default_rng(0)
            return "weighted draws", resample(pareto_smooth(ratios).normal, OTHER_DRAWS, rng)
        others = np.setdiff1d(np.arange(count), self.rows)
        if len(others) >= MIN_OTHER_DRAWS:
            return "other draws", others[evenly(len(others), OTHER_DRAWS)]
        if count >= 2 * MIN_OTHER_DRAWS:
            return "halves of the draws", *np.array_split(np.arange(count), 2)
        return None


def _verdict(evidence: dict) -> str:
    """Verdict by the limits on differences that hold for the parameters."""
    limits = [(evidence[key], DIFFERENCE_LIMITS[key]) for key in ("mean_shift", "log_sd_ratio")]
    # NaN is bad.
    if not all(value < limit.bad for value, limit in limits):
        return "bad"
    return "good" if all(value < limit.good for value, limit in limits) else "caution"


def _advice(evidence: dict, verdict: str, trust: Verdict) -> str:
    """Differences from the other prediction, and the next step."""
    shift, ratio = evidence["mean_shift"], np.expm1(evidence["log_sd_ratio"])
    differences = (
        f"By {evidence['compared_with']}, predictive means differ by at most {shift:.2g} sds, and "
        f"predictive sds by at most {ratio:.0%}."
    )
    if verdict == "good":
        return differences
    if _verdict(evidence) == "good":
        return f"{differences} The posterior itself: {trust.advice}"
    return (
        f"{differences} Average more draws, posterior.predict(..., draws=4000); if the difference "
        "stays, take method='importance' or method='nuts'."
    )
