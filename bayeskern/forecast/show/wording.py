"""Structures of a forecast in words."""

from __future__ import annotations

from collections.abc import Mapping

from bayeskern.forecast.model.kernels import GIVEN, HISTORY, TRENDS


def weighed(
    trends: Mapping[str, float], scales: Mapping[str, float] | None, min_share: float = 0.05
) -> str:
    """Structures with their weights: "local slope 83 %, smooth trend 12 %; logarithm 70 %".

    Args:
        trends: Weights of the trends by name.
        scales: Weights of the scales, of which "logarithm" is shown; None if there is one scale.
        min_share: Weight below which a trend is not shown.
    """
    if HISTORY in trends:
        return "trend, seasons and short memory, by basis functions"
    parts = [
        f"{TRENDS.get(name, name)} {100.0 * share:.0f} %"
        for name, share in trends.items()
        if name != GIVEN and share >= min_share
    ]
    text = ", ".join(parts) if parts else "the kernel as given"
    return text if scales is None else f"{text}; logarithm {100.0 * scales['logarithm']:.0f} %"
