"""Observations of latent Gaussian processes, a NumPyro distribution with f integrated out."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import ArrayLike
from numpyro.distributions import Distribution, constraints

from bayeskern.core import validation
from bayeskern.core.validation import NotPositiveDefiniteError, is_traced
from bayeskern.gp.latent.laplace import LaplaceApproximation
from bayeskern.gp.latent.log_likelihood import LogLikelihood, count_latents, eta
from bayeskern.gp.latent.posterior import ConditionedLatent, NewResponses, latent_means
from bayeskern.gp.latent.prior import DensePrior, LatentPoints, LatentPrior
from bayeskern.gp.latent.quadrature import draw_responses
from bayeskern.gp.latent.solver_prior import SolverPrior
from bayeskern.gp.prior import Inputs, positive_definite, read_mean
from bayeskern.kernels.base import Kernel
from bayeskern.likelihoods.base import Likelihood
from bayeskern.linalg import SOLVERS, Solver, solver_of


class LatentProcess(Distribution):
    """Distribution of y ~ likelihood(f), f ~ GP(mean, kernel), with f integrated out.

    It is a NumPyro distribution. `log_prob` is Laplace's approximation of log p(y), exact for a
    Gaussian likelihood, and -inf where f has no mode; `sample` is exact.

    Args:
        kernel: Covariance function, with a number for every hyperparameter, or a tuple with one for
            each output of the likelihood. Several outputs may share one kernel, as independent
            processes.
        X: Inputs, shape (n, d) or (n,), or a data frame.
        likelihood: One of `bayeskern.likelihoods`, with a number for every hyperparameter.
        mean: Prior mean: a number, an array of shape (n,), or a function of one point. For several
            outputs also one number for each, instead of an array.
        extra: Values that the likelihood needs of each row, by name, such as `exposure` or
            `trials`.
        solver: "auto" for the fastest solver that fits, or its name, as for `GaussianProcess`. All
            but "dense" require one latent function and a log-concave likelihood.

    Attributes:
        kernels: The kernels, a tuple.
        X: The inputs, shape (n, d).
        likelihood: The likelihood.
        prior_mean: The prior mean.
        solver: The chosen solver.

    Raises:
        TypeError: If a kernel or the likelihood still holds distributions or `Free`.
        ValueError: If a kernel is not positive definite by construction.

    References:
        Rasmussen and Williams (2006), sections 3.4 and 3.5.

    Examples:
        >>> import numpy as np
        >>> import bayeskern as bk
        >>> from bayeskern import likelihoods
        >>> from bayeskern.kernels import RBF
        >>> y = np.array([1, 0, 2, 3, 5, 4])
        >>> process = bk.LatentProcess(RBF(lengthscale=2.0), np.arange(6.0), likelihoods.Poisson())
        >>> round(float(process.log_prob(y)), 1)
        -11.7
    """

    pytree_data_fields = ("kernels", "X", "likelihood", "prior_mean", "extra", "solver")
    pytree_aux_fields = ("columns",)

    def __init__(
        self,
        kernel: Kernel | tuple[Kernel, ...],
        X: Inputs,
        likelihood: Likelihood,
        mean: ArrayLike | Callable = 0.0,
        extra: Mapping[str, ArrayLike] | None = None,
        solver: str | Solver = "auto",
        *,
        validate_args: bool | None = None,
    ):
        points, self.columns = validation.inputs(X)
        self.likelihood = check_likelihood(likelihood).require_concrete()
        self.kernels = tuple(
            k.resolve(self.columns).require_concrete() for k in _read_kernels(kernel, likelihood)
        )
        self.X = points
        C = count_latents(likelihood)
        self.prior_mean = read_mean(mean, C if C > 1 else points.shape[0])
        self.extra = likelihood.read_extra(dict(extra or {}), points.shape[0])
        self.solver = read_solver(solver, self.kernels, points, self.likelihood)
        at_0 = self._likelihood_at_0()
        event = at_0.batch_shape + at_0.event_shape
        super().__init__(batch_shape=(), event_shape=event, validate_args=validate_args)

    @property
    def support(self) -> constraints.Constraint:
        at_0 = self._likelihood_at_0()
        return constraints.independent(
            at_0.support,  # pyright: ignore[reportArgumentType]
            len(at_0.batch_shape),
        )

    def _likelihood_at_0(self) -> Distribution:
        f = jnp.zeros((count_latents(self.likelihood), self.X.shape[0]))
        return self.likelihood.distribution(eta(self.likelihood, f), **self.extra)

    @property
    def prior(self) -> LatentPrior:
        """The latent functions without their means."""
        if self.solver.name == "dense":
            return DensePrior(self.kernels, self.X, count_latents(self.likelihood))
        return SolverPrior(self.kernels, self.X, self.solver)

    def means(self) -> Array:
        """Prior mean of the latent functions: (C, n)."""
        return latent_means(self.prior_mean, self.X, count_latents(self.likelihood))

    def sample(self, key: Array, sample_shape: tuple[int, ...] = ()) -> Array:
        key_f, key_y = jax.random.split(key)
        C, n = self.means().shape
        white = jax.random.normal(key_f, (*sample_shape, C, n), self.X.dtype)
        f = self.means() + self.prior.root(white)
        return draw_responses(self.likelihood, f, self.extra, key_y)

    def log_prob(self, value: ArrayLike) -> Array:
        """Laplace's approximation of log p(y), twice differentiable in all arguments."""
        check_smooth(self.likelihood)

        def log_marginal(y):
            log_likelihood = LogLikelihood.of(self.likelihood, y, self.extra)
            return self.prior.log_marginal(self.means(), log_likelihood)

        return self._vectorize(log_marginal, "->()")(jnp.asarray(value))

    def condition(self, y: ArrayLike) -> ConditionedLatent:
        """Condition on data, with one factorization for all predictions.

        Args:
            y: Observations, of the shape of this distribution's events.

        Returns:
            Laplace's approximation of the latent functions given y.

        Raises:
            NotPositiveDefiniteError: If the latent functions have no mode.
            ValueError: If the log likelihood has kinks, or y another shape.
        """
        posterior = self._approximate(y)
        # Nothing can be raised under a trace: NaN weights make every prediction NaN instead.
        weights = jnp.where(posterior.usable, posterior.mode.weights, jnp.nan)
        process = self.prior, self.likelihood, self.prior_mean
        return ConditionedLatent(*process, weights, posterior.factor, self.columns, posterior)

    def _approximate(self, y: ArrayLike) -> LaplaceApproximation:
        """Approximate the posterior of f; raise where there is no mode."""
        check_smooth(self.likelihood)
        y = jnp.asarray(y)
        if y.shape != self.event_shape:
            raise ValueError(f"y must have shape {self.event_shape}, got {y.shape}.")
        log_likelihood = LogLikelihood.of(self.likelihood, y, self.extra)
        posterior = self.prior.approximate(self.means(), log_likelihood)
        if not is_traced(posterior.usable) and not posterior.usable:
            raise NotPositiveDefiniteError(
                f"no mode of the latent function was found in {int(posterior.mode.steps)} Newton "
                "steps: the covariance of the kernel is not positive definite, or the log "
                "likelihood is not finite or not curved downwards there. Look at the "
                "hyperparameters, and try bayeskern.kernels.check_psd(kernel, X)."
            )
        return posterior

    def condition_on_white(self, white: Array) -> ConditionedLatent:
        """Condition on f = m + L white at X, with K = L L' and white (C, n)."""
        weights, factor = self.prior.noise_free(white)
        process = self.prior, self.likelihood, self.prior_mean
        return ConditionedLatent(*process, weights, factor, self.columns)

    def pointwise(self, y: ArrayLike) -> tuple[Array, Array]:
        """Log density of each observation given all others, log p(y_i | y_-i).

        The factor of the observation itself is removed from the approximation, and its density is
        averaged over the remaining Gaussian.

        Args:
            y: Observations, of the shape of this distribution's events, or a batch of them.

        Returns:
            The log densities, shape (..., n), and a mask of the rows that count, shape (n,).

        References:
            Vehtari et al. (2016), "Bayesian leave-one-out cross-validation approximations for
            Gaussian latent variable models", section 3.2.
        """
        loo = self._vectorize(lambda y: self.condition(y).loo(), "->(n)")
        return loo(jnp.asarray(y)), jnp.ones(self.X.shape[0], bool)

    def log_ratio(self, y: ArrayLike, key: Array, n: int) -> tuple[Array, Array]:
        """Draws f from the approximation q and their log weights log [p(y, f) / (q(f) Z)].

        Z is the marginal likelihood of q. The log weights are all 0 where the approximation is
        exact; the mean of their exponentials is p(y) / Z.

        Args:
            y: Observations, of the shape of this distribution's events.
            key: A random key.
            n: Number of draws.

        Returns:
            Draws (n, C, points), at no more than a few thousand of the points of X, and the log
            weights (n,).
        """
        return self.prior.log_ratio(self._approximate(y), key, n)

    def given(self, y: ArrayLike, new: LatentProcess, rows: Array) -> NewResponses:
        """Distribution of observations at new points, given those of this process.

        Args:
            y: Observations of this process.
            new: The same process at m other points.
            rows: Indices of the points of `new` to predict, shape (k,).

        Returns:
            Their joint distribution.
        """
        # The posterior with the prior mean of the new points, which may be an array.
        posterior = dataclasses.replace(self.condition(y), prior_mean=new.means()[:, rows])
        extra = {name: value[rows] for name, value in new.extra.items()}
        return NewResponses(posterior, LatentPoints(new.X[rows]), extra)

    def _vectorize(self, function: Callable, out: str) -> Callable:
        """Function of one set of observations, applied to a batch of them."""
        axes = "(n)" if len(self.event_shape) == 1 else "(n,k)"
        return jnp.vectorize(function, signature=axes + out)


