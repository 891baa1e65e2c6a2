"""Gaussian processes for many rows: their values at a few inducing points, and minibatches."""

from __future__ import annotations

import dataclasses
from functools import cache
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro.distributions import Distribution

from bayeskern.core import validation
from bayeskern.gp.latent.log_likelihood import count_latents, eta
from bayeskern.gp.latent.model import LatentGP
from bayeskern.gp.latent.posterior import ConditionedLatent
from bayeskern.gp.latent.process import LatentProcess
from bayeskern.gp.latent.quadrature import covariance_roots, product_rule, sample_responses, sobol
from bayeskern.linalg import SOLVERS, Solver

# Nodes for the average of a log density over one latent function, over each of two, and over more.
NODES_1D, NODES_2D, SOBOL_POINTS = 20, 10, 128


class SparseGP(LatentGP):
    """A `LatentGP` for many rows, through its values u at m inducing points.

    n rows cost O(n m^2), not O(n^3). Each y_i counts with E[log p(y_i | f_i)] under the prior of
    f_i given u, so that the density of this model is a lower bound of that of the whole process,
    and full-rank SVI on it is the sparse variational Gaussian process. A verdict on its posterior
    speaks of this model; that the inducing points are enough is seen by adding more. Sites are
    those of `LatentGP`, `white` being that of u.

    Args:
        kernel: As in `LatentGP`.
        likelihood: As in `LatentGP`.
        mean: As in `LatentGP`.
        integrate: Not used: u is always kept.
        columns: The columns of the data frame it was fitted to; set by `prepare`.
        inducing: How many inducing points, found by k-means, or the points, shape (m, d).
        batch: How many rows SVI looks at in each step; None for all.

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

    # Each costs O(m^3) only.
    most_draws: ClassVar[int] = 1000

    inducing: Any = eqx.field(default=100, kw_only=True)
    batch: int | None = eqx.field(static=True, default=None, kw_only=True)

    def __call__(self, X, y=None, extra: dict | None = None, **extras):
        if isinstance(self.inducing, int):
            # NumPyro's own inference traces the model, though the data are known.
            with jax.ensure_compile_time_eval():
                model, args = self.prepare(X, y, **(extra or {}), **extras)
            return model(*args)
        likelihood, kernels, mean = self.sample_parameters()
        shape = (count_latents(likelihood), len(self.inducing))
        site_shape = shape if likelihood.outputs else shape[1:]
        normal = dist.Normal().expand(site_shape).to_event(len(site_shape))
        white = numpyro.sample("white", normal)
        given = (self.inducing, likelihood, mean, self._inducing_extra)
        process = LatentProcess(kernels, *given, solver="dense")
        u = ConditionedLatent.noise_free(process, white.reshape(shape))
        n = X.shape[0]
        with numpyro.plate("rows", n, subsample_size=self.batch) as rows:
            batch_extra = {name: value[rows] for name, value in (extra or {}).items()}
            observed = ExpectedLogLikelihood(likelihood, *u.moments(X[rows]), batch_extra)
            return numpyro.sample("y", observed, obs=None if y is None else y[rows])

    def for_method(self, name: str) -> SparseGP:
        return self

    def _solver_for(self, X) -> Solver:
        if self.solver not in ("auto", "dense"):
            raise ValueError(
                f"solver={self.solver!r} does not fit: the only covariance matrix is that of the "
                "inducing points, which is dense. Leave solver='auto', or take LatentGP."
            )
        return SOLVERS["dense"]

    def prepare(self, X, y=None, **extra):
        """As `LatentGP.prepare`; finds the inducing points too."""
        model, (X, y, extra) = super().prepare(X, y, **extra)
        Z = _inducing_points(self.inducing, np.asarray(X), model.columns or self.columns)
        if self.batch is not None:
            validation.positive_integer(self.batch, "batch")
        batch = None if self.batch is None else min(self.batch, X.shape[0])
        return dataclasses.replace(model, inducing=jnp.asarray(Z), batch=batch), (X, y, extra)

    def predictive(
        self, draws: dict, data: tuple, X_new, latent: bool = False, seed: int = 0, **extra
    ):
        inducing_data = (self.inducing, None, self._inducing_extra)
        return super().predictive(draws, inducing_data, X_new, latent, seed, **extra)

    def prior_predictive(self, X, y=None, draws: int = 1000, seed: int = 0, **extra):
        without_batches = dataclasses.replace(self, batch=None)
        return super(SparseGP, without_batches).prior_predictive(X, y, draws, seed, **extra)

    @property
    def _inducing_extra(self) -> dict[str, float]:
        """What the likelihood needs beside y, at inducing points, where nothing is observed."""
        return dict.fromkeys(self.likelihood.needs, 1.0)


class ExpectedLogLikelihood(Distribution):
    """y ~ likelihood(f), f Gaussian; its log density is averaged over f, not its density.

    mean: (C, n); covariance: (C, C, n), at each row.
    """

    def __init__(self, likelihood, mean, covariance, extra):
        self.likelihood, self.latent_mean, self.covariance = likelihood, mean, covariance
        self.extra = extra
        at_mean = self._at(mean)
        super().__init__(batch_shape=at_mean.batch_shape, event_shape=at_mean.event_shape)

    @property
    def support(self):
        return self._at(self.latent_mean).support

    def _at(self, f):
        return self.likelihood.distribution(eta(self.likelihood, f), **self.extra)

    def log_prob(self, value):
        """E[log p(y | f)], by quadrature."""
        roots = covariance_roots(self.covariance)

        def add(total, node):
            z, w = node
            f = self.latent_mean + jnp.einsum("cdn,d->cn", roots, z)
            return total + w * self._at(f).log_prob(value), None

        nodes = jax.tree.map(jnp.asarray, _nodes(self.latent_mean.shape[0]))
        return jax.lax.scan(add, jnp.zeros(self.batch_shape), nodes)[0]

    def sample(self, key, sample_shape=()):
        key_f, key_y = jax.random.split(key)
        roots = covariance_roots(self.covariance)
        white = jax.random.normal(key_f, (*sample_shape, *self.latent_mean.shape))
        f = self.latent_mean + jnp.einsum("cdn,...dn->...cn", roots, white)
        return sample_responses(self.likelihood, f, self.extra, key_y)


@cache
def _nodes(C: int) -> tuple[np.ndarray, np.ndarray]:
    """(Q, C) nodes and (Q,) weights under N(0, I)."""
    if C > 2:
        return sobol(C, SOBOL_POINTS)
    return product_rule(*np.polynomial.hermite_e.hermegauss(NODES_1D if C == 1 else NODES_2D), C)


def _inducing_points(inducing, X, columns) -> np.ndarray:
    """The inducing points, (m, d): as given, or for a number m the centers that k-means finds."""
    if not isinstance(inducing, int | np.integer):
        Z = np.asarray(validation.inputs(inducing, "inducing", columns)[0])
        if Z.shape[1] != X.shape[1]:
            raise ValueError(
                f"inducing has {Z.shape[1]} columns but X has {X.shape[1]}; give points like those."
            )
        return Z
    # Here, since scikit-learn takes a while to import.
    from sklearn.cluster import MiniBatchKMeans

    count = validation.positive_integer(inducing, "inducing")
    distinct = np.unique(X, axis=0)
    if count >= len(distinct):
        return distinct
    scale = np.std(X, axis=0)
    scale = np.where(scale > 0, scale, 1.0)
    clustering = MiniBatchKMeans(count, random_state=0, n_init=3).fit(X / scale)
    return clustering.cluster_centers_ * scale
