"""`prior_sd` and `noise_variance` of a linear model, beside `prior` and `noise`."""

import dataclasses

import numpy as np
import numpyro.distributions as dist
import pytest

import bayeskern as bk
from bayeskern import likelihoods, priors
from tests.linear.regression_data import NEW, SCALES, blr, fit, gaussian

LEVEL = {"intercept": dist.Normal(0.0, 5.0)}


def test_sd_and_variance_give_the_closed_form():
    posterior = fit(blr(prior_sd=SCALES, noise_variance=0.8, **LEVEL))
    mean, _, evidence = gaussian(SCALES, 5.0, 0.8)
    np.testing.assert_allclose(posterior.log_evidence.value, evidence, rtol=1e-10)
    expected = mean[0] + NEW @ mean[1:]
    np.testing.assert_allclose(posterior.predict(NEW).mean, expected, rtol=1e-9)


def test_scale_of_the_prior_can_be_inferred():
    model = blr(prior_sd=dist.HalfNormal(3.0), noise_variance=bk.from_sd(dist.HalfNormal(1.0)))
    assert repr(model.prior) == repr(priors.Gaussian(dist.HalfNormal(3.0)))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"prior": priors.Flat(), "prior_sd": 2.0}, "prior and prior_sd both set.*give one"),
        ({"prior": 1.0, "prior_sd": 2.0}, "prior and prior_sd both set.*give one"),
        ({"noise": 1.0, "noise_variance": 2.0}, "noise and noise_variance both set.*give one"),
        (
            {"noise": likelihoods.StudentT(), "noise_variance": 2.0},
            "noise and noise_variance both set.*give one",
        ),
        ({"prior": 2.0}, "prior must be.*got float.*write prior_sd=2.0"),
        ({"noise": 0.5}, "noise must be.*got float.*write noise_variance=0.5"),
        ({"noise": dist.InverseGamma(2.0, 1.0)}, "noise must be.*got InverseGamma.*noise_variance"),
        ({"prior_sd": priors.Flat()}, r"Write prior=Flat\(\)"),
        ({"prior_sd": dist.Normal(0.0, 1.0)}, "prior_sd must be positive.*reaches below 0"),
        ({"prior_sd": -1.0}, "prior_sd must be positive and finite, got -1.0"),
        ({"prior_sd": np.nan}, "prior_sd must be positive and finite, got nan"),
        ({"prior_sd": "wide"}, "prior_sd must be a number.*got str"),
        ({"noise_variance": likelihoods.StudentT()}, r"Write noise=StudentT"),
        ({"noise_variance": 0.0}, "noise_variance must be positive and finite, got 0.0"),
        ({"noise_variance": "loud"}, "noise_variance must be a number.*got str"),
    ],
)
def test_mistakes_are_refused(options, message):
    with pytest.raises((TypeError, ValueError), match=message):
        blr(**options)


def test_copy_with_another_prior():
    model = blr(prior_sd=2.0, noise_variance=0.5)
    flat = dataclasses.replace(model, prior=priors.Flat())
    assert repr(flat) == repr(blr(prior=priors.Flat(), noise_variance=0.5))
