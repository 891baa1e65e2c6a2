"""Observations of latent Gaussian processes, a NumPyro distribution with f integrated out."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import solve_triangular
from numpyro.distributions import Distribution, constraints

from bayeskern import hyperparameters as hyper
from bayeskern.core import validation
from bayeskern.core.validation import NotPositiveDefiniteError, is_traced
from bayeskern.gp import newton
from bayeskern.gp.conditioned_latent import ConditionedLatent, NewResponses, evaluate
from bayeskern.gp.curvature import Observed, cholesky, eta, factory, outputs
from bayeskern.gp.process import RECOMPUTE_FROM, is_function, mean_function, positive_definite
from bayeskern.kernels.base import Kernel
from bayeskern.likelihoods.base import Likelihood


class LatentProcess(Distribution):
    """The distribution of y ~ likelihood(f), f ~ GP(mean, kernel), f integrated out.

    kernel: a concrete kernel, or a tuple with one for each output of the likelihood (one kernel
    for several outputs: independent processes that share it). X: (n, d) or (n,). likelihood:
    concrete. mean: a number, an array (n,), or a function of one point; for several outputs also
    one number for each. extra: what the likelihood needs of each row, by name.

    `log_prob` is Laplace's approximation of the evidence (Rasmussen and Williams 2006, sections
    3.4 and 3.5), exact for a Gaussian likelihood; `sample` is exact. -inf where there is no mode.
    Raises TypeError if a kernel or the likelihood is still a specification, ValueError if a kernel
    is not positive definite by construction or the likelihood has no curvature.
    """

    pytree_data_fields = ("kernels", "X", "likelihood", "prior_mean", "extra")
    pytree_aux_fields = ("columns",)

    def __init__(
        self, kernel, X, likelihood: Likelihood, mean=0.0, extra=None, *, validate_args=None
    ):
        X, self.columns = validation.inputs(X)
        self.likelihood = known(likelihood).require_concrete()
        self.kernels = tuple(
            k.resolve(self.columns).require_concrete() for k in kernels_of(kernel, likelihood)
        )
        self.X = X
        self.prior_mean = latent_mean(mean, outputs(likelihood), X.shape[0])
        self.extra = likelihood.read_extra(extra or {}, X.shape[0])
        own = self._likelihood_at_0()
        event = own.batch_shape + own.event_shape
        super().__init__(batch_shape=(), event_shape=event, validate_args=validate_args)

    @property
    def support(self):
        own = self._likelihood_at_0()
        return constraints.independent(own.support, len(own.batch_shape))

    def _likelihood_at_0(self) -> Distribution:
        f = jnp.zeros((outputs(self.likelihood), self.X.shape[0]))
        return self.likelihood.distribution(eta(self.likelihood, f), **self.extra)

    def covariances(self):
        """K, one for each latent function: (C, n, n)."""
        return covariances(self.kernels, self.X, outputs(self.likelihood))

    def means(self):
        """The prior mean of the latent functions: (C, n)."""
        return evaluate(self.prior_mean, self.X, outputs(self.likelihood))

    def sample(self, key, sample_shape=()):
        key_f, key_y = jax.random.split(key)
        C, n = self.means().shape
        white = jax.random.normal(key_f, (*sample_shape, C, n), self.X.dtype)
        f = self.means() + jnp.einsum("cij,...cj->...ci", cholesky(self.covariances()), white)

        def draw(f, key):
            return self.likelihood.distribution(eta(self.likelihood, f), **self.extra).sample(key)

        keys = jax.random.split(key_y, sample_shape) if sample_shape else key_y
        for _ in sample_shape:
            draw = jax.vmap(draw)
        return draw(f, keys)

    def log_prob(self, value):
        """Laplace's approximation of log p(y), twice differentiable in all that it depends on."""
        smooth(self.likelihood)
        large = self.X.shape[0] >= RECOMPUTE_FROM
        make = eqx.filter_checkpoint(covariances) if large else covariances
        K, m = make(self.kernels, self.X, outputs(self.likelihood)), self.means()

        def one(y):
            return _log_evidence(K, m, Observed.of(self.likelihood, y, self.extra))

        return self._each(one, "->()")(jnp.asarray(value))

    def condition(self, y) -> ConditionedLatent:
        """The latent processes given y, factored once; predict as often as you like.

        Raises NotPositiveDefiniteError if there is no mode to be found.
        """
        smooth(self.likelihood)
        y = jnp.asarray(y)
        if y.shape != self.event_shape:
            raise ValueError(f"y has shape {y.shape} but X asks for {self.event_shape}.")
        observed = Observed.of(self.likelihood, y, self.extra)
        mode, W, factor = _approximation(self.covariances(), self.means(), observed)
        if not is_traced(mode.decrement) and not (
            mode.found and np.isfinite(float(factor.logdet()))
        ):
            raise NotPositiveDefiniteError(
                f"no mode of the latent function was found in {int(mode.factors)} Newton steps: "
                "the covariance of the kernel is not positive definite, or the log likelihood is "
                "not finite or not curved downwards there. Look at the hyperparameters, and try "
                "bayeskern.kernels.check_psd(kernel, X)."
            )
        # A likelihood without curvature says nothing of what is not observed.
        usable = mode.found & jnp.isfinite(factor.logdet())
        weights = jnp.where(usable, mode.weights, jnp.nan)
        return ConditionedLatent(
            self.kernels, self.X, self.likelihood, self.prior_mean, weights, factor, self.columns,
            observed, mode, W,
        )  # fmt: skip

    def pointwise(self, y):
        """log p(y_i | all other values) for each i, and which of them count: (..., n), (n,).

        The observation's own Gaussian part is taken out of the approximation, and its density
        averaged over what remains (Vehtari et al. 2016, "Bayesian leave-one-out cross-validation
        approximations for Gaussian latent variable models", section 3.2).
        """
        each = self._each(lambda y: self.condition(y).loo(), "->(n)")
        return each(jnp.asarray(y)), jnp.ones(self.X.shape[0], bool)

    def log_ratio(self, y, key, n: int):
        """n draws f from the approximation q, of evidence Z, and log [p(y | f) p(f) / (q(f) Z)].

        (n, C, points) and (n,). The ratios are all 0 where the approximation is exact; the mean of
        their exponentials is p(y) / Z.
        """
        given = self.condition(y)
        return _log_ratio(given, self.covariances(), self.means(), key, n)

    def given(self, y, new: LatentProcess, rows) -> NewResponses:
        """Observations of `new` (m points) at the rows (k,) of them, given those of this one."""
        at = self.condition(y)
        prior = evaluate(new.prior_mean, new.X, outputs(self.likelihood))[:, rows]
        extra = {name: value[rows] for name, value in new.extra.items()}
        return NewResponses(at, new.X[rows], prior, extra)

    def _each(self, function, out):
        """The function of one set of observations, applied to a batch of them."""
        axes = "(n)" if len(self.event_shape) == 1 else "(n,k)"
        return jnp.vectorize(function, signature=axes + out)


