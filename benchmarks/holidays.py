"""Daily forecasts with holidays beside those of Prophet, on series of known making.

    uv run --group bench python -m benchmarks.holidays [SERIES]

Four years of daily values with a weekly and a yearly season and the effects of the holidays of the
United States; a year ahead is held out. Two makings: that of Prophet (piecewise linear trend with
changes of slope, Fourier terms, normal noise) and that of a local level with autocorrelated noise.
Both packages infer the seasons and are given the country. MAE of the median in units of the sd of
the noise, over all days and over holidays; coverage of 80 % intervals; CPU seconds a series.
"""

import logging
import os
import sys

import holidays
import numpy as np
import pandas as pd

import bayeskern as bk
from bayeskern.core.formatting import aligned
from benchmarks.table import peer

PAST, AHEAD, SD = 4 * 365, 365, 1.0
DAYS = pd.date_range("2019-01-01", periods=PAST + AHEAD, freq="D")
NAMES = holidays.country_holidays("US", years=range(2019, 2025))
PROPHET, LEVEL = "as Prophet has it", "a local level"


def series(making: str, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Values of all days, and which of them are holidays."""
    t = np.arange(len(DAYS)) / 365.25
    effects = {name: rng.normal(0.0, 5.0) for name in set(NAMES.values())}
    names = [NAMES.get(day) for day in DAYS.date]
    y = np.array([effects.get(name, 0.0) for name in names])
    y += rng.normal(0.0, 1.5, 7)[DAYS.dayofweek.to_numpy()]
    for k in range(1, 5):
        a, b = rng.normal(0.0, 3.0 / k, 2)
        y += a * np.sin(2.0 * np.pi * k * t) + b * np.cos(2.0 * np.pi * k * t)
    if making == PROPHET:
        changes = rng.uniform(0.0, 3.0, 8)
        y += rng.normal(0.0, 3.0) * t + np.maximum(t[:, None] - changes, 0.0) @ rng.laplace(0, 1, 8)
        return y + rng.normal(0.0, SD, len(t)), np.array([name is not None for name in names])
    noise = rng.normal(0.0, SD, len(t))
    for i in range(1, len(noise)):
        noise[i] = 0.6 * noise[i - 1] + 0.8 * noise[i]
    y += np.cumsum(rng.normal(0.0, 0.05, len(t))) + noise
    return y, np.array([name is not None for name in names])


def ours(y: np.ndarray) -> np.ndarray:
    """Quantiles .1, .5 and .9 of the days ahead, by bayeskern."""
    past = pd.Series(y, DAYS[:PAST])
    return bk.forecast(past, AHEAD, holidays="US").quantile([0.1, 0.5, 0.9])


def prophet(y: np.ndarray) -> np.ndarray:
    """Quantiles .1, .5 and .9 by Prophet with its defaults."""
    model = peer("prophet").Prophet(interval_width=0.8)
    model.add_country_holidays("US")
    model.fit(pd.DataFrame({"ds": DAYS[:PAST], "y": y}))
    table = model.predict(pd.DataFrame({"ds": DAYS[PAST:]}))
    return table[["yhat_lower", "yhat", "yhat_upper"]].to_numpy().T


def cpu_seconds() -> float:
    """Processor time of this process and its children: Prophet runs Stan in one."""
    return sum(os.times()[:4])


def main(count="20"):
    logging.getLogger("cmdstanpy").disabled = True
    models = {"bayeskern": ours} | ({"Prophet": prophet} if peer("prophet") else {})
    rows = [("series", "model", "MAE", "on holidays", "in 80 %", "CPU s")]
    for making in (PROPHET, LEVEL):
        scores = {name: [] for name in models}
        for seed in range(int(count)):
            y, is_holiday = series(making, np.random.default_rng(seed))
            for name, model in models.items():
                start = cpu_seconds()
                low, median, high = model(y[:PAST])
                seconds, future = cpu_seconds() - start, y[PAST:]
                error, inside = np.abs(median - future) / SD, (low <= future) & (future <= high)
                on_holidays = np.mean(error[is_holiday[PAST:]])
                scores[name].append((np.mean(error), on_holidays, np.mean(inside), seconds))
        for name, values in scores.items():
            means = np.mean(values, axis=0)
            rows.append((making, name, *(f"{value:.2f}" for value in means)))
    print("\n".join(aligned(rows)))


if __name__ == "__main__":
    main(*sys.argv[1:])
