"""Kernel methods without priors, as scikit-learn estimators: ridge regression and its relatives."""

from bayeskern.ridge import losses
from bayeskern.ridge.coefficient_path import CoefficientPath, coefficient_path
from bayeskern.ridge.kernel_pca import KernelPCA
from bayeskern.ridge.kernel_ridge.feature_ridge import FourierRidge, NystromRidge
from bayeskern.ridge.kernel_ridge.kernel_ridge import KernelRidge
from bayeskern.ridge.least_squares import LeastSquares, least_squares
from bayeskern.ridge.lms import KernelLMS
from bayeskern.ridge.machines.kernel_machine import (
    KernelLogisticRegression,
    KernelMachineClassifier,
    KernelMachineRegressor,
)
from bayeskern.ridge.machines.support_vector import KernelSVC, KernelSVR
from bayeskern.ridge.matching_pursuit.matching_pursuit import KernelMatchingPursuit
from bayeskern.ridge.neighbors import KernelKNNClassifier, KernelKNNRegressor
from bayeskern.ridge.perceptron import KernelPerceptron

__all__ = [
    "CoefficientPath",
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
    "coefficient_path",
    "least_squares",
    "losses",
]
