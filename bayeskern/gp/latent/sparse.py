"""Sparse Gaussian processes with inducing points and minibatches, for many rows."""

from __future__ import annotations

import dataclasses
from functools import cache
from typing import Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from jax import Array
from jax.typing import ArrayLike as JaxArrayLike
from numpy.typing import ArrayLike
from numpyro.distributions import Distribution, constraints

from bayeskern.core import validation
from bayeskern.gp.latent.log_likelihood import count_latents, eta
from bayeskern.gp.latent.model import LatentGP
from bayeskern.gp.latent.prior import LatentPoints
from bayeskern.gp.latent.process import LatentProcess
from bayeskern.gp.latent.quadrature import (
    covariance_roots,
    draw_responses,
    gaussian_expectation,
    product_rule,
    sobol,
)
from bayeskern.gp.prior import Inputs
from bayeskern.likelihoods.base import Likelihood
from bayeskern.linalg import SOLVERS, Solver
from bayeskern.linalg.factor import AnyArray


class SparseGP(LatentGP):
    """A `LatentGP` for many rows, approximated by its values u at m inducing points.

    n rows cost O(n m^2), not O(n^3). The log density of y_i is E[log p(y_i | f_i)], the mean over
    f_i given u. The density of this model is therefore a lower bound on the full process's density,
    and full-rank SVI on it is the sparse variational Gaussian process. A verdict on the posterior
    assesses inference in this model only; to check that m is large enough, add inducing points. The
    sites are as in `LatentGP`, where `white` determines u.

    Args:
        kernel: As in `LatentGP`.
        likelihood: As in `LatentGP`.
        mean: As in `LatentGP`.
        integrate: Not used: u is always sampled.
        columns: Columns of the data frame of the fit; set by `prepare`.
        inducing: Number m of inducing points, placed by k-means; or the points, shape (m, d).
        batch: Number of rows in each step of SVI; None for all.

    References:
        Titsias (2009), "Variational learning of inducing variables in sparse Gaussian processes";
        Hensman, Matthews and Ghahramani (2015), "Scalable variational Gaussian process
        classification".

    Examples:
        >>> import numpy as np
        >>> import bayeskern as bk
        >>> from bayeskern import likelihoods
        >>> from bayeskern.kernels import RBF
        >>> X = np.linspace(0.0, 10.0, 500)
        >>> model = bk.SparseGP(RBF(), likelihoods.Gaussian(0.1), inducing=[0.0, 5.0, 10.0])
        >>> prepared, _ = model.prepare(X, np.sin(X))
        >>> prepared.inducing.shape
        (3, 1)
    """

    inducing: int | ArrayLike = eqx.field(default=100, kw_only=True)
    batch: int | None = eqx.field(static=True, default=None, kw_only=True)

    def __call__(
        self,
        X: AnyArray,
        y: AnyArray | None = None,
        extra: dict[str, Array] | None = None,
        **extras: ArrayLike,
    ) -> JaxArrayLike:
        if isinstance(self.inducing, int):
            # `prepare` needs concrete data: NumPyro's own inference traces this call.
            with jax.ensure_compile_time_eval():
                model, args = self.prepare(X, y, **(extra or {}), **extras)
            return model(*args)
        likelihood, kernels, mean = self.sample_parameters()
        inducing = jnp.asarray(self.inducing)
        shape = (count_latents(likelihood), len(inducing))
        site_shape = shape if likelihood.outputs else shape[1:]
        normal = dist.Normal().expand(site_shape).to_event(len(site_shape))
        white = numpyro.sample("white", normal)
        process = LatentProcess(
            kernels, inducing, likelihood, mean, self._inducing_extra, solver="dense"
        )
        u = process.condition_on_white(jnp.reshape(white, shape))
        with numpyro.plate("rows", X.shape[0], subsample_size=self.batch) as rows:
            batch_extra = {name: value[rows] for name, value in (extra or {}).items()}
            moments = u.moments(LatentPoints(X[rows]))
            observed = ExpectedLogLikelihood(likelihood, *moments, batch_extra)
            return numpyro.sample("y", observed, obs=None if y is None else y[rows])

    def for_method(self, name: str, samples_latents: bool, uses_priors: bool) -> Self:
        """Return the model itself, because every method samples u."""
        return self

    def _solver_for(self, X: Array) -> Solver:
        if self.solver not in ("auto", "dense"):
            raise ValueError(
                f"solver={self.solver!r} does not fit: SparseGP factors only the covariance of its "
                "inducing points, which is dense. Leave solver='auto', or use LatentGP."
            )
        return SOLVERS["dense"]

    def prepare(
        self, X: Inputs, y: ArrayLike | None = None, **extra: ArrayLike
    ) -> tuple[Self, tuple]:
        """Prepare as `LatentGP.prepare` does, and place the inducing points."""
        model, (points, targets, values) = super().prepare(X, y, **extra)
        columns = model.columns or self.columns
        inducing = jnp.asarray(_inducing_points(self.inducing, np.asarray(points), columns))
        batch = self.batch
        if batch is not None:
            batch = min(validation.positive_integer(batch, "batch"), points.shape[0])
        model = dataclasses.replace(model, inducing=inducing, batch=batch)
        return model, (points, targets, values)

    def _conditioning_data(self, data: tuple) -> tuple:
        return self.inducing, None, self._inducing_extra

    def _without_batches(self) -> Self:
        return dataclasses.replace(self, batch=None)

    @property
    def _inducing_extra(self) -> dict[str, float]:
        """Placeholders for the values that the likelihood needs at inducing points."""
        return dict.fromkeys(self.likelihood.needs, 1.0)


