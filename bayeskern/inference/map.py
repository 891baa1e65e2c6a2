"""The posterior mode, by L-BFGS from several starts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from bayeskern import checks
from bayeskern.inference.optimise import minimise
from bayeskern.inference.progress import Progress
from bayeskern.inference.target import Target
from bayeskern.inference.trust import Trust

# Log densities closer than this are the same optimum.
SAME = 1e-2
# A gradient below this counts as zero; so does one whose Newton step is below CLOSE posterior sds,
# since rounding keeps the gradient of an ill-conditioned density from ever being small.
FLAT = 1e-4
CLOSE = 1e-2
# A curvature below this, relative to that along the axes, counts as none.
CURVED = 1e-7
# Starts are the best of so many candidates for each.
CANDIDATES = 16


class NegativeLogDensity(eqx.Module):
    """What is minimised: -log p(z)."""

    target: Target
    jacobian: bool = eqx.field(static=True)

    def __call__(self, z):
        value = -self.target.log_density(z, self.jacobian)
        # A line search steps back from an infinite value, but not from NaN.
        return jnp.where(jnp.isnan(value), jnp.inf, value)


@dataclass(frozen=True, eq=False)
class Optimum:
    """A mode and how it was found.

    z: (d,), in unconstrained coordinates; log_density: log p at z; gradient: of -log p, (d,);
    curvature: makes the Hessian of -log p, (d, d), when it is first asked for;
    start_log_densities: where each start ended; mode: which density has its mode here.
    """

    z: np.ndarray
    log_density: float
    gradient: np.ndarray
    curvature: Callable[[], np.ndarray]
    start_log_densities: np.ndarray
    coordinates: tuple[str, ...]
    mode: str

    @property
    def gradient_norm(self) -> float:
        """The largest component of the gradient."""
        return float(np.max(np.abs(self.gradient)))

    @cached_property
    def hessian(self) -> np.ndarray:
        return np.asarray(self.curvature())

    @cached_property
    def eigenvalues(self) -> np.ndarray:
        """Of the Hessian of -log p, ascending."""
        if not np.all(np.isfinite(self.hessian)):
            return np.full(len(self.z), np.nan)
        return np.linalg.eigvalsh(self.hessian)

    @property
    def distance(self) -> float:
        """How far the mode still is, in posterior sds: the Newton step, sqrt(g' H^-1 g)."""
        if not self.eigenvalues[0] > 0:
            return np.nan
        return float(np.sqrt(self.gradient @ np.linalg.solve(self.hessian, self.gradient)))

    @property
    def agreeing(self) -> int:
        """How many starts ended at this optimum."""
        return int(np.sum(self.start_log_densities > self.log_density - SAME))

    def trust(self) -> Trust:
        """`not assessable` where the optimum is sound, since a point has no spread; else bad."""
        starts = len(self.start_log_densities)
        evidence = {
            "gradient_norm": self.gradient_norm,
            "smallest_eigenvalue": float(self.eigenvalues[0]),
            "starts_agreeing": f"{self.agreeing} of {starts}",
            "mode": self.mode,
        }
        problem = self._problem(starts)
        if problem:
            return Trust("bad", problem, evidence)
        advice = (
            "A sound optimum, but a point carries no uncertainty about the hyperparameters: "
            "intervals built on it are somewhat too narrow."
        )
        return Trust("not assessable", advice, evidence)

    def _problem(self, starts: int) -> str | None:
        # Written so that NaN fails each comparison.
        if not (self.gradient_norm < FLAT or self.distance < CLOSE):
            steepest = self.coordinates[int(np.argmax(np.abs(self.gradient)))]
            return (
                f"The optimiser did not converge (gradient {self.gradient_norm:.2g}, steepest "
                f"along {steepest}): give it more steps or tighter priors; where a density "
                "has its mode at the edge of its support, take MAP(jacobian=True)."
            )
        steepness, along = self._least_curved()
        if not steepness > CURVED:
            return (
                f"Not a maximum: the density is flat or rises along {along}; "
                "give it a proper prior, fix it, or take MAP(jacobian=True)."
            )
        if starts > 1 and self.agreeing < 2:
            return f"Only one of {starts} starts ended here; try more, there may be a better mode."
        return None

    def _least_curved(self) -> tuple[float, str]:
        """The smallest eigenvalue of the Hessian in units of its diagonal, and its coordinate."""
        size = np.sqrt(np.maximum(np.diag(self.hessian), np.finfo(float).tiny))
        if not np.all(np.isfinite(self.hessian)):
            return np.nan, "an unknown direction"
        values, vectors = np.linalg.eigh(self.hessian / np.outer(size, size))
        return values[0], self.coordinates[int(np.argmax(np.abs(vectors[:, 0])))]


@dataclass(frozen=True)
class MAP:
    """The mode of the posterior density.

    starts: how many starts. The first is at the median of the prior (at the given value for
    `Free`); half of the others are the best of many candidates drawn from it, half are drawn.
    jacobian: False for the mode in the model's own parameters, True for the mode in the
    unconstrained ones (Gamma(3, 1) has its mode at 2 in the first sense and at 3 in the second).
    steps: at most so many steps of L-BFGS.
    """

    starts: int = 4
    jacobian: bool = False
    steps: int = 1000

    name = "map"

    def __post_init__(self):
        checks.positive_integer(self.starts, "starts")
        checks.positive_integer(self.steps, "steps")

    def run(self, target: Target, seed: int, progress: bool):
        """Return (draws: each site (1, ...), how to judge them, optimum)."""
        objective = NegativeLogDensity(target, self.jacobian)
        starts = find_starts(objective, self.starts, seed)
        with Progress("MAP", self.steps, progress) as bar:
            ends, values, gradients = minimise(
                objective,
                starts,
                self.steps,
                tolerance=0.1 * FLAT,
                report=lambda n, value: bar.to(n, f"log density {-np.min(value):.4f}"),
            )
        best = int(np.argmin(values))
        z, value, gradient = _polish(objective, ends[best], values[best], gradients[best])
        optimum = Optimum(
            z=z,
            log_density=-float(value),
            gradient=gradient,
            curvature=lambda: _derivatives(objective, z)[2],
            start_log_densities=-values,
            coordinates=tuple(target.coordinates),
            mode="unconstrained" if self.jacobian else "constrained",
        )
        draws = _constrain(target, jnp.asarray(z))
        order = [*(s.name for s in target.latents), *draws]
        draws = {name: np.asarray(draws[name])[None] for name in dict.fromkeys(order)}
        return draws, optimum.trust, optimum


def _polish(objective, z, value, gradient):
    """Newton steps, where L-BFGS has not made the gradient small and they do."""
    while np.max(np.abs(gradient)) > 0.1 * FLAT:
        hessian = np.asarray(_derivatives(objective, z)[2])
        if not np.all(np.isfinite(hessian)):
            break
        further = z - np.linalg.lstsq(hessian, gradient)[0]
        new_value, new_gradient, _ = map(np.asarray, _derivatives(objective, further))
        # Half the gradient at least, so that this ends; NaN is no improvement.
        closer = np.max(np.abs(new_gradient)) < 0.5 * np.max(np.abs(gradient))
        if not (closer and new_value <= value + SAME):
            break
        z, value, gradient = further, new_value, new_gradient
    return z, value, gradient


def find_starts(objective: NegativeLogDensity, count: int, seed: int) -> jax.Array:
    """Where to start: (count, d).

    The first start is the median of 64 draws from the prior; of the others, half are the best of
    CANDIDATES draws for each and half are any draws. Values without a prior begin where they
    were given, and their candidates are spread widely around that, in unconstrained coordinates.
    """
    target, (middle, others) = objective.target, jax.random.split(jax.random.key(seed))
    draws = _draw_prior(target, jax.random.split(middle, 64), jnp.asarray(0.0))
    first = jnp.median(draws, axis=0)
    if count == 1:
        return first[None]
    keys = jax.random.split(others, CANDIDATES * (count - 1))
    candidates = _draw_prior(target, keys, jnp.asarray(3.0))
    best = jnp.argsort(_values(objective, candidates))
    # Half go where the density is high; half go anywhere, to find the modes that are not.
    chosen = jnp.concatenate([best[: count // 2], jnp.sort(best[count // 2 :])])[: count - 1]
    return jnp.concatenate([first[None], candidates[chosen]])


@eqx.filter_jit
def _draw_prior(target, keys, spread):
    return jax.vmap(lambda key: target.draw_prior(key, spread))(keys)


@eqx.filter_jit
def _values(objective, z):
    return jax.lax.map(objective, z)


@eqx.filter_jit
def _constrain(target, z):
    return target.constrain(z)


@eqx.filter_jit
def _derivatives(objective, z):
    """Value, gradient and Hessian, one column of the Hessian at a time to bound the memory."""
    (value, gradient), along = jax.linearize(jax.value_and_grad(objective), z)
    columns = jax.lax.map(lambda e: along(e)[1], jnp.eye(z.shape[0], dtype=z.dtype))
    return value, gradient, 0.5 * (columns + columns.T)
