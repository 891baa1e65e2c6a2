"""Stochastic variational inference: reverse KL by ascent of the ELBO, forward KL by moments."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

from bayeskern import checks
from bayeskern.closed_form import DoesNotApplyError
from bayeskern.inference.adaptive import adapted, around_modes
from bayeskern.inference.approximation import Elliptical, cholesky
from bayeskern.inference.drawn import drawn_fit
from bayeskern.inference.fit import Fit
from bayeskern.inference.guides import GUIDES, AutoGuide, ByHand
from bayeskern.inference.judge import FEWEST_ESS, HOPELESS_KHAT
from bayeskern.inference.laplace import square_root
from bayeskern.inference.modes import Optimum, find_optimum
from bayeskern.inference.plateau import Plateau
from bayeskern.inference.progress import Progress
from bayeskern.inference.target import Target
from bayeskern.inference.weights import moments

# Learning rates of Adam, one after the other, each until the ELBO no longer rises. A flow has
# hundreds of weights and takes smaller steps.
RATES = {"gaussian": (0.05, 0.015, 0.005), "flow": (0.01, 0.003, 0.001)}
# From so many coordinates on a full factor learns more slowly: at the rates above it diverges.
WIDE = 24
# Steps between two looks at the ELBO.
STRETCH = 100
# Forward KL: rounds of adaptation, and degrees of freedom of the proposals.
ROUNDS, TAILS = 3, 5.0
# Draws for each step: the score-function gradient is the noisier.
PARTICLES = {"pathwise": 8, "score": 64}


@dataclass(frozen=True)
class SVI:
    """The member of a family that is closest to the posterior, by Adam on the ELBO.

    guide: "mean_field", "full_rank", "low_rank" (Gaussians), "flow" (inverse autoregressive), or a
    NumPyro guide for the model's sites. gradient: "pathwise", or "score" with a leave-one-out
    baseline (Kool, van Hoof and Welling, 2019). objective: "reverse_kl", KL(q || p), or
    "forward_kl", KL(p || q), whose Gaussian has the moments of the posterior: they are estimated by
    adaptive importance sampling from all modes that were found. steps: at most so many (and as many
    for the Gaussian that a flow starts from); it stops before where the ELBO is level, and says
    which it was. draws: how many come out.
    """

    guide: str | Callable = "full_rank"
    gradient: str = "pathwise"
    objective: str = "reverse_kl"
    steps: int = 20_000
    draws: int = 4000

    name = "svi"

    def __post_init__(self):
        checks.positive_integer(self.steps, "steps")
        checks.positive_integer(self.draws, "draws")
        checks.one_of("gradient", self.gradient, PARTICLES)
        checks.one_of("objective", self.objective, ("reverse_kl", "forward_kl"))
        if not callable(self.guide):
            checks.one_of("guide", self.guide, GUIDES)
        if self.objective == "forward_kl" and self.guide not in ("mean_field", "full_rank"):
            raise ValueError(
                "objective='forward_kl' matches the moments of a Gaussian, which "
                f"guide={self.guide!r} is not. Take guide='full_rank' or 'mean_field'."
            )
        if self.gradient == "score" and (callable(self.guide) or self.guide == "flow"):
            raise ValueError(
                "gradient='score' needs the density of the guide at any point, which a flow or a "
                "guide by hand does not give. Take gradient='pathwise'."
            )

    def run(self, target: Target, seed: int, progress: bool) -> Fit:
        target.require_priors("SVI")
        if self.objective == "forward_kl":
            return self._forward(target, seed, progress)
        family, optimum = self._family(target, seed, progress)
        params, trace, doubt = self._ascend(family, target, seed, progress)
        q = family.approximation(params)
        return drawn_fit(q, self.draws, seed, optimum, doubt=doubt, trace={"elbo": trace})

    # -- reverse KL -------------------------------------------------------------------------------

    def _family(self, target, seed, progress):
        if self.guide == "flow" and target.size < 2:
            raise DoesNotApplyError(
                "guide='flow' needs two coordinates at least, and the model has one. Take "
                "guide='full_rank'."
            )
        optimum = find_optimum(target, 4, seed, 1000, progress, title="SVI: mode")
        if callable(self.guide):
            return ByHand(target, self.guide), optimum
        if self.guide != "flow":
            return AutoGuide(self.guide, *_frame(optimum, self.guide)), optimum
        # A flow starts from the best Gaussian, which is far closer than its own start.
        gaussian = AutoGuide("full_rank", *_frame(optimum, "full_rank"))
        found = SVI(steps=self.steps)._ascend(gaussian, target, seed, progress)[0]
        best = gaussian.approximation(found)
        return AutoGuide("flow", best.means[0], best.trils[0]), optimum

    def _rates(self, d):
        """A step moves each of the d^2/2 entries of a full factor: all together no further."""
        slower = min(1.0, WIDE / d) if self.guide == "full_rank" else 1.0
        return [slower * rate for rate in RATES["flow" if self.guide == "flow" else "gaussian"]]

    def _ascend(self, family, target, seed, progress):
        """Adam on the ELBO: parameters averaged over the last steps, the ELBO, and doubts."""
        key, setting = jax.random.key(seed), (self.gradient, PARTICLES[self.gradient])
        params, optimiser = _begin(family, target, key, setting)
        plateau, done = Plateau(), 0
        with Progress("SVI", self.steps, progress) as bar:
            for rate in self._rates(target.size):
                plateau.next_level()
                averages = []
                while done < self.steps and not plateau.reached:
                    count = min(STRETCH, self.steps - done)
                    key, step = jax.random.split(key)
                    now = jnp.asarray(rate), jnp.asarray(count)
                    params, optimiser, average, elbo = _stretch(
                        family, target, params, optimiser, step, *now, setting
                    )
                    averages.append(average)
                    plateau.add(np.asarray(elbo)[:count])
                    done += count
                    bar.to(done, f"ELBO {plateau.latest:.3f}")
        # The iterates wander about the optimum; their mean over the second half does not.
        half = jax.device_get(averages[len(averages) // 2 :] or [params])
        mean = jax.tree.map(lambda *x: np.mean(x, axis=0), *half)
        doubt = None if plateau.reached else plateau.describe(self.steps)
        return mean, plateau.trace, doubt

    # -- forward KL -------------------------------------------------------------------------------

    def _forward(self, target, seed, progress) -> Fit:
        optimum = find_optimum(target, 8, seed, 1000, progress, title="SVI: modes")
        with Progress("SVI", ROUNDS + 1, progress) as bar:
            start = around_modes(optimum, TAILS)
            found = adapted(start, target, 2 * self.draws, ROUNDS, jax.random.key(seed), bar)
        _, sample, weights, _ = found
        mean, covariance = moments(sample.z, weights.normal)
        if self.guide == "mean_field":
            covariance = np.diag(np.diag(covariance))
        q = Elliptical.of(mean, cholesky(covariance))
        problem = None
        if not (weights.khat < HOPELESS_KHAT and weights.ess >= FEWEST_ESS):
            problem = (
                f"The moments rest on too few effective draws ({weights.ess:.0f}, k-hat "
                f"{weights.khat:.2g}). Take objective='reverse_kl' or method='nuts'."
            )

        return drawn_fit(q, self.draws, seed, optimum, problem)


def _frame(optimum: Optimum, guide: str):
    """Centre and A: the mode and its sds, if it is a sound one; else the origin and unit sds."""
    d = len(optimum.z)
    tril, repaired = square_root(optimum)
    if repaired or not optimum.converged:
        return jnp.zeros(d), jnp.eye(d)
    if guide in ("mean_field", "low_rank"):
        # The best diagonal Gaussian has the conditional sds.
        tril = np.diag(1.0 / np.sqrt(np.diag(optimum.hessian)))
    return jnp.asarray(optimum.z), jnp.asarray(tril)


@eqx.filter_jit
def _begin(family, target, key, setting):
    """Parameters at the better of two widths, and Adam's state."""
    starts = [family.init(scale) for scale in (1.0, 0.1)]
    elbos = [_elbo(family, target, params, key, ("pathwise", 64))[1] for params in starts]
    # NaN is the worse.
    first = ~(elbos[1] > elbos[0]) & jnp.isfinite(elbos[0])
    params = jax.tree.map(lambda a, b: jnp.where(first, a, b), *starts)
    return params, optax.adam(1.0).init(params)


