"""Tables show means and intervals to the digits that their spread lets matter, and no more."""

import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from hypothesis import given
from hypothesis import strategies as st

import bayeskern as bk
from bayeskern.inference.table import to_spread

sizes = st.floats(-12.0, 12.0).map(lambda x: 10.0**x)


@given(st.floats(-5.0, 5.0), sizes, sizes)
def test_what_is_shown_is_within_a_twentieth_of_the_spread(value, size, spread):
    value *= size
    error = abs(float(to_spread(value, spread)) - value)
    assert error <= 0.05 * spread * (1 + 1e-9) + 1e-15 * abs(value)


@pytest.mark.parametrize(
    ("value", "spread", "text"),
    [
        (1234.5678, 0.0142, "1234.568"),
        (-2201.3, 110.0, "-2201"),
        (0.0, 0.5, "0.00"),
        (-0.001, 0.5, "0.00"),
        (1.5e-7, 2e-8, "1.50e-07"),
        (3.2e12, 1e9, "3.2000e+12"),
        (1.25, 0.0, "1.25"),
        (1.25, np.nan, "1.25"),
    ],
)
def test_numbers_end_at_the_second_digit_of_their_spread(value, spread, text):
    assert to_spread(value, spread) == text


def far(y):
    mu = numpyro.sample("mu", dist.Normal(1200.0, 100.0))
    numpyro.sample("y", dist.Normal(mu, 0.05).expand([len(y)]), obs=y)


@pytest.mark.parametrize("method", ["laplace", "nuts"])
@pytest.mark.parametrize("options", [{}, {"kind": "stats_median"}])
def test_a_mean_far_from_zero_is_shown_whole(method, options):
    # N(1234.5600, 0.0144^2), next to nothing of the prior.
    y = 1234.56 + 0.05 * np.array([-1.0, 1.0] * 6)
    table = bk.infer(far, y, method=method, progress=False).summary(**options)
    middle, *_, low, high = str(table).splitlines()[1].split()[1:5]
    assert abs(float(middle) - 1234.56) < 0.002
    assert float(high) - float(low) == pytest.approx(2 * 1.598 * 0.01443, rel=0.1)
    # The numbers themselves are not rounded.
    assert table.iloc[0, 0] != float(middle)


def test_round_to_is_arvizs():
    posterior = bk.infer(far, np.array([1234.5, 1234.6]), method="laplace", progress=False)
    assert posterior.summary(round_to=1).loc["mu", "mean"] == pytest.approx(1234.5, abs=0.06)
