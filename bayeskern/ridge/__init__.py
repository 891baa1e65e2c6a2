"""Kernels without priors: ridge regression and its relatives, as scikit-learn has estimators."""

from bayeskern.ridge import losses
from bayeskern.ridge.kernel_ridge.feature_ridge import FourierRidge, NystromRidge
from bayeskern.ridge.kernel_ridge.kernel_ridge import KernelRidge
from bayeskern.ridge.least_squares import LeastSquares, least_squares
from bayeskern.ridge.lms import KernelLMS
from bayeskern.ridge.machines.kernel_machine import (
    KernelLogisticRegression,
    KernelMachineClassifier,
    KernelMachineRegressor,
)
from bayeskern.ridge.matching_pursuit.matching_pursuit import KernelMatchingPursuit
from bayeskern.ridge.neighbors import KernelKNNClassifier, KernelKNNRegressor
from bayeskern.ridge.perceptron import KernelPerceptron
from bayeskern.ridge.sklearn_wrappers import KernelPCA, KernelSVC, KernelSVR

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
