"""What was found in a series, in words."""

from __future__ import annotations

from bayeskern.forecast.model.kernels import GIVEN, TRENDS

# A share of the average that is not worth a word.
SMALL = 0.05


def found(
    trends: dict[str, float], present: dict[str, float], optional: bool, logs: bool = True
) -> str:
    """What was found, in words: "local slope 83 %, smooth trend 12 %; season 97 %; ...".

    trends, present: as in `Forecast.probabilities`; optional: whether seasons could be absent;
    logs: whether there was a choice of scale.
    """
    parts = [
        f"{TRENDS.get(name, name)} {_percent(share)}"
        for name, share in trends.items()
        if name != GIVEN and share >= SMALL
    ]
    said = [", ".join(parts)] if parts else ["the kernel as given"]
    for name, share in present.items():
        if name != "logarithm" and optional:
            said.append(f"{name.replace('_', ' ')} {_percent(share)}")
    return "; ".join([*said, *([f"logarithm {_percent(present['logarithm'])}"] if logs else [])])


def _percent(share: float) -> str:
    return f"{100.0 * share:.0f} %"
