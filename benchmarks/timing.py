"""Wall-clock times of calls, the best of several, and what draws are worth."""

import time

import arviz_stats as az
import jax
import numpy as np


def best(function, *arguments, repeats: int = 9) -> float:
    """Seconds of the fastest of `repeats` calls, after one to warm up; results are waited for."""
    jax.block_until_ready(function(*arguments))
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        jax.block_until_ready(function(*arguments))
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def smallest_ess(draws) -> float:
    """The bulk ESS of the number that has least. draws: of each site, (chains, draws, shape)."""
    numbers = [np.reshape(v, (*v.shape[:2], -1)) for v in map(np.asarray, draws.values())]
    return min(float(az.ess(own)) for v in numbers for own in np.moveaxis(v, -1, 0))
