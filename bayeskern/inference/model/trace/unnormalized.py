"""A bare log density as a model."""

from __future__ import annotations

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro.distributions import constraints

from bayeskern.inference.model.trace.arguments import CONCRETIZATION_ERRORS


class Unnormalized(dist.ImproperUniform):
    """Distribution of z (size,) with density exp(f(z)) / Z, which has no `sample`."""

    pytree_aux_fields = ("f",)

    def __init__(
        self,
        f: Callable[[jax.Array], jax.Array],
        size: int,
        *,
        validate_args: bool | None = None,
    ) -> None:
        self.f = f
        super().__init__(constraints.real_vector, (), (size,), validate_args=validate_args)

    def log_prob(self, value: jax.Array) -> jax.Array:
        return jnp.vectorize(self.f, signature="(d)->()")(value)


class LogDensity(eqx.Module):
    """A bare log density on R^size as a model without data: log p(z) = f(z) - log Z.

    `bk.infer(bk.LogDensity(f, size))` draws its one site `z` by any method. `log_evidence` is
    log Z, the log of the integral of exp(f), if the method estimates it.

    Args:
        f: Function of one point, (size,) to a number, written in JAX.
        size: Number of coordinates, d.

    Raises:
        TypeError: If f is not a function, or JAX cannot trace it.
        ValueError: If size is not a whole number of at least 1, f does not return one number, or f
            is NaN or infinite at 0, where the methods begin.

    Examples:
        >>> import jax.numpy as jnp
        >>> import bayeskern as bk
        >>> bowl = bk.LogDensity(lambda z: -0.5 * jnp.sum(z**2), size=2)
        >>> posterior = bk.infer(bowl, method="laplace")
        >>> round(posterior.log_evidence.value, 6), round(float(jnp.log(2 * jnp.pi)), 6)
        (1.837877, 1.837877)
    """

    f: Callable[[jax.Array], jax.Array]
    size: int = eqx.field(static=True)

    def __check_init__(self) -> None:
        if not callable(self.f):
            raise TypeError(f"f must be a function of one point, got {type(self.f).__name__}.")
        if isinstance(self.size, bool) or self.size != int(self.size) or self.size < 1:
            raise ValueError(f"size must be a whole number of at least 1, got {self.size!r}.")

    def __call__(self) -> None:
        numpyro.sample("z", Unnormalized(self.f, self.size))

    def prepare(self, *data: object, **named: object) -> tuple[LogDensity, tuple]:
        """Evaluate the density at 0, where the methods begin, before anything is traced."""
        if data or named:
            raise TypeError(
                f"a LogDensity has no data, got {len(data) + len(named)}: write them into f."
            )
        try:
            value = jax.eval_shape(self.f, jnp.zeros(self.size))
        except CONCRETIZATION_ERRORS as error:
            raise TypeError(
                "f must be written in JAX, but it looks at a value that JAX has yet to compute, as "
                "NumPy functions, float() and `if` do. Use jax.numpy and jnp.where."
            ) from error
        if getattr(value, "shape", None) != ():
            raise ValueError(
                f"f must give one number at a point of shape ({self.size},), got {value}."
            )
        value = np.asarray(self.f(jnp.zeros(self.size)))
        if not np.isfinite(value):
            raise ValueError(
                f"f is {value} at 0, where the methods begin. Shift it, so that 0 is a likely "
                "point: LogDensity(lambda z: f(z + likely_point), size)."
            )
        return self, ()
