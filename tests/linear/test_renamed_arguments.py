"""A number as `prior=` or `noise=` of a linear model, and the new names of both."""

import dataclasses
import warnings

import numpy as np
import numpyro.distributions as dist
import pytest

import bayeskern as bk
from bayeskern import likelihoods, priors
from tests.linear.regression_data import NEW, SCALES, X, blr, fit, gaussian

LEVEL = {"intercept": dist.Normal(0.0, 5.0)}
PRIOR = "a standard deviation as prior= is deprecated.*write prior_sd="
NOISE = "a variance as noise= is deprecated.*write noise_variance="
BINARY = X[:, 0] > 0.0


def test_new_names_give_the_closed_form_without_a_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        posterior = fit(blr(prior_sd=SCALES, noise_variance=0.8, **LEVEL))
    mean, _, evidence = gaussian(SCALES, 5.0, 0.8)
    np.testing.assert_allclose(posterior.log_evidence.value, evidence, rtol=1e-10)
    expected = mean[0] + NEW @ mean[1:]
    np.testing.assert_allclose(posterior.predict(NEW).mean, expected, rtol=1e-9)


def test_old_names_warn_and_give_the_same_numbers():
    with pytest.warns(FutureWarning, match=PRIOR), pytest.warns(FutureWarning, match=NOISE):
        old = blr(prior=SCALES, noise=0.8, **LEVEL)
    new = blr(prior_sd=SCALES, noise_variance=0.8, **LEVEL)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # Copies of the model do not warn again.
        before, after = (fit(model, seed=0) for model in (old, new))
    np.testing.assert_array_equal(before.flat["weights"], after.flat["weights"])
    assert before.log_evidence.value == after.log_evidence.value


@pytest.mark.slow
def test_old_prior_of_a_glm_warns_and_gives_the_same_mode():
    with pytest.warns(FutureWarning, match=PRIOR):
        old = bk.BayesianGLM(likelihoods.Bernoulli(), prior=0.3)
    new = bk.BayesianGLM(likelihoods.Bernoulli(), prior_sd=0.3)
    modes = [fit(model, X, BINARY, method="map").flat["weights"] for model in (old, new)]
    np.testing.assert_array_equal(*modes)


@pytest.mark.parametrize("value", [dist.InverseGamma(2.0, 1.0), bk.Free(1.0), np.float64(0.5)])
def test_every_kind_of_variance_warns_as_noise(value):
    with pytest.warns(FutureWarning, match=NOISE):
        old = blr(noise=value)
    assert repr(old) == repr(blr(noise_variance=value))


@pytest.mark.parametrize(
    "make",
    [
        lambda: blr(prior=2.0),
        lambda: blr(noise=2.0),
        lambda: bk.BayesianGLM(likelihoods.Bernoulli(), prior=2.0),
    ],
)
def test_warning_points_at_the_line_of_the_user(make):
    with pytest.warns(FutureWarning) as caught:
        make()
    # `blr` stands in the file of the data, which is the user of the package here.
    assert caught[0].filename.endswith((__file__, "regression_data.py"))


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
