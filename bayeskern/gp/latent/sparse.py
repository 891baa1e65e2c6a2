"""Sparse Gaussian processes for many rows: inducing points and minibatches."""

from __future__ import annotations

import dataclasses
from functools import cache
from typing import ClassVar, Self

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
    """A `LatentGP` for many rows, through its values u at m inducing points.

    n rows cost O(n m^2), not O(n^3). Each y_i counts with E[log p(y_i | f_i)] under the prior of
    f_i given u, so that the density of this model is a lower bound on the density of the whole
    process, and full-rank SVI on it is the sparse variational Gaussian process. A verdict on its
    posterior refers to this model; to check that there are enough inducing points, add more. Sites
    are those of `LatentGP`, with `white` for u.

    Args:
        kernel: As in `LatentGP`.
        likelihood: As in `LatentGP`.
        mean: As in `LatentGP`.
        integrate: Not used: u is always kept.
        columns: Columns of the data frame of the fit; set by `prepare`.
        inducing: Number of inducing points, which k-means then finds, or the points, shape (m, d).
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

    # Each draw costs O(m^3) only.
    most_draws: ClassVar[int] = 1000

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
            # NumPyro's own inference traces the model, though the data are known.
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

    def for_method(self, name: str) -> Self:
        """The model itself: every method samples u."""
        return self

    def _solver_for(self, X: Array) -> Solver:
        if self.solver not in ("auto", "dense"):
            raise ValueError(
                f"solver={self.solver!r} does not fit: the only covariance matrix is that of the "
                "inducing points, which is dense. Leave solver='auto', or take LatentGP."
            )
        return SOLVERS["dense"]

    def prepare(
        self, X: Inputs, y: ArrayLike | None = None, **extra: ArrayLike
    ) -> tuple[Self, tuple]:
        """As `LatentGP.prepare`; finds the inducing points too."""
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

    def _for_all_rows(self) -> Self:
        return dataclasses.replace(self, batch=None)

    @property
    def _inducing_extra(self) -> dict[str, float]:
        """Placeholders for the values that the likelihood needs at inducing points."""
        return dict.fromkeys(self.likelihood.needs, 1.0)


class ExpectedLogLikelihood(Distribution):
    """y ~ likelihood(f), f Gaussian, with E[log p(y | f)] as its log density.

    mean: (C, n); covariance: (C, C, n), at each row.
    """

    def __init__(
        self, likelihood: Likelihood, mean: Array, covariance: Array, extra: dict[str, Array]
    ):
        self.likelihood, self.latent_mean, self.covariance = likelihood, mean, covariance
        self.extra = extra
        at_mean = self._at(mean)
        super().__init__(batch_shape=at_mean.batch_shape, event_shape=at_mean.event_shape)

    @property
    def support(self) -> constraints.Constraint | None:
        return self._at(self.latent_mean).support

    def _at(self, f: Array) -> Distribution:
        return self.likelihood.distribution(eta(self.likelihood, f), **self.extra)

    def log_prob(self, value: Array) -> Array:
        """E[log p(y | f)], by quadrature."""

        def log_density(f):
            return self._at(f).log_prob(value)

        # One node at a time, to save memory: there may be many rows.
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
    """(Q, C) nodes and (Q,) weights under N(0, I) for log densities, which are smooth."""
    if C > 2:
        return sobol(C, 128)
    return product_rule(*np.polynomial.hermite_e.hermegauss(20 if C == 1 else 10), C)


def _inducing_points(
    inducing: int | ArrayLike, X: np.ndarray, columns: tuple[str, ...] | None
) -> np.ndarray:
    """Inducing points, (m, d): as given, or for a number m the centers of k-means."""
    if not isinstance(inducing, int | np.integer):
        Z = np.asarray(validation.inputs(inducing, "inducing", columns)[0])
        if Z.shape[1] != X.shape[1]:
            raise ValueError(
                f"inducing has {Z.shape[1]} columns but X has {X.shape[1]}; give points like those."
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
