"""The posterior mode, by L-BFGS from several starts."""

from __future__ import annotations

from dataclasses import dataclass

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
# A gradient below this counts as zero.
FLAT = 1e-4


class NegativeLogDensity(eqx.Module):
    """What is minimised: -log p(z)."""

    target: Target
    jacobian: bool = eqx.field(static=True)

    def __call__(self, z):
        value = -self.target.log_density(z, self.jacobian)
        # A line search steps back from an infinite value, but not from NaN.
        return jnp.where(jnp.isnan(value), jnp.inf, value)


@dataclass(frozen=True)
class Optimum:
    """A mode and how it was found.

    z: (d,), in unconstrained coordinates; log_density: log p at z; gradient_norm: the largest
    component; eigenvalues: of the Hessian of -log p, ascending; start_log_densities: where each
    start ended; mode: which density has its mode here.
    """

    z: np.ndarray
    log_density: float
    gradient_norm: float
    hessian: np.ndarray
    eigenvalues: np.ndarray
    start_log_densities: np.ndarray
    coordinates: tuple[str, ...]
    mode: str

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
        if not self.gradient_norm < FLAT:
            return (
                f"The optimiser did not converge (gradient {self.gradient_norm:.2g}): "
                "give it more steps, or tighter priors."
            )
        if not self.eigenvalues[0] > 0:
            return (
                f"Not a maximum: the density is flat or rises along {self._flattest()}; "
                "give it a proper prior, or fix it."
            )
        if starts > 1 and self.agreeing < 2:
            return f"Only one of {starts} starts ended here; try more, there may be a better mode."
        return None

    def _flattest(self) -> str:
        _, vectors = np.linalg.eigh(self.hessian)
        return self.coordinates[int(np.argmax(np.abs(vectors[:, 0])))]


@dataclass(frozen=True)
class MAP:
    """The mode of the posterior density.

    starts: how many starts, the first at the median of the prior, the others drawn from it.
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
        """Return (draws: each site (1, ...), trust, optimum)."""
        objective = NegativeLogDensity(target, self.jacobian)
        starts = prior_starts(target, self.starts, seed)
        with Progress("MAP", self.steps, progress) as bar:
            ends, values, _ = minimise(
                objective,
                starts,
                self.steps,
                tolerance=1e-2 * FLAT,
                report=lambda n, s: bar.to(n, f"log density {-float(jnp.nanmin(s.value)):.4f}"),
            )
        values = np.where(np.isfinite(values), values, np.inf)
        optimum = self._settle(objective, ends[int(np.argmin(values))], -values)
        draws = _constrain(target, jnp.asarray(optimum.z))
        order = [*(s.name for s in target.latents), *draws]
        draws = {name: np.asarray(draws[name])[None] for name in dict.fromkeys(order)}
        return draws, optimum.trust(), optimum

    def _settle(self, objective, z, start_log_densities) -> Optimum:
        """Look at gradient and curvature; where the gradient is not small enough, a Newton step."""
        value, gradient, hessian = _derivatives(objective, z)
        for _ in range(5):
            if not np.max(np.abs(gradient)) > 1e-2 * FLAT or not np.all(np.isfinite(hessian)):
                break
            step = np.linalg.lstsq(hessian, gradient)[0]
            found = _derivatives(objective, z - step)
            if (
                not np.max(np.abs(found[1])) < np.max(np.abs(gradient))
                or not found[0] <= value + SAME
            ):
                break
            z, (value, gradient, hessian) = z - step, found
        finite = np.all(np.isfinite(hessian))
        eigenvalues = np.linalg.eigvalsh(hessian) if finite else np.full(len(z), np.nan)
        return Optimum(
            z=np.asarray(z),
            log_density=-float(value),
            gradient_norm=float(np.max(np.abs(gradient))),
            hessian=np.asarray(hessian),
            eigenvalues=eigenvalues,
            start_log_densities=start_log_densities,
            coordinates=tuple(objective.target.coordinates),
            mode="unconstrained" if self.jacobian else "constrained",
        )


def prior_starts(target: Target, count: int, seed: int) -> jax.Array:
    """The first start at the median of 64 draws from the prior, the others at draws: (count, d)."""
    draws = _draw_prior(target, jax.random.split(jax.random.key(seed), 63 + count))
    return jnp.concatenate([jnp.median(draws[:64], axis=0)[None], draws[64:]])


@eqx.filter_jit
def _draw_prior(target, keys):
    return jax.vmap(target.draw_prior)(keys)


@eqx.filter_jit
def _constrain(target, z):
    return target.constrain(z)


@eqx.filter_jit
def _derivatives(objective, z):
    """Value, gradient and Hessian, one column of the Hessian at a time to bound the memory."""
    value_and_grad = jax.value_and_grad(objective)
    value, gradient = value_and_grad(z)
    columns = jax.lax.map(
        lambda e: jax.jvp(jax.grad(objective), (z,), (e,))[1], jnp.eye(z.shape[0], dtype=z.dtype)
    )
    return value, gradient, 0.5 * (columns + columns.T)
