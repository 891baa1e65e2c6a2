"""Random numbers by NumPy on the host, and seeds for JAX drawn from them."""

from __future__ import annotations

import zlib

import numpy as np


def stream(seed: int, purpose: str) -> np.random.Generator:
    """Random generator of a seed for one purpose, such as "starts".

    Different purposes have independent numbers for the same seed.
    """
    return np.random.default_rng([seed, zlib.crc32(purpose.encode())])


def jax_seed(rng: np.random.Generator) -> np.uint32:
    """Draw a seed for JAX."""
    return np.uint32(rng.integers(2**32))
