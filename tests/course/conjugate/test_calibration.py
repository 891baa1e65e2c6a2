"""Simulation-based calibration of posteriors in closed form."""

import numpy as np
import pytest

import bayeskern as bk
from tests.course.conjugate.families import FAMILIES


@pytest.mark.slow
@pytest.mark.parametrize("name", FAMILIES)
def test_calibrate_finds_no_fault(name):
    family = FAMILIES[name]
    found = bk.calibrate(
        family.model,
        family.y,
        method="exact",
        simulations=100,
        level=0.999,
        progress=False,
        **family.extra,
    )
    assert found.failures == {} and found.faults == {}


@pytest.mark.slow
def test_calibrate_finds_a_wrong_posterior():
    class Stubborn(bk.BetaBernoulli):
        def given(self, y, trials):
            return super().given(y, trials) if len(y) == 0 else super().given(y[:2], trials[:2])

    model, y = Stubborn(2.0, 2.0), np.ones(40)
    found = bk.calibrate(model, y, method="exact", simulations=100, level=0.999, progress=False)
    assert found.faults
