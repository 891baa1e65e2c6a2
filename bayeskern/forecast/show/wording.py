"""The structures of a forecast, in words."""

from __future__ import annotations

from collections.abc import Mapping

from bayeskern.forecast.model.kernels import GIVEN, HISTORY, TRENDS

# A share of the average that is not worth a word.
SMALL = 0.05


def weighed(trends: Mapping[str, float], scales: Mapping[str, float] | None) -> str:
    """Structures with their weights: "local slope 83 %, smooth trend 12 %; logarithm 70 %".

    trends: name -> weight; scales: that of the logarithm, None where there was no choice.
    """
    parts = [
        f"{TRENDS.get(name, name)} {_percent(share)}"
        for name, share in trends.items()
        if name != GIVEN and share >= SMALL
    ]
    if HISTORY in trends:
        return "trend, seasons and short memory, by basis functions"
    said = ", ".join(parts) if parts else "the kernel as given"
    return said if scales is None else f"{said}; logarithm {_percent(scales['logarithm'])}"


def _percent(share: float) -> str:
    return f"{100.0 * share:.0f} %"
