"""`forecast` as an sktime forecaster, for pipelines, tuning and evaluation.

Requires sktime: pip install bayeskern[sktime].
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from bayeskern.core import extras
from bayeskern.core.progress import hidden_progress
from bayeskern.forecast.forecast import forecast
from bayeskern.forecast.model.structural_model import StructuralModel
from bayeskern.forecast.result import Forecast
from bayeskern.series.columns import SeriesColumns
from bayeskern.series.read_options import ReadOptions
from bayeskern.series.reading import read_series
from bayeskern.series.regressors import Regressors

with extras.needed_for("BayeskernForecaster", package="sktime", extra="sktime"):
    from sktime.forecasting.base import BaseForecaster


class BayeskernForecaster(BaseForecaster):
    """Forecaster by `bayeskern.forecast`, a weighted average of structural models.

    Predicts medians, quantiles, intervals and variances at future times. The series may have
    missing values. Columns X must be known for the future too; each has a linear effect.

    Args:
        season: Length of a season in steps, or several lengths; 0 for none; None infers them.
        trend: Name of a trend, such as "slope"; None averages several.
        likelihood: "poisson", "negative_binomial" or "zero_inflated" for counts, "beta" for shares.
        model: Further options, such as `bayeskern.StructuralModel(log=True)`; None for defaults.
        seed: Random seed.

    Examples:
        >>> import pandas as pd
        >>> from bayeskern.sktime import BayeskernForecaster
        >>> months = pd.period_range("2020-01", periods=24, freq="M")
        >>> y = pd.Series([100.0 + 2.0 * i + (-1.0) ** i for i in range(24)], months)
        >>> forecaster = BayeskernForecaster(season=0).fit(y)
        >>> forecaster.predict(fh=[1, 2]).index.astype(str).tolist()
        ['2022-01', '2022-02']
        >>> forecaster.forecast([1, 2]).trust.verdict in ("good", "caution")
        True
    """

    _tags: ClassVar = {
        "y_inner_mtype": "pd.Series",
        "X_inner_mtype": "pd.DataFrame",
        "requires-fh-in-fit": False,
        "capability:exogenous": True,
        "capability:categorical_in_X": False,
        "capability:non_contiguous_X": False,
        "capability:insample": False,
        "capability:pred_int": True,
        "capability:pred_int:insample": False,
        "capability:missing_values": True,
        "capability:update": True,
        "python_dependencies": None,
    }

    def __init__(
        self,
        season: float | Sequence[float] | None = None,
        trend: str | None = None,
        likelihood: str | None = None,
        model: StructuralModel | None = None,
        seed: int = 0,
    ):
        self.season, self.trend, self.likelihood = season, trend, likelihood
        self.model, self.seed = model, seed
        super().__init__()

    def forecast(self, fh: Any = None, X: pd.DataFrame | None = None) -> Forecast:
        """The forecast behind the predictions, with its verdict, components and plots.

        Args:
            fh: Forecasting horizon, if `fit` was given none; the forecast ends at its last step.
            X: Columns known at future times, if `fit` was given X.

        Returns:
            The result of `bayeskern.forecast`.
        """
        self.check_is_fitted()
        return self._forecast(self._steps(self._check_fh(fh)).max(), X)

    def _fit(self, y, X, fh):
        self._known_y, self._known_X = y, X
        if X is None:
            # `bayeskern.forecast` caches this fit. With X, a fit would need the future X.
            self._forecast(1)
        return self

    def _update(self, y, X=None, update_params=True):
        # sktime replays a series by updates: drop known values after the end of y.
        self._known_y = y.combine_first(self._known_y).loc[: y.index[-1]]
        if X is not None:
            self._known_X = X.combine_first(self._known_X)
        return self

    def _forecast(self, horizon: int, X: pd.DataFrame | None = None) -> Forecast:
        y, regressors = self._known_y, None
        if self._known_X is not None:
            all_X = self._known_X if X is None else X.combine_first(self._known_X)
            columns = {str(name): column.to_numpy() for name, column in all_X.items()}
            table = SeriesColumns("the index of X", _times(all_X.index), regressors=columns)
            regressors = Regressors.from_columns(table, ReadOptions())
        series = read_series(y.to_numpy(float), _times(y.index))
        series = replace(series, regressors=regressors)
        options = self.get_params(deep=False)
        # The checks of sktime allow no objects as default arguments.
        options["model"] = StructuralModel() if self.model is None else self.model
        with hidden_progress():
            return forecast(series, int(horizon), **options)

    def _steps(self, fh) -> np.ndarray:
        """The horizon in steps after the last observed value, counted from 1."""
        steps = fh.to_relative(self.cutoff).to_numpy().astype(int)
        # fh counts from the last time, whose value may be missing.
        return steps + int(np.argmax(self._known_y.notna().to_numpy()[::-1]))

    def _forecast_horizon(self, fh, X):
        """The forecast, the indices of its steps in the horizon, and their times."""
        steps = self._steps(fh)
        return self._forecast(steps.max(), X), steps - 1, fh.to_absolute_index(self.cutoff)

    def _predict(self, fh, X):
        f, steps, index = self._forecast_horizon(fh, X)
        return pd.Series(f.median[steps], index=index, name=self._known_y.name)

    def _predict_quantiles(self, fh, X, alpha):
        f, steps, index = self._forecast_horizon(fh, X)
        columns = pd.MultiIndex.from_product([self._get_varnames(), alpha])
        values = f.quantile(np.asarray(alpha, float))[:, steps].T
        return pd.DataFrame(values, index=index, columns=columns)

    def _predict_var(self, fh, X=None, cov=False):
        f, steps, index = self._forecast_horizon(fh, X)
        if cov:
            draws = f.sample(1000, self.seed)[:, steps]
            return pd.DataFrame(np.cov(draws.T).reshape(len(steps), -1), index, index)
        return pd.DataFrame(np.square(f.sd[steps]), index=index, columns=self._get_varnames())

    @classmethod
    def get_test_params(cls, parameter_set="default"):
        """Parameters for the tests of sktime."""
        model = StructuralModel(log=False)
        return [{"season": 0, "trend": "drift"}, {"trend": "slope", "model": model, "season": 0}]


def _times(index: pd.Index) -> np.ndarray:
    """Times of an index, in a form that `read_series` accepts."""
    return (index.to_timestamp() if isinstance(index, pd.PeriodIndex) else index).to_numpy()
