"""Coaching for a test in eight schools, each effect with an error of its own.

Rubin (1981), "Estimation in parallel randomized experiments", Journal of Educational Statistics 6,
377-401; Gelman et al. (2013), Bayesian Data Analysis, section 5.5. The two models have the same
posterior of mu, tau and theta. Where tau is small the centred one has a funnel, so no Gaussian fits
it and NUTS diverges; `noncentred`, which `problem()` takes, is the remedy. Its posterior mean of mu
is 4.4 and of tau 3.6 (posteriordb, eight_schools_noncentered): the schools differ less than their
errors suggest, and an effect of 28 becomes one of 6.
"""

import numpy as np
import numpyro
import numpyro.distributions as dist

import bayeskern as bk

EFFECT = np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
STANDARD_ERROR = np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])


def data():
    """The arguments of both models."""
    return EFFECT, STANDARD_ERROR


def model(effect, standard_error):
    """theta ~ N(mu, tau^2), centred."""
    mu = numpyro.sample("mu", dist.Normal(0.0, 5.0))
    tau = numpyro.sample("tau", dist.HalfCauchy(5.0))
    with numpyro.plate("school", len(standard_error)):
        theta = numpyro.sample("theta", dist.Normal(mu, tau))
        numpyro.sample("effect", dist.Normal(theta, standard_error), obs=effect)


def noncentred(effect, standard_error):
    """theta = mu + tau * standardised, standardised ~ N(0, 1)."""
    mu = numpyro.sample("mu", dist.Normal(0.0, 5.0))
    tau = numpyro.sample("tau", dist.HalfCauchy(5.0))
    with numpyro.plate("school", len(standard_error)):
        standardised = numpyro.sample("standardised", dist.Normal(0.0, 1.0))
        theta = numpyro.deterministic("theta", mu + tau * standardised)
        numpyro.sample("effect", dist.Normal(theta, standard_error), obs=effect)


def problem():
    """The effects by school, from the model that is not centred."""
    coords = {"school": list("ABCDEFGH")}
    return bk.Problem(noncentred, data(), coords)
