"""Kernels k(x, z) and the algebra that combines them."""

from typing import TYPE_CHECKING

from bayeskern.hyperparameters import Free, from_sd, hyperparameter, sample
from bayeskern.kernels.base import Kernel
from bayeskern.kernels.components import component, components
from bayeskern.kernels.compound import Product, Sum
from bayeskern.kernels.constant import Constant, White
from bayeskern.kernels.families.categorical import Categorical, Precomputed
from bayeskern.kernels.families.change_point import ChangePoint
from bayeskern.kernels.families.coregion import Coregion
from bayeskern.kernels.families.custom import Custom, kernel_from_features
from bayeskern.kernels.families.dot_product import AllSubsets, ArcCosine, Linear, Polynomial
from bayeskern.kernels.families.hilbert_space import HilbertSpace
from bayeskern.kernels.families.integrated_ornstein_uhlenbeck import IntegratedOrnsteinUhlenbeck
from bayeskern.kernels.families.markov_rbf import MarkovRBF
from bayeskern.kernels.families.matern import Matern, Matern12, Matern32, Matern52
from bayeskern.kernels.families.periodic import Cosine, Periodic, Seasonal
from bayeskern.kernels.families.rbf import (
    RBF,
    InverseMultiquadric,
    Multiquadric,
    PowerExponential,
    RationalQuadratic,
)
from bayeskern.kernels.families.spectral_mixture import SpectralMixture
from bayeskern.kernels.families.stationary import Stationary
from bayeskern.kernels.families.trend import Brownian, IntegratedBrownian
from bayeskern.kernels.psd import check_psd
from bayeskern.kernels.wrappers import Exp, Modulated, Named, Power, Scaled, Select, Warped

if TYPE_CHECKING:
    from bayeskern.kernels.approximation import NystromFeatures, RadialBasis, RandomFourierFeatures

__all__ = [
    "RBF",
    "AllSubsets",
    "ArcCosine",
    "Brownian",
    "Categorical",
    "ChangePoint",
    "Constant",
    "Coregion",
    "Cosine",
    "Custom",
    "Exp",
    "Free",
    "HilbertSpace",
    "IntegratedBrownian",
    "IntegratedOrnsteinUhlenbeck",
    "InverseMultiquadric",
    "Kernel",
    "Linear",
    "MarkovRBF",
    "Matern",
    "Matern12",
    "Matern32",
    "Matern52",
    "Modulated",
    "Multiquadric",
    "Named",
    "NystromFeatures",
    "Periodic",
    "Polynomial",
    "Power",
    "PowerExponential",
    "Precomputed",
    "Product",
    "RadialBasis",
    "RandomFourierFeatures",
    "RationalQuadratic",
    "Scaled",
    "Seasonal",
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
    "kernel_from_features",
    "sample",
]


def __getattr__(name: str):
    # Imported on first use, because scikit-learn takes a quarter of a second to import.
    if name in ("NystromFeatures", "RadialBasis", "RandomFourierFeatures"):
        from bayeskern.kernels import approximation

        return getattr(approximation, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
