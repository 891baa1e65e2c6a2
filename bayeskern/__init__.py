"""bayeskern: kernels, Gaussian processes and Bayesian inference on NumPyro, JAX and ArviZ."""

from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

from bayeskern.core import jax_settings as _jax_settings

# JAX must be set up before any array is made.
_jax_settings.apply()

# Before its submodules: after `import arviz`, NumPyro loses `numpyro.distributions.distribution`
# otherwise, and `numpyro.factor` fails.
import numpyro as _numpyro  # noqa: F401

from bayeskern import datasets, distributed, kernels, likelihoods
from bayeskern.core.validation import NotPositiveDefiniteError
from bayeskern.diagnostics import (
    Calibration,
    Comparison,
    CrossValidation,
    ForecastComparison,
    calibrate,
    compare,
    loo,
)
from bayeskern.forecast import (
    Anomalies,
    Backtest,
    CoherentForecast,
    CoherentForecasts,
    FilledSeries,
    Forecast,
    Forecasts,
    KernelSearch,
    MixedForecast,
    Nowcast,
    Priors,
    Reconciled,
    ScenarioComparison,
    StructuralModel,
    TemporallyReconciled,
    anomalies,
    backtest,
    compare_scenarios,
    fill_gaps,
    forecast,
    forecast_many,
    forecast_mixed,
    learn_priors,
    load,
    read_series,
    reconcile,
    reconcile_temporal,
    search_kernel,
    summary,
)
from bayeskern.gp import (
    GaussianProcess,
    GPRegression,
    LatentGP,
    LatentProcess,
    NoiseProcess,
    SparseGP,
)
from bayeskern.inference import (
    MAP,
    MLE,
    NUTS,
    SMC,
    SVI,
    Auto,
    Exact,
    ImportanceSampling,
    Laplace,
    LogDensity,
    Pathfinder,
    Posterior,
    Trust,
    assess,
    infer,
    prior_predictive,
)
from bayeskern.inference.problem import Problem
from bayeskern.kernels import Free, check_psd, from_sd, sample
from bayeskern.kernels.measured.rows import Derivative, Interval
from bayeskern.linear import BayesianGLM, BayesianLinearRegression, priors
from bayeskern.prediction.mixture import Prediction

if _TYPE_CHECKING:
    from bayeskern import course, ridge
    from bayeskern.course import (
        BetaBernoulli,
        DirichletCategorical,
        GammaExponential,
        GammaPoisson,
        KernelKNNClassifier,
        KernelKNNRegressor,
        KernelLMS,
        KernelLMSClassifier,
        KernelLogisticRegression,
        KernelMachineClassifier,
        KernelMachineRegressor,
        KernelMatchingPursuit,
        KernelPCA,
        KernelPerceptron,
        KernelSVC,
        KernelSVR,
        NormalGamma,
        NormalNormal,
    )
    from bayeskern.formula import comparisons, datagrid, predictions, regression, slopes
    from bayeskern.regressor import GPRegressor
    from bayeskern.reports import report
    from bayeskern.ridge import FourierRidge, KernelRidge, NystromRidge

__version__ = "0.1.0"
__all__ = [
    "MAP",
    "MLE",
    "NUTS",
    "SMC",
    "SVI",
    "Anomalies",
    "Auto",
    "Backtest",
    "BayesianGLM",
    "BayesianLinearRegression",
    "BetaBernoulli",
    "Calibration",
    "CoherentForecast",
    "CoherentForecasts",
    "Comparison",
    "CrossValidation",
    "Derivative",
    "DirichletCategorical",
    "Exact",
    "FilledSeries",
    "Forecast",
    "ForecastComparison",
    "Forecasts",
    "FourierRidge",
    "Free",
    "GPRegression",
    "GPRegressor",
    "GammaExponential",
    "GammaPoisson",
    "GaussianProcess",
    "ImportanceSampling",
    "Interval",
    "KernelKNNClassifier",
    "KernelKNNRegressor",
    "KernelLMS",
    "KernelLMSClassifier",
    "KernelLogisticRegression",
    "KernelMachineClassifier",
    "KernelMachineRegressor",
    "KernelMatchingPursuit",
    "KernelPCA",
    "KernelPerceptron",
    "KernelRidge",
    "KernelSVC",
    "KernelSVR",
    "KernelSearch",
    "Laplace",
    "LatentGP",
    "LatentProcess",
    "LogDensity",
    "MixedForecast",
    "NoiseProcess",
    "NormalGamma",
    "NormalNormal",
    "NotPositiveDefiniteError",
    "Nowcast",
    "NystromRidge",
    "Pathfinder",
    "Posterior",
    "Prediction",
    "Priors",
    "Problem",
    "Reconciled",
    "ScenarioComparison",
    "SparseGP",
    "StructuralModel",
    "TemporallyReconciled",
    "Trust",
    "anomalies",
    "assess",
    "backtest",
    "calibrate",
    "check_psd",
    "compare",
    "compare_scenarios",
    "comparisons",
    "course",
    "datagrid",
    "datasets",
    "distributed",
    "fill_gaps",
    "forecast",
    "forecast_many",
    "forecast_mixed",
    "from_sd",
    "infer",
    "kernels",
    "learn_priors",
    "likelihoods",
    "load",
    "loo",
    "predictions",
    "prior_predictive",
    "priors",
    "read_series",
    "reconcile",
    "reconcile_temporal",
    "regression",
    "report",
    "ridge",
    "sample",
    "search_kernel",
    "slopes",
    "summary",
]


# scikit-learn and pandas take a quarter of a second each to import: estimators, regressions and
# reports are imported on first use. Other names that are not imported above are in
# `bayeskern.course`.
_MODULES = {
    **dict.fromkeys(
        ("comparisons", "datagrid", "predictions", "regression", "slopes"), "bayeskern.formula"
    ),
    "FourierRidge": "bayeskern.ridge",
    "GPRegressor": "bayeskern.regressor",
    "KernelRidge": "bayeskern.ridge",
    "NystromRidge": "bayeskern.ridge",
    "report": "bayeskern.reports",
}


def __getattr__(name: str) -> _Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    if name in ("course", "ridge"):
        return import_module(f"bayeskern.{name}")
    return getattr(import_module(_MODULES.get(name, "bayeskern.course")), name)


def __dir__() -> list[str]:
    return __all__
