"""Cases of every kernel, with hyperparameters that are not the default.

A new kernel needs one entry here. Tests of Gram matrices, derivatives, spectra, features, state
spaces, integrals and NumPy formulas take their kernels from these tables, by what each `offers`.
"""

import inspect

import jax.numpy as jnp
import numpy as np

from bayeskern import kernels
from bayeskern.kernels import (
    RBF,
    AllSubsets,
    ArcCosine,
    Brownian,
    Categorical,
    ChangePoint,
    Constant,
    Coregion,
    Cosine,
    Custom,
    HilbertSpace,
    IntegratedBrownian,
    IntegratedOrnsteinUhlenbeck,
    InverseMultiquadric,
    Kernel,
    Linear,
    MarkovRBF,
    Matern,
    Matern12,
    Matern32,
    Matern52,
    Multiquadric,
    Periodic,
    Polynomial,
    PowerExponential,
    Precomputed,
    RationalQuadratic,
    Seasonal,
    SpectralMixture,
    White,
)
from bayeskern.kernels.registry import KERNELS

# Start of the kernels that have one: inside intervals of the tests of means.
START = 0.2


def laplace(x, z, rate):
    """Matern 1/2 with a city-block distance: a product over dimensions, so PSD."""
    t = x - z
    return jnp.exp(-rate * jnp.sum(jnp.where(t == 0.0, 0.0, jnp.abs(t))))


def half_line(x):
    """0 or 1, for the sign of the first coordinate."""
    return (x[0] > 0.0).astype(x.dtype)


def of_columns(d):
    """Kernels of d columns."""
    scales = np.linspace(0.6, 1.9, d)
    L = np.diag(scales) + 0.3 * np.tri(d, k=-1)
    return {
        "rbf": RBF(lengthscale=0.8, variance=1.3),
        "rbf ard": RBF(lengthscale=scales, variance=0.4),
        "rbf metric": RBF(lengthscale=L),
        "matern": Matern(lengthscale=1.2, variance=0.7, nu=1.7),
        "matern72": Matern(lengthscale=1.2, variance=0.7, nu=3.5),
        "matern152": Matern(lengthscale=1.2, variance=0.7, nu=7.5),
        "matern12": Matern12(lengthscale=1.2, variance=0.7),
        "matern32 ard": Matern32(lengthscale=scales),
        "matern52 metric": Matern52(lengthscale=L, variance=2.0),
        "rational quadratic": RationalQuadratic(lengthscale=0.7, variance=1.1, alpha=0.6),
        "power exponential": PowerExponential(lengthscale=0.7, variance=1.1, gamma=1.3),
        "inverse multiquadric": InverseMultiquadric(lengthscale=0.7, variance=1.1),
        "multiquadric": Multiquadric(lengthscale=1.4),
        "hilbert space": HilbertSpace(Matern32(lengthscale=scales), -40.0, 45.0, 4),
        "white": White(variance=0.3),
        "spectral mixture": SpectralMixture(
            weights=[0.6, 1.5], means=[[0.3] * d, [0.1] * d], scales=[[0.2] * d, [0.05] * d]
        ),
        "periodic": Periodic(period=1.6, lengthscale=0.9, variance=1.2),
        "periodic ard": Periodic(period=2 * scales, lengthscale=scales + 0.2),
        "cosine": Cosine(period=1.3 + scales, variance=0.8),
        "constant": Constant(variance=0.9),
        "linear": Linear(variance=scales, center=0.3),
        "polynomial": Polynomial(degree=3, offset=0.5, variance=0.7),
        "all subsets": AllSubsets(variance=0.7),
        "arc cosine 0": ArcCosine(order=0),
        "arc cosine 1": ArcCosine(order=1, variance=1.4),
        "arc cosine 2": ArcCosine(order=2),
        "custom": Custom(laplace, {"rate": 0.7}),
    }


# Kernels of one column, a time.
OF_TIME = {
    "markov rbf": MarkovRBF(0.8, 1.3, order=6),
    "markov rbf 10": MarkovRBF(0.8, 1.3, order=10),
    "seasonal": Seasonal(period=1.6, lengthscale=0.9, variance=1.2),
    "brownian": Brownian(variance=0.8, start=START),
    "integrated brownian": IntegratedBrownian(variance=0.8, start=START),
    "integrated ornstein-uhlenbeck": IntegratedOrnsteinUhlenbeck(1.6, 0.8, START),
    "change point": ChangePoint(RBF(variance=1.3), Linear() + 0.4, location=0.2, width=0.5),
}


def of_levels(d):
    """Kernels of levels, of columns that are mapped to levels."""
    return {
        "categorical": Categorical(np.linspace(0.2, 0.8, d), 1.3).warp(jnp.sign),
        "precomputed": Precomputed([[2.0, -0.7], [-0.7, 0.9]]).warp(half_line),
        "coregion": Coregion(2, 1, weights=[[0.7], [-1.2]], kappa=[0.4, 0.1]).warp(half_line),
    }


# Left out of tests of means and derivatives: noise, functions of a user, what is not positive
# definite, and Bessel functions, which take minutes.
SPECIAL = ("white", "custom", "multiquadric", "matern")


def joined(*tables: dict[str, Kernel]) -> dict[str, Kernel]:
    """Tables of cases as one; a name that stands in two is an error."""
    names = [name for table in tables for name in table]
    repeated = {name for name in names if names.count(name) > 1}
    assert not repeated, f"two cases have the name {', '.join(sorted(repeated))}"
    return {name: kernel for table in tables for name, kernel in table.items()}


#: Kernels of one column by name, without kernels of levels.
CASES = joined(of_columns(1), OF_TIME)


def offering(capability: str, *left_out: str) -> dict[str, Kernel]:
    """Cases of the kernels that offer a capability."""
    return {n: k for n, k in CASES.items() if capability in k.offers and n not in left_out}


def public_kernels() -> list[str]:
    """Names of all kernels of the package that are no base classes."""
    return [
        name
        for name, kind in KERNELS.items()
        if not inspect.isabstract(kind)
        and (".families." in kind.__module__ or name in kernels.__all__)
    ]
