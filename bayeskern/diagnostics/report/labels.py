"""A name for each number of a posterior: that of its site and its labels, `weights[age]`."""

from __future__ import annotations

from collections import Counter

import numpy as np

from bayeskern.core.scalars import scalar_name


def number_names(draws: dict, axes: dict[str, list]) -> dict[str, list[str]]:
    """The name of each number of each site (S, shape), in the order of its draws laid flat.

    axes: the labels along each axis of a site; a site without labels counts places from 0. Two
    numbers that would share a name, such as the site "x[0]" and a place of "x", say where each is
    from.
    """
    names = {}
    for site, values in draws.items():
        shape = np.shape(values)[1:]
        labels = axes.get(site) or [list(map(str, range(size))) for size in shape]
        names[site] = [
            scalar_name(site, [axis[i] for axis, i in zip(labels, place, strict=True)])
            for place in np.ndindex(shape)
        ]
    count = Counter(name for site_names in names.values() for name in site_names)
    for site, site_names in names.items():
        places = np.ndindex(np.shape(draws[site])[1:])
        names[site] = [
            name if count[name] == 1 else f"{name} at {site!r}{list(place) or ''}"
            for name, place in zip(site_names, places, strict=True)
        ]
    return names


def numbers_per_site(sizes: dict[str, int], total: int, least: int) -> dict[str, int]:
    """How many numbers of each site to examine: `total` in all, split evenly, small sites whole.

    least: for each site, however many sites there are.
    """
    remaining, counts = total, {}
    for i, (site, size) in enumerate(sorted(sizes.items(), key=lambda item: item[1])):
        counts[site] = min(size, max(least, remaining // (len(sizes) - i)))
        remaining -= counts[site]
    return counts
