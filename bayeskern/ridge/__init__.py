"""Kernels without priors: ridge regression and its relatives, as scikit-learn has estimators."""

from bayeskern.ridge import losses
from bayeskern.ridge.descent import KernelLMS
from bayeskern.ridge.kernel_ridge import KernelRidge
from bayeskern.ridge.least_squares import LeastSquares, least_squares
from bayeskern.ridge.machine import (
    KernelLogisticRegression,
    KernelMachineClassifier,
    KernelMachineRegressor,
)
from bayeskern.ridge.machines import KernelPCA, KernelSVC, KernelSVR
from bayeskern.ridge.neighbours import KernelKNNClassifier, KernelKNNRegressor
from bayeskern.ridge.perceptron import KernelPerceptron
from bayeskern.ridge.pursuit import KernelMatchingPursuit
from bayeskern.ridge.reduced import FourierRidge, NystromRidge

__all__ = [
    "FourierRidge",
    "KernelKNNClassifier",
    "KernelKNNRegressor",
    "KernelLMS",
    "KernelLogisticRegression",
    "KernelMachineClassifier",
    "KernelMachineRegressor",
    "KernelMatchingPursuit",
    "KernelPCA",
    "KernelPerceptron",
    "KernelRidge",
    "KernelSVC",
    "KernelSVR",
    "LeastSquares",
    "NystromRidge",
    "least_squares",
    "losses",
]
