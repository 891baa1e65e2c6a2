"""Verdict on numbers that are read, with its evidence."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass, field

# Characters per line of printed text.
WIDTH = 100
# Best first.
VERDICTS = ("good", "caution", "not assessable", "bad")


@dataclass(frozen=True, repr=False)
class Verdict:
    """Verdict on numbers, with its evidence.

    Attributes:
        verdict: "good", "caution", "bad" or "not assessable".
        advice: The reason for the verdict and the next step, in a sentence or two.
        evidence: Numbers behind the verdict, by name.

    Raises:
        ValueError: If the verdict is none of these.
    """

    verdict: str
    advice: str
    evidence: dict = field(default_factory=dict)

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
        head = textwrap.fill(
            f"{type(self).__name__}({', '.join(shown)})", WIDTH, subsequent_indent="      "
        )
        return f"{head}\n{textwrap.fill(self.advice, WIDTH)}"
