"""The Laplace approximation: a Gaussian at the mode of the unconstrained density."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bayeskern.core import validation
from bayeskern.inference.approximation.elliptical import Elliptical
from bayeskern.inference.estimate import Estimate
from bayeskern.inference.methods.base import Method
from bayeskern.inference.methods.from_approximation import fit_from_approximation
from bayeskern.inference.model.cost import is_very_costly
from bayeskern.inference.model.target import Target
from bayeskern.inference.result import Fit
from bayeskern.inference.search.information import CURVATURES, require_information
from bayeskern.inference.search.search import find_optimum


@dataclass(frozen=True)
class Laplace(Method):
    """The Laplace approximation: N(mode, H^-1) in unconstrained coordinates.

    H is the Hessian of -log p(z) at the mode of the unconstrained density. The log evidence is
    log p(mode) + d/2 log 2 pi - 1/2 log det H. A Hessian that is not positive definite is repaired,
    and the verdict says along which site.

    The Hessian of a network may be negative in some direction. H can then use J' H_theta J, with
    J = d theta / d z, in place of the Hessian of -log p(y | theta(z)), where theta are the
    parameters of the observed distributions. This term is never negative; priors and factors keep
    their Hessian. H_theta is the Hessian of -log p(y | theta) in parameters that make it convex
    ("gauss_newton"; the natural parameters of an exponential family), or its mean over y
    ("fisher"). The two agree for exponential families, and equal the exact Hessian for generalised
    linear models with canonical link and known scale.

    Args:
        draws: Number of draws; by default 4000, or 1000 if each evaluation of the density takes
            about a thirtieth of a second or more.
        starts: Number of starts of the search for the mode; by default 8, or 3 for such a density.
        steps: Maximum number of L-BFGS steps.
        checkpoint: A file for the search for the mode, as in `MAP`.
        hessian: "exact", "gauss_newton" or "fisher". "gauss_newton" is available for exponential
            families (normal, Bernoulli, categorical, Poisson, gamma, beta, ...), logistic noise and
            ordered classes; "fisher" for these and for Student t and Cauchy noise.

    Raises:
        ValueError: If an option is not a whole number of at least 1, or `hessian` is unknown; in
            `infer`, if the checkpoint belongs to another run.
        DoesNotApplyError: In `infer`, if a density has kinks, as a Laplace distribution has, and so
            no Hessian; or if the `hessian` is not available for an observed site.

    References:
        Tierney and Kadane (1986), "Accurate approximations for posterior moments and marginal
        densities"; Schraudolph (2002), "Fast curvature matrix-vector products for second-order
        gradient descent"; Martens (2020), "New insights and perspectives on the natural gradient
        method"; Immer, Korzepa and Bauer (2021), "Improving predictions of Bayesian neural nets via
        local linearization".

    Examples:
        >>> import jax.numpy as jnp, numpyro, numpyro.distributions as dist
        >>> import bayeskern as bk
        >>> def model(x, y):
        ...     w = numpyro.sample("w", dist.Normal().expand([2]))
        ...     numpyro.sample("y", dist.Normal(w[1] * jnp.tanh(w[0] * x), 0.1), obs=y)
        >>> x = jnp.linspace(-1.0, 1.0, 20)
        >>> method = bk.Laplace(hessian="gauss_newton")
        >>> posterior = bk.infer(model, x, jnp.sin(x), method=method, seed=0, progress=False)
        >>> bool(posterior.optimum.eigenvalues[0] >= 1.0)  # the prior alone gives 1
        True
    """

    draws: int | None = None
    starts: int | None = None
    steps: int = 1000
    checkpoint: str | Path | None = None
    hessian: str = "exact"

    name = "laplace"
    use = "many observations, smooth posteriors"
    counts = ("draws", "starts", "steps")

    def __post_init__(self) -> None:
        super().__post_init__()
        validation.one_of("hessian", self.hessian, ("exact", *CURVATURES))

    def run(self, target: Target, seed: int, progress: bool) -> Fit:
        target.require_priors("laplace")
        target.require_curvature("laplace")
        if self.hessian != "exact":
            require_information(target, self.hessian)
        default_starts, default_draws = (3, 1000) if is_very_costly(target) else (8, 4000)
        optimum = find_optimum(
            target,
            self.starts or default_starts,
            seed,
            self.steps,
            progress,
            title="Laplace: mode",
            checkpoint=self.checkpoint,
            hessian=self.hessian,
        )
        tril, repaired = optimum.inverse_root
        # The assessment, not this check, tests whether the draws cover the other modes.
        problem = repaired if optimum.converged else optimum.problem()
        evidence = Estimate(optimum.log_evidence, np.nan) if not problem else None
        q = Elliptical.at_mean(optimum.z, tril)
        draws = self.draws or default_draws
        return fit_from_approximation(q, draws, seed, optimum, problem, log_evidence=evidence)
