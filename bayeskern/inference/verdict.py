"""Verdict on an approximate posterior, with its evidence."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from bayeskern.core.formatting import counted
from bayeskern.inference.findings import Findings

# Characters per line of printed text.
WIDTH = 100
# Best first.
VERDICTS = ("good", "caution", "not assessable", "bad")


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


@dataclass(frozen=True)
class Trust:
    """Verdict on the draws of a posterior.

    Attributes:
        verdict: "good", "caution", "bad" or "not assessable" (a point has no spread to assess).
        advice: The reason for the verdict and the next step, in a sentence or two.
        evidence: Numbers behind the verdict, by name, such as "khat", "rhat" or "divergences".
        findings: Points found by the assessment that contradict the draws.

    Raises:
        ValueError: If the verdict is none of these.
    """

    verdict: str
    advice: str
    evidence: dict = field(default_factory=dict)
    findings: Findings = field(default_factory=Findings, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.verdict not in VERDICTS:
            raise ValueError(f"verdict must be one of {VERDICTS}, got {self.verdict!r}.")

    def __repr__(self) -> str:
        shown = [f"verdict={self.verdict!r}"]
        for name, value in self.evidence.items():
            # "rhat_at" is shown with "rhat".
            if name.removesuffix("_at") in self.evidence and name.endswith("_at"):
                continue
            number = f"{value:.3g}" if isinstance(value, float) else f"{value}"
            entry = self.evidence.get(f"{name}_at")
            shown.append(f"{name}={number}" + (f" at {entry}" if entry is not None else ""))
        head = textwrap.fill(f"Trust({', '.join(shown)})", WIDTH, subsequent_indent="      ")
        return f"{head}\n{textwrap.fill(self.advice, WIDTH)}"
