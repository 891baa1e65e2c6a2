"""Values of hyperparameters, and priors on standard deviations."""

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
def test_bad_hyperparameters_are_refused(value):
    with pytest.raises(TypeError, match="must be a number, an array"):
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


def test_from_sd_needs_positive_priors():
    for bad in (dist.Normal(0.0, 1.0), dist.Uniform(0.0, 1.0), 0.3):
        with pytest.raises(ValueError, match="from_sd needs a distribution"):
            from_sd(bad)


@pytest.mark.parametrize(
    "prior", [dist.Normal(0.0, 1.0), dist.Uniform(-1.0, 1.0)], ids=["Normal", "Uniform"]
)
def test_scales_refuse_priors_with_negative_support(prior):
    with pytest.raises(ValueError, match="must be positive.* reaches below 0"):
        RBF(lengthscale=prior)