# -- checks ----------------------------------------------------------------------------------------


def read_solver(
    solver: str | Solver, kernels: tuple[Kernel, ...], X: Array, likelihood: Likelihood
) -> Solver:
    """Solver of K + W^-1: the dense one for several K, or a W that may be negative."""
    name = type(likelihood).__name__
    if isinstance(solver, Solver):
        return solver
    if count_latents(likelihood) > 1:
        obstacle = f"{name} has {count_latents(likelihood)} latent functions, and it takes one"
    elif not likelihood.log_concave:
        obstacle = f"log p(y | f) of {name} is not known to be concave"
    else:
        # The noise is the inverse of a curvature that differs from row to row.
        chosen = solver_of(kernels[0], X, solver, noise=np.ones(X.shape[0]))
        if not chosen.approximate:
            return chosen
        obstacle = "it approximates K + W^-1 alone, and the search for the mode needs K too"
    if solver not in ("auto", "dense"):
        validation.one_of("solver", solver, SOLVERS)
        raise ValueError(f"solver={solver!r} does not fit: {obstacle}. Leave solver='auto'.")
    return solver_of(kernels[0], X, "dense")


def _read_kernels(
    kernel: Kernel | tuple[Kernel, ...], likelihood: Likelihood
) -> tuple[Kernel, ...]:
    """The kernels as a tuple: one, or one for each latent function."""
    kernels = tuple(kernel) if isinstance(kernel, tuple | list) else (kernel,)
    C = count_latents(likelihood)
    if len(kernels) not in (1, C):
        raise ValueError(
            f"kernel is a tuple of {len(kernels)}, but {type(likelihood).__name__} has {C} "
            "latent functions: give one kernel, or one for each."
        )
    return tuple(positive_definite(k) for k in kernels)


def check_likelihood(likelihood: Likelihood) -> Likelihood:
    """Return the likelihood, or raise TypeError if it is none."""
    if not isinstance(likelihood, Likelihood):
        raise TypeError(
            f"likelihood must be one of bayeskern.likelihoods, got {type(likelihood).__name__}."
        )
    return likelihood


def check_smooth(likelihood: Likelihood) -> None:
    """Raise ValueError for a likelihood without curvature."""
    if likelihood.kinked:
        raise ValueError(
            f"log p(y | f) of {type(likelihood).__name__} has kinks, so Laplace's approximation "
            "does not fit it. Do not integrate the latent function out: "
            "LatentGP(..., integrate=False) with method='nuts' or 'svi'."
        )
