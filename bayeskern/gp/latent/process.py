"""NumPyro distribution of observations of latent processes, f integrated out."""

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
from bayeskern.gp.prior import Inputs, points_alone, positive_definite, read_mean
from bayeskern.kernels.base import Kernel
from bayeskern.likelihoods.base import Likelihood
from bayeskern.linalg import SOLVERS, Solver, solver_of


class LatentProcess(Distribution):
    """Distribution of y ~ likelihood(f), f ~ GP(mean, kernel), with f integrated out.

    It is a NumPyro distribution. `log_prob` is Laplace's approximation of log p(y), exact for a
    Gaussian likelihood, and -inf where f has no mode; `sample` is exact.

    Args:
        kernel: Covariance function, with a number for every hyperparameter; or a tuple of kernels,
            one for each output of the likelihood. With one kernel, several outputs are independent
            processes with that kernel.
        X: Inputs, shape (n, d) or (n,), or a data frame.
        likelihood: One of `bayeskern.likelihoods`, with a number for every hyperparameter.
        mean: Prior mean: a number, an array of shape (n,), or a function of one point. With several
            outputs, an array has shape (outputs,) instead.
        extra: Values that the likelihood needs of each row, by name, such as `exposure` or
            `trials`.
        solver: "auto" for the fastest solver that fits, or the name of a solver, as for
            `GaussianProcess`. All solvers but "dense" require one latent function and a log-concave
            likelihood; "neighbors" is not supported.

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
        points, self.columns = points_alone(X)
        self.likelihood = check_likelihood(likelihood).require_concrete()
        self.kernels = tuple(
            k.resolve(self.columns).require_concrete() for k in _read_kernels(kernel, likelihood)
        )
        self.X = points
        C = count_latents(likelihood)
        self.prior_mean = read_mean(mean, C if C > 1 else points.shape[0])
        self.extra = likelihood.read_extra(dict(extra or {}), points.shape[0])
        self.solver = read_solver(solver, self.kernels, points, self.likelihood)
        distribution_at_0 = self._likelihood_at_0()
        event = distribution_at_0.batch_shape + distribution_at_0.event_shape
        super().__init__(batch_shape=(), event_shape=event, validate_args=validate_args)

    @property
    def support(self) -> constraints.Constraint:
        distribution_at_0 = self._likelihood_at_0()
        return constraints.independent(
            distribution_at_0.support,  # pyright: ignore[reportArgumentType]
            len(distribution_at_0.batch_shape),
        )

    def _likelihood_at_0(self) -> Distribution:
        f = jnp.zeros((count_latents(self.likelihood), self.X.shape[0]))
        return self.likelihood.distribution(eta(self.likelihood, f), **self.extra)

    @property
    def prior(self) -> LatentPrior:
        """Prior of the latent functions, without their means."""
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
            y: Observations, with the event shape of this distribution.

        Returns:
            Laplace's approximation of the latent functions given y.

        Raises:
            NotPositiveDefiniteError: If no mode of the latent functions is found.
            ValueError: If the log likelihood has kinks, or y has the wrong shape.
        """
        posterior = self._approximate(y)
        # JAX cannot raise while it traces: NaN weights make every prediction NaN instead.
        weights = jnp.where(posterior.usable, posterior.mode.weights, jnp.nan)
        process = self.prior, self.likelihood, self.prior_mean
        return ConditionedLatent(*process, weights, posterior.factor, self.columns, posterior)

    def _approximate(self, y: ArrayLike) -> LaplaceApproximation:
        """Approximate the posterior of f; raise an error if no mode is found."""
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
                "likelihood is not finite or not concave there. Check the hyperparameters, and try "
                "bayeskern.kernels.check_psd(kernel, X)."
            )
        return posterior

    def condition_on_white(self, white: Array) -> ConditionedLatent:
        """Condition on f = m + L white at X, for white (C, n) and K = L L'."""
        weights, factor = self.prior.noise_free(white)
        process = self.prior, self.likelihood, self.prior_mean
        return ConditionedLatent(*process, weights, factor, self.columns)

    def pointwise(self, y: ArrayLike) -> tuple[Array, Array]:
        """Log density of each observation given all others, log p(y_i | y_-i).

        The likelihood of observation i is removed from Laplace's approximation, and p(y_i | f_i) is
        averaged over the remaining Gaussian.

        Args:
            y: Observations, with the event shape of this distribution and any batch axes first.

        Returns:
            The log densities, shape (..., n), and the mask of observed rows, (n,), all True.

        References:
            Vehtari et al. (2016), "Bayesian leave-one-out cross-validation approximations for
            Gaussian latent variable models", section 3.2.
        """
        loo = self._vectorize(lambda y: self.condition(y).loo(), "->(n)")
        return loo(jnp.asarray(y)), jnp.ones(self.X.shape[0], bool)

    def log_ratio(self, y: ArrayLike, key: Array, n: int) -> tuple[Array, Array]:
        """Draws of f from Laplace's approximation q, with log weights log [p(y, f) / (q(f) Z)].

        Z is Laplace's approximation of p(y). If the approximation is exact, all log weights are 0.
        The mean of the weights estimates p(y) / Z.

        Args:
            y: Observations, with the event shape of this distribution.
            key: A random key.
            n: Number of draws.

        Returns:
            Draws (n, C, points), at a few thousand points of X at most, and the log weights (n,).
        """
        return self.prior.log_ratio(self._approximate(y), key, n)

    def given(self, y: ArrayLike, new: LatentProcess, rows: Array) -> NewResponses:
        """Distribution of new observations, given the observations of this process.

        Args:
            y: Observations of this process.
            new: The same process at m new points.
            rows: Indices of the points of `new` to predict, shape (k,).

        Returns:
            The joint distribution of the k new observations.
        """
        # The prior mean may be an array for X: replace it by its values at the new points.
        posterior = dataclasses.replace(self.condition(y), prior_mean=new.means()[:, rows])
        extra = {name: value[rows] for name, value in new.extra.items()}
        return NewResponses(posterior, LatentPoints(new.X[rows]), extra)

    def _vectorize(self, function: Callable, out: str) -> Callable:
        """Vectorize a function of one y over a batch; out: signature of its result."""
        axes = "(n)" if len(self.event_shape) == 1 else "(n,k)"
        return jnp.vectorize(function, signature=axes + out)


