"""Sales of a shop with promotions and prices, and forecasts of them."""

import numpy as np
import pandas as pd

import bayeskern as bk

N, AHEAD = 90, 6
DAYS = pd.date_range("2023-01-01", periods=N + AHEAD, freq="D")
MAP = bk.StructuralModel(log=False, method="map")
QUANTILES = [0.025, 0.1, 0.5, 0.9, 0.975]
# Other future values of both regressors.
CHANGES = {"price": np.linspace(4.0, 6.5, AHEAD), "promo": [1.0, 0.0, 1.0, 1.0, 0.0, 1.0]}


def shop(**changes):
    """Sales with promotions and prices; `changes` replace the future values of a column."""
    rng = np.random.default_rng(0)
    promo = (rng.random(N + AHEAD) < 0.2).astype(float)
    price = 5.0 + 0.5 * rng.normal(size=N + AHEAD)
    y = 60.0 + 8.0 * promo - 4.0 * price + 2.0 * rng.normal(size=N + AHEAD)
    frame = pd.DataFrame({"day": DAYS, "promo": promo, "price": price, "y": y})
    frame.loc[N:, "y"] = np.nan
    for name, values in changes.items():
        frame.loc[N:, name] = values
    return frame


def fit(frame, **options):
    series = bk.read_series(frame, value="y", regressors=["promo", "price"])
    return bk.forecast(series, AHEAD, **({"season": 0, "trend": "drift", "model": MAP} | options))
