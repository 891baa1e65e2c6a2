"""Values of a hyperparameter: a number, a NumPyro distribution, or `Free(init)`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, TypeGuard

import equinox as eqx
import jax
import numpy as np
from numpy.typing import ArrayLike
from numpyro.distributions import (
    Distribution,
    ExpandedDistribution,
    Independent,
    MaskedDistribution,
    TransformedDistribution,
    constraints,
)
from numpyro.distributions.constraints import Constraint
from numpyro.distributions.transforms import PowerTransform

from bayeskern.core import validation

# Wrappers of NumPyro that leave the density of a single value unchanged.
WRAPPERS = (Independent, ExpandedDistribution, MaskedDistribution)


class Free(eqx.Module):
    """A hyperparameter to be estimated without a prior.

    It adds nothing to the objective of `mle` and `map`. Every other inference method averages over
    hyperparameters, and so raises an error.

    Args:
        init: Starting value of the optimization, a number or an array, with the shape and the units
            of the hyperparameter.

    Examples:
        >>> import bayeskern as bk
        >>> from bayeskern.kernels import RBF
        >>> RBF(lengthscale=bk.Free(2.0))
        RBF(lengthscale=Free(2.0), variance=1.0)
    """

    init: np.ndarray | jax.Array = eqx.field(converter=lambda v: _number(v, "init"))

    def __repr__(self) -> str:
        return f"Free({show(self.init)})"


if TYPE_CHECKING:

    class Hyperparameter:
        """The type of a field declared with `hyperparameter(default)`.

        It can be set to a number, an array, a distribution or `Free`; in a concrete module its
        value is an array.
        """

        def __get__(self, instance: Any, owner: Any) -> jax.Array: ...
        def __set__(self, instance: Any, value: ArrayLike | jax.Array | Distribution | Free): ...

    class DefaultedHyperparameter:
        """The type of a field declared with `hyperparameter(None)`.

        It is None until the model sets a default prior from the data.
        """

        def __get__(self, instance: Any, owner: Any) -> jax.Array | None: ...
        def __set__(
            self, instance: Any, value: ArrayLike | jax.Array | Distribution | Free | None
        ): ...

else:
    # Annotations are not evaluated at run time.
    Hyperparameter = DefaultedHyperparameter = jax.Array


def from_sd(prior: Distribution) -> Distribution:
    """Turn a prior on a standard deviation into the prior on its square, the variance.

    Args:
        prior: A NumPyro distribution on the positive numbers, in the units of the output.

    Returns:
        The distribution of the square, in the squared units of the output, for `variance` and
        `noise`.

    Raises:
        ValueError: The support of the prior is not the positive numbers.

    Examples:
        If log sd ~ N(0, 1), then log variance ~ N(0, 2^2).

        >>> import numpyro.distributions as dist
        >>> import bayeskern as bk
        >>> prior, expected = bk.from_sd(dist.LogNormal(0.0, 1.0)), dist.LogNormal(0.0, 2.0)
        >>> print(prior.log_prob(3.0).round(4), expected.log_prob(3.0).round(4))
        -2.8616 -2.8616
    """
    if not isinstance(prior, Distribution) or prior.support is not constraints.positive:
        support = prior.support if isinstance(prior, Distribution) else type(prior).__name__
        raise ValueError(
            "from_sd needs a distribution on the positive numbers, such as HalfNormal, HalfCauchy "
            f"or LogNormal; got {support}."
        )
    return TransformedDistribution(prior, PowerTransform(2.0))


def hyperparameter(
    default: Any, constraint: Constraint = constraints.positive, *, scalar: bool = True
) -> Any:
    """Declare a hyperparameter in the body of a kernel class.

    Args:
        default: Default value, a number, an array or a distribution; None for a prior that is set
            from the data.
        constraint: NumPyro constraint on its values; positive by default.
        scalar: False to allow arrays.

    Returns:
        A dataclass field for an `equinox.Module`.

    Examples:
        >>> import jax
        >>> from bayeskern.kernels import Stationary, hyperparameter
        >>> class Damped(Stationary):
        ...     power: jax.Array = hyperparameter(1.0)
        ...     def profile(self, u):
        ...         return (1.0 + u) ** -self.power
        >>> Damped(power=2.0)
        Damped(lengthscale=1.0, variance=1.0, power=2.0)
    """
    return eqx.field(
        default=default,
        converter=lambda v: None if v is None and default is None else as_hyperparameter(v),
        metadata={"constraint": constraint, "scalar": scalar},
    )


def as_hyperparameter(value: Any, name: str = "a hyperparameter") -> Any:
    """Convert numbers to arrays, also in distributions; keep `Free` and JAX arrays."""
    if isinstance(value, Distribution):
        # Arrays are traced, so that another prior of the same family does not recompile.
        return jax.tree.map(lambda v: np.asarray(v, float) if type(v) in (int, float) else v, value)
    if isinstance(value, Free | jax.Array):
        return value
    return _number(value, name)


def is_specified(value: object) -> TypeGuard[Distribution | Free]:
    """True for a distribution or a free value, which has no number yet."""
    return isinstance(value, Distribution | Free)


def shape(value: Any) -> tuple[int, ...]:
    """Shape of a number, of a free value, or of a draw of a distribution."""
    if isinstance(value, Distribution):
        return tuple(value.shape())
    return np.shape(value.init if isinstance(value, Free) else value)


def innermost(fn: Distribution) -> Distribution:
    """Distribution of a single value, or a single event if it is multivariate."""
    while isinstance(fn, WRAPPERS):
        fn = fn.base_dist
    return fn


def check(name: str, value: Any, constraint: Constraint) -> None:
    """Raise ValueError for a number or a prior that violates its constraint.

    Traced values are not checked.
    """
    if isinstance(value, Free):
        value = value.init
    positive = constraint in (constraints.positive, constraints.nonnegative)
    if isinstance(value, Distribution) and positive and _reaches_below_0(value):
        raise ValueError(
            f"{name} must be {_in_words(constraint)}, but {show(value)} reaches below 0. Use a "
            "distribution on the positive numbers, such as HalfNormal, LogNormal or Gamma."
        )
    if value is None or isinstance(value, Distribution) or validation.is_traced(value):
        return
    value = np.asarray(value)
    if not np.all(np.isfinite(value)) or not np.all(np.asarray(constraint(value))):
        raise ValueError(f"{name} must be {_in_words(constraint)} and finite, got {show(value)}.")


def _reaches_below_0(prior: Distribution) -> bool:
    """True if the support of a prior is known to include negative numbers."""
    support: object = prior.support
    while (base := getattr(support, "base_constraint", None)) is not None:
        support = base
    if support is constraints.real:
        return True
    low = getattr(support, "lower_bound", 0.0)
    return not validation.is_traced(low) and bool(np.any(np.asarray(low) < 0.0))


def _in_words(constraint: Constraint) -> str:
    """A constraint in words: "positive", "lower cholesky", "interval 0.0 to 2.0"."""
    words = re.sub("(?<=[a-z])(?=[A-Z])", " ", type(constraint).__name__.strip("_")).lower()
    if constraint in (constraints.positive, constraints.nonnegative):
        return words
    bounds = [getattr(constraint, b, None) for b in ("lower_bound", "upper_bound")]
    return f"{words} {' to '.join(str(b) for b in bounds if b is not None)}".strip()


def is_from_sd(value: Any) -> TypeGuard[TransformedDistribution]:
    """True for a prior on a variance that was given on its square root, by `from_sd`."""
    if type(value) is not TransformedDistribution or len(value.transforms) != 1:
        return False
    (transform,) = value.transforms
    return isinstance(transform, PowerTransform) and bool(np.all(transform.exponent == 2.0))


def show(value: Any) -> str:
    """Format a hyperparameter as a Python expression."""
    if isinstance(value, Free):
        return repr(value)
    if isinstance(value, Distribution):
        return _show_distribution(value)
    if validation.is_traced(value):
        return "<traced>"
    array = np.asarray(value)
    return repr(array.item()) if array.ndim == 0 else repr(array.tolist())


def _show_distribution(d: Distribution) -> str:
    if is_from_sd(d):
        return f"from_sd({_show_distribution(d.base_dist)})"
    if isinstance(d, TransformedDistribution) and type(d) is TransformedDistribution:
        steps = ", ".join(map(_show_transform, d.transforms))
        return f"TransformedDistribution({_show_distribution(d.base_dist)}, {steps})"
    if isinstance(d, Independent):
        return f"{_show_distribution(d.base_dist)}.to_event({d.reinterpreted_batch_ndims})"
    if isinstance(d, ExpandedDistribution):
        return f"{_show_distribution(d.base_dist)}.expand({d.batch_shape})"
    arguments = [getattr(d, name, None) for name in d.arg_constraints]
    shown = ", ".join(show(a) for a in arguments if a is not None)
    return f"{type(d).__name__}({shown})"


def _show_transform(transform: Any) -> str:
    arguments = [
        show(getattr(transform, name))
        for name in ("loc", "scale", "exponent")
        if hasattr(transform, name)
    ]
    if getattr(transform, "domain", None) is constraints.unit_interval:
        arguments.append("unit_interval")
    return f"{type(transform).__name__}({', '.join(arguments)})"


def _number(value: Any, name: str) -> np.ndarray | jax.Array:
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
