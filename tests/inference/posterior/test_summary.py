"""Summary tables show as many digits as the spread justifies."""

import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from hypothesis import given
from hypothesis import strategies as st

import bayeskern as bk
from bayeskern.core.formatting import alike
from tests.marks import slow

sizes = st.floats(-12.0, 12.0).map(lambda x: 10.0**x)


@given(st.floats(-5.0, 5.0), sizes, sizes)
def test_shown_value_is_within_a_hundredth_of_the_spread(value, size, spread):
    value *= size
    (text,) = alike((value,), spread)
    error = abs(float(text.replace(",", "")) - value)
    # Below a share of 1e-13 of the value there is no spread but rounding.
    assert error <= 0.01 * spread or (spread < 1e-13 * abs(value) and error <= 1e-3 * abs(value))


def far(y):
    mu = numpyro.sample("mu", dist.Normal(1200.0, 100.0))
    numpyro.sample("y", dist.Normal(mu, 0.05).expand([len(y)]), obs=y)


@pytest.mark.parametrize("method", ["laplace", slow("nuts")])
@pytest.mark.parametrize("options", [{}, {"kind": "stats_median"}])
def test_digits_follow_the_sd_of_a_mean_far_from_zero(method, options):
    # N(1234.5600, 0.0144^2), next to nothing of the prior.
    y = 1234.56 + 0.05 * np.array([-1.0, 1.0] * 6)
    table = bk.infer(far, y, method=method, progress=False).summary(**options)
    middle, *_, low, high = str(table).splitlines()[1].split()[1:5]
    middle, low, high = (float(x.replace(",", "")) for x in (middle, low, high))
    assert abs(middle - 1234.56) < 0.002
    assert high - low == pytest.approx(2 * 1.598 * 0.01443, rel=0.1)
    # The numbers themselves are not rounded.
    assert table.iloc[0, 0] != middle


def test_round_to_is_passed_to_arviz():
    posterior = bk.infer(far, np.array([1234.5, 1234.6]), method="laplace", progress=False)
    assert posterior.summary(round_to=1).loc["mu", "mean"] == pytest.approx(1234.5, abs=0.06)