# -- checks ----------------------------------------------------------------------------------------


def read_solver(
    solver: str | Solver, kernels: tuple[Kernel, ...], X: Array, likelihood: Likelihood
) -> Solver:
    """Choose the solver of K + W^-1; "dense" for several K or if W may be negative."""
    name = type(likelihood).__name__
    if isinstance(solver, Solver):
        return solver
    if count_latents(likelihood) > 1:
        obstacle = f"it takes one latent function, and {name} has {count_latents(likelihood)}"
    elif not likelihood.log_concave:
        obstacle = f"log p(y | f) of {name} is not known to be concave"
    else:
        # The noise W^-1 differs from row to row, so solvers for a common noise do not fit.
        chosen = solver_of(kernels[0], X, solver, noise=np.ones(X.shape[0]))
        if not chosen.approximate:
            return chosen
        obstacle = "it approximates K + W^-1 only, and the search for the mode also needs K"
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
            f"latent functions: give one kernel, or {C}."
        )
    return tuple(positive_definite(k) for k in kernels)


def check_likelihood(likelihood: Likelihood) -> Likelihood:
    """Return the likelihood, or raise TypeError if it is not a `Likelihood`."""
    if not isinstance(likelihood, Likelihood):
        raise TypeError(
            f"likelihood must be one of bayeskern.likelihoods, got {type(likelihood).__name__}."
        )
    return likelihood


def check_smooth(likelihood: Likelihood) -> None:
    """Raise ValueError if the log likelihood has kinks."""
    if likelihood.kinked:
        raise ValueError(
            f"log p(y | f) of {type(likelihood).__name__} has kinks, so Laplace's approximation "
            "does not fit it. Sample the latent function instead: "
            "LatentGP(..., integrate=False) with method='nuts' or 'svi'."
        )
