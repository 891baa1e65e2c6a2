"""Inference for any NumPyro model: a posterior with a verdict on its draws."""

from bayeskern.inference.estimate import Estimate
from bayeskern.inference.external.assess import assess
from bayeskern.inference.findings import Findings
from bayeskern.inference.infer import infer
from bayeskern.inference.methods.auto import Auto
from bayeskern.inference.methods.base import Method
from bayeskern.inference.methods.exact import Exact
from bayeskern.inference.methods.importance import ImportanceSampling
from bayeskern.inference.methods.laplace import Laplace
from bayeskern.inference.methods.map import MAP, MLE
from bayeskern.inference.methods.nuts import NUTS
from bayeskern.inference.methods.pathfinder import Pathfinder
from bayeskern.inference.methods.registry import METHODS, as_method
from bayeskern.inference.methods.smc import SMC
from bayeskern.inference.methods.svi import SVI
from bayeskern.inference.model.target import Target
from bayeskern.inference.model.trace.unnormalized import LogDensity
from bayeskern.inference.posterior.load import load
from bayeskern.inference.posterior.posterior import Posterior
from bayeskern.inference.prior_predictive import prior_predictive
from bayeskern.inference.problem import Problem
from bayeskern.inference.result import Fit
from bayeskern.inference.search.modes import Optimum
from bayeskern.inference.verdict import Trust

__all__ = [
    "MAP",
    "METHODS",
    "MLE",
    "NUTS",
    "SMC",
    "SVI",
    "Auto",
    "Estimate",
    "Exact",
    "Findings",
    "Fit",
    "ImportanceSampling",
    "Laplace",
    "LogDensity",
    "Method",
    "Optimum",
    "Pathfinder",
    "Posterior",
    "Problem",
    "Target",
    "Trust",
    "as_method",
    "assess",
    "infer",
    "load",
    "prior_predictive",
]
