"""bayeskern: kernels, Gaussian processes and Bayesian inference on NumPyro, JAX and ArviZ."""

import os as _os

import jax as _jax

# float64 unless the user has decided otherwise.
if "JAX_ENABLE_X64" not in _os.environ:
    _jax.config.update("jax_enable_x64", True)

from bayeskern import datasets, kernels, likelihoods
from bayeskern.checks import NotPositiveDefiniteError
from bayeskern.diagnostics import Comparison, compare
from bayeskern.forecast import Backtest, Forecast, backtest, forecast, summary
from bayeskern.gp import GaussianProcess, GPRegression, LatentGP, LatentProcess, SparseGP
from bayeskern.inference import (
    MAP,
    MLE,
    NUTS,
    SVI,
    Auto,
    Exact,
    ImportanceSampling,
    Laplace,
    Pathfinder,
    Posterior,
    Trust,
    infer,
    load,
)
from bayeskern.kernels import Free, check_psd, from_sd, sample
from bayeskern.linear import BayesianGLM, BayesianLinearRegression, priors
from bayeskern.prediction import Prediction

__version__ = "0.1.0"
__all__ = [
    "MAP",
    "MLE",
    "NUTS",
    "SVI",
    "Auto",
    "Backtest",
    "BayesianGLM",
    "BayesianLinearRegression",
    "Comparison",
    "Exact",
    "Forecast",
    "Free",
    "GPRegression",
    "GaussianProcess",
    "ImportanceSampling",
    "Laplace",
    "LatentGP",
    "LatentProcess",
    "NotPositiveDefiniteError",
    "Pathfinder",
    "Posterior",
    "Prediction",
    "SparseGP",
    "Trust",
    "backtest",
    "check_psd",
    "compare",
    "datasets",
    "forecast",
    "from_sd",
    "infer",
    "kernels",
    "likelihoods",
    "load",
    "priors",
    "sample",
    "summary",
]
