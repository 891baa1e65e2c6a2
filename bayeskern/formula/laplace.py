"""Effects of a regression with any likelihood, integrated out by Laplace's approximation.

With the mode u^ of p(y | u) N(u | 0, I), the curvature W = -d2 log p(y | eta) / d eta2 there and
H = I + T'Z'WZT,

    log q(y) = log p(y | u^) - 1/2 |u^|^2 - 1/2 log |H|,    q(u | y) = N(u^, H^-1)

(Rue, Martino and Chopin 2009). Newton's steps are not differentiated. Two further steps from the
mode are, with a constant factor of H: each raises by one the order to which the derivatives of the
mode are right, so that first and second derivatives of log q(y) are exact.
"""

from __future__ import annotations

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array
from numpyro.distributions import Distribution, constraints

from bayeskern.formula.field import (
    Blocks,
    Design,
    Effects,
    Precision,
    Roots,
    effects_of,
    transposed_effects,
    white_shapes,
)
from bayeskern.formula.integral import log_integral
from bayeskern.gp.latent.log_likelihood import LogLikelihood
from bayeskern.likelihoods import Likelihood

# The mode is accepted if the decrement g'H^-1 g is below this, in nats.
MAX_DECREMENT = 1e-8
MAX_STEPS = 50
# Smallest step length of the line search.
MIN_STEP_LENGTH = 0.5**20
# Rows whose linear predictor is drawn, at most, to assess the approximation.
MAX_ASSESSED_ROWS = 500


class Field(eqx.Module):
    """Effects with a Gaussian prior at fixed scales: eta = offset + Z (loc + T u).

    Attributes:
        design: Columns Z.
        roots: Roots T.
        offset: offset + Z loc, (n,).
    """

    design: Design
    roots: Roots
    offset: Array

    def eta(self, u: Effects) -> Array:
        """Linear predictor: (n,)."""
        return self.offset + self.design @ effects_of(u, self.roots, self.design.sizes)

    def pull(self, rows: Array) -> Effects:
        """T'Z'rows."""
        return transposed_effects(self.design.transposed(rows), self.roots, self.design)

    def blocks(self, w: Array) -> Blocks:
        """H for the curvatures w (n,)."""
        products = self.design.products(w, jnp.zeros((len(w), 0)))
        return Blocks.of(products, self.roots, self.design)

    def zeros(self) -> Effects:
        """u = 0."""
        return white_shapes(self.design, self.roots)


class Mode(NamedTuple):
    """Mode of the effects, with the decrement g'H^-1 g and the number of steps."""

    u: Effects
    value: Array
    decrement: Array
    steps: Array

    @property
    def usable(self) -> Array:
        """True if the search converged."""
        return (self.decrement < MAX_DECREMENT) & jnp.isfinite(self.value)


class WeightedLogLikelihood(LogLikelihood):
    """Log likelihood in which a row of weight w counts as w equal rows.

    Attributes:
        weights: Weights of the rows, (n,).
    """

    weights: Array

    def log_density(self, f: Array) -> Array:
        return jnp.sum(self.weights * self.log_densities(f))


def dot(u: Effects, v: Effects) -> Array:
    """u'v."""
    products = jax.tree.leaves(jax.tree.map(jnp.multiply, u, v))
    return sum(map(jnp.sum, products), jnp.zeros(()))


def square(u: Effects) -> Array:
    """|u|^2."""
    return dot(u, u)


def moved(u: Effects, t: Array | float, step: Effects) -> Effects:
    """u + t step."""
    return jax.tree.map(lambda u, step: u + t * step, u, step)


