"""Kernels and priors of the user as plain values, for files."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import fields
from typing import Any

import jax
import numpy as np
import numpyro.distributions as dist
from numpyro.distributions.transforms import PowerTransform

from bayeskern import kernels
from bayeskern.hyperparameters import Free, from_sd
from bayeskern.kernels import Kernel

# Name in files for the prior of a variance from `from_sd`.
_FROM_SD = "from_sd"


def to_plain(value: Any) -> Any:
    """Kernel, or a value within a kernel, as plain values.

    Plain values are numbers, arrays, text, lists and dictionaries.

    Raises:
        ValueError: The value is a function, or a kernel or distribution of another package.
    """
    if isinstance(value, Kernel) and getattr(kernels, type(value).__name__, None) is type(value):
        return {"kernel": type(value).__name__, "fields": _plain_fields(value)}
    if isinstance(value, Free):
        return {"free": value.init}
    if isinstance(value, dist.Distribution):
        return _plain_prior(value)
    if isinstance(value, tuple | list):
        return [to_plain(item) for item in value]
    if value is None or isinstance(value, bool | int | float | str | np.ndarray | jax.Array):
        return value
    raise ValueError(
        f"a forecast by a kernel that contains a {type(value).__name__} cannot be saved: files "
        "keep the kernels of bayeskern.kernels with numbers and NumPyro priors, without functions. "
        "Write the tables by export instead."
    )


def _plain_fields(kernel: Kernel) -> dict[str, Any]:
    return {field.name: to_plain(getattr(kernel, field.name)) for field in fields(kernel)}


def _plain_prior(prior: dist.Distribution) -> dict[str, Any]:
    if type(prior) is dist.TransformedDistribution:
        transforms = prior.transforms
        if len(transforms) == 1 and isinstance(transforms[0], PowerTransform):
            return {"prior": _FROM_SD, "parameters": {"prior": to_plain(prior.base_dist)}}
    elif prior.arg_constraints and getattr(dist, type(prior).__name__, None) is type(prior):
        parameters = {name: np.asarray(getattr(prior, name)) for name in prior.arg_constraints}
        # Truncated distributions have further parameters.
        with suppress(TypeError):
            type(prior)(**parameters)
            return {"prior": type(prior).__name__, "parameters": parameters}
    raise ValueError(
        f"a forecast by a kernel with the prior {prior!r} cannot be saved: files keep the plain "
        "distributions of numpyro.distributions, and bk.from_sd of one. Write the tables by export "
        "instead."
    )


def from_plain(value: Any) -> Any:
    """Value from the result of `to_plain`; a list becomes a tuple."""
    match value:
        case {"kernel": name, "fields": plain}:
            return getattr(kernels, name)(**{k: from_plain(v) for k, v in plain.items()})
        case {"free": init}:
            return Free(init)
        case {"prior": name, "parameters": parameters}:
            if name == _FROM_SD:
                return from_sd(from_plain(parameters["prior"]))
            return getattr(dist, name)(**parameters)
        case list():
            return tuple(from_plain(item) for item in value)
    return value
