"""Wall-clock times of calls, the best of several."""

import time

import jax


def best(function, *arguments, repeats: int = 9) -> float:
    """Seconds of the fastest of `repeats` calls, after one to warm up; results are waited for."""
    jax.block_until_ready(function(*arguments))
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        jax.block_until_ready(function(*arguments))
        seconds.append(time.perf_counter() - start)
    return min(seconds)
