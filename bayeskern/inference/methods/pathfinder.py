"""Multi-path Pathfinder: weighted Gaussians along the paths to the modes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from bayeskern.core import extras
from bayeskern.core.progress import Progress
from bayeskern.inference.approximation.adaptive import AdaptedProposal, weighted_sample
from bayeskern.inference.approximation.elliptical import Elliptical
from bayeskern.inference.methods.base import Method
from bayeskern.inference.methods.from_approximation import fit_from_weights
from bayeskern.inference.model.checks.bad_data import refuse_bad_data, refuse_nonfinite
from bayeskern.inference.model.target import Target
from bayeskern.inference.result import Fit
from bayeskern.inference.search.factors import robust_cholesky
from bayeskern.inference.search.lbfgs import evaluate
from bayeskern.inference.search.objective import NegativeLogDensity
from bayeskern.inference.search.starts import finite_positions, initial_positions


@dataclass(frozen=True)
class Pathfinder(Method):
    """Gaussians along the paths of L-BFGS to the modes, reweighted by p / q.

    blackjax's Pathfinder computes the paths. q is the mixture of the best Gaussian of each path, so
    that several modes can be covered.

    Args:
        paths: Number of starts.
        draws: Number of weighted draws, and of returned draws.
        replace: True to resample with replacement; False to return a quarter of `draws`, resampled
            without replacement.

    Raises:
        ValueError: If paths or draws is not a whole number of at least 1.

    References:
        Zhang, Carpenter, Gelman and Vehtari (2022), "Pathfinder: parallel quasi-Newton variational
        inference".
    """

    paths: int = 8
    draws: int = 4000
    replace: bool = True

    name = "pathfinder"
    samples_latents = True
    use = "a fast approximation from many starts"
    counts = ("paths", "draws")

    def run(self, target: Target, seed: int, progress: bool) -> Fit:
        target.require_priors("Pathfinder")
        objective = NegativeLogDensity(target, jacobian=True)
        starts = initial_positions(objective, self.paths, seed)
        with Progress("Pathfinder", 1, progress) as bar:
            means, covariances, valid = _valid_paths(target, starts, seed)
            if not np.any(valid):
                refuse_bad_data(target, starts[0])
                finite = finite_positions(
                    target, partial(evaluate, objective), self.paths, seed, rows=self.paths
                )
                if not len(finite):
                    refuse_nonfinite(target, starts[0])
                starts = np.resize(finite, starts.shape)
                means, covariances, valid = _valid_paths(target, starts, seed)
            bar.to(1)
        if not np.any(valid):
            refuse_nonfinite(target, starts[0])
        trils = np.stack([robust_cholesky(c) for c in covariances[valid]])
        q = Elliptical(means[valid], trils, np.zeros(len(trils)))
        sample, weights = weighted_sample(q, target, np.random.default_rng(seed), self.draws)
        if not np.any(np.isfinite(sample.log_p)):
            refuse_nonfinite(target, starts[0])
        weighted = AdaptedProposal(q, sample, weights, previous=None)
        return fit_from_weights(weighted, self.draws, self.replace, seed)


def _valid_paths(
    target: Target, starts: np.ndarray, seed: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Best mean and covariance along each path, and True for each path that did not fail."""
    means, covariances = map(np.asarray, _paths(target, starts, jax.random.key(seed)))
    valid = np.isfinite(means).all(axis=1) & np.isfinite(covariances).all(axis=(1, 2))
    return means, covariances, valid


@eqx.filter_jit
def _paths(target, begin, key):
    """Best Gaussian along each path: means (paths, d) and covariances (paths, d, d)."""
    with extras.needed_for("Pathfinder", package="blackjax", extra="pathfinder"):
        from blackjax.optimizers.lbfgs import lbfgs_inverse_hessian_formula_1
        from blackjax.vi.pathfinder import approximate

    def follow(item):
        start, key = item
        # 50 draws estimate the ELBO of each Gaussian along a path.
        state, _ = approximate(key, target.log_density, start, 50)
        covariance = lbfgs_inverse_hessian_formula_1(state.alpha, state.beta, state.gamma)
        position, gradient = map(jnp.asarray, (state.position, state.grad_position))
        mean = position + covariance @ gradient
        return mean, covariance

    return jax.lax.map(follow, (begin, jax.random.split(key, len(begin))))
