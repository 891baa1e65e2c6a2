"""The verdict on an approximate posterior: how far its draws can be trusted, and why."""

from __future__ import annotations

from dataclasses import dataclass, field

VERDICTS = ("good", "caution", "bad", "not assessable")


@dataclass(frozen=True)
class Trust:
    """A verdict (one of VERDICTS), one sentence that a person can act on, and the evidence."""

    verdict: str
    advice: str
    evidence: dict = field(default_factory=dict)

    def __post_init__(self):
        if self.verdict not in VERDICTS:
            raise ValueError(f"verdict must be one of {VERDICTS}, got {self.verdict!r}.")

    def __repr__(self) -> str:
        shown = ", ".join(
            f"{name}={value:.3g}" if isinstance(value, float) else f"{name}={value}"
            for name, value in self.evidence.items()
        )
        return f"Trust(verdict={self.verdict!r}, {shown})\n{self.advice}"
