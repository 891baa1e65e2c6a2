"""Rank and blocks of the metric, from the option `mass_matrix`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from bayeskern.core import validation
from bayeskern.inference.mcmc.metric import Metric
from bayeskern.inference.model.target import Target

# Blocks of sites, each of which has a full mass matrix.
type SiteBlocks = Sequence[Sequence[str]]

KINDS = ("auto", "diagonal", "low_rank", "dense")


# Coordinates up to which the metric is dense by default.
MAX_DENSE_SIZE = 100
# Coordinates up to which it is of low rank by default. With more, products with its vectors cost
# more than they save if the density is cheap.
MAX_LOW_RANK_SIZE = 1000
# Maximum rank of a metric of low rank.
MAX_RANK = 16


class MetricShape(NamedTuple):
    """Rank and blocks of a `Metric`."""

    rank: int
    blocks: tuple[int, ...] | None

    @classmethod
    def from_option(cls, target: Target, mass_matrix: str | SiteBlocks) -> MetricShape:
        """Shape that a mass matrix needs.

        Args:
            target: The model.
            mass_matrix: As in `NUTS`.

        Raises:
            ValueError: If a block names a site that is unknown or in two blocks.
        """
        d, low_rank = target.size, min(target.size, MAX_RANK)
        if not isinstance(mass_matrix, str):
            blocks = _blocks(target, mass_matrix)
            return cls(sum(number >= 0 for number in blocks), blocks)
        by_default = 0 if d > MAX_LOW_RANK_SIZE else low_rank if d > MAX_DENSE_SIZE else d
        ranks = {"auto": by_default, "diagonal": 0, "low_rank": low_rank, "dense": d}
        return cls(ranks[mass_matrix], None)

    def metric(self, root: np.ndarray) -> Metric:
        """Metric of a covariance with a root (d, d), or with sds (d,)."""
        return Metric.of_root(root, self.rank, self.blocks)


def require_mass_matrix(mass_matrix: str | SiteBlocks) -> None:
    """Raise ValueError unless this is a kind of mass matrix or a list of blocks."""
    if isinstance(mass_matrix, str):
        validation.one_of("mass_matrix", mass_matrix, KINDS)
        return
    is_list = isinstance(mass_matrix, list | tuple) and bool(mass_matrix)
    if not is_list or not all(isinstance(block, list | tuple) and block for block in mass_matrix):
        raise ValueError(
            f"mass_matrix must be one of {', '.join(KINDS)}, or a list of tuples of sites, such as "
            f"[('a', 'b')]; got {mass_matrix!r}."
        )


def _blocks(target: Target, site_blocks: SiteBlocks) -> tuple[int, ...]:
    """Number of the block of each coordinate, -1 for coordinates in no block."""
    coordinates = {k: np.ravel(part) for k, part in target.unravel(np.arange(target.size)).items()}
    numbers = np.full(target.size, -1)
    for number, block in enumerate(site_blocks):
        for name in block:
            if name not in coordinates:
                raise ValueError(
                    f"mass_matrix names {name!r}; the latent sites are {', '.join(coordinates)}."
                )
            if np.any(numbers[coordinates[name]] >= 0):
                raise ValueError(
                    f"mass_matrix has {name!r} in two blocks, or twice in one: use one block."
                )
            numbers[coordinates[name]] = number
    return tuple(numbers.tolist())
