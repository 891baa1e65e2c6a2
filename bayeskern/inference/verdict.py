"""Verdict on an approximate posterior, with its evidence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from bayeskern.core.formatting import counted
from bayeskern.core.verdict import Verdict
from bayeskern.inference.findings import Findings


def effective(draws: float) -> str:
    """A number of effective draws, in words."""
    return counted(f"{draws:.0f}", "effective draw")


def worst_entry(
    key: str, values: np.ndarray, names: Sequence[str], smallest: bool = False
) -> dict[str, float | str]:
    """The worst of several values and its name, as the entries `key` and `key_at`.

    The largest value is the worst, or the smallest with `smallest`; NaN is worse than any number.
    """
    ranked = np.where(np.isnan(values), np.inf, -values if smallest else values)
    worst = int(np.argmax(ranked))
    return {key: float(values[worst]), f"{key}_at": names[worst]}


@dataclass(frozen=True, repr=False)
class Trust(Verdict):
    """Verdict on the draws of a posterior.

    Attributes:
        verdict: "good", "caution", "bad" or "not assessable" (a point has no spread to assess).
        advice: The reason for the verdict and the next step, in a sentence or two.
        evidence: Numbers behind the verdict, by name, such as "khat", "rhat" or "divergences".
        findings: Points found by the assessment that contradict the draws.
    """

    findings: Findings = field(default_factory=Findings, repr=False, compare=False)
