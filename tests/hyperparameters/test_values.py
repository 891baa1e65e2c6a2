"""The values that a hyperparameter may take, and priors on standard deviations."""

import jax
import numpy as np
import numpyro.distributions as dist
import pytest
from scipy import stats

from bayeskern.kernels import (
    RBF,
    Free,
    from_sd,
)


@pytest.mark.parametrize(
    "value", ["long", "1.5", None, object(), [1.0, "a"], [[1.0], [1.0, 2.0]], 1j]
)
def test_what_is_no_hyperparameter(value):
    with pytest.raises(
        TypeError, match="must be a number, an array, a NumPyro distribution or Free"
    ):
        RBF(lengthscale=value)
    with pytest.raises(TypeError, match="init must be a number"):
        Free(value)


@pytest.mark.parametrize(
    ("prior", "density"),
    [
        (dist.HalfNormal(0.5), stats.halfnorm(scale=0.5)),
        (dist.Gamma(2.0, 3.0), stats.gamma(2.0, scale=1 / 3)),
        (dist.Exponential(1.5), stats.expon(scale=1 / 1.5)),
    ],
    ids=lambda p: type(p).__name__,
)
def test_from_sd(prior, density):
    variance = np.array([1e-3, 0.1, 0.7, 4.0])
    sd = np.sqrt(variance)
    expected = density.logpdf(sd) - np.log(2 * sd)
    np.testing.assert_allclose(from_sd(prior).log_prob(variance), expected, rtol=1e-12)
    key = jax.random.key(0)
    np.testing.assert_allclose(
        from_sd(prior).sample(key, (5,)), prior.sample(key, (5,)) ** 2, rtol=1e-14
    )


def test_from_sd_of_a_lognormal():
    # log v = 2 log s ~ N(2 mu, 2 sigma)
    v = np.array([0.01, 0.5, 3.0])
    expected = stats.lognorm(2 * 0.4, scale=np.exp(2 * 0.3)).logpdf(v)
    np.testing.assert_allclose(from_sd(dist.LogNormal(0.3, 0.4)).log_prob(v), expected, rtol=1e-12)


def test_from_sd_wants_a_prior_on_the_positive_numbers():
    for bad in (dist.Normal(0.0, 1.0), dist.Uniform(0.0, 1.0), 0.3):
        with pytest.raises(
            ValueError, match="from_sd needs a distribution on the positive numbers"
        ):
            from_sd(bad)


@pytest.mark.parametrize(
    "prior", [dist.Normal(0.0, 1.0), dist.Uniform(-1.0, 1.0)], ids=["Normal", "Uniform"]
)
def test_a_prior_that_reaches_below_0_is_no_prior_on_a_scale(prior):
    with pytest.raises(ValueError, match="lengthscale must be positive.* reaches below 0"):
        RBF(lengthscale=prior)
