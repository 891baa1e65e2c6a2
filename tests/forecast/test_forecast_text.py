"""Tables of forecasts on the terminal."""

import numpy as np
import pytest

import bayeskern as bk
from bayeskern.forecast.forecast_text import summary, value_table

ONE = {"season": 0, "trend": "drift", "model": bk.StructuralModel(log=False, method="map")}


def of(horizon, size=1.0):
    y = size * np.random.default_rng(0).standard_normal(40)
    return bk.forecast(y, horizon, **ONE)


@pytest.mark.parametrize("horizon", [1, 7, 36])
def test_every_step_is_shown(horizon):
    table = str(of(horizon)).rpartition("\n\n")[2].splitlines()[1:]
    assert [line.split()[0] for line in table] == [str(40 + i) for i in range(horizon)]


def test_long_horizons_say_how_many_steps_are_left_out():
    f = of(50)
    table = summary(f, rows=10).rpartition("\n\n")[2].splitlines()[1:]
    assert [line.split()[0] for line in table[:9]] == [str(40 + i) for i in range(9)]
    assert table[9].strip() == "... 40 more steps, up to 88: to_frame() has all"
    assert table[10].split()[0] == "89" and len(table) == 11


@pytest.mark.parametrize("size", [1e-3, 1.0, 1e6])
def test_numbers_are_rounded_to_a_tenth_of_their_uncertainty(size):
    f = of(5, size)
    _, rows, left_out = value_table(f, 36)
    assert left_out == 0
    shown = np.array([float(median.replace(",", "")) for _, median, _ in rows])
    sd = np.min(np.subtract(*f.interval(0.8)[::-1])) / 2.563
    # Half of the last digit, which is between a tenth and a hundredth of the sd.
    error = np.max(np.abs(shown - f.median))
    assert error <= 0.05 * sd * (1 + 1e-9)
    for _, median, _ in rows:
        digits = median.strip("-0.").replace(",", "").replace(".", "")
        assert len(digits.rstrip("0")) <= 4
