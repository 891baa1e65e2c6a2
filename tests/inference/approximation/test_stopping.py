"""The stopping rule on simulated ELBOs."""

import numpy as np
import pytest

from bayeskern.inference.approximation.stopping import (
    MAX_LONG_HORIZON_STEPS,
    SHORT_HORIZON_STEPS,
    StoppingRule,
)


def fed(values) -> StoppingRule:
    plateau = StoppingRule()
    plateau.add(np.asarray(values, float))
    return plateau


def test_noise_is_nearly_always_a_plateau():
    rng = np.random.default_rng(0)
    reached = [fed(rng.normal(size=1000)).reached for _ in range(400)]
    # Two one-sided tests at two standard errors each fire by chance in 2.3 % of the cases.
    assert np.mean(reached) > 0.93


def test_rise_of_a_few_standard_errors_is_no_plateau():
    rng = np.random.default_rng(1)
    h = MAX_LONG_HORIZON_STEPS
    rise = 5.0 * np.sqrt(2.0 / h)  # between the means of the two halves
    ramp = np.linspace(0.0, 2.0 * rise, 2 * h)
    assert not any(fed(ramp + rng.normal(size=2 * h)).reached for _ in range(100))


def test_slow_rise_shows_on_the_long_horizon_only():
    rng = np.random.default_rng(2)
    values = np.linspace(0.0, 0.6, 2 * MAX_LONG_HORIZON_STEPS) + rng.normal(
        size=2 * MAX_LONG_HORIZON_STEPS
    )
    plateau = fed(values)
    gain, error = plateau.gain(SHORT_HORIZON_STEPS)
    assert gain < 2 * error
    assert not plateau.reached


def test_fall_is_a_plateau():
    assert fed(np.linspace(1.0, 0.0, 800)).reached


@pytest.mark.parametrize("count", [1, 2 * SHORT_HORIZON_STEPS - 1])
def test_too_few_steps_are_no_plateau(count):
    assert not fed(np.zeros(count)).reached


@pytest.mark.parametrize("bad", [np.nan, -np.inf])
def test_values_that_are_not_finite_are_no_plateau(bad):
    values = np.zeros(1000)
    values[900] = bad
    assert not fed(values).reached


def test_description_at_the_step_limit():
    assert "ELBO rising by 1" in fed(np.repeat([0.0, 1.0], 50)).describe(100)
    assert "before the last learning rate" in fed([0.0]).describe(100)
