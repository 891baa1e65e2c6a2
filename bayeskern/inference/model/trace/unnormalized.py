"""A bare log density as a model, for whatever has no sites of its own."""

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
    """The distribution of z (size,) with density exp(f(z)) / Z: it can be weighed, not drawn."""

    pytree_aux_fields = ("f",)

    def __init__(self, f: Callable, size: int, *, validate_args=None):
        self.f = f
        super().__init__(constraints.real_vector, (), (size,), validate_args=validate_args)

    def log_prob(self, value):
        return jnp.vectorize(self.f, signature="(d)->()")(value)


class LogDensity(eqx.Module):
    """A bare log density on R^size as a model without data: log p(z) = f(z) - log Z.

    `bk.infer(bk.LogDensity(f, size))` draws its one site `z` by any method, and `log_evidence` is
    log Z, the log of the integral of exp(f), where the method has one.

    Args:
        f: A function of one point, (size,) -> a number, written in JAX.
        size: How many coordinates there are, d.

    Raises:
        TypeError: If f is no function, or cannot be traced by JAX at such a point.
        ValueError: If size is no whole number of at least 1, f does not give one number, or it is
            NaN or infinite at 0, where the methods begin.

    Examples:
        >>> import jax.numpy as jnp
        >>> import bayeskern as bk
        >>> bowl = bk.LogDensity(lambda z: -0.5 * jnp.sum(z**2), size=2)
        >>> posterior = bk.infer(bowl, method="laplace")
        >>> round(posterior.log_evidence.value, 6), round(float(jnp.log(2 * jnp.pi)), 6)
        (1.837877, 1.837877)
    """

    f: Callable
    size: int = eqx.field(static=True)

    def __check_init__(self):
        if not callable(self.f):
            raise TypeError(f"f must be a function of one point, got {type(self.f).__name__}.")
        if isinstance(self.size, bool) or self.size != int(self.size) or self.size < 1:
            raise ValueError(f"size must be a whole number of at least 1, got {self.size!r}.")

    def __call__(self):
        numpyro.sample("z", Unnormalized(self.f, self.size))

    def prepare(self, *data, **named) -> tuple[LogDensity, tuple]:
        """Look at the density where the methods begin, before anything is traced."""
        if data or named:
            raise TypeError(
                f"a LogDensity has no data, got {len(data) + len(named)}: write them into f."
            )
        try:
            value = jax.eval_shape(self.f, jnp.zeros(self.size))
        except CONCRETIZATION_ERRORS as error:
            raise TypeError(
                "f must be written in JAX, and it looks at a value that JAX has yet to compute, as "
                "NumPy's functions, float() and `if` do. Take jax.numpy and jnp.where."
            ) from error
        if getattr(value, "shape", None) != ():
            raise ValueError(
                f"f must give one number at a point of shape ({self.size},), got {value}."
            )
        value = np.asarray(self.f(jnp.zeros(self.size)))
        if not np.isfinite(value):
            raise ValueError(
                f"f is {value} at 0, where the methods begin. Move it, so that 0 is a likely "
                "point: LogDensity(lambda z: f(z + there), size)."
            )
        return self, ()
