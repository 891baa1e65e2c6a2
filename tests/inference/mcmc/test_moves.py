"""Step size of moves from draws, against a stand-in for NUTS with a narrow tail."""

import numpy as np

from bayeskern.inference.mcmc.kernel import ChainState
from bayeskern.inference.mcmc.moves import MAX_TUNING_ROUNDS, _Stepped, _tuned

LIMIT = 0.1


def test_step_size_shrinks_until_no_draw_diverges():
    """One draw of 50 diverges above the limit; the mean acceptance probability asks for more."""
    tried = []

    def run(states, step_size, count):
        tried.append(step_size)
        diverged = np.arange(50) < (step_size > LIMIT)
        return _Stepped(states, 0.97, diverged, count)

    states = ChainState(np.zeros((50, 16)), *[np.zeros(50)] * (len(ChainState._fields) - 1))
    _, step_size = _tuned(run, states)
    first = 16**-0.25
    # 0.5, 0.3, 0.18, 0.108 and 0.065, which stays: a larger one would diverge again.
    np.testing.assert_allclose(tried, first * 0.6 ** np.arange(5))
    assert step_size == tried[-1] < LIMIT
    assert len(tried) < MAX_TUNING_ROUNDS
