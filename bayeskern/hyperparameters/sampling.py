"""From a specification to concrete values, inside a NumPyro model."""

from __future__ import annotations

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


def sample(kernel, prefix: str = ""):
    """Turn a specification into a concrete kernel, inside a NumPyro model.

    Each distribution becomes a sample site and each `Free` a param site, named by its dotted path
    behind `prefix`. Raises ValueError if one waits for its default prior.
    """
    waiting = [s.name for s in sites(kernel) if get(kernel, s.path) is None]
    if waiting:
        raise ValueError(
            f"{', '.join(waiting)} of {kernel!r} has a default prior from the data, which is not "
            "set yet. Use the model that model.prepare(X, y) returns, or give it a prior."
        )
    chosen = [s for s in sites(kernel) if is_specified(get(kernel, s.path))]
    prefix = f"{prefix}." if prefix else ""
    values = [sample_value(prefix + s.name, get(kernel, s.path), s.constraint) for s in chosen]
    return replace(kernel, [s.path for s in chosen], values)