# -- the mathematics, on arrays --------------------------------------------------------------------

_log_evidence = jax.jit(newton.log_evidence)


@jax.jit
def _approximation(K, m, observed):
    mode = newton.find_mode(K, m, observed)
    W = observed.curvature(mode.f)
    return mode, W, factory(K, observed.concave)(W)


@eqx.filter_jit
def _log_ratio(given, K, m, key, n):
    """In the coordinates v = L^-1 (f - m), so that K need not be inverted."""
    roots, (C, size) = cholesky(K), m.shape
    joined = jnp.einsum("cji,cdj,djk->cidk", roots, given.W, roots).reshape(C * size, C * size)
    M = jnp.linalg.cholesky(jnp.eye(C * size) + joined)
    centre = jnp.einsum("cji,cj->ci", roots, given.weights)
    white = jax.random.normal(key, (n, C * size), m.dtype)
    steps = solve_triangular(M, white.T, lower=True, trans=1).T
    v = centre + steps.reshape(n, C, size)
    f = m + jnp.einsum("cij,ncj->nci", roots, v)
    log_p = jax.lax.map(given.observed.log_density, f) - 0.5 * jnp.sum(jnp.square(v), (1, 2))
    log_q = -0.5 * jnp.sum(jnp.square(white), 1) + jnp.sum(jnp.log(jnp.diagonal(M)))
    evidence = given.mode.value - 0.5 * given.factor.logdet()
    return f, log_p - log_q - evidence


# -- small pieces ----------------------------------------------------------------------------------


def covariances(kernels, X, C: int):
    found = jnp.stack([k.evaluate(X) for k in kernels])
    return found if len(kernels) == C else jnp.broadcast_to(found, (C, *found.shape[1:]))


def kernels_of(kernel, likelihood) -> tuple[Kernel, ...]:
    """The kernels as a tuple: one, or one for each latent function."""
    kernels = tuple(kernel) if isinstance(kernel, tuple | list) else (kernel,)
    wanted = outputs(likelihood)
    if len(kernels) not in (1, wanted):
        raise ValueError(
            f"kernel is a tuple of {len(kernels)}, but {type(likelihood).__name__} has {wanted} "
            "latent functions: give one kernel, or one for each."
        )
    return tuple(positive_definite(k) for k in kernels)


def known(likelihood) -> Likelihood:
    """Refuse what is no likelihood."""
    if not isinstance(likelihood, Likelihood):
        raise TypeError(
            f"likelihood must be one of bayeskern.likelihoods, got {type(likelihood).__name__}."
        )
    return likelihood


def smooth(likelihood) -> Likelihood:
    """Refuse a likelihood without curvature."""
    if likelihood.kinked:
        raise ValueError(
            f"log p(y | f) of {type(likelihood).__name__} has kinks, so Laplace's approximation "
            "does not fit it. Do not integrate the latent function out: "
            "LatentGP(..., integrate=False) with method='nuts' or 'svi'."
        )
    return likelihood


def latent_mean(mean, C: int, n: int | None = None):
    """A prior mean as it is kept: a function, a number, one for each of C functions, or (n,)."""
    if is_function(mean):
        return mean_function(mean)
    if hyper.is_specified(mean):
        raise TypeError(f"mean must be a number here, got {hyper.show(mean)}; see LatentGP.")
    mean = jnp.asarray(hyper.as_hyperparameter(mean))
    if mean.shape not in ((), (C,) if C > 1 else (n,)):
        each = f"{C} latent functions" if C > 1 else f"{n} points"
        raise ValueError(f"mean must be one number or one for each of {each}, got {mean.shape}.")
    return mean
