"""The stopping rule on simulated ELBOs: what it must see, and what it must not."""

import numpy as np
import pytest

from bayeskern.inference.approximation.stopping import STOPPING, StoppingRule


def fed(values) -> StoppingRule:
    plateau = StoppingRule()
    plateau.next_level()
    plateau.add(np.asarray(values, float))
    return plateau


def test_noise_alone_is_a_plateau_nearly_always():
    rng = np.random.default_rng(0)
    reached = [fed(rng.normal(size=1000)).reached for _ in range(400)]
    # Two one-sided tests at two standard errors each fire by chance in 2.3 % of the cases.
    assert np.mean(reached) > 0.93


@pytest.mark.parametrize("noise", [0.1, 1.0, 10.0])
def test_a_rise_of_a_few_standard_errors_is_no_plateau(noise):
    rng = np.random.default_rng(1)
    h = STOPPING.long_steps
    rise = 5.0 * noise * np.sqrt(2.0 / h)  # between the means of the two halves
    ramp = np.linspace(0.0, 2.0 * rise, 2 * h)
    assert not any(fed(ramp + noise * rng.normal(size=2 * h)).reached for _ in range(100))


def test_a_slow_rise_that_the_short_horizon_cannot_see_shows_on_the_long_one():
    rng = np.random.default_rng(2)
    values = np.linspace(0.0, 0.6, 2 * STOPPING.long_steps) + rng.normal(
        size=2 * STOPPING.long_steps
    )
    plateau = fed(values)
    gain, error = plateau.gain(STOPPING.short_steps)
    assert gain < 2 * error
    assert not plateau.reached


def test_a_fall_counts_as_a_plateau_since_more_steps_would_not_help():
    assert fed(np.linspace(1.0, 0.0, 800)).reached


@pytest.mark.parametrize("count", [0, 1, 2 * STOPPING.short_steps - 1])
def test_too_few_steps_are_no_plateau(count):
    assert not fed(np.zeros(count)).reached


@pytest.mark.parametrize("bad", [np.nan, -np.inf])
def test_what_is_not_finite_is_no_plateau(bad):
    values = np.zeros(1000)
    values[900] = bad
    assert not fed(values).reached


def test_a_new_level_is_looked_at_by_itself_and_the_trace_keeps_all():
    plateau = fed(np.zeros(500))
    assert plateau.reached
    plateau.next_level()
    assert not plateau.reached
    plateau.add(np.ones(100))
    assert len(plateau.trace) == 600
    assert "step limit (600)" in plateau.describe(600)
