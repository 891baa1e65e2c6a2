"""Random numbers: NumPy's on the host, where nothing is compiled, and seeds for JAX's from them."""

from __future__ import annotations

import zlib

import numpy as np


def stream(seed: int, purpose: str) -> np.random.Generator:
    """The random numbers of a seed for one purpose, as "starts".

    Two parts of a run, given the same seed, would otherwise have the same numbers.
    """
    return np.random.default_rng([seed, zlib.crc32(purpose.encode())])


def jax_seed(rng: np.random.Generator) -> np.uint32:
    """A seed for JAX's random numbers."""
    return np.uint32(rng.integers(2**32))
