"""Forecasts that several files look at."""

import numpy as np
import pandas as pd
import pytest

import bayeskern as bk
from tests.forecast.examples import HORIZON, ONE_STRUCTURE, months, seasonal
from tests.forecast.shop import fit, shop
from tests.marks import few


@pytest.fixture(scope="session")
def raw():
    """A series with values below zero: as given is the only scale."""
    series = pd.Series(seasonal(), months(), name="y").rename_axis("month")
    return bk.forecast(series, HORIZON, **ONE_STRUCTURE)


@pytest.fixture(scope="session")
def log():
    """Growth and a season in proportion to the level."""
    values = pd.Series(np.exp(2 + seasonal()), months(), name="sales")
    model = bk.StructuralModel(log=True, method="map")
    return bk.forecast(values, HORIZON, **(ONE_STRUCTURE | {"model": model}))


@pytest.fixture(scope="session", params=few(["raw", "log"], "log"))
def either(request):
    return request.getfixturevalue(request.param)


@pytest.fixture(scope="session")
def one():
    """Forecast of a shop by one structure at its mode."""
    return fit(shop())


@pytest.fixture(scope="session")
def average():
    """Forecast of a shop, averaged over structures and hyperparameters."""
    return fit(shop(), model=bk.StructuralModel())
