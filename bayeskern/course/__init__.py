"""Estimators and conjugate families of the lecture notes, each about a page long."""

from bayeskern.course import losses
from bayeskern.course.coefficient_path import CoefficientPath, coefficient_path
from bayeskern.course.conjugate import (
    BetaBernoulli,
    DirichletCategorical,
    GammaExponential,
    GammaPoisson,
    NormalGamma,
    NormalNormal,
)
from bayeskern.course.kernel_machine import (
    KernelLogisticRegression,
    KernelMachineClassifier,
    KernelMachineRegressor,
)
from bayeskern.course.kernel_pca import KernelPCA
from bayeskern.course.least_squares import LeastSquares, least_squares
from bayeskern.course.lms import KernelLMS, KernelLMSClassifier
from bayeskern.course.matching_pursuit import KernelMatchingPursuit
from bayeskern.course.neighbors import KernelKNNClassifier, KernelKNNRegressor
from bayeskern.course.perceptron import KernelPerceptron
from bayeskern.course.support_vector import KernelSVC, KernelSVR

__all__ = [
    "BetaBernoulli",
    "CoefficientPath",
    "DirichletCategorical",
    "GammaExponential",
    "GammaPoisson",
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
    "KernelSVC",
    "KernelSVR",
    "LeastSquares",
    "NormalGamma",
    "NormalNormal",
    "coefficient_path",
    "least_squares",
    "losses",
]
