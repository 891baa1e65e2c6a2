"""Feature maps phi with phi(x)'phi(z) ~ k(x, z), as scikit-learn transformers."""

from bayeskern.kernels.approximation.nystrom import NystromFeatures
from bayeskern.kernels.approximation.radial_basis import RadialBasis
from bayeskern.kernels.approximation.random_fourier import RandomFourierFeatures

__all__ = ["NystromFeatures", "RadialBasis", "RandomFourierFeatures"]
