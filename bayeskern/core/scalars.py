"""The single numbers of a model's sites: their names, and their draws side by side."""

from __future__ import annotations

import numpy as np


def scalar_name(site: str, index) -> str:
    """The name of one of the numbers of a site: `site`, or `site[i,j]`."""
    return f"{site}[{','.join(map(str, index))}]" if len(index) else site


def scalar_columns(draws: dict) -> tuple[list[str], np.ndarray]:
    """The numbers of all sites, each (S, *site), side by side: m names, and an array (S, m)."""
    names, blocks = [], []
    for site, values in draws.items():
        values = np.asarray(values)
        names += [scalar_name(site, index) for index in np.ndindex(values.shape[1:])]
        blocks.append(values.reshape(len(values), -1))
    return names, np.concatenate(blocks, axis=1)
