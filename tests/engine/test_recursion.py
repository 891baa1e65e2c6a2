"""StateBlock-wise recursions against loops over time."""

import numpy as np
import pytest

from bayeskern.engine.steady.recursion import BLOCK, Recursions

RNG = np.random.default_rng(3)
ROOTS = np.array([0.999, 0.3, 0.97 * np.exp(0.5j), 0.8 * np.exp(2.0j)])
GAINS, WEIGHTS = (RNG.normal(size=(m, 4)) + 1j * RNG.normal(size=(m, 4)) for m in (1, 2))
GAINS = GAINS[0]
START = RNG.normal(size=(4, 3)) + 0j


def looped(inputs, start):
    """x_0, ..., x_N: (N + 1, 4, 3)."""
    states = [start]
    for u in inputs:
        states.append(ROOTS[:, None] * states[-1] + GAINS[:, None] * u)
    return np.array(states)


@pytest.mark.parametrize("N", [1, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK + 10])
def test_recursions_equal_loops(N):
    inputs, recursions = RNG.normal(size=(N, 3)), Recursions(ROOTS)
    states = looped(inputs, START)
    read, last = recursions.read(inputs, GAINS, START, WEIGHTS)
    np.testing.assert_allclose(read, np.real(WEIGHTS @ states), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(last, states[-1], rtol=1e-9)
    ends = np.unique([0, 1, N // 2, N])
    np.testing.assert_allclose(recursions.at(inputs, GAINS, START, ends), states[ends], rtol=1e-9)
    powers = ROOTS ** np.arange(N)[:, None]
    sums = [np.einsum("th,tc->hc", powers[:end], inputs[:end]) for end in ends]
    np.testing.assert_allclose(recursions.sums(inputs, ends), sums, rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize("N", [1, BLOCK, 2 * BLOCK + 10])
def test_correlations_equal_loops(N):
    values, later = RNG.normal(size=(2, N, 3))
    states = looped(values, START)
    # s_t = v_t + l s_{t+1}.
    sums = [np.zeros((4, 3), complex)]
    for v in later[::-1]:
        sums.insert(0, v + ROOTS[:, None] * sums[0])
    sums = np.array(sums)
    result = Recursions(ROOTS).correlations(later, values, GAINS, START)
    np.testing.assert_allclose(result.first, sums[0], rtol=1e-9)
    expected = np.einsum("thc,tc->h", sums[1:], values)
    np.testing.assert_allclose(result.values, expected, rtol=1e-8, atol=1e-10)
    expected = np.einsum("thc,thc->h", sums[1:], states[:-1])
    np.testing.assert_allclose(result.states, expected, rtol=1e-8, atol=1e-10)
