"""Log joint density of generalized linear models with every likelihood against SciPy."""

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from numpyro.infer.util import log_density
from scipy import stats

import bayeskern as bk
from tests.likelihoods.families import SEVERAL, of_each_family

X = np.array([[0.1, 1.0], [0.4, 0.2], [0.9, 0.5], [1.7, 0.0], [0.3, 2.0], [1.0, 1.0]])


def log_joint(model, X, y, values, extra):
    prepared, args = model.prepare(X, y, **extra)
    return float(log_density(prepared, args, {}, values)[0])


@of_each_family
def test_log_joint_density_is_prior_times_density_of_scipy(case):
    # All above 0, so that every link has a mean.
    weights, intercept = np.array([0.7, 0.4]), 0.2
    y = np.resize(case.values, len(X))
    if "trials" in case.extra:
        y = np.minimum(y, case.extra["trials"])
    model = bk.BayesianGLM(case.likelihood, prior_sd=1.5, intercept=dist.Normal(0.3, 2.0))
    values = {"weights": jnp.asarray(weights), "intercept": jnp.asarray(intercept)}
    found = log_joint(model, X, y, values, case.extra)
    prior = stats.norm(0.0, 1.5).logpdf(weights).sum() + stats.norm(0.3, 2.0).logpdf(intercept)
    likelihood = case._replace(predictor=X @ weights + intercept).log_density(y)
    np.testing.assert_allclose(found, prior + np.sum(likelihood), rtol=1e-10)


@pytest.mark.parametrize("name", SEVERAL)
def test_log_joint_density_of_several_predictors(name):
    likelihood, _, y = SEVERAL[name]
    rows = X[: len(y)]
    outputs = likelihood.outputs
    weights = np.array([[0.7, 0.4], [-0.2, 0.5], [0.1, -0.9]])[: outputs or 1]
    intercept = np.array([0.2, -0.1, 0.6])[: outputs or 1]
    eta = rows @ weights.T
    if likelihood.takes_intercept:
        model = bk.BayesianGLM(likelihood, prior_sd=1.5, intercept=dist.Normal(0.3, 2.0))
        values = {"intercept": jnp.asarray(intercept)}
        prior, eta = stats.norm(0.3, 2.0).logpdf(intercept).sum(), eta + intercept
    else:
        model = bk.BayesianGLM(likelihood, prior_sd=1.5, intercept=False)
        values, prior = {}, 0.0
    if outputs is None:
        weights, eta = weights[0], eta[:, 0]
    labels = y if likelihood.classes is None else np.array(likelihood.classes)[y]
    found = log_joint(model, rows, labels, {"weights": jnp.asarray(weights), **values}, {})
    density = likelihood.distribution(jnp.asarray(eta)).log_prob(jnp.asarray(y))
    prior += stats.norm(0.0, 1.5).logpdf(weights).sum()
    np.testing.assert_allclose(found, prior + np.sum(density), rtol=1e-10)
