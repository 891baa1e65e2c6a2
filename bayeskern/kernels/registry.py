"""The kernels of this package, and lists of those that offer a capability."""

from __future__ import annotations

import inspect

# Kernels by class name, base classes among them. A subclass of `CovarianceFunction` in this package
# is entered when it is defined; kernels of users are not.
KERNELS: dict[str, type] = {}

# What a kernel may offer beside its values: an entry of `offers` of its class.
CAPABILITIES = {
    "frequencies": "random Fourier features",
    "spectrum": "spectral density in closed form",
    "features": "finitely many features",
    "state_space": "state-space model",
    "means": "means over intervals in closed form",
    "numpy_gram": "Gram matrix in NumPy",
}


def register(kind: type) -> None:
    """Enter a kernel of this package."""
    if kind.__module__.startswith(f"{__package__}."):
        KERNELS[kind.__name__] = kind


def offering(capability: str, conjunction: str = "or") -> str:
    """Names of the kernels that offer a capability: "RBF, Periodic or Cosine".

    Args:
        capability: A key of `CAPABILITIES`.
        conjunction: Word before the last name.
    """
    kinds = (kind for kind in KERNELS.values() if not inspect.isabstract(kind))
    *names, last = (kind.__name__ for kind in kinds if capability in kind.offers)
    return f"{', '.join(names)} {conjunction} {last}"
