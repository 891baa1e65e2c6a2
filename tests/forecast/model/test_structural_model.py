"""Options of the structural model, each checked where it is given."""

import inspect

import numpy as np
import pandas as pd
import pytest

import bayeskern as bk
from bayeskern.kernels import RBF
from tests.forecast.examples import HORIZON, N, months, seasonal


def test_forecast_has_at_most_eleven_parameters():
    assert len(inspect.signature(bk.forecast).parameters) <= 11


def test_equality_and_repr():
    model = bk.StructuralModel(log=True, holiday_window=(1, 0))
    assert model == bk.StructuralModel(holiday_window=(1, 0), log=True) != bk.StructuralModel()
    assert repr(model) == "StructuralModel(log=True, holiday_window=(1, 0))"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"log": "yes"}, "True, False or None; got 'yes'"),
        ({"robust": 3}, "True or False; got 3"),
        ({"kernel": {}}, "at least one kernel by name; got {}"),
        ({"effect_kernels": RBF()}, "at least one kernel by name; got RBF"),
        ({"holiday_window": 3}, "days before and after .*got 3"),
        ({"holiday_window": (-1, 0)}, r"days before and after .*got \(-1, 0\)"),
        ({"lower": 1.0, "upper": 0.0}, r"a number above lower \(1.0\); got 0.0"),
        ({"lower": np.nan}, "must be a number; got nan"),
        ({"upper": "high"}, "must be a number above .* got 'high'"),
        ({"method": "mpa"}, "'mpa' is not known.*Did you mean 'map'"),
        ({"kernel": RBF(), "robust": True}, r"\(robust=...\) applies to the built-in"),
        ({"kernel": RBF(), "changes": "find"}, r"\(changes=...\) applies to the built-in"),
        ({"last": 2}, "whole number of at least 3, got 2"),
        ({"last": 10.0}, "whole number of at least 3, got 10.0"),
        ({"last": True}, "whole number of at least 3, got True"),
    ],
)
def test_bad_values(options, message):
    with pytest.raises(ValueError, match=message):
        bk.StructuralModel(**options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kernel": 3}, "must be kernels; got {'given': 3}"),
        ({"priors": {"noise": 1.0}}, "must be a result of learn_priors"),
        ({"method": bk.NUTS}, "with the parentheses"),
        ({"positive": True}, "unexpected keyword argument 'positive'"),
    ],
)
def test_bad_types(options, message):
    with pytest.raises(TypeError, match=message):
        bk.StructuralModel(**options)


def test_models_of_other_types_are_refused():
    with pytest.raises(TypeError, match="StructuralModel.*got a RBF"):
        bk.forecast(seasonal(), HORIZON, model=RBF())


def test_last_values_only():
    """The forecast is that of the last values alone, with a remark."""
    long, last = pd.Series(seasonal(), months()), pd.Series(seasonal()[20:], months()[20:])
    options = {"season": 12, "trend": "smooth"}
    model = bk.StructuralModel(method="map", last=40)
    one, other = (bk.forecast(s, HORIZON, model=model, **options) for s in (long, last))
    np.testing.assert_allclose(one.median, other.median, rtol=1e-9)
    assert one.remarks == ("only the last 40 of 60 values are fitted",) and other.remarks == ()
    own = bk.StructuralModel(kernel=RBF(0.3, 1.0), method="map", last=40)
    assert len(bk.forecast(long, HORIZON, model=own).leading.y) == 40
    assert len(bk.anomalies(long, model=model, **options).values) == 40 < N