class ExpectedLogLikelihood(Distribution):
    """Distribution of y given Gaussian f, with log density E[log p(y | f)].

    Args:
        likelihood: The likelihood.
        mean: Means of f, (C, n).
        covariance: Covariance of the C latent functions at each row, (C, C, n).
        extra: Values that the likelihood needs of each row.
    """

    def __init__(
        self, likelihood: Likelihood, mean: Array, covariance: Array, extra: dict[str, Array]
    ):
        self.likelihood, self.latent_mean, self.covariance = likelihood, mean, covariance
        self.extra = extra
        at_mean = self._likelihood_at(mean)
        super().__init__(batch_shape=at_mean.batch_shape, event_shape=at_mean.event_shape)

    @property
    def support(self) -> constraints.Constraint | None:
        return self._likelihood_at(self.latent_mean).support

    def _likelihood_at(self, f: Array) -> Distribution:
        return self.likelihood.distribution(eta(self.likelihood, f), **self.extra)

    def log_prob(self, value: Array) -> Array:
        """E[log p(y | f)], by quadrature."""

        def log_density(f):
            return self._likelihood_at(f).log_prob(value)

        # One node at a time: with many rows, several nodes at once would take much memory.
        moments = self.latent_mean, self.covariance
        return gaussian_expectation(log_density, *moments, rule=_nodes, per_batch=1)

    def sample(self, key: Array, sample_shape: tuple[int, ...] = ()) -> Array:
        key_f, key_y = jax.random.split(key)
        roots = covariance_roots(self.covariance)
        white = jax.random.normal(key_f, (*sample_shape, *self.latent_mean.shape))
        f = self.latent_mean + jnp.einsum("cdn,...dn->...cn", roots, white)
        return draw_responses(self.likelihood, f, self.extra, key_y)


@cache
def _nodes(C: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes (Q, C) and weights (Q,) under N(0, I) for log densities, which are smooth."""
    if C > 2:
        return sobol(C, 128)
    return product_rule(*np.polynomial.hermite_e.hermegauss(20 if C == 1 else 10), C)


def _inducing_points(
    inducing: int | ArrayLike, X: np.ndarray, columns: tuple[str, ...] | None
) -> np.ndarray:
    """Inducing points (m, d): as given, or for a number m the centers of k-means."""
    if not isinstance(inducing, int | np.integer):
        Z = np.asarray(validation.inputs(inducing, "inducing", columns)[0])
        if Z.shape[1] != X.shape[1]:
            raise ValueError(
                f"inducing has {Z.shape[1]} columns but X has {X.shape[1]}; they must match."
            )
        return Z
    # scikit-learn takes long to import.
    from sklearn.cluster import MiniBatchKMeans

    count = validation.positive_integer(inducing, "inducing")
    distinct = np.unique(X, axis=0)
    if count >= len(distinct):
        return distinct
    scale = np.std(X, axis=0)
    scale = np.where(scale > 0, scale, 1.0)
    clustering = MiniBatchKMeans(
        count,
        random_state=0,
        n_init=3,  # pyright: ignore[reportArgumentType]
    ).fit(X / scale)
    return np.asarray(clustering.cluster_centers_) * scale
