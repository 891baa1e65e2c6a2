"""From a specification to concrete values: sites of a NumPyro model, or medians of the priors."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpyro
from numpyro.distributions import Distribution, constraints

from bayeskern.hyperparameters.names import get, replace, sites
from bayeskern.hyperparameters.values import Free, is_specified


def sample_value(name: str, value, constraint=constraints.positive):
    """Sample a distribution, register a free value, or pass a number through, as a NumPyro site."""
    if isinstance(value, Distribution):
        return numpyro.sample(name, value)
    if isinstance(value, Free):
        return numpyro.param(name, value.init, constraint=constraint)
    return value


# Draws of a prior, of which the median is taken: its error is 1.3 % of the sd of a Gaussian.
DRAWS = 10_001


def sample(kernel, prefix: str = ""):
    """Give every hyperparameter of a kernel a value, inside a NumPyro model.

    Each distribution becomes a sample site and each `Free` a param site. A site has the dotted
    name of its hyperparameter, such as "season.rbf.lengthscale".

    Args:
        kernel: A kernel, or whatever else has hyperparameters, such as a likelihood.
        prefix: What the names of the sites begin with, before a dot; "" for nothing.

    Returns:
        A copy that holds numbers only and can be evaluated.

    Raises:
        ValueError: A hyperparameter waits for its default prior, which comes from the data.

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


def at_medians(kernel):
    """A copy that holds numbers only: the medians of the priors, the inits of what is `Free`.

    Where NumPyro has no quantile function of a prior, its median is that of 10,001 draws, always
    the same ones, number by number.

    Raises ValueError, naming the hyperparameter, if its prior cannot be drawn from.
    """
    specified = [s for s in sites(kernel) if is_specified(get(kernel, s.path))]
    values = [_median(s.name, get(kernel, s.path)) for s in specified]
    return replace(kernel, [s.path for s in specified], values)


def _median(name: str, value):
    if isinstance(value, Free):
        return value.init
    try:
        return jnp.broadcast_to(value.icdf(0.5), value.shape())
    except (NotImplementedError, ImportError):
        # That of the Gamma distribution and its like is in another library, which may be missing.
        return _median_of_draws(name, value)


def _median_of_draws(name: str, prior: Distribution):
    try:
        draws = prior.sample(jax.random.key(0), (DRAWS,))
    except NotImplementedError:
        raise ValueError(
            f"{name} has the prior {type(prior).__name__}, which cannot be drawn from, so that it "
            f"has no median. Set it with .at({{{name!r}: value}})."
        ) from None
    return jnp.median(draws, axis=0)