@eqx.filter_jit
def _stretch(family, target, params, optimiser, key, rate, count, setting):
    """`count` steps; also the mean of the parameters over them, and the ELBO at each."""
    gradient = jax.value_and_grad(
        lambda params, key: _elbo(family, target, params, key, setting), has_aux=True
    )

    def step(carry, i):
        params, optimiser, total = carry
        (_, elbo), slope = gradient(params, jax.random.fold_in(key, i))
        updates, moved = optax.adam(rate).update(slope, optimiser, params)
        # A step into the void, or past the last one, is not taken.
        sound = jnp.all(jnp.array([jnp.all(jnp.isfinite(x)) for x in jax.tree.leaves(slope)]))
        take = sound & (i < count)
        new = optax.apply_updates(params, updates)
        params, optimiser = jax.tree.map(
            lambda a, b: jnp.where(take, a, b), (new, moved), (params, optimiser)
        )
        total = jax.tree.map(lambda t, p: t + jnp.where(i < count, p, 0.0), total, params)
        return (params, optimiser, total), elbo

    zero = jax.tree.map(jnp.zeros_like, params)
    carry, elbos = jax.lax.scan(step, (params, optimiser, zero), jnp.arange(STRETCH))
    params, optimiser, total = carry
    return params, optimiser, jax.tree.map(lambda t: t / count, total), elbos


def _elbo(family, target, params, key, setting):
    """(what to minimise, the ELBO), estimated from a few draws."""
    gradient, particles = setting
    draw_key, model_key = jax.random.split(key)
    z, log_q = jax.vmap(lambda k: family.draw(params, k))(jax.random.split(draw_key, particles))
    if target.subsampled:
        keys = jax.random.split(model_key, particles)
        log_p = jax.vmap(target.noisy_log_density)(z, keys)
    else:
        log_p = jax.vmap(target.log_density)(z)
    elbo = jnp.mean(log_p - log_q)
    if gradient == "pathwise":
        return -elbo, elbo
    z, gain = jax.lax.stop_gradient((z, log_p - log_q))
    # Each draw against the mean of the others: unbiased, and far less noisy.
    advantage = (gain - jnp.mean(gain)) * (particles / (particles - 1))
    log_q = jax.vmap(lambda one: family.log_density(params, one))(z)
    return -jnp.mean(advantage * log_q), elbo
