"""The verdict on an approximate posterior: how far its draws can be trusted, and why."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass, field

from bayeskern.core.formatting import counted
from bayeskern.inference.findings import Findings

# How wide the text is that people read.
WIDTH = 100

VERDICTS = ("good", "caution", "bad", "not assessable")


def effective(draws: float) -> str:
    """How many effective draws there are, in words."""
    return counted(f"{draws:.0f}", "effective draw")


@dataclass(frozen=True)
class Trust:
    """How far the draws of a posterior can be trusted.

    Attributes:
        verdict: "good", "caution", "bad" or "not assessable" (a point has no spread to assess).
        advice: One sentence that a person can act on.
        evidence: What the verdict rests on, by name, such as "khat", "rhat" or "divergences".
        findings: Places that refute the draws, as an assessment has seen them.

    Raises:
        ValueError: If the verdict is none of these.
    """

    verdict: str
    advice: str
    evidence: dict = field(default_factory=dict)
    findings: Findings = field(default_factory=Findings, repr=False, compare=False)

    def __post_init__(self):
        if self.verdict not in VERDICTS:
            raise ValueError(f"verdict must be one of {VERDICTS}, got {self.verdict!r}.")

    def __repr__(self) -> str:
        shown = [f"verdict={self.verdict!r}"]
        for name, value in self.evidence.items():
            # Where something is worst stands beside how bad it is.
            if name.removesuffix("_at") in self.evidence and name.endswith("_at"):
                continue
            number = f"{value:.3g}" if isinstance(value, float) else f"{value}"
            at = self.evidence.get(f"{name}_at")
            shown.append(f"{name}={number}" + (f" at {at}" if at is not None else ""))
        head = textwrap.fill(f"Trust({', '.join(shown)})", WIDTH, subsequent_indent="      ")
        return f"{head}\n{textwrap.fill(self.advice, WIDTH)}"
