"""Kernel methods without priors, as scikit-learn estimators."""

from bayeskern.course import losses
from bayeskern.course.coefficient_path import CoefficientPath, coefficient_path
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
from bayeskern.ridge.feature_ridge import FourierRidge, NystromRidge
from bayeskern.ridge.kernel_ridge import KernelRidge

__all__ = [
    "CoefficientPath",
    "FourierRidge",
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
    "LeastSquares",
    "NystromRidge",
    "coefficient_path",
    "least_squares",
    "losses",
]
