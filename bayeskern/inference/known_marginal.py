"""Known marginal distributions, with exact moments and quantiles."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpyro.distributions import Distribution

from bayeskern.core.formatting import number


def _families() -> dict[str, Callable[..., Any]]:
    """SciPy's distributions by NumPyro's names, with NumPyro's parameters in order."""
    from scipy import stats  # slow to import

    return {
        "Beta": stats.beta,
        "Gamma": lambda shape, rate: stats.gamma(shape, scale=1.0 / rate),
        "InverseGamma": lambda shape, rate: stats.invgamma(shape, scale=rate),
        "Normal": stats.norm,
        "StudentT": stats.t,
    }


class KnownMarginal(NamedTuple):
    """Marginal distribution of each element of a site.

    Attributes:
        family: Name of the distribution in NumPyro.
        parameters: Its parameters in NumPyro's order, each of the shape of the site.
    """

    family: str
    parameters: tuple[np.ndarray, ...]

    @property
    def scipy(self) -> Any:
        """The distributions of all elements, as SciPy's: `mean`, `std`, `ppf`, `pdf`."""
        return _families()[self.family](*self.parameters)

    def element(self, index: tuple[int, ...]) -> KnownMarginal:
        """The distribution of one element."""
        return KnownMarginal(self.family, tuple(x[index] for x in self.parameters))

    def __str__(self) -> str:
        """The distribution as code, such as "Beta(16, 8)"; the family for an array."""
        if self.parameters[0].ndim:
            return self.family
        return f"{self.family}({', '.join(number(x, 4) for x in self.parameters)})"


def known_marginals(
    distributions: Mapping[str, Distribution], shapes: Mapping[str, tuple[int, ...]]
) -> dict[str, KnownMarginal]:
    """Marginals of the sites whose distribution has known quantiles.

    Args:
        distributions: Distribution of each element of a site, by site.
        shapes: Shape of each site.
    """
    known = {}
    for site, distribution in distributions.items():
        family = type(distribution).__name__
        if family in _families():
            values = [getattr(distribution, name) for name in distribution.arg_constraints]
            arrays = (np.broadcast_to(np.asarray(x, float), shapes[site]) for x in values)
            known[site] = KnownMarginal(family, tuple(arrays))
    return known
