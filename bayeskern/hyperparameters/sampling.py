"""Make a specification concrete, by NumPyro sites or by medians of the priors."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpyro
from numpyro.distributions import Distribution, constraints
from numpyro.distributions.constraints import Constraint

from bayeskern.hyperparameters.parametrized import Parametrized, get, replace, sites
from bayeskern.hyperparameters.values import Free, is_specified


def sample_value(name: str, value: Any, constraint: Constraint = constraints.positive) -> Any:
    """Sample a distribution or register a free value as a site; return a number."""
    if isinstance(value, Distribution):
        return numpyro.sample(name, value)
    if isinstance(value, Free):
        return numpyro.param(name, value.init, constraint=constraint)
    return value


def sample[K: Parametrized](kernel: K, prefix: str = "") -> K:
    """Give every hyperparameter of a kernel a value, inside a NumPyro model.

    Each distribution becomes a sample site and each `Free` a param site. A site has the dotted
    name of its hyperparameter, such as "season.rbf.lengthscale".

    Args:
        kernel: A kernel, a likelihood or another module with hyperparameters.
        prefix: First segment of the names of the sites; "" for none.

    Returns:
        A copy that holds only numbers and can be evaluated.

    Raises:
        ValueError: A hyperparameter has a default prior from the data, which is not set yet.

    Examples:
        >>> import numpyro.distributions as dist
        >>> from numpyro import handlers
        >>> import bayeskern as bk
        >>> from bayeskern.kernels import RBF
        >>> kernel = RBF(lengthscale=dist.LogNormal(0.0, 1.0))
        >>> with handlers.substitute(data={"gp.lengthscale": 2.0}):
        ...     bk.sample(kernel, prefix="gp")
        RBF(lengthscale=2.0, variance=1.0)
    """
    without_prior = [s.name for s in sites(kernel) if get(kernel, s.path) is None]
    if without_prior:
        raise ValueError(
            f"{', '.join(without_prior)} of {kernel!r} has a default prior from the data, which is "
            "not set yet. Use the model that model.prepare(X, y) returns, or give it a prior."
        )
    specified = [s for s in sites(kernel) if is_specified(get(kernel, s.path))]
    prefix = f"{prefix}." if prefix else ""
    values = [sample_value(prefix + s.name, get(kernel, s.path), s.constraint) for s in specified]
    return replace(kernel, [s.path for s in specified], values)


def at_medians[K: Parametrized](kernel: K) -> K:
    """A copy that holds only numbers: medians of priors, and initial values of `Free`.

    If NumPyro has no quantile function for a prior, its median is estimated from 10,001 draws with
    a fixed seed, element by element.

    Raises:
        ValueError: A prior has neither a quantile function nor a sampler.
    """
    specified = [s for s in sites(kernel) if is_specified(get(kernel, s.path))]
    values = [_median(s.name, get(kernel, s.path)) for s in specified]
    return replace(kernel, [s.path for s in specified], values)


def _median(name: str, value: Distribution | Free) -> Any:
    if isinstance(value, Free):
        return value.init
    try:
        return jnp.broadcast_to(value.icdf(0.5), value.shape())
    except (NotImplementedError, ImportError):
        # The quantile function of the Gamma distribution needs a library that may be missing.
        pass
    try:
        # The standard error of the median of a Gaussian is 1.3 % of its sd.
        draws = value.sample(jax.random.key(0), (10_001,))
    except NotImplementedError:
        raise ValueError(
            f"{name} has the prior {type(value).__name__}, which cannot be sampled, so its median "
            f"is unknown. Set it with .at({{{name!r}: value}})."
        ) from None
    return jnp.median(draws, axis=0)
