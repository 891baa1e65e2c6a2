"""Kernels k(x, z) and the algebra that joins them."""

from bayeskern.kernels.algebra import (
    Exp,
    Named,
    Power,
    Product,
    Scaled,
    Select,
    Sum,
    Warped,
    component,
    components,
)
from bayeskern.kernels.base import Kernel
from bayeskern.kernels.custom import Custom
from bayeskern.kernels.dot_product import AllSubsets, ArcCosine, Constant, Linear, Polynomial
from bayeskern.kernels.hyperparameters import Free, from_sd, hyperparameter, sample
from bayeskern.kernels.periodic import Cosine, Periodic
from bayeskern.kernels.psd import check_psd
from bayeskern.kernels.stationary import (
    RBF,
    InverseMultiquadric,
    Matern12,
    Matern32,
    Matern52,
    Multiquadric,
    RationalQuadratic,
    SpectralMixture,
    Stationary,
    White,
)

__all__ = [
    "RBF",
    "AllSubsets",
    "ArcCosine",
    "Constant",
    "Cosine",
    "Custom",
    "Exp",
    "Free",
    "InverseMultiquadric",
    "Kernel",
    "Linear",
    "Matern12",
    "Matern32",
    "Matern52",
    "Multiquadric",
    "Named",
    "Periodic",
    "Polynomial",
    "Power",
    "Product",
    "RationalQuadratic",
    "Scaled",
    "Select",
    "SpectralMixture",
    "Stationary",
    "Sum",
    "Warped",
    "White",
    "check_psd",
    "component",
    "components",
    "from_sd",
    "hyperparameter",
    "sample",
]