class LaplaceField(eqx.Module):
    """A field with observations."""

    field: Field
    log_likelihood: LogLikelihood

    def value(self, u: Effects) -> Array:
        """log p(y | u) - 1/2 |u|^2."""
        return self.log_likelihood.log_density(self.field.eta(u)[None]) - 0.5 * square(u)

    def gradient(self, u: Effects) -> Effects:
        """Gradient of `value`."""
        rows = self.log_likelihood.gradient(self.field.eta(u)[None])[0]
        return moved(self.field.pull(rows), -1.0, u)

    def blocks(self, u: Effects) -> Blocks:
        """H at u."""
        return self.field.blocks(self.log_likelihood.curvature(self.field.eta(u)[None])[0, 0])

    def precision(self, u: Effects) -> Precision:
        """Factored H at u."""
        return Precision.of(self.blocks(u), self.field.zeros())

    def mode(self) -> Mode:
        """Find the mode by Newton's method with a monotone line search."""

        def go_on(mode: Mode) -> Array:
            return (mode.decrement > MAX_DECREMENT**2) & (mode.steps < MAX_STEPS)

        def step(mode: Mode) -> Mode:
            gradient = self.gradient(mode.u)
            direction = self.precision(mode.u).solve(gradient)
            decrement = dot(gradient, direction)
            slack = 1e-14 * (1.0 + jnp.abs(mode.value))

            def too_long(state):
                t, value = state
                rises = value - mode.value >= 1e-4 * t * decrement - slack
                return ~rises & (t > MIN_STEP_LENGTH)

            def halved(state):
                t = 0.5 * state[0]
                return t, self.value(moved(mode.u, t, direction))

            t, value = jax.lax.while_loop(
                too_long, halved, (jnp.asarray(2.0), jnp.asarray(-jnp.inf))
            )
            # No step rises any more: rounding errors dominate.
            stalled = t <= MIN_STEP_LENGTH
            steps = jnp.where(stalled, MAX_STEPS, mode.steps + 1)
            return Mode(
                moved(mode.u, jnp.where(stalled, 0.0, t), direction), value, decrement, steps
            )

        zeros = self.field.zeros()
        start = Mode(zeros, self.value(zeros), jnp.asarray(jnp.inf), jnp.asarray(0))
        return jax.lax.while_loop(go_on, step, start)

    def log_marginal(self) -> Array:
        """log q(y), twice differentiable; -inf, with a gradient of 0, if no mode is found."""
        fixed = jax.lax.stop_gradient(self)
        mode = fixed.mode()
        usable = mode.usable
        # Without a mode, take the constant copies: NaN derivatives then do not reach the arguments.
        safe = jax.tree.map(lambda traced, fixed: jnp.where(usable, traced, fixed), self, fixed)
        u, precision = mode.u, fixed.precision(mode.u)
        for _ in range(2):
            u = moved(u, 1.0, precision.solve(safe.gradient(u)))
        return jnp.where(
            usable, safe.value(u) + log_integral(safe.blocks(u), self.field.zeros()), -jnp.inf
        )


class LaplaceObservations(Distribution):
    """NumPyro distribution of y, the effects integrated out by Laplace's approximation.

    Args:
        field: The effects.
        likelihood: The likelihood, its hyperparameters numbers.
        extra: Values that the likelihood needs of each row.
        weights: Weights of the rows, (n,).
    """

    pytree_data_fields = ("field", "likelihood", "extra", "weights")

    def __init__(
        self, field: Field, likelihood: Likelihood, extra: dict[str, Array], weights: Array
    ):
        self.field, self.likelihood, self.extra = field, likelihood, extra
        self.weights = weights
        super().__init__((), field.offset.shape)

    @property
    def support(self) -> constraints.Constraint:
        support: constraints.Constraint = self._given(self.field.offset).support  # pyright: ignore
        return constraints.independent(support, 1)

    def _given(self, eta: Array) -> Distribution:
        return self.likelihood.distribution(eta, **self.extra)

    def observed(self, value: Array) -> LaplaceField:
        """The field with observations."""
        plain = LogLikelihood.of(self.likelihood, value, self.extra)
        weighted = WeightedLogLikelihood(plain.likelihood, plain.y, plain.extra, self.weights)
        return LaplaceField(self.field, weighted)

    def log_prob(self, value: Array) -> Array:
        return jnp.vectorize(lambda y: self.observed(y).log_marginal(), signature="(n)->()")(value)

    def sample(self, key: Array, sample_shape: tuple[int, ...] = ()) -> Array:
        def draw(key: Array) -> Array:
            key_u, key_y = jax.random.split(key)
            leaves, structure = jax.tree.flatten(self.field.zeros())
            keys = jax.random.split(key_u, len(leaves))
            pairs = zip(keys, leaves, strict=True)
            white = [jax.random.normal(key, leaf.shape) for key, leaf in pairs]
            eta = self.field.eta(jax.tree.unflatten(structure, white))
            return jnp.asarray(self._given(eta).sample(key_y))

        count = int(jnp.prod(jnp.array(sample_shape, int)))
        draws = jax.vmap(draw)(jax.random.split(key, count))
        return draws.reshape(*sample_shape, *self.event_shape)

    def log_ratio(self, value: Array, key: Array, n: int) -> tuple[Array, Array]:
        """n draws of the linear predictor from q, and log [p(y, u) / (q(u) Z)], (n,).

        The draws have at most `MAX_ASSESSED_ROWS` rows, evenly spaced. See `ApproximatesLatent`.
        """
        observed = self.observed(value)
        mode = observed.mode()
        precision = observed.precision(mode.u)
        rows = jnp.linspace(0, len(value) - 1, min(len(value), MAX_ASSESSED_ROWS)).astype(int)

        def draw(white: Array) -> tuple[Array, Array]:
            u = moved(mode.u, 1.0, precision.deviation(white))
            log_q = -0.5 * white @ white
            return self.field.eta(u)[rows], observed.value(u) - mode.value - log_q

        return jax.lax.map(draw, jax.random.normal(key, (n, precision.size)))
