"""The values that a hyperparameter may take: a number, a NumPyro distribution, or `Free(init)`."""

from __future__ import annotations

import re

import equinox as eqx
import jax
import numpy as np
from numpyro.distributions import Distribution, TransformedDistribution, constraints
from numpyro.distributions.transforms import PowerTransform

from bayeskern.core import validation


class Free(eqx.Module):
    """A value to be estimated without a prior, starting at `init`.

    It adds nothing to the objective of `mle` and `map`; it cannot be averaged over, so every
    other inference backend refuses it by name.
    """

    init: np.ndarray | jax.Array = eqx.field(converter=lambda v: _number(v, "init"))

    def __repr__(self) -> str:
        return f"Free({show(self.init)})"


def from_sd(prior: Distribution) -> Distribution:
    """Turn a prior on a standard deviation into the prior on its square, the variance.

    Raises ValueError unless the prior lives on the positive numbers, all of them.
    """
    if not isinstance(prior, Distribution) or prior.support is not constraints.positive:
        what = prior.support if isinstance(prior, Distribution) else type(prior).__name__
        raise ValueError(
            "from_sd needs a distribution on the positive numbers, such as HalfNormal, HalfCauchy "
            f"or LogNormal; got {what}."
        )
    return TransformedDistribution(prior, PowerTransform(2.0))


def hyperparameter(default, constraint=constraints.positive, *, scalar: bool = True):
    """Declare a hyperparameter: its default, the values it may take, and its shape.

    A default of None is for a prior that is set later, from the data.
    """
    return eqx.field(
        default=default,
        converter=lambda v: None if v is None and default is None else as_hyperparameter(v),
        metadata={"constraint": constraint, "scalar": scalar},
    )


def as_hyperparameter(value):
    """Pass distributions, free values and arrays through; read anything else as a number."""
    if isinstance(value, Distribution):
        # As arrays, so that another prior of the same family does not compile a second time.
        return jax.tree.map(lambda v: np.asarray(v, float) if type(v) in (int, float) else v, value)
    if isinstance(value, Free | jax.Array):
        return value
    return _number(value, "a hyperparameter")


def is_specified(value) -> bool:
    """True for the hyperparameters that still have to become numbers."""
    return isinstance(value, Distribution | Free)


def shape(value) -> tuple[int, ...]:
    """The shape of a number, of a free value, or of what a distribution draws."""
    if isinstance(value, Distribution):
        return tuple(value.shape())
    return np.shape(value.init if isinstance(value, Free) else value)


def check(name: str, value, constraint) -> None:
    """Refuse a number, or a prior, outside its constraint (traced values are let through)."""
    if isinstance(value, Free):
        value = value.init
    if isinstance(value, Distribution) and constraint in _POSITIVE and _reaches_below_0(value):
        raise ValueError(
            f"{name} must be {_wanted(constraint)}, but {show(value)} reaches below 0. Take a "
            "distribution on the positive numbers, such as HalfNormal, LogNormal or Gamma."
        )
    if value is None or isinstance(value, Distribution) or validation.is_traced(value):
        return
    value = np.asarray(value)
    if not np.all(np.isfinite(value)) or not np.all(np.asarray(constraint(value))):
        raise ValueError(f"{name} must be {_wanted(constraint)} and finite, got {show(value)}.")


_POSITIVE = (constraints.positive, constraints.nonnegative)


def _reaches_below_0(prior: Distribution) -> bool:
    """Whether the support of a prior has negative numbers in it, as far as that is known."""
    support = prior.support
    while hasattr(support, "base_constraint"):
        support = support.base_constraint
    if support is constraints.real:
        return True
    low = getattr(support, "lower_bound", 0.0)
    return not validation.is_traced(low) and bool(np.any(np.asarray(low) < 0.0))


def _wanted(constraint) -> str:
    """A constraint in words: "positive", "lower cholesky", "interval 0.0 to 2.0"."""
    words = re.sub("(?<=[a-z])(?=[A-Z])", " ", type(constraint).__name__.strip("_")).lower()
    if constraint in (constraints.positive, constraints.nonnegative):
        return words
    bounds = [getattr(constraint, b, None) for b in ("lower_bound", "upper_bound")]
    return f"{words} {' to '.join(str(b) for b in bounds if b is not None)}".strip()


def show(value) -> str:
    """A hyperparameter as one would type it."""
    if isinstance(value, Free):
        return repr(value)
    if isinstance(value, Distribution):
        return _show_distribution(value)
    if validation.is_traced(value):
        return "<traced>"
    array = np.asarray(value)
    return repr(array.item()) if array.ndim == 0 else repr(array.tolist())


def _show_distribution(d: Distribution) -> str:
    if isinstance(d, TransformedDistribution) and type(d) is TransformedDistribution:
        steps = ", ".join(type(t).__name__ for t in d.transforms)
        return f"TransformedDistribution({_show_distribution(d.base_dist)}, {steps})"
    arguments = [getattr(d, name, None) for name in d.arg_constraints]
    shown = ", ".join(show(a) for a in arguments if a is not None)
    return f"{type(d).__name__}({shown})"


def _number(value, name: str):
    if isinstance(value, jax.Array):
        return value
    try:
        array = np.asarray(value)
        # NumPy would read numbers out of text and dates, and NaN out of None.
        if array.dtype.kind not in "biuf":
            raise TypeError
        return array.astype(float)
    except (TypeError, ValueError):
        raise TypeError(
            f"{name} must be a number, an array, a NumPyro distribution or Free(init), "
            f"got {type(value).__name__}."
        ) from None
