"""Elements of sites as scalar parameters: their names, and their draws as columns."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike


def scalar_name(site: str, index: Sequence[int]) -> str:
    """Name of an element of a site: `site`, or `site[i, j]` as in ArviZ."""
    return f"{site}[{', '.join(map(str, index))}]" if len(index) else site


def with_labels(text: str, labels: Mapping[str, str]) -> str:
    """Text with labels in place of indices: "theta[0]" becomes "theta[A]".

    Args:
        text: The text.
        labels: Name of an element with labels, by its `scalar_name` with indices.
    """
    return re.sub(r"[^\s\[\]]+\[\d[\d, ]*\]", lambda m: labels.get(m[0], m[0]), text)


def scalar_columns(draws: Mapping[str, ArrayLike]) -> tuple[list[str], np.ndarray]:
    """Names of the m elements of all sites, and their draws as columns (S, m).

    draws: S draws of each site, (S, *site).
    """
    names, blocks = [], []
    for site, values in draws.items():
        values = np.asarray(values)
        names += [scalar_name(site, index) for index in np.ndindex(values.shape[1:])]
        blocks.append(values.reshape(len(values), -1))
    return names, np.concatenate(blocks, axis=1)
