"""The numbers of a posterior, each by one name: that of its site and its labels, `weights[age]`."""

from __future__ import annotations

from collections import Counter

import numpy as np

from bayeskern.inference.model.target import number_name


def names(draws: dict, axes: dict[str, list]) -> dict[str, list[str]]:
    """What each number of each site (S, shape) is called, in the order of its draws laid flat.

    axes: the labels along each axis of a site, where it has some; else places count from 0. Names
    that would be the same, as of the sites "x" and "x[0]", say where each is from.
    """
    found = {}
    for site, values in draws.items():
        shape = np.shape(values)[1:]
        labels = axes.get(site) or [list(map(str, range(size))) for size in shape]
        found[site] = [
            number_name(site, [axis[i] for axis, i in zip(labels, place, strict=True)])
            for place in np.ndindex(shape)
        ]
    count = Counter(name for each in found.values() for name in each)
    for site, each in found.items():
        places = np.ndindex(np.shape(draws[site])[1:])
        found[site] = [
            name if count[name] == 1 else f"{name} at {site!r}{list(place) or ''}"
            for name, place in zip(each, places, strict=True)
        ]
    return found


def shares(sizes: dict[str, int], most: int, least: int) -> dict[str, int]:
    """How many numbers of each site are looked at: `most` in all, shared alike, small sites whole.

    least: of each, however many sites there are.
    """
    left, found = most, {}
    for i, (site, size) in enumerate(sorted(sizes.items(), key=lambda item: item[1])):
        found[site] = min(size, max(least, left // (len(sizes) - i)))
        left -= found[site]
    return found
