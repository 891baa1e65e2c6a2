"""One linear regression, its closed form and its model by hand, which several tests share."""

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from scipy.stats import multivariate_normal

import bayeskern as bk
from bayeskern import priors

rng = np.random.default_rng(0)
N, P = 60, 3
X = rng.normal(size=(N, P)) * [1.0, 10.0, 0.1] + [0.0, 50.0, 3.0]
TRUE = np.array([1.0, 0.2, -3.0])
Y = 2.0 + X @ TRUE + rng.normal(size=N)
NEW = X[:5] + 0.3


def fit(model, *data, method="exact", **options):
    return bk.infer(model, *(data or (X, Y)), method=method, progress=False, **options)


def blr(**options):
    return bk.BayesianLinearRegression(**options)


def gaussian(scale, level, noise, X=X, Y=Y):
    """Mean and covariance of [intercept, weights] and the log evidence, in function space."""
    Z, sd = np.column_stack([np.ones(len(X)), X]), np.append(level, scale)
    K = (Z * sd**2) @ Z.T + noise * np.eye(len(X))
    cross = (Z * sd**2).T
    covariance = np.diag(sd**2) - cross @ np.linalg.solve(K, cross.T)
    evidence = multivariate_normal(np.zeros(len(X)), K).logpdf(Y)
    return cross @ np.linalg.solve(K, Y), covariance, evidence


SCALES = np.array([2.0, 0.5, 10.0])
KNOWN = {
    "prior": priors.Gaussian(SCALES),
    "intercept": dist.Normal(0.0, 5.0),
    "noise_variance": 0.8,
}
INFERRED = {"noise_variance": bk.from_sd(dist.HalfNormal(3.0)), "intercept": dist.Normal(0.0, 5.0)}


def plain(X, y, scale=SCALES):
    noise = numpyro.sample("noise", bk.from_sd(dist.HalfNormal(3.0)))
    weights = numpyro.sample("weights", dist.Normal(0.0, scale).to_event(1))
    intercept = numpyro.sample("intercept", dist.Normal(0.0, 5.0))
    numpyro.sample("y", dist.Normal(intercept + X @ weights, jnp.sqrt(noise)), obs=y)
