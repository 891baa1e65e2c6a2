"""Coaching in eight schools: effects measured with known standard errors.

Rubin (1981), "Estimation in parallel randomized experiments", Journal of Educational Statistics 6,
377-401; Gelman et al. (2013), Bayesian Data Analysis, section 5.5. Two models have the same
posterior of mu, tau and theta. The centred `model` has a funnel where tau is small, so that no
Gaussian fits it, and NUTS diverges unless it changes the form (`NUTS(centring=True)`, the default).
`problem()` uses the other model, `noncentred`. The posterior means are 4.4 for mu and 3.6 for tau
(posteriordb, eight_schools_noncentered): the schools differ less than the measured effects suggest,
and a measured effect of 28 is estimated as 6.
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
    """The centred model: theta ~ N(mu, tau^2)."""
    mu = numpyro.sample("mu", dist.Normal(0.0, 5.0))
    tau = numpyro.sample("tau", dist.HalfCauchy(5.0))
    with numpyro.plate("school", len(standard_error)):
        theta = numpyro.sample("theta", dist.Normal(mu, tau))
        numpyro.sample("effect", dist.Normal(theta, standard_error), obs=effect)


def noncentred(effect, standard_error):
    """Non-centred model: theta = mu + tau * standardised, standardised ~ N(0, 1)."""
    mu = numpyro.sample("mu", dist.Normal(0.0, 5.0))
    tau = numpyro.sample("tau", dist.HalfCauchy(5.0))
    with numpyro.plate("school", len(standard_error)):
        standardised = numpyro.sample("standardised", dist.Normal(0.0, 1.0))
        theta = numpyro.deterministic("theta", mu + tau * standardised)
        numpyro.sample("effect", dist.Normal(theta, standard_error), obs=effect)


def problem():
    """The effects by school, under the non-centred model."""
    coords = {"school": list("ABCDEFGH")}
    return bk.Problem(noncentred, data(), coords)
